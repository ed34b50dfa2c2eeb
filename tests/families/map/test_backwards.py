"""Rows read from their end: vectors whose elements are taken in reverse order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.runtime.honesty import check_honesty

VALUES = {
    "flipped": "x[i, N - 1 - j]",
    "half turn": "x[M - 1 - i, N - 1 - j]",
    "palindrome": "x[i, j] + x[i, N - 1 - j]",
    "narrower operand": "x[i, N - 1 - j] + b[N - 1 - j] * j",
}


def flipped(value, columns, dtype="float32", operand="float32", rows=3):
    b = f"  b: {{shape: [N], dtype: {operand}}}\n" if "b[" in value else ""
    value = f"cast({value}, {dtype})" if "int" in dtype else value
    return (
        f"params: {{M: {rows}, N: {columns}}}\narrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n{b}"
        f"  y: {{shape: [M, N], dtype: {dtype}}}\ncompute: y[i, j] = {value}\n"
    )


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 8), ("uint8", 16)])
def test_rows_are_read_backwards_in_vectors_of_16_bytes(planned, widths, dtype, width):
    assert widths(planned(flipped(VALUES["flipped"], 128, dtype))) == {"x": width, "y": width}


def test_the_elements_of_a_vector_are_taken_in_reverse_order(made):
    source = made(flipped(VALUES["flipped"], 128)).source
    assert "x4.data[3 - v]" in source


def test_rows_whose_length_is_no_multiple_of_a_vector_are_read_by_elements(planned, widths):
    assert widths(planned(flipped(VALUES["flipped"], 129)))["x"] == 1


# Execution


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_no_access_is_out_of_bounds(prove, value, dtype):
    for columns in (128, 132, 67):
        prove(flipped(value, columns, dtype), sanitize=True)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(list(VALUES.values())),
    st.integers(1, 400),
    st.sampled_from(["float32", "float16", "float64", "int8"]),
    st.sampled_from(["float32", "float64", "bfloat16"]),
)
def test_random_rows_are_right(prove, value, columns, dtype, operand):
    prove(flipped(value, columns, dtype, operand))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("columns", [0, 1, 8, 131])
def test_dynamic_rows_are_right(prove, columns):
    prove(flipped(VALUES["flipped"], "dynamic"), params={"N": columns})


@pytest.mark.slow
@pytest.mark.parametrize("value", [VALUES["narrower operand"]])
def test_every_access_is_the_predicted_one(made, value):
    kernel = made(flipped(value, 40, "bfloat16"))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


# Compilation


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_vectors_read_backwards_compile_without_warnings(compiled, value):
    for dtype in ("float32", "bfloat16", "uint8"):
        compiled(flipped(value, 128, dtype))
