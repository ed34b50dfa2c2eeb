"""Sectors of a box that TMA copies from or to global memory, and wavefronts of its shared memory.

Measured on sm_90 (H100, H200): TMA reads each byte of a box with aligned rows once (`l1tex__m_xbar2l1tex_read_bytes`),
and each word of shared memory once, without bank conflicts (`l1tex__data_bank_writes`, `l1tex__data_bank_reads`). The
counter of bytes has those outside the array, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from cugen.machine.requests.warp import SECTOR_BYTES

LINE_BYTES = 128  # a word in each bank of shared memory (CUDA programming guide)
PARTS_OF_SECTORS = "TMA moves the sectors that each row of a box spans, row by row"


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a box along one dimension that is inside the array: `count` elements, the first `start` bytes from a
    sector boundary, with a distance of `step` bytes."""

    start: int
    count: int
    step: int

    @property
    def phases(self) -> Iterator[tuple[int, int]]:
        """The bytes from a sector boundary to some of the elements, and how many these are."""
        for position in range(min(self.count, SECTOR_BYTES)):
            times = self.count // SECTOR_BYTES + (position < self.count % SECTOR_BYTES)
            yield (self.start + position * self.step) % SECTOR_BYTES, times


@dataclass(frozen=True, slots=True)
class Pixels:
    """The pixels of a box in im2col mode that are inside the images: how many begin so many bytes from a sector
    boundary, in pairs."""

    phases: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        return sum(count for _, count in self.phases)


BoxExtents = tuple[*tuple[Extent | Pixels, ...], Extent]  # along each dimension, the innermost one last


def rows_of(outer: Sequence[Extent | Pixels]) -> dict[int, int]:
    """Rows of a box by the bytes from a sector boundary to their start, over all dimensions but the innermost."""
    rows = {0: 1}
    for extent in outer:
        by_start: dict[int, int] = {}
        for start, count in rows.items():
            for phase, times in extent.phases:
                first = (start + phase) % SECTOR_BYTES
                by_start[first] = by_start.get(first, 0) + count * times
        rows = by_start
    return rows


def box_bytes(box: BoxExtents) -> int:
    """Bytes of a box inside the array."""
    *outer, inner = box
    return prod(extent.count for extent in outer) * inner.count * inner.step


def received_sectors(extents: BoxExtents, box: Sequence[int]) -> int:
    """Sectors of a loaded box that a multiprocessor receives. Of each row those of the part inside the array, and those
    of the part outside, which are zero; rows outside count as aligned. `box` has the elements along each dimension.

    Exact in all of 15 GEMMs (tests/data/sm90_tensor_copies.csv)."""
    *outer, inner = extents
    row, inside = box[-1] * inner.step, inner.count * inner.step
    rows = rows_of(outer) if inner.count else {}
    sectors = (prod(box[:-1]) - sum(rows.values())) * -(-row // SECTOR_BYTES)
    for start, count in rows.items():
        first = (start + inner.start) % SECTOR_BYTES
        end = (first + inside) % SECTOR_BYTES
        outside = -(-(end + row - inside) // SECTOR_BYTES) if row > inside else 0
        sectors += count * (-(-(first + inside) // SECTOR_BYTES) + outside)
    return sectors


def box_sectors(extents: BoxExtents) -> tuple[int, int]:
    """Sectors of a box, and the sectors of so many contiguous and aligned bytes."""
    *outer, inner = extents
    row = inner.count * inner.step
    if not row:
        return 0, 0
    sectors = 0
    for start, count in rows_of(outer).items():
        first = (start + inner.start) % SECTOR_BYTES
        sectors += count * -(-(first + row) // SECTOR_BYTES)
    return sectors, -(-box_bytes(extents) // SECTOR_BYTES)
