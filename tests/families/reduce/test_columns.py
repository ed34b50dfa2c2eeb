"""Reductions of columns: thread mappings, loads and stores, and correctness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cugen
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.plan.traversal.walking import accesses

COLUMNS = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [N], dtype: %s}
compute: y[j] = %s
schedule: {family: reduce, split_k: 1%s}
"""
DYNAMIC = "{range: [0, 3000]}"


def columns(m, n, value="sum(x[i, j], i)", dtype="float32", out="float32", schedule=""):
    return COLUMNS % (m, n, dtype, out, value, schedule)


def automatic(text: str) -> str:
    return text.replace("schedule: {family: reduce, split_k: 1}", "")


# Which kernel


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("m", "n", "dtype", "block"),
    [
        (32768, 32768, "float32", (32, 32, 1)),
        (4, 1 << 20, "float32", (256, 1, 1)),
        (40, 1 << 20, "float32", (32, 8, 1)),
        (100_000, 3, "float32", (3, 128, 1)),
        (100_000, 24, "float32", (6, 128, 1)),
        (100_000, 128, "float32", (8, 128, 1)),
        (32768, 32767, "float32", (256, 4, 1)),
        (1 << 20, 129, "float16", (64, 16, 1)),
    ],
)
def test_blocks_follow_the_columns_and_their_length(planned, m, n, dtype, block):
    assert planned(columns(m, n, dtype=dtype)).block == block


@pytest.mark.parametrize(
    ("images", "channels", "block"), [(128, 256, (16, 64, 1)), (96, 256, (8, 128, 1)), (160, 192, (8, 128, 1))]
)
def test_blocks_of_channels_read_longer_runs_where_enough_are_left(planned, images, channels, block):
    text = f"x: {{shape: [{images}, 56, 56, {channels}], dtype: bfloat16}}\n  y: {{shape: [{images}, {channels}], dtype"
    kernel = planned(f"arrays:\n  {text}: bfloat16}}\ncompute: y[n, c] = mean(x[n, h, w, c], h, w)\n")
    assert kernel.block == block


@pytest.mark.parametrize("n", [4000, 4001, "dynamic"])
def test_later_reductions_of_a_column_take_the_results_of_earlier_ones(planned, n):
    kernel = planned(columns(1025, n, "var(x[i, j], i)"))
    assert sum(a.array.name == "x" for a in accesses(kernel.body)) == 2


def test_threads_and_rows_follow_the_tunables(planned):
    kernel = planned(columns(300, 512, schedule=", threads: 16, rows: 4, vector: 2"))
    assert kernel.block == (16, 4, 1)
    assert [a.width for a in accesses(kernel.body) if a.array.name == "x"] == [2]


@pytest.mark.parametrize(
    ("value", "dtype", "out"),
    [
        ("sum(x[i, j], i) + prod(x[i, j], i)", "int8", "int64"),
        ("var(x[i, j], i)", "bfloat16", "bfloat16"),
        ("var(x[i, j], i) + max(x[i, j], i)", "float16", "float32"),
    ],
)
def test_partial_results_of_all_stages_fit_in_static_shared_memory(planned, value, dtype, out):
    kernel = planned(columns(4096, 65536, value, dtype, out))
    assert 0 < kernel.shared_bytes <= STATIC_SHARED_BYTES


def test_contiguous_results_take_vector_stores(planned):
    def stored(text):
        return [(a.width, a.kind) for a in accesses(planned(text).body) if a.array.name == "y"]

    assert stored(columns(300, 512)) == [(4, "store")]
    assert stored(columns(300, 513)) == [(1, "store")]
    assert stored(columns(300, 512, "argmax(x[i, j], i)", out="int64")) == [(1, "store")]


@pytest.mark.slow
def test_results_a_pitch_apart_are_stored_one_by_one(planned, prove):
    text = columns(300, 256).replace("{shape: [N], dtype: float32}", "{shape: [N, 1], dtype: float32, pitch: 8}")
    text = text.replace("y[j] =", "y[j, 0] =")
    assert {a.width for a in accesses(planned(text).body) if a.array.name == "y"} == {1}
    prove(text)


def test_partial_results_have_no_bank_conflicts(planned):
    report = analyze_kernel(planned(columns(3000, 512)), "sm_90", {"M": 3000, "N": 512})
    shared = [access for access in report.accesses if access.space == "shared"]
    assert shared
    assert all(access.cost == access.ideal for access in shared)


def test_few_columns_of_many_matrices_are_refused(reasons):
    text = """
params: {A: 1000, B: 20, C: 3}
arrays:
  x: {shape: [A, B, C], dtype: float32}
  y: {shape: [A, C], dtype: float32}
compute: y[a, c] = sum(x[a, b, c], b)
"""
    assert any("too few columns along c" in refusal.reason for refusal in reasons("reduce", text))


def test_other_output_indices_are_grid_dimensions(planned):
    text = """
params: {A: 40, B: 500, C: 256}
arrays:
  x: {shape: [A, B, C], dtype: float32}
  y: {shape: [A, C], dtype: float32}
compute: y[a, c] = sum(x[a, b, c], b)
"""
    kernel = planned(text)
    assert [str(extent) for extent in kernel.grid[1:]] == ["A", "1"]


def test_dense_reduced_dimensions_are_fused(made):
    text = """
params: {B: 8, H: 30, W: 31, C: 64}
arrays:
  x: {shape: [B, H, W, C], dtype: float32}
  y: {shape: [C], dtype: float32}
compute: y[c] = sum(x[b, h, w, c], b, h, w)
schedule: {split_k: 1}
"""
    assert "bhw < B * H * W" in made(text).source


def test_a_condition_between_row_and_column_bounds_the_loop(made):
    source = made(columns(512, 512, "sum(x[i, j], i, where=i <= j)", schedule=", threads: 32, rows: 1")).source
    assert "first_j + 4" in source
    assert "if (i <= j)" in source


# Correctness


@pytest.mark.parametrize(("m", "n"), [(37, 128)])
def test_columns_of_any_size(prove, m, n):
    prove(columns(m, n))


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 31, 33, 1000])
@pytest.mark.parametrize("n", [1, 3, 7, 24, 31, 32, 33, 127, 130, 1028])
def test_columns_of_more_sizes(prove, m, n):
    prove(columns(m, n))


@pytest.mark.slow
def test_every_size_of_a_dynamic_kernel(prove):
    for text in (columns(DYNAMIC, DYNAMIC), columns(DYNAMIC, "{range: [0, 3000], multiple_of: 4}")):
        for m, n in ((0, 8), (3, 0), (1, 4), (90, 36), (65, 1028)):
            prove(text, {"M": m, "N": n})


KINDS = [
    ("sum(x[i, j], i)", "float16", "float16"),
    ("sum(x[i, j], i)", "int8", "int32"),
    ("prod(x[i, j], i)", "float64", "float64"),
    ("max(x[i, j], i)", "bfloat16", "bfloat16"),
    ("min(x[i, j], i)", "uint8", "uint8"),
    ("max(x[i, j], i)", "int64", "int64"),
    ("any(x[i, j], i)", "bool", "bool"),
    ("all(x[i, j] > 0, i)", "float32", "bool"),
    ("argmax(x[i, j], i)", "float32", "int64"),
    ("argmin(x[i, j], i)", "int16", "int64"),
    ("var(x[i, j], i)", "float32", "float32"),
    ("mean(x[i, j], i) / norm(x[i, j], i)", "float64", "float64"),
    ("sum(x[i, j], i, where=i >= j)", "float32", "float32"),
    ("sum(x[i, j] * i, i, where=j < 2 * i and i < j + 20)", "int32", "int32"),
    ("max(x[i, j], i, where=x[i, j] > 0 and i > 3)", "float32", "float32"),
    ("sum(x[i, j], i) + x[0, j]", "float32", "float32"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS[::9])
def test_kinds_and_types(prove, value, dtype, out):
    prove(columns(61, 136, value, dtype, out))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_all_kinds_and_types(prove, value, dtype, out):
    for n, schedule in ((136, ""), (136, ", threads: 4, rows: 1"), (45, ", threads: 32, rows: 4")):
        prove(columns(61, n, value, dtype, out, schedule))


@pytest.mark.slow
def test_a_transposed_gemv(prove, planned):
    text = """
params: {K: 130, N: 136}
arrays:
  A: {shape: [K, N], dtype: float32}
  x: {shape: [K], dtype: float32}
  b: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(A[k, n] * x[k] + b[n], k)
"""
    assert planned(text).family == "reduce"
    prove(text)


@pytest.mark.slow
def test_statistics_of_a_middle_dimension(prove):
    text = """
params: {B: 6, C: 5, H: 7, W: 9}
arrays:
  x: {shape: [B, C, H, W], dtype: float32}
  s: {shape: [C], dtype: float32}
  q: {shape: [C], dtype: float32}
compute:
  - s[c] = mean(x[b, c, h, w], b, h, w)
  - q[c] = sum(x[b, c, h, w] * x[b, c, h, w], b, h, w)
"""
    prove(text)


@pytest.mark.slow
def test_clean_under_sanitizers_and_the_race_check(prove):
    text = columns(61, 140, "var(x[i, j], i)", schedule=", threads: 8, rows: 8")
    prove(text, races=True)
    prove(text, sanitize=True)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 80),
    st.integers(1, 150),
    st.sampled_from([1, 4, 32]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["sum(x[i, j], i)", "min(x[i, j], i, where=i <= j)", "argmax(x[i, j], i)"]),
)
def test_random_shapes(prove, m, n, threads, rows, value):
    out = "int64" if "arg" in value else "float32"
    prove(columns(m, n, value, out=out, schedule=f", threads: {threads}, rows: {rows}"))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_every_kind_compiles_without_warnings(compiled, value, dtype, out):
    compiled(columns("{range: [1, 3000]}", "{range: [8, 4000], multiple_of: 8}", value, dtype, out))


# Positions of extremes


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["argmin", "argmax"])
@pytest.mark.parametrize(
    "column",
    [
        pytest.param({}, id="finite"),
        pytest.param({0: math.inf, 1: -math.inf}, id="infinities"),
        pytest.param({33: math.nan, 35: math.nan}, id="the first NaN"),
        pytest.param({140: math.nan, 13: math.nan}, id="the first NaN of another thread"),
        pytest.param({0: math.nan}, id="NaN first"),
        pytest.param(dict.fromkeys(range(150), math.inf), id="all inf"),
        pytest.param(dict.fromkeys(range(150), -math.inf), id="all -inf"),
        pytest.param(dict.fromkeys(range(150), 1.0), id="all equal"),
    ],
)
def test_positions_of_extremes_are_those_of_numpy(made, kind, column):
    kernel = made(columns(150, 64, f"{kind}(x[i, j], i)", out="int64"))
    x = np.random.default_rng(5).standard_normal((150, 64), np.float32)
    for row, value in column.items():
        x[row, ::3] = value
    outputs = cugen.run(kernel, {"x": x}, device="cpu")
    np.testing.assert_array_equal(outputs["y"], getattr(np, kind)(x, axis=0))


def test_threads_without_a_row_for_certain_have_no_position_at_first(made):
    dynamic = columns("{range: [1, 3000]}", 512, "argmax(x[i, j], i)", out="int64")
    assert "data[v] = -1;" in made(dynamic).source
    assert "data[v] = threadIdx.y;" in made(columns(300, 512, "argmax(x[i, j], i)", out="int64")).source


# Dependent reductions

DEVIATION = """
params: {B: 70, S: %s, D: 500}
arrays:
  x: {shape: [B, S, D], dtype: float32}
  y: {shape: [B, D], dtype: float32}
compute: y[b, d] = sqrt(var(x[b, s, d], s, ddof=1))
"""


@pytest.mark.parametrize(
    ("length", "families"), [(900, ["rowwise"]), (1024, ["rowwise"]), (5000, ["reduce", "reduce"])]
)
def test_columns_that_registers_hold_are_read_once(made, length, families):
    assert [kernel.family for kernel in made(DEVIATION % length).plan.kernels][: len(families)] == families
