"""The bounds of an access by evaluation at every iteration, where these are few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import sympy
from numpy.typing import NDArray

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
