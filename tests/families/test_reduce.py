"""Reductions shared by the threads of a warp or a block: what is taken, what is refused and why, and right results."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.plan import ir

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


def automatic(text: str) -> str:
    """The spec without its word on the family."""
    return text.replace("schedule: {family: reduce}", "")


# Which kernel


def test_rows_of_neighbours_are_taken_without_asking(planned):
    assert planned(automatic(rows(300, 513))).family == "reduce"
    assert planned(automatic(whole(100003))).family == "reduce"


@pytest.mark.parametrize(
    ("m", "n", "block"),
    [
        (300, 513, (32, 8, 1)),
        (3, 513, (32, 4, 1)),
        (1, 100, (32, 1, 1)),
        (300, 1024, (32, 8, 1)),
        (300, 1025, (1024, 1, 1)),
        (4000, 1025, (256, 1, 1)),
    ],
)
def test_short_rows_get_a_warp_and_long_ones_a_block(planned, m, n, block):
    assert planned(rows(m, n)).block == block


def test_threads_and_rows_are_what_the_schedule_says(planned):
    assert planned(rows(300, 513, schedule=", threads: 128")).block == (128, 1, 1)
    assert planned(rows(300, 5130, schedule=", threads: 32, rows: 2")).block == (32, 2, 1)
    assert planned(rows(300, 5130, schedule=", rows: 16")).block == (32, 16, 1)


def test_a_warp_alone_needs_neither_shared_memory_nor_a_barrier(planned):
    kernel = planned(rows(300, 513))
    assert kernel.shared_bytes == 0
    assert not any(isinstance(node, ir.Barrier | ir.Declare) for node in ir.walk_nodes(kernel.body))


def test_a_block_shares_one_result_of_each_warp(planned):
    kernel = planned(whole(100003, schedule=", threads: 256"))
    assert kernel.shared_bytes == 8 * 4
    assert sum(isinstance(node, ir.Barrier) for node in ir.walk_nodes(kernel.body)) == 1
    shared = [access.kind for access in ir.accesses(kernel.body) if access.array.space == "shared"]
    assert shared == ["store", "load"]


def test_several_dense_indices_are_walked_as_one(made):
    text = """
params: {B: 3, H: 37, W: 41}
arrays:
  x: {shape: [B, H, W], dtype: float32}
  y: {shape: [B], dtype: float32}
compute: y[b] = sum(x[b, h, w] * x[b, h, w], h, w)
"""
    kernel = made(text)
    assert kernel.plan.kernels[0].family == "reduce"
    assert "for (int element = threadIdx.x; element < H * W; element += 1024)" in kernel.source


def test_a_loop_that_could_step_beyond_32_bits_counts_in_64(made):
    assert "for (long long i = threadIdx.x; i < N; i += 1024)" in made(automatic(whole("dynamic"))).source
    assert "for (int i = threadIdx.x; i < N; i += 1024)" in made(automatic(whole("{range: [0, 2147482000]}"))).source


@pytest.mark.parametrize(("kind", "operator"), [("any", "||"), ("all", "&&")])
def test_no_lane_skips_a_shuffle(made, kind, operator):
    source = made(whole(100, f"{kind}(x[i], i)", "bool", "bool")).source
    assert f", 16) {operator} {kind}_;" in source
    assert f"{operator} __shfl" not in source


def test_conditions_on_places_are_tested_before_data_is_read(made):
    source = made(rows(64, 64, "sum(x[i, j], j, where=j <= i and x[i, j] > 0)")).source
    assert source.index("if (j <= i)") < source.index("= x[i * N + j]") < source.index("> 0.0f)")
    assert source.count("= x[i * N + j]") == 1


def test_a_full_sum_says_that_one_block_computes_it(planned):
    assert any("one block" in reason for reason in planned(whole(100003)).reasons)


# What is refused


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("argmax(x[i, j], j)", "takes sum, prod, max, min, any, all, and this is an argmax"),
        ("sum(x[i, j], j) + max(x[i, j], j)", "takes one reduction"),
        ("sum(x[i, j] * x[i, j - 1], j, where=j > 0)", "reads at bare indices only; x is read beside them"),
        ("sum(x[j, i], j)", "neighbours along j are no neighbours in x"),
        ("x[i, 0]", "takes one reduction"),
        ("sum(x[0, j], j)", "reads each element for one result"),
    ],
)
def test_what_it_does_not_take_has_a_reason(reasons, value, reason):
    assert any(reason in refusal.reason for refusal in reasons("reduce", rows(64, 64, value)))


def test_a_row_shorter_than_a_warp_is_left_to_others_unless_asked_for(reasons, planned):
    found = reasons("reduce", automatic(rows(1000, 31)))
    assert [r.reason for r in found] == ["31 elements leave lanes of a warp without work"]
    assert planned(rows(1000, 31)).family == "reduce"


def test_a_product_of_matrices_is_left_to_others(reasons):
    text = """
params: {N: 64}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
"""
    (refusal,) = reasons("reduce", text)
    assert "several results share" in refusal.reason


@pytest.mark.parametrize(
    ("schedule", "key"),
    [
        (", block: {i: 8}", "schedule.block"),
        (", step: {j: 8}", "schedule.step"),
        (", thread: {i: 2}", "schedule.thread"),
        (", threads: 48", "schedule.threads"),
        (", threads: 64, rows: 2", "schedule.rows"),
    ],
)
def test_a_schedule_is_honoured_or_refused(reasons, schedule, key):
    assert [refusal.key for refusal in reasons("reduce", rows(100, 100, schedule=schedule))] == [key]


@pytest.mark.parametrize("memory", ["shared", "register"])
def test_a_placement_that_stages_is_refused(reasons, memory):
    text = rows(4, 10).replace("shape: [M, N],", f"shape: [M, N], memory: {memory},")
    assert "arrays.x.memory" in [refusal.key for refusal in reasons("reduce", text)]


def test_a_reduction_of_what_the_group_writes_is_refused(reasons):
    text = rows(64, 64, "sum(x[i, j] * y[i], j)")
    assert any("read inside the reduction and written" in r.reason for r in reasons("reduce", text))


def test_several_indices_with_gaps_between_are_refused(reasons):
    text = """
params: {H: 37, W: 41}
arrays:
  x: {shape: [H, W], dtype: float32, pitch: 48}
  y: {shape: [], dtype: float32}
compute: y = sum(x[h, w], h, w)
"""
    assert any("are several in x" in refusal.reason for refusal in reasons("reduce", text))


# Right results


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 127, 1023, 1024, 1025, 100_000])
def test_full_sums_of_any_length(prove, n):
    prove(whole(n))


@pytest.mark.parametrize("threads", [32, 64, 256, 1024])
def test_rows_by_any_number_of_threads(prove, threads):
    prove(rows(5, 1031, schedule=f", threads: {threads}"))


def test_every_size_of_a_dynamic_kernel(prove):
    for schedule in ("", ", threads: 32", ", threads: 64"):
        text = rows(DYNAMIC, DYNAMIC, schedule=schedule)
        for m, n in ((0, 5), (3, 0), (1, 1), (9, 31), (8, 33), (3, 1025)):
            prove(text, {"M": m, "N": n})


KINDS = [
    ("sum(x[i, j], j)", "float16", "float32"),
    ("sum(x[i, j], j)", "bfloat16", "bfloat16"),
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
]


@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_all_kinds_and_types(prove, value, dtype, out):
    for schedule in (", threads: 32", ", threads: 64"):
        prove(rows(11, 139, value, dtype, out, schedule))


@pytest.mark.parametrize(
    "value",
    [
        "sqrt(sum(x[i, j] * x[i, j], j))",
        "mean(x[i, j], j) * 2 + x[i, 0]",
        "sum(x[i, j], j, where=j <= i)",
        "sum(x[i, j], j, where=x[i, j] > 0)",
        "max(x[i, j], j, where=j > 3 and x[i, j] > 0)",
        "sum(exp(x[i, j] - x[i, 0]) * j, j)",
        "sum(x[i, j] if x[i, j] > 0 else -x[i, j], j)",
        "max(x[i, j], j) / N if i > 2 else 1.5",
    ],
)
def test_bodies_conditions_and_what_follows(prove, value):
    prove(rows(11, 139, value))
    prove(rows(3, 139, value, schedule=", threads: 64"))


def test_a_result_is_added_to_what_is_there(prove):
    prove(rows(11, 139).replace("y[i] = sum", "y[i] += sum"))
    prove(whole(1000).replace("y = sum", "y += sum"))


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


def test_several_output_and_reduced_indices(prove):
    text = """
params: {A: 3, B: 5, C: 7, D: 11}
arrays:
  x: {shape: [A, B, C, D], dtype: float32}
  y: {shape: [B, A], dtype: float32}
compute: y[b, a] = sum(x[a, b, c, d], c, d)
"""
    prove(text)


def test_all_of_a_column_major_matrix(prove, made):
    text = """
params: {M: 37, N: 41}
arrays:
  x: {shape: [M, N], layout: column, dtype: float32}
  y: {shape: [], dtype: float32}
compute: y = sum(x[i, j], i, j)
"""
    assert made(text).plan.kernels[0].family == "reduce"
    prove(text)


@pytest.mark.parametrize("schedule", [", threads: 32", ", threads: 128"])
def test_no_races_and_nothing_outside_memory(prove, schedule):
    prove(rows(5, 301, schedule=schedule), races=True)
    prove(rows(5, 301, schedule=schedule), sanitize=True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 20), st.integers(1, 300), st.sampled_from([32, 64, 128]), st.sampled_from(["sum", "max", "min"]))
def test_random_shapes(prove, m, n, threads, kind):
    prove(rows(m, n, f"{kind}(x[i, j], j)", schedule=f", threads: {threads}"))


@pytest.mark.parametrize(("value", "dtype", "out"), KINDS)
def test_compilers_take_every_kind_without_a_word(compiled, value, dtype, out):
    compiled(rows(DYNAMIC, DYNAMIC, value, dtype, out, ", threads: 64"))


def test_the_same_bits_every_time(made):
    source = made(whole(100_003)).source
    assert "atomic" not in source
    assert source == made(whole(100_003)).source
