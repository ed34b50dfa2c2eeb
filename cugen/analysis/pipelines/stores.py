"""The claim about TMA stores: a buffer is written by threads, made visible, copied by one thread, and written again
only after that.

Each buffer of a warpgroup is in one of the states below. The events of one output tile change them; states that have
been met before, with the same buffers to come, end the proof for every number of tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import lcm

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.expressions import WAVE
from cugen.analysis.pipelines.roles.events import Event
from cugen.analysis.pipelines.roles.roles import Role
from cugen.analysis.pipelines.structure import Pipeline
from cugen.analysis.totals.affine import quasi_period
from cugen.plan.memory import Access
from cugen.plan.nodes import Barrier, Comparison, NamedBarrier, Store, StoreMatrix
from cugen.plan.pipeline_nodes import AwaitTensorStores, CommitTensorStores, FenceProxy, TensorStore
from cugen.plan.traversal.walking import accesses_of

Buffer = tuple[int, ...]
_MAX_TILES = 64
_STORING = (FenceProxy, TensorStore, CommitTensorStores, AwaitTensorStores)


class State(Enum):
    FREE = auto()  # for the threads of the warpgroup
    WRITTEN = auto()
    FENCED = auto()  # by the threads that wrote it
    VISIBLE = auto()  # to TMA, after a barrier
    COPIED = auto()  # by an asynchronous store that may not be complete
    READ = auto()  # by a complete store, as its thread knows and others don't


def stores(pipeline: Pipeline) -> Claim:
    storing = [role for role in pipeline.consumers if role.executes(*_STORING)]
    if not storing:
        reason = "results are stored from registers"
    else:
        reason = "a buffer is copied after its writers' fences and a barrier, and rewritten after a wait for its store"
    return claim_of("stores", reason, _store_faults(storing))


def _store_faults(roles: list[Role]) -> Iterator[Fault]:
    used: dict[Buffer, range] = {}
    for role in roles:
        machine = _Buffers(role)
        yield from machine.faults()
        for buffer in machine.states:
            if used.setdefault(buffer, role.threads) != role.threads:
                yield Fault(f"two warpgroups use buffer {buffer}")


@dataclass
class _Buffers:
    """The buffers of one warpgroup while its events happen."""

    role: Role
    states: dict[Buffer, State] = field(default_factory=dict)
    writers: dict[Buffer, frozenset[int]] = field(default_factory=dict)  # that have written it since their last fence
    uncommitted: list[Buffer] = field(default_factory=list)
    groups: list[tuple[Buffer, ...]] = field(default_factory=list)  # committed, perhaps pending
    storing: frozenset[int] = frozenset()
    tiles: frozenset[str] = frozenset()  # the arrays that TMA stores read
    chosen: tuple[Comparison, ...] = ()  # the conditions of output tiles that are stored

    def faults(self) -> Iterator[Fault]:
        role = self.role
        events = role.tile_after
        if any(isinstance(e.node, TensorStore) for e in (*role.before, *role.tile_before, *role.body, *role.after)):
            raise NotRecognised("TMA stores are elsewhere than after the loop over k-tiles")
        sources = [event.node.source for event in events if isinstance(event.node, TensorStore)]
        self.tiles = frozenset(source.array.symbol for source in sources)
        if not self.tiles:
            yield Fault("groups of TMA stores are awaited, and there is no store")
            return
        if len(self.tiles) != 1:
            raise NotRecognised("TMA stores read several arrays")
        conditions = {event.scope.chosen for event in events if isinstance(event.node, TensorStore)}
        if len(conditions) != 1:
            raise NotRecognised("TMA stores are under different conditions")
        (self.chosen,) = conditions
        period = self._period(events)
        if self.chosen and period > 1:
            raise NotRecognised("buffers depend on the output tiles of a block, of which some aren't stored")
        met: set[object] = set()
        for wave in range(_MAX_TILES):
            before = (wave % period, frozenset(self.states.items()), tuple(self.groups), tuple(self.uncommitted))
            if before in met or (wave and role.tiles is None):
                return
            met.add(before)
            for event in events:
                if fault := self._after(event, wave):
                    yield fault
                    return
            yield from self._exit_faults(wave)
        raise NotRecognised(f"buffers don't repeat within {_MAX_TILES} output tiles")

    def _period(self, events: tuple[Event, ...]) -> int:
        """Output tiles after which the same buffers are used again."""
        period = 1
        for event in events:
            for access in self._tile_accesses(event):
                for subscript in access.subscripts[:-2]:
                    found = quasi_period(event.value(subscript), WAVE)
                    if found is None or found[1]:
                        raise NotRecognised("buffers don't repeat over output tiles")
                    period = lcm(period, found[0])
        return period

    def _tile_accesses(self, event: Event) -> list[Access]:
        accesses = accesses_of(event.node)
        return [access for access in accesses if access.array.symbol in self.tiles]

    def _exit_faults(self, wave: int) -> Iterator[Fault]:
        """Of a block whose last output tile was this one."""
        last = _Buffers(self.role, dict(self.states), dict(self.writers), list(self.uncommitted), list(self.groups))
        last.storing, last.tiles, last.chosen = self.storing, self.tiles, self.chosen
        for event in self.role.after:
            last._after(event, wave)
        if State.COPIED in last.states.values():
            yield Fault("the block may exit while a TMA store reads its shared memory")

    def _after(self, event: Event, wave: int) -> Fault | None:
        """Changes the states by an event; the fault, if it isn't allowed."""
        everyone = frozenset(self.role.threads)
        node, states = event.node, self.states
        if not self._is_executed(event) and isinstance(node, _STORING):
            raise NotRecognised(f"{type(node).__name__} is under a condition of data or sizes")
        match node:
            case Barrier() | NamedBarrier() if everyone <= event.threads and self._is_executed(event):
                after = {State.FENCED: State.VISIBLE, State.READ: State.FREE}
                self.states = {b: after.get(s, s) for b, s in states.items()}
            case FenceProxy():
                for buffer, writers in self.writers.items():
                    if states[buffer] == State.WRITTEN and writers <= event.threads:
                        states[buffer] = State.FENCED
            case TensorStore():
                return self._store(event, node, wave)
            case CommitTensorStores() if event.threads & self.storing:
                self.groups.append(tuple(self.uncommitted))
                self.uncommitted = []
            case AwaitTensorStores(pending=pending) if event.threads & self.storing:
                complete = self.groups[: max(len(self.groups) - pending, 0)]
                self.groups = self.groups[len(complete) :]
                pending_buffers = {buffer for group in self.groups for buffer in group} | set(self.uncommitted)
                for buffer in {b for group in complete for b in group} - pending_buffers:
                    states[buffer] = State.READ
            case _:
                return self._accessed(event, wave)
        return None

    def _is_executed(self, event: Event) -> bool:
        """Whether it is executed for each output tile that is stored."""
        return event.scope.certain and set(event.scope.chosen) <= set(self.chosen)

    def _accessed(self, event: Event, wave: int) -> Fault | None:
        for access in self._tile_accesses(event):
            if not isinstance(event.node, Store | StoreMatrix):
                raise NotRecognised("threads read buffers of TMA stores")
            written = _buffers(event, access, wave)
            for buffer in sorted(set(written.values())):
                threads = frozenset(thread for thread, b in written.items() if b == buffer)
                state = self.states.get(buffer, State.FREE)
                is_known = state == State.READ and threads == self.storing
                if state in (State.COPIED, State.READ, State.VISIBLE) and not is_known:
                    return Fault(f"buffer {buffer} is rewritten while a TMA store may read it, in output tile {wave}")
                self.states[buffer] = State.WRITTEN
                self.writers[buffer] = self.writers.get(buffer, frozenset()) | threads
        return None

    def _store(self, event: Event, node: TensorStore, wave: int) -> Fault | None:
        if len(event.threads) != 1:
            return Fault(f"{len(event.threads)} threads store the same buffer")
        if self.storing and self.storing != event.threads:
            raise NotRecognised("several threads issue TMA stores")
        self.storing = event.threads
        (buffer,) = _buffers(event, node.source, wave).values()
        state = self.states.get(buffer, State.FREE)
        if state != State.VISIBLE:
            reasons = {
                State.FREE: "before it is written",
                State.WRITTEN: "without a fence of the threads that wrote it",
                State.FENCED: "without a barrier after the fences of the threads that wrote it",
            }
            return Fault(f"buffer {buffer} is stored {reasons.get(state, 'twice')}, in output tile {wave}")
        self.states[buffer] = State.COPIED
        self.writers.pop(buffer, None)
        self.uncommitted.append(buffer)
        return None


def _buffers(event: Event, access: Access, wave: int) -> Mapping[int, Buffer]:
    """The buffer that each thread accesses: the subscripts before those of a box."""
    subscripts = [event.per_thread(subscript, wave) for subscript in access.subscripts[:-2]]
    return {thread: tuple(s[thread] for s in subscripts) for thread in sorted(event.threads)}
