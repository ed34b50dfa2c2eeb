"""Proves the synchronisation of a multistage pipeline of asynchronous copies (`cp.async`), for every number of k-tiles.

All threads of a block execute the same loop. For each stage the proof keeps whether a copy to it is pending, in which
commit group, whether it is complete but not yet visible to other threads, and whether it has been read since the last
barrier. These states are those of the stages at k-tile j; the subscripts are functions of j that repeat. So the states
that a loop can reach are finitely many, and are all visited. The number of k-tiles left is a part of them: exactly up
to a few, beyond that as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import sympy

from cugen.analysis.pipelines.async_copies.slices import Slices
from cugen.analysis.pipelines.async_copies.stage_numbers import StageNumbers
from cugen.analysis.pipelines.async_copies.states import KLoop, Stage, State
from cugen.analysis.pipelines.claims import Fault, NotRecognised
from cugen.analysis.pipelines.expressions import K_TILE, THREAD, reduced
from cugen.analysis.totals.affine import evaluator
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import (
    COMPARISONS,
    AwaitCopies,
    Barrier,
    ClusterBarrier,
    CommitCopies,
    Copy,
    Define,
    For,
    Guard,
    If,
    NamedBarrier,
    Node,
    ReturnUnless,
)
from cugen.plan.symbols import Integer, Mod, bounds, integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes

_UNCOMMITTED = -1
_MAX_UNROLLED = 64  # trips of an unrolled loop with synchronisation in it; bounds the time of a proof
_SYNCHRONISATION = (Barrier, NamedBarrier, ClusterBarrier, CommitCopies, AwaitCopies)


class Divided(Exception):
    """The first named barrier has divided the threads of the block."""


@dataclass
class Machine:
    """Visits the states of a kernel; `faults` has the first one of each claim."""

    kernel: Kernel
    tiles: Mapping[str, int]  # symbols of the arrays with stages -> position of their first one in a state
    numbers: StageNumbers
    faults: dict[str, Fault] = field(default_factory=dict)
    max_k_tiles: int = 0  # k-tiles of a loop
    has_split_barriers: bool = False  # before the current node
    slices: Slices | None = None  # of groups of threads with barriers of their own
    loops: dict[sympy.Symbol, range] = field(default_factory=dict)  # the values of indices of other loops

    def run(
        self, nodes: tuple[Node, ...], states: Iterable[State], values: Mapping[sympy.Symbol, Integer], k: KLoop | None
    ) -> set[State]:
        """The states after the nodes."""
        values, states = dict(values), set(states)
        for node in nodes:
            match node:
                case Define():
                    values[node.index.symbol] = reduced(node.index.definition.xreplace(values))
                    self._shown_as_defined(node, states, values, k)
                case For() if has(node.body, *_SYNCHRONISATION) or self._counts_stages(node):
                    states = self._loop(node, states, values, k)
                case For():
                    values[node.loop.index.symbol] = node.loop.index.symbol
                    self._add_loop(node, values)
                    passes = 2 if self._reads_and_writes(node.body) else 1
                    for _ in range(passes):
                        states = self.run(node.body, states, values, k)
                case If():
                    states = self._branch(node, states, values, k)
                case ReturnUnless():
                    raise NotRecognised("threads return early")
                case ClusterBarrier() if node.half:
                    self.has_split_barriers = True  # of which the proof makes no use
                case _:
                    states = {self._after(node, state, values, k) for state in states}
        return states

    def _after(self, node: Node, state: State, values: Mapping[sympy.Symbol, Integer], k: KLoop | None) -> State:
        match node:
            case CommitCopies():
                return state.committed(self.numbers.period)
            case AwaitCopies(pending=pending):
                return state.awaited(pending)
            case Barrier() | NamedBarrier() | ClusterBarrier():
                if isinstance(node, NamedBarrier):
                    self._divide(node, values)
                return state.met()
        for access in accesses_of(node):
            if access.array.symbol in self.tiles:
                state = self._accessed(node, access, state, values, k)
        return state

    def _accessed(
        self, node: Node, access: Access, state: State, values: Mapping[sympy.Symbol, Integer], k: KLoop | None
    ) -> State:
        number = self.numbers.value(access.subscripts[0].xreplace(values), state, k)
        if self.slices is not None:
            self.slices.add(access, values, self.loops)
        position = self.tiles[access.array.symbol] + number % self.numbers.stages
        stage = state.stages[position]
        if access.is_load:
            made = self._read(stage, state, number)
        else:
            made = self._written(stage, state, number, is_async=isinstance(node, Copy) and node.asynchronous)
        return replace(state, stages=(*state.stages[:position], made, *state.stages[position + 1 :]))

    def _divide(self, node: NamedBarrier, values: Mapping[sympy.Symbol, Integer]) -> None:
        """Takes the groups of threads of a named barrier, which is one of the block for each group's part of a tile."""
        threads = np.arange(self.kernel.threads)
        number = node.number.xreplace(values)
        if not number.free_symbols <= {THREAD}:
            raise NotRecognised("the number of a named barrier isn't one of the thread")
        groups = np.broadcast_to(evaluator(number, {THREAD: (0, len(threads) - 1)})({THREAD: threads}), threads.shape)
        if set(np.unique(groups, return_counts=True)[1]) != {node.threads}:
            raise NotRecognised("a named barrier isn't one of equal groups of the block's threads")
        if self.slices is not None and not np.array_equal(self.slices.groups, groups):
            raise NotRecognised("named barriers divide the block in several ways")
        if self.slices is None:
            self.slices = Slices(groups)
            raise Divided

    def _add_loop(self, node: For, values: Mapping[sympy.Symbol, Integer]) -> None:
        start, stop = (reduced(end.xreplace(values)) for end in (node.loop.start, node.loop.stop))
        name = node.loop.index.symbol
        if start.is_Integer and stop.is_Integer and not (node.loop.halves or node.loop.doubles):
            self.loops[name] = range(int(start), int(stop), int(node.loop.step))
        else:
            self.loops.pop(name, None)

    def _read(self, stage: Stage, state: State, number: int) -> Stage:
        if stage.group is not None:
            self._refute("copies", "a stage is read while a copy to it is pending", state, number)
        elif stage.complete:
            self._refute("copies", "a stage is read without a barrier after the wait for its copy", state, number)
        expected = {0} if state.k_tile is None or not state.synchronised else {1}
        if state.k_tile is not None and state.left == 0:
            expected.add(0)  # what follows the last k-tile isn't used
        if state.commits and stage.k_tile not in expected:
            self._refute("order", "a stage is read that has another k-tile", state, number)
        return replace(stage, is_read=True)

    def _written(self, stage: Stage, state: State, number: int, *, is_async: bool) -> Stage:
        if stage.is_read:
            self._refute("stages", "a stage is overwritten without a barrier after its last read", state, number)
        is_of_group = stage.k_tile == state.commits
        if (stage.group is not None or stage.complete) and not is_of_group:
            self._refute("stages", "a stage is overwritten while a copy to it is pending", state, number)
        if ((state.k_tile or 0) + state.commits - number) % self.numbers.stages:
            self._refute("order", "a k-tile is copied to another stage", state, number)
        return Stage(_UNCOMMITTED if is_async else None, not is_async, False, state.commits)

    def _refute(self, claim: str, reason: str, state: State, number: int) -> None:
        if self.has_split_barriers:
            raise NotRecognised("halves of a cluster's barrier order accesses of stages")
        self.faults.setdefault(claim, Fault(reason, state.k_tile or 0, number % self.numbers.stages))

    # Loops and branches

    def _loop(self, node: For, states: set[State], values: dict[sympy.Symbol, Integer], k: KLoop | None) -> set[State]:
        """A loop with synchronisation in it: over k-tiles, round that, or with constant bounds."""
        loop = node.loop
        start, stop = (reduced(end.xreplace(values)) for end in (loop.start, loop.stop))
        if loop.unroll and start.is_Integer and stop.is_Integer:
            trips = range(int(start), int(stop), int(loop.step))
            if len(trips) > _MAX_UNROLLED or loop.downward:
                raise NotRecognised("an unrolled loop with synchronisation is too long")
            for value in trips:
                states = self.run(node.body, states, {**values, loop.index.symbol: integer(value)}, k)
            return states
        if k is not None or THREAD in start.free_symbols | stop.free_symbols:
            raise NotRecognised("a loop over k-tiles has another one in it")
        if any(
            isinstance(n, For) and not n.loop.unroll and has(n.body, *_SYNCHRONISATION) for n in walk_nodes(node.body)
        ):
            return self._outer_loop(node, states, values)
        if not has(node.body, AwaitCopies, CommitCopies):
            raise NotRecognised("a loop with barriers isn't one over k-tiles")
        if start != 0 or loop.downward or loop.halves or loop.doubles:
            raise NotRecognised("a loop over k-tiles doesn't begin at 0")
        max_trips = bounds(loop.stop, dict(self.kernel.ranges))[1] // int(loop.step)
        return self._k_loop(node, KLoop(stop, int(loop.step), max_trips), states, values)

    def _outer_loop(self, node: For, states: set[State], values: dict[sympy.Symbol, Integer]) -> set[State]:
        """After any number of trips."""
        inner = {**values, node.loop.index.symbol: node.loop.index.symbol}
        reached, new = set(states), set(states)
        while new:
            new = self.run(node.body, new, inner, None) - reached
            reached |= new
        return reached

    def _k_loop(self, node: For, k: KLoop, states: set[State], values: dict[sympy.Symbol, Integer]) -> set[State]:
        if not _is_multiple(k.stop, k.step, self.kernel):
            raise NotRecognised("the loop over k-tiles may end with a partial one")
        counted = {counter.index.symbol: counter for counter in node.counted}
        body = tuple(n for n in node.body if n not in node.counted)
        inner = {**values, node.loop.index.symbol: k.step * K_TILE}
        for name, counter in counted.items():
            inner[name] = self._counter(counter, inner)
        may_be_empty = bounds(node.loop.stop, dict(self.kernel.ranges))[0] < 1
        after = {state.ended() for state in states} if may_be_empty else set()
        self.max_k_tiles = max(self.max_k_tiles, k.max_trips)
        left = range(min(self.numbers.many + 1, k.max_trips))
        new = {replace(s, k_tile=0, left=n, synchronised=False) for s in states for n in left}
        reached: set[State] = set()
        while new:
            reached |= new
            ended = self.run(body, new, inner, k)
            after |= {state.ended() for state in ended if state.left == 0}
            new = {following for state in ended if state.left for following in self._following(state, k)} - reached
        return after

    def _following(self, state: State, k: KLoop) -> Iterator[State]:
        """The state at the next k-tile; two, where it isn't known whether still many follow."""
        stages = tuple(
            s if s.k_tile is None else replace(s, k_tile=max(s.k_tile - 1, -self.numbers.period)) for s in state.stages
        )
        assert state.k_tile is not None
        k_tile, commits = (state.k_tile + 1) % self.numbers.period, state.commits - 1
        for left in {state.left - 1, self.numbers.many} if self.numbers.is_many(state, k) else {state.left - 1}:
            yield State(stages, max(commits, -self.numbers.period), k_tile, left)

    def _counter(self, counter: Define, values: Mapping[sympy.Symbol, Integer]) -> Integer:
        """The definition of a counter in the loop's header, whose `then` makes the next value."""
        definition = reduced(counter.index.definition.xreplace(values))
        assert counter.then is not None
        for k_tile in range(self.numbers.period):
            now, following = (self.numbers.evaluated(definition, n) for n in (k_tile, k_tile + 1))
            then = self.numbers.evaluated(counter.then.xreplace({**values, counter.index.symbol: integer(now)}), k_tile)
            if (k_tile == 0 and now != 0) or then != following:
                raise NotRecognised(f"`{counter.index.name}` doesn't count stages")
        return definition

    def _branch(self, node: If, states: set[State], values: dict[sympy.Symbol, Integer], k: KLoop | None) -> set[State]:
        result: set[State] = set()
        is_synchronising = has((*node.then, *node.orelse), *_SYNCHRONISATION)
        for state in states:
            holds = self._holds(node, state, values, k)
            if holds is not None:
                result |= self.run(node.then if holds else node.orelse, {state}, values, k)
            elif is_synchronising and not _is_uniform(node, values):
                raise NotRecognised("a barrier or a commit group is in a branch of some threads")
            elif is_synchronising or (_is_uniform(node, values) and self._only_reads(node)):
                result |= self.run(node.then, {state}, values, k) | self.run(node.orelse, {state}, values, k)
            elif _is_uniform(node, values) and self._touches(node):
                raise NotRecognised("the condition of a copy isn't one of k-tiles")
            else:
                result |= self.run((*node.then, *node.orelse), {state}, values, k)
        return result

    def _holds(self, node: If, state: State, values: Mapping[sympy.Symbol, Integer], k: KLoop | None) -> bool | None:
        """Whether a condition on constants and k-tiles holds; None for others."""
        if not isinstance(node.condition, Guard):
            return None
        for term in node.condition.terms:
            difference = self.numbers.difference(term.left.xreplace(values), term.right.xreplace(values), state, k)
            if difference is None:
                return None
            if not COMPARISONS[term.operator](difference, 0):
                return False
        return True

    def _shown_as_defined(
        self, node: Define, states: set[State], values: Mapping[sympy.Symbol, Integer], k: KLoop | None
    ) -> None:
        """NotRecognised if what is printed of an index may have another value than its definition."""
        if node.index.shown is None or k is None:
            return
        for state in states:
            shown = self.numbers.value(node.index.shown.xreplace(values), state, k)
            if shown != self.numbers.value(values[node.index.symbol], state, k):
                raise NotRecognised(f"`{node.index.name}` isn't printed as it is defined")

    def _counts_stages(self, node: For) -> bool:
        """Whether a loop's index is the number of a stage."""
        subscripts = (access.subscripts[0] for access in self._accesses(node.body))
        return any(node.loop.index.symbol in subscript.free_symbols for subscript in subscripts)

    def _accesses(self, nodes: tuple[Node, ...]) -> list[Access]:
        """The accesses of tiles."""
        found = (access for node in walk_nodes(nodes) for access in accesses_of(node))
        return [access for access in found if access.array.symbol in self.tiles]

    def _touches(self, node: Node) -> bool:
        return bool(self._accesses((node,)))

    def _only_reads(self, node: Node) -> bool:
        return {access.is_load for access in self._accesses((node,))} == {True}

    def _reads_and_writes(self, nodes: tuple[Node, ...]) -> bool:
        return len({access.is_load for access in self._accesses(nodes)}) == 2


def has(nodes: tuple[Node, ...], *kinds: type) -> bool:
    return any(isinstance(node, kinds) for node in walk_nodes(nodes))


def _is_uniform(node: If, values: Mapping[sympy.Symbol, Integer]) -> bool:
    """Whether the condition is one of indices that all threads of a block share."""
    if not isinstance(node.condition, Guard):
        return False
    sides = (side.xreplace(values) for term in node.condition.terms for side in (term.left, term.right))
    return not any(THREAD in side.free_symbols for side in sides)


def _is_multiple(stop: Integer, step: int, kernel: Kernel) -> bool:
    """Whether the length of a loop is a multiple of its step."""
    low, high = bounds(stop, dict(kernel.ranges))
    if low == high:
        return low % step == 0
    congruent = stop.replace(lambda e: isinstance(e, Mod) and e.args[1] % step == 0, lambda e: e.args[0])
    return all(term.as_coeff_Mul()[0] % step == 0 for term in sympy.Add.make_args(sympy.expand(congruent)))
