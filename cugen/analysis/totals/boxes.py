"""Boxes that TMA copies over a launch: how many there are with each extent inside the array.

A coordinate of a box depends on few counters, those of an output tile or of a k-tile. Counters that no coordinate and
no guard couples are enumerated apart, and the counts of their values multiply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.box_parts import CountedBoxes, Part, tiled_boxes
from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.pixel_boxes import pixel_boxes
from cugen.analysis.totals.sites import THREAD, Predicate, Site
from cugen.machine.requests.boxes import BoxExtents, Extent
from cugen.machine.requests.warp import SECTOR_BYTES, WARP_SIZE
from cugen.plan.memory import Access
from cugen.plan.pipeline_nodes import TensorLoad

_MAX_VALUES = 1 << 20  # heuristic: of coupled counters, that are enumerated
_OPERATORS = {"<": np.less, "==": np.equal, "!=": np.not_equal}

_Numbers = NDArray[np.int64]
_Names = frozenset[sympy.Symbol]
_Case = tuple[tuple[int, Hashable], ...]  # of some parts of the coordinates


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes with equal extents, the innermost dimension last, and their number over a launch."""

    extents: BoxExtents
    count: int


def boxes(
    site: Site, mapped: Access, block: tuple[int, int, int], start: int = 0, budget: Budget | None = None
) -> tuple[Boxes, ...]:
    """The boxes of a copy over a launch. `site` is either side of the copy, `mapped` the access of the array with the
    tensor map.

    start: first byte of the array, relative to a sector. Raises Unknown for data-dependent boxes, for copies by several
    lanes of a warp, and where more values of counters are coupled than are enumerated.
    """
    if site.opaque:
        raise Unknown(site.opaque)
    budget = budget or Budget()
    copied = _counted_boxes(site, mapped, budget)
    values = _Values(site, block, budget)
    fixed = ((n, part.case(tuple(map(int, part.coordinates)))) for n, part in enumerate(copied.parts) if not part.names)
    cases: Counter[_Case] = Counter({tuple(fixed): 1})
    for names, guards in _groups(site, copied.parts):
        varying = [(n, part) for n, part in enumerate(copied.parts) if part.names & names]
        cases = _multiplied(cases, values.cases(names, guards, varying))
    totals: Counter[BoxExtents] = Counter()
    for case, count in cases.items():
        *outer, inner = copied.extents([part for _, part in sorted(case, key=lambda part: part[0])])
        totals[(*outer, Extent((inner.start + start) % SECTOR_BYTES, inner.count, inner.step))] += count
    return tuple(Boxes(extents, count) for extents, count in totals.items() if count)


def _counted_boxes(site: Site, mapped: Access, budget: Budget) -> CountedBoxes:
    tensor_map = mapped.array.tensor_map
    assert tensor_map is not None
    if tensor_map.pixels is None:
        return tiled_boxes(site, mapped)
    assert isinstance(site.instruction, TensorLoad)
    return pixel_boxes(site, mapped, site.instruction.offsets, budget)


def _multiplied(first: Counter[_Case], second: Counter[_Case]) -> Counter[_Case]:
    if len(first) * len(second) > _MAX_VALUES:
        raise Unknown(f"its boxes have {len(first) * len(second):,} different extents")
    result: Counter[_Case] = Counter()
    for (a, times), (b, count) in product(first.items(), second.items()):
        result[(*a, *b)] += times * count
    return result


def _groups(site: Site, parts: Sequence[Part]) -> Iterator[tuple[_Names, tuple[Predicate, ...]]]:
    """Sets of threads and counters that a coordinate or a guard couples, with the guards over each; guards over none of
    them come first."""
    guards = [(part, _names(part)) for predicate in site.predicates for part in _parts(predicate)]
    groups = [frozenset(THREAD), *(frozenset({counter.symbol}) for counter in site.counters)]
    for names in (*(names for _, names in guards), *(part.names for part in parts)):
        coupled = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups += [frozenset[sympy.Symbol]().union(*coupled)] if coupled else []
    yield frozenset(), tuple(guard for guard, names in guards if not names)
    for group in groups:
        yield group, tuple(guard for guard, names in guards if names & group)


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """The terms of a conjunction."""
    if predicate.negated:
        yield predicate
    else:
        yield from (Predicate((term,)) for term in predicate.terms)


def _names(predicate: Predicate) -> _Names:
    return frozenset[sympy.Symbol]().union(*(difference.free_symbols for difference, _ in predicate.terms))


class _Values:
    """The values of threads and counters at a site."""

    def __init__(self, site: Site, block: tuple[int, int, int], budget: Budget) -> None:
        self.budget, self.block, self.threads = budget, block, prod(block)
        self.counts = {counter.symbol: counter.count for counter in site.counters}

    def cases(self, names: _Names, guards: Sequence[Predicate], varying: Sequence[tuple[int, Part]]) -> Counter[_Case]:
        """How often the boxes have each case of the `varying` parts, over all values of the names for which the guards
        hold."""
        values, size = self._combinations(names)
        ranges = {name: (int(v.min(initial=0)), int(v.max(initial=0))) for name, v in values.items()}
        holds = np.ones(size, np.bool_)
        for guard in guards:
            terms = [_OPERATORS[operator](evaluator(d, ranges)(values), 0) for d, operator in guard.terms]
            holds = holds & (np.logical_and.reduce(terms) != guard.negated)
        if names & set(THREAD):
            self._check_lanes(holds)
        if not varying:
            return Counter({(): int(np.count_nonzero(holds))})
        coordinates = [coordinate for _, part in varying for coordinate in part.coordinates]
        found = [np.broadcast_to(evaluator(c, ranges)(values), (size,))[holds] for c in coordinates]
        result: Counter[_Case] = Counter()
        distinct, counts = np.unique(np.stack(found), axis=1, return_counts=True)
        for column, count in zip(distinct.T.tolist(), counts.tolist(), strict=True):
            numbers = iter(column)
            case = ((n, part.case(tuple(islice(numbers, len(part.coordinates))))) for n, part in varying)
            result[tuple(case)] += count
        return result

    def _combinations(self, names: _Names) -> tuple[Mapping[sympy.Symbol, _Numbers], int]:
        """All values of the names, those of the threads of a block last, and their number."""
        counters = [name for name in self.counts if name in names]
        extents = [*(self.counts[name] for name in counters), self.threads if names & set(THREAD) else 1]
        size = prod(extents)
        if size > _MAX_VALUES:
            raise Unknown(f"its boxes depend on {size:,} values of coupled counters")
        self.budget.lanes(size)
        *axes, thread = (axis.ravel() for axis in np.indices(extents, np.int64))
        x, y, _ = self.block
        values = dict(zip(THREAD, (thread % x, thread // x % y, thread // (x * y)), strict=True))
        return {**values, **dict(zip(counters, axes, strict=True))}, size

    def _check_lanes(self, holds: NDArray[np.bool_]) -> None:
        lanes = np.zeros((len(holds) // self.threads, -(-self.threads // WARP_SIZE) * WARP_SIZE), np.bool_)
        lanes[:, : self.threads] = holds.reshape(-1, self.threads)
        if lanes.reshape(-1, WARP_SIZE).sum(axis=1).max(initial=0) > 1:
            raise Unknown("several lanes of a warp copy a box")
