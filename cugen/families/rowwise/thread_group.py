"""The threads that share a row: side by side along x, or down y where neighbouring threads have neighbouring rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sympy

from cugen.pieces.block_reduce import Running, Team, combine_team, merge
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
    Store,
)
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.expressions import Local

WARP = 32


@dataclass(frozen=True, slots=True)
class RowTeam:
    """`threads` share each of a block's `rows`; this thread is `lane` of the team that has row `number`.

    Where they lie `across`, the rows count along x and the threads of a team along y. Where a `cluster` of several
    blocks shares a row, this block is the one of that `rank`, and the thread is the one of number `place` in all."""

    threads: int
    lane: Integer
    rows: int
    number: Integer
    across: bool
    place: Integer
    cluster: int = 1
    rank: Integer = sympy.S.Zero

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.rows, self.threads, 1) if self.across else (self.threads, self.rows, 1)

    @property
    def thread(self) -> Integer:
        """The thread's number in its block."""
        if self.across:
            return self.number + self.lane * self.rows
        return self.lane + self.number * self.threads

    @property
    def may_return(self) -> bool:
        """Whether a team without a row may leave: neither shuffles of others nor a barrier wait for it."""
        return self.threads == 1 or (self.threads == WARP and not self.across)

    def combine(
        self, runs: Sequence[Running], lowering: Lowering, *, everywhere: bool, first: bool
    ) -> tuple[Node, ...]:
        """The results of all of the team's threads, with one barrier for however many; of a cluster's in each. At the
        `first` ones a cluster's blocks wait until all have begun."""
        if self.threads == 1 or not runs:
            return ()
        if self.across:
            return tuple(self._down(runs, lowering))
        team = Team(self.threads, self.lane, self.rows, self.number)
        if self.cluster == 1:
            return combine_team(team, runs, lowering, everywhere=everywhere)
        began = (ClusterBarrier("wait"),) if first else ()
        return (*combine_team(team, runs, lowering, everywhere=False), *began, *self._over_cluster(runs, lowering))

    def _over_cluster(self, runs: Sequence[Running], lowering: Lowering) -> Iterator[Node]:
        """Each block tells all others its results, and takes those of all in the order of the ranks. None reads what
        another one has: that would take longer, and no block could end before all have read."""
        shared = [[_results_of_blocks(local, self.cluster, lowering) for local in run.locals] for run in runs]
        yield from (Declare(array) for arrays in shared for array in arrays)
        mine = tuple(
            Store(Access(array, (self.rank,), "store", rank=self.lane), local)
            for run, arrays in zip(runs, shared, strict=True)
            for local, array in zip(run.locals, arrays, strict=True)
        )
        yield If(Guard((Comparison(self.lane, "<", integer(self.cluster)),)), mine)
        yield ClusterBarrier()
        other = self._other_rank(lowering)
        steps: list[Node] = []
        for run, arrays in zip(runs, shared, strict=True):
            for local, array in zip(run.locals, arrays, strict=True):
                yield Assign(local, _of_block(array, integer(0)))
            steps += _merged(run, [_of_block(array, other.symbol) for array in arrays], lowering)
        yield For(Loop(other, integer(1), integer(self.cluster), unroll=True), tuple(steps))

    def _other_rank(self, lowering: Lowering) -> Index:
        """The number of a block; loops side by side share the name."""
        values = (1, self.cluster - 1)
        name = lowering.loops.get(("ranks", values)) or lowering.names.allocate("other")
        lowering.loops["ranks", values] = name
        lowering.ranges[symbol(name)] = values
        return Index(name, integer(1), values)

    def _down(self, runs: Sequence[Running], lowering: Lowering) -> Iterator[Node]:
        """Shuffles between the lanes of a warp that share a row, then shared memory between the rows of warps."""
        together = min(max(WARP // self.rows, 1), self.threads)
        yield from self._in_a_warp(runs, lowering)
        groups = self.threads // together
        if groups <= 1:
            return
        group = FloorDiv(self.lane, integer(together))
        shared = [[_results(local, groups, self.rows, lowering) for local in run.locals] for run in runs]
        yield from (Declare(array) for arrays in shared for array in arrays)
        mine = tuple(
            Store(Access(array, (group, self.number), "store"), local)
            for run, arrays in zip(runs, shared, strict=True)
            for local, array in zip(run.locals, arrays, strict=True)
        )
        one = Guard((Comparison(Mod(self.lane, integer(together)), "==", integer(0)),))
        yield from mine if together == 1 else (If(one, mine),)
        yield Barrier()
        index = Index(lowering.names.allocate("group"), integer(1), (1, groups - 1))
        lowering.ranges[index.symbol] = index.range
        steps: list[Node] = []
        for run, arrays in zip(runs, shared, strict=True):
            for local, array in zip(run.locals, arrays, strict=True):
                yield Assign(local, Element.of(Access(array, (integer(0), self.number), "load")))
            elements = [Element.of(Access(array, (index.symbol, self.number), "load")) for array in arrays]
            steps += _merged(run, elements, lowering)
        yield For(Loop(index, integer(1), integer(groups)), tuple(steps))

    def _in_a_warp(self, runs: Sequence[Running], lowering: Lowering) -> Iterator[Node]:
        distance = min(WARP, self.rows * self.threads) // 2
        while distance >= self.rows:
            for run in runs:
                yield from _merged(run, [Shuffled(n.name, n.dtype, distance) for n in run.locals], lowering)
            distance //= 2


def _merged(run: Running, others: Sequence[Local], lowering: Lowering) -> Iterator[Node]:
    """Another thread's share taken in. A choice mentions it more than once, and `||` may skip it: it gets a name."""
    if run.extreme is not None or run.kind in ("any", "all"):
        names = [Local(lowering.names.allocate(f"other_{local.name}"), local.dtype) for local in run.locals]
        yield from (Let(name, other) for name, other in zip(names, others, strict=True))
        others = names
    yield from merge(run, others)


def _results_of_blocks(local: Local, blocks: int, lowering: Lowering) -> Array:
    """A place for the result of each block of the cluster."""
    name = lowering.names.allocate(f"block_{local.name}")
    return Array("", name, local.dtype, (integer(blocks),), (integer(1),), "shared", flat=False)


def _of_block(array: Array, rank: Integer) -> Element:
    return Element.of(Access(array, (rank,), "load"))


def _results(local: Local, groups: int, rows: int, lowering: Lowering) -> Array:
    """A place for each row's result of each group of lanes."""
    name = lowering.names.allocate(f"group_{local.name}")
    return Array(
        "", name, local.dtype, (integer(groups), integer(rows)), (integer(rows), integer(1)), "shared", flat=False
    )
