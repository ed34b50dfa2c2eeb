"""Reductions of rows: thread mappings, generated loops, and refusals with reasons."""

from __future__ import annotations

import re

import pytest

from cugen.plan.nodes import Barrier, Declare
from cugen.plan.traversal.walking import accesses, walk_nodes

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


def rows(m, n, value="sum(x[i, j], j)", dtype="float32", out="float32", schedule=""):
    return ROWS % (m, n, dtype, out, value, schedule)


def whole(n, value="sum(x[i], i)", dtype="float32", out="float32", schedule=""):
    return WHOLE % (n, dtype, out, value, schedule)


def automatic(text: str) -> str:
    """The spec without a requested family."""
    return text.replace("schedule: {family: reduce}", "")


# Which kernel


def test_reductions_are_matched_by_default(planned):
    assert planned(automatic(rows(300, 513))).family == "reduce"
    assert planned(automatic(whole(1003))).family == "reduce"
    assert planned(automatic(rows(300, 513, "argmax(x[i, j], j)", out="int64"))).family == "reduce"


PACKED = """
params: {N: %s, K: %s, G: 64}
arrays:
  w: {shape: [N, K // 2], dtype: uint8}
  scale: {shape: [N, K // G], dtype: float16}
  x: {shape: [K], dtype: float16}
  y: {shape: [N], dtype: float32}
compute: y[n] = sum(((cast(w[n, k // 2], int32) >> (4 * (k %% 2))) & 15) * scale[n, k // G] * x[k], k)
"""


def test_packed_weights_times_a_vector_read_the_weights_of_a_row_together(planned):
    assert planned(PACKED % (4096, 4096)).family == "reduce"


@pytest.mark.parametrize(
    ("m", "n", "dtype", "block"),
    [
        (100_000, 16, "float32", (2, 128, 1)),
        (100_000, 256, "float32", (32, 8, 1)),
        (100_000, 1024, "float32", (32, 8, 1)),
        (100_000, 4096, "float32", (128, 1, 1)),
        (100_000, 4096, "float16", (64, 1, 1)),
        (100_000, 131072, "int8", (512, 1, 1)),
        (3, 513, "float32", (256, 1, 1)),
        (3, 63, "float32", (64, 1, 1)),
        (1, 100, "float32", (8, 1, 1)),
        (3, 16, "float32", (2, 4, 1)),
    ],
)
def test_the_threads_of_a_row_follow_its_length(planned, m, n, dtype, block):
    assert planned(rows(m, n, dtype=dtype)).block == block


SHORT_OUTPUT = """
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  x: {{shape: [M, N, K], dtype: float32}}
  id: {{shape: [M, K], dtype: int32}}
  w: {{shape: [1000], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = sum(x[i, j, k] * w[id[i, k]], k)
schedule: {{family: reduce{schedule}}}
"""


@pytest.mark.parametrize(
    ("n", "k", "block"),
    [
        (4, 4, (1, 4, 64)),
        (3, 16, (2, 3, 32)),
        (24, 4, (1, 24, 8)),
        (9, 4, (1, 9, 28)),
        (200, 4, (1, 224, 1)),
        (3, 256, (32, 3, 2)),
        (7, 256, (32, 8, 1)),
        (300, 16, (2, 128, 1)),
    ],
)
def test_a_block_has_results_of_several_outer_indices_where_one_fills_no_warps(planned, n, k, block):
    assert planned(SHORT_OUTPUT.format(m=1 << 20, n=n, k=k, schedule="")).block == block


def test_requested_rows_are_along_one_index(planned):
    assert planned(SHORT_OUTPUT.format(m=1 << 20, n=4, k=4, schedule=", rows: 4")).block[2] == 1


def test_threads_and_rows_follow_the_tunables(planned):
    assert planned(rows(300, 513, schedule=", threads: 128")).block == (128, 1, 1)
    assert planned(rows(300, 5130, schedule=", threads: 32, rows: 2")).block == (32, 2, 1)
    assert planned(rows(300, 5130, schedule=", threads: 4, rows: 16")).block == (4, 16, 1)
    assert planned(rows(300, 5130, schedule=", rows: 16")).block == (32, 16, 1)


def test_loads_are_as_wide_as_alignment_allows(planned):
    def widths(text):
        return [a.width for a in accesses(planned(text).body) if a.array.name == "x"]

    assert widths(rows(64, 512)) == [4]
    assert widths(rows(64, 512, dtype="float16")) == [8]
    assert widths(rows(64, 514)) == [2]
    assert widths(rows(64, 63)) == [1]
    assert widths(rows(64, 65)) == [1, 4, 4]
    assert widths(rows(64, 130, dtype="float16")) == [1, 8, 8]
    assert widths(rows(64, 132, dtype="float16")) == [4]
    assert widths(rows(64, 512, schedule=", vector: 2")) == [2]
    assert widths(whole(515)) == [1, 4]
    assert widths(rows("dynamic", "{range: [0, 5000], multiple_of: 8}")) == [4]


@pytest.mark.parametrize(
    ("n", "block"),
    [
        (194, (8, 32, 1)),
        (257, (8, 32, 1)),
        (270, (8, 32, 1)),
        (335, (8, 32, 1)),
        (418, (16, 16, 1)),
        (416, (16, 16, 1)),
        (778, (32, 8, 1)),
    ],
)
def test_lanes_of_narrow_rows_have_three_vectors_or_four_in_a_loop(planned, n, block):
    assert planned(rows(300_000, n, dtype="bfloat16", out="bfloat16")).block == block


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("n", "dtype"), [(191, "bfloat16"), (193, "float16"), (387, "bfloat16"), (767, "float16"), (385, "uint8")]
)
def test_narrow_rows_of_lanes_with_three_vectors_are_reduced(prove, n, dtype):
    prove(rows(131, n, dtype=dtype, out="float32"), sanitize=True)


def test_a_warp_per_row_needs_neither_shared_memory_nor_a_barrier(planned):
    kernel = planned(rows(300, 1024, schedule=", threads: 32"))
    assert kernel.shared_bytes == 0
    assert not any(isinstance(node, Barrier | Declare) for node in walk_nodes(kernel.body))


def test_a_block_shares_one_result_of_each_warp(planned):
    kernel = planned(whole(10003, schedule=", threads: 256"))
    assert kernel.shared_bytes == 8 * 4
    assert sum(isinstance(node, Barrier) for node in walk_nodes(kernel.body)) == 1
    shared = [access.kind for access in accesses(kernel.body) if access.array.space == "shared"]
    assert shared == ["store", "load"]


def test_several_reductions_of_the_same_elements_read_them_once(planned):
    text = rows(64, 512, "sum(x[i, j], j) / max(x[i, j], j) + sum(x[i, j] * x[i, j], j)")
    kernel = planned(text)
    assert [a.array.name for a in accesses(kernel.body) if a.array.space == "global"] == ["x", "y"]


def test_a_maximum_is_the_element_of_the_argmax(made):
    text = """
params: {M: 64, N: 512}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
  position: {shape: [M], dtype: int64}
compute:
  - position[i] = argmax(x[i, j], j)
  - y[i] = max(x[i, j], j)
"""
    source = made(text).source
    assert "y[i] = largest;" in source
    assert "maximum" not in source


def test_dense_dimensions_are_fused(made):
    text = """
params: {B: 3, H: 371, W: 411}
arrays:
  x: {shape: [B, H, W], dtype: float32}
  y: {shape: [B], dtype: float32}
compute: y[b] = sum(x[b, h, w] * x[b, h, w], h, w)
schedule: {split_k: 1}
"""
    assert re.search(r"for \(int hw = first \+ threadIdx.x \* 4; hw < H \* W - 3; hw \+= \d+\)", made(text).source)


def test_a_strided_reduced_index_is_distributed_along_y(planned):
    text = """
params: {B: 64, C: 2000, W: 49}
arrays:
  x: {shape: [B, C, W], dtype: float32}
  y: {shape: [C], dtype: float32}
compute: y[c] = sum(x[b, c, w], b, w)
"""
    assert planned(text).block == (16, 16, 1)


def test_a_loop_that_could_overflow_32_bits_counts_in_64(made):
    assert "for (long long i = threadIdx.x * 4;" in made(whole("dynamic", schedule=", split_k: 1")).source
    almost = made(whole("{range: [0, 2147482000]}", schedule=", split_k: 1, threads: 32")).source
    assert "for (int i = threadIdx.x * 4;" in almost


@pytest.mark.parametrize(("kind", "operator"), [("any", "||"), ("all", "&&")])
def test_no_lane_skips_a_shuffle(made, kind, operator):
    source = made(whole(100, f"{kind}(x[i], i)", "bool", "bool")).source
    assert f", 1) {operator} {kind}_;" in source
    assert f"{operator} __shfl" not in source


def test_a_condition_on_indices_bounds_the_loop(made):
    source = made(rows(64, 512, "sum(x[i, j], j, where=j <= i)", schedule=", threads: 32")).source
    assert "const int stop = min(N, i + 1);" in source or "const int stop = i + 1;" in source
    assert "j < stop - 3" in source
    assert "if (j <= i)" not in source


def test_a_range_that_starts_inside_a_vector_has_a_scalar_head(made):
    source = made(rows(64, 512, "sum(x[i, j], j, where=j >= i)", schedule=", threads: 32")).source
    assert "const int first = (4 - i % 4) % 4 + i;" in source
    assert "for (int head = threadIdx.x + i; head < min(first, N);" in source
    assert "if (j >= i)" not in source


def test_unaligned_rows_take_vector_loads(made, planned):
    text = rows(64, 1031, dtype="float16")
    assert [a.width for a in accesses(planned(text).body) if a.array.name == "x"] == [1, 8]
    assert "const int first = (8 - N * i % 8) % 8;" in made(text).source


def test_conditions_on_indices_are_tested_before_loads(made):
    source = made(rows(64, 63, "sum(x[i, j], j, where=j <= i and x[i, j] > 0)")).source
    assert source.index("j < stop") < source.index("= x[i * N + j]") < source.index("> 0.0f)")
    assert source.count("= x[i * N + j]") == 1


def test_invariant_loads_are_hoisted(made):
    text = rows(64, 512, "sum(maximum(x[i, j], b[i]), j)").replace("  y:", "  b: {shape: [M], dtype: float32}\n  y:")
    source = made(text).source
    assert source.index("= b[i]") < source.index("load<4>(&x[i * N")


def test_reasons_give_the_thread_mapping_and_the_vector_width(planned):
    first, second = planned(rows(300, 512)).reasons
    assert first == "128 threads per result, vectors of 4 elements along j"
    assert "16 bytes" in second


# What is refused


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            "sum(x[i, j] * x[j - i, j], j, where=j > i)",
            "subscripts inputs by one index at a time",
        ),
        ("x[i, 0]", "needs a reduction; here is none"),
        ("sum(x[0, j], j)", "reads each element for one result"),
        ("sum(x[i, j] * x[j, i], j)", "consecutive j are not contiguous in x"),
        ("cast(sum(j * i, j, where=j < N), float32) + x[i, 0]", "reduces array elements"),
        ("sum(max(x[i, k] * x[i, j], k), j)", "takes one max per output element, not one inside another"),
    ],
)
def test_a_refusal_has_a_reason(reasons, value, reason):
    text = rows(64, 64, value)
    if value.startswith("cast"):
        text += "indices: {j: N}\n"
    assert any(reason in refusal.reason for refusal in reasons("reduce", text))


def test_a_row_that_is_needed_twice_is_for_families_that_cache_it(reasons, planned):
    text = automatic(rows(1000, 512, "var(x[i, j], j)"))
    assert any("a family that caches rows" in refusal.reason for refusal in reasons("reduce", text))
    assert planned(rows(1000, 512, "var(x[i, j], j)")).family == "reduce"


def test_a_gemm_is_refused(reasons):
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
        (", threads: 16, rows: 128", "schedule.rows"),
        (", vector: 3", "schedule.vector"),
        (", vector: 8", "schedule.vector"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(reasons, schedule, key):
    assert [refusal.key for refusal in reasons("reduce", rows(100, 100, schedule=schedule))] == [key]


def test_a_staged_placement_is_refused(reasons):
    text = rows(4, 10).replace("shape: [M, N],", "shape: [M, N], memory: shared,")
    assert "arrays.x.memory" in [refusal.key for refusal in reasons("reduce", text)]


def test_a_reduction_of_what_the_group_writes_is_refused(reasons):
    text = rows(64, 64, "sum(x[i, j] * y[i], j)")
    assert any("read by the reduction and written" in r.reason for r in reasons("reduce", text))
