"""A GEMM of several sums over one K: accumulators and operands, what it combines with, results."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.config import Reduction, Stores, TileConfig
from cugen.families.gemm.problem import problem_of, registers_per_thread, why_invalid, why_invalid_variant
from cugen.families.gemm.selection.heuristic import rank
from cugen.kernel_report import analyze
from cugen.machine import target
from cugen.plan.memory import Vector
from cugen.plan.nodes import Accumulate, Copy, Declare, Let
from cugen.runtime.cpu import CpuDevice
from tests.families.gemm.test_gemm import SMALL, gemm, nodes, request_of, tiles

TWO = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}}}
  B: {{shape: [K, N], dtype: {dtype}}}
  E: {{shape: [{shape}], dtype: {of_e}}}
  C: {{shape: [M, N], dtype: {dtype}}}
  D: {{shape: [M, N], dtype: {dtype}}}
compute: |
  C[m, n] = sum(A[m, k] * B[k, n], k{where})
  D[m, n] = sum(A[m, k] * E[{subscripts}], k{where}) - {factor} * C[m, n]
schedule: {{{schedule}}}
"""
PRODUCT = "sum(A[m, k] * B[k, n], k)"
RATIO = f"{PRODUCT} / (1 + sum(abs(A[m, k] * B[k, n]), k))"
TRIPLE = "sum(A[m, k] * B[k, n] * (B[k, n] - 2 * A[m, k]), k)"


def two(m=65, k=20, n=72, *, dtype="float32", of_e="", where="", transposed=False, factor=2, schedule=SMALL) -> str:
    """Two GEMMs of one A; the second B may be transposed, and of another type."""
    return TWO.format(
        m=m,
        k=k,
        n=n,
        dtype=dtype,
        of_e=of_e or dtype,
        where=where and f", where={where}",
        factor=factor,
        shape="N, K" if transposed else "K, N",
        subscripts="n, k" if transposed else "k, n",
        schedule=schedule,
    )


def ratio(*sizes, **options) -> str:
    """The quotient of two sums over the same operands."""
    return gemm(*sizes, **options).replace(PRODUCT, RATIO)


def test_each_sum_has_accumulators_and_each_operand_a_tile(planned):
    kernel = planned(two(schedule=SMALL + ", stages: 3"))
    assert tiles(kernel) == {"As": (3, 8, 36), "Bs": (3, 8, 64), "Es": (3, 8, 64)}
    registers = [node.array for node in nodes(kernel, Declare) if node.array.space == "register"]
    assert [tuple(map(int, array.shape)) for array in registers] == [(4, 8), (4, 8)]


def test_operands_of_both_sums_are_copied_once(planned):
    kernel = planned(ratio(schedule=SMALL))
    assert set(tiles(kernel)) == {"As", "Bs"}
    assert len(nodes(kernel, Copy)) == 4  # in the prologue, and in the main loop
    assert len(nodes(kernel, Accumulate)) == 4  # of each sum in the k steps, and after the last


def test_one_sum_may_have_more_operands(planned):
    text = gemm(schedule=SMALL).replace("A[m, k] * B[k, n], k)", "A[m, k] * B[k, n] * D[k, n], k)")
    kernel = planned(text.replace("  C:", "  D: {shape: [K, N], dtype: float32}\n  C:"))
    assert set(tiles(kernel)) == {"As", "Bs", "Ds"}


def test_fragments_of_a_side_have_one_width_whatever_their_types(planned):
    lets = [node.local for node in nodes(planned(two(of_e="float16")), Let) if isinstance(node.local, Vector)]
    assert {(vector.name, vector.width) for vector in lets if "frag" in vector.name} == {
        ("a_frag", 4),
        ("b_frag", 4),
        ("e_frag", 4),
    }


@pytest.mark.parametrize("name", ["sm_50", "sm_90"])
@pytest.mark.parametrize("text", [two(512, 4096, 512, schedule=""), gemm(512, 4096, 511, schedule="")])
def test_variants_of_a_valid_config_are_valid_where_the_whole_check_says_so(text, name):
    contraction = recognise(replace(request_of(text), target=target(name)))
    problem = problem_of(contraction)
    splits = [
        {"stores": Stores.SHARED},
        {"split_k": 4, "reduction": Reduction.CLUSTER},
        {"split_k": 8},
        {"stream_k": 1},
    ]
    answers = set()
    for config in dict.fromkeys(config for _, config in rank(contraction) if not config.exchanges_in_shared):
        for split in splits:
            variant = replace(config, **split)
            whole = why_invalid(contraction, variant)
            assert why_invalid_variant(problem, variant, contraction.request.target) == whole
            answers.add(bool(whole))
    assert False in answers


def test_registers_are_those_of_all_accumulators():
    contraction = recognise(request_of(two()))
    assert isinstance(contraction, Contraction)
    config = TileConfig(32, 64, 4, 8, 8)
    single = recognise(request_of(gemm()))
    assert isinstance(single, Contraction)
    both, of_one_sum = (registers_per_thread(problem_of(match), config) for match in (contraction, single))
    assert both - of_one_sum == 4 * 8 + 8  # accumulators, and a fragment of the second B


def test_tiled_takes_several_short_sums_that_nobody_requests_of_gemm(planned, reasons):
    text = ratio(1024, 16, 1024, schedule="")
    assert planned(text).family == "tiled"
    assert any("leaves several sums to `tiled`" in refusal.reason for refusal in reasons("gemm", text))


def test_every_access_of_whole_tiles_is_ideal(made):
    wide = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}, stages: 1"
    (launch,) = analyze(made(two(64, 64, 128, schedule=wide))).kernels
    assert {access.verdict for access in launch.accesses} == {"ideal"}


@pytest.mark.parametrize(
    ("schedule", "dtype", "why"),
    [
        (SMALL + ", sliced_k: 2", "float32", "the epilogue through shared memory adds the partial sums of one"),
        (SMALL + ", split_k: 2, reduction: cluster", "float32", "the epilogue through shared memory adds"),
        ("cores: tensor", "float64", "tensor cores take one sum over two operands"),
    ],
)
def test_pieces_that_take_one_sum_say_so(reasons, schedule, dtype, why):
    refusals = reasons("gemm", "target: sm_90\n" + two(64, 64, 64, dtype=dtype, schedule=schedule))
    assert any(why in refusal.reason for refusal in refusals), refusals


def test_partial_sums_of_two_types_are_refused(reasons):
    text = two(64, 64, 64, of_e="float64", schedule=SMALL + ", split_k: 2")
    assert any("partial sums of one type" in refusal.reason for refusal in reasons("gemm", text))


# Results


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (33, 17, 65)])
def test_two_gemms_are_right(prove, stages, sizes):
    prove(two(*sizes, schedule=f"{SMALL}, stages: {stages}"), races=True)


@pytest.mark.slow
def test_a_ratio_of_two_sums_is_right(prove):
    prove(ratio(33, 17, 65, schedule=SMALL), sanitize=True)


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_operands_of_other_layouts_and_types_are_right(prove, dtype):
    cores = ", cores: cuda" if dtype == "float64" else ""
    prove(two(33, 17, 65, dtype=dtype, transposed=True, schedule=SMALL + cores))
    prove(two(33, 17, 65, of_e="float16", transposed=True, schedule=SMALL))


@pytest.mark.slow
@pytest.mark.parametrize("more", ["split_k: 2", "stream_k: 1"])
def test_partial_sums_in_the_workspace_are_free_of_races(prove, more):
    prove(two(65, 64, 71, schedule=f"{SMALL}, {more}"), races=True)


@pytest.mark.slow
def test_sums_under_a_condition_of_swizzled_tiles_are_right(prove):
    text = two(50, 41, 37, where="k <= m + n", schedule=SMALL)
    swizzle = "memory: {space: shared, stages: 2, swizzle: xor}, dtype:"
    prove(text.replace("dtype:", swizzle, 3))


@pytest.mark.slow
def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(two(sizes, sizes, sizes)), CpuDevice())


@pytest.mark.slow
def test_it_compiles(compiled):
    compiled(two())
    compiled(ratio(schedule=SMALL + ", stages: 1"))


@pytest.mark.slow
@settings(deadline=None, max_examples=15, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_kernels_are_right(prove, data):
    m, k, n = (data.draw(st.integers(1, 140), label=name) for name in "mkn")
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "float16"]))
    where = data.draw(st.sampled_from(["", "k <= m", "n - 20 <= k"]))
    more = data.draw(
        st.sampled_from([", stages: 1", ", stages: 2", ", order: rows", ", lanes: 8", ", addressing: pointer"])
    )
    cores = ", cores: cuda" if dtype == "float64" else ""
    if data.draw(st.booleans()):
        prove(
            two(m, k, n, dtype=dtype, where=where, transposed=data.draw(st.booleans()), schedule=SMALL + more + cores)
        )
    else:
        value = data.draw(
            st.sampled_from([RATIO, TRIPLE, f"{PRODUCT} * {PRODUCT} + sum(A[m, k] * (1 - 2) * B[k, n], k)"])
        )
        prove(gemm(m, k, n, dtype=dtype, schedule=SMALL + more + cores).replace(PRODUCT, value))
