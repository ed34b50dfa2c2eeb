"""Predicted times of register windows, and the choice between them and an implicit GEMM, against measured ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.families.base import Request
from cugen.families.stencil import family as stencil
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.rewrite.grouping import group_statements
from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from tests.families.contraction.convolutions import Convolution

FITTED = Path(__file__).parents[2] / "data" / "convolutions_h100.json"
HELD_BACK = Path(__file__).parents[3] / "docs" / "results" / "convolutions_h100.json"


def case_of(dtype, last, batch, channels, features, sizes, taps, stride, dilation, is_padded) -> Convolution:
    """A row's `case`, whose fields are those of benchmarks/operators/convolutions.py."""
    rank = len(sizes)
    pads = tuple(dilation * (count - 1) // 2 if is_padded else 0 for count in taps)
    return Convolution(
        tuple(sizes),
        tuple(taps),
        (stride,) * rank,
        (dilation,) * rank,
        pads,
        batch,
        channels,
        features,
        is_last=last,
        weights="ktc" if last else "kct",
        dtype=dtype,
        schedule="",
    )


def rows_of(path: Path) -> list[tuple[Convolution, dict[str, float]]]:
    """The cases that have register windows, with times in microseconds."""
    cases = json.loads(path.read_text())["cases"]
    return [(case_of(*row["case"]), row["cold_us"]) for row in cases if "windows" in row["cold_us"]]


ROWS = rows_of(FITTED)
PICKED = [*ROWS, *(row for row in rows_of(HELD_BACK) if row[0].dtype == "float32")]


def predicted(case: Convolution) -> float | None:
    """Seconds of register windows."""
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{case.text}")
    grouping = group_statements(spec)
    request = Request("k", grouping.groups[0], make_context(spec), Schedule(), target(spec.target), grouping.stored)
    return stencil.predict(request, case.batch * case.features * math.prod(case.outputs))


def test_predictions_are_near_measured_times():
    ratios = [1e6 * seconds / us["windows"] for case, us in ROWS if (seconds := predicted(case)) is not None]
    assert len(ratios) == len(ROWS) == 25
    assert math.exp(sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios)) < 1.3
    assert min(ratios) > 0.3
    assert max(ratios) < 1.8


@pytest.mark.sampled(48)
@pytest.mark.parametrize(("case", "measured_us"), PICKED, ids=[str(number) for number in range(len(PICKED))])
def test_the_pick_is_at_most_a_tenth_slower_than_the_other(made, case, measured_us):
    pick = {"stencil": "windows", "gemm": "gemm"}[made(case.text).plan.kernels[-1].family]
    assert measured_us[pick] < 1.1 * min(measured_us["windows"], measured_us["gemm"])


@pytest.mark.slow
@given(st.integers(16, 200), st.integers(16, 200), st.integers(20, 120))
def test_more_channels_features_or_images_never_take_less_time(channels, features, size):
    case = Convolution((size, size), channels=channels, features=features, schedule="")
    seconds = predicted(case)
    for name in ("channels", "features", "batch"):
        more = predicted(replace(case, **{name: 2 * getattr(case, name)}))
        assert more is not None
        assert more >= seconds, name


def test_what_has_no_register_windows_has_no_prediction():
    assert predicted(Convolution(is_last=True, channels=64, features=64, schedule="")) is None
