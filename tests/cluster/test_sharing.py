"""Which search has which GPU, without GPUs: none is idle while a search waits for it, and none has two owners."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.cluster.errors import ClusterError
from cugen.cluster.sharing import Share, SharedEngine
from cugen.tune.timing.gpus import Gpu


def shared(gpus: int, searches: int) -> SharedEngine:
    devices = tuple(Gpu("NVIDIA H200", "sm_90", f"GPU-{n}") for n in range(gpus))
    engine = SimpleNamespace(gpus=devices, jobs=60, require=lambda: None)
    return SharedEngine(cast(Any, engine), searches)


def assigned(engine: SharedEngine) -> list[list[str]]:
    return [[gpu.uuid[-1] for gpu in share.assigned] for share in engine.shares]


def announced(engine: SharedEngine) -> list[list[str]]:
    return [[gpu.uuid[-1] for gpu in share.announced] for share in engine.shares]


def test_the_first_searches_have_a_gpu_each_and_the_next_know_theirs() -> None:
    engine = shared(2, 7)
    assert assigned(engine) == [["0"], ["1"], [], [], [], [], []]
    assert announced(engine)[2:] == [["0"], ["1"], ["0"], ["1"], []]


def test_who_has_opened_its_process_on_a_gpu_has_it_next() -> None:
    engine = shared(2, 7)
    engine.shares[1].release()
    assert assigned(engine)[2:] == [[], ["1"], [], [], []]
    assert announced(engine)[2:] == [["0"], ["1"], ["0"], ["1"], ["1"]]


def test_at_the_end_free_gpus_help_those_that_time() -> None:
    engine = shared(3, 3)
    engine.shares[0].release()
    engine.shares[2].release()
    assert assigned(engine)[1] == ["1", "0", "2"]
    assert engine.shares[1].jobs == 60


def test_one_search_has_all_gpus_and_all_workers() -> None:
    engine = shared(4, 1)
    assert assigned(engine) == [["0", "1", "2", "3"]]
    assert engine.shares[0].jobs == 60
    assert [share.jobs for share in shared(4, 9).shares] == [15] * 9


def test_the_second_gpu_of_the_finals_is_not_the_same_for_all() -> None:
    assert [[gpu.uuid[-1] for gpu in share.gpus][:2] for share in shared(3, 3).shares] == [
        ["0", "1"],
        ["1", "2"],
        ["2", "0"],
    ]


def test_a_refused_gpu_goes_to_another_search_and_the_search_gets_another_gpu() -> None:
    engine = shared(2, 3)
    changes = []
    engine.shares[0].subscribe(lambda: changes.append(assigned(engine)))
    engine.shares[0].refuse(engine.engine.gpus[0])
    assert assigned(engine) == [[], ["1"], ["0"]]
    engine.shares[1].release()
    assert assigned(engine)[0] == ["1"]
    assert changes[-1][0] == ["1"]


def test_searches_that_are_stopped_end() -> None:
    engine = shared(1, 2)
    for share in engine.shares:
        share.require()
    engine.stop()
    for share in engine.shares:
        with pytest.raises(ClusterError, match="stopped"):
            share.require()


def test_searches_that_lose_the_scheduler_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise ClusterError("the scheduler was lost", "start it")

    engine = shared(1, 2)
    monkeypatch.setattr(engine.engine, "require", lost)
    for share in engine.shares:
        with pytest.raises(ClusterError, match="lost"):
            share.require()


@given(st.integers(1, 5), st.integers(1, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=30))
def test_no_gpu_has_two_owners_and_none_is_idle_while_a_search_would_have_it(
    gpus: int, searches: int, steps: Sequence[tuple[int, int]]
) -> None:
    """Each step ends a search, or has it refuse a GPU."""
    engine = shared(gpus, searches)
    for number, gpu in steps:
        share = engine.shares[number % searches]
        if gpu < gpus:
            share.refuse(engine.engine.gpus[gpu])
        else:
            share.release()
        searching: list[Share] = [share for share in engine.shares if share.is_searching]
        owned = [gpu for share in searching for gpu in share.assigned]
        assert len(owned) == len(set(owned))
        assert not any(share.refused & {*share.assigned, *share.announced} for share in searching)
        for free in set(engine.engine.gpus) - set(owned):
            assert all(free in share.refused for share in searching)
