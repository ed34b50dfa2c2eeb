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
    ("sum(x[i, k], k, where=k <= j - 3)", "cumsum(x[i, j - 3], j, where=j >= 3)"),
    (
        "sum(x[i, k], k, where=k + 3 > j)",
        "cumsum(x[i, j - 2], j, reverse=true, where=j >= 2) + x[i, N - 2] + x[i, N - 1]",
    ),
    ("max(x[i, k], k, where=k < j + 2)", "maximum(x[i, 0], cummax(x[i, j + 1], j, where=j + 1 < N))"),
    ("max(where(k <= j, x[i, k], -inf), k)", "cummax(x[i, j], j)"),
    ("prod(1 if k > j else x[i, k], k)", "cumprod(x[i, j], j)"),
    ("cast(any(x[i, k] > 1, k, where=k <= j), float32)", "cast(cummax(cast(x[i, j] > 1, int32), j) > 0, float32)"),
    ("cast(any(k <= j and x[i, k] > 1, k), float32)", "cast(cummax(cast(x[i, j] > 1, int32), j) > 0, float32)"),
    ("cast(all(k > j or x[i, k] < 1, k), float32)", "cast(cummin(cast(x[i, j] < 1, int32), j) > 0, float32)"),
]
OF_INTEGERS = [
    ("sum(x[k, j] * (k <= i), k)", "cumsum(x[i, j], i)"),
    ("sum((i >= k) * x[k, j] * 2, k)", "cumsum(x[i, j], i) * 2"),
    ("sum(where(k <= j, 2, 0) * x[i, k], k)", "cumsum(2 * x[i, j], j)"),
]
OTHERS = [
    pytest.param("sum(x[i, k] * x[k, j], k, where=k <= j)", id="terms of the result"),
    pytest.param("sum(x[i, k] * (x[i, k] > 0), k)", id="a mask of elements"),
    pytest.param("max(x[i, k] * (k <= j), k)", id="zeros that count"),
    pytest.param("sum(x[i, k] * (k <= j), k)", id="a factor that makes infinite terms NaN"),
    pytest.param("sum(x[i, k], k, where=k <= 2 * j)", id="a multiple"),
    pytest.param("sum(x[i, k], k, where=k <= j and k >= j - 40)", id="a window"),
]


def kernel_of(value: str, m: int = 130, n: int = 130, dtype: str = "float32"):
    text = f"""cugen: 1
kernel: f
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}}}
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


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("value", "scan"), SCANS)
def test_their_results_are_right(value, scan):
    kernel = kernel_of(value)
    assert families_of(kernel) == ["scan"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "scan"), OF_INTEGERS)
def test_masks_that_are_factors_of_integers_are_conditions(value, scan):
    assert families_of(kernel_of(value, dtype="int32")) == families_of(kernel_of(scan, dtype="int32")) == ["scan"]
    kernel = kernel_of(value, dtype="int32")
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.parametrize("value", OTHERS)
def test_others_are_none(value):
    assert "scan" not in families_of(kernel_of(value))


@pytest.mark.sampled(2)
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


LIMITS = [
    "sum(x[i, k], k, where=k <= j - 40)",
    "sum(x[i, k], k, where=k <= j + 40)",
    "min(x[i, k], k, where=k < j - 2000)",
    "sum(where(k >= j + 5, x[i, k], 0), k)",
    "sum(x[i, k], k, where=k > j - 7 and x[i, k] > 0)",
    "cast(any(x[i, k] > 1, k, where=k < j + 3), float32)",
    "cast(all(x[i, k] > -1, k, where=k >= j - 40), float32)",
]


def kernel_of_extents(value: str, params: str):
    text = f"""cugen: 1
kernel: f
params: {params}
arrays:
  x: {{shape: [M, K], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = {value}
"""
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


@pytest.mark.parametrize("value", LIMITS)
def test_limits_at_a_distance_are_scans(value):
    assert families_of(kernel_of_extents(value, "{M: 4096, N: 1024, K: 1024}"))[-1] == "scan"


@pytest.mark.sampled(15)
@pytest.mark.parametrize("value", LIMITS)
@pytest.mark.parametrize(("k", "n"), [(131, 131), (131, 132), (37, 131), (131, 37)])
def test_limits_at_a_distance_and_beyond_the_elements_are_right(value, k, n):
    kernel = kernel_of_extents(value, f"{{M: 3, N: {n}, K: {k}}}")
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.sampled(4)
@pytest.mark.parametrize("value", LIMITS)
def test_limits_at_a_distance_are_right_for_any_size_at_launch(value):
    kernel = kernel_of_extents(value, "{M: dynamic, N: dynamic, K: dynamic}")
    assert "scan" in families_of(kernel)
    for k, n in [(1, 1), (1, 67), (41, 1), (37, 41), (131, 127)]:
        params, device = {"M": 3, "K": k, "N": n}, CpuDevice(sanitize=True)
        assert verify(kernel.spec, kernel.source, kernel.manifest, device, params=params).verification.passed


def test_offsets_of_one_more_element_than_counts_are_a_scan():
    kernel = kernel_of_extents("sum(x[i, k], k, where=k < j)", "{M: 400, N: 4001, K: 4000}")
    assert families_of(kernel) == ["scan"]


def test_short_ones_and_those_of_another_extent_are_none():
    assert families_of(kernel_of(SCANS[0][0], 130, 16)) != ["scan"]
