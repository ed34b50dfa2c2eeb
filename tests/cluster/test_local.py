"""The cluster of `--scheduler local` has processes of its own, none of which is left however the command ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from distributed import Scheduler

from cugen.cluster.connection import LOCAL, connected
from cugen.cluster.errors import ClusterError
from cugen.cluster.local import start
from cugen.tune.timing.gpus import Gpu

# Its worker is busy for longer than it has time to end.
# Processes that a shell has put in the background ignore interrupts.
PROGRAM = """
import signal
import time
from cugen.cluster.connection import connected
from cugen.cluster.local import start

signal.signal(signal.SIGINT, signal.default_int_handler)
start._cpu_workers = lambda *_: 1
with connected("local") as cluster:
    task = cluster.client.submit(time.sleep, 600)
    while not cluster.client.processing():
        time.sleep(0.1)
    print("started", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_no_process_is_left_when_the_command_is_ended(program: subprocess.Popen[str], how: signal.Signals) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "started\n"
    descendants = psutil.Process(program.pid).children(recursive=True)
    assert len(descendants) >= 5  # two processes of the cluster, with one that forks for each, and the worker
    program.send_signal(how)
    _, left = psutil.wait_procs(descendants, timeout=60)
    assert left == []


@pytest.mark.slow
@pytest.mark.whole
def test_the_cluster_takes_nothing_of_the_process_that_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_cpu_workers", lambda *_: 2)
    with connected(LOCAL) as cluster:
        cluster.client.wait_for_workers(2)
        used = {cluster.client.run_on_scheduler(os.getpid), *cluster.client.run(os.getpid).values()}
        assert len(used) == 3
        assert os.getpid() not in used
        assert cluster.client.run_on_scheduler(listening) == ["127.0.0.1"]
    assert not any(map(psutil.pid_exists, used))


def listening(dask_scheduler: Scheduler) -> list[Any]:
    """The addresses on which the scheduler listens."""
    return [dask_scheduler.listener.bound_address[0]]


def test_a_cluster_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "COMMAND", (sys.executable, "-c", "raise SystemExit(1)"))
    with pytest.raises(ClusterError, match="the cluster of this machine can't be started"), connected(LOCAL):
        pass


@pytest.mark.slow
@pytest.mark.whole
def test_a_worker_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The scheduler has said its address by then."""
    monkeypatch.setattr(start, "_gpus", lambda: (Gpu("NVIDIA H200", "sm_90", "GPU-0"),))
    monkeypatch.setattr(start, "GPU_WORKER_THREADS", "no number")
    with pytest.raises(ClusterError, match="the cluster of this machine can't be started"), connected(LOCAL):
        pass
    assert "TypeError" in capfd.readouterr().err
