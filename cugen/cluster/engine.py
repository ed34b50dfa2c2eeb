"""A cluster as the engine of a search: CPU workers prepare candidates, GPU workers time them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, wait
from functools import partial
from time import monotonic, sleep
from typing import ParamSpec, TypeVar

from cugen.cluster.connection import Cluster
from cugen.cluster.description import unusable_gpu_workers
from cugen.cluster.errors import ClusterError
from cugen.cluster.preparing import CpuTasks, Pool
from cugen.cluster.timing import RemoteProcess
from cugen.tune.engine import Exclusive
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.workers import WorkerFault

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_POLL_S = 0.5  # seconds between looks for new workers
_RETURN_S = 30.0  # seconds in which the worker of a GPU may be started again


class ClusterEngine(Exclusive):
    """The engine of searches on the GPUs of one model. `unusable`: GPU workers that can't time, with the reasons.

    Raises ClusterError if no GPU worker can."""

    final_gpus = 2
    depth = 2

    def __init__(self, cluster: Cluster, device: str | None = None) -> None:
        self._cluster = cluster
        self._tasks = CpuTasks(cluster)
        self._addresses, self.unusable = self._located()
        usable = sorted(self._addresses, key=lambda gpu: (gpu.name, gpu.uuid))
        name = device or next((gpu.name for gpu in usable), "")
        chosen = [gpu for gpu in usable if gpu.name == name]
        if not chosen:
            raise ClusterError(_nothing_found(usable, device, self.unusable), _CURE)
        self.gpus = tuple(chosen)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The workers of the GPUs."""
        return tuple(self._addresses[gpu] for gpu in self.gpus)

    @property
    def jobs(self) -> int:
        """Candidates that are prepared in parallel."""
        return sum(worker.threads for worker in self._cluster.cpu_workers())

    def begin(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Callable[[], _Result]:
        """Begins a function on a CPU worker, and returns what waits for its result."""
        return self.begin_with(0, function, *args, **kwargs)

    def begin_with(
        self, priority: int, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Callable[[], _Result]:
        """As `begin`, where tasks of higher priority come first."""
        return partial(self._awaited, self._tasks.submit(priority, partial(function, *args, **kwargs)))

    def _awaited(self, result: Future[_Result]) -> _Result:
        while not wait([result], _POLL_S).done:
            self.require()
        if result.cancelled():
            self.require()
        return result.result()

    def pool(self, priority: int = 0) -> Executor:
        """Executor on the CPU workers, which take tasks of higher priority first."""
        return Pool(self._tasks, priority)

    def start(self, gpu: Gpu, priority: int = 0) -> RemoteProcess:
        """A timing process on a GPU's worker, which takes requests of higher priority first."""
        return RemoteProcess(self._cluster, gpu, self._address_of, priority)

    def require(self) -> None:
        """Raises ClusterError if the scheduler was lost. Sends what waits to workers that have come since."""
        self._tasks.send()

    def _address_of(self, gpu: Gpu) -> str:
        """The worker of a GPU, which may have been started again. Raises WorkerFault if it wasn't."""
        deadline = monotonic() + _RETURN_S
        while True:
            known = {worker.address for worker in self._cluster.workers()}
            if (address := self._addresses.get(gpu, "")) in known:
                return address
            if monotonic() > deadline:
                raise WorkerFault(f"no worker has {gpu.uuid} any more")
            sleep(1)
            self._addresses, _ = self._located()

    def _located(self) -> tuple[Mapping[Gpu, str], Mapping[str, str]]:
        """The addresses of the usable GPU workers, and the reasons why others aren't."""
        described = self._cluster.describe([worker for worker in self._cluster.workers() if worker.has_gpu])
        unusable = unusable_gpu_workers(described)
        usable = {d.gpus[0]: address for address, d in described.items() if address not in unusable}
        return usable, unusable


_CURE = "start a worker for each GPU: CUDA_VISIBLE_DEVICES=0 dask worker SCHEDULER --nthreads 2 --resources GPU=1"


def _nothing_found(usable: list[Gpu], device: str | None, unusable: Mapping[str, str]) -> str:
    if usable:
        return f"the cluster has no GPU called {device}, but {', '.join(sorted({gpu.name for gpu in usable}))}"
    reasons = "; ".join(f"{worker}: {reason}" for worker, reason in unusable.items())
    return f"the cluster has no GPU worker that can time{f': {reasons}' if reasons else ''}"
