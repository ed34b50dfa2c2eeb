"""Clusters of processes on this machine, whose GPUs aren't there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cugen.cluster.connection import Cluster, connected

WORKER = Path(__file__).parent / "gpu_worker.py"
ROOT = Path(__file__).parents[2]
TWO, FOUR, SCALAR = "Vector<float, 2>", "Vector<float, 4>", "float x_i"
TIMES = [[TWO, 5.0], [SCALAR, 20.0], [FOUR, 10.0]]
SCHEDULER = """
import asyncio, sys
from distributed import Scheduler

async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(serve())
"""


class Site:
    """A scheduler and workers, each a process that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self.plan_file = folder / "plan.json"
        self.plan()
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUGEN_CACHE_DIR": str(folder / "cache")}
        self._errors = (folder / "errors").open("w")
        self.scheduler = self._start("-c", SCHEDULER)
        assert self.scheduler.stdout is not None
        self.address = self.scheduler.stdout.readline().strip()
        self.workers: dict[str, subprocess.Popen[str]] = {}

    def plan(self, **plan: Any) -> None:
        """Sets how the GPUs of the workers behave."""
        self.plan_file.write_text(json.dumps({"times": TIMES, **plan}))

    def add(self, name: str, uuid: str = "") -> None:
        self.workers[name] = self._start(str(WORKER), self.address, name, uuid, str(self.plan_file))

    def end(self) -> None:
        for process in (*self.workers.values(), self.scheduler):
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._errors.close()

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=self._errors, text=True, env=self.environment
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One CPU worker and two GPU workers."""
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        made.add("cpu-0")
        made.add("gpu-0", "GPU-0")
        made.add("gpu-1", "GPU-1")
        yield made
    finally:
        made.end()


@pytest.fixture
def cluster(site: Site) -> Iterator[Cluster]:
    """The connected site, once all its workers are there."""
    site.plan()
    with connected(site.address) as connection:
        wait_for(connection, len(site.workers))
        yield connection


def wait_for(cluster: Cluster, workers: int) -> None:
    deadline = time.monotonic() + 60
    while len(cluster.workers()) < workers and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(cluster.workers()) >= workers
