"""The thread group of a row: threads along x, or along y where adjacent threads take adjacent rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy

from cugen.pieces.block_reduce import WARP, Accumulator, SharedPartials, ThreadGroup, group_reduction, merge_named
from cugen.pieces.loop_variables import loop_variable, shared_loop_variable
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Shuffled
from cugen.plan.nodes import Barrier, ClusterBarrier, Loop, Node, Section, when
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


@dataclass(frozen=True, slots=True)
class RowThreadGroup(ThreadGroup):
    """The thread group of a row, among `groups` of the block.

    With `rows_along_x` the groups count along x and the threads of a group along y. With a `cluster` of several blocks
    per row, this block has that `rank`, and `thread_in_row` counts the threads of all of them."""

    rows_along_x: bool = False
    thread_in_row: Integer = sympy.S.Zero
    cluster: int = 1
    rank: Integer = sympy.S.Zero

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.groups, self.threads, 1) if self.rows_along_x else (self.threads, self.groups, 1)

    @property
    def thread(self) -> Integer:
        """The linear thread index in the block."""
        along_x, along_y = (self.number, self.lane) if self.rows_along_x else (self.lane, self.number)
        return along_x + along_y * self.block[0]

    @property
    def may_return(self) -> bool:
        """Whether the threads of a group without a row may exit: no shuffle or barrier of other threads needs them."""
        return self.threads == 1 or (self.threads == WARP and not self.rows_along_x)

    def combine(
        self, accumulators: Sequence[Accumulator], lowering: Lowering, *, broadcast: bool, is_first: bool
    ) -> tuple[Section, ...]:
        """The reduction over the thread group, with one barrier for all accumulators: the sections `reduction` and
        `cluster_reduction`, or `strided_reduction`.

        With `broadcast` all threads get the results, else the first warp; with a cluster, always all. Before its first
        (`is_first`) distributed shared memory access, a block waits until the cluster's blocks have started."""
        if self.threads == 1 or not accumulators:
            return ()
        if self.rows_along_x:
            return (self._reduce_along_y(accumulators, lowering),)
        if self.cluster == 1:
            return (group_reduction(self, accumulators, lowering, everywhere=broadcast),)
        block = group_reduction(self, accumulators, lowering, everywhere=False)
        return (block, self._reduce_over_cluster(accumulators, lowering, is_first=is_first))

    def _reduce_over_cluster(
        self, accumulators: Sequence[Accumulator], lowering: Lowering, *, is_first: bool
    ) -> SectionGroup:
        """All-to-all exchange of the blocks' results through distributed shared memory, combined in rank order.

        Blocks write remotely and read locally: remote reads have a longer latency, and would need a second cluster
        barrier before a block may exit."""
        partials = SharedPartials(accumulators, lambda local: f"block_{local.name}", (self.cluster,), lowering)
        block = shared_loop_variable("block", (1, self.cluster - 1), lowering, "ranks")
        blocks = Loop(block, integer(1), integer(self.cluster), unroll=True)
        store = when(self.lane, "<", integer(self.cluster), partials.stores((self.rank,), rank=self.lane))
        started = Section("blocks_started", (ClusterBarrier("wait"),) if is_first else ())
        exchange = partials.combine_in_order((store,), ClusterBarrier(), blocks, lambda rank: (rank,))
        return SectionGroup("cluster_reduction", (started, *exchange))

    def _reduce_along_y(self, accumulators: Sequence[Accumulator], lowering: Lowering) -> SectionGroup:
        """Shuffles between the lanes of a warp that have the same row, then shared memory between warps."""
        lanes_per_row = min(max(WARP // self.groups, 1), self.threads)
        shuffles = Section("warp_shuffles", tuple(self._reduce_in_warp(accumulators, lowering)))
        groups = self.threads // lanes_per_row
        if groups <= 1:
            return SectionGroup("strided_reduction", (shuffles,))
        group = FloorDiv(self.lane, integer(lanes_per_row))
        sizes = (groups, self.groups)
        partials = SharedPartials(accumulators, lambda local: f"group_{local.name}", sizes, lowering)
        stores = partials.stores((group, self.number))
        if lanes_per_row > 1:
            stores = (when(Mod(self.lane, integer(lanes_per_row)), "==", integer(0), stores),)
        other_groups = Loop(loop_variable("group", groups, lowering, integer(1)), integer(1), integer(groups))
        exchange = partials.combine_in_order(stores, Barrier(), other_groups, lambda group: (group, self.number))
        return SectionGroup("strided_reduction", (shuffles, *exchange))

    def _reduce_in_warp(self, accumulators: Sequence[Accumulator], lowering: Lowering) -> Iterator[Node]:
        distance = min(WARP, self.groups * self.threads) // 2
        while distance >= self.groups:
            for accumulator in accumulators:
                shuffled = [Shuffled(local.name, local.dtype, distance) for local in accumulator.locals]
                yield from merge_named(accumulator, shuffled, lowering)
            distance //= 2
