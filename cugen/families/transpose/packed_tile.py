"""The transpose through shared memory: tiles are loaded along input rows and stored along output rows, in vectors
through packed words without bank conflicts, where alignment allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

from cugen.families.transpose.config import RowMapping, Transpose, TransposeConfig, runs
from cugen.pieces.blocks import Blocks, define, define_index, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, dense_array, new_lowering
from cugen.pieces.loop_variables import loop_variable, shared_loop_variable, unrolled
from cugen.pieces.sections import guarded
from cugen.pieces.statements import lower_statements
from cugen.pieces.structures.runs import Run
from cugen.pieces.vector_body import (
    ConsecutiveElements,
    as_copy,
    depends_on_index,
    load_vectors,
    remember_read,
    vector_body,
    vector_of,
    which_of,
    wide_reads,
)
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.names import Names
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comment,
    Comparison,
    Copy,
    Declare,
    Define,
    Index,
    Let,
    Load,
    Node,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, ceil_div, integer
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.shadowing import declared_name
from cugen.spec.expressions import Expr, Local, Read


class PackedTileKernel:
    """The kernel of one group: a block loads `tiles` of the transposed reads, and stores outputs from them.

    `sizes` are the elements between adjacent tiles, across and down; `block` the threads along x and y. With `clamps`,
    loads past the edge copy the last rows again, unused, instead of a guard."""

    clamps = True

    def __init__(self, transpose: Transpose, config: TransposeConfig) -> None:
        self.transpose, self.config = transpose, config
        self.request, self.context = transpose.request, transpose.request.context
        self.lowering = new_lowering(transpose.request, transpose.arrays)
        self.extents = list(map(self.context.extent, transpose.order))
        self.sizes = (config.step, config.down)
        lanes, threads = config.load.lanes, config.threads
        self.is_flat = lanes != config.store.lanes  # whether the two sides number the threads differently
        self.block = (threads, 1) if self.is_flat else (lanes, threads // lanes)

    def kernel(self) -> Kernel:
        blocks = self._grid()
        reads, allocate = self.transpose.reads, self.lowering.names.allocate
        name_hints = ["_".join((f"{read.array}_tile", *which_of(read, reads))) for read in reads]
        name_hints = ["tile"] if len(reads) == 1 else name_hints
        self.tiles = {read: self.tile(read, allocate(hint)) for read, hint in zip(reads, name_hints, strict=True)}
        coordinates = (*self._tile_coordinates(blocks), *self._thread_coordinates())
        outer = self.lowering.names
        self.lowering.names = Names(outer)
        load = self.load()
        # Both phases may use a name but for those that the first declares outside of its loops.
        for name in filter(None, map(declared_name, dissolved(load))):
            outer.allocate(name)
        self.lowering.names = Names(outer)
        sections = (
            Section("tiles", tuple(Declare(tile) for tile in self.tiles.values())),
            Section("coordinates", coordinates),
            *load,
            Section("tile_loaded", (Barrier(),)),
            *self.store(),
        )
        return assemble(
            self.request, self.lowering, "transpose", sections, blocks.grid, (*self.block, 1), reasons=self.reasons()
        )

    def _grid(self) -> Blocks:
        """The blocks, with their coordinates in the order of the indices."""
        across, down = self.counts()
        if not self.config.down_first:
            return make_grid([across, down, *self.extents[2:]], self.lowering, self.request.target)
        blocks = make_grid([down, across, *self.extents[2:]], self.lowering, self.request.target)
        second, first, *outer = blocks.coordinates
        return replace(blocks, coordinates=(first, second, *outer))

    def counts(self) -> list[Integer]:
        """The tiles across and down."""
        return [ceil_div(extent, size) for extent, size in zip(self.extents, self.sizes, strict=False)]

    def _tile_coordinates(self, blocks: Blocks) -> tuple[Define, ...]:
        """The tile's first element in both directions, after the other indices."""
        order, lowering = self.transpose.order, self.lowering
        tile = [
            define(f"{index.name}0", block * size, lowering)
            for index, block, size in zip(order, blocks.coordinates, self.sizes, strict=False)
        ]
        self.first = [node.index.symbol for node in tile]
        outer = zip(order[2:], blocks.coordinates[2:], self.extents[2:], strict=True)
        return (*(define_index(index.name, block, extent, lowering) for index, block, extent in outer), *tile)

    def _thread_coordinates(self) -> tuple[Define, ...]:
        """The thread's coordinates in the block, `tx` and `ty`, where they are those in a row."""
        if self.is_flat:
            return ()
        x, y = self.block
        nodes = [define("tx", thread("x", x, self.lowering), self.lowering)]
        self.tx, self.ty = nodes[0].index.symbol, integer(0)
        if y > 1:
            nodes.append(define("ty", thread("y", y, self.lowering), self.lowering))
            self.ty = nodes[1].index.symbol
        return tuple(nodes)

    def in_bounds(
        self, name: str, axis: int, coordinate: Integer, sections: tuple[Section, ...]
    ) -> tuple[Section, ...]:
        """The branch `name` around the sections if tiles may exceed the extent, else the sections themselves."""
        extent = self.extents[axis]
        terms = () if divides(self.sizes[axis], extent, self.context) else (Comparison(coordinate, "<", extent),)
        return guarded(name, terms, sections)

    def in_column(
        self, name: str, column: Integer, index: Define, sections: tuple[Section, ...]
    ) -> tuple[Section, ...]:
        """As `in_bounds`, of a tile column that threads may exceed, where they don't divide the columns."""
        config, extent = self.config, self.extents[1]
        terms = [] if divides(config.down, extent, self.context) else [Comparison(index.index.symbol, "<", extent)]
        if config.down % (config.threads // config.store.lanes):
            terms.insert(0, Comparison(column, "<", integer(config.down)))
        return guarded(name, tuple(terms), sections)

    def tile(self, read: Read, name: str) -> Array:
        config, dtype = self.config, self.transpose.arrays[read.array].dtype
        columns = config.down + 2 * config.lead
        words = columns + (columns - 1) // config.period * config.gap  # of a row, without those at its end
        sizes = config.rows, words * config.pack
        tile = dense_array(name, dtype, sizes, "shared", (config.pitch - words) * config.pack)
        return replace(tile, name=read.array, align=config.pack * dtype.bytes if config.pack > 1 else 0)

    @cached_property
    def output_vector(self) -> ConsecutiveElements:
        """The vector of output elements; operands are loaded in vectors where alignment allows."""
        transpose, width, name = self.transpose, self.config.store.width, self.transpose.across.name
        wide = wide_reads(self.request, transpose.arrays, name, width, transpose.reads)
        stored = runs(transpose, transpose.stored, transpose.across, width)
        return ConsecutiveElements(self.request, transpose.arrays, name, self.extents[0], width, wide, stored=stored)

    @cached_property
    def loaded(self) -> tuple[Run, ...]:
        """The structures of transposed reads that vectors move."""
        return runs(self.transpose, self.transpose.loaded, self.transpose.down, self.config.load.width)

    @cached_property
    def needs_index(self) -> bool:
        """Whether the statements use the index of each element of a vector."""
        vector, loaded = self.output_vector, (*self.output_vector.wide, *self.transpose.reads)
        return vector.width > 1 and depends_on_index(vector.statements, vector.along, loaded)

    def _thread_in_row(self, mapping: RowMapping, suffix: str) -> tuple[Node, ...]:
        """The thread's coordinates in a row mapping of a flat block."""
        if not self.is_flat:
            return ()
        number = thread("x", self.config.threads, self.lowering)
        tx = define(f"tx{suffix}", Mod(number, integer(mapping.lanes)), self.lowering)
        ty = define(f"ty{suffix}", FloorDiv(number, integer(mapping.lanes)), self.lowering)
        self.tx, self.ty = tx.index.symbol, ty.index.symbol
        return tx, ty

    def _index(self, name_hint: str, count: int, step: int = 1) -> tuple[Integer, Index | None]:
        """A loop variable, or 0 and no loop for a single trip."""
        if count <= step:
            return integer(0), None
        index = loop_variable(name_hint, (count - 1) // step * step + 1, self.lowering)
        return index.symbol, index

    def _element_index(self, name_hint: str, count: int) -> tuple[Integer, Index | None]:
        """A loop variable over elements of a thread, which the copies of all inputs have."""
        if count <= 1:
            return integer(0), None
        index = shared_loop_variable(name_hint, (0, count - 1), self.lowering, f"element {name_hint}")
        return index.symbol, index

    def _loop(self, name: str, index: Index | None, step: int, sections: tuple[Section, ...]) -> tuple[Section, ...]:
        """The loop `name` over the sections, or the sections themselves for a single trip."""
        return sections if index is None else (Section(name, (unrolled(index, sections, step),)),)

    def _column(self, word: Integer, scope: list[Node]) -> Integer:
        """The tile column of a word: its number plus the gaps before it."""
        config = self.config
        if not config.gap:
            return word
        node = define("column", word + FloorDiv(word, integer(config.period)) * config.gap, self.lowering)
        scope.append(node)
        return node.index.symbol

    def load(self) -> tuple[Section, ...]:
        """Copies input rows to the tile."""
        config, transpose = self.config, self.transpose
        threads, step = self._thread_in_row(config.load, "_in"), config.threads // config.load.lanes
        c, columns = self._index("c", config.down, config.load.span)
        r, rows = self._index("r", config.rows, step)
        outer: list[Node] = []
        across = c + self.tx * config.load.width
        n_in = self._source(1, f"{transpose.down.name}_in", across, config.load.width, outer)
        column = self._column(across, outer)
        row = self.ty + r
        inner: list[Node] = []
        m_in = self._source_row(row, config.pack, inner)
        if any(isinstance(n, Define) and n.index.definition.has(Minimum, Maximum) for n in (*outer, *inner)):
            threads = (*threads, Comment("beyond the edges the last elements are loaded again, and not stored"))
        elements: list[Node] = []
        for run in self.loaded:
            elements += self._fill_fields(run, (m_in, n_in), (row, column))
        fields = {reference for run in self.loaded for reference in run.structure.fields}
        for read, tile in self.tiles.items():
            if (read.array, read.subscripts) not in fields:
                elements += self._fill(read, tile, (m_in, n_in), (row, column))
        filled: tuple[Section, ...] = (Section("fill_tile", tuple(elements)),)
        if not self.clamps:
            filled = self.in_bounds("load_row_in_bounds", 0, m_in, filled)
        load_rows = self._loop("load_rows", rows, step, (Section("load_row", tuple(inner)), *filled))
        if not self.clamps:
            load_rows = self.in_bounds("load_column_in_bounds", 1, n_in, load_rows)
        in_column = Section("load_column", tuple(outer)), *load_rows
        return (Section("load_threads", threads), *self._loop("load_columns", columns, config.load.span, in_column))

    def _source_row(self, row: Integer, count: int, scope: list[Node]) -> Integer:
        """The first of `count` adjacent rows in global memory, which are that of the tile."""
        return self._source(0, f"{self.transpose.across.name}_in", row * count, count, scope)

    def _source(self, axis: int, name_hint: str, offset: Integer, width: int, scope: list[Node]) -> Integer:
        """A global coordinate of the tile, clamped if tiles may exceed the extent and loads have no guard."""
        definition = self.first[axis] + offset
        if self.clamps and not divides(self.sizes[axis], self.extents[axis], self.context):
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
        p, each = self._element_index("p", pack)
        across, down = self.transpose.across.name, self.transpose.down.name
        symbols = {**self.lowering.symbols, across: source[0] + p, down: source[1]}
        access = access_of(array, read, symbols, "load", width)
        if width == 1 and pack == 1:
            return (Copy(Access(tile, (row, column), "store"), access),)
        v, number = self._element_index("v", width)
        store = Access(tile, (row, (column + v) * pack), "store", pack)
        if pack == 1:
            vector = vector_of(array, read.array, width, self.lowering, which=which_of(read, self.tiles))
            return (Load(vector, access), *_each(number, (Store(store, vector.component(v)),)))
        word = vector_of(array, "word", pack, self.lowering)
        filled: tuple[Node, ...]
        if width == 1:
            filled = _each(each, (Assign(word.component(p), Element.of(access)),))
            return (Let(word, None, mutable=True), *filled, Store(store, word))
        vectors = vector_of(array, read.array, width, self.lowering, pack, which_of(read, self.tiles))
        filled = _each(each, (Load(vectors.indexed(p), access),))
        transposed = Assign(word.component(p), vectors.indexed(p).component(v))
        body = (Let(word, None, mutable=True), *_each(each, (transposed,)), Store(store, word))
        return (Let(vectors, None, mutable=True), *filled, *_each(number, body))

    def _fill_fields(
        self, run: Run, source: tuple[Integer, Integer], target: tuple[Integer, Integer]
    ) -> tuple[Node, ...]:
        """Loads the structures of a vector's elements, of `pack` input rows, and stores each field to its tile."""
        width, pack, (row, column) = self.config.load.width, self.config.pack, target
        array, count = run.structure.array, len(run.used)
        vectors = vector_of(array, array.name, run.vector, self.lowering, pack * count)
        p, each = self._element_index("p", pack)
        u, number = self._element_index("u", count)
        across, down = self.transpose.across.name, self.transpose.down.name
        symbols = {**self.lowering.symbols, across: source[0] + p, down: source[1]}
        loaded = vectors.indexed(p * count + u) if vectors.count else vectors
        load = Load(loaded, run.access(u + run.used[0], "load", symbols, {}))
        declared = (Let(vectors, None, mutable=True),) if vectors.count else ()
        v, element = self._element_index("v", width)
        stores: list[Node] = []
        for read, tile in self.tiles.items():
            field = run.structure.fields.get((read.array, read.subscripts))
            if field is None:
                continue
            slot, component = run.slot(v, field)
            number_in_run = slot - run.used[0]
            value = (vectors.indexed(p * count + number_in_run) if vectors.count else vectors).component(component)
            access = Access(tile, (row, (column + v) * pack), "store", pack)
            if pack == 1:
                stores.append(Store(access, value))
            else:
                word = vector_of(array, "word", pack, self.lowering)
                stores += [Let(word, None, mutable=True), *_each(each, (Assign(word.component(p), value),))]
                stores.append(Store(access, word))
        return (*declared, *_each(each, _each(number, (load,))), *_each(element, tuple(stores)))

    def store(self) -> tuple[Section, ...]:
        config, transpose, lowering = self.config, self.transpose, self.lowering
        threads, step = self._thread_in_row(config.store, ""), config.threads // config.store.lanes
        c, columns = self._index("c", config.across, config.store.span)
        r, rows = self._index("r", config.down, step)
        along = c + self.tx * config.store.width
        name_hint = f"{transpose.across.name}_first" if self.needs_index else ""
        m = define_index(transpose.across.name, self.first[0] + along, self.extents[0], lowering, name_hint=name_hint)
        n = define_index(transpose.down.name, self.first[1] + self.ty + r, self.extents[1], lowering)
        kernel_scope = Scope()
        outer = Scope(kernel_scope if self.clamps else None, frozenset((transpose.across.name,)))
        inner = Scope(outer, frozenset((transpose.down.name,)))
        column = self.ty + r
        elements = self._values(inner, c, self._column(column + config.lead, inner.nodes))
        in_inner = Section("inner_index", (n,)), *self.in_column("inner_in_bounds", column, n, elements)
        inner_loop = self._loop("inner_loop", rows, step, in_inner)
        in_outer = Section("outer_invariants", tuple(outer.nodes)), *inner_loop
        body = Section("outer_index", (m,)), *self.in_bounds("outer_in_bounds", 0, m.index.symbol, in_outer)
        return (
            Section("store_threads", threads),
            Section("loop_invariants", tuple(kernel_scope.nodes)),
            *self._loop("outer_loop", columns, config.store.span, body),
        )

    def _values(self, scope: Scope, c: Integer, column: Integer) -> tuple[Section, ...]:
        """The statements for a thread's elements, from tile row `c + tx * width` on."""
        width, pack = self.config.store.width, self.config.pack
        along = c + self.tx * width
        if width == 1 and not self.output_vector.stored:
            for read, element in self.elements(along, column).items():
                value = self._in_register(read, element(integer(0)), scope)
                remember_read(self.request, read, value, self.lowering, scope)
            lower_statements(self.request, self.lowering, scope)
            return (Section("elements", tuple(as_copy(node) for node in scope.nodes)),)
        return self.vector(self.lowering, scope, along, FloorDiv(c, integer(pack)) + self.tx * (width // pack), column)

    def _in_register(self, read: Read, element: Expr, scope: Scope) -> Expr:
        """The element, in a named register where the spec requests one."""
        if not isinstance(element, Element) or self.context.spec.array(read.array).memory.space != "register":
            return element
        local = Local(self.lowering.names.allocate(read.array.lower()), element.dtype)
        scope.nodes.append(Load(local, element.access))
        return local

    def vector(
        self, lowering: Lowering, scope: Scope, row: Integer, word: Integer, column: Integer
    ) -> tuple[Section, ...]:
        """The statements for a vector of elements: from tile row `row` on, in words from row `word` on."""
        staged = self.elements(row, column)
        if self.config.pack > 1:
            staged = {read: self._words(tile, word, column, lowering, scope) for read, tile in self.tiles.items()}
        return vector_body(replace(self.output_vector, staged=staged), lowering, scope)

    def elements(self, row: Integer, column: Integer) -> dict[Read, Callable[[Integer], Expr]]:
        """The elements of the output's vector from tile row `row` on, by their number."""
        pack = integer(self.config.pack)

        def element(v: Integer, tile: Array) -> Expr:
            return Element.of(Access(tile, (FloorDiv(row + v, pack), column * pack + Mod(row + v, pack)), "load"))

        return {read: partial(element, tile=tile) for read, tile in self.tiles.items()}

    def _words(
        self, tile: Array, row: Integer, column: Integer, lowering: Lowering, scope: Scope
    ) -> Callable[[Integer], Expr]:
        """Loads a thread's words of a tile column."""
        pack, count = self.config.pack, self.config.store.width // self.config.pack
        words = vector_of(tile, tile.name, pack, lowering, count)
        return load_vectors(words, lambda w: Access(tile, (row + w, column * pack), "load", pack), lowering, scope)

    def tile_reason(self) -> str:
        transpose, arrays = self.transpose, ", ".join(dict.fromkeys(read.array for read in self.tiles))
        rows = "contiguous" if transpose.has_dense_rows else "in the same sectors"
        return (
            f"outputs are {rows} along {transpose.across.name}, {arrays} along {transpose.down.name}: a tile of "
            f"{self.config.across} x {self.config.down} in shared memory coalesces loads and stores"
        )

    def reasons(self) -> tuple[str, ...]:
        config = self.config
        reasons = [self.tile_reason(), f"{config.load.width} elements per load, {config.store.width} per store"]
        if config.pack > 1:
            reasons.append(f"{config.pack} consecutive elements of the output are packed into a word of the tile")
        padding = f", with {config.gap} of padding after every {config.period}" if config.gap else ""
        if config.lead:
            reasons.append("input rows begin anywhere: vectors start before them, and shared memory moves the elements")
        if moved := dict.fromkeys(run.structure.array.name for run in (*self.loaded, *self.output_vector.stored)):
            reasons.append(f"vectors move all fields of an element of {' and '.join(moved)}")
        return (*reasons, f"the tile's pitch is an odd number of words{padding}: no bank conflicts")


def _each(index: Index | None, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes for each value of an index, if there are several."""
    return nodes if index is None else (unrolled(index, nodes),)
