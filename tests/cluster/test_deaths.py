"""Searches whose workers, scheduler or client are killed at random moments: no time is lost, none taken twice.

100 kills take about three quarters of an hour on a loaded machine: `pytest -m exhaustive tests/cluster/test_deaths.py`.
"""

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
KILLED = ("gpu-0", "scheduler", "cpu-0", "client")  # in turn
_RECORD = '{"code"'
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
        return sum(line.startswith(_RECORD) for lines in self.journals().values() for line in lines)

    def errors(self) -> str:
        return (self.folder / "client.errors").read_text()

    def _file(self) -> Path:
        file = self.folder / f"scale_{self._spec}.yaml"
        file.write_text(SCALE.replace(", vectors: 1", "").replace("4096", str(4096 * (self._spec + 1))))
        return file

    def _start(self, name: str, *words: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.errors").open("w") as errors:
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


def running(site: Site) -> subprocess.Popen[str]:
    """A search that runs: the present one, else of the present spec, else of the next one."""
    client = site.processes.get("client") or site.search()
    if client.poll() is None:
        return client
    assert client.returncode == 0, site.errors()
    site.next_spec()
    return site.search()


def begun(site: Site) -> subprocess.Popen[str]:
    """A search that has timed something since now."""
    before = site.times()
    while site.times() == before:
        running(site)
        time.sleep(0.02)
    return running(site)


def check(site: Site, kept: Journals) -> None:
    """All that was kept is still there, and nothing was timed twice."""
    now = site.journals()
    assert {name: lines[: len(kept.get(name, ()))] for name, lines in now.items() if name in kept} == kept
    for lines in now.values():
        records = [json.loads(line) for line in lines if line.startswith(_RECORD)]
        codes = [record["code"] for record in records]
        assert len(codes) == len(set(codes))
        assert not any(record["failed"] for record in records)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("kills", [len(KILLED), pytest.param(100, marks=pytest.mark.exhaustive)])
def test_nothing_that_was_timed_is_lost_or_timed_again(site: Site, kills: int) -> None:
    """Each process in turn. Half of the kills are at any moment of a search, its start included, the others after it
    has timed something, so that it gets on."""
    seed = int(os.environ.get("CUGEN_KILLS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"CUGEN_KILLS_SEED={seed} repeats the moments of these {kills} kills")
    moment = random.Random(seed)
    for number in range(kills):
        name = KILLED[number % len(KILLED)]
        client = begun(site) if moment.random() < 0.5 else running(site)
        time.sleep(moment.uniform(0, 2))
        site.kill(name)
        kept = site.journals()
        if name == "scheduler":
            # A search whose final comparison had ended needs no scheduler to tell its result; any other is lost.
            client.wait(timeout=400)
            assert client.stdout is not None
            has_result = " on NVIDIA H200" in client.stdout.read()
            assert client.returncode == (0 if has_result else 3), site.errors()
            assert has_result or "error[CG4006]: the scheduler" in site.errors()
            site.end()
            site.start()
        elif name != "client":
            site.start_worker(name)
        check(site, kept)
        print(f"kill {number + 1}: {name}, {site.times()} times", flush=True)
    kept = site.journals()
    assert running(site).wait(timeout=BUDGET_S) == 0, site.errors()
    check(site, kept)
    assert "device: NVIDIA H200" in (site.folder / "cugen.lock").read_text()
    kept = site.journals()
    assert site.search().wait(timeout=BUDGET_S) == 0, site.errors()
    assert site.journals() == kept  # all candidates were timed
    print(f"{site.times()} times of {len(kept)} searches were kept")
