"""Columns that are strided in memory, beside rows that are contiguous: how many rows a block has."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SOFTMAX = """
params: {N: %s, C: %s, S: %s}
arrays:
  x: {shape: [N, C, S], dtype: %s}
  y: {shape: [N, C, S], dtype: %s}
compute: y[n, c, s] = softmax(x[n, c, s], c)
"""


def channels(batch: int, columns: int, rows: int, dtype: str = "float32") -> str:
    return SOFTMAX % (batch, columns, rows, dtype, dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("batch", "columns", "rows", "block"),
    [
        (12, 96, 13310, (128, 4, 1)),
        (24, 64, 20003, (128, 4, 1)),
        (9, 300, 12001, (64, 16, 1)),
        (9, 500, 12001, (32, 32, 1)),
        (2, 96, 3000, (32, 8, 1)),
        (1, 4000, 6500, (16, 64, 1)),
        (1, 6000, 6500, (8, 128, 1)),
    ],
    ids=["short", "shorter", "medium", "long", "few rows", "of shared memory", "of more shared memory"],
)
def test_blocks_have_as_many_rows_as_their_columns_leave_room_for(planned, batch, columns, rows, block):
    assert planned(channels(batch, columns, rows)).block == block


def test_all_elements_of_a_long_column_are_cached(planned):
    (what, *_) = planned(channels(1, 4000, 6500)).reasons
    assert "cached" in what
    assert "reloaded" not in what


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    columns=st.integers(1, 140),
    rows=st.integers(33_792, 34_000),
    dtype=st.sampled_from(["float32", "bfloat16"]),
)
def test_wide_blocks_are_right(prove, columns, rows, dtype):
    prove(channels(1, columns, rows, dtype))


CHANNELS_LAST = """
arrays:
  x: {shape: [%s, %s, %s, %s], dtype: %s}
  y: {shape: [%s, %s, %s, %s], dtype: %s}
compute: |
  mu[c] = mean(x[n, i, j, c], n, i, j)
  iv[c] = rsqrt(var(x[n, i, j, c], n, i, j) + 1e-5)
  y[n, i, j, c] = (x[n, i, j, c] - mu[c]) * iv[c]
"""


def channels_last(*sizes: int, dtype: str = "float32") -> str:
    shape = (*sizes, dtype)
    return CHANNELS_LAST % (*shape, *shape)


def test_several_columns_whose_elements_are_equally_far_apart_have_one_index(made):
    assert "x[element * 512 + c]" in made(channels_last(20, 7, 7, 512)).source


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("sizes", [(3, 7, 5, 33), (5, 1, 11, 64), (1, 13, 3, 7)])
def test_results_of_several_strided_columns_are_right(prove, sizes, dtype):
    prove(channels_last(*sizes, dtype=dtype), sanitize=True)


MASKED_BAND = """
params: {T: %s, D: %s, W: %s}
arrays:
  p: {shape: [T, W], dtype: float32}
  keep: {shape: [T, W], dtype: float32}
  v: {shape: [T + W, D], dtype: float16}
  o: {shape: [T, D], dtype: float16}
compute: o[i, d] = sum(p[i, w] * keep[i, w] * v[i + w, d], w)
"""


def test_threads_are_adjacent_where_fewer_arrays_are_strided_though_more_are_contiguous_along_the_columns(planned):
    kernel = planned(MASKED_BAND % (4096, 64, 256))
    assert (kernel.family, kernel.block) == ("rowwise", (64, 16, 1))


@pytest.mark.parametrize("columns", [9, 33])
def test_bands_with_several_shared_arrays_are_right(prove, columns):
    prove(MASKED_BAND % (45, columns, 20), sanitize=True)
