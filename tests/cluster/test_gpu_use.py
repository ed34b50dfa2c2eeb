"""The shares of a GPU's time that `benchmarks/cluster/gpu_use.py` reads from a record of tasks."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from tests.benchmarks import benchmark

gpu_use = benchmark("cluster.gpu_use")


def task(key: str, worker: str, start: float, stop: float) -> dict[str, Any]:
    return {"key": key, "worker": worker, "startstops": ({"action": "compute", "start": start, "stop": stop},)}


TASKS = [
    task("prepare-1", "cpu", 0, 30),
    task("answer_on_gpu-timing-1", "gpu", 50, 60),
    task("answer_on_cpu-1", "gpu", 10, 20),
    task("answer_on_gpu-opening-1", "gpu", 20, 25),
    task("answer_on_cpu-2", "gpu", 25, 40),
    task("answer_on_gpu-finals-1", "gpu", 58, 80),
    task("answer_on_gpu-timing-1", "another gpu", 0, 5),
]


def test_the_time_of_a_gpu_is_shared_out_by_what_it_did_and_why_it_waited() -> None:
    (use,) = gpu_use.uses(TASKS, ["gpu"], 0.0, 100.0)
    assert (use.opening, use.timing, use.finals) == pytest.approx((0.05, 0.1, 0.2))
    assert use.busy == pytest.approx(0.35)
    assert use.idle == pytest.approx({"process": 0.25, "candidates": 0.1, "messages": 0.1, "end": 0.2})


def test_the_first_use_and_the_first_time_of_any_gpu() -> None:
    assert gpu_use.first_end(TASKS, 0.0, 100.0) == 5
    assert gpu_use.first_end(TASKS[:-1], 10.0, 100.0) == 15
    assert gpu_use.first_end(TASKS[:-1], 10.0, 100.0, "timing") == 50
    assert gpu_use.first_end([], 0.0, 100.0) == inf
