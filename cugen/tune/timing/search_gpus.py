"""The GPUs of one search: on which a process is opened, which take requests, and which don't count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol

from cugen.schedule.lock import Measured
from cugen.tune.devices import DeviceState, Sample, left_out
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import Message
from cugen.tune.timing.workers import Answer, Events, TimingProcess, Worker


class GpuSource(Protocol):
    """GPUs of one model. Those `assigned` are the search's own now; those `announced` will be, and are another search's
    until then, whose requests come first. `depth` requests are sent to a GPU ahead."""

    @property
    def gpus(self) -> Sequence[Gpu]: ...
    @property
    def assigned(self) -> Sequence[Gpu]: ...
    @property
    def announced(self) -> Sequence[Gpu]: ...
    @property
    def depth(self) -> int: ...

    def start(self, gpu: Gpu) -> TimingProcess:
        """Starts a process that times on a GPU. Raises WorkerFault."""
        ...

    def refuse(self, gpu: Gpu) -> None:
        """Gives up a GPU for good."""
        ...


class SearchGpus:
    """The GPUs of a source, each with a worker. `opening`: the first message to each process. `left_out`: GPUs that
    don't count, with the reasons; `faults`: why processes couldn't be opened."""

    def __init__(self, source: GpuSource, opening: Future[Message], events: Events) -> None:
        self._source, self._opening = source, opening
        self.workers = [Worker(gpu, source.start, opening, events, source.depth) for gpu in source.gpus]
        self.left_out: Mapping[str, str] = {}
        self.faults: list[str] = []
        self._samples: list[Sample] = []
        self._opened: set[Gpu] = set()  # or being opened
        self._opening_on: set[Gpu] = set()
        self._declined: set[Gpu] = set()  # not opened while others use them
        self._refused: set[Gpu] = set()

    def close(self) -> None:
        """Ends all processes."""
        self._opening.cancel()
        for worker in self.workers:
            worker.close()

    def usable(self) -> list[Worker]:
        """The workers that count."""
        return [worker for worker in self.workers if not (worker.is_lost or worker.gpu.uuid in self.left_out)]

    def idle(self) -> list[Worker]:
        """Workers that take a request now: those without any first, then those of its own GPUs."""
        assigned, announced = self._source.assigned, self._source.announced
        waiting = [
            worker
            for worker in self.usable()
            if worker.gpu in self._opened - self._opening_on
            and worker.gpu in (*assigned, *announced)
            and worker.has_room
        ]
        return sorted(waiting, key=lambda worker: (worker.is_busy, worker.gpu not in assigned))

    def is_opening(self) -> bool:
        """Whether a process is being opened where the search may time."""
        mine = (*self._source.assigned, *self._source.announced)
        return any(worker.gpu in mine and worker.gpu in self._opening_on for worker in self.usable())

    def open(self) -> None:
        """Opens a process on each GPU that was assigned or announced since."""
        for worker in self.usable():
            is_announced = worker.gpu in self._source.announced and worker.gpu not in self._declined
            if is_announced or worker.gpu in self._source.assigned:
                self._open(worker)

    def open_any(self, count: int) -> None:
        """Opens processes on any GPUs, so that there are `count`, if so many are usable."""
        usable = self.usable()
        closed = [worker for worker in usable if worker.gpu not in (self._opened | self._declined)]
        for worker in closed[: max(0, count - len([w for w in usable if w.gpu in self._opened]))]:
            self._open(worker)

    def refuse_unusable(self) -> None:
        """Gives up the GPUs that don't count any more."""
        usable = self.usable()
        for worker in self.workers:
            if worker not in usable and worker.gpu not in self._refused:
                self._refused.add(worker.gpu)
                self._source.refuse(worker.gpu)

    def take_sample(self, gpu: Gpu, code: str, cold: float, answer: Message) -> None:
        """Keeps a code's time in an answer that has the state of its GPU."""
        if "state" in answer:
            self._samples.append(Sample(gpu.uuid, code, cold, DeviceState(**answer["state"])))

    def judge(self) -> None:
        """Leaves out the GPUs that don't count by the samples so far."""
        self.left_out = {**left_out(self._samples), **self.left_out}

    def reasons(self) -> str:
        """Why GPUs are left out, as the end of a sentence."""
        return "".join(f"; {gpu}: {why}" for gpu, why in self.left_out.items())

    def measured(self) -> Measured | None:
        """On how many GPUs was timed, and the state of the last one; None where GPUs don't report it."""
        counted = [sample for sample in self._samples if sample.gpu not in self.left_out]
        if not counted:
            return None
        state = counted[-1].state
        return Measured(len({sample.gpu for sample in counted}), state.driver, state.sm_mhz, state.memory_mhz)

    def _open(self, worker: Worker) -> None:
        if worker.gpu not in self._opened:
            self._opened.add(worker.gpu)
            self._opening_on.add(worker.gpu)
            worker.open(partial(self._is_opened, worker))

    def _is_opened(self, worker: Worker, answer: Answer) -> None:
        self._opening_on.discard(worker.gpu)
        if not isinstance(answer, str):
            return
        self.faults.append(answer)
        if worker.gpu not in self._source.assigned:  # its memory may be in use by others
            worker.is_lost = False
            self._opened.discard(worker.gpu)
            self._declined.add(worker.gpu)
