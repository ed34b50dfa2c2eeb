"""Processes that time candidates, one for each GPU: watched, and replaced when they hang or die."""

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

from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.messages import Message

COMMAND = (sys.executable, "-m", "cugen.tune.timing.worker")
PATIENCE_S = 60.0  # for one answer
_LIFETIME = 200  # requests to one process: the modules and workspaces of candidates stay on its GPU
_LAST_BYTES = 4000
Answer = Message | str  # or why there is none
Events = SimpleQueue[Callable[[], None]]


class WorkerFault(Exception):
    """The process hung, died or gave up; it is gone."""


class Process:
    """One process; `ask` sends a message and waits for its answer."""

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
                start_new_session=True,  # Ctrl-C is for the tuner, which ends its workers itself
            )

    def ask(self, message: Message) -> Message:
        """The answer. WorkerFault where there is none in time, or the process gives up; it is then gone."""
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
        """Ends the process, whatever it does."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process and gives back what was held for it."""
        if self._is_closed:
            return
        self._is_closed = True
        self.kill()
        os.close(self._errors)
        with suppress(BrokenPipeError), self._process:  # of what the process never read
            pass

    def _end_late(self, late: Event) -> None:
        late.set()
        self.kill()

    def _last_words(self) -> str:
        size = os.fstat(self._errors).st_size
        lines = os.pread(self._errors, _LAST_BYTES, max(0, size - _LAST_BYTES)).decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


class Worker:
    """A GPU and whichever process works on it. Answers come as events, for the thread that submits."""

    def __init__(self, gpu: Gpu, command: Sequence[str], opening: Message, events: Events, patience_s: float) -> None:
        self.gpu = gpu
        self.is_busy = False
        self.is_lost = False  # no process can be opened on it
        self._command, self._opening, self._events, self._patience_s = command, opening, events, patience_s
        self._requests: SimpleQueue[tuple[Message, Callable[[Answer], None]] | None] = SimpleQueue()
        self._process: Process | None = None
        self._served = 0
        self._is_closing = False
        self._thread = Thread(target=self._work, name=f"tune {gpu.uuid or gpu.name}", daemon=True)
        self._thread.start()

    def submit(self, request: Message, then: Callable[[Answer], None]) -> None:
        """Sends a request; `then` is called with what comes of it."""
        self.is_busy = True
        self._requests.put((request, then))

    def close(self) -> None:
        """Ends the process at once."""
        self._is_closing = True
        self._requests.put(None)
        if (process := self._process) is not None:
            process.kill()
        self._thread.join()

    def _work(self) -> None:
        while (queued := self._requests.get()) is not None:
            request, then = queued
            opened = False
            try:
                process = self._opened()
                opened = True
                answer: Answer = process.ask(request)
            except WorkerFault as fault:
                self._process = None
                answer = str(fault)
            self._events.put(partial(self._done, then, answer, is_lost=not opened))
        if self._process is not None:
            self._process.close()

    def _done(self, then: Callable[[Answer], None], answer: Answer, *, is_lost: bool) -> None:
        self.is_busy, self.is_lost = False, is_lost
        then(answer)

    def _opened(self) -> Process:
        if self._process is not None and self._served == _LIFETIME:
            self._process.close()
            self._process = None
        if self._process is None:
            self._served = 0
            self._process = Process(self._command, self.gpu, self._patience_s)
            if self._is_closing:
                self._process.kill()
            self._process.ask(self._opening)
        self._served += 1
        return self._process
