"""Worker processes that time candidates, one per GPU, with a watchdog that replaces hung or dead ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread, Timer
from typing import Protocol

from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import READY, Message, request

COMMAND = (sys.executable, "-m", "cugen.tune.timing.worker")
PATIENCE_S = 60.0  # seconds until a missing answer counts as a hang
_REQUESTS_PER_PROCESS = 200  # then restarted: modules and workspaces of candidates accumulate on the GPU (heuristic)
_STDERR_TAIL_BYTES = 4000  # searched for the last line of a dead process
VERIFY = request((), samples=0, budget_us=0)  # times nothing, but checks the opening's code
Answer = Message | str  # or the reason of a failure
Events = SimpleQueue[Callable[[], None]]


class WorkerFault(Exception):
    """A worker process hung, died or reported a fault; it was terminated."""


class Interrupted(WorkerFault):
    """The machine of a worker process was lost, which says nothing about the candidates."""


class TimingProcess(Protocol):
    """A worker process, on this machine or another one."""

    def ask(self, message: Message) -> Message:
        """Sends a message and waits for the answer. Raises WorkerFault."""
        ...

    def kill(self) -> None:
        """Ends the process, and an `ask` of another thread."""
        ...

    def close(self) -> None:
        """Kills the process and releases its resources."""
        ...


class Process:
    """One worker process. `ask` sends a message and waits for the answer."""

    def __init__(self, command: Sequence[str], gpu: Gpu, patience_s: float) -> None:
        self._patience_s = patience_s
        self._is_closed = False
        with tempfile.TemporaryFile() as errors:
            self._errors = os.dup(errors.fileno())
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu.uuid} if gpu.uuid else {})},
                text=True,
                start_new_session=True,  # keeps Ctrl-C from the workers, which the tuner terminates
            )

    def ask(self, message: Message) -> Message:
        """Sends a message and returns the answer. On a timeout or fault it kills the process and raises WorkerFault."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = Event()
        watchdog = Timer(self._patience_s, self._end_late, [late])
        watchdog.daemon = True
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
            if not isinstance(answer, dict):
                raise ValueError(answer)
        except (OSError, ValueError) as error:
            words = self._last_words()
            self.close()
            if late.is_set():
                raise WorkerFault(f"no answer in {self._patience_s:g} s: it hangs") from error
            raise WorkerFault("the process died" + (f": {words}" if words else "")) from error
        finally:
            watchdog.cancel()
        if "fault" in answer:
            self.close()
            raise WorkerFault(str(answer["fault"]))
        return answer

    def kill(self) -> None:
        """Kills the process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills the process and releases its resources."""
        if self._is_closed:
            return
        self._is_closed = True
        self.kill()
        os.close(self._errors)
        with suppress(BrokenPipeError), self._process:  # input that the process did not read
            pass

    def _end_late(self, late: Event) -> None:
        late.set()
        self.kill()

    def _last_words(self) -> str:
        size = os.fstat(self._errors).st_size
        tail = os.pread(self._errors, _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES))
        lines = tail.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class Worker:
    """A GPU with its current worker process. Answers arrive as events for the submitting thread."""

    def __init__(self, gpu: Gpu, start: Callable[[Gpu], TimingProcess], opening: Message, events: Events) -> None:
        self.gpu = gpu
        self.is_busy = False
        self.is_lost = False  # no process can be started on it
        self.was_interrupted = False  # its machine was lost during the last request
        self._start, self._opening, self._events = start, opening, events
        self._requests: SimpleQueue[tuple[Message, Callable[[Answer], None]] | None] = SimpleQueue()
        self._process: TimingProcess | None = None
        self._served = 0
        self._is_closing = False
        self._thread = Thread(target=self._work, name=f"tune {gpu.uuid or gpu.name}", daemon=True)

    @property
    def is_used(self) -> bool:
        """Whether it was sent a request."""
        return self._thread.ident is not None

    @property
    def is_open(self) -> bool:
        """Whether it has a process."""
        return self._process is not None

    def submit(self, message: Message, then: Callable[[Answer], None]) -> None:
        """Sends a request and calls `then` with its answer; the first one starts the process."""
        if not self.is_used:
            self._thread.start()
        self.is_busy = True
        self._requests.put((message, then))

    def close(self) -> None:
        """Kills the process immediately."""
        self._is_closing = True
        self._requests.put(None)
        if (process := self._process) is not None:
            process.kill()
        if self.is_used:
            self._thread.join()

    def _work(self) -> None:
        while (queued := self._requests.get()) is not None:
            message, then = queued
            opened = is_interrupted = False
            try:
                process = self._opened()
                opened = True
                answer: Answer = process.ask(message)
            except WorkerFault as fault:
                self._process = None
                answer, is_interrupted = str(fault), isinstance(fault, Interrupted)
            except Exception as error:
                self._events.put(partial(_raise, error))  # in the submitting thread, which waits for an event
                break
            done = partial(self._done, then, answer, is_lost=not opened, was_interrupted=is_interrupted)
            self._events.put(done)
        if self._process is not None:
            self._process.close()

    def _done(self, then: Callable[[Answer], None], answer: Answer, *, is_lost: bool, was_interrupted: bool) -> None:
        self.is_busy, self.is_lost, self.was_interrupted = False, is_lost, was_interrupted
        then(answer)

    def _opened(self) -> TimingProcess:
        if self._process is not None and self._served == _REQUESTS_PER_PROCESS:
            self._process.close()
            self._process = None
        if self._process is None:
            self._served = 0
            self._process = self._start(self.gpu)
            if self._is_closing:
                self._process.kill()
            for message in (READY, self._opening, READY, VERIFY):
                self._process.ask(message)
        self._served += 1
        return self._process


def _raise(error: Exception) -> None:
    raise error
