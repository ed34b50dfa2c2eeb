"""What workers say of themselves, and which of them fit."""

from __future__ import annotations

import pytest

from cugen.abi.errors import RunError
from cugen.cluster.description import Description, describe, other_versions, unusable_gpu_workers
from cugen.tune.timing import gpus
from cugen.tune.timing.gpus import Gpu
from cugen.version import __version__


def described(*uuids: str) -> Description:
    return Description(__version__, tuple(Gpu("NVIDIA H200", "sm_90", uuid) for uuid in uuids))


def test_a_gpu_worker_sees_one_gpu_that_is_its_own() -> None:
    workers = {
        "a": described("1"),
        "b": described(),
        "c": described("2", "3"),
        "d": described("4"),
        "e": described("4"),
    }
    assert unusable_gpu_workers(workers) == {
        "b": "it sees no GPU",
        "c": "it sees 2 GPUs: start one worker for each, with CUDA_VISIBLE_DEVICES",
        "d": "another worker has 4 too",
        "e": "another worker has 4 too",
    }


def test_versions_must_be_equal() -> None:
    assert other_versions({"a": described(), "b": Description("0.0.1")}) == {"b": "0.0.1"}


def test_a_cpu_worker_does_not_look_for_gpus_and_one_without_a_driver_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "identified_gpus", lambda: (Gpu("NVIDIA H200", "sm_90", "GPU-1"),))
    assert describe(has_gpu=False).gpus == ()
    assert describe(has_gpu=True).gpus[0].uuid == "GPU-1"

    def none() -> None:
        raise RunError("CG5011", "no driver")

    monkeypatch.setattr(gpus, "identified_gpus", none)
    assert describe(has_gpu=True).gpus == ()
    assert describe(has_gpu=True).version == __version__
