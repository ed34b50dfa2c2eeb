"""Precisions that `accumulate` allows and no launch makes use of are named with the reason."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text


def product(accumulate, *, a="float32", b="float32", target="sm_90", schedule="", value="A[m, k] * B[k, n]"):
    (spec,) = load_text(f"""
cugen: 1
kernel: product
target: {target}
params: {{M: 128, N: 128, K: 128}}
arrays:
  A: {{shape: [M, K], dtype: {a}}}
  B: {{shape: [K, N], dtype: {b}, layout: column}}
  C: {{shape: [M, N], dtype: {"float64" if a == "float64" else "float32"}}}
compute: C[m, n] = sum({value}, k)
accumulate: {{{accumulate}}}
schedule: {{{schedule}}}
""")
    return generate(spec, remarks="none")


FLOAT8 = {"a": "float8_e4m3", "b": "float8_e5m2"}
FOR_TF32 = "it is for sums in float32 of float32 x float32"


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("accumulate", "more", "reason"),
    [
        ("tf32: true", {"target": "sm_75"}, "sm_75 has no tensor cores of tf32; sm_80 and newer have"),
        ("tf32: true", {"schedule": "family: tiled"}, "`tiled` multiplies on CUDA cores"),
        ("tf32: true", {"schedule": "family: gemm, cores: cuda"}, "`cores: cuda` requests CUDA cores"),
        ("tf32: true", {"a": "float64", "b": "float64"}, f"{FOR_TF32}, not in float64 of float64 x float64"),
        ("tf32: true", {"a": "float16", "b": "float16"}, f"{FOR_TF32}, not in float32 of float16 x float16"),
        ("tf32: true", {"a": "float16"}, f"{FOR_TF32}, not in float32 of float16 x float32"),
        ("type: float64, tf32: true", {}, f"{FOR_TF32}, not in float64 of float32 x float32"),
        ("tf32: true", {"value": "abs(A[m, k] - B[k, n])"}, f"{FOR_TF32}, and no sum is of a product of two arrays"),
        ("fp8: fast", FLOAT8, "sm_90 multiplies float8 as float16"),
        ("fp8: fast", {**FLOAT8, "target": "sm_75"}, "sm_75 multiplies float8 as float16"),
        ("fp8: fast", {}, "it is for sums in float32 of products of float8, not in float32 of float32 x float32"),
        ("fp8: fast", {**FLOAT8, "target": "sm_89", "schedule": "family: tiled"}, "`tiled` multiplies on CUDA cores"),
    ],
)
def test_a_precision_without_an_effect_is_named_with_the_reason(accumulate, more, reason):
    kernel = product(accumulate, **more)
    key = accumulate.split(", ")[-1]
    assert kernel.plan.unused_precisions == (f"`{key}` has no effect: {reason}",)
    assert f"// accumulate  `{key}` has no effect: " in kernel.source


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("accumulate", "more"),
    [
        ("tf32: true", {}),
        ("tf32: true", {"value": "exp(A[m, k]) * B[k, n]"}),
        ("tf32: true", {"target": "sm_90a"}),
        ("fp8: fast", {**FLOAT8, "target": "sm_89"}),
        ("fp8: fast", {**FLOAT8, "target": "sm_90a"}),
        ("type: float32, tf32: false, fp8: exact", {}),
    ],
)
def test_a_precision_that_is_used_or_not_allowed_has_no_such_line(accumulate, more):
    kernel = product(accumulate, **more)
    assert not kernel.plan.unused_precisions
    assert "has no effect" not in kernel.source
