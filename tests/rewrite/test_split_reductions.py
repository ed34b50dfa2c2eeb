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


TRIPLES = """
params: {N: SIZE}
arrays:
  x: {shape: [N, N], dtype: TYPE}
  k: {shape: [N], dtype: int32}
  y: {shape: [], dtype: TYPE}
compute: "y = VALUE"
"""
TRIPLE_VALUES = {
    "sum": "sum(abs(x[i, j] - x[j, l] * x[i, l]) + k[i], i, j, l)",
    "sum with a condition": "sum(maximum(x[i, j] - x[i, l], 0), i, j, l, where=i != j and k[i] != k[l])",
    "product": "prod(1 + abs(x[i, j] - x[j, l] - x[i, l]) / 1e6, i, j, l) * k[0]",
    "two of them": "sum(abs(x[i, j] - x[j, l] - x[i, l]), i, j, l) - min(abs(x[i, j] - x[j, l] - k[i]), i, j, l)",
}


def triples(name: str, size: int, dtype: str) -> Kernel:
    return kernel_of(TRIPLES.replace("VALUE", TRIPLE_VALUES[name]).replace("SIZE", str(size)).replace("TYPE", dtype))


@pytest.mark.parametrize("name", TRIPLE_VALUES)
def test_partial_results_of_two_indices_fill_the_device_where_parts_of_one_do_not(name: str) -> None:
    partial = [text for text in triples(name, 500, "float32").plan.kernels[0].computes if "_parts[" in text]
    # Lanes are along an index that is contiguous where it is summed over the other one.
    assert partial
    assert all("_parts[i, l] = " in text or "_parts[j, l] = " in text or "_parts[i, j] = " in text for text in partial)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TRIPLE_VALUES)
def test_results_from_partial_results_of_two_indices_are_right(name: str, dtype: str) -> None:
    kernel = triples(name, 70, dtype)
    assert len(kernel.plan.kernels) > 1
    assert passes(kernel)


MANY_INDICES = """
params: {A: 12, B: 14}
arrays:
  x: {shape: [A, B, A, B], dtype: float32}
  z: {shape: [A, B, A, B], dtype: float32}
  y: {shape: [], dtype: float32}
compute: "y = sum(abs(x[a, b, c, d] - z[c, d, e, f]) * abs(x[e, b, a, f] - x[c, b, e, d]), a, b, c, d, e, f)"
"""


def test_of_short_indices_as_many_are_those_of_partial_results_as_leave_each_enough_terms() -> None:
    (text,) = (text for text in kernel_of(MANY_INDICES).plan.kernels[0].computes if "_parts[" in text)
    assert text.split("]")[0].count(",") == 3
