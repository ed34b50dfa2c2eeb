"""Worker processes that time candidates, one per GPU, with a watchdog that replaces hung or dead ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread, Timer
from time import monotonic
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
        """Sends a message and returns the answer, with the seconds that it took. On a timeout or fault it kills the
        process and raises WorkerFault."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = Event()
        watchdog = Timer(self._patience_s, self._end_late, [late])
        watchdog.daemon = True
        watchdog.start()
        begun = monotonic()
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
        return {**answer, "seconds": monotonic() - begun}

    @property
    def is_running(self) -> bool:
        """Whether the process hasn't ended."""
        return self._process.poll() is None

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
    """A GPU with its current worker process. Answers arrive as events for the submitting thread. `opening`: the first
    message, for which a process that has started waits. `depth`: requests that are sent before the first one is
    answered, so that the GPU doesn't wait for messages."""

    def __init__(
        self, gpu: Gpu, start: Callable[[Gpu], TimingProcess], opening: Future[Message], events: Events, depth: int = 1
    ) -> None:
        self.gpu = gpu
        self.is_lost = False  # no process can be started on it
        self.was_interrupted = False  # its machine was lost during the last request
        self._start, self._opening, self._events, self._depth = start, opening, events, depth
        self._requests: SimpleQueue[tuple[Message | None, Callable[[Answer], None]] | None] = SimpleQueue()
        self._unanswered = 0
        self._process: TimingProcess | None = None
        self._is_opening = Lock()
        self._served = 0
        self._is_used = self._is_closing = False
        name = f"tune {gpu.uuid or gpu.name}"
        self._threads = [Thread(target=self._work, name=name, daemon=True) for _ in range(depth)]

    @property
    def is_busy(self) -> bool:
        """Whether it has a request."""
        return self._unanswered > 0

    @property
    def has_room(self) -> bool:
        """Whether it takes a request now: the first of a process, and the one that replaces it, have no other beside
        them."""
        is_between = 0 < self._served and self._served + self._unanswered < _REQUESTS_PER_PROCESS
        return self._unanswered < (self._depth if is_between else 1)

    @property
    def is_open(self) -> bool:
        """Whether it has a process that has answered the opening."""
        return self._process is not None and self._served > 0

    def open(self, then: Callable[[Answer], None]) -> None:
        """Starts and opens the process, and calls `then` with an empty answer, or the reason of a failure."""
        self._submit(None, then)

    def submit(self, message: Message, then: Callable[[Answer], None]) -> None:
        """Sends a request and calls `then` with its answer. Opens a process where there is none."""
        self._submit(message, then)

    def _submit(self, message: Message | None, then: Callable[[Answer], None]) -> None:
        if not self._is_used:
            self._is_used = True
            for thread in self._threads:
                thread.start()
        self._unanswered += 1
        self._requests.put((message, then))

    def close(self) -> None:
        """Kills the process immediately."""
        self._is_closing = True
        for _ in self._threads:
            self._requests.put(None)
        if (process := self._process) is not None:
            process.kill()
        if self._is_used:
            for thread in self._threads:
                thread.join()
        if self._process is not None:
            self._process.close()

    def _work(self) -> None:
        while (queued := self._requests.get()) is not None:
            message, then = queued
            process: TimingProcess | None = None
            is_interrupted = False
            try:
                process = self._opened()
                answer: Answer = {} if message is None else process.ask(message)
            except WorkerFault as fault:
                if self._process is process:
                    self._process = None
                answer, is_interrupted = str(fault), isinstance(fault, Interrupted)
            except Exception as error:
                self._events.put(partial(_raise, error))  # in the submitting thread, which waits for an event
                break
            done = partial(self._done, then, answer, is_lost=process is None, was_interrupted=is_interrupted)
            self._events.put(done)

    def _done(self, then: Callable[[Answer], None], answer: Answer, *, is_lost: bool, was_interrupted: bool) -> None:
        self._unanswered -= 1
        self.is_lost, self.was_interrupted = is_lost, was_interrupted
        then(answer)

    def _opened(self) -> TimingProcess:
        with self._is_opening:
            if self._process is not None and self._served >= _REQUESTS_PER_PROCESS:
                self._process.close()
                self._process = None
            if self._process is None:
                self._served = 0
                process = self._process = self._start(self.gpu)
                if self._is_closing:
                    process.kill()
                try:
                    process.ask(READY)
                    for message in (self._opening.result(), READY, VERIFY):
                        process.ask(message)
                except (WorkerFault, CancelledError) as error:
                    process.close()
                    self._process = None
                    if isinstance(error, CancelledError):
                        raise WorkerFault("the search has ended") from error
                    raise
            self._served += 1
            return self._process


def _raise(error: Exception) -> None:
    raise error
