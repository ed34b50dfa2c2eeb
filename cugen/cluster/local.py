"""A cluster of this machine: one worker with the resource `GPU: 1` for each GPU, and one for each core that those don't
need: compilers must not keep the processes that time from running."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask.config
from distributed import Nanny, Scheduler, SpecCluster
from distributed.utils import get_mp_context

from cugen.abi.errors import RunError
from cugen.tune.timing import gpus

_HOST = "127.0.0.1"  # nothing listens on the network
GPU_WORKER_THREADS = 2  # one times; the other starts and ends processes meanwhile
_CORES_PER_GPU = 2  # one times, one computes references of the next searches (heuristic)
_CONFIGURATION = {
    "distributed.worker.multiprocessing-method": "forkserver",  # workers start within a second, with all modules
    "distributed.worker.memory.monitor-interval": "1s",  # by this process, for each worker
}


@contextmanager
def started() -> Iterator[str]:
    """Starts the cluster, whose scheduler has this address."""
    common: dict[str, Any] = {"nthreads": 1, "host": _HOST, "dashboard": False, "silence_logs": logging.ERROR}
    devices = _gpus()
    environment = dict(os.environ)  # a process that forks has that of its start
    workers = {
        f"cpu-{number}": {"cls": Nanny, "options": {**common, "resources": {"CPU": 1}, "env": environment}}
        for number in range(_cpu_workers(len(os.sched_getaffinity(0)), len(devices)))
    }
    for number, gpu in enumerate(devices):
        options = {
            **common,
            "nthreads": GPU_WORKER_THREADS,
            "resources": {"GPU": 1},
            "preload": ["cugen.cluster.gpu_session"],
            "env": {**environment, "CUDA_VISIBLE_DEVICES": gpu.uuid},
        }
        workers[f"gpu-{number}"] = {"cls": Nanny, "options": options}
    scheduler = {"cls": Scheduler, "options": {"host": _HOST, "port": 0, "dashboard_address": f"{_HOST}:0"}}
    with dask.config.set(_CONFIGURATION):
        get_mp_context().set_forkserver_preload(["cugen.cluster.preloaded"])
        with SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.ERROR) as cluster:
            yield cluster.scheduler_address


def _cpu_workers(cores: int, gpus: int) -> int:
    return max(1, cores // 2, cores - _CORES_PER_GPU * gpus)


def _gpus() -> tuple[gpus.Gpu, ...]:
    try:
        return gpus.identified_gpus()
    except RunError:  # without a driver
        return ()
