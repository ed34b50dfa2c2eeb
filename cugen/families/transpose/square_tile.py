"""The transpose with an explicit layout: a square tile in shared memory, one element per access."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.families.transpose.config import BANK_BYTES, Transpose
from cugen.pieces.blocks import Blocks, define, limit, make_grid, thread
from cugen.pieces.kernels import assemble, new_lowering, tile_bytes
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Barrier, Comparison, Copy, Declare, For, Guard, If, Index, Load, Loop, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, walk
from cugen.spec.model import Memory

BLOCK_ROWS = 8  # of threads (heuristic)
MIN_EXTENT_FOR_LARGE_TILES = 1024  # so that enough tiles remain (heuristic)


@dataclass(frozen=True, slots=True)
class SquareTileConfig:
    """A tile of `size` × `size` elements; each thread has `rows` elements of a column."""

    size: int
    rows: int

    @property
    def threads_y(self) -> int:
        return self.size // self.rows


def choose_square_config(transpose: Transpose) -> SquareTileConfig:
    """The schedule's tile, or 64 × 64; 32 × 32 for elements wider than 4 bytes or small matrices of 4-byte ones."""
    sides = (transpose.across, transpose.down)
    names = [index.name for index in sides]
    schedule, context = transpose.request.schedule, transpose.request.context
    sizes = [size for name, size in schedule.block if name in names]
    if sizes:
        size = sizes[0]
    else:
        bits = max(transpose.arrays[read.array].dtype.bits for read in transpose.reads)
        extents = [to_integer(index.extent, context.symbols) for index in sides]
        is_small = min(bounds(extent, context.ranges)[1] for extent in extents) < MIN_EXTENT_FOR_LARGE_TILES
        size = 32 if bits > 32 or (bits == 32 and is_small) else 64
    if schedule.thread:
        return SquareTileConfig(size, max([count for name, count in schedule.thread if name in names], default=1))
    return SquareTileConfig(size, size // BLOCK_ROWS if size % BLOCK_ROWS == 0 else 1)


class SquareTileKernel:
    """The kernel of one group."""

    def __init__(self, transpose: Transpose, tile: SquareTileConfig) -> None:
        self.transpose, self.tile = transpose, tile
        self.request, self.context = transpose.request, transpose.request.context
        self.lowering: Lowering = new_lowering(transpose.request)
        self.lowering.arrays = transpose.arrays
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in transpose.order]

    def kernel(self) -> Kernel:
        size = self.tile.size
        counts = [ceil_div(extent, size) for extent in self.extents[:2]]
        blocks = make_grid([*counts, *self.extents[2:]], self.lowering, self.request.target)
        tiles = self._tiles()
        coordinates = self._coordinates_of_thread(blocks)
        self.r = Index(self.lowering.names.allocate("r"), integer(0), (0, size - self.tile.threads_y))
        self.lowering.ranges[self.r.symbol] = self.r.range
        self.row = self.ty + (self.r.symbol if self.tile.rows > 1 else 0)
        sections = (
            Section("tiles", tuple(Declare(tile) for tile in tiles.values())),
            Section("coordinates", coordinates),
            *self._load(tiles),
            Section("tile_loaded", (Barrier(),)),
            *self._store(tiles),
        )
        parts = [(section.name, section.body) for section in sections]
        block = (size, self.tile.threads_y, 1)
        kernel = assemble(self.request, self.lowering, "transpose", parts, blocks.grid, block)
        return replace(kernel, reasons=self._reasons(tiles))

    def _tiles(self) -> dict[Read, Array]:
        tiles: dict[Read, Array] = {}
        offset = 0
        for read in self.transpose.reads:
            source = self.transpose.arrays[read.array]
            memory = self._memory(read)
            name_hint = "tile" if len(self.transpose.reads) == 1 else f"{source.symbol}_tile"
            size = integer(self.tile.size)
            tile = Array(
                read.array,
                self.lowering.names.allocate(name_hint),
                source.dtype,
                (size, size),
                (size + memory.pad, integer(1)),
                "shared",
                flat=False,
                pad=memory.pad,
                swizzle=self.tile.size if memory.swizzle else 0,
                dynamic=memory.dynamic,
                dynamic_offset=offset if memory.dynamic else 0,
            )
            if memory.dynamic:
                offset += -(-tile_bytes(tile, self.lowering.ranges) // 16) * 16
            tiles[read] = tile
        return tiles

    def _memory(self, read: Read) -> Memory:
        """The spec's placement; by default rows of an odd number of banks, so that a column hits all of them."""
        declared = self.context.spec.array(read.array)
        if declared.memory.space == "shared":
            return declared.memory
        return Memory("shared", pad=max(1, BANK_BYTES // declared.dtype.bytes))

    def _coordinates_of_thread(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering, tile = self.lowering, self.tile
        nodes = []
        self.first: list[Integer] = []
        for axis, (index, block) in enumerate(zip(self.transpose.order, blocks.coordinates, strict=True)):
            if axis < 2:
                node = define(f"{index.name}0", block * tile.size, lowering)
                self.first.append(node.index.symbol)
            else:
                node = define(index.name, block, lowering)
                lowering.symbols[index.name] = node.index.symbol
                limit(node.index, self.extents[axis], lowering)
            nodes.append(node)
        threads = [define("tx", thread("x", tile.size, lowering), lowering)]
        self.tx, self.ty = threads[0].index.symbol, integer(0)
        if tile.threads_y > 1:
            threads.append(define("ty", thread("y", tile.threads_y, lowering), lowering))
            self.ty = threads[1].index.symbol
        return (*nodes[2:], *nodes[:2], *threads)

    def _coordinates_of_element(
        self, names: tuple[str, str], fast: int, scope: Scope, inner: Scope
    ) -> tuple[Integer, Integer]:
        """Defines both global coordinates: along axis `fast` (adjacent threads) in `scope`, the other in `inner`."""
        coordinates = {}
        for axis, target, offset in ((fast, scope, self.tx), (1 - fast, inner, self.row)):
            node = define(names[axis], self.first[axis] + offset, self.lowering)
            limit(node.index, self.extents[axis], self.lowering)
            target.nodes.append(node)
            coordinates[axis] = node.index.symbol
        return coordinates[0], coordinates[1]

    def _guarded(self, name: str, axis: int, coordinate: Integer, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """The branch `name` around the sections if tiles may exceed the extent, else the sections themselves."""
        if divisor(self.extents[axis], self.context) % self.tile.size == 0:
            return sections
        return (Section(name, (If(Guard((Comparison(coordinate, "<", self.extents[axis]),)), sections),)),)

    def _each_row(self, name: str, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """The loop `name` over the thread's rows, or the sections themselves for one row."""
        if self.tile.rows == 1:
            return sections
        loop = Loop(self.r, integer(0), integer(self.tile.size), self.tile.threads_y, unroll=True)
        return (Section(name, (For(loop, sections),)),)

    def _load(self, tiles: dict[Read, Array]) -> tuple[Section, ...]:
        """Copies input rows to tile rows: adjacent threads load along `down`."""
        transpose, lowering = self.transpose, self.lowering
        column_index, row_index = Scope(), Scope()
        names = (f"{transpose.across.name}_in", f"{transpose.down.name}_in")
        m, n = self._coordinates_of_element(names, 1, column_index, row_index)
        symbols = {**lowering.symbols, transpose.across.name: m, transpose.down.name: n}
        copies = []
        for read, tile in tiles.items():
            subscripts = tuple(to_integer(sub, symbols) for sub in read.subscripts)
            source = Access(self.transpose.arrays[read.array], subscripts, "load")
            copies.append(Copy(Access(tile, (self.row, self.tx), "store"), source))
        in_bounds = self._guarded("load_row_in_bounds", 0, m, (Section("fill_tile", tuple(copies)),))
        rows = self._each_row("load_rows", (Section("load_row", tuple(row_index.nodes)), *in_bounds))
        return Section("load_column", tuple(column_index.nodes)), *self._guarded("load_column_in_bounds", 1, n, rows)

    def _store(self, tiles: dict[Read, Array]) -> tuple[Section, ...]:
        """Loads tile columns and stores output rows: adjacent threads store along `across`."""
        transpose, lowering = self.transpose, self.lowering
        outer_index, inner_index = Scope(), Scope()
        names = (transpose.across.name, transpose.down.name)
        m, n = self._coordinates_of_element(names, 0, outer_index, inner_index)
        lowering.symbols[transpose.across.name], lowering.symbols[transpose.down.name] = m, n
        outer = Scope()
        inner = Scope(outer, frozenset((transpose.down.name,)))
        for read, tile in tiles.items():
            inner.remember(read, self._from_tile(read, tile, inner))
        lower_statements(self.request, lowering, inner)
        elements = Section("elements", tuple(_as_copy(node) for node in inner.nodes))
        in_bounds = self._guarded("inner_in_bounds", 1, n, (elements,))
        inner_loop = self._each_row("inner_loop", (Section("inner_index", tuple(inner_index.nodes)), *in_bounds))
        in_outer = Section("outer_invariants", tuple(outer.nodes)), *inner_loop
        return (
            Section("outer_index", tuple(outer_index.nodes)),
            *self._guarded("outer_in_bounds", 0, m, in_outer),
        )

    def _from_tile(self, read: Read, tile: Array, scope: Scope) -> Expr:
        """The element, as an operand if it is used once, else as a named load."""
        access = Access(tile, (self.tx, self.row), "load")
        mentions = sum(1 for s in self.request.group.statements for node in walk(s.value) if node == read)
        if mentions == 1:
            return Element.of(access)
        name_hint = read.array.lower()
        is_taken = name_hint == self.transpose.arrays[read.array].symbol
        local = Local(self.lowering.names.allocate(f"{name_hint}_value" if is_taken else name_hint), read.dtype)
        scope.nodes.append(Load(local, access))
        return local

    def _reasons(self, tiles: dict[Read, Array]) -> tuple[str, ...]:
        size, transpose = self.tile.size, self.transpose
        arrays = ", ".join(read.array for read in tiles)
        reasons = [
            f"outputs are contiguous along {transpose.across.name}, {arrays} along {transpose.down.name}: a tile of "
            f"{size} x {size} in shared memory coalesces loads and stores"
        ]
        for tile in tiles.values():
            if tile.swizzle:
                reasons.append(f"{tile.symbol}: an xor swizzle spreads a column over the banks")
            elif tile.pad:
                reasons.append(f"{tile.symbol}: rows are padded by {tile.pad}, so that a column spreads over the banks")
        return tuple(reasons)


def _as_copy(node: Node) -> Node:
    """A store of a loaded element of the same type, as a copy without conversion."""
    match node:
        case Store(access=target, value=Element(access=source)) if source.array.dtype == target.array.dtype:
            return Copy(target, source)
    return node
