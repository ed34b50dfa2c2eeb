"""Triangular and banded matrices on tensor cores: instructions, single terms of boundary tiles, results."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.nodes import Accumulate, For, If, Mma
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.honesty import check_honesty
from tests.families.gemm.test_gemm import nodes
from tests.families.gemm.test_matrix_fragments import product_of
from tests.families.gemm.test_tiled import CONDITIONS

TENSOR = "family: gemm, cores: tensor, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 64}"
TYPES = {
    "float16": ("float16", "float16", "float32"),
    "bfloat16": ("bfloat16", "bfloat16", "float32"),
    "tf32": ("float32", "float32", "float32"),
    "float64": ("float64", "float64", "float64"),
    "int8": ("int8", "int8", "int32"),
    "float8": ("float8_e4m3", "float8_e4m3", "float32"),
    "split A": ("float32", "bfloat16", "float32"),
    "split B": ("float16", "float32", "float32"),
}


def masked(condition: str, *sizes: int, types: str = "float16", more: str = "", **options: object) -> str:
    text = product_of(TYPES[types], *sizes, schedule=TENSOR + more, **options)
    return text.replace("], k)", f"], k, where={condition})")


def test_sums_under_a_condition_are_on_tensor_cores_unasked(planned):
    text = masked("k <= m", 1024, 1024, 1024).replace(TENSOR, "")
    assert nodes(planned(text), Mma)
    assert nodes(planned(text.replace("n], k, where=k <= m)", "n] if k <= m else 0, k)")), Mma)


def test_tiles_without_a_masked_term_are_multiplied_without_a_test(planned):
    kernel = planned(masked("k <= m"))
    branches = [node for node in nodes(kernel, If) if node.orelse]
    assert len(branches) == 2  # in the k steps, and after the last
    for branch in branches:
        assert str(branch.condition.terms[0].right) == "m0 + 1"
        assert not [node for node in branch.then if isinstance(node, If)]
        assert [type(node.body[0]) for node in branch.orelse if isinstance(node, For)] == [If]


@pytest.mark.parametrize(("condition", "tested"), [("k <= m", "i"), ("k >= n", "j"), ("n <= k <= m", "j")])
def test_instructions_are_tested_along_the_indices_of_the_condition(planned, condition, tested):
    kernel = planned(masked(condition))
    loops = [node for node in nodes(kernel, For) if isinstance(node.body[0], If) and node.loop.unroll]
    assert {node.loop.index.name for node in loops if contains(node.body[0].then, Mma)} == {tested}


def test_single_terms_are_multiplied_in_boundary_tiles_only(planned):
    kernel = planned(masked("k <= m", 64, 64, 128))
    of_tile, of_instruction, of_term = (node for node in nodes(kernel, If) if contains(node.then, Accumulate))
    assert comparisons(of_tile) == ["BK + k0 - 1 >= m0 + 1", "k0 < BM + m0"]
    assert len(comparisons(of_instruction)) == 2
    assert comparisons(of_term) == ["k0 + k_ + u <= m0 + row"]


def contains(body, kind):
    return any(isinstance(node, kind) for node in walk_nodes(body))


def comparisons(branch):
    return [f"{term.left} {term.operator} {term.right}" for term in branch.condition.terms]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("condition", ["k <= m", "m - 8 <= k <= n"])
def test_the_pipeline_of_the_stages_is_proved(made, condition):
    report = analyze(made(masked(condition, 64, 64, 128)))
    assert "proved" in str(report.kernels[0].pipeline)


@pytest.mark.sampled(17)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("more", ["", pytest.param(", stages: 1", marks=pytest.mark.slow), ", stages: 2, sliced_k: 2"])
def test_a_triangular_or_banded_sum_is_right(prove, condition, more):
    prove(masked(condition, 72, 80, 88, more=more))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("k_major", [(True, False), (False, True)])
def test_each_type_and_layout_is_right_at_partial_tiles_and_without_races(prove, types, k_major):
    prove(masked("k <= m + 3 and n - 40 <= k", 50, 71, 37, types=types, k_major=k_major), races=True)


INFINITE = """
params: {N: 80}
arrays:
  A: {shape: [N, N], dtype: float16}
  B: {shape: [N, N], dtype: float16}
  L: {shape: [N, N], dtype: float16, memory: scratch}
  U: {shape: [N, N], dtype: float16, memory: scratch}
  C: {shape: [N, N], dtype: float32}
compute: |
  L[i, j] = A[i, j] / (0 if j > i else 1)
  U[i, j] = B[i, j] / (0 if i > 45 and j % 3 == 0 else 1)
  C[m, n] = sum(L[m, k] * U[k, n], k, where=k <= m)
schedule: {C: {family: gemm, cores: tensor, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 64}}}
"""


@pytest.mark.slow
def test_masked_terms_of_either_operand_may_be_infinite(made, prove):
    assert "mma_m16n8k16" in made(INFINITE).source
    prove(INFINITE)


@pytest.mark.slow
def test_each_access_is_where_the_analysis_has_it(made):
    kernel = made(masked("k <= m", 72, 80, 96))
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []


@pytest.mark.slow
def test_it_compiles(compiled):
    compiled(masked("m - 3 <= k <= n"))
    compiled(masked("k <= m", more=", stages: 1"))


@pytest.mark.slow
@settings(deadline=None, max_examples=25, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_kernels_are_right(prove, data):
    m, n, k = (data.draw(st.integers(1, 140), label=name) for name in "mnk")
    slope, index = data.draw(st.integers(-3, 3)), data.draw(st.sampled_from("mn"))
    factor, constant = data.draw(st.sampled_from([1, 1, 2, -3])), data.draw(st.integers(-99, 99))
    operator = data.draw(st.sampled_from(["<", "<=", ">", ">="]))
    condition = f"{factor} * k {operator} {slope} * {index} + {constant}"
    if data.draw(st.booleans()):
        condition += data.draw(st.sampled_from([" and k <= m", " and k > n - 7", " and k < 100"]))
    types = data.draw(st.sampled_from(list(TYPES)))
    k_major = data.draw(st.tuples(st.booleans(), st.booleans()))
    sliced = [] if types in ("int8", "float8") else [", stages: 2, sliced_k: 2"]
    more = data.draw(st.sampled_from(["", ", stages: 1", *sliced]))
    prove(masked(condition, m, n, k, types=types, k_major=k_major, more=more))
