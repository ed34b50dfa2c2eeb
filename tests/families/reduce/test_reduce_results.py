"""Correctness of row reductions over lengths, types, conditions and schedules."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROWS = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M], dtype: %s}
compute: y[i] = %s
schedule: {family: reduce%s}
"""


WHOLE = """
params: {N: %s}
arrays:
  x: {shape: [N], dtype: %s}
  y: {shape: [], dtype: %s}
compute: y = %s
schedule: {family: reduce%s}
"""


DYNAMIC = "{range: [0, 5000]}"


def rows(m, n, value="sum(x[i, j], j)", dtype="float32", out="float32", schedule=""):
    return ROWS % (m, n, dtype, out, value, schedule)


def whole(n, value="sum(x[i], i)", dtype="float32", out="float32", schedule=""):
    return WHOLE % (n, dtype, out, value, schedule)


SHARED = """
params: {M: %s, N: %s, P: %s}
arrays:
  x: {shape: [M, N], dtype: uint8}
  s: {shape: [M, N // P], dtype: float32}
  t: {shape: [N, P], dtype: float16}
  y: {shape: [M], dtype: float32}
indices: {j: N * P}
compute: y[i] = sum(x[i, j // P] * s[i, j // (P * P)] * t[j // P, j %% P], j)
schedule: {family: reduce}
"""


# Correctness


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("m", "n", "p"), [(5, 66, 2), (3, 12, 3), (2, 1024, 4)])
def test_rows_whose_elements_are_multiplied_with_several_shared_ones_are_right(prove, m, n, p):
    prove(SHARED % (m, n, p))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", [1, 1023])
def test_full_sums_of_any_length(prove, n):
    prove(whole(n))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 31, 32, 33, 127, 1024, 1025, 100_000])
def test_full_sums_of_more_lengths(prove, n):
    prove(whole(n))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("threads", [2, 64])
def test_rows_by_any_number_of_threads(prove, threads):
    prove(rows(5, 1030, schedule=f", threads: {threads}"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1030, 1031, 1032])
@pytest.mark.parametrize("threads", [1, 4, 8, 16, 32, 256, 1024])
def test_rows_by_more_numbers_of_threads(prove, threads, n):
    prove(rows(37, n, schedule=f", threads: {threads}"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 65, 66, 67, 71, 4093])
def test_rows_of_any_residue(prove, n):
    """Successive rows begin at all offsets from the alignment of a vector."""
    prove(rows(9, n))
    prove(rows(17, 2 * n + 1, dtype="bfloat16", out="bfloat16", schedule=", threads: 4"))


@pytest.mark.slow
def test_sizes_of_a_dynamic_kernel(prove):
    text = rows(DYNAMIC, "{range: [0, 5000], multiple_of: 4}")
    for m, n in ((0, 8), (3, 0), (9, 36)):
        prove(text, {"M": m, "N": n})


@pytest.mark.slow
def test_every_size_of_a_dynamic_kernel(prove):
    for schedule in ("", ", threads: 32", ", threads: 64"):
        text = rows(DYNAMIC, DYNAMIC, schedule=schedule)
        for m, n in ((0, 5), (3, 0), (1, 1), (9, 31), (8, 33), (3, 1025)):
            prove(text, {"M": m, "N": n})


KINDS = [
    ("sum(x[i, j], j)", "float16", "float32"),
    ("sum(x[i, j], j)", "bfloat16", "bfloat16"),
    ("sum(x[i, j], j)", "float8_e4m3", "float32"),
    ("sum(x[i, j], j)", "int8", "int32"),
    ("sum(x[i, j], j)", "int32", "int32"),
    ("sum(x[i, j], j)", "int64", "int64"),
    ("sum(x[i, j], j)", "uint32", "uint32"),
    ("sum(x[i, j], j)", "float64", "float64"),
    ("prod(x[i, j], j)", "float32", "float32"),
    ("prod(x[i, j], j)", "int64", "int64"),
    ("max(x[i, j], j)", "float32", "float32"),
    ("max(x[i, j], j)", "int8", "int8"),
    ("max(x[i, j], j)", "uint8", "uint8"),
    ("min(x[i, j], j)", "float16", "float16"),
    ("min(x[i, j], j)", "int16", "int16"),
    ("min(x[i, j], j)", "uint64", "uint64"),
    ("any(x[i, j], j)", "bool", "bool"),
    ("all(x[i, j], j)", "bool", "bool"),
    ("any(x[i, j] > 3, j)", "float32", "bool"),
    ("argmax(x[i, j], j)", "float32", "int64"),
    ("argmin(x[i, j], j)", "int8", "int64"),
    ("argmax(x[i, j], j)", "float16", "int32"),
    ("argmin(x[i, j] * j, j)", "int64", "int64"),
]


def kind_text(value, dtype, out, m, n, schedule=""):
    value = f"cast({value}, int32)" if out == "int32" and value.startswith("arg") else value
    return rows(m, n, value, dtype, out, schedule)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS[::8])
def test_kinds_and_types(prove, value, dtype, out):
    prove(kind_text(value, dtype, out, 11, 144, ", threads: 64"))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_all_kinds_and_types(prove, value, dtype, out):
    for n, schedule in ((139, ", threads: 32"), (144, ", threads: 8"), (144, ", threads: 64")):
        prove(kind_text(value, dtype, out, 11, n, schedule))


VALUES = [
    "sum(x[i, j], j, where=j <= i)",
    "max(x[i, j], j, where=j > 3 and x[i, j] > 0)",
    "var(x[i, j], j) + max(x[i, j], j)",
    "sqrt(sum(x[i, j] * x[i, j], j))",
    "mean(x[i, j], j) * 2 + x[i, 0]",
    "sum(x[i, j], j, where=x[i, j] > 0)",
    "sum(exp(x[i, j] - x[i, 0]) * j, j)",
    "sum(x[i, j] if x[i, j] > 0 else -x[i, j], j)",
    "max(x[i, j], j) / N if i > 2 else 1.5",
    "sum(x[i, j], j, where=j >= i and j < i + 30) / sum(x[i, j], j, where=j >= i)",
    "norm(x[i, j], j) + cast(argmax(x[i, j], j), float32)",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", VALUES[:2])
def test_bodies_and_conditions(prove, value):
    prove(rows(11, 140, value, schedule=", threads: 8"))


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
def test_bodies_conditions_and_epilogues(prove, value):
    for n, schedule in ((139, ""), (140, ", threads: 8"), (140, ", threads: 64")):
        prove(rows(11, n, value, schedule=schedule))


@pytest.mark.slow
@pytest.mark.parametrize("n", [263, 1031])
def test_unaligned_rows(prove, n):
    prove(rows(11, n, dtype="float16", schedule=", threads: 8"), races=True)
    prove(rows(11, n, "sum(x[i, j] * j, j, where=j >= i and j < i * 40)", "int8", "int64", ", threads: 8"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 257, 1031])
def test_narrow_rows_of_any_dynamic_length(prove, n):
    prove(rows(DYNAMIC, DYNAMIC, dtype="float16"), {"M": 5, "N": n})


@pytest.mark.slow
def test_a_result_accumulates_into_the_output(prove):
    prove(rows(11, 139).replace("y[i] = sum", "y[i] += sum"))
    prove(rows(11, 16).replace("y[i] = sum", "y[i] += sum"))
    prove(whole(1000).replace("y = sum", "y += sum"))


@pytest.mark.slow
def test_a_vector_shared_by_all_rows(prove):
    text = """
params: {M: 13, N: 77}
arrays:
  A: {shape: [M, N], dtype: float32, pitch: 80}
  v: {shape: [N], memory: readonly, dtype: float32}
  b: {shape: [M], memory: constant, dtype: float32}
  t: {shape: [M], dtype: float32}
  y: {shape: [M], dtype: float32}
compute:
  - t[i] = sum(A[i, k] * v[k], k) + b[i]
  - y[i] = maximum(t[i], 0)
"""
    prove(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        "shape: [A, B, C, D]",
        "shape: [A, B, C, D], layout: column",
        pytest.param("shape: [A, B, C, D], pitch: 12", marks=pytest.mark.slow),
        pytest.param("shape: [A, B, C, D], layout: {strides: [1, 6, 60, 480]}", marks=pytest.mark.slow),
    ],
)
def test_several_output_and_reduced_indices(prove, shape):
    text = f"""
params: {{A: 3, B: 5, C: 7, D: 11}}
arrays:
  x: {{{shape}, dtype: float32}}
  y: {{shape: [B, A], dtype: float32}}
  z: {{shape: [A, C], dtype: float32}}
compute:
  - y[b, a] = sum(x[a, b, c, d], c, d)
  - z[a, c] = max(x[a, b, c, d], b, d)
"""
    prove(text)


def test_a_diagonal_of_a_dense_array(prove):
    text = """
arrays:
  x: {shape: [8, 8, 8], dtype: float32}
  y: {shape: [], dtype: float32}
compute: y = sum(x[i, i, j], i, j)
"""
    prove(text)


@pytest.mark.parametrize(("m", "n", "k"), [(67, 3, 16), (130, 4, 5), (29, 9, 4), (11, 24, 40)])
@pytest.mark.sampled(2)
def test_results_of_several_outer_indices_in_a_block(prove, planned, m, n, k):
    text = f"""
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  x: {{shape: [M, N, K], dtype: float32}}
  w: {{shape: [M, K], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = sum(x[i, j, k] * w[i, k], k)
schedule: {{family: reduce}}
"""
    assert planned(text).block[2] > 1
    prove(text)


@pytest.mark.slow
def test_gathered_rows(prove):
    text = """
params: {M: 30, N: 64, K: 11}
arrays:
  x: {shape: [M, N], dtype: float32}
  ids: {shape: [K], dtype: int32}
  y: {shape: [K], dtype: float32}
compute: y[i] = sum(x[ids[i], j], j)
schedule: {family: reduce}
"""
    prove(text)


@pytest.mark.parametrize("schedule", [", threads: 8", pytest.param(", threads: 128", marks=pytest.mark.slow)])
def test_clean_under_sanitizers_and_the_race_check(prove, schedule):
    prove(rows(37, 302, schedule=schedule), races=True)
    prove(rows(37, 302, schedule=schedule), sanitize=True)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 20),
    st.integers(1, 300),
    st.sampled_from([1, 2, 8, 32, 64, 128]),
    st.sampled_from(["sum", "max", "min", "argmax"]),
    st.sampled_from(["", ", where=j <= i", ", where=j > i + 3"]),
)
def test_random_shapes(prove, m, n, threads, kind, where):
    if kind == "argmax":
        prove(rows(m, n, "argmax(x[i, j], j)", out="int64", schedule=f", threads: {threads}"))
    else:
        prove(rows(m, n, f"{kind}(x[i, j], j{where})", schedule=f", threads: {threads}"))


@pytest.mark.slow
@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_every_kind_compiles_without_warnings(compiled, value, dtype, out):
    compiled(kind_text(value, dtype, out, DYNAMIC, "{range: [8, 4000], multiple_of: 8}", ", threads: 64"))


def test_reductions_use_no_atomics(made):
    source = made(whole(100_003)).source
    assert "atomic" not in source
    assert source == made(whole(100_003)).source
