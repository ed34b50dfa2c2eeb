"""Why statements are no contraction: their terms, the subscripts of their operands, and their indices."""

from __future__ import annotations

import pytest

from cugen.families.base import Refusal
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.plan.context import make_context
from cugen.schedule.planner import requests
from cugen.schedule.runs import group
from cugen.spec.load import load_text

TEXT = """
cugen: 1
kernel: k
target: sm_90
params: {{M: 64, N: 96, K: 128}}
arrays:
  A: {{shape: [M, K], dtype: float32{boundary}}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = {value}
"""


def answer(value: str, *, boundary: str = "", masks_padding: bool = False) -> Contraction | Refusal:
    (spec,) = load_text(TEXT.format(value=value, boundary=boundary and f", boundary: {boundary}"))
    context = make_context(spec)
    (request, *_) = requests(context, group(context))
    return recognise(request, masks_padding=masks_padding)


def reason(value: str, **options: object) -> str:
    refusal = answer(value, **options)
    assert isinstance(refusal, Refusal)
    return refusal.reason


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("A[m, 0] * B[0, n]", "takes a contraction in the first statement"),
        (" + ".join(f"sum({i} * A[m, k] * B[k, n], k)" for i in (2, 3, 5, 7, 9)), "takes up to 4 contractions, not 5"),
        ("max(A[m, k] * B[k, n], k)", "takes sums, and no other reduction"),
        (
            "sum(A[m, k] * B[k, n], k, where=k <= m) + sum(A[m, k] * B[k, n], k)",
            "over the same index, under the same condition",
        ),
        ("sum(exp(A[m, k] + B[k, n]), k)", "terms are 0 where the operands are 0"),
        ("sum(A[m, k] * B[k, 0], k)", "none depends on n"),
    ],
    ids=["no sum", "five sums", "a maximum", "conditions", "a function of a sum", "a row of B"],
)
def test_terms_that_are_no_contraction_are_refused(value: str, why: str) -> None:
    assert why in reason(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("sum(A[m, (k + 1) % 128] * B[k, n], k)", "A has no subscript that is k alone"),
        ("sum(A[m, k] * B[k, 2 * n % 96], k)", "an N index that only the B operands have"),
    ],
    ids=["of K", "of N"],
)
def test_operands_that_tiles_cannot_follow_are_refused(value: str, why: str) -> None:
    assert why in reason(value)


def test_an_operand_with_a_boundary_is_refused() -> None:
    assert reason("sum(A[m - 1, k] * B[k, n], k)", boundary="zero") == "takes operands without a boundary; A has one"


def test_an_index_is_no_operand() -> None:
    assert "an index is none of them" in reason("sum(k * A[m, k] * B[k, n], k)", masks_padding=True)


def test_a_family_that_masks_padding_takes_other_terms_and_extrema() -> None:
    for value in ("max(A[m, k] * B[k, n], k)", "sum((A[m, k] - B[k, n]) ** 2, k)"):
        assert isinstance(answer(value, masks_padding=True), Contraction)
