"""Timing processes on a GPU worker. These functions run there; those that use the GPU one at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from threading import Timer

from distributed import secede

from cugen.cluster.gpu_state import gpu_state
from cugen.tune.timing import workers
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import Message
from cugen.tune.timing.workers import PATIENCE_S, Process, WorkerFault

GONE = "gone"  # key of the answer where the process of a session no longer exists
_IDLE_S = 300.0  # seconds until the process of a client that asks no more is ended


@dataclass
class _Session:
    """The timing process of one search on this worker's GPU."""

    process: Process
    timer: Timer


_SESSIONS: dict[str, _Session] = {}


def start(session: str, gpu: Gpu) -> None:
    """Starts the timing process of a session."""
    end(session)
    _SESSIONS[session] = _Session(Process(workers.COMMAND, gpu, PATIENCE_S), Timer(0, end))


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
        answer["state"] = asdict(gpu_state(gpu.uuid, len(_SESSIONS)))
    return answer


def answer_on_cpu(session: str, gpu: Gpu, message: Message) -> Message:
    """Answer that needs no GPU: the worker's threads are free for those that do."""
    secede()
    return answer_on_gpu(session, gpu, message)


def end(session: str) -> None:
    """Ends the timing process of a session."""
    if (current := _SESSIONS.get(session)) is not None:
        current.timer.cancel()
        current.process.close()  # before it is forgotten: another session counts the processes of its GPU
        _SESSIONS.pop(session, None)
