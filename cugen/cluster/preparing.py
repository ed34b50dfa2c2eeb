"""Tasks for the CPU workers of a cluster. Dask gets only as many as keep the workers busy, so that what is urgent
doesn't queue behind what isn't at the worker that happens to have it; the others wait here. Results come in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Lock
from typing import Any

from distributed import KilledWorker

from cugen.cluster.connection import Cluster, pool_options
from cugen.cluster.errors import ClusterError
from cugen.tune.timing.prepare import Dropped

_SENT_PER_THREAD = 1.25  # tasks that Dask has, so that a worker's next one is there when it has finished (heuristic)


class CpuTasks:
    """The tasks of all searches of a command. A task at which workers die gives `Dropped`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = Lock()
        self._number = count()
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []  # a heap
        self._sent: dict[Any, Future[Any]] = {}  # by Dask's futures
        self._collector = ThreadPoolExecutor(1, thread_name_prefix="collect")

    def submit(self, priority: int, function: Callable[[], Any]) -> Future[Any]:
        """Calls a function on a worker; of those that wait, the first one with the highest priority comes next."""
        result: Future[Any] = Future()
        with self._lock:
            heappush(self._waiting, (-priority, next(self._number), result, function))
        self.send()
        return result

    def send(self) -> None:
        """Sends tasks to workers that have none, or have come since. Raises ClusterError if the scheduler was lost."""
        self._cluster.require()
        if not self._waiting:
            return
        threads = sum(worker.threads for worker in self._cluster.cpu_workers())
        options = pool_options(self._cluster)
        with self._lock:
            while self._waiting and len(self._sent) < _SENT_PER_THREAD * threads:
                order, _, result, function = heappop(self._waiting)
                if not result.cancelled():
                    sent = self._cluster.client.submit(function, **options, priority=-order)
                    self._sent[sent] = result
                    result.add_done_callback(partial(_cancel_too, sent))
                    sent.add_done_callback(lambda sent: self._collector.submit(self._collect))

    def _collect(self) -> None:
        """Passes on the results of all tasks that are done by now, which cost one request together."""
        with self._lock:
            done = {sent: result for sent, result in self._sent.items() if sent.done()}
            for sent in done:
                del self._sent[sent]
        with suppress(ClusterError):  # who waits for a result asks
            self.send()
        finished = [sent for sent in done if sent.status == "finished"]
        try:
            values = dict(zip(finished, self._cluster.client.gather(finished) if finished else (), strict=True))
        except Exception:  # of one that was lost since
            values = {}
        for sent, result in done.items():
            _pass_on(sent, result, values)


def _pass_on(sent: Any, result: Future[Any], values: Mapping[Any, Any]) -> None:
    """Gives a result what Dask's future has, which is among `values` if it was gathered."""
    value, error = None, None
    try:
        value = values[sent] if sent in values else sent.result()
    except KilledWorker:
        value = Dropped("workers died while they prepared it")
    except Exception as raised:
        if sent.status != "error" and isinstance(raised, CancelledError | OSError):  # lost with the scheduler
            result.cancel()
        error = raised
    if result.set_running_or_notify_cancel():
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)


def _cancel_too(sent: Any, result: Future[Any]) -> None:
    if result.cancelled():
        sent.cancel()


class Pool(Executor):
    """Executor of the tasks of one search."""

    def __init__(self, tasks: CpuTasks, priority: int) -> None:
        self._tasks, self._priority = tasks, priority
        self._results: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        result = self._tasks.submit(self._priority, partial(fn, *args, **kwargs))
        self._results = [*_undone(self._results), result]
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for result in reversed(_undone(self._results)) if cancel_futures else ():
            result.cancel()  # before others, which it would make room for
        if wait:
            wait_for(_undone(self._results))


def _undone(results: Sequence[Future[Any]]) -> list[Future[Any]]:
    return [result for result in results if not result.done()]
