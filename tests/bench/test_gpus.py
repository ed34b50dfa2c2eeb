"""One kernel on several GPUs: each is compared with the others of its model."""

from __future__ import annotations

from typing import Any

from cugen.bench.gpus import with_medians


def result(device: str, cold: float | None) -> dict[str, Any]:
    rows = [{"name": "copy", "median_us": 1.0}, {"name": "cugen", "median_us": cold}]
    return {"device": device, "regimes": {} if cold is None else {"cold": rows}}


def test_a_time_is_compared_with_the_median_of_its_model() -> None:
    contents = [result("H100", 10.0), result("H100", 11.0), result("H100", 12.1), result("A100", 30.0)]
    assert [round(c["to_median"], 3) for c in with_medians(contents)] == [0.909, 1.0, 1.1, 1.0]


def test_a_wrong_kernel_has_no_time() -> None:
    assert [c["to_median"] for c in with_medians([result("H100", None), result("H100", 12.0)])] == [None, 1.0]
