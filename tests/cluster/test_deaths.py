"""Searches whose workers, scheduler or client are killed at random moments: no time is lost, none taken twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
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
BUDGET_S = 600  # the search ends earlier, with its candidates
WORKERS = {"cpu-0": "", "gpu-0": "GPU-0", "gpu-1": "GPU-1"}  # names and GPUs
Journals = Mapping[str, list[str]]


class Site:
    """A scheduler, a CPU worker and two GPU workers, and one search at a time, each a process that can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "plan.json").write_text(json.dumps({"times": [["", 10.0]], "seconds": 0.5}))
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUGEN_CACHE_DIR": str(folder / "cache")}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._spec = 0

    def start(self) -> None:
        scheduler = self._start("scheduler", "-c", SCHEDULER)
        assert scheduler.stdout is not None
        self.address = scheduler.stdout.readline().strip()
        for name in WORKERS:
            self.start_worker(name)
        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(len(WORKERS), timeout=240)

    def start_worker(self, name: str) -> None:
        self._start(name, str(WORKER), self.address, name, WORKERS[name], str(self.folder / "plan.json"))

    def search(self) -> subprocess.Popen[str]:
        """Starts or resumes the search of the present spec."""
        words = ["tune", str(self._file()), "--budget", str(BUDGET_S), "--scheduler", self.address]
        return self._start("client", "-m", "cugen", *words)

    def next_spec(self) -> None:
        self._spec += 1

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.communicate()

    def end(self) -> None:
        for name in tuple(self.processes):
            self.kill(name)

    def journals(self) -> Journals:
        """The complete lines of each journal."""
        files = self.folder.glob("cache/tune/*.jsonl")
        return {file.name: file.read_text().split("\n")[:-1] for file in files}

    def times(self) -> int:
        return sum(map(len, self.journals().values()))

    def errors(self) -> str:
        return (self.folder / "client.errors").read_text()

    def _file(self) -> Path:
        file = self.folder / f"scale_{self._spec}.yaml"
        file.write_text(SCALE.replace(", vectors: 1", "").replace("4096", str(4096 * (self._spec + 1))))
        return file

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


def begun(site: Site) -> subprocess.Popen[str]:
    """A search that has timed something since now: the running one, else of the present spec, else of the next ones."""
    before = site.times()
    client = site.processes.get("client") or site.search()
    while site.times() == before:
        if client.poll() is not None:
            assert client.returncode == 0, site.errors()
            site.next_spec()
            client = site.search()
        time.sleep(0.02)
    return client


def check(site: Site, kept: Journals) -> None:
    """All that was kept is still there, and nothing was timed twice."""
    now = site.journals()
    assert {name: lines[: len(kept.get(name, ()))] for name, lines in now.items() if name in kept} == kept
    for lines in now.values():
        codes = [json.loads(line)["code"] for line in lines if line.startswith("{")]
        assert len(codes) == len(set(codes))


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", ["gpu-0", "cpu-0", "client", "scheduler"])
def test_nothing_that_was_timed_is_lost_or_timed_again(site: Site, name: str, kills: int) -> None:
    moment = random.Random(f"{name} {kills}")
    for _ in range(kills):
        client = begun(site)
        time.sleep(moment.uniform(0, 1))
        site.kill(name)
        kept = site.journals()
        if name == "scheduler":
            assert client.wait(timeout=400) in (0, 3)  # 0 if it had just ended
            assert client.returncode == 0 or "error[CG4006]" in site.errors()
            site.end()
            site.start()
        elif name != "client":
            site.start_worker(name)
        check(site, kept)
    kept = site.journals()
    client = site.processes.get("client") or site.search()
    if client.wait(timeout=BUDGET_S) != 0:
        assert site.search().wait(timeout=BUDGET_S) == 0, site.errors()
    check(site, kept)
    assert "device: NVIDIA H200" in (site.folder / "cugen.lock").read_text()
