"""A transposing kernel as the spec lays it out: a square tile in shared memory, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.families.transpose.config import Turn
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.pieces.kernels import assemble, new_lowering, tile_bytes
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Barrier, Comparison, Copy, Declare, For, Guard, If, Index, Load, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, walk
from cugen.spec.model import Memory

_ROWS = 8  # of threads in a block
_LARGE = 1024  # extent from which larger tiles still fill the device
_WORD = 4  # bytes of a bank


@dataclass(frozen=True, slots=True)
class Square:
    """A tile of `size` x `size` elements, `rows` of them in a column for each thread."""

    size: int
    rows: int

    @property
    def threads_y(self) -> int:
        return self.size // self.rows


def choose_square(turn: Turn) -> Square:
    """The schedule's; else 64 x 64 elements of at most 4 bytes, 32 x 32 where they are wider or matrices small."""
    sides = (turn.across, turn.down)
    names = [index.name for index in sides]
    schedule, context = turn.request.schedule, turn.request.context
    sizes = [size for name, size in schedule.block if name in names]
    if sizes:
        size = sizes[0]
    else:
        bits = max(turn.arrays[read.array].dtype.bits for read in turn.reads)
        extents = [to_integer(index.extent, context.symbols) for index in sides]
        is_small = min(bounds(extent, context.ranges)[1] for extent in extents) < _LARGE
        size = 32 if bits > 32 or (bits == 32 and is_small) else 64
    if schedule.thread:
        return Square(size, max([own for name, own in schedule.thread if name in names], default=1))
    return Square(size, size // _ROWS if size % _ROWS == 0 else 1)


class SquareKernel:
    """The kernel of one group."""

    def __init__(self, turn: Turn, tile: Square) -> None:
        self.turn, self.tile = turn, tile
        self.request, self.context = turn.request, turn.request.context
        self.lowering: Lowering = new_lowering(turn.request)
        self.lowering.arrays = turn.arrays
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in turn.order]

    def kernel(self) -> Kernel:
        size = self.tile.size
        counts = [ceil_div(extent, size) for extent in self.extents[:2]]
        blocks = lay_blocks([*counts, *self.extents[2:]], self.lowering, self.request.target)
        tiles = self._tiles()
        indices = self._indices(blocks)
        self.r = Index(self.lowering.names.allocate("r"), integer(0), (0, size - self.tile.threads_y))
        self.lowering.ranges[self.r.symbol] = self.r.range
        self.row = self.ty + (self.r.symbol if self.tile.rows > 1 else 0)
        parts = (
            ("tiles", tuple(Declare(tile) for tile in tiles.values())),
            ("indices", indices),
            ("staging", (*self._stage(tiles), Barrier())),
            ("elements", self._elements(tiles)),
        )
        block = (size, self.tile.threads_y, 1)
        kernel = assemble(self.request, self.lowering, "transpose", parts, blocks.grid, block)
        return replace(kernel, reasons=self._reasons(tiles))

    def _tiles(self) -> dict[Read, Array]:
        tiles: dict[Read, Array] = {}
        offset = 0
        for read in self.turn.reads:
            source = self.turn.arrays[read.array]
            memory = self._memory(read)
            wish = "tile" if len(self.turn.reads) == 1 else f"{source.symbol}_tile"
            size = integer(self.tile.size)
            tile = Array(
                read.array,
                self.lowering.names.allocate(wish),
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
        """The spec's wish; where it's silent, rows of an odd number of words, so that a column hits all banks."""
        declared = self.context.spec.array(read.array)
        if declared.memory.space == "shared":
            return declared.memory
        return Memory("shared", pad=max(1, _WORD // declared.dtype.bytes))

    def _indices(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering, tile = self.lowering, self.tile
        nodes = []
        self.first: list[Integer] = []
        for axis, (index, place) in enumerate(zip(self.turn.order, blocks.places, strict=True)):
            if axis < 2:
                node = define(f"{index.name}0", place * tile.size, lowering)
                self.first.append(node.index.symbol)
            else:
                node = define(index.name, place, lowering)
                lowering.symbols[index.name] = node.index.symbol
                limit(node.index, self.extents[axis], lowering)
            nodes.append(node)
        threads = [define("tx", thread("x", tile.size, lowering), lowering)]
        self.tx, self.ty = threads[0].index.symbol, integer(0)
        if tile.threads_y > 1:
            threads.append(define("ty", thread("y", tile.threads_y, lowering), lowering))
            self.ty = threads[1].index.symbol
        return (*nodes[2:], *nodes[:2], *threads)

    # The two passes over the tile: threads side by side along `fast`, and down its columns along `slow`

    def _pass(self, names: tuple[str, str], fast: int, scope: Scope, inner: Scope) -> tuple[Integer, Integer]:
        """Defines both places in the arrays, in `scope` and in the loop's `inner` scope."""
        places = {}
        for axis, where, part in ((fast, scope, self.tx), (1 - fast, inner, self.row)):
            node = define(names[axis], self.first[axis] + part, self.lowering)
            limit(node.index, self.extents[axis], self.lowering)
            where.nodes.append(node)
            places[axis] = node.index.symbol
        return places[0], places[1]

    def _guarded(self, axis: int, place: Integer, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes, for the places inside alone where tiles may reach over the edge."""
        if divisor(self.extents[axis], self.context) % self.tile.size == 0:
            return tuple(nodes)
        return (If(Guard((Comparison(place, "<", self.extents[axis]),)), tuple(nodes)),)

    def _each_row(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes for every row of the thread's."""
        if self.tile.rows == 1:
            return nodes
        return (For(Loop(self.r, integer(0), integer(self.tile.size), self.tile.threads_y, unroll=True), nodes),)

    def _stage(self, tiles: dict[Read, Array]) -> tuple[Node, ...]:
        """The tile's rows are those of the input: threads side by side read along `down`."""
        turn, lowering = self.turn, self.lowering
        own, inner = Scope(), Scope()
        names = (f"{turn.across.name}_in", f"{turn.down.name}_in")
        places = self._pass(names, 1, own, inner)
        symbols = {**lowering.symbols, turn.across.name: places[0], turn.down.name: places[1]}
        work = Scope()
        for read, tile in tiles.items():
            subscripts = tuple(to_integer(sub, symbols) for sub in read.subscripts)
            source = Access(self.turn.arrays[read.array], subscripts, "load")
            work.nodes.append(Copy(Access(tile, (self.row, self.tx), "store"), source))
        body = self._each_row((*inner.nodes, *self._guarded(0, places[0], work.nodes)))
        return (*own.nodes, *self._guarded(1, places[1], body))

    def _elements(self, tiles: dict[Read, Array]) -> tuple[Node, ...]:
        """Threads side by side write along `across`, and read the tile's columns."""
        turn, lowering = self.turn, self.lowering
        own, inner = Scope(), Scope()
        places = self._pass((turn.across.name, turn.down.name), 0, own, inner)
        lowering.symbols[turn.across.name], lowering.symbols[turn.down.name] = places
        outer = Scope()
        work = Scope(outer, frozenset((turn.down.name,)))
        for read, tile in tiles.items():
            work.remember(read, self._from_tile(read, tile, work))
        lower_statements(self.request, lowering, work)
        elements = [_moved(node) for node in work.nodes]
        body = self._each_row((*inner.nodes, *self._guarded(1, places[1], elements)))
        return (*own.nodes, *self._guarded(0, places[0], (*outer.nodes, *body)))

    def _from_tile(self, read: Read, tile: Array, scope: Scope) -> Expr:
        """The element where it is used, or a name for what is used at several places."""
        access = Access(tile, (self.tx, self.row), "load")
        mentions = sum(1 for s in self.request.group.statements for node in walk(s.value) if node == read)
        if mentions == 1:
            return Element.of(access)
        wish = read.array.lower()
        taken = wish == self.turn.arrays[read.array].symbol
        local = Local(self.lowering.names.allocate(f"{wish}_value" if taken else wish), read.dtype)
        scope.nodes.append(Load(local, access))
        return local

    def _reasons(self, tiles: dict[Read, Array]) -> tuple[str, ...]:
        size, turn = self.tile.size, self.turn
        arrays = ", ".join(read.array for read in tiles)
        reasons = [
            f"the output's rows run along {turn.across.name}, those of {arrays} along {turn.down.name}: a tile of "
            f"{size} x {size} in shared memory makes both sides contiguous"
        ]
        for tile in tiles.values():
            if tile.swizzle:
                reasons.append(f"{tile.symbol}: xor with the row spreads a column over the banks")
            elif tile.pad:
                reasons.append(f"{tile.symbol}: rows are padded by {tile.pad}, so that a column spreads over the banks")
        return tuple(reasons)


def _moved(node: Node) -> Node:
    """A store of what was loaded, as a copy: the element isn't converted on its way."""
    match node:
        case Store(access=target, value=Element(access=source)) if source.array.dtype == target.array.dtype:
            return Copy(target, source)
    return node
