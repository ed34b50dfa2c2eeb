"""Skinny GEMM with an N-major B: lanes read consecutive columns, groups of lanes split K within the block."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import GemvConfig
from cugen.families.contraction.skinny.multiply import (
    Fragment,
    accumulators,
    alignments,
    iteration,
    loop_index,
    multiply_accumulate,
    problem,
    repeat,
    repeat_sections,
    uses_operands_only,
)
from cugen.families.contraction.skinny.recognition import SkinnyGemm
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Op


def build_n_major(gemm: SkinnyGemm, config: GemvConfig) -> Kernel:
    return _Builder(gemm, config).kernel()


class _Builder:
    """Builds the kernel: each thread accumulates its share of K, then the block reduces the partial sums."""

    def __init__(self, gemm: SkinnyGemm, config: GemvConfig) -> None:
        self.gemm, self.config, self.request = gemm, config, gemm.request
        self.lowering = new_lowering(gemm.request)
        self.lowering.arrays = gemm.arrays
        self.lane, self.group = thread("x", config.lanes, self.lowering), thread("y", config.k_groups, self.lowering)
        self.n_extent = gemm.extent(gemm.n)
        self.is_even = divides(config.tile_n * config.lanes, self.n_extent, gemm.request.context)

    def kernel(self) -> Kernel:
        gemm, config, lowering = self.gemm, self.config, self.lowering
        block_n = config.tile_n * config.lanes
        counts = [ceil_div(self.n_extent, block_n), *(gemm.extent(index) for index in gemm.batch)]
        blocks = make_grid(counts, lowering, self.request.target)
        nodes: list[Node] = []
        for index, coordinate in zip(gemm.batch, blocks.coordinates[1:], strict=False):
            batch = define(index.name, coordinate, lowering, below=gemm.extent(index))
            limit(batch.index, gemm.extent(index), lowering)
            lowering.symbols[index.name] = batch.index.symbol
            nodes.append(batch)
        n0 = define(f"{gemm.n.name}0", blocks.coordinates[0] * block_n + self.lane * config.tile_n, lowering)
        nodes.append(n0)
        self.n0 = n0.index.symbol
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        accumulator = accumulators(gemm, config.tile_n, lowering)
        main_loop = self._main_loop(accumulator)
        epilogue = self._epilogue(accumulator)
        sections = (
            ("coordinates", tuple(nodes)),
            ("accumulators", (Declare(accumulator, zeroed=True),)),
            *((section.name, section.body) for section in (*main_loop, *epilogue)),
        )
        kernel = assemble(
            self.request,
            lowering,
            "skinny",
            sections,
            blocks.grid,
            (config.lanes, config.k_groups, 1),
            alignments=alignments(gemm, self.fragments),
            minimum_blocks=config.min_blocks_per_sm,
        )
        is_by_warps = config.lanes == WARP_SIZE
        groups = f"{config.warps} warps" if is_by_warps else f"{config.k_groups} groups of {config.lanes} lanes"
        work = f"a thread computes {config.tile_n} consecutive columns, {groups} split K within a block"
        return replace(kernel, reasons=(f"{problem(gemm)}: each element of {gemm.b.array} is read once", work))

    def _main_loop(self, accumulator: Array) -> tuple[Section, ...]:
        """The loop over K, strided by groups: a group multiply-accumulates `k_width` values of k for all rows."""
        gemm, config, lowering = self.gemm, self.config, self.lowering
        extent, block_k = gemm.extent(gemm.k), config.k_width * config.k_groups
        a_fragment = Fragment(gemm, gemm.a, gemm.k, 1, config.k_width, lowering)
        b_fragment = Fragment(gemm, gemm.b, gemm.n, config.k_width, config.tile_n, lowering)
        self.fragments = (b_fragment, a_fragment)
        max_k = bounds(extent, lowering.ranges)[1]
        last = max(max_k - 1, 0) if max_k + block_k <= INT32_MAX else max_k + block_k
        name_hint = f"{gemm.k.name}0" if config.k_width > 1 else gemm.k.name
        k0 = Index(lowering.names.allocate(name_hint), self.group * config.k_width, (0, last))
        lowering.ranges[k0.symbol] = k0.range
        lowering.limits[k0.symbol] = extent
        lowering.symbols[gemm.k.name] = k0.symbol
        i, j = loop_index("i", gemm.m_extent, lowering), loop_index("j", config.tile_n, lowering)
        dk = loop_index("dk", config.k_width, lowering)
        row, column = iteration(i, gemm.m_extent), iteration(j, config.tile_n)
        k_offset = iteration(dk, config.k_width)
        if gemm.m is not None:
            lowering.symbols[gemm.m.name] = row
        clamped_column: list[Node] = []
        n0 = self._clamped_column(clamped_column)
        load_a = a_fragment.load(i)
        lowering.symbols[gemm.k.name] = k0.symbol + k_offset
        lowering.symbols[gemm.n.name] = n0
        load_b = b_fragment.load(dk)
        scope = Scope(Scope(), frozenset((gemm.k.name, gemm.n.name)), certain=False)
        if not uses_operands_only(gemm):
            lowering.symbols[gemm.k.name] = lowering.define(gemm.k.name, k0.symbol + k_offset, scope)
            lowering.symbols[gemm.n.name] = lowering.define(gemm.n.name, n0 + column, scope)
            if gemm.m is not None:
                lowering.symbols[gemm.m.name] = lowering.define(gemm.m.name, row, scope)
        operands = {gemm.b: b_fragment.element(k_offset, column), gemm.a: a_fragment.element(integer(0), k_offset)}
        multiply_accumulate(gemm, lowering, scope, accumulator, (row, column), operands)
        multiply = repeat(dk, config.k_width, repeat(j, config.tile_n, tuple(scope.nodes)))
        row_sections = (Section("load_a", load_a), Section("multiply_accumulate", multiply))
        body = (Section("load_b", load_b), *repeat_sections("rows", i, gemm.m_extent, row_sections))
        iterations = -(-max_k // block_k)
        unroll_by = min(config.loads_in_flight // config.k_width, iterations)
        loop = Loop(k0, k0.definition, extent, block_k, unroll_by=unroll_by if unroll_by > 1 else 0)
        return Section("loop_invariants", tuple(clamped_column)), Section("main_loop", (For(loop, body),))

    def _clamped_column(self, nodes: list[Node]) -> Integer:
        """The thread's first column, clamped to the last full vector, so that loads need no guard."""
        if self.is_even:
            return self.n0
        node = define(self.gemm.n.name, Minimum(self.n0, self.n_extent - self.config.tile_n), self.lowering)
        nodes.append(node)
        return node.index.symbol

    def _epilogue(self, accumulator: Array) -> tuple[Section, ...]:
        """Reduces the partial sums row by row: within a warp by shuffles, across warps through shared memory."""
        gemm, config, lowering = self.gemm, self.config, self.lowering
        i, j = loop_index("i", gemm.m_extent, lowering), loop_index("j", config.tile_n, lowering)
        row, column = iteration(i, gemm.m_extent), iteration(j, config.tile_n)
        total = Local(lowering.names.allocate("total"), accumulator.dtype)
        partial = Element.of(Access(accumulator, (row, column), "load"))
        if config.k_groups == 1:
            outputs = self._outputs(j, config.tile_n, row, column, (Let(total, partial, mutable=True),), total)
            return repeat_sections("rows", i, gemm.m_extent, outputs)
        partials = self._partials(accumulator)
        store_partials = repeat(j, config.tile_n, self._store_partial(partials, column, partial))
        columns_per_group = max(config.tile_n // config.k_groups, 1)
        v = loop_index("v", columns_per_group, lowering)
        column = self.group * columns_per_group + iteration(v, columns_per_group)
        first = Element.of(Access(partials, (integer(0), column, self.lane), "load"))
        body: list[Node] = [Let(total, first, mutable=True)]
        if config.warps > 1:
            warp = Index(lowering.names.allocate("warp"), integer(1), (1, config.warps - 1))
            lowering.ranges[warp.symbol] = warp.range
            warp_partial = Element.of(Access(partials, (warp.symbol, column, self.lane), "load"))
            add = Assign(total, Op("add", (total, warp_partial), total.dtype))
            body.append(For(Loop(warp, integer(1), integer(config.warps), unroll=True), (add,)))
        sections = (
            Section("store_partials", store_partials),
            Section("partials_stored", (Barrier(),)),
            *self._outputs(v, columns_per_group, row, column, tuple(body), total),
            # The next row's partials overwrite these.
            Section("partials_read", (Barrier(),) if gemm.m_extent > 1 else ()),
        )
        return Section("partials", (Declare(partials),)), *repeat_sections("rows", i, gemm.m_extent, sections)

    def _partials(self, accumulator: Array) -> Array:
        """The warps' partial sums of one row in shared memory: [warp, column of the lane, lane]."""
        config, name = self.config, self.lowering.names.allocate("partials")
        extents = (integer(config.warps), integer(config.tile_n), integer(config.lanes))
        strides = (extents[1] * extents[2], extents[2], integer(1))
        return Array("", name, accumulator.dtype, extents, strides, "shared", flat=False)

    def _store_partial(self, partials: Array, column: Integer, value: Expr) -> tuple[Node, ...]:
        """Shuffles the partial sums of a warp's groups together and stores the result in shared memory."""
        config, lowering = self.config, self.lowering
        groups_per_warp = config.k_groups // config.warps
        if groups_per_warp == 1:
            return (Store(Access(partials, (self.group, column, self.lane), "store"), value),)
        partial = Local(lowering.names.allocate("partial"), partials.dtype)
        lane_mask = Index(lowering.names.allocate("lane_mask"), integer(0), (0, WARP_SIZE - 1))
        lowering.ranges[lane_mask.symbol] = lane_mask.range
        shuffled = Shuffled(partial.name, partial.dtype, lane_mask.symbol)
        steps = integer(groups_per_warp.bit_length() - 1)
        loop = Loop(lane_mask, integer(0), steps, unroll=True, doubles=config.lanes)
        butterfly = For(loop, (Assign(partial, Op("add", (partial, shuffled), partial.dtype)),))
        warp = FloorDiv(self.group, integer(groups_per_warp))
        store = Store(Access(partials, (warp, column, self.lane), "store"), partial)
        is_first_group = Guard((Comparison(Mod(self.group, integer(groups_per_warp)), "==", integer(0)),))
        return (Let(partial, value, mutable=True), butterfly, If(is_first_group, (store,)))

    def _outputs(
        self, loop: Index, count: int, row: Integer, column: Integer, sum_nodes: tuple[Node, ...], total: Local
    ) -> tuple[Section, ...]:
        """Evaluates the statements for `count` columns of the thread, after the nodes that compute their totals."""
        gemm, config, lowering = self.gemm, self.config, self.lowering
        scope = Scope()
        n = define(gemm.n.name, self.n0 + column, lowering)
        limit(n.index, self.n_extent, lowering)
        lowering.symbols[gemm.n.name] = n.index.symbol
        indices: list[Node] = [n]
        if gemm.m is not None:
            m = define(gemm.m.name, row, lowering)
            lowering.symbols[gemm.m.name] = m.index.symbol
            indices.append(m)
        scope.remember(gemm.reduction, total)
        lower_statements(self.request, lowering, scope)
        storing_groups = config.tile_n // count
        terms = []
        if storing_groups < config.k_groups:
            terms.append(Comparison(self.group, "<", integer(storing_groups)))
        if not self.is_even:
            terms.append(Comparison(self.n0, "<", self.n_extent))
        column_sections = (Section("partial_sum", sum_nodes), Section("outputs", (*indices, *scope.nodes)))
        sections = repeat_sections("group_columns", loop, count, column_sections)
        return (Section("storing_threads", (If(Guard(tuple(terms)), sections),)),) if terms else sections
