"""The small batched GEMM kernel: operands staged once, accumulators in registers, vectorised stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cugen.families.contraction.batched.config import BatchConfig, Partition, SharedTile
from cugen.families.contraction.batched.copy import load_tile, tile_array, tile_subscripts
from cugen.families.contraction.k_range import guarded
from cugen.families.contraction.recognition import Contraction, Operand
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import ConsecutiveElements, vector_body, wide_reads
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Accumulate,
    Barrier,
    Comparison,
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
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, Range, ceil_div, integer
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read, Reduce

_PARTIAL_UNROLL_K = 8  # values of k per iteration of a loop that is too long to unroll fully (heuristic)


FragmentElement = Callable[[Index], Expr]  # an element of a register fragment, by its loop variable


class Builder:
    """Builds the kernel of one batched contraction, section by section."""

    def __init__(self, contraction: Contraction, config: BatchConfig) -> None:
        self.contraction, self.config, self.request = contraction, config, contraction.request
        self.lowering = new_lowering(contraction.request)
        self.arrays = {tile.operand.read: tile_array(contraction, tile, config, self.lowering) for tile in config.tiles}
        self.batch_extent = to_integer(contraction.batch[0].extent, self.lowering.symbols)
        self.is_even = divides(config.batch, self.batch_extent, self.request.context)
        self.accumulators: dict[Reduce, Array] = {}
        self.store_alignments: dict[str, int] = {}

    def kernel(self) -> Kernel:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        extents = [to_integer(index.extent, lowering.symbols) for index in contraction.batch]
        blocks = make_grid([ceil_div(self.batch_extent, config.batch), *extents[1:]], lowering, self.request.target)
        coordinates = self._coordinates(blocks.coordinates, extents)
        thread_id = thread("x", config.threads_per_matrix, lowering) + self.matrix * config.threads_per_matrix
        load_a_tiles = self._load_tiles(contraction.a_operands, thread_id)
        load_b_tiles = self._load_tiles(contraction.b_operands, thread_id)
        accumulators = self._accumulators()
        main_loop = self._main_loop()
        epilogue = self._epilogue()
        sections = (
            ("tiles", tuple(Declare(array) for array in self.arrays.values())),
            ("coordinates", coordinates),
            ("load_a_tiles", load_a_tiles),
            ("load_b_tiles", load_b_tiles),
            ("tiles_stored", (Barrier(),)),
            ("accumulators", accumulators),
            ("main_loop", (main_loop,)),
            *((section.name, section.body) for section in epilogue),
        )
        kernel = assemble(
            self.request,
            lowering,
            "batched",
            sections,
            blocks.grid,
            (config.threads_per_matrix, config.batch, 1),
            alignments=self._alignments(),
        )
        return replace(kernel, reasons=self._reasons())

    # Block and thread coordinates

    def _coordinates(self, block: tuple[Integer, ...], extents: list[Integer]) -> tuple[Node, ...]:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        nodes: list[Node] = []
        thread_id = thread("x", config.threads_per_matrix, lowering)
        self.matrix = thread("y", config.batch, lowering)
        self.thread_coordinates = {
            contraction.m.name: self._define("ty", FloorDiv(thread_id, integer(config.n.threads)), nodes),
            contraction.n.name: self._define("tx", Mod(thread_id, integer(config.n.threads)), nodes),
        }
        for index, coordinate, extent in zip(contraction.batch[1:], block[1:], extents[1:], strict=False):
            node = define(index.name, coordinate, lowering, below=extent)
            limit(node.index, extent, lowering)
            lowering.symbols[index.name] = node.index.symbol
            nodes.append(node)
        name = contraction.batch[0].name
        if config.batch > 1:
            below = ceil_div(self.batch_extent, config.batch) * config.batch
            node = define(f"{name}0", block[0] * config.batch, lowering, below=below)
            nodes.append(node)
            self.batch0: Integer = node.index.symbol
            node = define(name, self.batch0 + self.matrix, lowering, below=below)
        else:
            node = define(name, block[0], lowering, below=self.batch_extent)
            self.batch0 = node.index.symbol
        if self.is_even:
            limit(node.index, self.batch_extent, lowering)
        lowering.symbols[name] = node.index.symbol
        return (*nodes, node)

    def _define(self, name_hint: str, definition: Integer, nodes: list[Node]) -> Integer:
        if definition.is_Integer:
            return definition
        node = define(name_hint, definition, self.lowering)
        nodes.append(node)
        return node.index.symbol

    def _load_tiles(self, operands: Sequence[Operand], thread_id: Integer) -> tuple[Node, ...]:
        return tuple(
            node
            for tile in self.config.tiles
            if tile.operand in operands
            for node in load_tile(
                self.contraction,
                tile,
                self.config,
                self.arrays[tile.operand.read],
                self.lowering,
                self.batch0,
                thread_id,
            )
        )

    # Main loop

    def _accumulators(self) -> tuple[Node, ...]:
        extents = (integer(self.config.m.per_thread), integer(self.config.n.per_thread))
        for reduction in self.contraction.sums:
            name = self.lowering.names.allocate("acc")
            strides = (extents[1], integer(1))
            self.accumulators[reduction] = Array(name, name, reduction.dtype, extents, strides, "register", flat=False)
        return tuple(Declare(array, zeroed=True) for array in self.accumulators.values())

    def _main_loop(self) -> Node:
        """The loop over k; each iteration multiplies `k_width` values of k, read per access from K-major tiles."""
        config, k_name = self.config, self.contraction.k.name
        k0 = self._loop_index(f"{k_name}0" if config.k_width > 1 else k_name, (0, config.k - config.k_width))
        dk = self._loop_index("dk", (0, config.k_width - 1)) if config.k_width > 1 else None
        k = k0.symbol if dk is None else k0.symbol + dk.symbol
        fragments: dict[Read, FragmentElement] = {}
        loads: list[Node] = []
        body: list[Node] = []
        for tile in config.tiles:
            if tile.is_k_major:
                fragments[tile.operand.read] = self._load_k_major(tile, k0.symbol, dk, loads)
            else:
                fragments[tile.operand.read] = self._load_mn_major(tile, k, body)
        multiply: tuple[Section, ...] = (
            Section("load_fragments", tuple(body)),
            Section("multiply_accumulate", self._multiply_accumulate(k, fragments)),
        )
        if dk is not None:
            inner_loop = For(Loop(dk, integer(0), integer(config.k_width), unroll=True), multiply)
            multiply = (Section("vector_elements", (inner_loop,)),)
        unroll_by = 0 if config.is_unrolled else max(_PARTIAL_UNROLL_K // config.k_width, 1)
        loop = Loop(k0, integer(0), integer(config.k), config.k_width, unroll=config.is_unrolled, unroll_by=unroll_by)
        return For(loop, (Section("load_k_major_fragments", tuple(loads)), *multiply))

    def _load_k_major(self, tile: SharedTile, k0: Integer, dk: Index | None, nodes: list[Node]) -> FragmentElement:
        """Loads vectors of `k_width` consecutive k, one for each of the thread's rows of a K-major tile."""
        partition, read = tile.mn, tile.operand.read
        index = self._element_index(partition)
        coordinate = self._element_coordinate(partition, index.symbol)
        access = Access(self.arrays[read], self._tile_subscripts(tile, coordinate, k0), "load", tile.read_width)
        if dk is None:
            return self._load_scalars(tile, access, index, partition.per_thread, nodes)
        vector = self._vector(tile, partition.per_thread)
        load = Load(vector.indexed(index.symbol) if vector.count else vector, access)
        self._repeat(vector, load, index, partition.per_thread, nodes)
        return lambda element: (vector.indexed(element.symbol) if vector.count else vector).component(dk.symbol)

    def _load_mn_major(self, tile: SharedTile, k: Integer, nodes: list[Node]) -> FragmentElement:
        """Loads the thread's vectors along M or N at one k of an M-major or N-major tile."""
        partition, read = tile.mn, tile.operand.read
        index = self._vector_index(partition)
        coordinate = self._vector_coordinate(partition, index)
        access = Access(self.arrays[read], self._tile_subscripts(tile, k, coordinate), "load", tile.read_width)
        if partition.width == 1:
            return self._load_scalars(tile, access, index, partition.per_thread, nodes)
        vector = self._vector(tile, partition.vectors)
        load = Load(vector.indexed(index.symbol) if vector.count else vector, access)
        self._repeat(vector, load, index, partition.vectors, nodes)
        width = integer(partition.width)

        def component(element: Index) -> Expr:
            if not vector.count:
                return vector.component(element.symbol)
            return vector.indexed(FloorDiv(element.symbol, width)).component(Mod(element.symbol, width))

        return component

    def _load_scalars(
        self, tile: SharedTile, access: Access, index: Index, count: int, nodes: list[Node]
    ) -> FragmentElement:
        """Loads a scalar fragment: a local, or a register array of `count` elements."""
        name = self.lowering.names.allocate(self._name(tile))
        dtype = tile.operand.read.dtype
        if count == 1:
            local = Local(name, dtype)
            nodes.append(Load(local, access))
            return lambda _: local
        array = Array("", name, dtype, (integer(count),), (integer(1),), "register", flat=False)
        store = Store(Access(array, (index.symbol,), "store"), Element.of(access))
        loop = Loop(index, integer(0), integer(count), unroll=True)
        nodes += [Declare(array), For(loop, (store,))]
        return lambda element: Element.of(Access(array, (element.symbol,), "load"))

    def _repeat(self, vector: Vector, load: Load, index: Index, count: int, nodes: list[Node]) -> None:
        if vector.count:
            loop = Loop(index, integer(0), integer(count), unroll=True)
            nodes += [Let(vector, None, mutable=True), For(loop, (load,))]
        else:
            nodes.append(load)

    def _vector(self, tile: SharedTile, count: int) -> Vector:
        source = self.arrays[tile.operand.read].dtype
        name = self.lowering.names.allocate(self._name(tile))
        return Vector(name, source.compute, source, tile.read_width, count if count > 1 else 0)

    def _name(self, tile: SharedTile) -> str:
        return f"{tile.operand.read.array.lower()}_frag"

    def _tile_subscripts(self, tile: SharedTile, row: Integer, column: Integer) -> tuple[Integer, ...]:
        return tile_subscripts(tile, self.config, self.arrays[tile.operand.read], (self.matrix, row, column))

    def _multiply_accumulate(self, k: Integer, fragments: dict[Read, FragmentElement]) -> tuple[Node, ...]:
        """Accumulates the outer product of the fragments at one k."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        i, j = self._element_index(config.m), self._element_index(config.n)
        a_reads = {operand.read for operand in contraction.a_operands}
        nodes: list[Node] = []

        def on_read(read: Read) -> Expr:
            return fragments[read](i if read in a_reads else j)

        position = tuple(
            element.symbol if partition.per_thread > 1 else integer(0)
            for element, partition in ((i, config.m), (j, config.n))
        )
        for reduction, accumulator in self.accumulators.items():
            scope = Scope()
            term = lowering.lower(substitute(reduction.body, {}, on_read), scope)
            nodes += scope.nodes
            if accumulator.dtype.is_float:
                nodes.append(Accumulate(Access(accumulator, position, "store"), term))
            else:
                old = Element.of(Access(accumulator, position, "load"))
                nodes.append(Store(Access(accumulator, position, "store"), Op("add", (old, term), accumulator.dtype)))
        symbols = {
            **lowering.symbols,
            contraction.m.name: self._element_coordinate(config.m, i.symbol),
            contraction.n.name: self._element_coordinate(config.n, j.symbol),
            contraction.k.name: k,
        }
        body = guarded(lowering, contraction.conditions, symbols, nodes)
        for element, partition in ((j, config.n), (i, config.m)):
            if partition.per_thread > 1:
                body = (For(Loop(element, integer(0), integer(partition.per_thread), unroll=True), body),)
        return body

    def _element_coordinate(self, partition: Partition, element: Integer) -> Integer:
        """The M or N coordinate of one of the thread's elements."""
        first = self.thread_coordinates[partition.index.name]
        if partition.per_thread == 1:
            return first
        if partition.vectors == 1:
            return first * partition.width + element
        if partition.width == 1:
            return first + element * partition.threads
        width = integer(partition.width)
        return (first + FloorDiv(element, width) * partition.threads) * partition.width + Mod(element, width)

    def _vector_coordinate(self, partition: Partition, index: Index) -> Integer:
        """The M or N coordinate of a vector's first element."""
        first = self.thread_coordinates[partition.index.name]
        return (first + index.symbol * partition.threads if partition.vectors > 1 else first) * partition.width

    def _element_index(self, partition: Partition) -> Index:
        return self._loop_index("i" if partition is self.config.m else "j", (0, partition.per_thread - 1))

    def _vector_index(self, partition: Partition) -> Index:
        if partition.width == 1:
            return self._element_index(partition)
        return self._loop_index("r" if partition is self.config.m else "c", (0, partition.vectors - 1))

    def _loop_index(self, name_hint: str, values: Range) -> Index:
        return shared_loop_variable(name_hint, values, self.lowering)

    # Epilogue

    def _epilogue(self) -> tuple[Section, ...]:
        """Evaluates the statements on the thread tile's sums, guarded at the edges of the output and of the batch."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        i = self._element_index(config.m)
        m = define(contraction.m.name, self._element_coordinate(config.m, i.symbol), lowering)
        lowering.symbols[contraction.m.name] = m.index.symbol
        j = self._vector_index(config.n)
        n = define(contraction.n.name, self._vector_coordinate(config.n, j), lowering)
        lowering.symbols[contraction.n.name] = n.index.symbol
        terms: list[Comparison] = []
        if not self.is_even:
            terms.append(Comparison(lowering.symbols[contraction.batch[0].name], "<", self.batch_extent))
        for node, partition in ((m, config.m), (n, config.n)):
            extent = to_integer(partition.index.extent, lowering.symbols)
            if partition.padded_extent > partition.extent:
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        name = lowering.symbols[contraction.batch[0].name]
        lowering.limits[name] = self.batch_extent
        body = self._store_vector(i, j)
        outputs = (If(Guard(tuple(terms)), body),) if terms else body
        columns: tuple[Section, ...] = (Section("column_coordinate", (n,)), Section("outputs", outputs))
        if config.n.vectors > 1:
            loop = Loop(j, integer(0), integer(config.n.vectors), unroll=True)
            columns = (Section("columns", (For(loop, columns),)),)
        rows = (Section("row_coordinate", (m,)), *columns)
        if config.m.per_thread > 1:
            loop = Loop(i, integer(0), integer(config.m.per_thread), unroll=True)
            return (Section("rows", (For(loop, rows),)),)
        return rows

    def _store_vector(self, i: Index, j: Index) -> tuple[Node, ...]:
        """Evaluates the statements for one vector along N of the thread tile and stores it."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        scope = Scope()
        row = i.symbol if config.m.per_thread > 1 else integer(0)
        column0 = j.symbol * config.n.width if config.n.vectors > 1 else integer(0)

        def accumulated(accumulator: Array, component: Integer) -> Element:
            return Element.of(Access(accumulator, (row, column0 + component), "load"))

        if config.n.width == 1:
            for reduction, accumulator in self.accumulators.items():
                local = Local(lowering.names.allocate("total"), reduction.dtype)
                scope.nodes.append(Load(local, accumulated(accumulator, integer(0)).access))
                scope.remember(reduction, local)
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        names = (IndexValue(contraction.m.name), IndexValue(contraction.n.name))
        reads = {
            reduction: Read(accumulator.name, names, reduction.dtype)
            for reduction, accumulator in self.accumulators.items()
        }
        request = self._with_reductions_as(reads)
        accumulators = {accumulator.name: accumulator for accumulator in self.accumulators.values()}
        arrays = {**self.request.context.arrays, **accumulators}
        lowering.arrays = arrays
        staged = {
            reads[reduction]: lambda component, accumulator=accumulator: accumulated(accumulator, component)
            for reduction, accumulator in self.accumulators.items()
        }
        along, width = contraction.n.name, config.n.width
        wide = wide_reads(request, arrays, along, width, tuple(staged))
        extent = to_integer(contraction.n.extent, lowering.symbols)
        elements = ConsecutiveElements(request, arrays, along, extent, width, wide, staged)
        self.store_alignments = dict(elements.alignments())
        return vector_body(elements, lowering, scope)

    def _with_reductions_as(self, reads: dict[Reduce, Read]) -> Request:
        """The request with reads of the accumulators in place of the reductions."""

        def change(node: Expr) -> Expr | None:
            return reads.get(node) if isinstance(node, Reduce) else None

        group = self.request.group
        statements = tuple(replace(s, value=rebuilt(s.value, change)) for s in group.statements)
        return replace(self.request, group=replace(group, statements=statements))

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        """The alignment in bytes that vector accesses need, by array."""
        alignments = dict(self.store_alignments)
        for tile in self.config.tiles:
            name = tile.operand.read.array
            if tile.load_width > 1:
                vector_bytes = tile.load_width * self.request.context.arrays[name].dtype.bytes
                alignments[name] = max(alignments.get(name, 0), vector_bytes)
        arrays = self.request.context.spec.arrays
        return tuple((a.name, alignments[a.name]) for a in arrays if a.name in alignments and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        config = self.config
        problem = f"small batched GEMM, {config.m.extent} x {config.n.extent} x {config.k} (M x N x K)"
        batch = f"{config.batch} matrices per block" if config.batch > 1 else "one matrix per block"
        threads = f"{config.threads_per_matrix} threads each, thread tile {config.m.per_thread} x {config.n.per_thread}"
        loads = [
            f"{tile.operand.read.array} is loaded in vectors of {tile.load_width} elements"
            for tile in config.tiles
            if tile.load_width > 1
        ]
        return (f"{problem}, {batch}: {threads}", *loads)
