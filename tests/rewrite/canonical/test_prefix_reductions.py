"""Reductions of the elements up to a result's, or from it on, are scans however they are spelt."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SCANS = [
    ("sum(x[i, k], k, where=k <= j)", "cumsum(x[i, j], j)"),
    ("sum(x[i, k], k, where=k < j)", "cumsum(x[i, j], j, exclusive=true)"),
    ("sum(x[i, k], k, where=j <= k)", "cumsum(x[i, j], j, reverse=true)"),
    ("sum(x[i, k], k, where=k > j)", "cumsum(x[i, j], j, exclusive=true, reverse=true)"),
    ("sum(x[i, k], k, where=k < j + 1)", "cumsum(x[i, j], j)"),
    ("sum(x[i, k], k, where=k >= j + 1)", "cumsum(x[i, j], j, exclusive=true, reverse=true)"),
    ("max(x[k, j] * 2, k, where=k <= i)", "cummax(x[i, j] * 2, i)"),
    ("sum(x[i, k] if k <= j else 0, k) + 1", "cumsum(x[i, j], j) + 1"),
    ("sum(x[i, k], k, where=k <= j and x[i, k] > 0)", "cumsum(x[i, j], j, where=x[i, j] > 0)"),
]
OTHERS = [
    pytest.param("sum(x[i, k] * x[k, j], k, where=k <= j)", id="terms of the result"),
    pytest.param("sum(x[i, k], k, where=k <= j + 3)", id="a distance"),
    pytest.param("sum(x[i, k], k, where=k <= 2 * j)", id="a multiple"),
    pytest.param("sum(x[i, k], k, where=k <= j and k >= j - 40)", id="a window"),
]


def kernel_of(value: str, m: int = 130, n: int = 130):
    text = f"""cugen: 1
kernel: f
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = {value}
"""
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


def families_of(kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


@pytest.mark.parametrize(("value", "scan"), SCANS)
def test_they_have_the_plan_of_a_scan(value, scan):
    made, expected = kernel_of(value, 4000, 4000), kernel_of(scan, 4000, 4000)
    assert families_of(made) == families_of(expected) == ["scan"]
    (launch,), (of_scan,) = made.manifest.launches, expected.manifest.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == (of_scan.grid, of_scan.block, of_scan.shared_bytes)


@pytest.mark.parametrize(("value", "scan"), SCANS)
def test_their_results_are_right(value, scan):
    kernel = kernel_of(value)
    assert families_of(kernel) == ["scan"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.parametrize("value", OTHERS)
def test_others_are_none(value):
    assert "scan" not in families_of(kernel_of(value))


@pytest.mark.parametrize(
    "value",
    [
        "sum(x[i, k], k, where=k <= j) - sum(x[i, k], k, where=k >= j)",
        "sum(exp(x[i, k] - max(x[i, l], l)), k, where=k <= j)",
    ],
)
def test_those_of_several_launches_are_scans_too(value):
    assert "scan" in families_of(kernel_of(value, 400, 4000))
    kernel = kernel_of(value, 13, 1300)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_short_ones_and_those_of_another_extent_are_none():
    assert families_of(kernel_of(SCANS[0][0], 130, 16)) != ["scan"]
