"""A GEMM of triangular and banded matrices: the range of k-tiles, masks of boundary tiles, refusals, results."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.plan.nodes import Accumulate, Barrier, For, If
from cugen.runtime.cpu import CpuDevice
from tests.families.gemm.test_gemm import SMALL, gemm, nodes
from tests.families.gemm.test_tiled import CONDITIONS

STAGES = ("stages: 1", "stages: 2", "stages: 4, sliced_k: 2")


def masked(condition: str, *sizes: object, **options: str) -> str:
    """The GEMM of terms under a condition."""
    return gemm(*sizes, **options).replace("], k)", f"], k, where={condition})")


def definition(kernel, name: str) -> str:
    """The definition of an index, as it is printed."""
    lines = [line.strip() for line in kernel.source.splitlines()]
    return next(line for line in lines if f" {name} = " in line).split(" = ")[1].rstrip(";")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("condition", "offset", "length"),
    [
        ("k <= m", "", "BK * ((m0 + BK + BM - 1) / BK)"),
        ("k >= n", "n0", "BK * ((K + BK - 1) / BK) - k_offset"),
        ("k > n", "BK * ((n0 + 1) / BK)", "BK * ((K + BK - 1) / BK) - k_offset"),
        ("2 * k < 3 * m", "", "BK * ((min(K, (3 * m0 + 3 * BM - 2) / 2) + BK - 1) / BK)"),
        ("m - 8 <= k <= m", "max(0, m0 - 8)", "BK * ((m0 + BK + BM - 1) / BK) - k_offset"),
    ],
)
def test_a_block_takes_the_k_tiles_with_an_unmasked_term(made, condition, offset, length):
    kernel = made(masked(condition, 128, 128, 128, schedule=SMALL))
    assert definition(kernel, "k_length") == length
    assert ("k_offset = " in kernel.source) == bool(offset)
    if offset:
        assert definition(kernel, "k_offset") == offset


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("condition", "origin_m", "origin_n"),
    [
        ("k <= m", "((M + BM - 1) / BM - blockIdx.y - 1) * BM", "blockIdx.x * BN"),
        ("k >= m", "blockIdx.y * BM", "blockIdx.x * BN"),
        ("m <= k <= n", "blockIdx.y * BM", "((N + BN - 1) / BN - blockIdx.x - 1) * BN"),
        ("n <= k <= m", "((M + BM - 1) / BM - blockIdx.y - 1) * BM", "blockIdx.x * BN"),
        ("m - 8 <= k <= m", "blockIdx.y * BM", "blockIdx.x * BN"),
    ],
)
def test_blocks_begin_with_the_tiles_of_the_longest_k_ranges(made, condition, origin_m, origin_n):
    kernel = made(masked(condition, 256, 256, 256, schedule=SMALL))
    assert (definition(kernel, "m0"), definition(kernel, "n0")) == (origin_m, origin_n)


def test_k_tiles_without_a_masked_term_are_multiplied_without_a_mask(planned):
    kernel = planned(masked("k <= m", schedule=SMALL))
    branches = [node for node in nodes(kernel, If) if node.orelse]
    assert len(branches) == 2  # in the k steps, and after the last
    for branch in branches:
        assert str(branch.condition.terms[0].right) == "m0 + 1"
        assert not [node for node in branch.then if isinstance(node, If)]
        assert [type(node.body[0]) for node in branch.orelse if isinstance(node, For)] == [If]


def test_a_condition_without_n_is_tested_once_for_each_row(planned):
    kernel = planned(masked("k <= m", schedule=SMALL))
    for branch in (node for node in nodes(kernel, If) if node.orelse):
        (rows,) = branch.orelse
        (guard,) = rows.body
        (columns,) = guard.then
        assert isinstance(columns.body[0], Accumulate)


def test_its_barriers_are_those_of_all_k(planned):
    condition = masked("k <= m", schedule=SMALL + ", stages: 3")
    assert len(nodes(planned(condition), Barrier)) == len(nodes(planned(gemm(schedule=SMALL + ", stages: 3")), Barrier))


def test_blocks_are_not_shifted_inward_as_ranges_begin_at_multiples_of_the_tile(made):
    assert "min(blockIdx" not in made(masked("k <= m", schedule=SMALL)).source


def test_sums_under_a_condition_are_taken_unasked(planned):
    assert planned(masked("k <= m", 1024, 1024, 1024, schedule="")).family == "gemm"


def test_stages_of_an_operand_request_gemm(planned):
    assert planned(masked("k <= m", a=", memory: {space: shared, stages: 3}", schedule="")).family == "gemm"


@pytest.mark.parametrize(
    ("schedule", "dtype", "why"),
    [
        (SMALL + ", split_k: 2", "float32", "split-K and stream-K divide all of K"),
        ("split_k: 2, reduction: cluster", "float32", "split-K and stream-K divide all of K"),
        (SMALL + ", stream_k: 1", "float32", "split-K and stream-K divide all of K"),
        (SMALL + ", prefetch: interleaved", "float32", "here may be 0"),
    ],
)
def test_pieces_that_take_no_condition_say_so(reasons, schedule, dtype, why):
    refusals = reasons("gemm", "target: sm_90\n" + masked("k <= m", 64, 64, 64, dtype=dtype, schedule=schedule))
    assert any(why in refusal.reason for refusal in refusals), refusals


# Results


@pytest.mark.sampled(15)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("more", [STAGES[0], pytest.param(STAGES[1], marks=pytest.mark.slow), STAGES[2]])
def test_a_triangular_or_banded_sum_is_right(prove, condition, more):
    prove(masked(condition, 50, 41, 37, schedule=f"{SMALL}, {more}"))


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["k <= m", "k > n"])
def test_edges_are_free_of_races(prove, condition):
    prove(masked(condition, 33, 41, 65, schedule=SMALL), races=True)


def test_tiles_without_a_k_tile_are_zero(prove):
    prove(masked("k > m + 20", 64, 48, 65, schedule=SMALL), races=True)


INFINITE = """
params: {N: 40}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  L: {shape: [N, N], dtype: float32, memory: scratch}
  C: {shape: [N, N], dtype: float32}
compute: |
  L[i, j] = A[i, j] / (0 if j > i else 1)
  C[m, n] = sum(L[m, k] * B[k, n], k, where=k <= m)
schedule: {C: {family: gemm, block: {m: 32, n: 32}, thread: {m: 4, n: 4}, step: {k: 8}}}
"""


@pytest.mark.slow
def test_masked_terms_may_be_infinite(prove):
    prove(INFINITE)


@pytest.mark.slow
def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(masked("k >= m - 5 and k <= m + 2 * n", sizes, sizes, sizes, schedule=SMALL)), CpuDevice())


@pytest.mark.slow
def test_it_compiles(compiled):
    compiled(masked("m - 3 <= k <= n", schedule=SMALL))
    compiled(masked("k <= m", schedule=SMALL + ", stages: 1"))


@pytest.mark.slow
@settings(deadline=None, max_examples=25, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_kernels_are_right(prove, data):
    m, k, n = (data.draw(st.integers(1, 140), label=name) for name in "mkn")
    slope, index, constant = (
        data.draw(st.integers(-3, 3)),
        data.draw(st.sampled_from("mn")),
        data.draw(st.integers(-99, 99)),
    )
    operator = data.draw(st.sampled_from(["<", "<=", ">", ">="]))
    factor = data.draw(st.sampled_from([1, 1, 2, 3, -2]))
    condition = f"{factor} * k {operator} {slope} * {index} + {constant}"
    if data.draw(st.booleans()):
        condition += data.draw(st.sampled_from([" and k <= m", " and k > n - 7", " and k < 100"]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "float16"]))
    more = data.draw(st.sampled_from(STAGES)) + (", cores: cuda" if dtype == "float64" else "")
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    prove(masked(condition, m, k, n, dtype=dtype, transposed=transposed, schedule=f"{SMALL}, {more}"))
