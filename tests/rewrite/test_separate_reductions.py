"""Statements with several reductions: all but one are stored where a GEMM then takes that one."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from cugen.families.gemm.tiled import family as tiled
from cugen.kernel import Kernel, generate
from cugen.rewrite import separate_reductions
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

GATED = """
params: {M: 130, N: 140, K: 300}
arrays:
  a: {shape: [M, K], dtype: float32}
  b: {shape: [K, N], dtype: float32}
  c: {shape: [K, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = silu(sum(a[m, k] * b[k, n], k)) * sum(a[m, k] * c[k, n], k)
"""
COSINE = """
params: {M: 130, N: 140, K: 300}
arrays:
  a: {shape: [M, K], dtype: float32}
  b: {shape: [N, K], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = sum(a[m, k] * b[n, k], k) / (norm(a[m, k], k) * norm(b[n, k], k) + 1e-6)
"""


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: separated{text}")
    return generate(spec, analysis=False)


def families_of(kernel: Kernel) -> list[str]:
    return [planned.family for planned in kernel.plan.kernels]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "families"),
    [(GATED, ["gemm", "gemm"]), (COSINE, ["reduce", "reduce", "gemm"])],
    ids=["two sums of the output's size", "norms of rows"],
)
def test_a_gemm_takes_one_sum_and_reads_the_others(text: str, families: list[str]) -> None:
    kernel = kernel_of(text)
    assert families_of(kernel) == families
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


EDGES = """
target: sm_90a
params: {E: 16000, V: 300, F: 64, G: 72}
arrays:
  s: {shape: [E], dtype: int32}
  t: {shape: [E], dtype: int32}
  x: {shape: [V, F], dtype: float16}
  w: {shape: [G, 2, F], dtype: float16}
  y: {shape: [E, G], dtype: float16}
compute: y[e, g] = relu(sum(x[s[e], f] * w[g, 0, f] + x[t[e], f] * w[g, 1, f], f))
"""


@pytest.mark.slow
def test_products_of_gathered_rows_are_gemms_of_copies() -> None:
    """As of the two ends of an edge."""
    kernel = kernel_of(EDGES)
    assert families_of(kernel).count("wgmma") == 2
    assert set(families_of(kernel)) <= {"map", "transpose", "wgmma"}
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_short_sums_of_the_output_s_size_are_not_worth_a_store() -> None:
    assert families_of(kernel_of(GATED.replace("K: 300", "K: 8"))) == ["tiled"]


def test_a_schedule_keeps_the_statement_whole() -> None:
    assert families_of(kernel_of(f"{GATED}schedule: {{family: gemm}}\n")) == ["gemm"]
    assert families_of(kernel_of(f"{COSINE}schedule: {{family: direct}}\n")) == ["direct"]


COMPLEX = """
params: {M: %s, N: %s, K: %s}
arrays:
  a: {shape: [M, K, 2], dtype: %s}
  b: {shape: [%s, 2], dtype: %s}
  y: {shape: [M, N, 2], dtype: float32}
compute: |
  y[m, n, 0] = sum(a[m, k, 0] * b[%s, 0] - a[m, k, 1] * b[%s, 1], k)
  y[m, n, 1] = sum(a[m, k, 0] * b[%s, 1] + a[m, k, 1] * b[%s, 0], k)
"""


def complex_product(m: int, n: int, k: int, dtype: str, b: str = "k, n") -> str:
    return COMPLEX % (m, n, k, dtype, b.upper(), dtype, b, b, b, b)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("b", ["k, n", "n, k"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tensor_cores_multiply_the_products_of_complex_numbers(dtype: str, b: str) -> None:
    """Both statements are split, though they write one array."""
    families = families_of(kernel_of(complex_product(512, 512, 512, dtype, b)))
    assert families.count("gemm") == 4
    assert "tiled" not in families


@pytest.mark.slow
def test_a_long_sum_of_products_for_few_outputs_is_divided_between_blocks() -> None:
    kernel = kernel_of(complex_product(100, 100, 16384, "float32"))
    assert "tiled" not in families_of(kernel)
    static = kernel.plan.context.static
    assert max(prod(static(extent) or 0 for extent in launch.grid) for launch in kernel.plan.kernels) >= 16


def test_long_complex_products_that_fill_the_device_are_a_gemm_each() -> None:
    assert families_of(kernel_of(complex_product(1024, 1024, 256, "float32"))) == ["gemm"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k", "dtype"), [(512, 512, 512, "float32"), (64, 64, 64, "float16")])
def test_other_complex_products_are_summed_in_one_loop(m: int, n: int, k: int, dtype: str) -> None:
    assert set(families_of(kernel_of(complex_product(m, n, k, dtype)))) == {"tiled"}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("value", ["{0} - {1}", "{0} + {1} - {2}", "-{0} - {1}", "2 * ({0} + {1}) - {2}"])
def test_separate_products_give_the_results_of_their_sum(monkeypatch, value: str, dtype: str) -> None:
    monkeypatch.setattr(separate_reductions, "_MIN_MULTIPLY_ADDS", 1)
    monkeypatch.setattr(tiled, "MIN_SPLIT_TERMS", 1)
    terms = value.format("a[m, k, 0] * b[k, n, 0]", "a[m, k, 1] * b[k, n, 1]", "a[m, k, 1] * b[k, n, 0]")
    kernel = kernel_of(
        f"\nparams: {{M: 72, N: 88, K: 136}}\narrays:\n  a: {{shape: [M, K, 2], dtype: {dtype}}}\n"
        f"  b: {{shape: [K, N, 2], dtype: {dtype}}}\n  y: {{shape: [M, N], dtype: float32}}\n"
        f"compute: y[m, n] = abs(sum({terms}, k))\n"
    )
    assert len(families_of(kernel)) > 1
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


OTHER_TERMS = """
target: sm_90a
params: {M: %s, N: %s, K: %s}
arrays:
  a: {shape: [M, K], dtype: %s}
  b: {shape: [K, N], dtype: %s}
  bias: {shape: [N], dtype: float32}
  v: {shape: [K], dtype: float32, boundary: zero}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = sum(a[m, k] * b[k, n] %s, k) + bias[n] + v[0]
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("terms", "families"),
    [
        ("+ bias[n] / K", ["wgmma"]),
        ("- 0.5", ["wgmma"]),
        ("- bias[n] / K + v[k] + 1", ["reduce", "wgmma"]),
        ("- a[m, k] * bias[n]", ["reduce", "wgmma"]),
        ("+ v[k] - v[k] ** 2 + bias[n] * v[k]", ["reduce", "wgmma"]),
    ],
)
def test_other_terms_of_a_sum_of_products_are_summed_apart(terms: str, families: list[str]) -> None:
    sizes = (1024, 2048, 4096, "float16", "float16")
    assert families_of(kernel_of(OTHER_TERMS % (*sizes, terms))) == families


@pytest.mark.sampled(8)
@pytest.mark.parametrize("terms", ["+ bias[n] / K - v[k]", "- 2.5 * bias[n] - a[m, k] + v[k] * b[k, n]"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("k", ["33", "dynamic"])
def test_other_terms_give_the_results_of_their_sum(monkeypatch, terms: str, dtype: str, k: str) -> None:
    monkeypatch.setattr(separate_reductions, "_MIN_MULTIPLY_ADDS", 1)
    kernel = kernel_of(OTHER_TERMS % (40, 72, k, dtype, dtype, terms))
    assert families_of(kernel)[-1] in ("gemm", "tiled", "wgmma")
    for length in (33,) if k == "33" else (0, 1, 64):
        params = {"K": length} if k == "dynamic" else {}
        assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), params=params).verification.passed


def test_terms_that_cancel_have_the_bound_of_their_sums(monkeypatch) -> None:
    """Each product less its number is nearly 0, the sums of either are not."""
    monkeypatch.setattr(separate_reductions, "_MIN_MULTIPLY_ADDS", 1)
    kernel = kernel_of(OTHER_TERMS % (16, 16, 4096, "float32", "float32", "- bias[n]"))
    ones, numbers = np.ones((16, 4096), np.float32), np.full((4096, 16), 3.3, np.float32)
    inputs = Inputs({"a": ones, "b": numbers, "bias": numbers[0], "v": np.zeros(4096, np.float32)}, {})
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), inputs=inputs).verification.passed
