"""Wavefronts of the accesses to a tile for each padding of its rows, and for the xor swizzle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import Site
from cugen.analysis.verdicts.conflicts_by_pad import PADS, is_aligned, wavefronts, with_array, with_rows
from cugen.analysis.verdicts.report import make_config
from cugen.machine import Target
from cugen.pieces.kernels import swizzle_of
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.report.maps import can_change_rows

_SWIZZLED = "swizzle: xor"


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of a tile's rows; `label` is its line in a spec.

    costs: (wavefronts, ideal wavefronts, those of the worst request) of each access to the tile, None if unknown."""

    label: str
    pad: int
    swizzle: int
    swizzle_unit: int
    is_current: bool
    costs: tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TileLayouts:
    """A tile by its C name, the spec's array that it stages, the serial numbers of its accesses, and its layouts."""

    symbol: str
    array: str
    accesses: tuple[int, ...]
    layouts: tuple[Layout, ...]


def tile_layouts(
    kernel: Kernel, target: Target, sites: Mapping[int, Site], *, sizes_known: bool
) -> tuple[TileLayouts, ...]:
    """The tiles of a launch whose rows can be changed. `sites`: the accesses by serial number. With unknown sizes all
    costs are unknown."""
    tiles: dict[str, list[Site]] = {}
    for site in sites.values():
        if can_change_rows(site.access.array) and site.access.rank is None:
            tiles.setdefault(site.access.array.symbol, []).append(site)
    return tuple(_of_tile(kernel, target, accesses, sizes_known) for accesses in tiles.values())


def _of_tile(kernel: Kernel, target: Target, accesses: list[Site], sizes_known: bool) -> TileLayouts:
    config = make_config(kernel, target, None, None, None)
    current = accesses[0].access.array
    layouts = []
    for label, array in _candidates(current, max(site.access.width for site in accesses)):
        costs: list[tuple[int, int, int] | None] = []
        for site in accesses:
            try:
                costs.append(wavefronts(kernel, with_array(site, array), config) if sizes_known else None)
            except Unknown:
                costs.append(None)
        is_current = (array.pad, array.swizzle) == (current.pad, current.swizzle)
        layouts.append(Layout(label, array.pad, array.swizzle, array.swizzle_unit, is_current, tuple(costs)))
    serials = tuple(site.access.serial for site in accesses)
    return TileLayouts(current.symbol, current.name, serials, tuple(layouts))


def _candidates(array: Array, width: int) -> Iterator[tuple[str, Array]]:
    """Each padding without a swizzle that keeps vectors aligned, and the swizzle that the tile has or a spec gives."""
    for pad in PADS:
        padded = with_rows(array, pad, swizzle=0)
        if is_aligned(padded, width):
            yield f"pad: {pad}", padded
    if array.swizzle:
        yield _SWIZZLED, array
    elif width == 1:
        rows, padding = swizzle_of([int(extent) for extent in array.shape])
        if rows:
            yield _SWIZZLED, with_rows(array, padding, swizzle=rows)
    if not array.swizzle and array.pad not in PADS:
        yield f"pad: {array.pad}", array
