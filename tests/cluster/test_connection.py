"""Which workers of a cluster take what, by their resources."""

from __future__ import annotations

from typing import Any

import pytest

from cugen.cluster.connection import Cluster, Worker, pool_options
from cugen.cluster.local.start import _cpu_workers

GPU = Worker("gpu", True, 2)
PLAIN = Worker("plain", False, 1)
CPU = Worker("cpu", False, 1, has_cpu=True)


class Listed(Cluster):
    """A cluster of these workers."""

    def __init__(self, *workers: Worker) -> None:
        self._all = workers

    def workers(self) -> tuple[Worker, ...]:
        return self._all


@pytest.mark.parametrize(
    ("workers", "compiling", "options"),
    [
        pytest.param((GPU, CPU), (CPU,), {"resources": {"CPU": 1}}, id="only those with the resource"),
        pytest.param((GPU, PLAIN, CPU), (CPU,), {"resources": {"CPU": 1}}, id="not those without it"),
        pytest.param((GPU, PLAIN), (PLAIN,), {"workers": ["plain"], "allow_other_workers": True}, id="preferred"),
        pytest.param((PLAIN,), (PLAIN,), {}, id="without GPU workers"),
        pytest.param((GPU,), (GPU,), {}, id="GPU workers only"),
    ],
)
def test_candidates_are_compiled_by_workers(
    workers: tuple[Worker, ...], compiling: tuple[Worker, ...], options: dict[str, Any]
) -> None:
    cluster = Listed(*workers)
    assert cluster.cpu_workers() == compiling
    assert pool_options(cluster) == {**options, "pure": False}


@pytest.mark.parametrize(("cores", "gpus", "workers"), [(64, 4, 56), (8, 4, 4), (2, 1, 1), (1, 1, 1), (4, 0, 4)])
def test_each_gpu_of_this_machine_has_two_cores_but_half_of_them_compile(cores: int, gpus: int, workers: int) -> None:
    assert _cpu_workers(cores, gpus) == workers


def test_what_workers_have_is_asked_for_only_when_others_are_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the scheduler long where there are many."""
    known, sync = cluster.workers(), cluster.client.sync
    requests: list[dict[str, Any]] = []
    monkeypatch.setattr(cluster.client, "sync", lambda ask, **words: requests.append(words) or sync(ask, **words))
    for others in ((), (), known[:1]):
        monkeypatch.setattr(cluster, "_listed", -1.0)
        monkeypatch.setattr(cluster, "_workers", tuple(worker for worker in known if worker not in others))
        assert cluster.workers() == known
    assert requests == [{}, {}, {}, {"n_workers": -1}]
