"""Skinny GEMM with an N-major B: lanes read consecutive columns, groups of lanes split K within the block."""

from __future__ import annotations

from cugen.families.gemm.skinny.kernel import SkinnyKernel
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import loop_variable, repeated, repeated_sections, shared_loop_variable, value_of
from cugen.pieces.sections import guarded
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import Assign, Barrier, Comparison, Declare, For, Index, Let, Loop, Node, Section, Store, when
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, integer
from cugen.spec.expressions import Local, Op


class NMajorKernel(SkinnyKernel):
    """The kernel whose blocks add their partial sums row by row: in a warp by shuffles, then through shared memory."""

    def _clamped_column(self) -> Integer:
        """The thread's first column, clamped to the last full vector."""
        return self.n0 if self.is_even else Minimum(self.n0, self.n_extent - self.config.tile_n)

    def _epilogue(self) -> tuple[Section, ...]:
        config, total = self.config, self.total
        if config.k_groups == 1:
            total_of_thread = (Let(total, self._partial(), mutable=True),)
            return repeated_sections("rows", self.i, self._storing_threads(self.j, self.column, total_of_thread))
        name, sizes = self.lowering.names.allocate("partials"), (config.warps, config.tile_n, config.lanes)
        partials = dense_array(name, total.dtype, sizes, "shared")  # [warp][column of the lane][lane], of one row
        columns_per_group = max(config.tile_n // config.k_groups, 1)
        v = shared_loop_variable("v", (0, columns_per_group - 1), self.lowering)
        column = self.group * columns_per_group + value_of(v)

        def partial(warp: Integer) -> Element:
            return Element.of(Access(partials, (warp, column, self.lane), "load"))

        sum_nodes: tuple[Node, ...] = (Let(total, partial(integer(0)), mutable=True),)
        if config.warps > 1:
            warp = loop_variable("warp", config.warps, self.lowering, integer(1))
            add = Assign(total, Op("add", (total, partial(warp.symbol)), total.dtype))
            sum_nodes = (*sum_nodes, For(Loop(warp, integer(1), integer(config.warps), unroll=True), (add,)))
        sections = (
            Section("store_partials", repeated(self.j, self._store_partial(partials))),
            Section("partials_stored", (Barrier(),)),
            *self._storing_threads(v, column, sum_nodes),
            # The next row's partials overwrite these.
            Section("partials_read", (Barrier(),) if self.gemm.m_extent > 1 else ()),
        )
        return Section("partials", (Declare(partials),)), *repeated_sections("rows", self.i, sections)

    def _store_partial(self, partials: Array) -> tuple[Node, ...]:
        """Shuffles the partial sums of a warp's groups together and stores the result in shared memory."""
        config, lowering = self.config, self.lowering
        groups_per_warp = integer(config.k_groups // config.warps)
        store = Access(partials, (FloorDiv(self.group, groups_per_warp), self.column, self.lane), "store")
        if groups_per_warp == 1:
            return (Store(store, self._partial()),)
        partial = Local(lowering.names.allocate("partial"), partials.dtype)
        lane_mask = loop_variable("lane_mask", WARP_SIZE, lowering)
        shuffled = Shuffled(partial.name, partial.dtype, lane_mask.symbol)
        steps = integer(int(groups_per_warp).bit_length() - 1)
        loop = Loop(lane_mask, integer(0), steps, unroll=True, doubles=config.lanes)
        butterfly = For(loop, (Assign(partial, Op("add", (partial, shuffled), partial.dtype)),))
        store_partial = when(Mod(self.group, groups_per_warp), "==", integer(0), (Store(store, partial),))
        return Let(partial, self._partial(), mutable=True), butterfly, store_partial

    def _storing_threads(self, columns: Index, column: Integer, sum_nodes: tuple[Node, ...]) -> tuple[Section, ...]:
        """Evaluates the statements for some columns of the thread, after the nodes that compute their totals."""
        config = self.config
        storing_groups = config.tile_n // (columns.range[1] + 1)
        terms = []
        if storing_groups < config.k_groups:
            terms.append(Comparison(self.group, "<", integer(storing_groups)))
        if not self.is_even:
            terms.append(Comparison(self.n0, "<", self.n_extent))
        body = (Section("partial_sum", sum_nodes), Section("outputs", self._outputs(column)))
        return guarded("storing_threads", tuple(terms), repeated_sections("group_columns", columns, body))

    def _work(self) -> str:
        config = self.config
        is_by_warps = config.lanes == WARP_SIZE
        groups = f"{config.warps} warps" if is_by_warps else f"{config.k_groups} groups of {config.lanes} lanes"
        return f"a thread computes {config.tile_n} consecutive columns, {groups} split K within a block"
