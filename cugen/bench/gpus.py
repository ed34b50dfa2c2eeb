"""One kernel on several GPUs: how each compares with the others of its model."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from cugen.bench.measure import OURS, Content


def with_medians(contents: Sequence[Content]) -> list[Content]:
    """The results of one kernel, each with `to_median`: its cold time over the median of the GPUs of its model; None
    for a kernel with wrong results."""
    times = [_cold_us(content) for content in contents]
    result = []
    for content, time in zip(contents, times, strict=True):
        model = content["device"]
        of_model = [t for c, t in zip(contents, times, strict=True) if t is not None and c["device"] == model]
        result.append({**content, "to_median": time / median(of_model) if time is not None else None})
    return result


def _cold_us(content: Content) -> float | None:
    rows: Sequence[dict[str, Any]] = content["regimes"].get("cold", ())
    return next((float(row["median_us"]) for row in rows if row["name"] == OURS), None)
