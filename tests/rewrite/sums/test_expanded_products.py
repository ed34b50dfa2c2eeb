"""Integer products of sums, as of numbers with zero points, are expanded where tensor cores take the products then."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.sums import expanded_products
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SMALL = "M: 133, N: 121, K: 145"


def spec_of(term: str, a: str = "int8", b: str = "int8", sizes: str = "M: 1024, N: 1024, K: 1024", more: str = ""):
    shape = "N, K" if "b[n, k]" in term else "K, N"
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{{sizes}}}
scalars: {{z: {{dtype: int32}}}}
arrays:
  a: {{shape: [M, K], dtype: {a}}}
  b: {{shape: [{shape}], dtype: {b}}}
  p: {{shape: [M], dtype: int32}}
  q: {{shape: [N], dtype: int8}}
  y: {{shape: [M, N], dtype: int64}}
compute: y[m, n] = sum({term}, k) + p[m] * q[n] + z
{more}""")
    return spec


def plan_of(spec):
    return generate(spec, analysis=False).plan


def passes(spec) -> bool:
    kernel = generate(spec, analysis=False)
    return verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


TERMS = [
    ("(a[m, k] - p[m]) * (b[k, n] - q[n])", "int8", "int8", ["reduce", "reduce", "gemm"]),
    ("(a[m, k] - z) * b[n, k]", "uint8", "int8", ["reduce", "gemm"]),
    ("(2 - a[m, k]) * -(b[k, n] + 3 * z) * z", "int8", "uint8", ["reduce", "reduce", "gemm"]),
    ("(cast(a[m, k], int16) - 128) * (cast(b[n, k], int32) - q[n])", "uint8", "int8", ["reduce", "reduce", "gemm"]),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("term", "a", "b", "families"), TERMS)
def test_zero_points_leave_a_gemm_on_tensor_cores_and_sums_of_its_operands(term, a, b, families):
    plan = plan_of(spec_of(term, a, b))
    assert [launch.family for launch in plan.kernels] == families
    assert any("tensor cores by" in reason for reason in plan.kernels[-1].reasons)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("term", "a", "b", "families"), TERMS)
def test_expanded_products_have_the_results_of_the_products_as_they_are_written(term, a, b, families, monkeypatch):
    monkeypatch.setattr(expanded_products, "_MIN_MULTIPLY_ADDS", 1)
    spec = spec_of(term, a, b, SMALL)
    assert len(plan_of(spec).kernels) == len(families)
    assert passes(spec)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("term", "a", "more"),
    [
        ("(a[m, k] - z) * b[k, n]", "int8", "accumulate: int64"),
        ("(a[m, k] - z) * (b[k, n] - a[m, k])", "int8", ""),
        ("(a[m, k] * q[n] - z) * b[k, n]", "int16", ""),
        ("a[m, k] * b[k, n]", "int8", ""),
    ],
    ids=["accumulators of 64 bits", "two products", "operands of 16 bits", "no zero point"],
)
def test_other_products_are_left_as_they_are(term, a, more):
    spec = spec_of(term, a, more=more)
    assert not any("_sum" in array.name for array in plan_of(spec).workspace)


@pytest.mark.slow
def test_a_convolution_of_weights_with_zero_points_is_one_of_8_bits(monkeypatch):
    monkeypatch.setattr(expanded_products, "_MIN_MULTIPLY_ADDS", 1)
    (spec,) = load_text("""
cugen: 1
kernel: f
params: {N: 2, C: 32, H: 27, W: 29, F: 60}
arrays:
  x: {shape: [N, C, H, W], dtype: uint8, boundary: zero}
  w: {shape: [F, C, 3, 3], dtype: int8}
  q: {shape: [F], dtype: int32}
  y: {shape: [N, F, H, W], dtype: int32}
compute: y[n, f, i, j] = sum(x[n, c, i + r - 1, j + s - 1] * (w[f, c, r, s] - q[f]), c, r, s)
""")
    plan = plan_of(spec)
    assert plan.kernels[-1].family == "gemm"
    assert any("tensor cores by" in reason for reason in plan.kernels[-1].reasons)
    assert passes(spec)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_product_has_copies_of_operands_that_tensor_cores_would_gather(target):
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: {target}
params: {{M: 4096, N: 4096, K: 4096}}
scalars: {{zero: {{dtype: int32}}}}
arrays:
  a: {{shape: [M, K], dtype: uint8}}
  b: {{shape: [K, N], dtype: int8}}
  y: {{shape: [M, N], dtype: int32}}
compute: y[m, n] = sum((cast(a[m, k], int32) - zero) * b[k, n], k)
""")
    plan = generate(spec, analysis=False).plan
    assert {array.name for array in plan.workspace} & {"b_copy", "b_rows"}
    assert plan.kernels[-1].family == ("gemm" if target == "sm_80" else "wgmma")
