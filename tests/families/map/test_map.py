"""Elementwise statements: vector widths and their reasons, guards and tails."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For
from cugen.plan.traversal.walking import accesses, walk_nodes


def kinds(kernel: Kernel) -> set[str]:
    return {type(node).__name__ for node in walk_nodes(kernel.body)}


@pytest.mark.parametrize(
    ("dtype", "width"),
    [("float64", 2), ("float32", 4), ("float16", 8), ("bfloat16", 8), ("int8", 16), ("bool", 16), ("int64", 2)],
)
def test_by_default_an_access_moves_16_bytes(planned, dtype, width, widths):
    text = f"arrays:\n  X: {{shape: [64, 64], dtype: {dtype}}}\n  Y: {{shape: [64, 64], dtype: {dtype}}}"
    kernel = planned(f"{text}\ncompute: Y[i, j] = X[i, j]\n")
    assert kernel.family == "map"
    assert widths(kernel) == {"X": width, "Y": width}
    assert dict(kernel.alignments) == {"X": 16, "Y": 16}


def test_the_widest_type_limits_the_vector(planned, widths):
    kernel = planned(
        "arrays:\n  X: {shape: [64], dtype: int8}\n  Y: {shape: [64], dtype: float32}\ncompute: Y[i] = X[i]\n"
    )
    assert widths(kernel) == {"X": 4, "Y": 4}
    assert dict(kernel.alignments) == {"X": 4, "Y": 16}


@pytest.mark.parametrize("scale", ["s[m, k // 32]", "s[m // 8, k]", "s[m // 8, (k + 1) // 65]", "s[m, k // 4 // 8]"])
def test_scales_of_several_elements_leave_vectors_as_wide(planned, prove, widths, scale):
    text = (
        "params: {M: %d, K: 128}\narrays:\n  q: {shape: [M, K], dtype: int8}\n  s: {shape: [M, K], dtype: float16}\n"
        f"  y: {{shape: [M, K], dtype: float16}}\ncompute: y[m, k] = q[m, k] * {scale}\n"
    )
    assert {name: width for name, width in widths(planned(text % 4096)).items() if name != "s"} == {"q": 8, "y": 8}
    prove(text % 16)


def test_dense_matrices_of_one_shape_become_one_flat_row(planned, widths):
    kernel = planned(
        "arrays:\n  X: {shape: [5, 7], dtype: float32}\n  Y: {shape: [5, 7], dtype: float32}\n"
        "compute: Y[m, n] = X[m, n]\n"
    )
    assert kernel.block == (256, 1, 1)
    assert {access.array.shape for access in accesses(kernel.body)} == {(35,)}
    assert widths(kernel) == {"X": 4, "Y": 4}


def test_matrices_of_different_layout_are_not_flattened(planned, widths):
    kernel = planned(
        "arrays:\n  X: {shape: [8, 8], dtype: float32, layout: column, memory: global}\n"
        "  Y: {shape: [8, 8], dtype: float32}\ncompute: Y[m, n] = X[m, n]\n"
    )
    assert kernel.family == "map"
    assert {len(access.subscripts) for access in accesses(kernel.body)} == {2}
    assert widths(kernel) == {"X": 1, "Y": 1}


def test_short_unaligned_rows_are_scalar(planned, widths, matrix):
    kernel = planned(matrix(10, 77))
    assert widths(kernel) == {"X": 1, "b": 1, "Y": 1}
    assert any("multiple of 1 elements only" in reason for reason in kernel.reasons)


def test_vectors_of_long_unaligned_rows_start_at_sectors(planned, made, widths, matrix):
    text = matrix(10, 777)
    assert widths(planned(text)) == {"X": 4, "b": 1, "Y": 4}
    source = made(text).source
    assert "const int misalignment = N * threadIdx.y % 8;" in source
    assert "if (n0 >= 0 && n0 + 3 < N) {" in source


def test_rows_of_different_alignment_are_not_shifted(planned, widths, matrix):
    assert widths(planned(matrix(10, 777, x="pitch: 778"))) == {"X": 1, "b": 1, "Y": 1}
    assert widths(planned(matrix(10, 777, x="pitch: 785"))) == {"X": 4, "b": 1, "Y": 4}


@pytest.mark.slow
@settings(max_examples=6)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(129, 700),
    dtype=st.sampled_from(["float32", "float16", "int8", "float64"]),
)
def test_long_rows_of_any_length_are_right(prove, rows, columns, dtype):
    text = (
        f"params: {{M: {rows}, N: {columns}}}\narrays:\n  X: {{shape: [2, M, N], dtype: {dtype}}}\n"
        f"  b: {{shape: [N], dtype: {dtype}}}\n  Y: {{shape: [2, M, N], dtype: {dtype}}}\n"
        "compute: Y[k, m, n] += X[k, m, n] + b[n]\n"
    )
    prove(text)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_no_access_of_a_shifted_row_is_out_of_bounds(prove, dtype):
    arrays = f"  X: {{shape: [7, 517], dtype: {dtype}}}\n  Y: {{shape: [7, 517], dtype: {dtype}}}\n"
    prove(
        f"arrays:\n{arrays}  b: {{shape: [517], dtype: {dtype}}}\ncompute: Y[m, n] += X[m, n] + b[n]\n", sanitize=True
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (5, 0), (1, 1), (3, 64), (7, 301)])
def test_dynamic_rows_are_right(prove, rows, columns, matrix):
    prove(matrix("dynamic", "dynamic"), params={"M": rows, "N": columns})


def test_an_aligned_pitch_makes_odd_rows_wide(planned, widths, matrix):
    kernel = planned(matrix(10, 777, x="pitch: 784", y="pitch: {align: 128}"))
    assert widths(kernel) == {"X": 4, "b": 4, "Y": 4}


def test_half_an_alignment_gives_half_a_vector(planned, widths, matrix):
    assert widths(planned(matrix(10, 78)))["X"] == 2


def test_a_dynamic_extent_is_as_wide_as_its_multiple_allows(planned, widths, matrix):
    assert widths(planned(matrix(10, "{multiple_of: 8}")))["Y"] == 4
    assert widths(planned(matrix(10, "{range: [0, 64], multiple_of: 2}")))["Y"] == 2
    assert widths(planned(matrix(10, "{range: [0, 64]}")))["Y"] == 1
    assert widths(planned(matrix(10, "dynamic")))["Y"] == 4
    assert widths(planned(matrix("dynamic", 64)))["Y"] == 4


def test_a_broadcast_along_the_vector_is_read_once(planned, widths):
    kernel = planned(
        "arrays:\n  X: {shape: [8, 64], dtype: float32}\n  s: {shape: [8], dtype: float32}\n"
        "  Y: {shape: [8, 64], dtype: float32}\ncompute: Y[m, n] = s[m] * X[m, n]\n"
    )
    assert widths(kernel) == {"X": 4, "s": 1, "Y": 4}
    (loop,) = [node for node in walk_nodes(kernel.body) if isinstance(node, For)]
    assert "s" not in [access.array.name for access in accesses(loop.body)]


def test_an_element_that_may_be_out_of_bounds_is_read_under_its_condition(prove, planned, widths):
    text = (
        "params: {N: dynamic}\narrays:\n  X: {shape: [N, 64], dtype: float32}\n  Y: {shape: [9, 64], dtype: float32}\n"
        "compute: Y[i, j] = X[5, j] if N > 5 else 0\n"
    )
    assert widths(planned(text)) == {"X": 1, "Y": 4}
    prove(text, params={"N": 3}, sanitize=True)
    prove(text, params={"N": 6}, sanitize=True)


def test_a_broadcast_operand_of_a_wider_type_takes_several_loads(planned, prove, widths):
    text = (
        "params: {M: 5, N: 48}\narrays:\n  X: {shape: [M, N], dtype: int8}\n  b: {shape: [N], dtype: float64}\n"
        "  Y: {shape: [M, N], dtype: int8}\ncompute: Y[m, n] = cast(X[m, n] + b[n], int8)\n"
    )
    assert widths(planned(text)) == {"X": 16, "b": 2, "Y": 16}
    prove(text, sanitize=True)


def test_a_partial_vector_is_a_scalar_loop(made, saxpy):
    text = made(saxpy(1001)).source
    assert "if (i + 3 < N) {" in text
    assert "for (int tail = i; tail < N; ++tail)" in text


def test_divisible_extents_have_no_guards(planned, saxpy):
    kernel = planned(saxpy(2048))
    assert kinds(kernel).isdisjoint({"If", "ReturnUnless"})
    assert "ReturnUnless" in kinds(planned(saxpy(2052)))
    assert "If" not in kinds(planned(saxpy(2052)))


def test_a_vector_is_not_longer_than_the_array(planned, widths, saxpy):
    assert widths(planned(saxpy(3)))["X"] == 2
    assert widths(planned(saxpy(1)))["X"] == 1


def test_an_index_that_may_exceed_32_bits_is_64_bits(made):
    text = made(
        "params: {M: dynamic, N: dynamic}\narrays:\n  X: {shape: [M, N], dtype: int8}\n"
        "  Y: {shape: [M, N], dtype: int8}\ncompute: Y[m, n] = X[m, n]\n"
    ).source
    assert "const long long i = (long long)blockIdx.x * 4096 + threadIdx.x * 16;" in text


def test_indices_that_are_contiguous_in_all_arrays_are_fused(made, planned, prove):
    text = (
        "params: {B: 3, H: 5, T: 7, D: 8}\narrays:\n  x: {shape: [B, H, T, D], dtype: float32}\n"
        "  w: {shape: [T, D], dtype: float32}\n  s: {shape: [B, H], dtype: float32}\n"
        "  y: {shape: [B, 1, H, T, D], dtype: float32}\n"
        "compute: y[b, z, h, t, d] = x[b, h, t, d] * w[t, d] + s[b, h]\n"
    )
    kernel = planned(text)
    assert {a.array.name: len(a.subscripts) for a in accesses(kernel.body)} == {"x": 2, "w": 1, "s": 1, "y": 3}
    assert "y[bh * (D * T) + td]" in made(text).source
    prove(text)


def test_indices_used_as_values_are_not_fused(planned):
    kernel = planned(
        "arrays:\n  x: {shape: [6, 8], dtype: float32}\n  y: {shape: [6, 8], dtype: float32}\n"
        "compute: y[i, j] = x[i, j] + j\n"
    )
    assert {len(a.subscripts) for a in accesses(kernel.body)} == {2}


def test_narrow_accesses_are_unrolled_to_16_bytes_per_thread(planned, made, widths, matrix):
    text = matrix(4096, 4097, x="pitch: 4098")
    kernel = planned(text)
    assert (kernel.block, widths(kernel)["X"]) == ((256, 1, 1), 1)
    source = made(text).source
    assert "if (m0 + 3 < M) {" not in source
    assert "for (int m = m0; m < m0 + 4; ++m) {" in source


def swapped(rows: int, columns: int, schedule: str = "") -> str:
    """Rows that are copied in another order, as single elements of different alignment."""
    return f"""
arrays:
  X: {{shape: [{rows}, 7, {columns}], dtype: bfloat16}}
  Y: {{shape: [7, {rows}, {columns}], dtype: bfloat16}}
compute: Y[b, m, n] = X[m, b, n]
schedule: {{{schedule}}}
"""


def test_elements_of_rows_that_blocks_cut_often_have_a_guard_each(made):
    source = made(swapped(12, 447, "vectors: 8")).source
    assert "for (int n = first; n < first + 512; n += 64) {" in source
    assert "if (n < 447) {" in source
    assert "unroll 1" not in source


def test_elements_of_long_rows_that_blocks_cut_seldom_are_copied_one_by_one(made):
    source = made(swapped(3, 9999, "vectors: 4")).source
    assert "#pragma unroll 1\n" in source


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 7, 63, 64, 65, 447, 1031])
def test_rows_that_blocks_cut_are_right(prove, columns):
    prove(swapped(5, columns, "vectors: 8"))
    prove(swapped(13, columns, "vectors: 4"))


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [2, 8])
@pytest.mark.parametrize("size", [33, 8195])
def test_any_number_of_vectors_per_thread_is_right(prove, made, vectors, size, saxpy, matrix):
    prove(saxpy(size, f"vectors: {vectors}"))
    prove(matrix(13, 24, schedule=f"vectors: {vectors}"))
    prove(saxpy("dynamic", f"vectors: {vectors}"), params={"N": size})


@pytest.mark.parametrize("vector", [1, 2, 4])
def test_a_schedule_sets_the_vector(planned, vector, widths, saxpy):
    assert widths(planned(saxpy(100, f"vector: {vector}")))["X"] == vector
    assert widths(planned(saxpy(100, f"thread: {{i: {vector}}}")))["Y"] == vector


def test_a_schedule_sets_the_block(made, matrix):
    (launch,) = made(matrix(64, 256, schedule="block: {m: 4, n: 128}")).manifest.launches
    assert launch.block == (32, 4, 1)
    assert launch.grid == (2, 16, 1)


@pytest.mark.parametrize(
    ("schedule", "key", "words"),
    [
        ("vector: 8", "schedule.vector", "16 bytes, the most that one access moves"),
        ("vector: 3", "schedule.vector", "may be 1, 2, 4, 8, 16, not 3"),
        ("thread: {i: 3}", "schedule.thread.i", "1, 2, 4, 8, 16 elements, not 3"),
        ("block: {i: 33}, vector: 4", "schedule.block.i", "don't divide"),
        ("vector: 2, thread: {i: 4}", "schedule.vector", "they differ"),
        ("width: 2", "schedule.width", "no tunable"),
    ],
)
def test_an_impossible_schedule_is_refused_with_its_key(reasons, schedule, key, words, saxpy):
    (refusal,) = reasons("map", saxpy(1000, schedule))
    assert refusal.key == key
    assert words in refusal.reason


def test_a_vector_that_alignment_forbids_names_the_dimension(reasons, matrix):
    (refusal,) = reasons("map", matrix(10, 777, schedule="vector: 4"))
    assert "dimension 0 in X" in refusal.reason


@pytest.mark.parametrize(
    ("compute", "words"),
    [
        ("Y[i] = sum(A[i, k], k)", "sum over k"),
        ("Y[i] = cumsum(X[i], i)", "sum over i"),
        ("Y[i] = cast(argmin(A[i, k], k), float32)", "Y is an argmin over k"),
        ("Y[63 - i] = X[i]", "writes Y at indices plus offsets only"),
    ],
)
def test_loops_and_backward_results_are_refused(reasons, compute, words):
    arrays = {
        "A": "{shape: [64, 64], dtype: float32}",
        "X": "{shape: [64], dtype: float32, boundary: zero}",
        "Y": "{shape: [64], dtype: float32}",
    }
    used = "".join(f"  {name}: {text}\n" for name, text in arrays.items() if re.search(rf"\b{name}\[", compute))
    assert any(words in refusal.reason for refusal in reasons("map", f"arrays:\n{used}compute: {compute}\n"))


def test_an_array_read_at_an_offset_is_no_permutation(reasons):
    text = (
        "arrays:\n  X: {shape: [64], dtype: float32, boundary: zero}\n  Y: {shape: [64], dtype: float32}\n"
        "compute: Y[i] = X[i - 1] + X[i + 1]\n"
    )
    assert [refusal.reason for refusal in reasons("map", text)] == []
    assert "reads arrays inside of their bounds only; X has a boundary" in [
        r.reason for r in reasons("transpose", text)
    ]


def test_a_tile_in_shared_memory_is_left_to_other_families(reasons, matrix):
    text = matrix(8, 8, b="memory: shared")
    (refusal,) = reasons("map", text)
    assert refusal.key == "arrays.b.memory"


def test_constant_inputs_are_scalar_loads_and_read_only_ones_vectors(made, planned, widths):
    text = "arrays:\n  X: {shape: [64], dtype: float32}\n  c: {shape: [64], dtype: float32, memory: %s}\n"
    text += "  Y: {shape: [64], dtype: float32}\ncompute: Y[i] = c[i] * X[i]\n"
    assert widths(planned(text % "constant")) == {"X": 4, "c": 1, "Y": 4}
    assert widths(planned(text % "readonly")) == {"X": 4, "c": 4, "Y": 4}
    assert "__ldg(&c[i])" in made(text % "readonly" + "schedule: {vector: 1}\n").source


def test_a_pure_copy_moves_narrow_floats_unconverted(made):
    text = made(
        "arrays:\n  X: {shape: [64], dtype: float16}\n  Y: {shape: [64], dtype: float16}\ncompute: Y[i] = X[i]\n"
    ).source
    assert "store<8>(&Y[i], x8);" in text


@pytest.mark.parametrize(("out", "is_copied"), [("bfloat16", True), ("float16", False)])
def test_a_single_element_is_copied_unconverted(made, out, is_copied):
    kernel = made(
        f"arrays:\n  X: {{shape: [9, 8, 7], dtype: bfloat16}}\n  Y: {{shape: [8, 9, 7], dtype: {out}}}\n"
        "compute: Y[b, a, c] = X[a, b, c]\n"
    )
    assert ("] = X[(" in kernel.source) == is_copied


def test_an_element_that_two_statements_store_is_loaded_once(planned):
    kernel = planned(
        "arrays:\n  X: {shape: [9, 8, 7], dtype: int32}\n  Y: {shape: [8, 9, 7], dtype: int32}\n"
        "  Z: {shape: [8, 9, 7], dtype: int32}\ncompute: |\n  Y[b, a, c] = X[a, b, c]\n  Z[b, a, c] = X[a, b, c]\n"
    )
    assert [access.array.name for access in accesses(kernel.body)].count("X") == 1


def test_more_rows_than_grid_y_allows_go_along_x(planned, matrix):
    kernel = planned(matrix(30_000_000, 8))
    assert kernel.grid[1:] == (1, 1)
