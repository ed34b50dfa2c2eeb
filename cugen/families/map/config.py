"""Vector widths, vectors per thread and block shapes of a `map` kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.map.work import Work
from cugen.pieces.blocks import power_of_two
from cugen.pieces.grid import MAX_BLOCK_Z
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES, have_equal_alignment, is_contiguous
from cugen.plan.alignment import divisor
from cugen.plan.symbols import Integer, ceil_div

THREADS_PER_BLOCK = 256
MAX_VECTORS_PER_THREAD = 8  # heuristic
MIN_THREADS = 1 << 18  # that a grid keeps when threads take several vectors: fills a large GPU (measured on H200)
MIN_ROWS_PER_SHIFTED_BLOCK = 8  # measured on H200
MIN_VECTORS_PER_SHIFTED_ROW = 32  # amortise the scalar accesses at both ends of a row (heuristic)
MAX_IDLE_FRACTION = 8  # at most one in so many threads of a wide block may be idle (heuristic)


@dataclass(frozen=True, slots=True)
class VectorConfig:
    """`width` elements per access and `vectors` accesses per thread, `step` elements apart along `axis`.

    Axis 0 is contiguous. With a `shift`, vectors start at sector boundaries, up to `shift` elements before the row."""

    width: int
    vectors: int
    axis: int
    threads: tuple[int, int, int]
    reason: str = ""
    shift: int = 0

    def per_thread(self, axis: int) -> int:
        """Consecutive elements of a thread along an axis."""
        return self.width if axis == 0 else 1

    @property
    def step(self) -> int:
        """The distance between a thread's vectors, in elements along `axis`."""
        return self.span(self.axis) // self.vectors

    def span(self, axis: int) -> int:
        """Elements of a block along an axis."""
        single = self.per_thread(axis) * self.threads_along(axis)
        return single * self.vectors if axis == self.axis else single

    def threads_along(self, axis: int) -> int:
        """Threads of a block along an axis: one along all past the third."""
        return self.threads[axis] if axis < len(self.threads) else 1


def choose_config(work: Work, extents: list[Integer]) -> VectorConfig:
    """The schedule's config, or the widest vectors that alignment allows and as many as keep enough bytes in flight."""
    planned = work.request.context.planned
    planned_extents = list(map(planned, extents))
    width = _width(work, planned_extents[0])
    block = dict(work.request.schedule.block)
    if block:
        vectors = work.requested_vectors() or 1
        sizes = [block.get(index.name, 1) for index in work.order[:2]]
        threads = (max(sizes[0] // (width * vectors), 1), sizes[1] if len(sizes) > 1 else 1, 1)
        return VectorConfig(width, vectors, axis=0, threads=threads)
    shift = 0 if work.requested_widths() or work.requested_vectors() else shift_of(work, planned_extents[0])
    if shift:
        width = work.full_width
        rows = max(shift, MIN_ROWS_PER_SHIFTED_BLOCK)
        threads = (THREADS_PER_BLOCK // rows, rows, 1)
        reason = "rows are unaligned: vectors start at sector boundaries, and both ends of a row are scalar"
        return VectorConfig(width, 1, axis=0, threads=threads, reason=reason, shift=shift)
    slots = planned(ceil_div(extents[0], width))
    is_flat = len(extents) == 1
    across, down = (THREADS_PER_BLOCK, 1) if is_flat else _block_shape(slots, planned_extents[1], aligned=width > 1)
    deep = min(THREADS_PER_BLOCK // (across * down), MAX_BLOCK_Z, max(math.prod(planned_extents[2:3]), 1))
    threads = (across, down, deep)
    vectors, reason = _vectors(work, width, math.prod(planned_extents) // width)
    has_tail = divisor(extents[0], work.request.context) % width != 0
    axis = 0 if has_tail else _axis_of_vectors(slots, planned_extents, threads, vectors)
    return VectorConfig(width, vectors, axis, threads, reason=reason)


def _axis_of_vectors(slots: int, extents: list[int], threads: tuple[int, int, int], vectors: int) -> int:
    """The axis along which a thread's vectors are: across rows, if there is room for all of them; of a longer array
    where the first axis has no second vector for a thread, the next axis with room; else the first."""

    def has_room(axis: int) -> bool:
        return extents[axis] >= vectors * (threads[axis] if axis < len(threads) else 1)

    axis = next(filter(has_room, range(1, len(extents))), 0)
    return axis if axis == 1 or slots <= threads[0] else 0


def shift_of(work: Work, longest: int) -> int:
    """Elements per sector, if rows are long and equally misaligned, so that vectors can start at sectors; else 0."""
    min_row = MIN_VECTORS_PER_SHIFTED_ROW * work.full_width
    if work.is_partial or work.max_width.count >= work.full_width or len(work.order) < 2 or longest < min_row:
        return 0
    if work.limited():  # vectors may be partly outside
        return 0
    references, context = work.streamed(), work.request.context
    sector = SECTOR_BYTES // min(work.arrays[array].dtype.bytes for array, _ in references)
    for reference in references:
        array, subscripts = reference
        if not is_contiguous(work.arrays[array], subscripts, work.along):
            return 0
        if not have_equal_alignment(work.arrays, work.order, context, (reference, references[0]), sector):
            return 0
    return sector


def _width(work: Work, longest: int) -> int:
    """The schedule's width, or the widest that alignment allows and one row of the output fills."""
    requested = work.requested_widths()
    if requested:
        return requested[0][0]
    width = work.max_width.count
    size = dict(work.request.schedule.block).get(work.along)
    while width > max(longest, 1) or (size is not None and size % width):
        width //= 2
    return width


def _vectors(work: Work, width: int, slots: int) -> tuple[int, str]:
    """Vectors per thread, and the reason for several: narrow accesses need more of them in flight."""
    requested = work.requested_vectors()
    if requested is not None:
        return requested, ""
    access_bytes = work.bytes_per_access(width)
    vectors = 1
    while (
        2 * vectors * access_bytes <= MAX_ACCESS_BYTES
        and vectors < MAX_VECTORS_PER_THREAD
        and slots >= 2 * vectors * MIN_THREADS
    ):
        vectors *= 2
    if vectors == 1:
        return 1, ""
    reason = f"{vectors} accesses of {access_bytes} bytes per thread keep {vectors * access_bytes} bytes in flight"
    return vectors, reason


def _block_shape(slots: int, rows: int, *, aligned: bool) -> tuple[int, int]:
    """32 × 8 threads, or more along one axis where the other extent is shorter: then all of it, where the next power of
    two leaves many threads idle.

    Unaligned rows get wide blocks: two adjacent blocks write to the sector between them."""

    def is_mostly_busy(threads: int) -> bool:
        return -(-slots // threads) * threads * (MAX_IDLE_FRACTION - 1) <= slots * MAX_IDLE_FRACTION

    max_columns, max_rows = power_of_two(slots), power_of_two(rows)
    columns = min(32, max_columns)
    if slots < columns and not is_mostly_busy(columns):
        return slots, min(THREADS_PER_BLOCK // slots, max_rows)
    while not aligned and columns < THREADS_PER_BLOCK and is_mostly_busy(2 * columns):
        columns *= 2
    down = min(THREADS_PER_BLOCK // columns, max_rows)
    return min(THREADS_PER_BLOCK // down, max_columns), down
