"""Rows of one field of structures, whose dependent reductions read each element once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SPEC = """
params: {{B: {rows}, N: {columns}}}
arrays:
  x: {{shape: [B, N, {fields}], dtype: {dtype}}}
  v: {{shape: [B, {fields}], dtype: float32}}
compute: |
{statements}
"""
DEVIATION = "mean(abs(x[b, i, {f}] - mean(x[b, j, {f}], j)), i)"
BODIES = (DEVIATION, "sqrt(var(x[b, i, {f}], i))", "sum(exp(x[b, i, {f}] - max(x[b, j, {f}], j)), i)")


def fields(rows: int, columns: int, count: int, dtype: str = "float32", body: str = DEVIATION) -> str:
    statements = "\n".join(f"  v[b, {f}] = {body.format(f=f)}" for f in range(count))
    return SPEC.format(rows=rows, columns=columns, fields=count, dtype=dtype, statements=statements)


@pytest.mark.covering
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_rows_of_several_fields_are_one_launch(planned, body, dtype):
    assert planned(fields(4096, 900, 2, dtype, body)).family == "rowwise"


def test_few_long_rows_of_fields_are_reduced_by_the_whole_device(made):
    families = [kernel.family for kernel in made(fields(2, 1 << 20, 2)).plan.kernels]
    assert set(families) == {"reduce"}


def test_rows_of_elements_that_are_sectors_apart_are_read_once(planned):
    assert planned(fields(4096, 900, 9)).family == "rowwise"


@settings(max_examples=6)
@given(
    st.integers(1, 70),
    st.integers(1, 300),
    st.integers(2, 4),
    st.sampled_from(["float32", "uint8", "bfloat16"]),
    st.sampled_from(BODIES),
)
def test_their_results_are_right(prove, rows, columns, count, dtype, body):
    prove(fields(rows, columns, count, dtype, body))
