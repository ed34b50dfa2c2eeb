"""Tiled contractions: tile layouts and padding, guards, K ranges of masked sums, refusals, results."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import Declare
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.cpu import CpuDevice

CONTRACTION = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [M, K], dtype: float32{a}}}
  B: {{shape: [{b_shape}], dtype: float32{b}}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[{b_indices}], k)
schedule: {{{schedule}}}
"""


def contraction(m=64, k=32, n=48, a="", b="", transposed=False, schedule="block: {m: 16, n: 16}") -> str:
    shape, b_indices = ("N, K", "n, k") if transposed else ("K, N", "k, n")
    return CONTRACTION.format(m=m, k=k, n=n, a=a, b=b, b_shape=shape, b_indices=b_indices, schedule=schedule)


def tiles(kernel) -> dict[str, tuple[int, ...]]:
    """The extents of each tile as they are declared, padding included."""
    nodes = [node for node in walk_nodes(kernel.body) if isinstance(node, Declare) and node.array.space == "shared"]
    return {node.array.symbol: tuple(int(e) for e in node.array.padded_shape) for node in nodes}


def test_even_sizes_have_no_guards(made):
    source = made(contraction()).source
    assert " < M" not in source
    assert "return;" not in source.split("launch(")[0]


@pytest.mark.parametrize(("sizes", "guard"), [({"m": 65}, "m < M"), ({"n": 49}, "n < N"), ({"k": 33}, "k0 + tx < K")])
def test_only_the_uneven_dimension_is_guarded(made, sizes, guard):
    source = made(contraction(**sizes)).source
    unneeded = {"m < M", "n < N", "k0 + tx < K"} - {guard}
    assert guard in source
    assert not any(comparison in source for comparison in unneeded)


def test_a_tile_has_the_layout_of_its_operand_so_that_its_copy_coalesces(planned):
    assert tiles(planned(contraction(transposed=True, b=", memory: shared"))) == {"As": (16, 16), "Bs": (16, 16)}


def test_an_unplaced_tile_is_padded_where_threads_read_along_its_columns(planned):
    assert tiles(planned(contraction(transposed=True))) == {"As": (16, 16), "Bs": (16, 17)}
    assert tiles(planned(contraction())) == {"As": (16, 16), "Bs": (16, 16)}


def test_an_operand_kept_in_global_memory_is_read_there(made):
    source = made(contraction(b=", memory: global")).source
    assert "Bs[" not in source
    assert "+= As[ty][" in source


def test_a_grid_of_unbounded_size_is_one_dimensional(planned):
    assert [str(extent) for extent in planned(contraction(m="dynamic")).grid[1:]] == ["1", "1"]
    assert [str(extent) for extent in planned(contraction(m="{range: [1, 4096]}")).grid[1:]] != ["1", "1"]


def test_two_operands_in_global_memory_leave_nothing_to_stage(reasons):
    refusals = reasons("tiled", contraction(a=", memory: global", b=", memory: global"))
    assert any("stages at least one operand" in refusal.reason for refusal in refusals)


@pytest.mark.parametrize(
    ("schedule", "word"),
    [
        ("block: {k: 16}", "not for k"),
        ("step: {m: 16}", "step sizes are for k, not for m"),
    ],
)
def test_schedule_keys_of_wrong_indices_are_refused(reasons, schedule, word):
    assert any(word in refusal.reason for refusal in reasons("tiled", contraction(schedule=schedule)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_swizzle_of_rows_that_are_no_power_of_two_is_refused(reasons, dtype):
    """Of rows of a sector, too, which other kernels keep together: columns would be permuted out of the tile."""
    swizzle, schedule = ", memory: {space: shared, swizzle: xor}", "block: {m: 4, n: 4}, step: {k: 5}"
    swizzled = contraction(b=swizzle, transposed=True, schedule=schedule)
    refusals = reasons("tiled", swizzled.replace("float32", dtype))
    assert any("tile rows of a power of two, not of 5" in refusal.reason for refusal in refusals)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (15, 16, 17), (31, 33, 7), (48, 5, 64)])
@pytest.mark.parametrize(
    "schedule", ["block: {m: 16, n: 16}", "block: {m: 32, n: 16}, thread: {m: 4, n: 2}, step: {k: 8}"]
)
def test_edge_sizes_are_right(prove, sizes, schedule):
    m, k, n = sizes
    prove(
        contraction(m, k, n, a=", memory: {space: shared, pad: 1}", b=", memory: shared", schedule=schedule), races=True
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("sizes", "block"), [((7, 5), (8, 8)), ((9, 33), (16, 16)), ((200, 3), (8, 16)), ((1, 90), (16, 8))]
)
def test_a_chosen_tile_is_no_longer_than_short_extents(prove, planned, sizes, block):
    m, n = sizes
    text = contraction(m, 70, n, a=", memory: shared", b=", memory: shared", schedule="family: tiled")
    assert planned(text).block[:2] == block
    prove(text, races=True)


CONDITIONS = [
    "k <= m",
    "k < m",
    "k >= n",
    "n > k",
    "m >= k and k >= n",
    "m - 3 <= k <= m + 5",
    "m - 40 <= k and k <= n + 3",
    "2 * m - 60 <= k and k < 3 * n - m",
    "k < 50 - m",
    "3 * k <= 2 * m + 5 and 2 * n - 7 <= 5 * k",
    "k > 16 and k < 30",
]


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param("block: {m: 16, n: 16}", marks=pytest.mark.slow, id="default thread tile"),
        pytest.param("block: {m: 24, n: 32}, thread: {m: 3, n: 2}, step: {k: 7}", id="partial tiles"),
    ],
)
def test_a_triangular_or_banded_sum_is_right(made, check, condition, schedule):
    text = contraction(50, 41, 37, schedule=schedule).replace("n], k)", f"n], k, where={condition})")
    kernel = made(text)
    assert [k.family for k in kernel.plan.kernels] == ["tiled"]
    check(kernel, CpuDevice())


@pytest.mark.parametrize(
    ("condition", "header"),
    [
        ("k <= m", "for (int k0 = 0; k0 < m0 + BM; k0 += BK)"),
        ("k >= n", "for (int k0 = n0; k0 < K; k0 += BK)"),
        ("k > n", "for (int k0 = BK * ((n0 + 1) / BK); k0 < K; k0 += BK)"),
        ("k >= m - 16", "for (int k0 = max(0, m0 - 16); k0 < K; k0 += BK)"),
    ],
)
def test_a_block_skips_masked_k_tiles(made, condition, header):
    text = contraction(64, 64, 64).replace("n], k)", f"n], k, where={condition})")
    assert header in made(text).source


def test_the_k_tile_index_is_64_bit_where_it_could_overflow(made):
    assert "for (long long k0 = 0;" in made(contraction(k="dynamic")).source
    assert "for (int k0 = 0;" in made(contraction(k="{range: [1, 2147483632]}")).source


def test_m_is_fused_with_a_batch_dimension_of_one_operand(made):
    text = """
params: {{B: 5, M: 7, K: 20, N: 33}}
arrays:
  A: {{shape: [B, M, K], dtype: float32{pitch}}}
  W: {{shape: [K, N], dtype: float32}}
  C: {{shape: [B, M, N], dtype: float32}}
compute: C[b, m, n] = sum(A[b, m, k] * W[k, n], k)
schedule: {{{schedule}}}
"""
    assert "const int bm0 = blockIdx.y * BM;" in made(text.format(pitch="", schedule="family: tiled")).source
    pitched = made(text.format(pitch=", layout: {strides: [200, 20, 1]}", schedule="family: tiled")).source
    assert "const int b = blockIdx.z;" in pitched
    assert "const int b = blockIdx.z;" in made(text.format(pitch="", schedule="block: {m: 8, n: 16}")).source


@pytest.mark.parametrize("condition", ["k % 2 == 0", "k * k <= m", "A[m, k] > 0", "m <= n", "k <= m * m", "k == m"])
def test_a_condition_that_does_not_bound_k_is_refused(reasons, condition):
    text = contraction(schedule="").replace("n], k)", f"n], k, where={condition})")
    assert any("bound" in refusal.reason for refusal in reasons("tiled", text))


def test_a_batch_subscript_in_bounds_only_under_a_condition_is_refused(reasons):
    text = """
params: {B: 5, M: 7}
arrays:
  A: {shape: [B, M, M], dtype: float32}
  C: {shape: [B, M, M], dtype: float32}
compute: C[b, m, n] = where(b > 0, sum(A[b - 1, m, k] * A[b, k, n], k), 0)
"""
    assert any("under a condition" in refusal.reason for refusal in reasons("tiled", text))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("sum(exp(A[m, k] * B[k, n]), k)", "0 where the operands are 0"),
        ("sum(A[m, k] * B[k, n] + 1, k)", "0 where the operands are 0"),
        ("sum(A[m, k] * B[k, n], k) + sum(A[m, k] * A[m, k], k)", "depend on M and on N"),
        ("sum(A[m, k] * B[k, n], k) + sum(A[m, k] * B[k, n], k, where=k <= m)", "same condition"),
        ("sum(A[m, k] * B[k, n], k) * max(A[m, k] * B[k, n], k)", "takes sums"),
        ("sum(A[m, k] * B[k, n] * n, k)", "0 where the operands are 0"),
    ],
)
def test_terms_that_zero_padding_would_change_or_that_share_no_loop_are_refused(reasons, value, word):
    text = contraction(schedule="").replace("sum(A[m, k] * B[k, n], k)", value)
    refusals = reasons("tiled", text)
    assert any(word in refusal.reason for refusal in refusals), refusals


def test_an_operand_of_two_sums_is_staged_once(planned):
    text = contraction(schedule="").replace("B[k, n], k)", "B[k, n], k) * sum(A[m, k] * abs(B[k, n]), k)")
    assert len(tiles(planned(text))) == 2


def test_contracted_indices_are_fused_where_memory_is_dense(prove):
    text = """
params: {B: 20, H: 5, W: 7}
arrays:
  f: {shape: [B, H, W], dtype: float32}
  g: {shape: [B, B], dtype: float32}
compute: g[b, c] = sum(f[b, y, x] * f[c, y, x], y, x) / 35
schedule: {family: tiled}
"""
    prove(text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_compiler_is_left_the_registers_of_tiles_that_no_model_chose(made, dtype):
    text = contraction(m=4096, k=4096, n=4096, schedule="family: tiled").replace("float32", dtype)
    assert "__launch_bounds__(256)" in made(text).source
