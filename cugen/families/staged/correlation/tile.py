"""Tiles of correlations: rows in shared memory that are split into what a thread's outputs are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.families.staged.copies import StagedTile, copy_to, make_tile, thread_number
from cugen.families.staged.correlation.recognition import SlidingRead
from cugen.families.staged.tile import Side, Tile
from cugen.machine.requests.banks import BANK_BYTES
from cugen.pieces.blocks import digits
from cugen.pieces.kernels import swizzled
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.pieces.vector_body import vector_of
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import ADDRESSED, Access, Array, row_major
from cugen.plan.nodes import Comparison, Copy, For, Guard, If, Load, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Mod, floor_quotient, integer
from cugen.spec.expressions import Boundary, Const, Local, Read
from cugen.spec.model import Memory


@dataclass(frozen=True, slots=True)
class Windows:
    """The reads of an array whose windows are the same but for an offset: a thread holds `count` elements of them, the
    first `low` elements from where that of its first output and the first term is."""

    reads: tuple[SlidingRead, ...]
    low: int
    count: int

    @property
    def first(self) -> SlidingRead:
        return self.reads[0]

    @property
    def array(self) -> str:
        return self.first.read.array


def windows_of(reads: Sequence[SlidingRead], outputs: int, taps: int) -> tuple[Windows, ...]:
    """The windows of so many outputs and terms."""
    groups: dict[object, list[SlidingRead]] = {}
    for read in reads:
        groups.setdefault(
            (read.read.array, read.dimension, read.scale, read.step, read.origin, read.others), []
        ).append(read)
    windows = []
    for group in groups.values():
        first, moved = group[0], group[0].step * (taps - 1)
        low = min(read.offset for read in group) + min(moved, 0)
        high = max(read.offset for read in group) + first.scale * (outputs - 1) + max(moved, 0)
        windows.append(Windows(tuple(group), low, high - low + 1))
    return tuple(windows)


@dataclass(frozen=True, slots=True)
class SlidingTile(StagedTile):
    """A tile whose rows are split into `period` elements, as many as windows of adjacent threads are apart, and padded
    so that their elements are in different banks; 0 for rows as they are, whose windows are so anyway. The rows are
    those of the array's `dimension`, with the fields of structures in it."""

    dimension: int
    period: int

    @property
    def row_counts(self) -> tuple[int, ...]:
        """The elements of a row, by dimension: along the tile's, and the fields."""
        return self.counts[self._position :]

    @property
    def _position(self) -> int:
        return self.dimensions.index(self.dimension)

    def subscripts_of(self, outer: tuple[Integer, ...], element: Integer) -> tuple[Integer, ...]:
        """Subscripts in the tile's array of an element of a row."""
        if not self.period:
            return (*outer, element)
        row = floor_quotient(element, self.period)
        addends = sympy.Add.make_args(element.expand())
        within_row = sympy.Add(*(addend for addend in addends if addend.as_coeff_Mul()[0] % self.period))
        return (*outer, row, Mod(within_row, integer(self.period)))

    def source_of_rows(self) -> Array | None:
        """The source with its rows and their fields as one dimension; None where the tile has parts of them."""
        source, sides, d = self.source, self.tile.sides, self.dimension
        inner = tuple(range(d + 1, len(source.shape)))
        is_whole = all(sides[i].low == 0 and not sides[i].steps and source.shape[i] == sides[i].count for i in inner)
        dense = row_major((source.shape[d], *(source.shape[i] for i in inner)))
        is_last = self.dimensions[self._position :] == (d, *(i for i in inner if sides[i].count > 1))
        if not (is_whole and is_last and source.strides[d:] == dense):
            return None
        shape = (*source.shape[:d], sympy.Mul(*source.shape[d:]))
        return replace(source, shape=shape, strides=(*source.strides[:d], integer(1)))

    def first_of_row(self) -> Integer:
        """The first element of the tile in a row of `source_of_rows`."""
        return self.origin[self.dimension] * math.prod(self.row_counts[1:])

    def access(self, read: Read, symbols: Mapping[str, Integer]) -> Access:
        position = to_integer(read.subscripts[self.dimension], symbols) - self.tile.sides[self.dimension].low
        return self.element(read, position, symbols)

    def element(self, read: Read, position: Integer, symbols: Mapping[str, Integer]) -> Access:
        """The load of the element of a row at a `position` of the tile, at the other subscripts of a read."""
        subscripts = [
            position if d == self.dimension else to_integer(read.subscripts[d], symbols) - self.tile.sides[d].low
            for d in self.dimensions
        ]
        element = integer(0)
        for subscript, count in zip(subscripts[self._position :], self.row_counts, strict=True):
            element = element * count + subscript
        return Access(self.array, self.subscripts_of(tuple(subscripts[: self._position]), element), "load")


def sliding_side(windows: Sequence[Windows], side: Side, span: int, terms: int, width: int) -> Side:
    """The side of a tile with all elements that `span` outputs read for so many terms: whole vectors of `width`."""
    reads = [read for window in windows for read in window.reads]
    low = min(side.low, *(read.offset + min(read.step * (terms - 1), 0) for read in reads))
    ends = (read.offset + read.scale * (span - 1) + max(read.step * (terms - 1), 0) for read in reads)
    high = max(side.low + side.count - 1, *ends)
    low -= low % width
    return Side(side.steps, low, -(-(high - low + 1) // width) * width)


def row_padding(thread_stride: int, element_bytes: int) -> int:
    """The padding of rows of so many elements with which the same elements of 32 rows are in different banks; 0 if they
    are anyway, and need not be split into rows."""
    unit = max(BANK_BYTES // element_bytes, 1)
    pitches = range(thread_stride, thread_stride + 2 * unit)
    return next(pitch for pitch in pitches if pitch % unit == 0 and pitch // unit % 2) - thread_stride


def make_sliding_tile(
    lowering: Lowering,
    tile: Tile,
    memory: Memory,
    dimension: int,
    thread_stride: int,
    blocks: Mapping[str, Integer],
    scope: Scope,
) -> SlidingTile:
    """The tile of the block, where windows of adjacent threads are `thread_stride` elements of the dimension apart.
    Rows with a pad or a swizzle of the spec are not split."""
    staged = make_tile(lowering, tile, Memory(), blocks, scope)
    position, counts = staged.dimensions.index(dimension), staged.counts
    period, row = thread_stride * math.prod(counts[position + 1 :]), math.prod(counts[position:])
    is_split = not (memory.pad or memory.swizzle) and row_padding(period, staged.source.dtype.bytes) > 0
    pad = row_padding(period, staged.source.dtype.bytes) if is_split else memory.pad
    sizes = (*counts[:position], *((-(-row // period), period) if is_split else (row,)))
    array = replace(staged.array, shape=tuple(map(integer, sizes)), pad=pad)
    array = replace(array, strides=row_major(array.padded_shape))
    if memory.swizzle:
        array = swizzled(array, sizes)
    return SlidingTile(tile, staged.source, array, staged.dimensions, staged.origin, dimension, period * is_split)


def fill_sliding_tile(
    lowering: Lowering,
    tile: SlidingTile,
    block: tuple[int, int, int],
    context: Context,
) -> For:
    """All threads of the block copy the tile, by vectors where its rows allow them."""
    row = math.prod(tile.row_counts)
    source = tile.source_of_rows()
    width = 1 if source is None else _vector_width(tile, source, context)
    outer_counts = tile.counts[: len(tile.counts) - len(tile.row_counts)]
    per_row = -(-row // width)
    count = math.prod(outer_counts) * per_row
    first, threads = thread_number(lowering, block)
    index = shared_loop_variable("element" if width == 1 else "vector", (0, count - 1), lowering)
    *outer, element = digits(index.symbol, list(map(integer, (per_row, *reversed(outer_counts)))))[::-1]
    scope = Scope()
    if source is None:
        fields = digits(element, list(map(integer, reversed(tile.row_counts))))[::-1]
        target = Access(tile.array, tile.subscripts_of(tuple(outer), element), "store")
        scope.nodes += copy_to(lowering, tile, (*outer, *fields), target, scope)
    else:
        _fill_row(lowering, tile, source, tuple(outer), element * width, width, scope)
    loop = Loop(replace(index, definition=first), first, integer(count), threads)
    return For(loop, tuple(scope.nodes))


def _vector_width(tile: SlidingTile, source: Array, context: Context) -> int:
    """The elements of a vector by which rows are copied: all are aligned."""
    if source.space not in ADDRESSED or (tile.read.boundary != Boundary("zero") and len(tile.row_counts) > 1):
        return 1
    side, fields = tile.tile.sides[tile.dimension], math.prod(tile.row_counts[1:])
    first = math.gcd(side.low, *(step for _, step in side.steps)) * fields
    strides = (divisor(stride, context) for stride in source.strides[:-1])
    widest = math.gcd(MAX_ACCESS_BYTES // source.dtype.bytes, first, *strides)
    return widest if math.prod(tile.counts) >= widest else 1


def _fill_row(
    lowering: Lowering,
    tile: SlidingTile,
    source: Array,
    outer: tuple[Integer, ...],
    element: Integer,
    width: int,
    scope: Scope,
) -> None:
    """Copies an element of a row, or a vector, which is stored by elements: where it is partly outside of the source,
    it is loaded by elements, too."""
    position = dict(zip(tile.dimensions, outer, strict=False))
    rows = tuple(tile.origin[d] + position.get(d, integer(0)) for d in range(tile.dimension))
    first = tile.first_of_row() + element
    if width == 1:
        scope.nodes += _copied(lowering, tile, source, (*rows, first), outer, element, scope)
        return
    v = shared_loop_variable("v", (0, width - 1), lowering)
    vector = vector_of(source, source.name, width, lowering)
    target = Access(tile.array, tile.subscripts_of(outer, element + v.symbol), "store")
    whole = (
        Load(vector, Access(source, (*rows, first), "load", width)),
        unrolled(v, (Store(target, vector.component(v.symbol)),)),
    )
    of_rows = lowering.inside(rows, source.shape[:-1]).terms
    last = Comparison(first + width - 1, "<", source.shape[-1])
    terms = (*of_rows, *lowering.needed(Guard((Comparison(first, ">=", integer(0)), last))).terms)
    if not terms:
        scope.nodes += whole
        return
    single = Scope(scope, certain=False)
    single.nodes += _copied(lowering, tile, source, (*rows, first + v.symbol), outer, element + v.symbol, single)
    scope.nodes.append(If(Guard(terms), whole, (unrolled(v, single.nodes),)))


def _copied(
    lowering: Lowering,
    tile: SlidingTile,
    source: Array,
    subscripts: tuple[Integer, ...],
    outer: tuple[Integer, ...],
    element: Integer,
    scope: Scope,
) -> tuple[Node, ...]:
    """The copy of an element of a row; those outside of the source get the value of its boundary."""
    subscripts, guard, otherwise = within(lowering, tile.read, subscripts, source, scope)
    load = Access(source, subscripts, "load")
    target = Access(tile.array, tile.subscripts_of(outer, element), "store")
    if guard is None or not isinstance(otherwise, Const) or otherwise.value == 0:
        return (Copy(target, load, guard),)
    value = Local(lowering.names.allocate(f"{source.name}_value"), tile.read.dtype)
    return Load(value, load, guard, otherwise), Store(target, value)
