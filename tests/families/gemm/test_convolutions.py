"""Convolutions as an implicit GEMM: copies that compute where a window is, picks, results and traces."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.families.base import Refusal
from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty
from cugen.spec.diagnostics import SpecError
from cugen.toolchain.cuda import compile_cubin
from tests.families.contraction.convolutions import Convolution, convolutions


def refusal_pieces(case: Convolution) -> tuple[str, ...]:
    """What a refusal of a drawn schedule may name: anything where a matrix is a vector."""
    return ("split-K", "tensor cores", "k-tiles", "shared bytes", "accumulators") if case.has_matrices else ("gemm",)


def line(kernel, start: str) -> str:
    return next(text.strip() for text in kernel.source.splitlines() if text.strip().startswith(start))


def test_a_copy_computes_the_indices_that_m_and_k_are_fused_from(made):
    kernel = made(Convolution(is_last=True, weights="ktc").text)
    assert line(kernel, "const int n = ") == "const int n = ni0i1 / (H0 * H1);"
    assert line(kernel, "const int i0 = ") == "const int i0 = ni0i1 / H1 % H0;"
    assert line(kernel, "const int i1 = ") == "const int i1 = ni0i1 % H1;"
    assert line(kernel, "const int r0 = ") == "const int r0 = r0r1c / 15;"
    assert line(kernel, "const int i0_in = ") == "const int i0_in = i0 + r0 - 1;"
    assert "&x[((n * H0 + i0_in) * H1 + i1_in) * 5 + c]" in kernel.source


def test_an_index_may_have_the_name_of_a_moved_one(made):
    text = Convolution(is_last=True, weights="ktc").text
    kernel = made(re.sub(r"\br0\b", "i0_in", text))
    assert line(kernel, "const int i0_in = ") == "const int i0_in = i0_in_r1_c / 15;"
    assert line(kernel, "const int i0_in_ = ") == "const int i0_in_ = i0 + i0_in - 1;"


def test_elements_outside_are_filled_with_zeros_by_the_copy(made):
    kernel = made(Convolution(channels=8, is_last=True, weights="ktc").text)
    assert "i0_in >= 0 && i0_in < H0 && i1_in >= 0 && i1_in < H1" in kernel.source


def test_windows_that_the_spec_proves_inside_are_not_checked(made):
    kernel = made(Convolution(strides=(2, 2), pads=(0, 0), is_dynamic=True).text)
    assert "_in" not in kernel.source
    assert ">= 0 &&" not in kernel.source


def test_all_copies_of_an_element_have_the_same_names(made):
    kernel = made(Convolution(is_last=True, channels=32, features=64, schedule="family: gemm, stages: 3").text)
    assert kernel.source.count("const int i0_in = ") == 2  # in the prologue and in the main loop
    assert "i0_in_" not in kernel.source


@pytest.mark.slow
def test_a_convolution_of_many_channels_is_taken_unasked(made):
    first = Convolution((28, 28), batch=8, channels=64, features=64, schedule="")
    last = replace(first, epilogue="select", is_last=True, weights="ktc", dtype="bfloat16")
    for case in (first, last):
        assert made(case.text).plan.kernels[-1].family == "gemm"


@pytest.mark.slow
def test_register_windows_are_left_those_of_few_features(planned, reasons):
    text = Convolution((224, 224), batch=8, channels=64, features=3, schedule="").text
    assert planned(text).family == "stencil"
    wider = Convolution((512, 512), batch=1, channels=16, features=16, schedule="").text
    assert planned(wider).family == "stencil"
    assert reasons("gemm", wider) == (Refusal("takes longer than register windows by the cost models"),)


@pytest.mark.slow
def test_the_sums_of_a_gated_convolution_are_implicit_gemms(made, prove):
    text = Convolution(is_last=True, schedule="", channels=32, features=48, batch=4).text
    total = text.split("= ")[-1].strip()
    gated = text.replace(f"= {total}", f"= {total} * sigmoid({total.replace('w[', 'v[')})")
    gated = gated.replace("  w: ", "  v: {shape: [48, 32, 3, 3], dtype: float32}\n  w: ")
    assert [kernel.family for kernel in made(gated).plan.kernels].count("gemm") == 2
    prove(gated)


# Results

FIRST = Convolution((13, 11), channels=20, features=33)
LAST = Convolution((13, 11), channels=24, features=40, is_last=True, weights="ktc")
CASES = {
    "channels first": FIRST,
    "channels last, bfloat16 on tensor cores": replace(LAST, dtype="bfloat16"),
    "channels last, sm_80": replace(LAST, dtype="float16", target="sm_80", epilogue="residual"),
    "channels last, sm_75": replace(LAST, dtype="float16", target="sm_75", epilogue="bias"),
    "an odd number of channels, int8": replace(LAST, channels=13, dtype="int8"),
    "float64, groups": replace(LAST, groups=3, dtype="float64", epilogue="select"),
    "strided, one dimension": replace(FIRST, sizes=(97,), taps=(5,), strides=(3,), dilations=(2,), pads=(4,)),
    "three dimensions, groups": Convolution(
        (5, 6, 7), (3, 1, 3), (1, 2, 1), (1, 1, 2), (1, 0, 2), groups=2, features=8
    ),
    "dynamic, strided, no padding": replace(FIRST, strides=(2, 3), pads=(0, 0), is_dynamic=True),
    "dynamic, channels last": replace(LAST, is_dynamic=True, epilogue="accumulated"),
    "a single stage": replace(FIRST, schedule="family: gemm, stages: 1"),
    "split-K in clusters": replace(FIRST, schedule="family: gemm, split_k: 2, reduction: cluster"),
    "split-K through the workspace": replace(LAST, schedule="family: gemm, split_k: 3, reduction: workspace"),
    "stream-K": replace(FIRST, schedule="family: gemm, stream_k: 1"),
    "one pixel": Convolution((1, 1), batch=40, channels=16, features=32),
    "all taps outside but one": Convolution((1, 3), (3, 3), pads=(1, 4), dilations=(1, 4), batch=9, features=32),
    "strided pointwise": replace(FIRST, taps=(1, 1), strides=(2, 2), pads=(0, 0)),
    "strided pointwise, channels last": replace(LAST, taps=(1, 1), strides=(2, 2), pads=(0, 0)),
}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_agree_with_the_reference(made, prove, case):
    assert made(case.text).plan.kernels[-1].family == "gemm"
    prove(case.text, case.params)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"sanitize": True}, {"races": True}], ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_races_and_nothing_outside_memory(prove, case, options):
    prove(case.text, case.params, **options)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_traced_accesses_match_the_plan(made, case):
    kernel = made(case.text)
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), case.params)
    assert trace.compared > 0
    assert not trace.mismatches


@pytest.mark.slow
@pytest.mark.parametrize(
    "memory", ["texture", "readonly", "shared", "{space: shared, stages: 3}", "{space: shared, pad: 4}"]
)
def test_windows_are_read_from_where_the_spec_places_them(planned, prove, memory):
    text = LAST.text.replace("boundary: zero", f"boundary: zero, memory: {memory}")
    assert planned(text).family == "gemm"
    prove(text)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["pitch: 28", "pitch: 25", "layout: column"])
@pytest.mark.parametrize("array", ["x", "y"])
def test_windows_and_results_have_any_layout(planned, prove, array, layout):
    padded = layout.replace("2", "4") if array == "y" else layout
    text = re.sub(rf"(  {array}: .*)}}", rf"\1, {padded}}}", LAST.text)
    assert planned(text).family == "gemm"
    prove(text)


DYNAMIC = """
params: {{N: dynamic, H: dynamic, W: dynamic, C: {{multiple_of: 8}}, K: dynamic, R: dynamic, S: dynamic}}
arrays:
  x: {{shape: [N, H, W, C], dtype: bfloat16, boundary: zero}}
  w: {{shape: [K, R, S, C], dtype: bfloat16}}
  y: {{shape: [N, H, W, K], dtype: bfloat16}}
schedule: {{family: gemm, {more}}}
compute: y[n, i, j, k] = sum(x[n, i + r - 1, j + s - 1, c] * w[k, r, s, c], r, s, c)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [(3, 11, 9, 16, 33, 3, 2), (2, 5, 7, 0, 9, 3, 3), (2, 5, 7, 8, 9, 3, 0), (0, 5, 0, 8, 9, 1, 1)], ids=str
)
@pytest.mark.parametrize("more", ["stages: 3", "stages: 1"])
def test_extents_of_the_call_may_be_zero(planned, prove, sizes, more):
    text = DYNAMIC.format(more=more)
    assert 8 in {access.width for access in accesses(planned(text).body) if access.array.name == "x"}
    prove(text, dict(zip("NHWCKRS", sizes, strict=True)), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["k <= i", "k >= i - 3 and k <= i", "k < 20 - i"])
@pytest.mark.parametrize("x", ["x[i + k]", "x[2 * i + 3 * k - 5]"])
def test_terms_of_windows_under_a_condition_are_masked(planned, prove, condition, x):
    text = f"""
params: {{M: 70, K: 90, N: 37}}
arrays:
  x: {{shape: [M + K], dtype: float32{"" if x == "x[i + k]" else ", boundary: zero"}}}
  w: {{shape: [K, N], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[i, j] = sum({x} * w[k, j], k, where={condition})
"""
    assert planned(text + "schedule: {family: gemm}\n").family == "gemm"
    prove(text + "schedule: {family: gemm}\n", sanitize=True)


GRADIENT = """
params: {{N: 3, H: 12, W: 9, C: 20, K: 33}}
arrays:
  x: {{shape: [N, H, W, C], dtype: float32{x}}}
  d: {{shape: [N, H, W, K], dtype: float32{d}}}
  w: {{shape: [{w}], dtype: float32}}
schedule: {{family: gemm}}
compute: {compute}
"""
ZERO = ", boundary: zero"
GRADIENTS = {
    "input": GRADIENT.format(
        x="",
        d=ZERO,
        w="3, 3, K, C",
        compute="x[n, i, j, c] = sum(d[n, i + 1 - r, j + 1 - s, k] * w[r, s, k, c], r, s, k)",
    ),
    "weights": GRADIENT.format(
        x=ZERO,
        d="",
        w="3, 3, C, K",
        compute="w[r, s, c, k] = sum(x[n, i + r - 1, j + s - 1, c] * d[n, i, j, k], n, i, j)",
    ),
    "weights, features first": GRADIENT.format(
        x=ZERO,
        d="",
        w="K, 3, 3, C",
        compute="w[k, r, s, c] += sum(x[n, i + r - 1, j + s - 1, c] * d[n, i, j, k], n, i, j)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_of_a_convolution_are_implicit_gemms_too(planned, prove, text):
    assert planned(text).family == "gemm"
    prove(text)


@pytest.mark.slow
def test_a_window_at_a_single_position_is_one_too(planned, prove):
    text = """
arrays:
  x: {shape: [33, 3, 5, 8], dtype: float32}
  w: {shape: [65, 8, 3, 5], dtype: float32}
  y: {shape: [33, 1, 1, 65], dtype: float32}
compute: y[n, i, j, k] = sum(x[n, i + r, j + s, c] * w[k, c, r, s], c, r, s)
schedule: {family: gemm}
"""
    assert planned(text).family == "gemm"
    prove(text)


@pytest.mark.slow
@settings(max_examples=150, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(convolutions(), st.booleans())
def test_drawn_convolutions_are_right_or_refused_with_a_reason(prove, case, sanitize):
    refusal = ""
    try:
        prove(case.text, case.params, sanitize=sanitize)
    except SpecError as error:
        refusal = str(error)
    assert not refusal or (case.schedule and any(piece in refusal for piece in refusal_pieces(case))), (
        f"{case}: {refusal}"
    )


def test_a_k_that_no_split_divides_is_the_reason_where_some_tile_fits_the_registers(reasons):
    schedule = "family: gemm, split_k: 3, reduction: workspace"
    case = Convolution(
        sizes=(8, 12),
        taps=(5, 1),
        strides=(1, 3),
        batch=3,
        channels=1,
        features=32,
        is_last=True,
        weights="ktc",
        schedule=schedule,
    )
    (reason,) = reasons("gemm", case.text)
    assert reason.reason == "split-K through the workspace needs a K that 3 x 8 divides"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_compiles_without_warnings(made, case):
    kernel = made(case.text)
    for name in {"sm_75": ("sm_75", "sm_90"), "sm_80": ("sm_80", "sm_90")}.get(case.target, ("sm_90",)):
        assert compile_cubin(kernel.source, "k", name).warnings == ()
