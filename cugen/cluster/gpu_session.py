"""Timing processes on a GPU worker. These functions run there; those that use the GPU one at a time.

A worker that has had a session keeps a started process in reserve: loading libraries and making a CUDA context take
seconds, in which the next session's GPU would be idle.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from threading import Lock, Timer

from distributed import Worker, secede

from cugen.cluster.gpu_state import gpu_state
from cugen.tune.timing import gpus, workers
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import Message
from cugen.tune.timing.workers import PATIENCE_S, Process, WorkerFault

GONE = "gone"  # key of the answer where the process of a session no longer exists
_IDLE_S = 300.0  # seconds until the process of a client that asks no more is ended


@dataclass
class _Session:
    """A timing process on this worker's GPU, of one search or in reserve. `timer`: ends it if nobody asks."""

    process: Process
    timer: Timer

    def end(self) -> None:
        self.timer.cancel()
        self.process.close()


_SESSIONS: dict[str, _Session] = {}
_RESERVE: dict[Gpu, _Session] = {}
_LOCK = Lock()


def dask_setup(worker: Worker) -> None:
    """Starts a process before there is a session, in workers that preload this module."""
    _keep_in_reserve(gpus.identified_gpus()[0])


def start(session: str, gpu: Gpu) -> None:
    """Begins a session, with the process in reserve if it still runs."""
    end(session)
    with _LOCK:
        reserve = _RESERVE.get(gpu)
        if reserve is not None and reserve.process.is_running:
            reserve.timer.cancel()
            process = reserve.process
        else:
            process = Process(workers.COMMAND, gpu, PATIENCE_S)
        _SESSIONS[session] = _Session(process, Timer(0, end))
        _RESERVE.pop(gpu, None)  # after that: each process is always counted
        if reserve is not None and process is not reserve.process:
            reserve.end()
    _keep_in_reserve(gpu)


def _keep_in_reserve(gpu: Gpu) -> None:
    with _LOCK:
        if gpu not in _RESERVE:
            timer = Timer(_IDLE_S, _end_reserve, [gpu])
            timer.daemon = True
            timer.start()
            _RESERVE[gpu] = _Session(Process(workers.COMMAND, gpu, PATIENCE_S), timer)


def _end_reserve(gpu: Gpu) -> None:
    with _LOCK:
        if (reserve := _RESERVE.get(gpu)) is not None:
            reserve.end()
            del _RESERVE[gpu]


def answer_on_gpu(session: str, gpu: Gpu, message: Message) -> Message:
    """Answer of a session's timing process, with the state of its GPU after times. Faults are answers, too."""
    if (current := _SESSIONS.get(session)) is None:
        return {GONE: True}
    current.timer.cancel()
    try:
        answer = current.process.ask(message)
    except WorkerFault as fault:
        end(session)
        return {"fault": str(fault)}
    current.timer = Timer(_IDLE_S, end, [session])
    current.timer.daemon = True
    current.timer.start()
    if answer.get("times"):
        answer["state"] = asdict(gpu_state(gpu.uuid, len(_SESSIONS) + len(_RESERVE)))
    return answer


def answer_on_cpu(session: str, gpu: Gpu, message: Message) -> Message:
    """Answer that needs no GPU: the worker's threads are free for those that do."""
    secede()
    return answer_on_gpu(session, gpu, message)


def end(session: str) -> None:
    """Ends the timing process of a session."""
    if (current := _SESSIONS.get(session)) is not None:
        current.end()  # before it is forgotten: another session counts the processes of its GPU
        _SESSIONS.pop(session, None)
