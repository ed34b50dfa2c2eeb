"""Statements with several reductions: all but one are stored where a GEMM then takes that one."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "families"),
    [(GATED, ["gemm", "gemm"]), (COSINE, ["reduce", "reduce", "gemm"])],
    ids=["two sums of the output's size", "norms of rows"],
)
def test_a_gemm_takes_one_sum_and_reads_the_others(text: str, families: list[str]) -> None:
    kernel = kernel_of(text)
    assert families_of(kernel) == families
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_short_sums_of_the_output_s_size_are_not_worth_a_store() -> None:
    assert families_of(kernel_of(GATED.replace("K: 300", "K: 8"))) == ["tiled"]


def test_a_schedule_keeps_the_statement_whole() -> None:
    assert families_of(kernel_of(f"{GATED}schedule: {{family: gemm}}\n")) == ["gemm"]
    assert families_of(kernel_of(f"{COSINE}schedule: {{family: direct}}\n")) == ["direct"]
