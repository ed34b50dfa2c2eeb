"""The coordinates of a box that TMA copies, in parts whose values are counted apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import Site, data_dependence
from cugen.machine.requests.boxes import BoxExtents, Extent
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.memory import Access
from cugen.plan.symbols import Integer


@dataclass(frozen=True, slots=True)
class Part:
    """Coordinates that count together; `case` has what of their values the cost of a box depends on."""

    coordinates: tuple[Integer, ...]
    case: Callable[[tuple[int, ...]], Hashable]

    @property
    def names(self) -> frozenset[sympy.Symbol]:
        return frozenset[sympy.Symbol]().union(*(coordinate.free_symbols for coordinate in self.coordinates))


@dataclass(frozen=True, slots=True)
class CountedBoxes:
    """The parts of a copy's boxes; `extents` takes the case of each."""

    parts: tuple[Part, ...]
    extents: Callable[[Sequence[Hashable]], BoxExtents]


def tiled_boxes(site: Site, mapped: Access) -> CountedBoxes:
    """Boxes of so many elements along each dimension."""
    assert mapped.array.tensor_map is not None
    first, box = static_coordinates(site, mapped.subscripts), mapped.array.tensor_map.box
    sizes, steps = array_sizes(site, mapped)
    parts = (axis(*numbers) for numbers in zip(first, box, sizes, steps, strict=True))
    return CountedBoxes(tuple(parts), _extents)


def _extents(cases: Sequence[Hashable]) -> BoxExtents:
    *outer, inner = (case for case in cases if isinstance(case, Extent))
    return (*outer, inner)


def axis(first: Integer, box: int, size: int, step: int) -> Part:
    """Along a dimension of `size` elements, `step` bytes apart; `box` of them from `first` on."""

    def extent(values: tuple[int, ...]) -> Extent:
        low, high = max(values[0], 0), min(values[0] + box, size)
        return Extent(low * step % SECTOR_BYTES, max(high - low, 0), step)

    return Part((first,), extent)


def static_coordinates(site: Site, coordinates: Sequence[Integer]) -> tuple[Integer, ...]:
    """Coordinates over threads and counters. Raises Unknown if they are data-dependent."""
    found = tuple(coordinate.xreplace(site.definitions) for coordinate in coordinates)
    for coordinate in found:
        if why := data_dependence(coordinate, site.counters):
            raise Unknown(why)
    return found


def array_sizes(site: Site, mapped: Access) -> tuple[list[int], list[int]]:
    """(elements, distance in bytes) along each dimension of an array with a tensor map."""
    array = mapped.array
    sizes = [int(size.xreplace(site.definitions)) for size in array.shape]
    return sizes, [int(stride.xreplace(site.definitions)) * array.dtype.bytes for stride in array.strides]
