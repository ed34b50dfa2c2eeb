"""Parts of an iteration domain in which each Minimum and Maximum over one counter selects one operand.

The length of a block's part of a row is `Minimum(part, n - part * blockIdx.x)`: but for the last block, it is `part`.
Counted at once, it makes guards and subscripts nonaffine in the block index, so that each block would be a case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import sympy

from cugen.analysis.totals.sites import Counter, Predicate
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod, integer

_MAX_PARTS = 16  # heuristic


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
    whole = Part(site.offset, site.counters, site.predicates, site.opaque)
    if any(expression.has(Choice) for expression in whole.expressions):
        return [whole]
    pending = [whole]
    done: list[Part] = []
    while pending:
        part = pending.pop(0)
        split = _split(part) if len(pending) + len(done) < _MAX_PARTS else None
        if split is None:
            done.append(part)
        else:
            pending[:0] = split
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
        parts.append(ranged(part.replaced({extremum: before}, part.counters), counter, 0, first))
    if first < counter.count:
        behind = part.replaced({extremum: after}, part.counters)
        if first and counter.count - first > 1 and _is_nonaffine(behind, counter.symbol):
            return None
        parts.append(ranged(behind, counter, first, counter.count - first))
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


def ranged(part: Part, counter: Counter, first: int, count: int) -> Part:
    """The part over so many values of a counter; a single value replaces it."""
    if count == 1:
        counters = tuple(c for c in part.counters if c.symbol != counter.symbol)
        return part.replaced({counter.symbol: integer(first)}, counters)
    counters = tuple(replace(c, count=count) if c.symbol == counter.symbol else c for c in part.counters)
    shifted = {counter.symbol: counter.symbol + first} if first else {}
    return part.replaced(shifted, counters)
