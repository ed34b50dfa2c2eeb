"""Positions of extremes in rows whose elements a thread takes in another order than that of the row."""

from __future__ import annotations

import pytest

TEXT = """
params: {M: 5, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: |
  a[i] = %s(x[i, k], k)
  y[i, j] = x[i, j] * (j == a[i])
schedule: {family: rowwise%s}
"""


@pytest.mark.covering
@pytest.mark.parametrize(("length", "dtype"), [(515, "float32"), (1027, "float16"), (2049, "int8"), (4099, "float32")])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("registers", ["", ", registers: 0", ", registers: 8"])
def test_the_first_of_equal_extremes_is_taken(prove, length: int, dtype: str, kind: str, registers: str) -> None:
    # Rows begin anywhere: the elements before and after the vectors of a row follow these.
    prove(TEXT % (length, dtype, dtype, kind, registers))


@pytest.mark.parametrize(("length", "registers"), [(8192, 8), (8192, 0)])
def test_the_first_of_equal_extremes_is_taken_of_rows_in_registers_and_shared_memory(prove, length, registers):
    prove(TEXT % (length, "float32", "float32", "argmax", f", registers: {registers}, threads: 64"))
