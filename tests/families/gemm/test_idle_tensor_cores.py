"""Tensor cores that a kernel leaves idle: which ones, why, and the roofline that counts them."""

from __future__ import annotations

import pytest

from cugen.kernel_report import analyze
from cugen.machine import device


def product_of(dtype: str, schedule: str = "", size: int = 256, more: str = "") -> str:
    return f"""
params: {{M: {size}, N: {size}, K: {size}}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [K, N], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {"int32" if "int" in dtype else "float32"}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{{schedule}}}
{more}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "peak", "reason"),
    [
        (product_of("float16", "family: gemm, cores: cuda"), "tensor_float16", "`cores: cuda` requests CUDA cores"),
        (product_of("bfloat16", "family: gemm, lanes: 4"), "tensor_bfloat16", "`lanes` is a tunable of CUDA cores"),
        (product_of("float16", "family: tiled"), "tensor_float16", "`tiled` multiplies on CUDA cores"),
        (product_of("int8", "family: direct"), "tensor_int8", "`direct` multiplies on CUDA cores"),
        (
            product_of("float32", "family: gemm, cores: cuda", more="accumulate: {tf32: true}"),
            "tensor_tf32",
            "`cores: cuda` requests CUDA cores",
        ),
        (
            product_of("float16", "family: gemm, sliced_k: 4, stages: 2"),
            "tensor_float16",
            "none of their tiles fits the schedule",
        ),
        (
            "target: sm_86\n" + product_of("float64", "family: gemm").replace("float32}", "float64}"),
            "tensor_float64",
            "CUDA cores are as fast or faster by their peaks",
        ),
    ],
    ids=["cores: cuda", "lanes", "tiled", "direct", "tf32", "slices", "float64"],
)
def test_tensor_cores_that_are_left_idle_are_named_with_the_reason(planned, text, peak, reason):
    idle = planned(text).idle_unit
    assert (idle.peak, idle.reason) == (peak, reason)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        product_of("float16", "family: gemm, cores: tensor"),
        product_of("float32"),
        product_of("float32", "family: tiled"),
        "target: sm_75\n" + product_of("bfloat16"),
        product_of("float16").replace("sum(A[m, k] * B[k, n], k)", "max(A[m, k] * B[k, n], k)"),
    ],
    ids=["used", "not allowed", "not allowed in tiles", "target without", "no sum"],
)
def test_no_unit_is_idle_that_is_used_or_could_not_be(planned, text):
    assert planned(text).idle_unit is None


@pytest.mark.slow
def test_the_roofline_is_a_share_of_the_highest_peak(made):
    h200 = device("H200")
    text = product_of("float16", "family: gemm, cores: cuda", 4096)
    (launch,) = analyze(made(text), device=h200).kernels
    roofline = launch.facts.roofline
    assert roofline.peak == pytest.approx(h200.peak("float32"))
    assert roofline.idle_peak == pytest.approx(h200.peak("tensor_float16"))
    assert roofline.best.share == pytest.approx(h200.peak("float32") / h200.peak("tensor_float16"))
    said = " ".join(sentence for topic, sentence in launch.sentences if topic == "roofline")
    assert "its tensor cores (float16) peak at 989,400.0 GFLOP/s and are idle: `cores: cuda`" in said
    (used,) = analyze(made(text.replace("cores: cuda", "cores: tensor")), device=h200).kernels
    assert used.facts.roofline.best.share == 1
    assert any("GFLOP/s on tensor cores (float16)" in sentence for _, sentence in used.sentences)


def test_long_sums_of_few_results_are_divided_by_stream_k_where_clusters_leave_the_device_idle(planned):
    kernel = planned("""
target: sm_90
params: {N: 200000, D: 48}
arrays:
  x: {shape: [D, N], dtype: float64}
  g: {shape: [D, D], dtype: float64}
compute: g[a, b] = sum(x[a, n] * x[b, n], n)
""")
    assert kernel.idle_unit is None
    assert kernel.work_units is not None
