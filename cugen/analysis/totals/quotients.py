"""Parts of an iteration domain in which a quotient has one value, so that it and its remainder are affine.

A read beyond a boundary of `wrap` is at `Mod(i - 1, n)`, which is `i - 1` but for the first and the last blocks.
Counted at once, it repeats after `n` values of i only, and those of several dimensions would be enumerated together.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import gcd

import sympy

from cugen.analysis.totals.selections import Part, ranged
from cugen.analysis.totals.sites import THREAD, Counter
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod, Range, Ranges, bounds, integer

_MAX_PARTS = 128  # heuristic
_MAX_QUOTIENTS = 4  # of a counter's values: a boundary has two or three (heuristic)
_MAX_ENUMERATED_PERIOD = 64  # cheaper than parts (heuristic)

_Span = tuple[int, int]  # first value of a counter, count


def parts_by_quotient(whole: Part, block: tuple[int, int, int]) -> list[Part]:
    """The parts, in the order of their counters' values. Values of a counter at which lanes differ in the quotient stay
    a part with it. The whole domain with a Choice, whose counters `enumerated` replaces."""
    if any(expression.has(Choice) for expression in whole.expressions):
        return [whole]
    pending = [whole]
    done: list[Part] = []
    while pending:
        part = pending.pop(0)
        split = _split(part, block) if len(pending) + len(done) < _MAX_PARTS else None
        if split is None:
            done.append(part)
        else:
            pending[:0] = split
    return done


def _split(part: Part, block: tuple[int, int, int]) -> list[Part] | None:
    ranges: dict[sympy.Symbol, Range] = {t: (0, size - 1) for t, size in zip(THREAD, block, strict=True)}
    ranges |= {counter.symbol: (0, counter.count - 1) for counter in part.counters}
    for divided in dict.fromkeys(e for text in part.expressions for e in sympy.preorder_traversal(text) if _is_cut(e)):
        counters = [
            c for c in part.counters if c.symbol in divided.free_symbols and c.remaining is None and c.count > 1
        ]
        for counter in sorted(counters, key=lambda c: -c.count):
            if split := _split_along(part, divided, counter, ranges):
                return split
    return None


def _is_cut(expr: Integer) -> bool:
    """Whether it is a quotient or remainder by a number, of a dividend without functions."""
    if not isinstance(expr, FloorDiv | Mod) or not expr.args[1].is_Integer:
        return False
    return not expr.args[0].has(FloorDiv, Mod, BitXor, Minimum, Maximum)


def _split_along(part: Part, divided: Integer, counter: Counter, ranges: Ranges) -> list[Part] | None:
    dividend, divisor = sympy.expand(divided.args[0]), int(divided.args[1])
    slope = dividend.coeff(counter.symbol, 1)
    rest = dividend - slope * counter.symbol
    if not slope.is_Integer or not slope or counter.symbol in rest.free_symbols or not rest.free_symbols <= set(ranges):
        return None
    if (
        counter.remaining is not None
        or min(counter.count, divisor // gcd(int(slope), divisor)) <= _MAX_ENUMERATED_PERIOD
    ):
        return None
    if any(counter.symbol in e.free_symbols for e in _others(part, divided)):
        return None
    uniform = list(_uniform(int(slope), bounds(rest, ranges), divisor, counter.count))
    if not uniform or len(uniform) > _MAX_QUOTIENTS:
        return None
    parts = []
    for span, quotient in _with_gaps(uniform, counter.count):
        known = part
        if quotient is not None:
            value = integer(quotient) if isinstance(divided, FloorDiv) else dividend - divisor * quotient
            known = part.replaced({divided: value}, part.counters)
        parts.append(ranged(known, counter, *span))
    return parts


def _others(part: Part, divided: Integer) -> Iterator[Integer]:
    """Other functions whose periods begin at the counter's 0."""
    for expression in part.expressions:
        yield from (atom for atom in expression.atoms(FloorDiv, Mod, BitXor) if atom != divided)


def _uniform(slope: int, rest: Range, divisor: int, count: int) -> Iterator[tuple[_Span, int]]:
    """The values of a counter at which `slope * counter + rest` has one quotient for all of `rest`, in ascending order,
    with that quotient; nothing if there are more than some."""
    ends = (0, slope * (count - 1))
    lowest, highest = (min(ends) + rest[0]) // divisor, (max(ends) + rest[1]) // divisor
    if highest - lowest >= _MAX_QUOTIENTS:
        return
    for quotient in range(lowest, highest + 1) if slope > 0 else range(highest, lowest - 1, -1):
        # quotient * divisor <= slope * counter + rest <= quotient * divisor + divisor - 1
        least, most = quotient * divisor - rest[0], quotient * divisor + divisor - 1 - rest[1]
        if slope < 0:
            least, most = -most, -least
        first, last = -(-least // abs(slope)), most // abs(slope)
        first, last = max(first, 0), min(last, count - 1)
        if first <= last:
            yield (first, last - first + 1), quotient


def _with_gaps(uniform: list[tuple[_Span, int]], count: int) -> Iterator[tuple[_Span, int | None]]:
    """The spans, and between them those without one quotient."""
    edges = [0, *(end for (first, size), _ in uniform for end in (first, first + size)), count]
    quotients = iter(quotient for _, quotient in uniform)
    for number, (first, end) in enumerate(pairwise(edges)):
        quotient = next(quotients) if number % 2 else None
        if first < end:
            yield (first, end - first), quotient
