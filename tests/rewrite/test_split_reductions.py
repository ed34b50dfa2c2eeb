"""Reductions of chunks, where one thread per result would leave the device idle."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

PAIRS = """
params: {N: 70, M: 3001}
arrays:
  x: {shape: [N], dtype: float32}
  z: {shape: [M], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: "y[i] = VALUE"
"""
HISTOGRAM = """
params: {N: 5003}
indices: {b: 256}
arrays:
  x: {shape: [N], dtype: uint8}
  y: {shape: [256], dtype: int32}
compute: "y[b] = sum(1 if x[n] == b else 0, n)"
"""
CLASSES = """
params: {N: 3, C: 5, H: 200, W: 301}
arrays:
  p: {shape: [N, C, H, W], dtype: float32}
  t: {shape: [N, H, W], dtype: int32}
  y: {shape: [C], dtype: float32}
compute: "y[c] = sum(p[n, c, i, j], n, i, j) / (sum(1.0 if t[n, i, j] == c else 0.0, n, i, j) + 1)"
"""
PAIR_VALUES = {
    "sum": "sum(exp(-(x[i] - z[j]) ** 2), j)",
    "sum with a condition": "sum(x[i] * abs(z[j] - x[i]), j, where=i != j)",
    "maximum": "max(abs(x[i] - z[j]), j)",
    "mean": "mean(abs(x[i] - z[j]), j)",
    "argmin": "cast(argmin(abs(x[i] - z[j]), j), float32)",
}


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: parts{text}")
    return generate(spec, analysis=False)


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(6)
@pytest.mark.parametrize("value", PAIR_VALUES.values(), ids=PAIR_VALUES.keys())
def test_few_results_of_long_sums_over_shared_elements_are_computed_in_parts(value: str) -> None:
    kernel = kernel_of(PAIRS.replace("VALUE", value))
    assert len(kernel.plan.kernels) > 1
    assert passes(kernel)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [HISTOGRAM, CLASSES], ids=["histogram", "classes"])
def test_other_sums_that_no_family_takes_are_computed_in_parts(text: str) -> None:
    kernel = kernel_of(text)
    assert len(kernel.plan.kernels) > 1
    assert passes(kernel)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", [("M: 3001", "M: 1000"), ("N: 70", "N: 200000")], ids=["short sums", "many results"])
def test_short_sums_and_many_results_stay_whole(change: tuple[str, str]) -> None:
    kernel = kernel_of(PAIRS.replace("VALUE", PAIR_VALUES["sum"]).replace(*change))
    assert [planned.family for planned in kernel.plan.kernels] == ["staged"]


def test_a_schedule_keeps_the_sum_whole() -> None:
    text = PAIRS.replace("VALUE", PAIR_VALUES["sum"])
    assert len(kernel_of(f"{text}schedule: {{family: direct}}\n").plan.kernels) == 1
