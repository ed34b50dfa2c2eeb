"""A GEMM of other terms than products, reduced by a sum, a minimum or a maximum: recognition, padding, results."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.families.gemm.problem import problem_of
from cugen.plan.nodes import Accumulate, Declare, If, Mma
from cugen.runtime.cpu import CpuDevice
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.families.gemm.test_gemm import SMALL, gemm, nodes
from tests.families.gemm.wgmma.conftest import contraction_of

A, B = "A[m, k]", "B[k, n]"
PRODUCT = f"sum({A} * {B}, k)"
CHEBYSHEV = f"max(abs({A} - {B}), k)"
MIN_PLUS = f"min({A} + {B}, k)"
GAUSS = f"sum(exp(-({A} - {B})**2), k)"
CANBERRA = f"sum(abs({A} - {B}) / (abs({A}) + abs({B}) + 1), k)"
SQUARES = f"sum(({A} - {B})**2, k)"
HAMMING = f"sum(1.0 if {A} < {B} else 0.0, k)"
REDUCTIONS = (SQUARES, CHEBYSHEV, MIN_PLUS, GAUSS, CANBERRA, HAMMING, f"max({A} * {B}, k)")
CONFIGS = (
    "stages: 1",
    "stages: 2",
    "stages: 4, sliced_k: 2",
    "stages: 2, stores: shared",
    "stages: 2, split_k: 2",
    "stages: 3, sliced_k: 2, split_k: 2",
    "stages: 2, stream_k: 1",
    "stages: 3, split_k: 2, reduction: cluster",
)


def term(reduction: str, *sizes: object, **options: str) -> str:
    """The GEMM with another reduction in place of its sum of products."""
    return gemm(*sizes, **options).replace(PRODUCT, reduction)


def unasked(reduction: str) -> str:
    return term(reduction, 600, 100, 700, schedule="")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_any_term_of_two_elements_is_a_gemm(planned, reduction):
    assert planned(unasked(reduction)).family == "gemm"


@pytest.mark.parametrize(
    ("exponent", "instructions"),
    [
        pytest.param("1", 2, id="a difference and an addition"),
        pytest.param("2", 2, id="an FMA adds the square"),
        pytest.param("3", 3, id="by squaring"),
        pytest.param("8", 4, id="three squares"),
        pytest.param("0.5", 16, id="a root, whose addition is an instruction"),
        pytest.param("1.5", 16, id="a root times the base"),
        pytest.param("0.3", 72, id="a function"),
    ],
)
def test_a_literal_power_costs_its_factors(exponent: str, instructions: int) -> None:
    contraction = contraction_of(term(f"sum(({A} - {B}) ** {exponent}, k)", schedule=""))
    assert problem_of(contraction).term_instructions == instructions


@pytest.mark.parametrize(
    ("reduction", "why"),
    [
        (f"sum(exp({A}) * {B}, k)", "functions of one operand are computed once"),
        (f"sum({A} / {B}, k)", "functions of one operand are computed once"),
        (f"max({A} + {B} * k, k)", "an index is none of them"),
        (f"prod({A} + {B}, k)", "takes sums, minima and maxima"),
        (f"sum({A} if M > 3 else {B}, k)", "a choice by a param"),
    ],
)
def test_other_terms_are_refused(reasons, reduction, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", unasked(reduction)))


def test_tensor_cores_take_no_minimum_of_products(planned, reasons):
    text = term(f"min({A} * {B}, k)", 640, 640, 640, dtype="float16", schedule="")
    assert not nodes(planned(text), Mma)
    tensor = text.replace("schedule: {", "schedule: {family: gemm, cores: tensor")
    assert any("tensor cores take one sum" in refusal.reason for refusal in reasons("gemm", tensor))


def test_sums_that_zeros_leave_as_they_are_have_no_branch(planned):
    kernel = planned(term(SQUARES, schedule=SMALL))
    assert nodes(kernel, Accumulate)
    assert not [node for node in nodes(kernel, If) if any(isinstance(n, Accumulate) for n in node.then)]


def test_zeros_of_a_partial_k_tile_are_left_out(made):
    assert "k_residue - 1 >= 0) {" in made(term(CHEBYSHEV, schedule=SMALL)).source
    assert ">= 0" not in made(term(CHEBYSHEV, 65, 24, 72, schedule=SMALL)).source


def test_accumulators_begin_with_the_identity(planned):
    (minimum,) = (n for n in nodes(planned(term(MIN_PLUS, schedule=SMALL)), Declare) if n.array.space == "register")
    (total,) = (n for n in nodes(planned(term(GAUSS, schedule=SMALL)), Declare) if n.array.space == "register")
    assert not minimum.zeroed
    assert total.zeroed


# Results


@pytest.mark.sampled(58)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("more", CONFIGS)
def test_it_is_right(prove, reduction, more):
    k = 64 if "split_k" in more else 41
    prove("target: sm_90\n" + term(reduction, 50, k, 67, schedule=f"{SMALL}, {more}"))


@pytest.mark.slow
@pytest.mark.parametrize("reduction", [MIN_PLUS, GAUSS])
@pytest.mark.parametrize("size", [1, 31, 33])
def test_edges_are_free_of_races(prove, reduction, size):
    prove(term(reduction, size, size, size, schedule=SMALL), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", [MIN_PLUS, CHEBYSHEV, f"max({A} - {B}, k)"])
@pytest.mark.parametrize("dtype", ["float64", "int32", "float16", "int8"])
def test_types_have_their_own_identity(prove, reduction, dtype):
    prove(term(reduction, 35, 21, 66, dtype=dtype, schedule=SMALL))


@pytest.mark.slow
def test_any_dynamic_size_is_right(made, check):
    sizes = "{range: [0, 300]}"
    check(made(term(MIN_PLUS, sizes, sizes, sizes, schedule=SMALL)), CpuDevice())


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["k <= m", f"k <= m and {A} > {B}", f"{A} > 0"])
def test_a_condition_leaves_out_zeros_too(prove, condition):
    prove(term(f"min({A} + {B}, k, where={condition})", 50, 41, 37, schedule=SMALL))


@pytest.mark.slow
def test_a_sum_and_a_maximum_share_one_loop(prove, planned):
    text = term(f"sum(({A} - {B})**2, k) / (1 + max(abs({A} - {B}), k))", 50, 41, 67, schedule=SMALL)
    assert [array.zeroed for array in nodes(planned(text), Declare) if array.array.space == "register"] == [True, False]
    prove(text)


def test_a_condition_and_several_reductions_have_tiles_unasked(planned):
    assert planned(unasked(f"min({A} + {B}, k, where=k <= m)")).family == "gemm"
    assert planned(unasked(f"min({A} + {B}, k) + max({A} - {B}, k)")).family == "gemm"


def test_a_single_stage_is_left_to_staged_unless_the_spec_requests_gemm(planned, reasons):
    text = term(MIN_PLUS, 600, 100, 700, a=", memory: {space: shared, stages: 1}", schedule="")
    assert any("leaves a single stage to `staged`" in refusal.reason for refusal in reasons("gemm", text))
    assert planned(text.replace("schedule: {", "schedule: {family: gemm")).family == "gemm"


@pytest.mark.slow
def test_its_tiles_are_sanitized(prove):
    prove(term(CHEBYSHEV, 33, 17, 65, schedule=SMALL), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_it_compiles_without_spills(made, reduction):
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    for name in ("sm_75", "sm_80", "sm_90", "sm_120"):
        kernel = made(f"target: {name}\n{unasked(reduction)}")
        cubin = compile_cubin(kernel.source, "k", name)
        (resources,) = cubin.kernels.values()
        assert (cubin.warnings, resources.spill_stores) == ((), 0)


PAIRS = (f"{A} - {B}", f"{A} + {B}", f"minimum({A}, {B})", f"maximum({A}, {B})", f"{A} * {B}")
FUNCTIONS = ("abs({})", "({}) * ({})", "({}) * 3", "({}) + 2", "minimum({}, 5)", "(1 if ({}) > 1 else 7)")
OF_FLOATS = ("exp(-abs({}))", "sqrt(abs({}))", "({}) / (1 + abs({}))", "rsqrt(0.5 + abs({}))**3")


@pytest.mark.slow
@settings(deadline=None, max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_terms_are_right(prove, data):
    m, k, n = (data.draw(st.integers(1, 100), label=name) for name in "mkn")
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "float16"]))
    functions = FUNCTIONS if dtype == "int32" else FUNCTIONS + OF_FLOATS
    body = data.draw(st.sampled_from(PAIRS))
    for function in data.draw(st.lists(st.sampled_from(functions), min_size=1, max_size=2)):
        body = function.replace("{}", body)
    reduction = f"{data.draw(st.sampled_from(['sum', 'min', 'max']))}({body}, k)"
    config = data.draw(st.sampled_from(CONFIGS)) if k % 16 == 0 else data.draw(st.sampled_from(CONFIGS[:4]))
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    text = gemm(m, k, n, dtype=dtype, transposed=transposed, schedule=f"{SMALL}, {config}, cores: cuda")
    a, b = "A[k, m]" if "a" in transposed else A, "B[n, k]" if "b" in transposed else B
    product = f"sum({a} * {b}, k)"
    assert product in text
    prove("target: sm_90\n" + text.replace(product, reduction.replace(A, a).replace(B, b)))


SET_BITS = """
params: {N: %d, M: %d, W: 16}
arrays:
  a: {shape: [N, W], dtype: uint32}
  b: {shape: [M, W], dtype: uint32}
  d: {shape: [N, M], dtype: int32}
compute: |
  x[n, m, w] = a[n, w] ^ b[m, w]
  y[n, m, w] = x[n, m, w] - ((x[n, m, w] >> 1) & 0x55555555)
  z[n, m, w] = (y[n, m, w] & 0x33333333) + ((y[n, m, w] >> 2) & 0x33333333)
  v[n, m, w] = (z[n, m, w] + (z[n, m, w] >> 4)) & 0x0f0f0f0f
  d[n, m] = sum(cast((v[n, m, w] * 0x01010101) >> 24, int32), w)
"""


def test_the_parts_of_a_term_that_occur_again_cost_nothing(planned, prove):
    """Each temporary is read twice by the next one: eight differences in the text are one in the code."""
    assert planned(SET_BITS % (4099, 4111)).family == "gemm"
    prove(SET_BITS % (67, 45))
