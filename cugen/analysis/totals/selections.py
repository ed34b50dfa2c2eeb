"""Parts of an iteration domain in which each Minimum and Maximum over one counter selects one operand, and quotients
have one value.

The length of a block's part of a row is `Minimum(part, n - part * blockIdx.x)`: but for the last block, it is `part`.
Counted at once, it makes guards and subscripts nonaffine in the block index, so that each block would be a case.

A read beyond a boundary of `wrap` is at `Mod(i - 1, n)`, which is `i - 1` but for the first and the last blocks.
Counted at once, it repeats after `n` values of i only, and those of several dimensions would be enumerated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd
from typing import Protocol

import sympy

from cugen.analysis.totals.sites import THREAD, Counter, Predicate
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod, Range, Ranges, bounds, integer

_MAX_PARTS = 16  # heuristic
_MAX_QUOTIENT_PARTS = 128  # heuristic
_MAX_QUOTIENTS = 4  # of a counter's values: a boundary has two or three (heuristic)
_MAX_ENUMERATED_PERIOD = 64  # cheaper than parts (heuristic)

_Span = tuple[int, int]  # first value of a counter, count


class Countable(Protocol):
    """Access function with its iteration domain: a `Site`, or a program point without an access."""

    @property
    def offset(self) -> Integer: ...

    @property
    def counters(self) -> tuple[Counter, ...]: ...

    @property
    def predicates(self) -> tuple[Predicate, ...]: ...

    @property
    def opaque(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the iteration domain of an access; its counters run from 0."""

    offset: Integer
    counters: tuple[Counter, ...]
    predicates: tuple[Predicate, ...]
    opaque: str = ""

    @property
    def expressions(self) -> tuple[Integer, ...]:
        """The subscript and the differences of guards."""
        return (self.offset, *(difference for predicate in self.predicates for difference, _ in predicate.terms))

    def replaced(self, values: dict[Integer, Integer], counters: tuple[Counter, ...]) -> Part:
        """The part with some expressions replaced, over other counters."""
        predicates = tuple(
            replace(predicate, terms=tuple((difference.xreplace(values), name) for difference, name in predicate.terms))
            for predicate in self.predicates
        )
        return replace(self, offset=self.offset.xreplace(values), counters=counters, predicates=predicates)


def parts_by_selection(site: Countable) -> list[Part]:
    """The parts, in the order of their counters' values; the whole domain where nothing is to be selected, or with a
    Choice, whose counters `enumerated` replaces."""
    return _parts(Part(site.offset, site.counters, site.predicates, site.opaque), _split, _MAX_PARTS)


def _parts(whole: Part, split: Callable[[Part], list[Part] | None], max_parts: int) -> list[Part]:
    """The domain, split again and again, while there are fewer parts than so many."""
    if any(expression.has(Choice) for expression in whole.expressions):
        return [whole]
    pending = [whole]
    done: list[Part] = []
    while pending:
        part = pending.pop(0)
        parts = split(part) if len(pending) + len(done) < max_parts else None
        if parts is None:
            done.append(part)
        else:
            pending[:0] = parts
    return done


def _split(part: Part) -> list[Part] | None:
    """The parts on both sides of the value from which an extremum selects its other operand; None if there is none."""
    extrema = dict.fromkeys(e for text in part.expressions for e in sympy.preorder_traversal(text) if _is_extremum(e))
    for extremum in extrema:
        for counter in part.counters:
            if extremum.free_symbols == {counter.symbol} and counter.count:
                split = _split_at(part, extremum, counter)
                if split is not None:
                    return split
    return None


def _is_extremum(expr: Integer) -> bool:
    """Whether it is a Minimum or Maximum, and innermost."""
    return isinstance(expr, Minimum | Maximum) and not any(arg.has(Minimum, Maximum) for arg in expr.args)


def _split_at(part: Part, extremum: Integer, counter: Counter) -> list[Part] | None:
    less, greater = extremum.args
    slope, constant = _line(less - greater, counter.symbol)
    if slope < 0:
        less, greater, slope, constant = greater, less, -slope, -constant
    if not slope:
        return None
    # less < greater  <=>  slope * counter + constant < 0
    first = min(max(-(constant // slope), 0), counter.count)
    before, after = (less, greater) if isinstance(extremum, Minimum) else (greater, less)
    parts = []
    if first:
        parts.append(_range(part.replaced({extremum: before}, part.counters), counter, 0, first))
    if first < counter.count:
        behind = part.replaced({extremum: after}, part.counters)
        if first and counter.count - first > 1 and _is_nonaffine(behind, counter.symbol):
            return None
        parts.append(_range(behind, counter, first, counter.count - first))
    return parts


def _line(difference: Integer, symbol: sympy.Symbol) -> tuple[int, int]:
    """(slope, constant) of an affine expression; slope 0 for any other."""
    expanded = sympy.expand(difference)
    slope = expanded.coeff(symbol, 1)
    constant = expanded - slope * symbol
    if not (slope.is_Integer and constant.is_Integer):
        return 0, 0
    return int(slope), int(constant)


def _is_nonaffine(part: Part, symbol: sympy.Symbol) -> bool:
    """Whether the symbol is inside a quotient, remainder or the like, whose periods begin at 0."""
    functions = (FloorDiv, Mod, BitXor, Choice, Minimum, Maximum)
    return any(symbol in atom.free_symbols for text in part.expressions for atom in text.atoms(*functions))


def _range(part: Part, counter: Counter, first: int, count: int) -> Part:
    """The part over so many values of a counter; a single value replaces it."""
    if count == 1:
        counters = tuple(c for c in part.counters if c.symbol != counter.symbol)
        return part.replaced({counter.symbol: integer(first)}, counters)
    counters = tuple(replace(c, count=count) if c.symbol == counter.symbol else c for c in part.counters)
    shifted = {counter.symbol: counter.symbol + first} if first else {}
    return part.replaced(shifted, counters)


def parts_by_quotient(whole: Part, block: tuple[int, int, int]) -> list[Part]:
    """The parts, in the order of their counters' values. Values of a counter at which lanes differ in the quotient stay
    a part with it. The whole domain with a Choice, whose counters `enumerated` replaces."""
    return _parts(whole, lambda part: _split_by_quotient(part, block), _MAX_QUOTIENT_PARTS)


def _split_by_quotient(part: Part, block: tuple[int, int, int]) -> list[Part] | None:
    ranges: dict[sympy.Symbol, Range] = {t: (0, size - 1) for t, size in zip(THREAD, block, strict=True)}
    ranges |= {counter.symbol: (0, counter.count - 1) for counter in part.counters}
    for divided in dict.fromkeys(e for text in part.expressions for e in sympy.preorder_traversal(text) if _is_cut(e)):
        counters = [counter for counter in part.counters if counter.symbol in divided.free_symbols]
        for counter in sorted(counters, key=lambda counter: -counter.count):
            if split := _split_quotient(part, divided, counter, ranges):
                return split
    return None


def _is_cut(expr: Integer) -> bool:
    """Whether it is a quotient or remainder by a number, of a dividend without functions."""
    if not isinstance(expr, FloorDiv | Mod) or not expr.args[1].is_Integer:
        return False
    return not expr.args[0].has(FloorDiv, Mod, BitXor, Minimum, Maximum)


def _split_quotient(part: Part, divided: Integer, counter: Counter, ranges: Ranges) -> list[Part] | None:
    dividend, divisor = sympy.expand(divided.args[0]), int(divided.args[1])
    slope = dividend.coeff(counter.symbol, 1)
    addend = dividend - slope * counter.symbol
    if (
        not slope.is_Integer
        or not slope
        or counter.symbol in addend.free_symbols
        or not addend.free_symbols <= set(ranges)
    ):
        return None
    period = min(counter.count, divisor // gcd(int(slope), divisor))
    if counter.remaining is not None or period <= _MAX_ENUMERATED_PERIOD:
        return None
    if any(counter.symbol in e.free_symbols for e in _others(part, divided)):
        return None
    uniform = list(_uniform(int(slope), bounds(addend, ranges), divisor, counter.count))
    if not uniform or len(uniform) > _MAX_QUOTIENTS:
        return None
    parts = []
    for span, quotient in _with_gaps(uniform, counter.count):
        known = part
        if quotient is not None:
            value = integer(quotient) if isinstance(divided, FloorDiv) else dividend - divisor * quotient
            known = part.replaced({divided: value}, part.counters)
        parts.append(_range(known, counter, *span))
    return parts


def _others(part: Part, divided: Integer) -> Iterator[Integer]:
    """Other functions whose periods begin at the counter's 0."""
    for expression in part.expressions:
        yield from (atom for atom in expression.atoms(FloorDiv, Mod, BitXor) if atom != divided)


def _uniform(slope: int, addend: Range, divisor: int, count: int) -> Iterator[tuple[_Span, int]]:
    """The values of a counter at which `slope * counter + addend` has one quotient for all of `addend`, in ascending
    order, with that quotient; nothing if there are more than some."""
    ends = (0, slope * (count - 1))
    lowest, highest = (min(ends) + addend[0]) // divisor, (max(ends) + addend[1]) // divisor
    if highest - lowest >= _MAX_QUOTIENTS:
        return
    for quotient in range(lowest, highest + 1) if slope > 0 else range(highest, lowest - 1, -1):
        # quotient * divisor <= slope * counter + addend <= quotient * divisor + divisor - 1
        low, high = quotient * divisor - addend[0], quotient * divisor + divisor - 1 - addend[1]
        if slope < 0:
            low, high = -high, -low
        first, last = -(-low // abs(slope)), high // abs(slope)
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
