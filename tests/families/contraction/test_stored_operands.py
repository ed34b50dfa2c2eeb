"""Contractions over stored operands: they are computed once, by launches of their own."""

from __future__ import annotations

import pytest


def stored_by_launches(kernel) -> list[str]:
    return [text.split(" = ")[0] for launch in kernel.plan.kernels for text in launch.computes]


SCALED = """
params: {{M: 96, N: 130, K: {k}}}
arrays:
  a: {{shape: [M, K], dtype: float32}}
  scale: {{shape: [M, (K + 31) // 32], dtype: float32}}
  b: {{shape: [K, N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: |
{compute}
"""
SPELLINGS = {
    "inline": "  y[m, n] = sum(a[m, k] * scale[m, k // 32] * b[k, n], k)",
    "reordered": "  y[m, n] = sum(b[k, n] * a[m, k] * scale[m, k // 32], k)",
    "temporary": "  t[m, k] = a[m, k] * scale[m, k // 32]\n  y[m, n] = sum(t[m, k] * b[k, n], k)",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_computed_operand_is_stored_however_it_is_spelt(made, prove, spelling):
    spec = SCALED.format(k=260, compute=SPELLINGS[spelling])
    kernel = made(spec)
    assert stored_by_launches(kernel) == ["a_operand[m, k]", "y[m, n]"]
    assert kernel.plan.kernels[1].family in ("tiled", "gemm")
    prove(spec)


@pytest.mark.slow
def test_a_computed_operand_is_stored_in_its_compute_type(made, prove):
    spec = SCALED.format(k=260, compute=SPELLINGS["inline"]).replace("float32", "float16")
    kernel = made(spec)
    (stored,) = (array for array in kernel.plan.workspace if array.name == "a_operand")
    assert stored.dtype.name == "float32"
    prove(spec)


COMPUTED = """
params: {{M: 67, N: 97, K: 331}}
arrays:
  a: {{shape: [K, M], dtype: float32}}
  b: {{shape: [K, N], dtype: float32}}
  s: {{shape: [N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: |
  m[i] = mean(a[k, i], k)
  y[i, j] = {value} * s[j]
"""
VALUES = (
    "sum((a[k, i] - m[i]) * (b[k, j] * s[j]), k)",
    "sum(-(exp(a[k, i] - m[i]) * b[k, j]) / s[j], k)",
    "sum((a[k, i] - m[i]) ** 2 * b[k, j] / 8, k)",
    "sum((a[k, i] if a[k, i] > m[i] else 1.0) * (k + 1) * b[k, j], k)",
    "sum((a[k, i] - m[i]) * b[k, j], k, where=k <= i)",
    "sum(0.0 if k > i else (a[k, i] - m[i]) * b[k, j], k)",
    "(sum((a[k, i] - m[i]) * b[k, j], k) if i > 3 else 1.0)",
)
COVARIANCE = """
params: {{N: {rows}, D: 67}}
arrays:
  x: {{shape: [N, D], dtype: {dtype}}}
  y: {{shape: [D, D], dtype: float32}}
compute: |
  m[i] = mean(x[n, i], n)
  y[i, j] = sum((x[n, i] - m[i]) * (x[n, j] - m[j]), n) / (N - 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_computed_operands_give_the_results_of_the_sum(made, prove, value):
    spec = COMPUTED.format(value=value)
    assert any("_operand[" in stored for stored in stored_by_launches(made(spec)))
    prove(spec)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_covariance_is_a_product_of_one_stored_matrix(made, prove, dtype):
    spec = COVARIANCE.format(rows=501, dtype=dtype)
    assert stored_by_launches(made(spec))[-2:] == ["x_operand[n, i]", "y[i, j]"]
    prove(spec)


@pytest.mark.slow
def test_a_covariance_of_any_number_of_rows(prove):
    spec = COVARIANCE.format(rows="{range: [2, 100000]}", dtype="float32")
    prove(spec, {"N": 131})
