"""A transposing kernel that moves vectors on both sides, through tiles of words without bank conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cugen.families.transpose.config import Brick, Side, Turn
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import Neighbours, depends_on_place, load_vectors, vector_body, vector_of, wide_reads
from cugen.pieces.vectors import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.names import Names
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comparison,
    Copy,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, walk

_WORD = 4  # bytes


class BrickKernel:
    """The kernel of one group."""

    def __init__(self, turn: Turn, brick: Brick) -> None:
        self.turn, self.brick = turn, brick
        self.request, self.context = turn.request, turn.request.context
        self.lowering: Lowering = new_lowering(turn.request)
        self.lowering.arrays = turn.arrays
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in turn.order]
        self.sizes = (brick.own, brick.down)
        self.is_flat = brick.load.lanes != brick.store.lanes  # whether the two sides number the threads differently

    def kernel(self) -> Kernel:
        brick = self.brick
        blocks = lay_blocks([*self._counts(), *self.extents[2:]], self.lowering, self.request.target)
        self.tiles = self._tiles()
        indices = self._indices(blocks)
        self.neighbours = self._neighbours()
        outer = self.lowering.names
        self.lowering.names = Names(outer)
        staging = (*self._stage(), Barrier())
        self.lowering.names = Names(outer)
        parts = (
            ("tiles", tuple(Declare(tile) for tile in self.tiles.values())),
            ("indices", indices),
            ("staging", staging),
            ("elements", self._elements()),
        )
        block = (brick.threads, 1, 1) if self.is_flat else (brick.load.lanes, brick.threads // brick.load.lanes, 1)
        kernel = assemble(
            self.request, self.lowering, "transpose", parts, blocks.grid, block, alignments=self._alignments()
        )
        return replace(kernel, reasons=self._reasons())

    def _counts(self) -> list[Integer]:
        return [ceil_div(extent, size) for extent, size in zip(self.extents, self.sizes, strict=False)]

    def _tiles(self) -> dict[Read, Array]:
        brick = self.brick
        tiles = {}
        for read in self.turn.reads:
            source = self.turn.arrays[read.array]
            wish = "tile" if len(self.turn.reads) == 1 else f"{source.symbol}_tile"
            used = (brick.columns - self._slack()) * brick.pack
            tiles[read] = Array(
                read.array,
                self.lowering.names.allocate(wish),
                source.dtype,
                (integer(brick.rows), integer(used)),
                (integer(brick.columns * brick.pack), integer(1)),
                "shared",
                flat=False,
                pad=self._slack() * brick.pack,
                align=brick.pack * source.dtype.bytes if brick.pack > 1 else 0,
            )
        return tiles

    def _slack(self) -> int:
        """Words at a row's end that nothing uses."""
        brick = self.brick
        return brick.columns - brick.down - (brick.down - 1) // brick.period * brick.gap

    def _neighbours(self) -> Neighbours:
        """The output's side: operands that stand ready for wide loads are loaded so, others one by one."""
        turn, width, name = self.turn, self.brick.store.width, self.turn.across.name
        wide = wide_reads(self.request, turn.arrays, name, width, turn.reads)
        return Neighbours(self.request, turn.arrays, name, self.extents[0], width, wide)

    def _indices(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering = self.lowering
        nodes = []
        self.first: list[Integer] = []
        for axis, (index, place) in enumerate(zip(self.turn.order, blocks.places, strict=True)):
            if axis < 2:
                node = define(f"{index.name}0", place * self.sizes[axis], lowering)
                self.first.append(node.index.symbol)
            else:
                node = define(index.name, place, lowering)
                lowering.symbols[index.name] = node.index.symbol
                limit(node.index, self.extents[axis], lowering)
            nodes.append(node)
        ordered = (*nodes[2:], *nodes[:2])
        if self.is_flat:
            return ordered
        lanes, rows = self.brick.load.lanes, self.brick.threads // self.brick.load.lanes
        threads = [define("tx", thread("x", lanes, lowering), lowering)]
        self.tx, self.ty = threads[0].index.symbol, integer(0)
        if rows > 1:
            threads.append(define("ty", thread("y", rows, lowering), lowering))
            self.ty = threads[1].index.symbol
        return (*ordered, *threads)

    def _lay(self, side: Side, suffix: str) -> tuple[Node, ...]:
        """The thread's place on one side of the tile, where that isn't its place in the block."""
        if not self.is_flat:
            return ()
        number = thread("x", self.brick.threads, self.lowering)
        nodes = [
            define(f"tx{suffix}", Mod(number, integer(side.lanes)), self.lowering),
            define(f"ty{suffix}", FloorDiv(number, integer(side.lanes)), self.lowering),
        ]
        self.tx, self.ty = nodes[0].index.symbol, nodes[1].index.symbol
        return tuple(nodes)

    # Loops that the compiler unrolls; of a single trip nothing is left but its content

    def _index(self, wish: str, count: int, step: int = 1) -> tuple[Integer, Index | None]:
        if count <= step:
            return integer(0), None
        index = Index(self.lowering.names.allocate(wish), integer(0), (0, count - step))
        self.lowering.ranges[index.symbol] = index.range
        return index.symbol, index

    def _unrolled(self, index: Index | None, count: int, step: int, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        if index is None:
            return nodes
        return (For(Loop(index, integer(0), integer(count), step, unroll=True), nodes),)

    def _column(self, place: Integer, scope: list[Node]) -> Integer:
        """Where in a row of the tile the word of an index stands: behind the gaps before it."""
        brick = self.brick
        if not brick.gap:
            return place
        node = define("column", place + FloorDiv(place, integer(brick.period)) * brick.gap, self.lowering)
        scope.append(node)
        return node.index.symbol

    # From global memory to the tile

    def _stage(self) -> tuple[Node, ...]:
        """Rows of the input; beyond its edge the last ones again, which nobody uses."""
        brick, turn = self.brick, self.turn
        nodes = list(self._lay(brick.load, "_in"))
        c, columns = self._index("c", brick.down, brick.load.run)
        r, rows = self._index("r", brick.rows, brick.threads // brick.load.lanes)
        outer: list[Node] = []
        across = c + self.tx * brick.load.width
        n_in = self._inside(1, f"{turn.down.name}_in", across, brick.load.width, outer)
        column = self._column(across, outer)
        row = self.ty + r
        inner: list[Node] = []
        m_in = self._row_inside(row, inner)
        for read, tile in self.tiles.items():
            inner += self._fill(read, tile, (m_in, n_in), (row, column))
        step = brick.threads // brick.load.lanes
        body = (*outer, *self._unrolled(rows, brick.rows, step, tuple(inner)))
        return (*nodes, *self._unrolled(columns, brick.down, brick.load.run, body))

    def _row_inside(self, row: Integer, scope: list[Node]) -> Integer:
        return self._inside(0, f"{self.turn.across.name}_in", row * self.brick.pack, self.brick.pack, scope)

    def _inside(self, axis: int, wish: str, place: Integer, width: int, scope: list[Node]) -> Integer:
        """The place in the array, moved inside where tiles may reach over the edge."""
        definition = self.first[axis] + place
        if divisor(self.extents[axis], self.context) % self.sizes[axis]:
            definition = Minimum(definition, self.extents[axis] - width)
        node = define(wish, definition, self.lowering)
        limit(node.index, self.extents[axis], self.lowering)
        scope.append(node)
        return node.index.symbol

    def _fill(
        self, read: Read, tile: Array, source: tuple[Integer, Integer], target: tuple[Integer, Integer]
    ) -> tuple[Node, ...]:
        """One thread's words: `pack` rows of the input side by side."""
        width, pack, (row, column) = self.brick.load.width, self.brick.pack, target
        array = self.turn.arrays[read.array]
        p, each = self._index("p", pack)
        symbols = {**self.lowering.symbols, self.turn.across.name: source[0] + p, self.turn.down.name: source[1]}
        subscripts = tuple(to_integer(sub, symbols) for sub in read.subscripts)
        access = Access(array, subscripts, "load", width)
        if width == 1 and pack == 1:
            return (Copy(Access(tile, (row, column), "store"), access),)
        v, number = self._index("v", width)
        place = Access(tile, (row, (column + v) * pack), "store", pack)
        if pack == 1:
            vector = vector_of(array, read.array, width, self.lowering)
            return (Load(vector, access), *self._unrolled(number, width, 1, (Store(place, vector.component(v)),)))
        word = vector_of(array, "word", pack, self.lowering)
        filled: tuple[Node, ...]
        if width == 1:
            filled = self._unrolled(each, pack, 1, (Assign(word.component(p), Element.of(access)),))
            return (Let(word, None, mutable=True), *filled, Store(place, word))
        vectors = vector_of(array, read.array, width, self.lowering, pack)
        filled = self._unrolled(each, pack, 1, (Load(vectors.one(p), access),))
        moved = Assign(word.component(p), vectors.one(p).component(v))
        body = (Let(word, None, mutable=True), *self._unrolled(each, pack, 1, (moved,)), Store(place, word))
        return (Let(vectors, None, mutable=True), *filled, *self._unrolled(number, width, 1, body))

    # From the tile to global memory

    def _elements(self) -> tuple[Node, ...]:
        """Threads side by side write along `across`, and read the tile's columns."""
        brick, turn, lowering = self.brick, self.turn, self.lowering
        nodes = list(self._lay(brick.store, ""))
        c, columns = self._index("c", brick.across, brick.store.run)
        step = brick.threads // brick.store.lanes
        r, rows = self._index("r", brick.down, step)
        along = c + self.tx * brick.store.width
        ready = (*self.neighbours.wide, *turn.reads)
        own = brick.store.width > 1 and depends_on_place(self.neighbours.statements, turn.across.name, ready)
        m = define(f"{turn.across.name}_first" if own else turn.across.name, self.first[0] + along, lowering)
        n = define(turn.down.name, self.first[1] + self.ty + r, lowering)
        limit(m.index, self.extents[0], lowering)
        limit(n.index, self.extents[1], lowering)
        lowering.symbols[turn.across.name], lowering.symbols[turn.down.name] = m.index.symbol, n.index.symbol
        whole = Scope()
        outer = Scope(whole, frozenset((turn.across.name,)))
        inner = Scope(outer, frozenset((turn.down.name,)))
        found: list[Node] = []
        column = self._column(self.ty + r, found)
        inner.nodes += found
        elements = self._values(inner, c, column)
        row = self._unrolled(rows, brick.down, step, (n, *self._guarded(1, n.index.symbol, elements)))
        body = (m, *self._guarded(0, m.index.symbol, (*outer.nodes, *row)))
        return (*nodes, *whole.nodes, *self._unrolled(columns, brick.across, brick.store.run, body))

    def _guarded(self, axis: int, place: Integer, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes, for the places inside alone where tiles may reach over the edge."""
        if divisor(self.extents[axis], self.context) % self.sizes[axis] == 0:
            return nodes
        return (If(Guard((Comparison(place, "<", self.extents[axis]),)), nodes),)

    def _values(self, scope: Scope, c: Integer, column: Integer) -> tuple[Node, ...]:
        """What the statements say of the thread's elements, the first of them in row `c + tx * width` of the tile."""
        width, pack = self.brick.store.width, self.brick.pack
        along = c + self.tx * width
        if width == 1:
            for read, tile in self.tiles.items():
                scope.remember(read, self._named(read, Access(tile, (along, column), "load"), scope))
            lower_statements(self.request, self.lowering, scope)
            return tuple(moved(node) for node in scope.nodes)
        staged: dict[Read, Callable[[Integer], Expr]] = {}
        for read, tile in self.tiles.items():
            staged[read] = (
                self._words(tile, FloorDiv(c, integer(pack)) + self.tx * (width // pack), column, scope)
                if pack > 1
                else element_of(tile, along, column)
            )
        return vector_body(replace(self.neighbours, staged=staged), self.lowering, scope)

    def _words(self, tile: Array, row: Integer, column: Integer, scope: Scope) -> Callable[[Integer], Expr]:
        """Loads the words of a thread's column."""
        pack, count = self.brick.pack, self.brick.store.width // self.brick.pack
        words = vector_of(tile, tile.name, pack, self.lowering, count)

        def part(w: Integer) -> Access:
            return Access(tile, (row + w, column * pack), "load", pack)

        return load_vectors(words, part, self.lowering, scope)

    def _named(self, read: Read, access: Access, scope: Scope) -> Expr:
        """The element where it is used, or a name for what is used at several places."""
        mentions = sum(1 for s in self.request.group.statements for node in walk(s.value) if node == read)
        if mentions == 1:
            return Element.of(access)
        wish = read.array.lower()
        taken = wish == self.turn.arrays[read.array].symbol
        local = Local(self.lowering.names.allocate(f"{wish}_value" if taken else wish), read.dtype)
        scope.nodes.append(Load(local, access))
        return local

    # What people and the caller must know

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        found = dict(self.neighbours.alignments())
        for read in self.turn.reads:
            asked = self.brick.load.width * self.turn.arrays[read.array].dtype.bytes
            if self.brick.load.width > 1:
                found[read.array] = max(found.get(read.array, 0), asked)
        return tuple((array.name, found[array.name]) for array in self.context.spec.arrays if array.name in found)

    def _reasons(self) -> tuple[str, ...]:
        brick, turn = self.brick, self.turn
        arrays = ", ".join(read.array for read in self.tiles)
        reasons = [
            f"the output's rows run along {turn.across.name}, those of {arrays} along {turn.down.name}: a tile of "
            f"{brick.across} x {brick.down} in shared memory makes both sides contiguous",
            f"{brick.load.width} neighbours in each load, {brick.store.width} in each store",
        ]
        if brick.pack > 1:
            reasons.append(f"{brick.pack} neighbours of the output make a word of the tile")
        reasons.append(
            "a row of the tile is an odd number of words"
            + (f", with {brick.gap} unused after every {brick.period}" if brick.gap else "")
            + ": no two lanes meet in a bank"
        )
        return tuple(reasons)


def element_of(tile: Array, along: Integer, column: Integer) -> Callable[[Integer], Expr]:
    return lambda v: Element.of(Access(tile, (along + v, column), "load"))


def moved(node: Node) -> Node:
    """A store of what was loaded, as a copy: the element isn't converted on its way."""
    match node:
        case Store(access=target, value=Element(access=source)) if source.array.dtype == target.array.dtype:
            return Copy(target, source)
    return node
