"""Connections to Dask clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from cugen.cluster.description import Description, describe, other_versions
from cugen.cluster.errors import ClusterError
from cugen.toolchain.errors import ToolMissing

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
_MAX_AGE_S = 0.5  # seconds until the list of workers is asked for again (heuristic: it takes ms for 1,000 workers)
_CONNECT_S = 30.0  # seconds until a scheduler or its first worker counts as missing


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a cluster. `has_gpu`, `has_cpu`: whether it has the resource `GPU`, or `CPU`."""

    address: str
    has_gpu: bool
    threads: int
    has_cpu: bool = False


class Cluster:
    """A connected cluster."""

    def __init__(self, client: Client, scheduler: str) -> None:
        self.client = client
        self.scheduler = scheduler
        self._workers: tuple[Worker, ...] = ()
        self._listed = -_MAX_AGE_S
        self._listing = Lock()
        self._is_lost = False

    def workers(self) -> tuple[Worker, ...]:
        """The workers at present, at most `_MAX_AGE_S` ago. Raises ClusterError if the scheduler was lost."""
        self.require()
        with self._listing:  # one thread asks for all
            if monotonic() - self._listed > _MAX_AGE_S:
                self._workers = self._list()
                self._listed = monotonic()
            return self._workers

    def _list(self) -> tuple[Worker, ...]:
        try:
            # The client's own copy is that of its last heartbeat, and of few workers.
            addresses = set(self.client.sync(self.client.scheduler.ncores))
            if addresses == {worker.address for worker in self._workers}:
                return self._workers  # what follows takes the scheduler much longer
            known = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        except OSError as error:
            self._is_lost = True  # the client tries to connect again, but another scheduler knows nothing of its work
            raise self._lost() from error
        return tuple(
            Worker(
                address,
                bool(w["resources"].get("GPU")),
                int(w["nthreads"]),
                bool(w["resources"].get("CPU")),
            )
            for address, w in sorted(known.items())
        )

    def cpu_workers(self) -> tuple[Worker, ...]:
        """The workers with the resource `CPU`, else those without a GPU, else all."""
        workers = self.workers()
        return (
            tuple(worker for worker in workers if worker.has_cpu)
            or tuple(worker for worker in workers if not worker.has_gpu)
            or workers
        )

    def describe(self, workers: Sequence[Worker]) -> Mapping[str, Description]:
        """What the workers say of themselves, by address."""
        described: dict[str, Description] = {}
        for has_gpu in (False, True):
            if addresses := [worker.address for worker in workers if worker.has_gpu == has_gpu]:
                ask = partial(describe, has_gpu=has_gpu)
                described |= self.client.run(ask, workers=addresses, on_error="raise")
        return described

    def require(self) -> None:
        """Raises ClusterError if the scheduler was lost."""
        if self._is_lost or self.client.status != "running":
            raise self._lost()

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"the scheduler {self.scheduler} was lost", "start it again and repeat the command: finished work is kept"
        )


def _nothing() -> None: ...


@contextmanager
def connected(scheduler: str, meanwhile: Callable[[], object] = _nothing) -> Iterator[Cluster]:
    """The cluster of `--scheduler`. `meanwhile` is called while the processes of a local one start.

    Raises ToolMissing without Dask, ClusterError if the scheduler doesn't answer, has no worker, or has one with
    another version of cugen."""
    if find_spec("distributed") is None:
        raise ToolMissing("Dask, for `--scheduler`", "pip install 'cugen[cluster]'")
    if scheduler == LOCAL:
        from cugen.cluster.local.start import started

        with started(meanwhile) as address:
            yield from _connected(address, scheduler)
    else:
        yield from _connected(scheduler, scheduler)


def _connected(address: str, scheduler: str) -> Iterator[Cluster]:
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False, name="cugen")
    except OSError as error:
        raise ClusterError(
            f"the scheduler {scheduler} doesn't answer", "check the address: `dask scheduler` prints it when it starts"
        ) from error
    try:
        cluster = Cluster(client, scheduler)
        _wait_for_workers(cluster)
        if others := other_versions(cluster.describe(cluster.workers())):
            worker, version = next(iter(others.items()))
            raise ClusterError(
                f"{len(others)} workers have another version of cugen, such as {worker}: {version}",
                "install the same version on this machine and all workers",
            )
        yield cluster
    finally:
        client.close(timeout=2)


def _wait_for_workers(cluster: Cluster) -> None:
    from distributed import TimeoutError

    try:
        cluster.client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        raise ClusterError(
            f"the scheduler {cluster.scheduler} has no worker", "start one with `dask worker`"
        ) from error


def gpu_options(*addresses: str, priority: int = 0) -> dict[str, Any]:
    """Options with which a task is submitted to one of these GPU workers, each of which runs one at a time: of those
    that wait the one with the highest priority."""
    options = {"workers": list(addresses), "allow_other_workers": False, "resources": {"GPU": 1}, "pure": False}
    return options | {"priority": priority}


def cpu_options(address: str) -> dict[str, Any]:
    """Options with which a task that needs no GPU is submitted to a GPU worker, also while the GPU is in use."""
    return {"workers": [address], "allow_other_workers": False, "pure": False}


def pool_options(cluster: Cluster) -> dict[str, Any]:
    """Options with which a task is submitted to CPU workers. Those without the resource `CPU` are only preferred: Dask
    gives their tasks to idle GPU workers, too, while all of them are busy, or if there are none any more. A task whose
    worker died is tried again on another."""
    preferred = cluster.cpu_workers()
    if preferred[:1] and preferred[0].has_cpu:
        return {"resources": {"CPU": 1}, "pure": False}
    if len(preferred) == len(cluster.workers()):
        return {"pure": False}  # a list of workers costs the scheduler time for each of them, for each task
    return {"workers": [worker.address for worker in preferred], "allow_other_workers": True, "pure": False}
