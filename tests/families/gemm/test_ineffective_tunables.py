"""Words of a product's schedule that would change nothing: where they are refused, and where they are taken."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import If
from cugen.plan.walking import walk_nodes

TEXT = """
params: {M: 64, K: %s, N: 64}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {%s}
"""
SMALL = "family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 8}, step: {k: 8}"


def product(k, schedule):
    return TEXT % (k, schedule)


@pytest.mark.parametrize(
    ("k", "more", "word"),
    [
        (16, "stages: 3", "all copies of 2 steps are begun before"),
        (5, "stages: 2", "all copies of 1 step are begun before"),
        ("dynamic", "", "2 steps or more of 8, the first of them filled up; here may be 0"),
        ("{range: [15, 64]}", "", "here may be 1"),
        ("{multiple_of: 8}", "", "1 step or more of 8; here may be 0"),
        (60, "stream: 1", "here may be 1"),
        (64, "stages: 5, split: 2, join: workspace", "all copies of 4 steps"),
    ],
)
def test_copies_that_cannot_go_among_products_are_refused_there(reasons, planned, k, more, word):
    schedule = ", ".join(filter(None, (SMALL, more)))
    (refusal,) = reasons("gemm", product(k, f"{schedule}, copies: apart"))
    assert word in refusal.reason
    assert refusal.key == "schedule.copies"
    assert planned(product(k, schedule)).family == "gemm"


@pytest.mark.parametrize(
    ("k", "more"),
    [
        (16, "stages: 2"),
        (20, "stages: 3"),
        ("{range: [16, 64]}", ""),
        ("{multiple_of: 8, range: [8, 64]}", ""),
        (64, "stream: 1"),
        (64, "stages: 4, split: 2, join: workspace"),
    ],
)
def test_copies_go_among_the_products_of_whole_steps(planned, k, more):
    schedule = ", ".join(filter(None, (SMALL, more)))
    among, before = (
        [node for node in walk_nodes(planned(product(k, f"{schedule}, copies: {copies}")).body) if isinstance(node, If)]
        for copies in ("apart", "first")
    )
    assert len(among) > len(before)
