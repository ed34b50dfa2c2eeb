"""The tiled contraction kernel: k-tiles staged in shared memory, a single-stage main loop, optional register tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cugen.families.contraction.k_range import guarded, k_range
from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.contraction.tiled.config import TileConfig
from cugen.families.contraction.tiled.shared_tiles import declare_tiles
from cugen.pieces.blocks import Blocks, define, limit, make_grid
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    Comparison,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    ReturnUnless,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer, symbol
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Op, Read, Reduce, free_indices, walk
from cugen.spec.types import INT32


class Builder:
    """Builds the kernel of one contraction, section by section."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        self.request, self.contraction, self.config = contraction.request, contraction, config
        self.m, self.n, self.k = contraction.m.name, contraction.n.name, contraction.k.name
        self.lowering: Lowering = new_lowering(contraction.request)
        self.extents = {
            index.name: to_integer(index.extent, self.lowering.symbols)
            for index in (contraction.m, contraction.n, contraction.k, *contraction.batch)
        }
        sizes = {
            self.m: config.block_m,
            self.n: config.block_n,
            self.k: config.block_k,
        }
        self.is_even = {
            name: divides(size, self.extents[name], contraction.request.context) for name, size in sizes.items()
        }
        self.tiles: dict[Read, Array] = {}
        self.loops: dict[str, Index] = {}

    def kernel(self) -> Kernel:
        contraction, config = self.contraction, self.config
        counts = [
            ceil_div(self.extents[self.n], config.block_n),
            ceil_div(self.extents[self.m], config.block_m),
            *(self.extents[index.name] for index in contraction.batch),
        ]
        blocks = make_grid(counts, self.lowering, self.request.target)
        coordinates = self._coordinates(blocks)
        self.tiles = declare_tiles(contraction, config, self.lowering)
        declarations = tuple(Declare(tile) for tile in self.tiles.values())
        initialisation, accumulators = self._accumulators()
        main_loop = self._main_loop(accumulators)
        epilogue = self._epilogue(accumulators)
        sections = (
            ("tiles", declarations),
            ("coordinates", coordinates),
            ("accumulators", initialisation),
            ("main_loop", (main_loop,)),
            *((section.name, section.body) for section in epilogue),
        )
        kernel = assemble(
            self.request, self.lowering, "tiled", sections, blocks.grid, (config.threads_x, config.threads_y, 1)
        )
        what = "a contraction" if len(contraction.sums) == 1 else f"{len(contraction.sums)} contractions"
        reason = (
            f"{what} over {self.k}: block tile {config.block_m} x {config.block_n} x {config.block_k}, "
            f"thread tile {config.thread_m} x {config.thread_n}"
        )
        return replace(kernel, reasons=(reason,))

    # Block and thread coordinates

    def _coordinates(self, blocks: Blocks) -> tuple[Node, ...]:
        lowering, contraction, config = self.lowering, self.contraction, self.config
        nodes: list[Node] = []
        self.tx = self._builtin("threadIdx.x", "tx", config.threads_x, nodes)
        self.ty = self._builtin("threadIdx.y", "ty", config.threads_y, nodes)
        block_x, block_y, *batch_coordinates = blocks.coordinates
        for index, coordinate in zip(contraction.batch, batch_coordinates, strict=True):
            node = define(index.name, coordinate, lowering)
            limit(node.index, self.extents[index.name], lowering)
            lowering.symbols[index.name] = node.index.symbol
            nodes.append(node)
        m0 = self._define(f"{self.m}0", block_y * config.block_m, nodes)
        n0 = self._define(f"{self.n}0", block_x * config.block_n, nodes)
        self.origin = {self.m: m0, self.n: n0}
        if config.is_scalar:
            for index, thread in ((contraction.m, self.ty), (contraction.n, self.tx)):
                lowering.symbols[index.name] = self._define(index.name, self.origin[index.name] + thread, nodes)
        return tuple(nodes)

    def _builtin(self, name: str, name_hint: str, count: int, nodes: list[Node]) -> Integer:
        builtin = symbol(name)
        self.lowering.ranges[builtin] = (0, count - 1)
        return self._define(name_hint, builtin, nodes)

    def _define(self, name_hint: str, definition: Integer, nodes: list[Node]) -> Integer:
        index = Index(self.lowering.names.allocate(name_hint), definition, bounds(definition, self.lowering.ranges))
        self.lowering.ranges[index.symbol] = index.range
        nodes.append(Define(index))
        return index.symbol

    # Accumulators

    def _accumulators(self) -> tuple[tuple[Node, ...], dict[Reduce, Local | Array]]:
        """Zeroed accumulators: a local for each sum, or a register array of the thread tile's extents."""
        config = self.config
        nodes: list[Node] = []
        accumulators: dict[Reduce, Local | Array] = {}
        for reduction in self.contraction.sums:
            name, dtype = self.lowering.names.allocate("acc"), reduction.dtype
            if config.is_scalar:
                local = Local(name, dtype)
                self._bound_accumulator(local, reduction)
                nodes.append(Let(local, Const(0, dtype), mutable=True))
                accumulators[reduction] = local
            else:
                extents = (integer(config.thread_m), integer(config.thread_n))
                array = Array("", name, dtype, extents, (extents[1], integer(1)), "register", flat=False)
                nodes.append(Declare(array, zeroed=True))
                accumulators[reduction] = array
        return tuple(nodes), accumulators

    def _bound_accumulator(self, local: Local, reduction: Reduce) -> None:
        """Gives an int32 accumulator its range if it provably can't overflow: then plain `+=` needs no wraparound."""
        if local.dtype != INT32:
            return
        low, high = interval(reduction.body, {})
        terms = bounds(self.extents[self.k], self.lowering.ranges)[1]
        values = (min(low, 0) * terms, max(high, 0) * terms)
        if fits(values, INT32):
            self.lowering.ranges[symbol(local.name)] = values

    # Main loop

    def _main_loop(self, accumulators: dict[Reduce, Local | Array]) -> Node:
        contraction, config, lowering = self.contraction, self.config, self.lowering
        k_extent = self.extents[self.k]
        k_tiles = bounds(ceil_div(k_extent, config.block_k), lowering.ranges)[1]
        # The range of the loop variable includes the value at which the loop stops.
        k0 = Index(lowering.names.allocate(f"{self.k}0"), integer(0), (0, k_tiles * config.block_k))
        lowering.ranges[k0.symbol] = (0, max(k_tiles - 1, 0) * config.block_k)
        self.origin[self.k] = k0.symbol
        block_tile = {
            self.m: (self.origin[self.m], config.block_m),
            self.n: (self.origin[self.n], config.block_n),
        }
        start, stop = k_range(lowering, contraction.conditions, (self.k, k_extent), block_tile, config.block_k)
        k = Index(lowering.names.allocate(self.k), integer(0), (0, config.block_k - 1))
        lowering.ranges[k.symbol] = k.range
        load_a_tiles = self._load_tiles(contraction.a_operands)
        load_b_tiles = self._load_tiles(contraction.b_operands)
        multiply = For(
            Loop(k, integer(0), integer(config.block_k), unroll=True), self._multiply_accumulate(k.symbol, accumulators)
        )
        body = (
            Section("load_a_tiles", load_a_tiles),
            Section("load_b_tiles", load_b_tiles),
            Section("tiles_stored", (Barrier(),)),
            Section("multiply", (multiply,)),
            Section("tiles_read", (Barrier(),)),
        )
        return For(Loop(k0, start, stop, config.block_k), body)

    def _load_tiles(self, operands: Sequence[Operand]) -> tuple[Node, ...]:
        return tuple(node for operand in operands if operand.read in self.tiles for node in self._load_tile(operand))

    def _load_tile(self, operand: Operand) -> tuple[Node, ...]:
        """The block's threads copy the operand's tile, adjacent threads along its fast dimension (coalesced)."""
        tile, config = self.tiles[operand.read], self.config
        height, width = (int(extent) for extent in tile.shape)
        if (height, width) == (config.threads_y, config.threads_x):
            return (self._copy_element(operand, tile, self.ty, self.tx),)
        if height % config.threads_y == 0 and width % config.threads_x == 0:
            row = None if height == config.threads_y else self._loop_index("r", height)
            column = None if width == config.threads_x else self._loop_index("c", width)
            node: Node = self._copy_element(
                operand, tile, self.ty if row is None else row.symbol, self.tx if column is None else column.symbol
            )
            if column is not None:
                node = For(Loop(column, self.tx, integer(width), config.threads_x), (node,))
            if row is not None:
                node = For(Loop(row, self.ty, integer(height), config.threads_y), (node,))
            return (node,)
        element = self._loop_index("element", height * width)
        nodes: list[Node] = []
        position = element.symbol
        row, column = self._loop_index("r", height), self._loop_index("c", width)
        nodes.append(Define(replace(row, definition=FloorDiv(position, integer(width)))))
        nodes.append(Define(replace(column, definition=Mod(position, integer(width)))))
        nodes.append(self._copy_element(operand, tile, row.symbol, column.symbol))
        thread = self.ty * config.threads_x + self.tx
        threads = config.threads_x * config.threads_y
        return (For(Loop(element, thread, integer(height * width), threads), tuple(nodes)),)

    def _loop_index(self, name_hint: str, count: int) -> Index:
        """A loop variable; successive loops with the same hint share its name."""
        known = self.loops.get(name_hint)
        name = known.name if known else self.lowering.names.allocate(name_hint)
        index = Index(name, integer(0), (0, max(count - 1, known.range[1] if known else 0)))
        self.loops[name_hint] = index
        self.lowering.ranges[index.symbol] = index.range
        return index

    def _copy_element(self, operand: Operand, tile: Array, row: Integer, column: Integer) -> Node:
        coordinates = {
            operand.slow: self._coordinate(operand.slow, row),
            operand.fast: self._coordinate(operand.fast, column),
        }
        source = self._global_access(operand, coordinates)
        guard = self._guard(operand, coordinates)
        return Copy(Access(tile, (row, column), "store"), source, guard)

    def _coordinate(self, name: str, offset: Integer) -> Integer:
        """The global coordinate at an offset in the block tile; the thread's named m or n where it is that."""
        if self.config.is_scalar:
            thread_offsets = {self.m: self.ty, self.n: self.tx}
            if thread_offsets.get(name) == offset:
                return self.lowering.symbols[name]
        return self.origin[name] + offset

    def _global_access(self, operand: Operand, coordinates: dict[str, Integer]) -> Access:
        subscripts = tuple(to_integer(sub, {**self.lowering.symbols, **coordinates}) for sub in operand.read.subscripts)
        return Access(self.request.context.arrays[operand.read.array], subscripts, "load")

    def _guard(self, operand: Operand, coordinates: dict[str, Integer]) -> Guard:
        names = [s.name for s in operand.read.subscripts if isinstance(s, IndexValue) and s.name in coordinates]
        return Guard(tuple(Comparison(coordinates[n], "<", self.extents[n]) for n in names if not self.is_even[n]))

    def _multiply_accumulate(self, k: Integer, accumulators: dict[Reduce, Local | Array]) -> tuple[Section, ...]:
        """The fragments at one k, and the multiply-accumulates of the thread tile."""
        if not self.config.is_scalar:
            return self._outer_product(k, accumulators)
        nodes: list[Node] = []
        values = {o.read: self._operand_value(o, k, self.ty, nodes) for o in self.contraction.a_operands}
        values |= {o.read: self._operand_value(o, k, self.tx, nodes) for o in self.contraction.b_operands}
        for read, value in values.items():
            if isinstance(value, Element) and self._uses(read) > 1:
                local = Local(self.lowering.names.allocate(read.array.lower()), value.dtype)
                nodes.append(Load(local, value.access))
                values[read] = local
        adds: list[Node] = []
        for reduction, accumulator in accumulators.items():
            assert isinstance(accumulator, Local)
            term = self._term(reduction, values.get, adds)
            adds.append(Assign(accumulator, Op("add", (accumulator, term), accumulator.dtype)))
        multiply = self._masked(self.contraction.conditions, k, {}, adds)
        return Section("load_fragments", tuple(nodes)), Section("multiply_accumulate", multiply)

    def _uses(self, read: Read) -> int:
        return sum(node == read for reduction in self.contraction.sums for node in walk(reduction.body))

    def _term(self, reduction: Reduce, on_read: Callable[[Read], Expr | None], nodes: list[Node]) -> Expr:
        """The term of a sum, its operand reads replaced."""
        scope = Scope()
        value = self.lowering.lower(substitute(reduction.body, {}, on_read), scope)
        nodes += scope.nodes
        return value

    def _operand_value(self, operand: Operand, k: Integer, mn: Integer, nodes: list[Node]) -> Expr:
        """An operand's element at tile coordinates: from its tile, or from global memory with zero out of bounds."""
        tile = self.tiles.get(operand.read)
        if tile is not None:
            is_k_slow = operand.slow == self.k
            return Element.of(Access(tile, (k, mn) if is_k_slow else (mn, k), "load"))
        mn_name = operand.mn.name
        coordinates = {self.k: self.origin[self.k] + k, mn_name: self._coordinate(mn_name, mn)}
        guard = self._guard(operand, coordinates)
        local = Local(self.lowering.names.allocate(operand.read.array.lower()), operand.read.dtype)
        zero = Const(0, local.dtype) if guard.terms else None
        nodes.append(Load(local, self._global_access(operand, coordinates), guard if guard.terms else None, zero))
        return local

    def _outer_product(self, k: Integer, accumulators: dict[Reduce, Local | Array]) -> tuple[Section, ...]:
        """Loads a TM column of A and a TN row of B into register fragments and accumulates their outer product."""
        config, lowering = self.config, self.lowering
        nodes: list[Node] = []
        fragments: dict[Read, tuple[Array, Integer]] = {}
        i, j = self._thread_indices()
        a_fragments = [(o, self.ty, config.thread_m, config.threads_y, i) for o in self.contraction.a_operands]
        b_fragments = [(o, self.tx, config.thread_n, config.threads_x, j) for o in self.contraction.b_operands]
        for operand, thread, count, stride, index in (*a_fragments, *b_fragments):
            name = lowering.names.allocate(f"{operand.read.array.lower()}_frag")
            fragment = Array("", name, operand.read.dtype, (integer(count),), (integer(1),), "register", flat=False)
            fragments[operand.read] = fragment, index.symbol
            body: list[Node] = []
            value = self._operand_value(operand, k, thread + index.symbol * stride, body)
            body.append(Store(Access(fragment, (index.symbol,), "store"), value))
            nodes += [Declare(fragment), For(Loop(index, integer(0), integer(count), unroll=True), tuple(body))]

        def on_read(read: Read) -> Expr:
            fragment, position = fragments[read]
            return Element.of(Access(fragment, (position,), "load"))

        adds: list[Node] = []
        position = (i.symbol, j.symbol)
        for reduction, accumulator in accumulators.items():
            assert isinstance(accumulator, Array)
            term = self._term(reduction, on_read, adds)
            if accumulator.dtype.is_float:
                adds.append(Accumulate(Access(accumulator, position, "store"), term))
            else:
                old = Element.of(Access(accumulator, position, "load"))
                adds.append(Store(Access(accumulator, position, "store"), Op("add", (old, term), accumulator.dtype)))
        coordinates = {
            self.m: self.origin[self.m] + self.ty + i.symbol * config.threads_y,
            self.n: self.origin[self.n] + self.tx + j.symbol * config.threads_x,
        }
        # A condition without n is tested once for each i, outside the loop over j.
        inner_conditions = [c for c in self.contraction.conditions if self.n in free_indices(c)]
        outer_conditions = [c for c in self.contraction.conditions if self.n not in free_indices(c)]
        inner_body = self._masked(inner_conditions, k, coordinates, adds)
        inner_loop = For(Loop(j, integer(0), integer(config.thread_n), unroll=True), inner_body)
        outer_body = self._masked(outer_conditions, k, coordinates, [inner_loop])
        outer_product = For(Loop(i, integer(0), integer(config.thread_m), unroll=True), outer_body)
        return Section("load_fragments", tuple(nodes)), Section("multiply_accumulate", (outer_product,))

    def _masked(
        self, conditions: Sequence[Expr], k: Integer, coordinates: dict[str, Integer], nodes: list[Node]
    ) -> tuple[Node, ...]:
        """The nodes under the sum's conditions at k."""
        symbols = {**self.lowering.symbols, **coordinates, self.k: self.origin[self.k] + k}
        return guarded(self.lowering, conditions, symbols, nodes)

    def _thread_indices(self) -> tuple[Index, Index]:
        return self._loop_index("i", self.config.thread_m), self._loop_index("j", self.config.thread_n)

    # Epilogue

    def _epilogue(self, accumulators: dict[Reduce, Local | Array]) -> tuple[Section, ...]:
        """Evaluates the statements on the thread tile's sums, guarded at the edges of the output."""
        contraction, config, lowering = self.contraction, self.config, self.lowering
        guarded_names = [index.name for index in (contraction.m, contraction.n) if not self.is_even[index.name]]
        scope = Scope()
        if config.is_scalar:
            guard = self._output_guard(guarded_names)
            bounds_check = (ReturnUnless(guard),) if guard.terms else ()
            for reduction, local in accumulators.items():
                assert isinstance(local, Local)
                scope.remember(reduction, local)
            self._narrow()
            lower_statements(self.request, lowering, scope)
            return Section("bounds_check", bounds_check), Section("outputs", tuple(scope.nodes))
        i, j = self._thread_indices()
        outer: list[Node] = []
        m = self._define(self.m, self.origin[self.m] + self.ty + i.symbol * config.threads_y, outer)
        inner: list[Node] = []
        n = self._define(self.n, self.origin[self.n] + self.tx + j.symbol * config.threads_x, inner)
        lowering.symbols[self.m], lowering.symbols[self.n] = m, n
        guard = self._output_guard(guarded_names)
        self._narrow()
        for reduction, accumulator in accumulators.items():
            assert isinstance(accumulator, Array)
            total = Local(lowering.names.allocate("total"), reduction.dtype)
            scope.nodes.append(Load(total, Access(accumulator, (i.symbol, j.symbol), "load")))
            scope.remember(reduction, total)
        lower_statements(self.request, lowering, scope)
        body = (If(guard, tuple(scope.nodes)),) if guard.terms else tuple(scope.nodes)
        columns = For(
            Loop(j, integer(0), integer(config.thread_n), unroll=True),
            (Section("column_coordinate", tuple(inner)), Section("outputs", body)),
        )
        rows = For(
            Loop(i, integer(0), integer(config.thread_m), unroll=True),
            (Section("row_coordinate", tuple(outer)), Section("columns", (columns,))),
        )
        return (Section("rows", (rows,)),)

    def _output_guard(self, names: list[str]) -> Guard:
        return Guard(tuple(Comparison(self.lowering.symbols[n], "<", self.extents[n]) for n in names))

    def _narrow(self) -> None:
        """Bounds m and n by the output's extents, as the guard ensures."""
        for index in (self.contraction.m, self.contraction.n):
            name = self.lowering.symbols[index.name]
            self.lowering.limits[name] = self.extents[index.name]
