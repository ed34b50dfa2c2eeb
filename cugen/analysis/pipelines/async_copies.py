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

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, PipelineProof, claim_of
from cugen.analysis.pipelines.flags import flags
from cugen.analysis.pipelines.roles import K_TILE, THREAD, reduced
from cugen.analysis.pipelines.slices import Slices
from cugen.analysis.totals.affine import evaluator, quasi_period
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array
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
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod, bounds, integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes

_UNCOMMITTED = -1
_MAX_UNROLLED = 64
_SYNCHRONISATION = (Barrier, NamedBarrier, ClusterBarrier, CommitCopies, AwaitCopies)
_REASONS = {
    "order": "k-tile f is copied to stage f % STAGES, and read from there",
    "copies": "a stage is read after a wait for its commit group, and a barrier",
    "stages": "a stage is overwritten after a barrier that follows its last read",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a tile. `group`: how many groups have been committed since that of its pending copy, -1 for one not
    committed; None without. `complete`: copied, but other threads don't see it before a barrier. `is_read`: since the
    last barrier. `k_tile`: what it contains, from the current k-tile on."""

    group: int | None = None
    complete: bool = False
    is_read: bool = False
    k_tile: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """`stages` of all tiles. `commits`: groups committed, from the number of the current k-tile on. In the loop over
    k-tiles, `k_tile` is the current one's number modulo the period, `left` how many follow it, and `synchronised`
    whether there was a barrier in it."""

    stages: tuple[Stage, ...]
    commits: int = 0
    k_tile: int | None = None
    left: int = 0
    synchronised: bool = False


@dataclass(frozen=True, slots=True)
class KLoop:
    """The loop over k-tiles round a node: its `stop` and `step` in elements; at most `max_trips`."""

    stop: Integer
    step: int
    max_trips: int


class _Divided(Exception):
    """The first named barrier has divided the threads of the block."""


@dataclass
class _Machine:
    """Visits the states of a kernel; `faults` has the first one of each claim."""

    kernel: Kernel
    tiles: Mapping[str, int]  # symbols of the arrays with stages -> position of their first one in a state
    stage_count: int
    faults: dict[str, Fault] = field(default_factory=dict)
    max_k_tiles: int = 0  # k-tiles of a loop
    has_split_barriers: bool = False  # before the current node
    numbers: dict[tuple[Integer, int | None, int, KLoop | None], int] = field(default_factory=dict)  # of stages
    slices: Slices | None = None  # of groups of threads with barriers of their own
    loops: dict[sympy.Symbol, range] = field(default_factory=dict)  # the values of indices of other loops

    @property
    def period(self) -> int:
        return 4 * self.stage_count

    @property
    def many(self) -> int:
        """So many k-tiles left, or more."""
        return self.stage_count + 2

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
                case For() if _has(node.body, *_SYNCHRONISATION) or self._counts_stages(node):
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
                stages = (
                    s if s.group is None else replace(s, group=min(s.group + 1, self.period)) for s in state.stages
                )
                return replace(state, stages=tuple(stages), commits=state.commits + 1)
            case AwaitCopies(pending=pending):
                return replace(state, stages=tuple(_awaited(stage, pending) for stage in state.stages))
            case Barrier() | NamedBarrier() | ClusterBarrier():
                if isinstance(node, NamedBarrier):
                    self._divide(node, values)
                stages = (replace(stage, complete=False, is_read=False) for stage in state.stages)
                return replace(state, stages=tuple(stages), synchronised=True)
        for access in accesses_of(node):
            if access.array.symbol in self.tiles:
                state = self._accessed(node, access, state, values, k)
        return state

    def _accessed(
        self, node: Node, access: Access, state: State, values: Mapping[sympy.Symbol, Integer], k: KLoop | None
    ) -> State:
        number = self._value(access.subscripts[0].xreplace(values), state, k)
        if self.slices is not None:
            self.slices.add(access, values, self.loops)
        position = self.tiles[access.array.symbol] + number % self.stage_count
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
            raise _Divided

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
        if ((state.k_tile or 0) + state.commits - number) % self.stage_count:
            self._refute("order", "a k-tile is copied to another stage", state, number)
        return Stage(_UNCOMMITTED if is_async else None, not is_async, False, state.commits)

    def _refute(self, claim: str, reason: str, state: State, number: int) -> None:
        if self.has_split_barriers:
            raise NotRecognised("halves of a cluster's barrier order accesses of stages")
        self.faults.setdefault(claim, Fault(reason, state.k_tile or 0, number % self.stage_count))

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
            isinstance(n, For) and not n.loop.unroll and _has(n.body, *_SYNCHRONISATION) for n in walk_nodes(node.body)
        ):
            return self._outer_loop(node, states, values)
        if not _has(node.body, AwaitCopies, CommitCopies):
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
        after = {_ended(state) for state in states} if may_be_empty else set()
        self.max_k_tiles = max(self.max_k_tiles, k.max_trips)
        left = range(min(self.many + 1, k.max_trips))
        new = {replace(s, k_tile=0, left=n, synchronised=False) for s in states for n in left}
        reached: set[State] = set()
        while new:
            reached |= new
            ended = self.run(body, new, inner, k)
            after |= {_ended(state) for state in ended if state.left == 0}
            new = {following for state in ended if state.left for following in self._following(state, k)} - reached
        return after

    def _following(self, state: State, k: KLoop) -> Iterator[State]:
        """The state at the next k-tile; two, where it isn't known whether still many follow."""
        stages = tuple(
            s if s.k_tile is None else replace(s, k_tile=max(s.k_tile - 1, -self.period)) for s in state.stages
        )
        assert state.k_tile is not None
        k_tile, commits = (state.k_tile + 1) % self.period, state.commits - 1
        for left in {state.left - 1, self.many} if self._is_many(state, k) else {state.left - 1}:
            yield State(stages, max(commits, -self.period), k_tile, left)

    def _is_many(self, state: State, k: KLoop) -> bool:
        """Whether more k-tiles may be left than the state says."""
        return state.left == self.many and k.max_trips > self.many + 1

    def _counter(self, counter: Define, values: Mapping[sympy.Symbol, Integer]) -> Integer:
        """The definition of a counter in the loop's header, whose `then` makes the next value."""
        definition = reduced(counter.index.definition.xreplace(values))
        assert counter.then is not None
        for k_tile in range(self.period):
            now, following = (self._evaluated(definition, n) for n in (k_tile, k_tile + 1))
            then = self._evaluated(counter.then.xreplace({**values, counter.index.symbol: integer(now)}), k_tile)
            if (k_tile == 0 and now != 0) or then != following:
                raise NotRecognised(f"`{counter.index.name}` doesn't count stages")
        return definition

    def _branch(self, node: If, states: set[State], values: dict[sympy.Symbol, Integer], k: KLoop | None) -> set[State]:
        result: set[State] = set()
        is_synchronising = _has((*node.then, *node.orelse), *_SYNCHRONISATION)
        for state in states:
            holds = self._holds(node, state, values, k)
            if holds is not None:
                result |= self.run(node.then if holds else node.orelse, {state}, values, k)
            elif is_synchronising and not _is_uniform(node, values):
                raise NotRecognised("a barrier or a commit group is in a branch of some threads")
            elif is_synchronising:
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
            difference = self._difference(term.left.xreplace(values), term.right.xreplace(values), state, k)
            if difference is None:
                return None
            if not COMPARISONS[term.operator](difference, 0):
                return False
        return True

    # Expressions of the k-tile and of those left

    def _value(self, expr: Integer, state: State, k: KLoop | None) -> int:
        """The value of a stage's number."""
        if expr.is_Integer:
            return int(expr)
        key = (expr, state.k_tile, state.left, k)
        if key not in self.numbers:
            self.numbers[key] = self._number(expr, state, k)
        return self.numbers[key]

    def _number(self, expr: Integer, state: State, k: KLoop | None) -> int:
        decided = self._decided(expr, state, k)
        if not decided.free_symbols <= ({K_TILE} if k else set()):
            raise NotRecognised(f"the stage `{expr}` isn't a function of the k-tile")
        if k is not None and k.max_trips >= self.period and not _repeats(decided, self.period):
            raise NotRecognised(f"the stage `{expr}` doesn't repeat")
        return self._evaluated(decided, state.k_tile or 0)

    def _evaluated(self, expr: Integer, k_tile: int) -> int:
        return int(evaluator(expr, {K_TILE: (0, self.period)})({K_TILE: k_tile}))

    def _decided(self, expr: Integer, state: State, k: KLoop | None) -> Integer:
        """The expression with the chosen operand of each extremum and choice."""
        if not expr.args:
            return expr
        args = [self._decided(arg, state, k) for arg in expr.args]
        if isinstance(expr, Minimum | Maximum | Choice):
            difference = self._difference(args[0], args[1], state, k)
            if difference is not None:
                if isinstance(expr, Choice):
                    return args[2] if difference < 0 else args[3]
                is_first = (difference < 0) == isinstance(expr, Minimum)
                # The one over K_TILE alone: they differ by a constant.
                if args[0].free_symbols <= {K_TILE}:
                    return args[0] if is_first else args[0] - difference
                return args[1] + difference if is_first else args[1]
        return expr.func(*args)

    def _difference(self, a: Integer, b: Integer, state: State, k: KLoop | None) -> int | None:
        """a - b where it is a constant, or one of the number of k-tiles left; None otherwise."""
        difference = sympy.expand(reduced(a) - reduced(b))
        if difference.is_Integer and (k is None or not k.stop.is_Integer):
            return int(difference)
        slope = difference.coeff(K_TILE, 1)
        if k is None or not slope.is_Integer or slope == 0:
            return int(difference) if difference.is_Integer else None
        trips = reduced(FloorDiv(k.stop, integer(k.step)))
        for scale, end in ((k.step, k.stop), (1, trips)):
            if abs(slope) != scale:
                continue
            sign = int(slope) // scale
            offset = sympy.expand(difference + sign * end - slope * K_TILE)
            if offset.is_Integer:  # difference = slope * K_TILE + offset - sign * scale * (K_TILE + left + 1)
                value = int(offset) - int(slope) * (state.left + 1)
                if self._is_many(state, k) and value * sign >= 0:
                    raise NotRecognised("a condition compares k-tiles more than STAGES apart")
                return value
        return None

    def _shown_as_defined(
        self, node: Define, states: set[State], values: Mapping[sympy.Symbol, Integer], k: KLoop | None
    ) -> None:
        """NotRecognised if what is printed of an index may have another value than its definition."""
        if node.index.shown is None or k is None:
            return
        for state in states:
            shown = self._value(node.index.shown.xreplace(values), state, k)
            if shown != self._value(values[node.index.symbol], state, k):
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

    def _reads_and_writes(self, nodes: tuple[Node, ...]) -> bool:
        return len({access.is_load for access in self._accesses(nodes)}) == 2


def prove_async_copies(kernel: Kernel) -> PipelineProof | None:
    """The claims about a kernel with commit groups of asynchronous copies; None for one without."""
    if not _has(kernel.body, CommitCopies):
        return None
    copied = [node.target.array for node in walk_nodes(kernel.body) if isinstance(node, Copy)]
    tiles: dict[str, Array] = {array.symbol: array for array in copied if array.space == "shared"}
    counts = {int(array.shape[0]) for array in tiles.values() if array.shape and array.shape[0].is_Integer}
    if len(counts) != 1:
        reason = "the tiles have different numbers of stages"
        return PipelineProof(kernel.name, (Claim("structure", "unknown", reason),), "")
    if kernel.block[1:] != (1, 1):
        reason = "the block has more than one dimension"
        return PipelineProof(kernel.name, (Claim("structure", "unknown", reason),), "")
    (stages,) = counts
    machine = _Machine(kernel, {name: n * stages for n, name in enumerate(tiles)}, stages)
    gap = ""
    initial = {State((Stage(),) * (stages * len(tiles)))}
    try:
        try:
            machine.run(kernel.body, initial, {}, None)
        except _Divided:
            machine.run(kernel.body, initial, {}, None)  # with the groups known, for the accesses before
        if machine.slices is not None:
            machine.slices.check()
    except NotRecognised as reason:
        gap = str(reason)
    claims = tuple(claim_of(name, reason, _faults(machine.faults.get(name), gap)) for name, reason in _REASONS.items())
    number = (
        "every number of k-tiles"
        if machine.max_k_tiles > machine.many + 1
        else f"at most {machine.max_k_tiles} k-tiles"
    )
    summary = f"for {number}: {stages} stages, commit groups and barriers order copies and reads"
    of_flags = flags(kernel)
    return PipelineProof(kernel.name, (*claims, of_flags) if of_flags else claims, summary)


def _repeats(expr: Integer, period: int) -> bool:
    """Whether an expression of K_TILE has a period that divides this one."""
    found = None if expr.has(Choice) else quasi_period(expr, K_TILE)
    if found is not None and found[1] == 0 and period % found[0] == 0:
        return True
    return bool(expr.args) and all(_repeats(arg, period) for arg in expr.args)


def _faults(fault: Fault | None, gap: str) -> Iterator[Fault]:
    if fault is not None:
        yield fault
    if gap:
        yield Fault(gap, refutes=False)


def _awaited(stage: Stage, pending: int) -> Stage:
    is_complete = stage.group is not None and stage.group >= pending
    return replace(stage, group=None, complete=True) if is_complete else stage


def _ended(state: State) -> State:
    """The state after the loop over k-tiles, where k-tiles are numbered from 0 again."""
    return State(tuple(replace(stage, k_tile=None) for stage in state.stages))


def _has(nodes: tuple[Node, ...], *kinds: type) -> bool:
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
