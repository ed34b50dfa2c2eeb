"""Convolutions as contractions: which indices become M, N, K and batches, widths of copies, and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cugen.families.base import Refusal, Request
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.problem import copy_width, problem_of
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.rewrite.grouping import group_statements
from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from tests.drawn import examples
from tests.families.contraction.convolutions import Convolution, convolutions

DENSE = """
params: {{N: 3, H: 12, W: 10, C: 8, K: 16}}
arrays:
  x: {{shape: [{x}], dtype: float32{more}}}
  w: {{shape: [{w}], dtype: float32}}
  y: {{shape: [{y}], dtype: float32}}
compute: {compute}
"""


def spec(compute: str, x: str, w: str, y: str, more: str = "") -> str:
    return DENSE.format(compute=compute, x=x, w=w, y=y, more=more)


LAST = "y[n, i, j, k] = sum(x[n, i + r - 1, j + s - 1, c] * w[r, s, c, k], r, s, c)"
SHAPES = ("N, H, W, C", "3, 3, C, K", "N, H, W, K")


def answer(text: str) -> Contraction | Refusal:
    """The contraction of a spec's only group, or why there is none."""
    (parsed,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    grouping = group_statements(parsed)
    schedule = dict(parsed.schedules).get("", Schedule())
    context = make_context(parsed)
    request = Request("k", grouping.groups[0], context, schedule, target(parsed.target), grouping.stored)
    return recognise(request, masks_padding=True, takes_windows=True)


def contraction(text: str) -> Contraction:
    match = answer(text)
    assert isinstance(match, Contraction), match
    return match


def names(match: Contraction) -> tuple[str, ...]:
    """The names of M, N, K and the batches."""
    return match.m.name, match.n.name, match.k.name, *(index.name for index in match.batch)


def widths(match: Contraction) -> dict[str, tuple[int, int]]:
    """Elements of a copy along M or N, and along K, by array."""
    return {
        o.read.array: (copy_width(match, o, o.mn), copy_width(match, o, match.k))
        for o in (*match.a_operands, *match.b_operands)
    }


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(Convolution(is_last=True), ("ni0i1", "k", "cr0r1"), id="channels last"),
        pytest.param(Convolution(is_last=True, weights="tck"), ("ni0i1", "k", "r0r1c"), id="channels last, taps first"),
        pytest.param(Convolution(), ("k", "i0i1", "cr0r1", "n"), id="channels first"),
        pytest.param(Convolution(groups=3), ("k", "i0i1", "cr0r1", "g", "n"), id="groups"),
        pytest.param(Convolution(groups=3, is_last=True), ("ni0i1", "k", "cr0r1", "g"), id="groups, channels last"),
        pytest.param(Convolution(groups=1, is_last=True), ("ni0i1", "k", "cr0r1"), id="one group"),
        pytest.param(Convolution(batch=1), ("k", "i0i1", "cr0r1"), id="one image"),
        pytest.param(Convolution(channels=1), ("k", "i0i1", "r0r1", "n"), id="one channel"),
        pytest.param(Convolution(is_dynamic=True), ("k", "i0i1", "cr0r1", "n"), id="dynamic"),
        pytest.param(Convolution((40,), (5,), (2,), (3,), (0,), is_last=True), ("ni0", "k", "cr0"), id="one dimension"),
        pytest.param(
            Convolution((5, 6, 7), (3, 3, 1), (1, 1, 2), (1, 1, 1), (0, 1, 0)),
            ("k", "i0i1i2", "cr0r1", "n"),
            id="three dimensions",
        ),
        pytest.param(
            Convolution((9, 8), (1, 1), (2, 2), (1, 1), (0, 0), is_last=True),
            ("ni0i1", "k", "c"),
            id="strided pointwise, channels last",
        ),
        pytest.param(
            Convolution((9, 8), (1, 1), (2, 2), (1, 1), (0, 0)), ("k", "i0i1", "c", "n"), id="strided pointwise"
        ),
    ],
)
def test_indices_that_all_other_arrays_hold_densely_are_fused(case, expected):
    match = contraction(case.text)
    assert names(match) == expected
    assert [operand.read.array for operand in match.operands if operand.window is not None] == ["x"]


def test_indices_of_windows_are_counted_for_the_cost_model():
    problem = problem_of(contraction(spec(LAST, *SHAPES, more=", boundary: zero")))
    assert {operand.window_indices for operand in problem.operands} == {0, 6}  # n, i, j and r, s, c


def test_a_flipped_array_and_its_rows_in_the_epilogue_keep_its_dimensions():
    compute = "y[n, i, j, k] = x[n, i, j, k] + sum(x[n, H - 1 - i, W - 1 - j, c] * w[c, k], c)"
    assert names(contraction(spec(compute, "N, H, W, C", "C, C", "N, H, W, C"))) == ("j", "k", "c", "i", "n")


def test_a_plain_contraction_has_no_window_though_a_batch_is_computed():
    text = spec("y[n, i, k] = sum(x[n // 2, i, c] * w[n, c, k], c)", "N, H, C", "N, C, K", "N, H, K")
    match = contraction(text)
    assert names(match) == ("i", "k", "c", "n")
    assert all(operand.window is None for operand in match.operands)


# Widths of copies


@pytest.mark.parametrize(
    ("channels", "dtype", "expected"),
    [
        (8, "float32", 4),
        (6, "float32", 2),
        (5, "float32", 1),
        (8, "bfloat16", 8),
        (12, "float16", 4),
        (2, "float64", 2),
    ],
)
def test_channels_last_are_copied_in_vectors_that_divide_them(channels, dtype, expected):
    match = contraction(Convolution(channels=channels, is_last=True, weights="ktc", dtype=dtype).text)
    assert widths(match)["x"] == (1, expected)
    assert [operand.is_k_major for operand in match.operands] == [True, True]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 1),  # columns are shifted by single elements
        ({"taps": (3, 1), "pads": (1, 0)}, 4),
        ({"taps": (3, 1), "pads": (1, 0), "sizes": (8, 6)}, 2),
        ({"taps": (3, 1), "pads": (1, 0), "strides": (1, 2)}, 1),
        ({"taps": (3, 3), "dilations": (1, 4), "pads": (1, 4)}, 4),
        ({"taps": (3, 3), "dilations": (1, 4), "pads": (1, 2), "sizes": (8, 12)}, 2),
    ],
    ids=str,
)
def test_channels_first_are_copied_in_vectors_that_are_inside_or_outside_together(change, expected):
    case = Convolution(**{"sizes": (8, 8)} | change)
    match = contraction(case.text)
    assert widths(match)["x"] == (expected, 1)
    assert [operand.is_k_major for operand in match.operands if operand.window is not None] == [False]


# Refusals


@pytest.mark.parametrize("boundary", ["clamp", "wrap", "reflect", "symmetric"])
def test_another_boundary_is_refused(boundary):
    refusal = answer(spec(LAST, *SHAPES, more=f", boundary: {boundary}"))
    assert refusal == Refusal("takes windows without a boundary, or zero outside; x has another boundary")


@pytest.mark.parametrize(
    ("compute", "x", "w", "y", "why"),
    [
        (
            "y[n, i, k] = sum(x[n, i + 1, c] * w[n, k + 1, c], c)",
            "N, H + 1, C",
            "N, K + 1, C",
            "N, H, K",
            "takes one operand at computed subscripts or with a boundary, not 2: w, x",
        ),
        (
            "y[i, j] = sum(x[i + j, c] * w[c, j], c)",
            "H + W, C",
            "C, W",
            "H, W",
            "takes an M index that only the A operands have and an N index that only the B operands have",
        ),
        ("y[i, k] = max(x[i + c] * w[c, k], c)", "H + C", "C, K", "H, K", "takes sums, and no other reduction or scan"),
        (
            "y[i, k] = sum(x[i + c] * w[c, k] + 1, c)",
            "H + C",
            "C, K",
            "H, K",
            "takes sums whose terms are 0 where the operands are 0: tiles are padded with zeros",
        ),
        ("y[i, k] = sum(x[i + r, c] * w[c, k, r], r, c)", "H + 2, C", "C, K, 3", "H, K", "takes sums over one index"),
        (
            "y[i, k] = sum(x[i + c] * w[c, k], c, where=c < 8 - i)",
            "C",
            "C, K",
            "H, K",
            "loads tiles unconditionally; x is in bounds only under a condition",
        ),
    ],
    ids=["two windows", "an index in both", "a maximum", "a constant term", "a tap in the filter alone", "a condition"],
)
def test_other_forms_are_refused(compute, x, w, y, why):
    assert answer(spec(compute, x, w, y)) == Refusal(why)


def test_a_gather_is_refused():
    text = spec(LAST.replace("i + r", "i + t[n, i] + r"), *SHAPES, more=", boundary: zero")
    text = text.replace("arrays:\n", "arrays:\n  t: {shape: [N, H], dtype: int32}\n")
    assert answer(text) == Refusal("takes subscripts without a gather; x is gathered")


@pytest.mark.parametrize("schedule", ["block: {i: 32, k: 32}", "family: gemm, block: {j: 16, k: 64}"])
def test_sizes_along_an_index_that_is_fused_are_refused(schedule):
    refusal = answer(spec(LAST, *SHAPES, more=", boundary: zero") + f"schedule: {{{schedule}}}\n")
    assert refusal == Refusal("fuses indices of the windows of x; the schedule has a size along one of them")


@pytest.mark.parametrize(
    "value", ["(S if S > 0 else 2 * S)", "(S if i > j else 1)", "sigmoid(S)", "(S if N > 2 else 0)"]
)
def test_windows_that_are_inside_are_taken_under_a_condition(value):
    total = LAST.split(" = ")[1]
    compute = f"y[n, i, j, k] = {value.replace('S', total)}"
    contraction(spec(compute, *SHAPES, more=", boundary: zero"))
    compute = compute.replace("i + r - 1", "i + r").replace("j + s - 1", "j + s")
    contraction(spec(compute, "N, H + 2, W + 2, C", *SHAPES[1:]))


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(convolutions())
def test_every_drawn_convolution_is_a_contraction(case):
    match = answer(case.text)
    if case.has_matrices:
        assert isinstance(match, Contraction), match
