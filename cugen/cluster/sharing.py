"""Several searches on the GPUs of one model.

Each search has a GPU of its own. The next ones open their processes there, and time where that search has nothing to
time: a GPU's worker takes requests of earlier searches first. GPUs that no search waits for are given to those that
time. A search that has timed its candidates gives its GPUs back before its finals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from threading import RLock
from typing import ParamSpec, TypeVar

from cugen.cluster.engine import ClusterEngine
from cugen.cluster.errors import ClusterError
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.workers import TimingProcess

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_GUESTS = 2  # searches that wait for a GPU and have a process there (heuristic: one opens while another is ready)


class SharedEngine:
    """A cluster for `searches` searches, in the order in which they get GPUs: `shares` are their engines."""

    def __init__(self, engine: ClusterEngine, searches: int) -> None:
        self.engine = engine
        self._lock = RLock()
        self.is_stopped = False
        self.shares = tuple(Share(self, engine, number) for number in range(searches))
        self.assign()

    def stop(self) -> None:
        """Ends all searches that still run."""
        self.is_stopped = True

    def assign(self) -> None:
        """Gives free GPUs to searches: the one that has opened its process there, else the first that waits, else the
        one with the fewest GPUs. Then each GPU is announced to `_GUESTS` of those that still wait."""
        with self._lock:
            searching = [share for share in self.shares if share.is_searching]
            taken = {gpu for share in searching for gpu in share.assigned}
            for gpu in self.engine.gpus:
                willing = [share for share in searching if gpu not in share.refused]
                waiting = [share for share in willing if not share.assigned]
                if gpu not in taken and willing:
                    chosen = min(
                        waiting or willing, key=lambda share: (len(share.assigned), gpu not in share.announced)
                    )
                    chosen.assigned = (*chosen.assigned, gpu)
            self._announce([share for share in searching if not share.assigned])
        for share in searching:
            share.notify()

    def _announce(self, waiting: Sequence[Share]) -> None:
        for guests in range(_GUESTS):
            for gpu in self.engine.gpus:
                announced = sum(gpu in share.announced for share in waiting)
                next_share = next((s for s in waiting if not s.announced and gpu not in s.refused), None)
                if announced == guests and next_share is not None:
                    next_share.announced = (gpu,)


class Share:
    """The engine of one search among several."""

    final_gpus, depth = ClusterEngine.final_gpus, ClusterEngine.depth

    def __init__(self, owner: SharedEngine, engine: ClusterEngine, number: int) -> None:
        self._owner, self._engine, self._number = owner, engine, number
        first = number % len(engine.gpus)
        self.gpus: Sequence[Gpu] = (*engine.gpus[first:], *engine.gpus[:first])
        self.assigned: tuple[Gpu, ...] = ()
        self.announced: tuple[Gpu, ...] = ()
        self.refused: frozenset[Gpu] = frozenset()
        self.is_searching = True
        self.notify: Callable[[], None] = _nothing

    @property
    def jobs(self) -> int:
        """Candidates that are prepared in parallel: its part of the workers."""
        return -(-self._engine.jobs * max(1, len(self.assigned)) // len(self.gpus))

    def begin(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Callable[[], _Result]:
        """Begins a function on a CPU worker, and returns what waits for its result."""
        return self._engine.begin_with(-self._number, function, *args, **kwargs)

    def pool(self) -> Executor:
        """Executor on the CPU workers, which prefer the work of earlier searches."""
        return self._engine.pool(-self._number)

    def start(self, gpu: Gpu) -> TimingProcess:
        """A timing process on a GPU's worker, which takes the requests of earlier searches first."""
        return self._engine.start(gpu, -self._number)

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed` when other GPUs are assigned or announced."""
        self.notify = changed

    def refuse(self, gpu: Gpu) -> None:
        """The search doesn't use a GPU any more."""
        self.refused |= {gpu}
        self.assigned = tuple(assigned for assigned in self.assigned if assigned != gpu)
        self.announced = tuple(announced for announced in self.announced if announced != gpu)
        self._owner.assign()

    def release(self) -> None:
        """The search needs no GPU any more but for its finals."""
        if self.is_searching:
            self.is_searching = False
            self._owner.assign()

    def require(self) -> None:
        """Raises ClusterError if the scheduler was lost, or all searches are stopped."""
        if self._owner.is_stopped:
            raise ClusterError("the search was stopped", "repeat the command: finished work is kept")
        self._engine.require()


def _nothing() -> None: ...
