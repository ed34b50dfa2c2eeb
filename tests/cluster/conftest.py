"""A cluster in this process: a CPU worker, and two GPU workers whose GPUs aren't there."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler, SpecCluster, Worker

from cugen.cluster import connection, gpu_session
from cugen.cluster.connection import Cluster, connected
from cugen.cluster.description import Description
from cugen.tune.devices import DeviceState
from cugen.tune.timing import workers
from cugen.tune.timing.gpus import Gpu
from cugen.version import __version__
from tests.tune.scale import FAKE, FOUR, SCALAR, TWO

TIMES = [[TWO, 5.0], [SCALAR, 20.0], [FOUR, 10.0]]
UUIDS = {"gpu-0": "GPU-0", "gpu-1": "GPU-1"}


def start_cluster(*names: str) -> SpecCluster:
    """A scheduler and workers in this process; those of UUIDS have the resource GPU."""
    options = {"nthreads": 1, "host": "127.0.0.1", "dashboard": False, "silence_logs": logging.CRITICAL}
    scheduler = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
    specified = {
        name: {"cls": Worker, "options": {**options, "resources": {"GPU": 1} if name in UUIDS else {}}}
        for name in names
    }
    return SpecCluster(
        workers=specified, scheduler={"cls": Scheduler, "options": scheduler}, silence_logs=logging.CRITICAL
    )


def described(*, has_gpu: bool, dask_worker: Worker) -> Description:
    """In place of `describe`: the GPU of a worker by its name."""
    gpus = (Gpu("NVIDIA H200", "sm_90", UUIDS[dask_worker.name]),) if has_gpu else ()
    return Description(__version__, gpus)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the cluster's scheduler."""
    with start_cluster("cpu-0", *UUIDS) as started:
        yield started.scheduler_address


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets how the GPUs behave: `tests/tune/fake_worker.py` times in their place, and `state` has their
    states, by UUID."""
    file = tmp_path / "plan.json"

    def write(**content: Any) -> None:
        file.write_text(json.dumps({"times": TIMES, **content}))

    def state(uuid: str, own_processes: int) -> DeviceState:
        return DeviceState(**json.loads(file.read_text()).get("state", {}).get(uuid, {}))

    write()
    monkeypatch.setattr(workers, "COMMAND", (sys.executable, str(FAKE), str(file)))
    monkeypatch.setattr(gpu_session, "gpu_state", state)
    monkeypatch.setattr(gpu_session, "_keep_in_reserve", lambda gpu: None)  # it would have the plan of its start
    monkeypatch.setattr(connection, "describe", described)
    return write


@pytest.fixture
def cluster(address: str, plan: Any) -> Iterator[Cluster]:
    with connected(address) as opened:
        yield opened
