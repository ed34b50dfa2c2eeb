"""Maxima that ignore NaN and divisions by reciprocal, only where the result is the same."""

from __future__ import annotations

import pytest

F32 = "float32"


def rows(statements: tuple[str, ...], dtype: str = F32, m: int = 5, n: int = 300) -> str:
    outputs = "\n".join(
        f"  {name}: {{shape: {shape}, dtype: {dtype}}}"
        for name, shape in (("y", "[M, N]"), ("largest", "[M]"))
        if any(statement.startswith(f"{name}[") for statement in statements)
    )
    body = "\n".join(f"  {statement}" for statement in statements)
    return f"""params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}}}
{outputs}
schedule: {{family: rowwise}}
compute: |
{body}
"""


REPLACEABLE = {
    "softmax": "y[i, j] = softmax(x[i, j], j)",
    "its logarithm": "y[i, j] = log_softmax(x[i, j], j)",
    "scaled": "y[i, j] = 2 * softmax(x[i, j] / 8, j) + 1",
    "a cross entropy": "largest[i] = max(x[i, j], j) + log(sum(exp(x[i, j] - max(x[i, k], k)), j)) - x[i, 0]",
}
NAN_PROPAGATING = {
    "stored": ("largest[i] = max(x[i, j], j)", "y[i, j] = softmax(x[i, j], j)"),
    "without the sum": ("y[i, j] = exp(x[i, j] - max(x[i, k], k))",),
    "chosen by": ("y[i, j] = softmax(x[i, j], j) if max(x[i, k], k) > 0 else 0",),
    "of something else": ("y[i, j] = max(2 * x[i, k], k) / sum(exp(x[i, k] - max(x[i, l], l)), k)",),
    "of a part": ("y[i, j] = max(x[i, k], k, where=k > 3) / sum(exp(x[i, k] - max(x[i, l], l)), k)",),
}


@pytest.mark.parametrize("statement", REPLACEABLE.values(), ids=REPLACEABLE)
def test_a_maximum_ignores_nan_where_the_sum_propagates_it(made, statement):
    source = made(rows((statement,))).source
    assert "fmaxf(" in source
    assert "maximum(" not in source


@pytest.mark.parametrize("statements", NAN_PROPAGATING.values(), ids=NAN_PROPAGATING)
def test_a_maximum_that_is_an_output_or_chooses_one_propagates_nan(made, statements):
    assert "maximum(" in made(rows(statements)).source


@pytest.mark.sampled(12)
@pytest.mark.parametrize("statement", REPLACEABLE.values(), ids=REPLACEABLE)
@pytest.mark.parametrize("n", [1, 300, pytest.param(70000, marks=pytest.mark.slow)])
def test_rows_with_nan_and_infinities(prove, statement, n):
    odd = statement.replace("x[i, j]", "(log(x[i, j]) / where(i == 1, 0, 1))").replace(
        "x[i, k]", "(log(x[i, k]) / where(i == 1, 0, 1))"
    )
    prove(rows((odd,), m=3, n=n))


def test_narrow_outputs_multiply_by_the_reciprocal_of_a_sum_of_exponentials(made, prove):
    text = rows((REPLACEABLE["softmax"],), "bfloat16")
    source = made(text).source
    assert "const float inverse = 1.0f / sum;" in source
    assert "divided_by" not in source
    prove(text)


@pytest.mark.slow
def test_narrow_outputs_multiply_by_the_reciprocal_of_a_standard_deviation(made, prove):
    text = rows(("y[i, j] = (x[i, j] - mean(x[i, k], k)) / sqrt(var(x[i, k], k) + 1e-5)",), "float16")
    assert "divided_by" not in made(text).source
    prove(text)


def test_other_divisors_divide_exactly(made, prove):
    text = rows(("y[i, j] = x[i, j] / max(x[i, k], k)",), "bfloat16")
    assert "divided_by" in made(text).source
    prove(text)
