"""How many elements each thread of a `map` kernel has, and where they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.map.work import Work
from cugen.pieces.vectors import SECTOR, WIDEST, divisor, is_contiguous, run_alike
from cugen.plan.symbols import Integer, bounds, ceil_div

_THREADS = 256
_MOST = 8  # vectors in a thread
_MANY = 1 << 18  # threads that fill a large device
_ROWS = 8
_LONG = 32  # vectors in a row that outweigh what is left at its ends
_WASTE = 8  # at most one in so many threads of a wide block may have nothing to do


@dataclass(frozen=True, slots=True)
class Shape:
    """`width` elements an access, `vectors` of them in a thread, a block's width apart along `axis` (0 is the one that
    vectors lie along). With a `shift`, rows begin anywhere, and vectors where sectors do, so many elements before."""

    width: int
    vectors: int
    axis: int
    threads: tuple[int, int]
    reason: str = ""
    shift: int = 0

    def unit(self, axis: int) -> int:
        """What a thread has side by side along an axis."""
        return self.width if axis == 0 else 1

    @property
    def step(self) -> int:
        """From one of a thread's vectors to its next, in elements along `axis`."""
        return self.unit(self.axis) * self.threads[self.axis]

    def span(self, axis: int) -> int:
        """What a block has along an axis."""
        if axis > 1:
            return 1
        own = self.unit(axis) * self.threads[axis]
        return own * self.vectors if axis == self.axis else own


def choose_shape(work: Work, extents: list[Integer]) -> Shape:
    """The schedule's, or the widest access that alignment allows and as many of them as keep memory busy."""
    ranges = work.request.context.ranges
    most = [bounds(extent, ranges)[1] for extent in extents]
    width = _width(work, most[0])
    asked = dict(work.request.schedule.block)
    if asked:
        vectors = work.asked_vectors() or 1
        sizes = [asked.get(index.name, 1) for index in work.order[:2]]
        return Shape(width, vectors, 0, (max(sizes[0] // (width * vectors), 1), sizes[1] if len(sizes) > 1 else 1))
    shift = 0 if work.asked_width() or work.asked_vectors() else _shift(work, most[0])
    if shift:
        width = work.full_width
        rows = max(shift, _ROWS)
        threads = (_THREADS // rows, rows)
        reason = "rows begin anywhere: vectors begin where sectors do, and what is left at both ends goes one by one"
        return Shape(width, 1, 0, threads, reason, shift)
    slots = bounds(ceil_div(extents[0], width), ranges)[1]
    threads = (_THREADS, 1) if len(extents) == 1 else _balanced(slots, most[1], aligned=width > 1)
    vectors, reason = _vectors(work, width, math.prod(most) // width)
    has_tail = divisor(extents[0], work.request.context) % width != 0
    axis = 1 if len(extents) > 1 and most[1] >= vectors * threads[1] and not has_tail else 0
    return Shape(width, vectors, axis, threads, reason)


def _shift(work: Work, longest: int) -> int:
    """The elements of a sector, where all rows are long and begin alike, but not as vectors do; else 0."""
    if work.most.count >= work.full_width or len(work.order) < 2 or longest < _LONG * work.full_width:
        return 0
    places, context = work.places(), work.request.context
    sector = SECTOR // min(work.arrays[array].dtype.bytes for array, _ in places)
    for place in places:
        array, subscripts = place
        if not is_contiguous(work.arrays[array], subscripts, work.along):
            return 0
        if not run_alike(work.arrays, work.order, context, (place, places[0]), sector):
            return 0
    return sector


def _width(work: Work, longest: int) -> int:
    """The schedule's, or the widest that alignment allows and one row of the output fills."""
    asked = work.asked_width()
    if asked:
        return asked[0][0]
    width = work.most.count
    size = dict(work.request.schedule.block).get(work.along)
    while width > max(longest, 1) or (size is not None and size % width):
        width //= 2
    return width


def _vectors(work: Work, width: int, slots: int) -> tuple[int, str]:
    """How many vectors a thread takes, and why."""
    asked = work.asked_vectors()
    if asked is not None:
        return asked, ""
    own = max(work.arrays[array].dtype.bytes for array, _ in work.places()) * width
    vectors = 1
    while 2 * vectors * own <= WIDEST and vectors < _MOST and slots >= 2 * vectors * _MANY:
        vectors *= 2
    if vectors == 1:
        return 1, ""
    return vectors, f"{vectors} accesses of {own} bytes in each thread keep memory as busy as one of {vectors * own}"


def _balanced(slots: int, rows: int, *, aligned: bool) -> tuple[int, int]:
    """32 x 8 threads, or more along the one where the other is shorter than that.

    Rows that begin anywhere want long blocks: where two blocks meet, both write to one sector."""
    most = [_power_of_two(count) for count in (slots, rows)]
    columns = min(32, most[0])
    while (
        not aligned and columns < _THREADS and -(-slots // (2 * columns)) * 2 * columns * (_WASTE - 1) <= slots * _WASTE
    ):
        columns *= 2
    own = min(_THREADS // columns, most[1])
    return min(_THREADS // own, most[0]), own


def _power_of_two(count: int) -> int:
    """The least power of two that covers `count`."""
    return 1 << max(count - 1, 0).bit_length()
