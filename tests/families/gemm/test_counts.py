"""A GEMM of conditions, of which `any` or `all` is asked: it counts the terms that decide."""

from __future__ import annotations

import pytest

TEXT = """
params: {M: %s, N: %s, K: %s}
arrays:
  a: {shape: [M, K], dtype: %s}
  b: {shape: [K, N], dtype: %s}
  c: {shape: [M, N], dtype: bool}
compute: c[m, n] = %s
%s"""

AND = "any(a[m, k] and b[k, n], k)"
# Conditions, and the type of the operands; those of one count for all terms.
SINGLE = [
    (AND, "bool"),
    ("not any(not (not a[m, k] or b[k, n]), k)", "bool"),
    ("all(a[m, k] or b[k, n], k)", "bool"),
    ("all(not (a[m, k] and b[k, n]), k)", "bool"),
    ("any(b[k, n], k, where=a[m, k])", "bool"),
    ("any(a[m, k] == b[k, n], k)", "int8"),
    ("all(abs(a[m, k] - b[k, n]) < 0.9, k)", "float32"),
    ("any(a[m, k] > 0.9 and b[k, n] < 0.1, k)", "float32"),
]
CASES = [
    *SINGLE,
    ("any(a[m, k] and b[k, n], k, where=k <= m)", "bool"),
    ("any(a[m, k] == b[k, n], k) or all(a[m, k] != b[k, n], k)", "int8"),
]


def counted(condition: str, dtype: str, *sizes: object, schedule: str = "") -> str:
    return TEXT % (*sizes, dtype, dtype, condition, f"schedule: {{{schedule}}}" if schedule else "")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("condition", "dtype"), CASES)
def test_conditions_on_both_operands_are_a_gemm(made, condition, dtype):
    assert made(counted(condition, dtype, 600, 700, 300)).plan.kernels[-1].family == "gemm"


@pytest.mark.parametrize("reduction", ["any", "sum"])
def test_elements_that_both_hold_are_counted_by_a_sum_of_products(made, reduction):
    text = counted(AND, "bool", 600, 700, 300, schedule="family: gemm, stages: 2")
    if reduction == "sum":
        text = text.replace("any(", "sum(").replace("[M, N], dtype: bool}", "[M, N], dtype: int32}")
    assert "a_frag[1].data[i] * b_frag[1].data[j]" in made(text).source


@pytest.mark.parametrize("term", ["a[m, k] * b[k, n]", "cast(a[m, k], int32) * cast(b[k, n], int32)"])
def test_products_of_bools_are_counted_on_tensor_cores(made, term):
    text = TEXT.replace("[M, N], dtype: bool", "[M, N], dtype: int32") % (
        2048,
        2048,
        2048,
        "bool",
        "bool",
        f"sum({term}, k)",
        "",
    )
    *copies, product = made(text).plan.kernels
    assert len(copies) == 2
    assert any("tensor cores by" in reason for reason in product.reasons)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("sizes", [(37, 45, 5), (1, 3, 1), (70, 133, 33), (65, 66, 0)])
@pytest.mark.parametrize(("condition", "dtype"), CASES)
def test_of_any_size_their_results_are_right(prove, condition, dtype, sizes):
    text = counted(condition, dtype, "dynamic", "dynamic", "dynamic", schedule="family: gemm")
    prove(text, dict(zip("MNK", sizes, strict=True)))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("schedule", ["stages: 2, split_k: 2", "stages: 3, sliced_k: 2", "stages: 2, stream_k: 1"])
@pytest.mark.parametrize(("condition", "dtype"), SINGLE)
def test_in_parts_their_results_are_right(prove, condition, dtype, schedule):
    prove(counted(condition, dtype, 133, 70, 37, schedule=f"family: gemm, {schedule}"))
