"""A search on a cluster: real candidates, prepared by a CPU worker, and timed by GPU workers of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import SpecCluster

from cugen.cluster import engine
from cugen.cluster.connection import Cluster, connected
from cugen.cluster.engine import ClusterEngine
from cugen.cluster.errors import ClusterError
from cugen.schedule.lock import Lock, Measured, Time
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune import Options, Outcome, TuneError, search
from cugen.tune.standings import Progress
from tests.tune.scale import FOUR, SCALAR, SCALE, TWO

from .conftest import start_cluster

WINNER = (("y", Schedule("map", tunables=(("vector", 2), ("vectors", 1)))),)
Search = Callable[..., Outcome]
Plan = Callable[..., None]


@pytest.fixture
def spec() -> Spec:
    (loaded,) = load_text(SCALE)
    return loaded


@pytest.fixture
def tuned(cluster: Cluster, spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))

    def run(*, lock: Lock | None = None, in_order: bool = False) -> Outcome:
        engine = ClusterEngine(cluster)
        if in_order:  # two GPUs may answer in any order, and so may two requests that a GPU was sent
            engine.gpus, engine.depth = engine.gpus[:1], 1
        return search(spec, Options(engine=engine), lock=lock)

    return run


def test_the_fastest_wins_and_the_lock_says_on_how_many_gpus(tuned: Search, plan: Plan, tmp_path: Path) -> None:
    log = tmp_path / "log"
    state = {"driver": "580.65.06", "sm_mhz": 1980, "memory_mhz": 3201}
    plan(log=str(log), state={"GPU-0": state, "GPU-1": state})
    outcome = tuned()
    assert (outcome.entry.schedules, outcome.entry.time, outcome.entry.untuned) == (WINNER, Time(5, 2.5), Time(10, 5))
    assert outcome.entry.measured == Measured(2, "580.65.06", 1980, 3201)
    assert (outcome.left_out, outcome.progress.timed) == ({}, 3)
    finals = log.read_text().split("\n")[-7:-1]  # three finalists on each of two GPUs
    assert {line.split()[0] for line in finals} == {"GPU-0", "GPU-1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        pytest.param({"factors": {"GPU-1": 1.05}}, "it is 5.0% slower than the median of 2 GPUs", id="slow"),
        pytest.param({"state": {"GPU-1": {"throttled": "power brake"}}}, "held back: power brake", id="throttled"),
        pytest.param({"state": {"GPU-1": {"other_processes": 2}}}, "shared: 2 other processes", id="shared"),
    ],
)
def test_a_gpu_that_does_not_count_is_named_and_left_out(
    tuned: Search, plan: Plan, behaviour: dict[str, object], said: str
) -> None:
    plan(**behaviour)
    outcome = tuned()
    assert list(outcome.left_out) == ["GPU-1"]
    assert said in outcome.left_out["GPU-1"]
    assert outcome.entry.schedules == WINNER
    assert outcome.entry.measured == Measured(1)


@pytest.mark.slow
def test_without_a_gpu_that_counts_nothing_is_tuned(tuned: Search, plan: Plan) -> None:
    plan(state={gpu: {"throttled": "power brake"} for gpu in ("GPU-0", "GPU-1")})
    with pytest.raises(TuneError, match=r"no GPU is left;.* GPU-0: its clocks are held back: power brake"):
        tuned()


@pytest.mark.slow
def test_a_candidate_that_faults_costs_its_process_and_not_the_worker(tuned: Search, plan: Plan) -> None:
    plan(die=[SCALAR])
    ((_, reason),) = tuned().failures
    assert reason == "the process died: an illegal memory access"


@pytest.mark.slow
def test_schedules_of_another_device_start_the_search(tuned: Search, spec: Spec, plan: Plan, tmp_path: Path) -> None:
    plan(times=[[SCALAR, 5.0], [FOUR, 10.0], [TWO, 20.0]])
    entry = tuned().entry
    of_h100 = replace(entry, device="NVIDIA H100", runner_up=None)
    for path in (tmp_path / "tune").iterdir():
        path.unlink()
    tuned(lock=Lock("", (of_h100,)), in_order=True)
    (journal,) = (tmp_path / "tune").glob("*.jsonl")
    assert "vector: 1" in journal.read_text().splitlines()[2]


def test_a_cluster_without_the_gpu_says_what_it_has(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no GPU called NVIDIA B200, but NVIDIA H200"):
        ClusterEngine(cluster, "NVIDIA B200")


def search_during(
    spec: Spec, folder: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[SpecCluster], None]
) -> Outcome:
    """A search on a cluster of its own, a part of which is lost once the first time is known."""
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(folder))
    monkeypatch.setattr(engine, "_RETURN_S", 0.5)
    waiting = [lose]
    with start_cluster("cpu-0", "gpu-0", "gpu-1") as started, connected(started.scheduler_address) as cluster:

        def report(progress: Progress) -> None:
            if progress.timed and waiting:
                waiting.pop()(started)

        return search(spec, Options(engine=ClusterEngine(cluster)), report=report)


def test_the_other_gpu_finishes_where_a_worker_is_lost(
    spec: Spec, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(seconds=0.3)
    outcome = search_during(spec, tmp_path, monkeypatch, lambda site: site.sync(site.workers["gpu-0"].close))
    assert (outcome.entry.schedules, outcome.progress.timed) == (WINNER, 3)
    (journal,) = (tmp_path / "tune").glob("*.jsonl")
    _, *records = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(records) == len({record["code"] for record in records}) == 3


@pytest.mark.slow
def test_the_loss_of_the_scheduler_ends_the_search(
    spec: Spec, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(seconds=0.3)
    with pytest.raises(ClusterError, match=r"CG4006\]: the scheduler tcp://\S+ was lost"):
        search_during(spec, tmp_path, monkeypatch, lambda site: site.sync(site.scheduler.close))


def test_a_scheduler_that_did_not_answer_stays_lost(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: object, **__: object) -> None:
        raise OSError("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(cluster.client, "sync", unanswered)
        patch.setattr(cluster, "_listed", -1.0)
        with pytest.raises(ClusterError, match="was lost"):
            cluster.workers()
    with pytest.raises(ClusterError, match="was lost"):
        cluster.require()
