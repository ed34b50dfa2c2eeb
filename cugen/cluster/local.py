"""A cluster of this machine: one worker with the resource `GPU: 1` for each GPU, and one for each other core: compilers
must not keep the processes that time from running."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Nanny, Scheduler, SpecCluster

from cugen.abi.errors import RunError
from cugen.tune.timing import gpus

_HOST = "127.0.0.1"  # nothing listens on the network
GPU_WORKER_THREADS = 2  # one times; the other opens the next search meanwhile


@contextmanager
def started() -> Iterator[str]:
    """Starts the cluster, whose scheduler has this address."""
    common: dict[str, Any] = {"nthreads": 1, "host": _HOST, "dashboard": False, "silence_logs": logging.ERROR}
    cores = len(os.sched_getaffinity(0))
    devices = _gpus()
    compiling = range(max(1, cores - len(devices)))
    workers = {f"cpu-{number}": {"cls": Nanny, "options": dict(common)} for number in compiling}
    for number, gpu in enumerate(devices):
        options = {
            **common,
            "nthreads": GPU_WORKER_THREADS,
            "resources": {"GPU": 1},
            "env": {"CUDA_VISIBLE_DEVICES": gpu.uuid},
        }
        workers[f"gpu-{number}"] = {"cls": Nanny, "options": options}
    scheduler = {"cls": Scheduler, "options": {"host": _HOST, "port": 0, "dashboard_address": f"{_HOST}:0"}}
    with SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.ERROR) as cluster:
        yield cluster.scheduler_address


def _gpus() -> tuple[gpus.Gpu, ...]:
    try:
        return gpus.identified_gpus()
    except RunError:  # without a driver
        return ()
