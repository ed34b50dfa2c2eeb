"""Timing processes of a search, on the GPU workers of a cluster."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Event
from typing import Any

from distributed import KilledWorker, fire_and_forget

from cugen.cluster.connection import Cluster, cpu_options, gpu_options
from cugen.cluster.errors import ClusterError
from cugen.cluster.gpu_session import GONE, answer_on_cpu, answer_on_gpu, end, start
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import READY, Message, purpose
from cugen.tune.timing.workers import Interrupted, WorkerFault

_POLL_S = 0.5  # seconds between looks whether the worker still exists
_FETCH_S = 2.0  # seconds in which a small answer comes from a worker that still exists
_OPENING_PRIORITY = 1  # above all times: the GPU would wait for a process that isn't open


class RemoteProcess:
    """A timing process on the worker of a GPU, as `cugen.tune.timing.workers.TimingProcess`.

    `address_of` waits for the worker of the GPU, and raises WorkerFault if it doesn't come back. `priority`: of its
    times among those of all processes on the GPU, at most 0."""

    def __init__(self, cluster: Cluster, gpu: Gpu, address_of: Callable[[Gpu], str], priority: int = 0) -> None:
        self._cluster, self._gpu, self._address_of, self._priority = cluster, gpu, address_of, priority
        self._session = secrets.token_hex(8)
        self._address = ""
        self._is_killed = False

    def ask(self, message: Message) -> Message:
        """Sends a message and waits for the answer. Raises Interrupted if the worker or the scheduler was lost,
        WorkerFault if the process is at fault."""
        try:
            answer = self._answer(message)
        except (ClusterError, KilledWorker, CancelledError, OSError) as error:
            raise Interrupted(str(error)) from error
        if GONE in answer:
            raise Interrupted("the worker was started again")
        if "fault" in answer:
            raise WorkerFault(str(answer["fault"]))
        return answer

    def kill(self) -> None:
        """Ends an `ask` of another thread."""
        self._is_killed = True

    def close(self) -> None:
        """Ends the process."""
        self._is_killed = True
        with suppress(ClusterError, OSError):
            if self._has_worker():
                fire_and_forget(self._cluster.client.submit(end, self._session, **cpu_options(self._address)))

    def _answer(self, message: Message) -> Message:
        if not self._address:
            self._address = self._address_of(self._gpu)
            self._result(start, self._session, self._gpu, **cpu_options(self._address))
        answer: Message
        if message is READY:
            options = cpu_options(self._address)
            answer = self._result(answer_on_cpu, self._session, self._gpu, message, **options)
        else:
            used_for = purpose(message)
            priority = _OPENING_PRIORITY if used_for == "opening" else self._priority
            options = gpu_options(self._address, priority=priority)
            # Who reads the task stream sees by the key what a GPU was used for.
            options["key"] = f"{answer_on_gpu.__name__}-{used_for}-{secrets.token_hex(8)}"
            answer = self._result(answer_on_gpu, self._session, self._gpu, message, **options)
        return answer

    def _result(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Result of a function on the worker."""
        future: Any = self._cluster.client.submit(function, *arguments, **options)
        is_done = Event()
        future.add_done_callback(lambda done: is_done.set())
        while True:
            if is_done.wait(_POLL_S):
                try:
                    return future.result(_FETCH_S)
                except TimeoutError:  # of the function, or the worker was lost with its answer, which waits for it
                    if future.status == "error":
                        raise
            if self._is_killed or not self._has_worker():
                future.cancel()
                raise Interrupted(f"the worker of {self._gpu.uuid} was lost")

    def _has_worker(self) -> bool:
        return any(worker.address == self._address for worker in self._cluster.workers())
