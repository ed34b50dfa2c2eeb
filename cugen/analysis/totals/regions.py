"""Partition of the iteration domain into boxes in which every guard is uniform over the lanes of a block.

Over most of a launch all lanes agree; boxes where they diverge are single values of a counter, and few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import sympy

from cugen.plan.symbols import Integer, Ranges, bounds

Interval = tuple[int, int]  # first value, count
_MAX_REGIONS = 20_000  # heuristic: beyond, the verdict is `unknown`
_HALVING = 4  # times the cost of a region: the bounds of a guard are computed for each half (heuristic)


class TooManyRegions(Exception):
    """The guards couple counters, so that the domain falls into too many boxes."""


@dataclass(frozen=True, slots=True)
class AffineGuard:
    """`residual + Σ coefficient·counter  operator  0`, with the residual in `low .. high` over the threads of a block.

    nonaffine: counters that enter otherwise; they are enumerated value by value.
    """

    coefficients: Mapping[sympy.Symbol, int]
    low: int
    high: int
    operator: str  # < == !=
    nonaffine: tuple[sympy.Symbol, ...] = ()

    def varying_counters(self, box: Mapping[sympy.Symbol, Interval]) -> tuple[sympy.Symbol, ...]:
        """Counters of the guard with several values in the box."""
        names = (*self.nonaffine, *self.coefficients)
        return tuple(c for c in names if c in box and box[c][1] > 1)

    def is_uniform(self, box: Mapping[sympy.Symbol, Interval]) -> bool:
        """Whether the guard has one value for all lanes over the box, where that is known."""
        if self.nonaffine:
            return False
        low, high = self.low, self.high
        for counter, coefficient in self.coefficients.items():
            first, count = box[counter]
            ends = (coefficient * first, coefficient * (first + count - 1))
            low, high = low + min(ends), high + max(ends)
        if self.operator == "<":
            return high < 0 or low >= 0
        return low > 0 or high < 0 or low == high == 0


@dataclass(frozen=True, slots=True)
class GrowingGuard:
    """`expression  <  0`, over threads and `counters`, of which some enter in quotients or extrema. It grows or falls
    with them, so that halves of the domain soon have one value."""

    expression: Integer
    counters: tuple[sympy.Symbol, ...]
    threads: Ranges

    def varying_counters(self, box: Mapping[sympy.Symbol, Interval]) -> tuple[sympy.Symbol, ...]:
        """Counters of the guard with several values in the box."""
        return tuple(c for c in self.counters if c in box and box[c][1] > 1)

    def is_uniform(self, box: Mapping[sympy.Symbol, Interval]) -> bool:
        """Whether the guard has one value for all lanes over the box, where that is known."""
        low, high = self._bounds(box)
        return high < 0 or low >= 0

    def _bounds(self, box: Mapping[sympy.Symbol, Interval]) -> tuple[int, int]:
        ranges = {counter: (box[counter][0], sum(box[counter]) - 1) for counter in self.counters}
        return bounds(self.expression, {**self.threads, **ranges})

    def widest(self, box: Mapping[sympy.Symbol, Interval]) -> sympy.Symbol:
        """The counter over whose values in the box the expression changes most."""

        def fixed_width(counter: sympy.Symbol) -> int:
            low, high = self._bounds({**box, counter: (box[counter][0], 1)})
            return high - low

        return min(self.varying_counters(box), key=lambda counter: (fixed_width(counter), str(counter)))


Guards = tuple[AffineGuard | GrowingGuard, ...]


def regions(box: Mapping[sympy.Symbol, Interval], decisions: Guards) -> Iterator[dict[sympy.Symbol, Interval]]:
    """Partition of `box`: in each part every guard is uniform, or its counters are single values."""
    budget = [_MAX_REGIONS]
    yield from _cut(dict(box), decisions, budget)


def _cut(
    box: dict[sympy.Symbol, Interval], decisions: Guards, budget: list[int]
) -> Iterator[dict[sympy.Symbol, Interval]]:
    open_ = [d for d in decisions if d.varying_counters(box) and not d.is_uniform(box)]
    if not open_:
        budget[0] -= 1
        if budget[0] < 0:
            raise TooManyRegions
        yield box
        return
    affine = [d for d in open_ if isinstance(d, AffineGuard)]
    univariate = [d for d in affine if len(d.varying_counters(box)) == 1 and not d.nonaffine]
    growing = [d for d in open_ if isinstance(d, GrowingGuard)]
    if univariate:
        (counter,) = univariate[0].varying_counters(box)
        of_counter = [d for d in univariate if d.varying_counters(box) == (counter,)]
        pieces = _pieces(box, counter, of_counter)
    elif growing:
        counter = growing[0].widest(box)
        first, count = box[counter]
        budget[0] -= _HALVING
        if budget[0] < 0:
            raise TooManyRegions
        pieces = [(first, count // 2), (first + count // 2, count - count // 2)]
    else:
        candidates = {c: box[c][1] for d in affine for c in d.varying_counters(box)}
        counter = min(candidates, key=lambda c: (candidates[c], str(c)))
        first, count = box[counter]
        if count > budget[0]:
            raise TooManyRegions
        pieces = [(first + n, 1) for n in range(count)]
    for piece in pieces:
        yield from _cut({**box, counter: piece}, tuple(open_), budget)


def _pieces(
    box: Mapping[sympy.Symbol, Interval], counter: sympy.Symbol, decisions: list[AffineGuard]
) -> list[Interval]:
    """Interval of the counter cut where a guard changes; divergent parts are cut into single values."""
    first, count = box[counter]
    end = first + count
    cuts = {first, end}
    mixed: list[tuple[int, int]] = []
    for decision in decisions:
        coefficient = decision.coefficients[counter]
        fixed = sum(c * box[v][0] for v, c in decision.coefficients.items() if v != counter)
        low, high = decision.low + fixed, decision.high + fixed
        # Values v with low + c·v <= 0 <= high + c·v may diverge.
        edges = _edges(low, high, coefficient)
        start, stop = max(first, edges[0]), min(end, edges[1])
        if start < stop:
            mixed.append((start, stop))
        cuts.update(edge for edge in edges if first < edge < end)
    ordered = sorted(cuts)
    pieces: list[Interval] = []
    for a, b in pairwise(ordered):
        if any(start <= a and b <= stop for start, stop in mixed):
            pieces += [(value, 1) for value in range(a, b)]
        else:
            pieces.append((a, b - a))
    return pieces


def _edges(low: int, high: int, coefficient: int) -> tuple[int, int]:
    """Half-open interval of the v for which `low + c·v .. high + c·v` contains 0, or has just passed it."""
    if coefficient < 0:
        low, high, coefficient = -high, -low, -coefficient
    # low + c·v <= 0  <=>  v <= floor(-low / c);   high + c·v >= 0  <=>  v >= ceil(-high / c)
    return -(high // coefficient), -low // coefficient + 1
