"""Tunables without effect for a GEMM: where they are refused, and where they are accepted."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import If
from cugen.plan.traversal.walking import walk_nodes

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


def gemm(k, schedule):
    return TEXT % (k, schedule)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("k", "more", "text"),
    [
        (16, "stages: 3", "the prologue of 3 stages copies all of 2 k-tiles"),
        (5, "stages: 2", "the prologue of 2 stages copies all of 1 k-tile"),
        ("dynamic", "", "2 k-tiles or more of 8, the first of them zero-filled; here may be 0"),
        ("{range: [15, 64]}", "", "here may be 1"),
        ("{multiple_of: 8}", "", "1 k-tile or more of 8; here may be 0"),
        (60, "stream_k: 1", "here may be 1"),
        (64, "stages: 5, split_k: 2, reduction: workspace", "copies all of 4 k-tiles"),
    ],
)
def test_copies_that_cannot_be_interleaved_are_refused(reasons, planned, k, more, text):
    schedule = ", ".join(filter(None, (SMALL, more)))
    (refusal,) = reasons("gemm", gemm(k, f"{schedule}, prefetch: interleaved"))
    assert text in refusal.reason
    assert refusal.key == "schedule.prefetch"
    assert planned(gemm(k, schedule)).family == "gemm"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("k", "more"),
    [
        (16, "stages: 2"),
        (20, "stages: 3"),
        ("{range: [16, 64]}", ""),
        ("{multiple_of: 8, range: [8, 64]}", ""),
        (64, "stream_k: 1"),
        (64, "stages: 4, split_k: 2, reduction: workspace"),
    ],
)
def test_copies_are_interleaved_with_multiply_adds_of_full_k_tiles(planned, k, more):
    schedule = ", ".join(filter(None, (SMALL, more)))
    interleaved, upfront = (
        [
            node
            for node in walk_nodes(planned(gemm(k, f"{schedule}, prefetch: {prefetch}")).body)
            if isinstance(node, If)
        ]
        for prefetch in ("interleaved", "upfront")
    )
    assert len(interleaved) > len(upfront)
