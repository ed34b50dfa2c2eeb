"""Windows at a stride: vector loads only where the stride keeps them aligned, and correct results."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.traversal.walking import accesses
from tests.drawn import examples


def pooled(stride: int, window: int, dtype: str = "float32", rows: int = 5, columns: int = 37) -> str:
    """Sums of windows of a row, whose length is the stride's multiple or longer."""
    length = f"{stride}*I" if window <= stride else f"{stride}*I + {window - stride}"
    return (
        f"params: {{N: {rows}, I: {columns}}}\narrays:\n  x: {{shape: [N, {length}], dtype: {dtype}}}\n"
        f"  y: {{shape: [N, I], dtype: {dtype}}}\nindices: {{r: {window}}}\n"
        f"compute: y[n, i] = sum(x[n, {stride}*i + r], r)\n"
    )


STRIDES = st.integers(1, 16)
WINDOWS = st.integers(1, 12)
DTYPES = st.sampled_from(("float32", "float64", "float16", "int8", "uint8", "int16", "int64"))


@settings(max_examples=examples(20))
@given(stride=STRIDES, window=WINDOWS, dtype=DTYPES, rows=st.integers(1, 70), columns=st.integers(1, 130))
def test_every_warp_of_a_strided_window_has_a_verdict(made, stride, window, dtype, rows, columns):
    """The analysis knows no cost of an access that is not aligned to its size."""
    assert "__global__" in made(pooled(stride, window, dtype, rows, columns)).source


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_a_stride_that_divides_vectors_keeps_them(planned, stride):
    kernel = planned(pooled(stride, 3, rows=512, columns=512).replace(f" + {3 - stride}", " + 4"))
    assert max(access.width for access in accesses(kernel.body)) == 4


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("stride", "dtype"),
    [(3, "float32"), (6, "float16"), (11, "float64"), pytest.param(5, "uint8", marks=pytest.mark.slow)],
)
def test_a_strided_window_is_summed(prove, stride, dtype):
    prove(pooled(stride, stride, dtype), sanitize=True)


@pytest.mark.parametrize(
    ("dtype", "columns", "rows"),
    [("float32", 513, 4), ("float16", 513, 8), ("uint8", 1025, 16), ("float64", 513, 2), ("float32", 16, 1)],
)
def test_rows_of_few_bytes_are_several_of_a_thread(made, dtype, columns, rows):
    """Rows of odd length are loaded by elements; 2048 threads then have as many bytes in flight as with vectors."""
    (launch,) = made(pooled(2, 3, dtype, 4096, columns)).manifest.launches
    blocks = math.ceil(4096 / (rows * launch.block[1]))
    assert launch.grid[1] == blocks


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [4095, 4097, pytest.param(4099, marks=pytest.mark.slow)])
def test_several_rows_of_a_thread_are_summed(prove, rows):
    prove(pooled(2, 3, "float32", rows, 67), sanitize=True)


CHANNELS = """params: {{H: {h}, W: {w}}}
indices: {{r: 2, s: 2}}
arrays:
  x: {{shape: [H, W, 3], dtype: {dtype}, boundary: zero}}
  y: {{shape: [(H + 1) // 2, (W + 1) // 2, 3], dtype: {dtype}}}
compute: y[i, j, c] = max(x[2 * i + r, 2 * j + s, c], r, s)
"""


@pytest.mark.parametrize(("dtype", "outputs"), [("uint8", 8), ("float16", 4), ("float32", 2), ("float64", 1)])
def test_windows_of_few_bytes_that_share_no_element_are_several_of_a_thread(made, dtype, outputs):
    """A block of 4 bytes for each thread takes longer to start than to move."""
    (launch,) = made(CHANNELS.format(h=4001, w=6001, dtype=dtype)).manifest.launches
    assert launch.grid[1] == math.ceil(3001 / (outputs * launch.block[1]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_windows_of_several_pixels_of_a_thread_are_reduced(prove, dtype):
    prove(CHANNELS.format(h=901, w=1203, dtype=dtype), sanitize=True)
