"""The chart of the roofline: roofs by unit and by memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cugen.analysis.launches.ceilings import OnChipLevel
from cugen.analysis.launches.facts import Facts
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.machine import device
from cugen.report.charts.roofline import RooflineChart, roofline_chart
from cugen.spec.load import load

TILED = """
cugen: 1
kernel: product
target: sm_80
params: {N: 256}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, pad: 0}}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: tiled, block: {i: 32, j: 8}, step: {k: 32}}
"""


def facts_of(text: str = TILED, name: str = "A100") -> Facts:
    (launch,) = analyze(generate(load(text)), device=name).kernels
    return launch.facts


def chart_of(text: str = TILED, name: str = "A100") -> RooflineChart:
    chart = roofline_chart(facts_of(text, name), device(name))
    assert chart is not None
    return chart


def level(facts: Facts, name: str) -> OnChipLevel:
    assert facts.roofline is not None
    (known,) = (known for known in facts.roofline.levels if known.name == name)
    return known


def test_each_memory_with_a_figure_has_a_slope() -> None:
    assert [slope.label for slope in chart_of().slopes] == [
        "device memory, 2.04 TB/s",
        "L2, 7.22 TB/s",
        "shared memory, 19.5 TB/s",
    ]


def test_a_device_without_a_published_figure_has_no_roof_of_l2() -> None:
    labels = [slope.label.partition(",")[0] for slope in chart_of(TILED.replace("sm_80", "sm_90"), "H200").slopes]
    assert labels == ["device memory", "shared memory"]


def test_a_launch_without_shared_memory_has_no_roof_of_it() -> None:
    text = TILED.partition("schedule:")[0].replace(", memory: {space: shared, pad: 0}", "")
    text += "schedule: {family: direct}"
    assert [slope.label.partition(",")[0] for slope in chart_of(text).slopes] == ["device memory", "L2"]


def test_slopes_are_parallel_and_a_faster_memory_is_further_left() -> None:
    slopes = chart_of().slopes
    for slower, faster in pairwise(slopes):
        assert faster.x2 < slower.x2
        assert faster.angle == pytest.approx(slower.angle, abs=0.5)


def test_points_are_on_their_slope_or_a_roof() -> None:
    chart = chart_of()
    slopes = {"L2": chart.slopes[1], "shared memory": chart.slopes[2]}
    (used,) = (roof for roof in chart.roofs if roof.kind == "used")
    for point in chart.points:
        slope = slopes.get(point.level, chart.slopes[0])
        along = slope.y1 + (point.x - slope.x1) * (slope.y2 - slope.y1) / (slope.x2 - slope.x1)
        assert point.y == pytest.approx(max(along, used.y), abs=0.3)


def test_bank_conflicts_count_as_traffic_of_shared_memory() -> None:
    conflicting, padded = (
        level(facts_of(text), "shared memory").ceiling for text in (TILED, TILED.replace("pad: 0", "pad: 8"))
    )
    assert conflicting.memory_bytes > padded.memory_bytes
    assert conflicting.intensity < padded.intensity


def test_the_traffic_of_shared_memory_is_that_of_its_wavefronts() -> None:
    (launch,) = analyze(generate(load(TILED)), device="A100").kernels
    wavefronts = sum(
        report.totals.wavefronts for report in launch.accesses if report.space == "shared" and report.totals
    )
    known = level(launch.facts, "shared memory")
    assert known.is_complete
    assert known.ceiling.memory_bytes == 128 * wavefronts


ELEMENTWISE = """
cugen: 1
kernel: scaled
target: sm_90
params: {N: 1000}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: y[i] = (x[i] + 1) / 3
"""


def test_equal_rates_have_one_roof_with_all_units() -> None:
    """The peak of a mix of operations is a quotient, whose last digits may differ from the rate of the device."""
    roofs = chart_of(ELEMENTWISE, "H200").roofs
    assert [roof.label for roof in roofs if roof.kind == "used"] == [
        "66.9 TFLOP/s, CUDA cores (float32), tensor cores (float64)"
    ]
    assert len({roof.y for roof in roofs}) == len(roofs)


def test_the_label_of_a_slope_is_at_its_end_where_the_points_are_at_its_start() -> None:
    (slope,) = chart_of(ELEMENTWISE, "H200").slopes
    assert slope.at_end
    assert not chart_of().slopes[0].at_end
