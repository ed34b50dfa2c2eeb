"""Tasks for CPU workers: which come first, and what becomes of their results, errors and deaths."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from operator import neg
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import KilledWorker, Worker

from cugen.cluster import preparing
from cugen.cluster.connection import Cluster
from cugen.cluster.preparing import CpuTasks, Pool
from cugen.tune.timing.prepare import Dropped

DEADLINE_S = 30.0
RELEASED = threading.Event()
BEGUN: list[str] = []


def waiting(name: str) -> str:
    """Runs on a worker, which is in this process."""
    BEGUN.append(name)
    assert RELEASED.wait(DEADLINE_S)
    return name


@pytest.fixture
def tasks(cluster: Cluster) -> CpuTasks:
    RELEASED.clear()
    BEGUN.clear()
    return CpuTasks(cluster)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_urgent_comes_before_what_was_asked_for_earlier(tasks: CpuTasks) -> None:
    """One worker: it has a task and the next one, and the others wait."""
    names = {"first": 0, "second": 0, "third search": -2, "second search": -1, "first search": 0}
    results = [tasks.submit(priority, partial(waiting, name)) for name, priority in names.items()]
    wait_for(lambda: BEGUN == ["first"])
    RELEASED.set()
    assert [result.result(DEADLINE_S) for result in results] == list(names)
    assert BEGUN == ["first", "second", "first search", "second search", "third search"]


def test_results_that_are_there_are_taken_together(
    tasks: CpuTasks, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first ones are taken, all others end."""
    monkeypatch.setattr(preparing, "_SENT_PER_THREAD", 50)
    taken: list[int] = []
    gather, submitted = cluster.client.gather, threading.Event()

    def gather_late(futures: list[Any]) -> Any:
        taken.append(len(futures))
        assert submitted.wait(DEADLINE_S)
        wait_for(lambda: all(state.status == "finished" for state in [*cluster.client.futures.values()]))
        return gather(futures)

    monkeypatch.setattr(cluster.client, "gather", gather_late)
    results = [tasks.submit(0, partial(neg, number)) for number in range(40)]
    submitted.set()
    assert [result.result(DEADLINE_S) for result in results] == [-number for number in range(40)]
    assert sum(taken) == 40
    assert len(taken) <= 2


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [ValueError("surprise"), PermissionError(13, "denied")], ids=["value", "file"])
def test_errors_of_workers_are_those_of_this_machine(tasks: CpuTasks, error: Exception) -> None:
    result = tasks.submit(0, partial(fail, error))
    with pytest.raises(type(error), match=str(error.args[-1])):
        result.result(DEADLINE_S)


def test_a_task_at_which_workers_die_gives_a_dropped_candidate(tasks: CpuTasks) -> None:
    lost = KilledWorker("task", SimpleNamespace(address="tcp://10.0.0.1:1"), 4)
    assert tasks.submit(0, partial(fail, lost)).result(DEADLINE_S) == Dropped("workers died while they prepared it")


def known(dask_worker: Worker) -> int:
    """Tasks that a worker knows."""
    return len(dask_worker.state.tasks)


def test_a_search_that_ends_takes_back_what_it_has_asked_for(tasks: CpuTasks, cluster: Cluster) -> None:
    pool = Pool(tasks, 0)
    results: list[Future[Any]] = [pool.submit(waiting, name) for name in ("running", "sent", "waiting")]
    (worker,) = cluster.cpu_workers()

    def are_known(count: int) -> bool:
        return cluster.client.run(known, workers=[worker.address]) == {worker.address: count}

    wait_for(lambda: BEGUN == ["running"] and are_known(2))
    pool.shutdown(wait=False, cancel_futures=True)
    wait_for(lambda: are_known(1))
    RELEASED.set()
    for result in results:
        with pytest.raises(CancelledError):
            result.result(DEADLINE_S)
    assert tasks.submit(0, os.getpid).result(DEADLINE_S) == os.getpid()
    assert BEGUN == ["running"]
