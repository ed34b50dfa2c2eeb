"""Several searches on one GPU whose times are made up: it isn't idle while one of them has something to time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Worker, secede

from cugen.cluster import gpu_session, preparing
from cugen.cluster.connection import Cluster, cpu_options, gpu_options
from cugen.cluster.engine import ClusterEngine
from cugen.cluster.searches import searched
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune import Options, Outcome, search, tuner
from cugen.tune.engine import Engine
from cugen.tune.timing import prepare as preparation
from cugen.tune.timing.gpus import Gpu
from tests.tune.scale import SCALE

DEADLINE_S = 60.0  # of what is expected to happen
RELEASED = threading.Event()
PREPARED: list[str] = []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def engine(cluster: Cluster) -> ClusterEngine:
    """An engine with one GPU."""
    made = ClusterEngine(cluster)
    made.gpus = made.gpus[:1]
    return made


def specs(count: int) -> list[Spec]:
    texts = [SCALE.replace("scale", f"scale_{n}").replace("4096", str(4096 * (n + 1))) for n in range(count)]
    return [spec for text in texts for spec in load_text(text)]


@contextmanager
def searching(engine: ClusterEngine, tuned: Sequence[Spec]) -> Iterator[list[Future[Outcome]]]:
    """Searches of these specs, in this order."""

    def run(spec: Spec, share: Engine) -> Outcome:
        return search(spec, Options(engine=share))

    with searched(engine, [partial(run, spec) for spec in tuned]) as futures:
        yield futures


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def prepared_late(spec: Spec, schedules: Any, *others: Any) -> Any:
    """Prepares candidates of the first search once `RELEASED` is set, until when they don't take a worker's thread."""
    if spec.kernel == "scale_0" and schedules:
        secede()
        assert RELEASED.wait(DEADLINE_S)
    return preparation.prepare(spec, schedules, *others)


def test_a_search_is_timed_to_its_end_while_the_owner_of_its_gpu_has_no_candidate(
    engine: ClusterEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidates of the first search aren't compiled until the others have ended, and keep no worker from work."""
    RELEASED.clear()
    monkeypatch.setattr(preparing, "_SENT_PER_THREAD", 4)
    monkeypatch.setattr(tuner, "prepare", prepared_late)
    with searching(engine, specs(3)) as (first, *others):
        try:
            for next_search in others:
                assert next_search.result(timeout=DEADLINE_S).progress.timed == 3
            assert not first.done()
        finally:
            RELEASED.set()
        assert first.result(timeout=DEADLINE_S).progress.timed == 3


def prepared(spec: Spec, *others: Any) -> Any:
    """Prepares a candidate, and keeps a list of their kernels."""
    PREPARED.append(spec.kernel)
    return preparation.prepare(spec, *others)


@pytest.mark.slow
def test_all_candidates_of_later_searches_are_prepared_while_a_gpu_times_the_first_one(
    engine: ClusterEngine, plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four searches: one times, two have their processes on its GPU already, the last one has none."""
    answers = tmp_path / "answers"
    plan(awaits=str(answers))
    PREPARED.clear()
    monkeypatch.setattr(tuner, "prepare", prepared)
    with searching(engine, specs(4)) as (first, *_):
        try:
            wait_for(lambda: PREPARED.count("scale_3") == 4)  # of which the generator's own choice is two
            assert not first.done()
        finally:
            answers.touch()


class WaitingProcess:
    """A timing process whose requests wait until they are released: `received` has those that were sent to it."""

    is_running = True
    received: list[str]
    released: threading.Event

    def __init__(self, command: Sequence[str], gpu: Gpu, patience_s: float) -> None: ...

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.received.append(message["name"])
        assert self.released.wait(DEADLINE_S)
        return {}

    def close(self) -> None: ...


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[WaitingProcess]:
    WaitingProcess.received, WaitingProcess.released = [], threading.Event()
    monkeypatch.setattr(gpu_session, "Process", WaitingProcess)
    return WaitingProcess


@pytest.mark.slow
def test_a_gpu_is_free_for_times_while_a_process_computes_its_reference(
    engine: ClusterEngine, process: type[WaitingProcess]
) -> None:
    """On a worker with one thread."""
    (address,), (gpu,), client = engine.addresses, engine.gpus, engine._cluster.client
    for session in ("a", "b"):
        client.submit(gpu_session.start, session, gpu, **cpu_options(address)).result()
    reference = client.submit(gpu_session.answer_on_cpu, "a", gpu, {"name": "reference"}, **cpu_options(address))
    wait_for(lambda: process.received == ["reference"])
    times = client.submit(gpu_session.answer_on_gpu, "b", gpu, {"name": "times"}, **gpu_options(address))
    wait_for(lambda: process.received == ["reference", "times"])
    process.released.set()
    assert (reference.result(), times.result()) == ({}, {})


def queued(dask_worker: Worker) -> int:
    """Requests that wait for the GPU of a worker."""
    return len(dask_worker.state.constrained)


def test_the_requests_of_earlier_searches_are_answered_first(
    engine: ClusterEngine, process: type[WaitingProcess]
) -> None:
    (address,), (gpu,), client = engine.addresses, engine.gpus, engine._cluster.client
    client.submit(gpu_session.start, "a", gpu, **cpu_options(address)).result()

    def ask(name: str, priority: int) -> Any:
        options = gpu_options(address, priority=priority)
        return client.submit(gpu_session.answer_on_gpu, "a", gpu, {"name": name}, **options)

    running = ask("running", 0)
    wait_for(lambda: process.received == ["running"])
    waiting = [ask("third search", -2), ask("first search", 0), ask("second search", -1), ask("opening", 1)]
    wait_for(lambda: client.run(queued, workers=[address])[address] == len(waiting))
    process.released.set()
    for future in (running, *waiting):
        future.result()
    assert process.received == ["running", "opening", "first search", "second search", "third search"]
