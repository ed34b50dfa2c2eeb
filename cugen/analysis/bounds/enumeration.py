"""The bounds of an access by evaluation at every iteration, where these are few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.bounds.forms import Interval
from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import Predicate
from cugen.plan.symbols import Integer

MAX_ITERATIONS = 1 << 20  # heuristic: of those indices that decide, evaluated at once
_OPERATORS = {"<": np.less, "==": np.equal, "!=": np.not_equal}

_Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of so many `iterations`. `outside` has the indices of one that is outside, if there is one; `is_reached`: it is
    executed."""

    iterations: int
    outside: Mapping[sympy.Symbol, int] | None = None
    is_reached: bool = True


def evaluated(
    offset: Integer, last: Integer, predicates: Iterable[Predicate], counts: Mapping[sympy.Symbol, int]
) -> Outcome | None:
    """Whether `offset` is in 0 .. `last` wherever the predicates hold, for all values below `counts`. None where these
    are too many, or an expression has other symbols.

    Of the predicates only those count that are over the symbols of the offset, directly or through others."""
    names = offset.free_symbols | last.free_symbols
    deciding: list[Predicate] = []
    others = [predicate for predicate in predicates if _names(predicate) <= counts.keys()]
    while coupled := [predicate for predicate in others if _names(predicate) & names]:
        deciding += coupled
        others = [predicate for predicate in others if predicate not in coupled]
        names = names.union(*map(_names, coupled))
    if not names <= counts.keys():
        return None
    grid = _Grid({name: counts[name] for name in sorted(names, key=str)})
    if grid.size > MAX_ITERATIONS:
        return None
    try:
        outside = ~grid.within(offset, last)
        for predicate in deciding:
            outside = outside & grid.holds(predicate)
        if not outside.any():
            return Outcome(grid.size)
        uncoupled = _Grid({name: counts[name] for predicate in others for name in _names(predicate)})
        is_reached = uncoupled.size <= MAX_ITERATIONS and uncoupled.hold_somewhere(others)
        return Outcome(grid.size, grid.first(outside), is_reached)
    except OverflowError:
        return None


def extremes(
    expr: Integer,
    predicates: Iterable[Predicate],
    counts: Mapping[sympy.Symbol, int],
    interval: Callable[[Integer], Interval],
) -> tuple[int, Interval]:
    """How many iterations were evaluated, and bounds of an expression: the sum of those of its parts that have no
    symbol in common. A part is evaluated at all values of its symbols where predicates over these hold, if they are
    few; else `interval` bounds it."""
    terms = sympy.Add.make_args(expr)
    known = [predicate for predicate in predicates if _names(predicate) <= counts.keys()]
    iterations, low, high = 0, 0, 0
    for names in _parts(terms, known, counts):
        part = sympy.Add(
            *(term for term in terms if term.free_symbols <= names and bool(term.free_symbols) == bool(names))
        )
        grid = _Grid({name: counts[name] for name in sorted(names, key=str)}) if names <= counts.keys() else None
        if grid is None or grid.size > MAX_ITERATIONS:
            ends = interval(part)
        else:
            ends = grid.extremes(part, [predicate for predicate in known if _names(predicate) <= names])
            iterations += grid.size
        if ends[0] is None or ends[1] is None:
            return iterations, (None, None)
        low, high = low + ends[0], high + ends[1]
    return iterations, (low, high)


def _parts(
    terms: Iterable[Integer], predicates: Iterable[Predicate], counts: Mapping[sympy.Symbol, int]
) -> list[set[sympy.Symbol]]:
    """Sets of symbols, none of which a term has with one of another set. Predicates join sets while the values of their
    symbols are few. The empty set is that of the constant."""
    parts: list[set[sympy.Symbol]] = [set()]

    def join(names: set[sympy.Symbol]) -> None:
        touched = [part for part in parts if part & names]
        parts[:] = [part for part in parts if part not in touched] + [names.union(*touched)]

    for term in terms:
        if term.free_symbols:
            join(set(term.free_symbols))
    for predicate in predicates:
        names = _names(predicate)
        joined = names.union(*(part for part in parts if part & names))
        is_about = any(part & names for part in parts)
        if is_about and joined <= counts.keys() and prod(counts[name] for name in joined) <= MAX_ITERATIONS:
            join(joined)
    return parts


def _names(predicate: Predicate) -> set[sympy.Symbol]:
    return {name for difference, _ in predicate.terms for name in difference.free_symbols}


class _Grid:
    """All values of some symbols, each along an axis of its own."""

    def __init__(self, counts: Mapping[sympy.Symbol, int]) -> None:
        self.counts, self.size = counts, prod(counts.values())
        self.ranges = {name: (0, count - 1) for name, count in counts.items()}

    def values(self) -> dict[sympy.Symbol, NDArray[np.int64]]:
        axes = np.indices(tuple(self.counts.values()), np.int64, sparse=True)
        return dict(zip(self.counts, axes, strict=True))

    def within(self, offset: Integer, last: Integer) -> _Truths:
        first, final = (self._values_of(expr) for expr in (offset, last))
        return self._spread((first >= 0) & (first <= final))

    def holds(self, predicate: Predicate) -> _Truths:
        truths: _Truths = np.ones((), np.bool_)
        for difference, operator in predicate.terms:
            truths = truths & _OPERATORS[operator](self._values_of(difference), 0)
        return self._spread(~truths if predicate.negated else truths)

    def extremes(self, expr: Integer, predicates: Iterable[Predicate]) -> Interval:
        """The least and the greatest value where predicates hold; 0 where they never do."""
        try:
            truths = self._spread(np.ones((), np.bool_))
            for predicate in predicates:
                truths = truths & self.holds(predicate)
            values = np.broadcast_to(self._values_of(expr), truths.shape)[truths]
        except OverflowError:
            return None, None
        return (int(values.min()), int(values.max())) if values.size else (0, 0)

    def hold_somewhere(self, predicates: Iterable[Predicate]) -> bool:
        truths = self._spread(np.ones((), np.bool_))
        for predicate in predicates:
            truths = truths & self.holds(predicate)
        return bool(truths.any())

    def first(self, truths: _Truths) -> dict[sympy.Symbol, int]:
        return dict(zip(self.counts, map(int, np.argwhere(truths)[0]), strict=True))

    def _values_of(self, expr: Integer) -> NDArray[np.int64]:
        return np.asarray(evaluator(expr, self.ranges)(self.values()), np.int64)

    def _spread(self, truths: _Truths) -> _Truths:
        return np.broadcast_to(truths, tuple(self.counts.values()))
