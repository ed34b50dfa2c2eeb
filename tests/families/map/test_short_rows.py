"""Rows with few elements in `map`: how many threads of a block are busy, and where a thread's vectors are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.nodes import For
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.honesty import check_honesty

SHUFFLE = """
params: {N: %s, C: %s, H: %s, W: %s}
arrays:
  x: {shape: [N, %s * C, H, W], dtype: %s}
  y: {shape: [N, C, %s * H, %s * W], dtype: %s}
compute: y[n, c, h, w] = x[n, %s * c + %s * (h %% %s) + w %% %s, h // %s, w // %s]
"""


def shuffled(factor: int, batch: int, channels: int, height: int, width: int, dtype: str = "float32") -> str:
    """The pixel shuffle of an image by a factor along both axes."""
    r, square = factor, factor * factor
    return SHUFFLE % (batch, channels, height, width, square, dtype, r, r, dtype, square, r, r, r, r, r)


def unrolled_over(kernel) -> list[str]:
    return [node.loop.index.name for node in walk_nodes(kernel.body) if isinstance(node, For) and node.loop.unroll]


def test_rows_of_three_elements_leave_few_threads_idle(planned):
    kernel = planned(shuffled(3, 8, 12, 150, 161))
    assert kernel.block == (3, 85, 1)


def test_vectors_go_along_an_index_with_room_for_them(planned):
    kernel = planned(shuffled(3, 8, 12, 150, 161))
    assert unrolled_over(kernel) == ["h_outer"]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    factor=st.sampled_from([2, 3, 5, 7]),
    height=st.integers(1, 23),
    width=st.integers(1, 190),
    dtype=st.sampled_from(["float32", "bfloat16", "int8"]),
)
def test_shuffled_images_of_any_size_are_right(prove, made, factor, height, width, dtype):
    text = shuffled(factor, 3, 2, height, width, dtype)
    prove(text, sanitize=True)
    kernel = made(text)
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []
