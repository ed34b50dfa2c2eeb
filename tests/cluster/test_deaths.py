"""A search whose workers, scheduler or client are killed at a random moment: no time is lost, none taken twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from tests.tune.scale import SCALE

WORKER = Path(__file__).parent / "process_worker.py"
ROOT = Path(__file__).parents[2]
SCHEDULER = """
import asyncio
from distributed import Scheduler

async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(serve())
"""
BUDGET_S = 120  # the search ends earlier, with its candidates


class Site:
    """A scheduler, a CPU worker and two GPU workers, and one search at a time, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plan.json").write_text(json.dumps({"times": [["", 10.0]], "seconds": 0.3}))
        (folder / "scale.yaml").write_text(SCALE.replace(", vectors: 1", ""))
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUGEN_CACHE_DIR": str(folder / "cache")}
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self) -> None:
        scheduler = self._start("scheduler", "-c", SCHEDULER)
        assert scheduler.stdout is not None
        self.address = scheduler.stdout.readline().strip()
        for name, uuid in (("cpu-0", ""), ("gpu-0", "GPU-0"), ("gpu-1", "GPU-1")):
            self._start(name, str(WORKER), self.address, name, uuid, str(self.folder / "plan.json"))
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(3, timeout=240)

    def search(self) -> subprocess.Popen[str]:
        words = ["tune", str(self.folder / "scale.yaml"), "--budget", str(BUDGET_S), "--scheduler", self.address]
        return self._start("client", "-m", "cugen", *words)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.communicate()

    def end(self) -> None:
        for name in tuple(self.processes):
            self.kill(name)

    def records(self) -> list[str]:
        """The complete lines of the journal."""
        return [line for file in self.folder.glob("cache/tune/*.jsonl") for line in file.read_text().split("\n")[:-1]]

    def wait_for_records(self, client: subprocess.Popen[str]) -> None:
        while not self.records() and client.poll() is None:
            time.sleep(0.02)
        assert client.poll() is None, (self.folder / "client.errors").read_text()

    def _start(self, name: str, *words: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.errors").open("a") as errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *words], stdout=subprocess.PIPE, stderr=errors, text=True, env=self.environment
            )
        return self.processes[name]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()


def killed(site: Site, name: str, moment: random.Random) -> int | None:
    """Starts a search and kills a process at a random moment after the first times; the status of the search."""
    client = site.search()
    site.wait_for_records(client)
    time.sleep(moment.uniform(0, 1))
    site.kill(name)
    return None if name == "client" else client.wait(timeout=400)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", ["gpu-0", "cpu-0", "client", "scheduler"])
def test_nothing_that_was_timed_is_lost_or_timed_again(site: Site, name: str, seed: int) -> None:
    status = killed(site, name, random.Random(f"{name} {seed}"))
    kept = site.records()
    errors = (site.folder / "client.errors").read_text()
    if name == "scheduler":
        assert (status, "error[CG4006]" in errors) == (3, True)
    elif name == "gpu-0":
        assert status == 0, errors  # the other GPU finishes alone
    if name != "gpu-0":
        site.end()
        site.start()
    assert site.search().wait(timeout=400) == 0, (site.folder / "client.errors").read_text()
    assert site.records()[: len(kept)] == kept
    codes = [json.loads(line)["code"] for line in site.records()]
    assert len(codes) == len(set(codes))
    assert "device: NVIDIA H200" in (site.folder / "cugen.lock").read_text()
