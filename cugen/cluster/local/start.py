"""A cluster of this machine: one worker with the resource `GPU: 1` for each GPU, and one for each core that those don't
need: compilers must not keep the processes that time from running."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from cugen.abi.errors import RunError
from cugen.cluster.errors import ClusterError
from cugen.tune.timing import gpus

COMMAND = (sys.executable, "-m", "cugen.cluster.local.host")
GPU_WORKER_THREADS = 2  # one times; the other starts and ends processes meanwhile
_CORES_PER_GPU = 2  # one times, one computes references of the next searches (heuristic)
_CLOSING_S = 10.0  # seconds in which a process ends its workers
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextmanager
def started(meanwhile: Callable[[], object]) -> Iterator[str]:
    """Starts the cluster, whose scheduler has this address, and calls `meanwhile`. All GPU workers are there then, and
    one of the others."""
    common: dict[str, Any] = {"nthreads": 1, "host": "127.0.0.1", "dashboard": False, "silence_logs": logging.CRITICAL}
    with ExitStack() as stack:
        # GPU workers don't wait for what only compilers need, and the scheduler has a process without compilers.
        modules = ("cugen.cluster.gpu_session", "cugen.cluster.preloaded")
        first, second = (stack.enter_context(_Host(module)) for module in modules)
        devices = _gpus()
        gpu_workers = [
            {
                **common,
                "name": f"gpu-{number}",
                "nthreads": GPU_WORKER_THREADS,
                "resources": {"GPU": 1},
                "preload": ["cugen.cluster.gpu_session"],
                "env": {"CUDA_VISIBLE_DEVICES": gpu.uuid},
            }
            for number, gpu in enumerate(devices)
        ]
        cpu_workers = [
            {**common, "name": f"cpu-{number}", "resources": {"CPU": 1}}
            for number in range(_cpu_workers(len(os.sched_getaffinity(0)), len(devices)))
        ]
        first.ask("", gpu_workers, len(gpu_workers))
        meanwhile()
        address = first.line()
        second.ask(address, cpu_workers, 1)
        for host in (first, second):
            host.line()  # its workers are there
        yield address


class _Host:
    """A process that has the scheduler or workers, which end with it. At exit it is ended."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_ONE_THREAD | os.environ,
            text=True,
            start_new_session=True,  # keeps Ctrl-C from the workers
        )

    def __enter__(self) -> _Host:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_CLOSING_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def ask(self, scheduler: str, workers: Sequence[dict[str, Any]], needed: int) -> None:
        """Asks for workers of a scheduler, which is started if it has no address yet."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `line` says so
            self._process.stdin.write(json.dumps({"scheduler": scheduler, "workers": workers, "needed": needed}) + "\n")
            self._process.stdin.flush()

    def line(self) -> str:
        """The next line of the answer. Raises ClusterError if the process has ended."""
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise ClusterError("the cluster of this machine can't be started", "standard error says why")
        return line.strip()


def _cpu_workers(cores: int, gpus: int) -> int:
    return max(1, cores // 2, cores - _CORES_PER_GPU * gpus)


def _gpus() -> tuple[gpus.Gpu, ...]:
    try:
        return gpus.identified_gpus()
    except RunError:  # without a driver
        return ()
