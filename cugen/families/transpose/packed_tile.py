"""The packed-tile transpose: vector loads and stores through a tile of packed words without bank conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cugen.families.transpose.config import RowMapping, Transpose, TransposeConfig
from cugen.pieces.blocks import Blocks, define, limit, make_grid, thread
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import (
    ConsecutiveElements,
    depends_on_index,
    load_vectors,
    vector_body,
    vector_of,
    wide_reads,
)
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
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, walk


class PackedTileKernel:
    """The kernel of one group."""

    def __init__(self, transpose: Transpose, config: TransposeConfig) -> None:
        self.transpose, self.config = transpose, config
        self.request, self.context = transpose.request, transpose.request.context
        self.lowering: Lowering = new_lowering(transpose.request)
        self.lowering.arrays = transpose.arrays
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in transpose.order]
        self.sizes = (config.step, config.down)
        self.is_flat = config.load.lanes != config.store.lanes  # whether the two sides number the threads differently

    def kernel(self) -> Kernel:
        config = self.config
        blocks = make_grid([*self._counts(), *self.extents[2:]], self.lowering, self.request.target)
        self.tiles = self._tiles()
        coordinates = self._coordinates(blocks)
        self.output_vector = self._output_vector()
        outer = self.lowering.names
        self.lowering.names = Names(outer)
        load = self._load()
        self.lowering.names = Names(outer)
        sections = (
            Section("tiles", tuple(Declare(tile) for tile in self.tiles.values())),
            Section("coordinates", coordinates),
            *load,
            Section("tile_loaded", (Barrier(),)),
            *self._store(),
        )
        parts = [(section.name, section.body) for section in sections]
        block = (config.threads, 1, 1) if self.is_flat else (config.load.lanes, config.threads // config.load.lanes, 1)
        kernel = assemble(
            self.request, self.lowering, "transpose", parts, blocks.grid, block, alignments=self._alignments()
        )
        return replace(kernel, reasons=self._reasons())

    def _counts(self) -> list[Integer]:
        return [ceil_div(extent, size) for extent, size in zip(self.extents, self.sizes, strict=False)]

    def _tiles(self) -> dict[Read, Array]:
        config = self.config
        tiles = {}
        for read in self.transpose.reads:
            source = self.transpose.arrays[read.array]
            name_hint = "tile" if len(self.transpose.reads) == 1 else f"{source.symbol}_tile"
            used = (config.pitch - self._row_padding()) * config.pack
            tiles[read] = Array(
                read.array,
                self.lowering.names.allocate(name_hint),
                source.dtype,
                (integer(config.rows), integer(used)),
                (integer(config.pitch * config.pack), integer(1)),
                "shared",
                flat=False,
                pad=self._row_padding() * config.pack,
                align=config.pack * source.dtype.bytes if config.pack > 1 else 0,
            )
        return tiles

    def _row_padding(self) -> int:
        """Padding words at the end of a tile row."""
        config = self.config
        return config.pitch - config.down - (config.down - 1) // config.period * config.gap

    def _output_vector(self) -> ConsecutiveElements:
        """The vector of output elements; operands are loaded in vectors where alignment allows."""
        transpose, width, name = self.transpose, self.config.store.width, self.transpose.across.name
        wide = wide_reads(self.request, transpose.arrays, name, width, transpose.reads)
        return ConsecutiveElements(self.request, transpose.arrays, name, self.extents[0], width, wide)

    def _coordinates(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering = self.lowering
        nodes = []
        self.first: list[Integer] = []
        for axis, (index, block) in enumerate(zip(self.transpose.order, blocks.coordinates, strict=True)):
            if axis < 2:
                node = define(f"{index.name}0", block * self.sizes[axis], lowering)
                self.first.append(node.index.symbol)
            else:
                node = define(index.name, block, lowering)
                lowering.symbols[index.name] = node.index.symbol
                limit(node.index, self.extents[axis], lowering)
            nodes.append(node)
        ordered = (*nodes[2:], *nodes[:2])
        if self.is_flat:
            return ordered
        lanes, rows = self.config.load.lanes, self.config.threads // self.config.load.lanes
        threads = [define("tx", thread("x", lanes, lowering), lowering)]
        self.tx, self.ty = threads[0].index.symbol, integer(0)
        if rows > 1:
            threads.append(define("ty", thread("y", rows, lowering), lowering))
            self.ty = threads[1].index.symbol
        return (*ordered, *threads)

    def _thread_coordinates(self, mapping: RowMapping, suffix: str) -> tuple[Node, ...]:
        """The thread's coordinates in a row mapping of a flat block."""
        if not self.is_flat:
            return ()
        number = thread("x", self.config.threads, self.lowering)
        nodes = [
            define(f"tx{suffix}", Mod(number, integer(mapping.lanes)), self.lowering),
            define(f"ty{suffix}", FloorDiv(number, integer(mapping.lanes)), self.lowering),
        ]
        self.tx, self.ty = nodes[0].index.symbol, nodes[1].index.symbol
        return tuple(nodes)

    def _index(self, name_hint: str, count: int, step: int = 1) -> tuple[Integer, Index | None]:
        """A loop variable, or 0 and no loop for a single trip."""
        if count <= step:
            return integer(0), None
        index = Index(self.lowering.names.allocate(name_hint), integer(0), (0, count - step))
        self.lowering.ranges[index.symbol] = index.range
        return index.symbol, index

    def _unrolled(self, index: Index | None, count: int, step: int, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        if index is None:
            return nodes
        return (For(Loop(index, integer(0), integer(count), step, unroll=True), nodes),)

    def _loop(
        self, name: str, index: Index | None, count: int, step: int, sections: tuple[Section, ...]
    ) -> tuple[Section, ...]:
        """The loop `name` over the sections, or the sections themselves for a single trip."""
        return sections if index is None else (Section(name, self._unrolled(index, count, step, sections)),)

    def _column(self, word: Integer, scope: list[Node]) -> Integer:
        """The tile column of a word: its number plus the gaps before it."""
        config = self.config
        if not config.gap:
            return word
        node = define("column", word + FloorDiv(word, integer(config.period)) * config.gap, self.lowering)
        scope.append(node)
        return node.index.symbol

    def _load(self) -> tuple[Section, ...]:
        """Copies input rows to the tile. Past the edge it copies the last rows again, unused, instead of a guard."""
        config, transpose = self.config, self.transpose
        threads = self._thread_coordinates(config.load, "_in")
        c, columns = self._index("c", config.down, config.load.span)
        r, rows = self._index("r", config.rows, config.threads // config.load.lanes)
        outer: list[Node] = []
        across = c + self.tx * config.load.width
        n_in = self._clamped(1, f"{transpose.down.name}_in", across, config.load.width, outer)
        column = self._column(across, outer)
        row = self.ty + r
        inner: list[Node] = []
        m_in = self._clamped_row(row, inner)
        elements: list[Node] = []
        for read, tile in self.tiles.items():
            elements += self._fill(read, tile, (m_in, n_in), (row, column))
        step = config.threads // config.load.lanes
        in_row = Section("load_row", tuple(inner)), Section("fill_tile", tuple(elements))
        in_column = Section("load_column", tuple(outer)), *self._loop("load_rows", rows, config.rows, step, in_row)
        return (
            Section("load_threads", threads),
            *self._loop("load_columns", columns, config.down, config.load.span, in_column),
        )

    def _clamped_row(self, row: Integer, scope: list[Node]) -> Integer:
        return self._clamped(0, f"{self.transpose.across.name}_in", row * self.config.pack, self.config.pack, scope)

    def _clamped(self, axis: int, name_hint: str, offset: Integer, width: int, scope: list[Node]) -> Integer:
        """A global coordinate of the tile, clamped if tiles may exceed the extent."""
        definition = self.first[axis] + offset
        if divisor(self.extents[axis], self.context) % self.sizes[axis]:
            definition = Minimum(definition, self.extents[axis] - width)
        node = define(name_hint, definition, self.lowering)
        limit(node.index, self.extents[axis], self.lowering)
        scope.append(node)
        return node.index.symbol

    def _fill(
        self, read: Read, tile: Array, source: tuple[Integer, Integer], target: tuple[Integer, Integer]
    ) -> tuple[Node, ...]:
        """Loads vectors of `pack` input rows and stores them as packed words."""
        width, pack, (row, column) = self.config.load.width, self.config.pack, target
        array = self.transpose.arrays[read.array]
        p, each = self._index("p", pack)
        symbols = {
            **self.lowering.symbols,
            self.transpose.across.name: source[0] + p,
            self.transpose.down.name: source[1],
        }
        subscripts = tuple(to_integer(sub, symbols) for sub in read.subscripts)
        access = Access(array, subscripts, "load", width)
        if width == 1 and pack == 1:
            return (Copy(Access(tile, (row, column), "store"), access),)
        v, number = self._index("v", width)
        store = Access(tile, (row, (column + v) * pack), "store", pack)
        if pack == 1:
            vector = vector_of(array, read.array, width, self.lowering)
            return (Load(vector, access), *self._unrolled(number, width, 1, (Store(store, vector.component(v)),)))
        word = vector_of(array, "word", pack, self.lowering)
        filled: tuple[Node, ...]
        if width == 1:
            filled = self._unrolled(each, pack, 1, (Assign(word.component(p), Element.of(access)),))
            return (Let(word, None, mutable=True), *filled, Store(store, word))
        vectors = vector_of(array, read.array, width, self.lowering, pack)
        filled = self._unrolled(each, pack, 1, (Load(vectors.indexed(p), access),))
        transposed = Assign(word.component(p), vectors.indexed(p).component(v))
        body = (Let(word, None, mutable=True), *self._unrolled(each, pack, 1, (transposed,)), Store(store, word))
        return (Let(vectors, None, mutable=True), *filled, *self._unrolled(number, width, 1, body))

    def _store(self) -> tuple[Section, ...]:
        """Loads tile columns and stores output rows: adjacent threads store along `across`."""
        config, transpose, lowering = self.config, self.transpose, self.lowering
        threads = self._thread_coordinates(config.store, "")
        c, columns = self._index("c", config.across, config.store.span)
        step = config.threads // config.store.lanes
        r, rows = self._index("r", config.down, step)
        along = c + self.tx * config.store.width
        loaded = (*self.output_vector.wide, *transpose.reads)
        needs_index = config.store.width > 1 and depends_on_index(
            self.output_vector.statements, transpose.across.name, loaded
        )
        m = define(
            f"{transpose.across.name}_first" if needs_index else transpose.across.name, self.first[0] + along, lowering
        )
        n = define(transpose.down.name, self.first[1] + self.ty + r, lowering)
        limit(m.index, self.extents[0], lowering)
        limit(n.index, self.extents[1], lowering)
        lowering.symbols[transpose.across.name], lowering.symbols[transpose.down.name] = m.index.symbol, n.index.symbol
        kernel_scope = Scope()
        outer = Scope(kernel_scope, frozenset((transpose.across.name,)))
        inner = Scope(outer, frozenset((transpose.down.name,)))
        column_index: list[Node] = []
        column = self._column(self.ty + r, column_index)
        inner.nodes += column_index
        elements = self._values(inner, c, column)
        in_inner = Section("inner_index", (n,)), *self._guarded("inner_in_bounds", 1, n.index.symbol, elements)
        inner_loop = self._loop("inner_loop", rows, config.down, step, in_inner)
        in_outer = Section("outer_invariants", tuple(outer.nodes)), *inner_loop
        body = Section("outer_index", (m,)), *self._guarded("outer_in_bounds", 0, m.index.symbol, in_outer)
        return (
            Section("store_threads", threads),
            Section("loop_invariants", tuple(kernel_scope.nodes)),
            *self._loop("outer_loop", columns, config.across, config.store.span, body),
        )

    def _guarded(self, name: str, axis: int, coordinate: Integer, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """The branch `name` around the sections if tiles may exceed the extent, else the sections themselves."""
        if divisor(self.extents[axis], self.context) % self.sizes[axis] == 0:
            return sections
        return (Section(name, (If(Guard((Comparison(coordinate, "<", self.extents[axis]),)), sections),)),)

    def _values(self, scope: Scope, c: Integer, column: Integer) -> tuple[Section, ...]:
        """The statements for a thread's elements, from tile row `c + tx * width` on."""
        width, pack = self.config.store.width, self.config.pack
        along = c + self.tx * width
        if width == 1:
            for read, tile in self.tiles.items():
                scope.remember(read, self._named(read, Access(tile, (along, column), "load"), scope))
            lower_statements(self.request, self.lowering, scope)
            return (Section("elements", tuple(as_copy(node) for node in scope.nodes)),)
        staged: dict[Read, Callable[[Integer], Expr]] = {}
        for read, tile in self.tiles.items():
            staged[read] = (
                self._words(tile, FloorDiv(c, integer(pack)) + self.tx * (width // pack), column, scope)
                if pack > 1
                else element_of(tile, along, column)
            )
        return vector_body(replace(self.output_vector, staged=staged), self.lowering, scope)

    def _words(self, tile: Array, row: Integer, column: Integer, scope: Scope) -> Callable[[Integer], Expr]:
        """Loads a thread's words of a tile column."""
        pack, count = self.config.pack, self.config.store.width // self.config.pack
        words = vector_of(tile, tile.name, pack, self.lowering, count)

        def part(w: Integer) -> Access:
            return Access(tile, (row + w, column * pack), "load", pack)

        return load_vectors(words, part, self.lowering, scope)

    def _named(self, read: Read, access: Access, scope: Scope) -> Expr:
        """The element, as an operand if it is used once, else as a named load."""
        mentions = sum(1 for s in self.request.group.statements for node in walk(s.value) if node == read)
        if mentions == 1:
            return Element.of(access)
        name_hint = read.array.lower()
        is_taken = name_hint == self.transpose.arrays[read.array].symbol
        local = Local(self.lowering.names.allocate(f"{name_hint}_value" if is_taken else name_hint), read.dtype)
        scope.nodes.append(Load(local, access))
        return local

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        alignments = dict(self.output_vector.alignments())
        for read in self.transpose.reads:
            required = self.config.load.width * self.transpose.arrays[read.array].dtype.bytes
            if self.config.load.width > 1:
                alignments[read.array] = max(alignments.get(read.array, 0), required)
        return tuple(
            (array.name, alignments[array.name]) for array in self.context.spec.arrays if array.name in alignments
        )

    def _reasons(self) -> tuple[str, ...]:
        config, transpose = self.config, self.transpose
        arrays = ", ".join(read.array for read in self.tiles)
        reasons = [
            f"outputs are contiguous along {transpose.across.name}, {arrays} along {transpose.down.name}: a tile of "
            f"{config.across} x {config.down} in shared memory coalesces loads and stores",
            f"{config.load.width} elements per load, {config.store.width} per store",
        ]
        if config.pack > 1:
            reasons.append(f"{config.pack} consecutive elements of the output are packed into a word of the tile")
        reasons.append(
            "the tile's pitch is an odd number of words"
            + (f", with {config.gap} of padding after every {config.period}" if config.gap else "")
            + ": no bank conflicts"
        )
        return tuple(reasons)


def element_of(tile: Array, along: Integer, column: Integer) -> Callable[[Integer], Expr]:
    return lambda v: Element.of(Access(tile, (along + v, column), "load"))


def as_copy(node: Node) -> Node:
    """A store of a loaded element of the same type, as a copy without conversion."""
    match node:
        case Store(access=target, value=Element(access=source)) if source.array.dtype == target.array.dtype:
            return Copy(target, source)
    return node
