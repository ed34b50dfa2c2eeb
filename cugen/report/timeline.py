"""The order in which a block copies tiles to shared memory, waits for them and multiplies them, for the first k-tiles.

The plan is executed for one thread of block 0, or one of each role of a warp-specialised kernel, with the values of its
indices but without data: loops with synchronisation are unrolled, others pass once. Slots say what comes before what,
not how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.structure import pipeline_of
from cugen.analysis.totals.sites import BLOCK, THREAD
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import (
    COMPARISONS,
    AwaitCopies,
    Barrier,
    CommitCopies,
    Copy,
    Define,
    For,
    Guard,
    If,
    LoadBlockId,
    NamedBarrier,
    Node,
    Store,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, AwaitWgmmas, TensorLoad
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes
from cugen.report.tile_loops import synchronises

COPY, WAIT, BARRIER, MATH, RELEASE = "copy", "wait", "barrier", "math", "release"
_COMMIT = "commit"  # without a slot
_MAX_SLOTS = 44
_MAX_TRIPS = 8  # of a loop with synchronisation
_Values = Mapping[sympy.Symbol, Integer]


@dataclass(frozen=True, slots=True)
class Event:
    """A step of one role in its `slot`. `stage` and `k_tile` are those that are copied, awaited or read."""

    kind: str
    slot: int
    stage: int | None = None
    k_tile: int | None = None


@dataclass(frozen=True, slots=True)
class Flight:
    """A k-tile in its stage: its copy is issued in a slot, complete in another, and the tile is read in `reads`."""

    stage: int
    k_tile: int
    issued: int
    complete: int | None
    reads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of each role by its name, and what happens to each stage, over `slots` slots."""

    stages: int
    slots: int
    roles: tuple[tuple[str, tuple[Event, ...]], ...]
    flights: tuple[Flight, ...]

    @property
    def prefetched(self) -> int:
        """K-tiles that are copied before the first one is read."""
        first = min((flight.reads[0] for flight in self.flights if flight.reads), default=0)
        return sum(flight.issued < first for flight in self.flights)


def timeline(kernel: Kernel, params: Mapping[str, int]) -> Timeline | None:
    """The timeline of a kernel whose loop copies tiles and reads them; None for any other. `params`: values by their
    names in C, some value for one that has none."""
    tiles = _tiles(kernel)
    if not tiles:
        return None
    values = {name: integer(low) for name, (low, high) in kernel.ranges if low == high}
    values |= {sympy.Symbol(name, integer=True): integer(value) for name, value in params.items()}
    values |= dict.fromkeys(BLOCK, integer(0))
    threads = {"thread 0": 0}
    full = ""
    if any(isinstance(node, TensorLoad) for node in walk_nodes(kernel.body)):
        try:
            pipeline = pipeline_of(kernel)
        except NotRecognised:
            return None
        if pipeline.has_producer:
            threads = {"producer": min(pipeline.producing_threads), "consumers": min(pipeline.consuming_threads)}
        full = pipeline.full
    steps = {name: list(_Trace(thread, tiles, full).steps(kernel.body, values)) for name, thread in threads.items()}
    made = _Schedule(steps).run()
    return made if any(flight.reads for flight in made.flights) else None


def _tiles(kernel: Kernel) -> frozenset[str]:
    """The shared arrays that loops with synchronisation copy to, and read."""
    written, read = set(), set()
    loops = [node for node in walk_nodes(kernel.body) if isinstance(node, For) and synchronises(node)]
    for node in (node for loop in loops for node in walk_nodes(loop.body)):
        if isinstance(node, Copy | TensorLoad) and node.target.array.space == "shared":
            written.add(node.target.array.symbol)
        read |= {access.array.symbol for access in accesses_of(node) if _reads(access)}
    return frozenset(written & read)


def _reads(access: Access) -> bool:
    return access.array.space == "shared" and (access.is_load or access.kind == "operand")


@dataclass(frozen=True, slots=True)
class _Step:
    """What a thread does next. `pending`: groups that may stay in flight. `is_full`: a wait for the copy of `stage`;
    other waits for a stage are for its release. A copy that isn't
    `is_asynchronous` is complete after a barrier."""

    kind: str
    stage: int | None = None
    pending: int | None = None
    is_full: bool = False
    is_asynchronous: bool = True


class _Trace:
    """The steps of one thread. Conditions that depend on data hold, and fail: both branches are passed."""

    def __init__(self, thread: int, tiles: frozenset[str], full: str) -> None:
        self.thread = {THREAD[0]: integer(thread), THREAD[1]: integer(0), THREAD[2]: integer(0)}
        self.tiles, self.full = tiles, full

    def steps(self, nodes: tuple[Node, ...], values: _Values) -> Iterator[_Step]:
        known = dict(values)
        for node in nodes:
            match node:
                case Define() | LoadBlockId():
                    known[node.index.symbol] = node.index.definition.xreplace(known)
                case For():
                    for index in self._trips(node, known):
                        yield from self.steps(node.body, known | {node.loop.index.symbol: index})
                case If(condition=condition):
                    holds = self._holds(condition, known) if isinstance(condition, Guard) else None
                    if holds is not False:
                        yield from self.steps(node.then, known)
                    if holds is not True:
                        yield from self.steps(node.orelse, known)
                case _:
                    yield from self._of(node, known)

    def _of(self, node: Node, values: _Values) -> Iterator[_Step]:
        for access in accesses_of(node):
            if access.array.symbol in self.tiles and _reads(access):
                yield _Step(MATH, self._stage(access, values))
        match node:
            case Copy() | Store() | TensorLoad():
                target = node.access if isinstance(node, Store) else node.target
                if target.array.symbol in self.tiles:
                    is_asynchronous = isinstance(node, TensorLoad) or target.kind == "async_copy"
                    yield _Step(COPY, self._stage(target, values), is_asynchronous=is_asynchronous)
            case CommitCopies():
                yield _Step(_COMMIT)
            case AwaitCopies(pending=pending):
                yield _Step(WAIT, pending=pending)
            case AwaitBarrier(barrier=barrier):
                yield _Step(WAIT, self._stage(barrier, values), is_full=barrier.array.symbol == self.full)
            case ArriveBarrier(barrier=barrier) if barrier.array.symbol != self.full:
                yield _Step(RELEASE, self._stage(barrier, values))
            case AwaitWgmmas():
                yield _Step(WAIT)
            case Barrier() | NamedBarrier():
                yield _Step(BARRIER)

    def _trips(self, node: For, values: _Values) -> list[Integer]:
        """The values of a loop's index that are passed: the first ones, or one where nothing synchronises."""
        loop = node.loop
        start, stop = (self._number(expr, values) for expr in (loop.start, loop.stop))
        if start is None or stop is None:
            return [loop.start.xreplace(values)]
        indices = range(start, stop, loop.step)
        if loop.downward:
            indices = range(stop - 1, start - 1, -loop.step)
        return [integer(index) for index in indices[: _MAX_TRIPS if synchronises(node) else 1]]

    def _holds(self, guard: Guard, values: _Values) -> bool | None:
        for term in guard.terms:
            left, right = self._number(term.left, values), self._number(term.right, values)
            if left is None or right is None:
                return None
            if not COMPARISONS[term.operator](left, right):
                return False
        return True

    def _number(self, expr: Integer, values: _Values) -> int | None:
        value = expr.xreplace(values).xreplace(self.thread)
        return int(value) if value.is_Integer else None

    def _stage(self, access: Access, values: _Values) -> int:
        """The first subscript, where it is the same for all threads; a tile without stages has one."""
        first = access.subscripts[0].xreplace(values)
        return int(first) if first.is_Integer and (len(access.subscripts) > 1 or access.kind == "barrier") else 0


class _Schedule:
    """Slots of the steps of all roles: each role executes one in a slot, unless it waits for another role."""

    def __init__(self, steps: Mapping[str, list[_Step]]) -> None:
        self.steps = {name: _merged(listed) for name, listed in steps.items()}
        self.flights: list[Flight] = []
        self.latest: dict[int, int] = {}  # the flight that a stage has
        self.released: set[int] = set()
        self.stored: list[int] = []  # by threads since the last barrier
        self.uncommitted: list[int] = []
        self.groups: list[list[int]] = []

    def run(self) -> Timeline:
        events: dict[str, list[Event]] = {name: [] for name in self.steps}
        slot, progress = 0, True
        while progress and slot < _MAX_SLOTS:
            progress = False
            for name, pending in self.steps.items():
                while pending and pending[0].kind == _COMMIT:
                    pending.pop(0)
                    self.groups.append(self.uncommitted)
                    self.uncommitted = []
                if pending and self._is_ready(pending[0], slot):
                    events[name].append(self._execute(pending.pop(0), slot))
                    progress = True
            slot += progress
        stages = 1 + max(self.latest, default=0)
        return Timeline(stages, slot, tuple((n, tuple(e)) for n, e in events.items()), tuple(self.flights))

    def _is_ready(self, step: _Step, slot: int) -> bool:
        if step.kind != WAIT or step.stage is None:
            return True
        flight = self.latest.get(step.stage)
        if step.is_full:
            return flight is not None and self.flights[flight].issued < slot
        return flight is None or flight in self.released

    def _execute(self, step: _Step, slot: int) -> Event:
        stage = step.stage
        flight = self.latest.get(stage) if stage is not None else None
        if step.kind == COPY and stage is not None:
            if flight is None or self.flights[flight].reads or self.flights[flight].complete is not None:
                flight = len(self.flights)
                self.flights.append(Flight(stage, flight, slot, None, ()))
                self.latest[stage] = flight
            (self.uncommitted if step.is_asynchronous else self.stored).append(flight)
        elif step.kind == MATH and flight is not None:
            known = self.flights[flight]
            self.flights[flight] = replace(known, reads=(*known.reads, slot))
        elif step.kind == RELEASE and flight is not None:
            self.released.add(flight)
        elif step.kind == BARRIER:
            self._complete(self.stored, slot)
            self.stored = []
        elif step.kind == WAIT and step.is_full and flight is not None:
            self._complete([flight], slot)
        elif step.kind == WAIT and step.pending is not None:
            done = self.groups[: len(self.groups) - step.pending]
            self._complete([each for group in done for each in group], slot)
        return Event(step.kind, slot, stage, flight)

    def _complete(self, flights: list[int], slot: int) -> None:
        for flight in flights:
            if self.flights[flight].complete is None:
                self.flights[flight] = replace(self.flights[flight], complete=slot)


def _merged(steps: list[_Step]) -> list[_Step]:
    """Without steps that repeat the one before."""
    return [step for before, step in zip([None, *steps], steps, strict=False) if step != before or step.kind == _COMMIT]
