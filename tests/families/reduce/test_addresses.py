"""Reductions of shifted, reversed, strided and gathered elements, also through boundaries, are coalesced, and take no
launches but those of parts, which are runs of memory."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

CASES = [
    pytest.param("x f32 [M, N]; y f32 []", "y = sum(abs(x[i + 1, j] - x[i, j]), i, j)", "i: M - 1", id="rows below"),
    pytest.param(
        "x f32 [M, N]; y f32 [1]", "y[0] = sum(abs(x[i, j + 1] - x[i, j]), i, j)", "j: N - 1", id="adjacent columns"
    ),
    pytest.param("x f32 [M, N]; y f32 [N]", "y[j] = max(x[i + 1, j] * x[i, j], i)", "i: M - 1", id="of columns"),
    pytest.param("x f32 [M, N]; y f32 [M]", "y[i] = sum(x[i, j] * x[i, N - 1 - j], j)", "", id="reversed"),
    pytest.param("x f16 [M, N]; y f32 [M]", "y[i] = sum(x[i, 2 * j] * x[i, 2 * j + 1], j)", "j: N // 2", id="pairs"),
    pytest.param("x f32 [M, N] zero; y f32 [M]", "y[i] = sum(x[i, j] * x[i, j + 5], j)", "", id="beyond a row"),
    pytest.param(
        "x f32 [M, N] wrap; y f32 []", "y = sum(x[i, j] * (x[i + 1, j] + x[i, j + 1]), i, j)", "", id="a torus"
    ),
    pytest.param(
        "x f32 [M, N] wrap; y f32 [N]", "y[j] = sum(x[i, j] * x[i - 1, j - 1], i)", "", id="a torus's columns"
    ),
    pytest.param(
        "c i32 [M, N] ; x f32 [N]; v f32 [M, N]; y f32 [M]", "y[i] = sum(v[i, j] * x[c[i, j]], j)", "", id="ELL"
    ),
    pytest.param(
        "c i32 [N, M]; x f32 [N]; v f32 [N, M]; y f32 [M]", "y[i] = sum(v[j, i] * x[c[j, i]], j)", "", id="ELL"
    ),
    pytest.param("t i64 [M, N]; x f32 [M, 7, N]; y f32 []", "y = -mean(x[i, t[i, j], j], i, j)", "", id="classes"),
    pytest.param("t i64 [M]; x f32 [90, N]; y f32 [M]", "y[i] = sum(x[t[i], j], j)", "", id="gathered rows"),
    pytest.param("x f32 [M, N]; y f32 [2 * M]", "y[i] = sum(x[i // 2, j] * (i % 2), j)", "", id="rows twice"),
    pytest.param("t i64 [N]; w f32 [7]; y f32 [1]", "y[0] = sum(w[t[j]], j)", "", id="gathered"),
]
NAMES = {"f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64"}


def kernel_of(params: str, arrays: str, compute: str, indices: str):
    lines = ["cugen: 1", "kernel: f", f"params: {{{params}}}", "arrays:"]
    for array in arrays.split("; "):
        name, dtype, layout = array.split(" ", 2)
        shape, _, boundary = layout.partition("] ")
        more = f", boundary: {boundary}" if boundary else ""
        lines.append(f"  {name}: {{shape: {shape.rstrip(']')}], dtype: {NAMES[dtype]}{more}}}")
    more = [f"indices: {{{indices}}}"] if indices else []
    (spec,) = load_text("\n".join([*lines, *more, f"compute: {compute}"]))
    return generate(spec, analysis=False)


@pytest.mark.parametrize(("arrays", "compute", "indices"), CASES)
def test_they_take_no_other_launches(arrays, compute, indices):
    assert {launch.family for launch in kernel_of("M: 2000, N: 3001", arrays, compute, indices).plan.kernels} == {
        "reduce"
    }


@pytest.mark.sampled(17)
@pytest.mark.parametrize("sizes", ["M: 37, N: 131", "M: 300, N: 1000"])
@pytest.mark.parametrize(("arrays", "compute", "indices"), CASES)
def test_their_results_are_right(arrays, compute, indices, sizes):
    kernel = kernel_of(sizes, arrays, compute, indices)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.parametrize(("arrays", "compute", "indices"), CASES[:8])
def test_warps_request_no_more_sectors_than_their_elements_span(arrays, compute, indices):
    report = analyze(kernel_of("M: 512, N: 1024", arrays, compute, indices))
    loads = [a for a in report.kernels[0].accesses if a.access.array.symbol == "x"]
    ratios = [a.totals.sectors / a.totals.ideal_sectors for a in loads if a.totals is not None]
    assert ratios
    assert max(ratios) <= 2  # of a stride of two, and of runs of 32 that begin anywhere 1.25


def test_parts_are_runs_of_memory_where_another_dimension_is_long_enough():
    compute = "y = sum(abs(x[n, i + 1, j] - x[n, i, j]), n, i, j)"
    plan = kernel_of("B: 48, M: 1024, N: 1024", "x f32 [B, M, N]; y f32 []", compute, "i: M - 1").plan
    assert [launch.family for launch in plan.kernels] == ["reduce", "reduce"]
    assert plan.kernels[0].grid[0] == 1023


@pytest.mark.parametrize("field", [0, 2])
def test_a_field_of_pixels_is_contiguous_whatever_their_number(field):
    """A row of pixels is a multiple of a pixel, whose stride is the smallest then."""
    sizes = "B: dynamic, H: dynamic, W: dynamic"
    compute = f"y[b] = mean(x[b, i, j, {field}], i, j)"
    kernel = kernel_of(sizes, "x f32 [B, H, W, 3]; y f32 [B]", compute, "")
    assert [launch.family for launch in kernel.plan.kernels] == ["reduce"]
    params = {"B": 3, "H": 5, "W": 37}
    assert verify(
        kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params=params
    ).verification.passed
