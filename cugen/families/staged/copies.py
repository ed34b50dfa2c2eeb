"""Copies of tiles from global memory to shared memory, with the boundary of the array."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.families.staged.tile import Side, Tile, memory_order
from cugen.pieces.blocks import digits, power_of_two, thread
from cugen.pieces.grid import AXES
from cugen.pieces.kernels import swizzled
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import ADDRESSED, Access, Array, row_major
from cugen.plan.nodes import Comparison, Copy, For, Guard, If, Load, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Range, integer
from cugen.spec.expressions import Boundary, Const, Local, Read
from cugen.spec.model import Memory

MAX_IDLE = 1.5  # trips of loops over rows and columns, relative to those of one loop over all elements (heuristic)


@dataclass(frozen=True, slots=True)
class StagedTile:
    """A tile with its array in shared memory, the dimensions of the source that it has (in the order of the source in
    memory), and its first element in the source."""

    tile: Tile
    source: Array
    array: Array
    dimensions: tuple[int, ...]
    origin: tuple[Integer, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The elements of the tile in each of its dimensions."""
        return tuple(self.tile.sides[d].count for d in self.dimensions)

    @property
    def read(self) -> Read:
        """A read of an element of the tile; zero out of bounds where the array has no boundary, and then unused."""
        reads = self.tile.reads
        boundary = next((read.boundary for read in reads if read.boundary is not None), Boundary("zero"))
        return replace(reads[0], boundary=boundary, exact=())

    @property
    def has_no_boundary(self) -> bool:
        """Whether elements out of bounds are never used."""
        return all(read.boundary is None for read in self.tile.reads)

    def placed_at(self, offset: int) -> StagedTile:
        """The tile at an offset in dynamic shared memory, in bytes."""
        return replace(self, array=replace(self.array, dynamic_offset=offset))

    def access_at(self, subscripts: tuple[Integer, ...]) -> Access:
        """The load of an element of the source that is in the tile."""
        return Access(self.array, tuple(subscripts[d] - self.origin[d] for d in self.dimensions), "load")

    def access(self, read: Read, symbols: Mapping[str, Integer]) -> Access:
        """The load of a read, where `symbols` has the outputs relative to those of the block."""
        sides = self.tile.sides
        return Access(
            self.array,
            tuple(to_integer(read.subscripts[d], symbols) - sides[d].low for d in self.dimensions),
            "load",
        )


def make_tile(
    lowering: Lowering, tile: Tile, memory: Memory, blocks: Mapping[str, Integer], scope: Scope
) -> StagedTile:
    """The tile of the block with the coordinates `blocks`, by index; defines its origin in `scope`, or outside of the
    loop whose index it doesn't need."""
    source = lowering.arrays[tile.array]
    order = memory_order(tile, source, lowering.ranges)
    shape = tuple(integer(tile.sides[d].count) for d in order)
    symbol = lowering.names.allocate(f"{source.name}_tile")
    array = replace(source, symbol=symbol, space="shared", shape=shape, flat=False, pad=memory.pad, texture_2d=None)
    array = replace(array, strides=row_major(array.padded_shape), dynamic=memory.dynamic, values=None, writable=False)
    array = replace(array, align=MAX_ACCESS_BYTES)  # compilers join the loads of unrolled loops to vectors
    if memory.swizzle:
        array = swizzled(array, [tile.sides[d].count for d in order])
    origin = tuple(_origin(source, side, blocks, lowering, scope) for side in tile.sides)
    return StagedTile(tile, source, array, order, origin)


def _origin(source: Array, side: Side, blocks: Mapping[str, Integer], lowering: Lowering, scope: Scope) -> Integer:
    """The first element of a side, possibly out of bounds; a name where it moves from block to block."""
    first = sympy.Add(integer(side.low), *(_whole(blocks[index] * integer(step)) for index, step in side.steps))
    if not side.steps or first.is_Symbol:
        return first
    home = scope.home(frozenset(index for index, _ in side.steps))
    known = home.recall_index(first)
    if known is None:
        array = f"{source.name}_" if first.has(FloorDiv) else ""
        known = lowering.define(f"{array}{side.steps[0][0]}_first", first, home)
        home.remember_index(first, known)
    return known


def _whole(first: Integer) -> Integer:
    """A number of elements that is whole, though a term may be a fraction: where a tile of the walk has 256 of k and
    half as many `k // 2`, its first is `k_first / 2`."""
    numerator, denominator = sympy.fraction(first)
    return numerator if denominator == 1 else FloorDiv(numerator, denominator)


def fill_tiles(
    lowering: Lowering,
    tiles: Sequence[StagedTile],
    block: tuple[int, int, int],
    width_of: Callable[[StagedTile], int] = lambda tile: 1,
) -> tuple[Node, ...]:
    """All threads of the block copy the tiles, those of one shape in one loop. `width_of`: the widest vectors that a
    tile allows."""
    groups: dict[tuple[tuple[int, ...], int], list[StagedTile]] = {}
    for staged in tiles:
        of_thread = max(math.prod(staged.counts) // math.prod(block), 1)
        width = min(width_of(staged), power_of_two(of_thread + 1) // 2)
        groups.setdefault((staged.counts, width), []).append(staged)
    nodes: list[Node] = []
    for (counts, width), group in groups.items():
        fill = _by_vectors(lowering, group, width, block) if width > 1 else _fill(lowering, group, list(counts), block)
        nodes += fill
    return tuple(nodes)


def run_width(staged: StagedTile, context: Context, known: Mapping[sympy.Symbol, int]) -> int:
    """The elements of a vector by which the tile is copied: rows that are one run of the source, with a whole number of
    vectors in the tile's rows, before its first element and in the source. `known`: divisors of symbols."""
    source, array = staged.source, staged.array
    if source.space not in ADDRESSED or source.values is not None or array.pad or array.swizzle or not _is_run(staged):
        return 1
    first = staged.origin[staged.dimensions[0]] * source.strides[staged.dimensions[0]]
    multiples = (first.expand(), sympy.Mul(*source.shape))
    columns = staged.counts[-1]
    return math.gcd(MAX_ACCESS_BYTES // source.dtype.bytes, columns, *(divisor(m, context, known) for m in multiples))


def _by_vectors(
    lowering: Lowering, tiles: Sequence[StagedTile], width: int, block: tuple[int, int, int]
) -> tuple[Node, ...]:
    """One loop over the vectors of tiles of one shape."""
    *rows, columns = tiles[0].counts
    count = math.prod(rows) * (columns // width)
    first, threads = thread_number(lowering, block)
    index = shared_loop_variable("vector", (0, count - 1), lowering)
    *outer, column = digits(index.symbol, list(map(integer, (columns // width, *reversed(rows)))))[::-1]
    scope = Scope()
    for staged in tiles:
        _copy_run(lowering, staged, (*outer, column * width), index.symbol * width, scope, width)
    loop = Loop(replace(index, definition=first), first, integer(count), threads)
    return (For(loop, tuple(scope.nodes)),)


def thread_number(lowering: Lowering, block: tuple[int, int, int]) -> tuple[Integer, int]:
    """The thread's number in the block, and the number of threads."""
    number, threads = integer(0), 1
    for axis, size in zip(AXES, block, strict=True):
        number, threads = number + thread(axis, size, lowering) * integer(threads), threads * size
    return number, threads


def _fill(
    lowering: Lowering, tiles: Sequence[StagedTile], counts: list[int], block: tuple[int, int, int]
) -> tuple[Node, ...]:
    """Copies tiles of one shape: rows at a time, or element by element where rows are short."""
    axes = dict(zip(reversed(range(len(counts))), zip(AXES, block, strict=True), strict=False))
    idle = math.prod(size for axis, size in zip(AXES, block, strict=True) if axis not in dict(axes.values()))
    trips = idle * math.prod(-(-count // axes[d][1]) if d in axes else count for d, count in enumerate(counts))
    if trips > MAX_IDLE * -(-math.prod(counts) // math.prod(block)):
        return _by_elements(lowering, tiles, counts, block)
    return _by_rows(lowering, tiles, counts, axes)


def _by_rows(
    lowering: Lowering, tiles: Sequence[StagedTile], counts: list[int], axes: Mapping[int, tuple[str, int]]
) -> tuple[Node, ...]:
    """A loop per dimension: x threads along the rows, y threads over them."""
    loops: list[Loop | Guard | None] = []
    inside: dict[sympy.Symbol, Range] = {}  # threads that copy an element, where others are idle
    subscripts: list[Integer] = []
    for dimension, count in enumerate(counts):
        axis, size = axes.get(dimension, ("", 1))
        first = thread(axis, size, lowering) if axis else integer(0)
        if size >= count > 1:
            loops.append(Guard((Comparison(first, "<", integer(count)),)) if size > count else None)
            inside[first] = (0, count - 1)
            subscripts.append(first)
            continue
        outer = len(counts) - 1 - dimension  # of the dimensions, the fastest being 0
        name = ("column", "row", "plane")[min(outer, 2)]
        index = shared_loop_variable(name, (0, count - 1), lowering, f"{name} {outer}" if outer > 2 else "")
        loops.append(Loop(replace(index, definition=first), first, integer(count), size))
        subscripts.append(index.symbol)
    scope = Scope()
    ranges = {symbol: lowering.ranges[symbol] for symbol in inside}
    lowering.ranges.update(inside)
    for staged in tiles:
        _copy(lowering, staged, tuple(subscripts), scope)
    lowering.ranges.update(ranges)
    nodes = tuple(scope.nodes)
    for loop in reversed(loops):
        if isinstance(loop, Loop):
            nodes = (For(loop, nodes),)
        elif loop is not None:
            nodes = (If(loop, nodes),)
    return nodes


def _by_elements(
    lowering: Lowering, tiles: Sequence[StagedTile], counts: list[int], block: tuple[int, int, int]
) -> tuple[Node, ...]:
    """One loop over all elements."""
    first, threads = thread_number(lowering, block)
    index = shared_loop_variable("element", (0, math.prod(counts) - 1), lowering)
    subscripts = digits(index.symbol, list(map(integer, reversed(counts))))[::-1]
    loop = Loop(replace(index, definition=first), first, integer(math.prod(counts)), threads)
    scope = Scope()
    for staged in tiles:
        if len(counts) > 1 and _is_run(staged):
            _copy_run(lowering, staged, subscripts, index.symbol, scope)
        else:
            _copy(lowering, staged, subscripts, scope)
    return (For(loop, tuple(scope.nodes)),)


def _is_run(staged: StagedTile) -> bool:
    """Whether the whole rows of a tile are one run in the source."""
    source, sides = staged.source, staged.tile.sides
    rows = staged.dimensions[1:]
    is_whole = all(sides[d].low == 0 and not sides[d].steps and source.shape[d] == sides[d].count for d in rows)
    dense = row_major(tuple(source.shape[d] for d in staged.dimensions))
    is_dense = all(source.strides[d] == stride for d, stride in zip(staged.dimensions, dense, strict=True))
    return is_whole and is_dense and staged.has_no_boundary and len(staged.dimensions) == len(sides)


def _copy_run(
    lowering: Lowering,
    staged: StagedTile,
    in_tile: tuple[Integer, ...],
    element: Integer,
    scope: Scope,
    width: int = 1,
) -> None:
    """Copies one element of a run, or `width` of them."""
    source, outer = staged.source, staged.dimensions[0]
    run = source.flattened(sympy.Mul(*source.shape))
    first = staged.origin[outer] * source.strides[outer] + element
    read = replace(staged.read, subscripts=staged.read.subscripts[:1])
    subscripts, guard, _ = within(lowering, read, (first,), run, scope)
    scope.nodes.append(
        Copy(Access(staged.array, in_tile, "store", width), Access(run, subscripts, "load", width), guard)
    )


def _copy(lowering: Lowering, staged: StagedTile, in_tile: tuple[Integer, ...], scope: Scope) -> None:
    """Copies one element; those outside of the source get the value of its boundary."""
    scope.nodes += copy_to(lowering, staged, in_tile, Access(staged.array, in_tile, "store"), scope)


def copy_to(
    lowering: Lowering, staged: StagedTile, in_tile: tuple[Integer, ...], target: Access, scope: Scope
) -> tuple[Node, ...]:
    """The copy of one element of the tile; subscripts that its boundary folds are named in `scope`."""
    position = dict(zip(staged.dimensions, in_tile, strict=True))
    subscripts = tuple(first + position.get(d, integer(0)) for d, first in enumerate(staged.origin))
    read = staged.read
    subscripts, guard, otherwise = within(lowering, read, subscripts, staged.source, scope)
    source = Access(staged.source, subscripts, "load")
    if guard is None or not isinstance(otherwise, Const) or otherwise.value == 0:
        return (Copy(target, source, guard),)
    value = Local(lowering.names.allocate(f"{staged.source.name}_value"), read.dtype)
    return Load(value, source, guard, otherwise), Store(target, value)
