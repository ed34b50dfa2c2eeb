"""Cuts the box of all counter values where decisions change: inside a region every decision is settled.

A decision is a comparison that some lanes of a block may answer differently. Over most of a launch all lanes agree; the
regions where they don't are single values of a counter, and few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import sympy

Span = tuple[int, int]  # first value, how many
_LIMIT = 20_000  # regions beyond which the answer is "unknown" rather than slow


class TooManyRegions(Exception):
    """Decisions couple counters so that regions can't be told apart cheaply."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`rest + Σ coefficient·counter  operator  0`, where `rest` lies in `low .. high` over the threads of a block.

    A tangled decision is not of that form in `tangled`: those counters are taken one value at a time."""

    coefficients: Mapping[sympy.Symbol, int]
    low: int
    high: int
    operator: str  # < == !=
    tangled: tuple[sympy.Symbol, ...] = ()

    def open_counters(self, box: Mapping[sympy.Symbol, Span]) -> tuple[sympy.Symbol, ...]:
        """The counters that still have several values here and matter."""
        names = (*self.tangled, *self.coefficients)
        return tuple(c for c in names if c in box and box[c][1] > 1)

    def is_settled(self, box: Mapping[sympy.Symbol, Span]) -> bool:
        """Whether all lanes give one answer over the whole box."""
        if self.tangled:
            return False  # only its own values tell
        low, high = self.low, self.high
        for counter, coefficient in self.coefficients.items():
            first, count = box[counter]
            ends = (coefficient * first, coefficient * (first + count - 1))
            low, high = low + min(ends), high + max(ends)
        if self.operator == "<":
            return high < 0 or low >= 0
        return low > 0 or high < 0 or low == high == 0


def regions(box: Mapping[sympy.Symbol, Span], decisions: tuple[Decision, ...]) -> Iterator[dict[sympy.Symbol, Span]]:
    """Boxes that together are `box`. In each, every decision is settled or has no counter left that varies."""
    budget = [_LIMIT]
    yield from _cut(dict(box), decisions, budget)


def _cut(
    box: dict[sympy.Symbol, Span], decisions: tuple[Decision, ...], budget: list[int]
) -> Iterator[dict[sympy.Symbol, Span]]:
    open_ = [d for d in decisions if d.open_counters(box) and not d.is_settled(box)]
    if not open_:
        budget[0] -= 1
        if budget[0] < 0:
            raise TooManyRegions
        yield box
        return
    alone = [d for d in open_ if len(d.open_counters(box)) == 1 and not d.tangled]
    if alone:
        (counter,) = alone[0].open_counters(box)
        mine = [d for d in alone if d.open_counters(box) == (counter,)]
        pieces = _pieces(box, counter, mine)
    else:
        candidates = {c: box[c][1] for d in open_ for c in d.open_counters(box)}
        counter = min(candidates, key=lambda c: (candidates[c], str(c)))
        first, count = box[counter]
        if count > budget[0]:
            raise TooManyRegions
        pieces = [(first + n, 1) for n in range(count)]
    for piece in pieces:
        yield from _cut({**box, counter: piece}, tuple(open_), budget)


def _pieces(box: Mapping[sympy.Symbol, Span], counter: sympy.Symbol, decisions: list[Decision]) -> list[Span]:
    """The counter's span cut where one of the decisions changes its answer; where lanes disagree, value by value."""
    first, count = box[counter]
    end = first + count
    cuts = {first, end}
    mixed: list[tuple[int, int]] = []
    for decision in decisions:
        coefficient = decision.coefficients[counter]
        others = sum(c * box[v][0] for v, c in decision.coefficients.items() if v != counter)
        low, high = decision.low + others, decision.high + others
        # Values v with low + c·v <= 0 <= high + c·v have lanes on both sides, or may have.
        edges = _edges(low, high, coefficient)
        start, stop = max(first, edges[0]), min(end, edges[1])
        if start < stop:
            mixed.append((start, stop))
        cuts.update(edge for edge in edges if first < edge < end)
    ordered = sorted(cuts)
    pieces: list[Span] = []
    for a, b in pairwise(ordered):
        if any(start <= a and b <= stop for start, stop in mixed):
            pieces += [(value, 1) for value in range(a, b)]
        else:
            pieces.append((a, b - a))
    return pieces


def _edges(low: int, high: int, coefficient: int) -> tuple[int, int]:
    """First and one past the last v for which `0` lies in `low + c·v .. high + c·v`, or has just been passed."""
    if coefficient < 0:
        low, high, coefficient = -high, -low, -coefficient
    # low + c·v <= 0  <=>  v <= floor(-low / c);   high + c·v >= 0  <=>  v >= ceil(-high / c)
    return -(high // coefficient), -low // coefficient + 1
