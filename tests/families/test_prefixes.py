"""Subscripts `i + 0` of an index that runs on after the end of an array: guards and boundaries hold."""

from __future__ import annotations

from itertools import product

import pytest

SPELLINGS = ("i + 0", "0 + i", "1 * i", "i - 0", "i // 1")
VALUES = {
    "if": "x[{0}] if i < N else z[i - N]",
    "where": "where(i < N, 2 * x[{0}], 0) + where(i >= N, z[i - N], 0)",
    "nested": "x[{0}] if i < N else (z[i - N] if i < N + M - 1 else x[i - N - M + 1])",
    "a sum": "sum(v[j] * (x[{0}] if i < N else 1), j)",
    "zero": "b[{0}]",
    "clamp": "c[{0}] + 1",
}


@pytest.mark.sampled(616)
@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (64, 64), (101, 6), (8, 200)])
@pytest.mark.parametrize(
    ("spelling", "value"), list(product(SPELLINGS, VALUES)), ids=lambda part: part.replace(" ", "")
)
def test_guards_and_boundaries_hold_for_subscripts_that_equal_an_index(prove, spelling, value, n, m, dtype):
    expression = VALUES[value].format(spelling)
    shapes = {"x": "N", "z": "M", "v": "7", "b": "N", "c": "N"}
    modes = {"b": ", boundary: zero", "c": ", boundary: clamp"}
    used = (name for name in shapes if f"{name}[" in expression)
    arrays = "\n".join(f"  {name}: {{shape: [{shapes[name]}], dtype: {dtype}{modes.get(name, '')}}}" for name in used)
    result = f"cast({expression}, {dtype})" if dtype == "uint8" else expression
    output = f"  y: {{shape: [N + M], dtype: {dtype}}}"
    prove(f"params: {{N: {n}, M: {m}}}\narrays:\n{arrays}\n{output}\ncompute: y[i] = {result}\n")
