"""One function over many items on a cluster, and what becomes of errors."""

from __future__ import annotations

from operator import neg
from time import monotonic, sleep

import pytest

from cugen.cluster import mapping
from cugen.cluster.connection import Cluster, connected
from cugen.cluster.errors import ClusterError
from cugen.toolchain.errors import ToolMissing

from .conftest import start_cluster


def missing(item: int) -> int:
    raise ToolMissing(f"tool {item}", "get it")


def test_results_are_in_order(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "_ITEMS_AHEAD", 4)
    assert list(mapping.mapped(cluster, neg, range(25))) == [-item for item in range(25)]
    assert list(mapping.mapped(cluster, neg, [])) == []


def test_the_scheduler_forgets_results_that_were_taken(cluster: Cluster) -> None:
    results = mapping.mapped(cluster, neg, range(10))
    assert [next(results) for _ in range(10)][-1] == -9
    results.close()
    deadline = monotonic() + 60
    while cluster.client.futures and monotonic() < deadline:  # its loop is another thread
        sleep(0.01)
    assert not cluster.client.futures


def test_errors_of_workers_are_those_of_this_machine(cluster: Cluster) -> None:
    with pytest.raises(ToolMissing, match=r"CG4002\]: tool 0 was not found"):
        list(mapping.mapped(cluster, missing, range(3)))


def negative(item: int) -> int:
    return -item if item != 3 else missing(item)


def test_results_before_an_error_come_first(cluster: Cluster) -> None:
    results = mapping.mapped(cluster, negative, range(6))
    assert [next(results) for _ in range(3)] == [0, -1, -2]
    with pytest.raises(ToolMissing, match="tool 3"):
        next(results)


def test_results_that_are_there_are_taken_together(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int] = []
    gather = cluster.client.gather
    monkeypatch.setattr(cluster.client, "gather", lambda futures: requests.append(len(futures)) or gather(futures))
    results = mapping.mapped(cluster, neg, range(50))
    assert next(results) == 0
    deadline = monotonic() + 60
    while any(state.status != "finished" for state in cluster.client.futures.values()) and monotonic() < deadline:
        sleep(0.01)
    assert list(results) == [-item for item in range(1, 50)]
    assert len(requests) <= 3  # what was there at first, the rest, and one between them


def test_a_scheduler_that_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "_finished", lambda futures: [])  # nothing is taken before its turn comes
    started = start_cluster("cpu-0")
    with connected(started.scheduler_address) as connection:
        results = mapping.mapped(connection, neg, range(10))
        assert next(results) == 0
        started.close()
        with pytest.raises(ClusterError, match=r"CG4006\]: the scheduler tcp://\S+ was lost"):
            list(mapping.mapped(connection, neg, range(10)))
