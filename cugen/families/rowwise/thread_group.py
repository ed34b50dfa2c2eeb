"""The thread group of a row: threads along x, or along y where adjacent threads take adjacent rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy

from cugen.pieces.block_reduce import Accumulator, ThreadGroup, group_reduction, merge
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import (
    Assign,
    Barrier,
    ClusterBarrier,
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
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.expressions import Local

WARP = 32


@dataclass(frozen=True, slots=True)
class RowThreadGroup:
    """`threads` of a block per row, for `rows` rows. This thread is `lane` of the group of row `row_in_block`.

    With `rows_along_x` the rows count along x and the threads of a group along y. With a `cluster` of several blocks
    per row, this block has that `rank`, and `thread_in_row` counts the threads of all of them."""

    threads: int
    lane: Integer
    rows: int
    row_in_block: Integer
    rows_along_x: bool
    thread_in_row: Integer
    cluster: int = 1
    rank: Integer = sympy.S.Zero

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.rows, self.threads, 1) if self.rows_along_x else (self.threads, self.rows, 1)

    @property
    def thread(self) -> Integer:
        """The linear thread index in the block."""
        if self.rows_along_x:
            return self.row_in_block + self.lane * self.rows
        return self.lane + self.row_in_block * self.threads

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
        group = ThreadGroup(self.threads, self.lane, self.rows, self.row_in_block)
        if self.cluster == 1:
            return (group_reduction(group, accumulators, lowering, everywhere=broadcast),)
        block = group_reduction(group, accumulators, lowering, everywhere=False)
        return (block, self._reduce_over_cluster(accumulators, lowering, is_first=is_first))

    def _reduce_over_cluster(
        self, accumulators: Sequence[Accumulator], lowering: Lowering, *, is_first: bool
    ) -> SectionGroup:
        """All-to-all exchange of the blocks' results through distributed shared memory, combined in rank order.

        Blocks write remotely and read locally: remote reads have a longer latency, and would need a second cluster
        barrier before a block may exit."""
        shared = [[_results_of_blocks(local, self.cluster, lowering) for local in a.locals] for a in accumulators]
        stores = tuple(
            Store(Access(array, (self.rank,), "store", rank=self.lane), local)
            for accumulator, arrays in zip(accumulators, shared, strict=True)
            for local, array in zip(accumulator.locals, arrays, strict=True)
        )
        block = self._block_index(lowering)
        first: list[Node] = []
        merges: list[Node] = []
        for accumulator, arrays in zip(accumulators, shared, strict=True):
            locals_ = zip(accumulator.locals, arrays, strict=True)
            first += [Assign(local, _of_block(array, integer(0))) for local, array in locals_]
            merges += _merged(accumulator, [_of_block(array, block.symbol) for array in arrays], lowering)
        blocks = Loop(block, integer(1), integer(self.cluster), unroll=True)
        is_of_cluster = Guard((Comparison(self.lane, "<", integer(self.cluster)),))
        return SectionGroup(
            "cluster_reduction",
            (
                Section("blocks_started", (ClusterBarrier("wait"),) if is_first else ()),
                Section("declare_partials", tuple(Declare(array) for arrays in shared for array in arrays)),
                Section("store_partials", (If(is_of_cluster, stores),)),
                Section("partials_stored", (ClusterBarrier(),)),
                Section("first_partial", tuple(first)),
                Section("other_partials", (For(blocks, (Section("merge", tuple(merges)),)),)),
            ),
        )

    def _block_index(self, lowering: Lowering) -> Index:
        """The rank of another block; successive loops share the name."""
        values = (1, self.cluster - 1)
        name = lowering.loops.get(("ranks", values)) or lowering.names.allocate("block")
        lowering.loops["ranks", values] = name
        lowering.ranges[symbol(name)] = values
        return Index(name, integer(1), values)

    def _reduce_along_y(self, accumulators: Sequence[Accumulator], lowering: Lowering) -> SectionGroup:
        """Shuffles between the lanes of a warp that have the same row, then shared memory between warps."""
        lanes_per_row = min(max(WARP // self.rows, 1), self.threads)
        shuffles = Section("warp_shuffles", tuple(self._reduce_in_warp(accumulators, lowering)))
        groups = self.threads // lanes_per_row
        if groups <= 1:
            return SectionGroup("strided_reduction", (shuffles,))
        group = FloorDiv(self.lane, integer(lanes_per_row))
        shared = [[_results_of_warps(local, groups, self.rows, lowering) for local in a.locals] for a in accumulators]
        stores = tuple(
            Store(Access(array, (group, self.row_in_block), "store"), local)
            for accumulator, arrays in zip(accumulators, shared, strict=True)
            for local, array in zip(accumulator.locals, arrays, strict=True)
        )
        is_first_lane = Guard((Comparison(Mod(self.lane, integer(lanes_per_row)), "==", integer(0)),))
        index = Index(lowering.names.allocate("group"), integer(1), (1, groups - 1))
        lowering.ranges[index.symbol] = index.range
        first: list[Node] = []
        merges: list[Node] = []
        for accumulator, arrays in zip(accumulators, shared, strict=True):
            for local, array in zip(accumulator.locals, arrays, strict=True):
                first.append(Assign(local, Element.of(Access(array, (integer(0), self.row_in_block), "load"))))
            elements = [Element.of(Access(array, (index.symbol, self.row_in_block), "load")) for array in arrays]
            merges += _merged(accumulator, elements, lowering)
        other_groups = For(Loop(index, integer(1), integer(groups)), (Section("merge", tuple(merges)),))
        return SectionGroup(
            "strided_reduction",
            (
                shuffles,
                Section("declare_partials", tuple(Declare(array) for arrays in shared for array in arrays)),
                Section("store_partials", stores if lanes_per_row == 1 else (If(is_first_lane, stores),)),
                Section("partials_stored", (Barrier(),)),
                Section("first_partial", tuple(first)),
                Section("other_partials", (other_groups,)),
            ),
        )

    def _reduce_in_warp(self, accumulators: Sequence[Accumulator], lowering: Lowering) -> Iterator[Node]:
        distance = min(WARP, self.rows * self.threads) // 2
        while distance >= self.rows:
            for accumulator in accumulators:
                shuffled = [Shuffled(local.name, local.dtype, distance) for local in accumulator.locals]
                yield from _merged(accumulator, shuffled, lowering)
            distance //= 2


def _merged(accumulator: Accumulator, values: Sequence[Local], lowering: Lowering) -> Iterator[Node]:
    """Merges the values of another thread into an accumulator.

    They are named first where a select uses them twice, or where `||` could skip the shuffle."""
    if accumulator.extreme is not None or accumulator.kind in ("any", "all"):
        names = [Local(lowering.names.allocate(f"other_{local.name}"), local.dtype) for local in accumulator.locals]
        yield from (Let(name, value) for name, value in zip(names, values, strict=True))
        values = names
    yield from merge(accumulator, values)


def _results_of_blocks(local: Local, blocks: int, lowering: Lowering) -> Array:
    """The shared array of one result per block of the cluster."""
    name = lowering.names.allocate(f"block_{local.name}")
    return Array("", name, local.dtype, (integer(blocks),), (integer(1),), "shared", flat=False)


def _of_block(array: Array, rank: Integer) -> Element:
    return Element.of(Access(array, (rank,), "load"))


def _results_of_warps(local: Local, groups: int, rows: int, lowering: Lowering) -> Array:
    """The shared array of one result per row and group of lanes."""
    name = lowering.names.allocate(f"group_{local.name}")
    return Array(
        "", name, local.dtype, (integer(groups), integer(rows)), (integer(rows), integer(1)), "shared", flat=False
    )
