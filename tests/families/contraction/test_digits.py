"""Windows at digits of an index, `k // C % 2` and `k % C`, are read as those over several indices are."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses

MERGED = """
params: {B: %s, H: %s, C: %s}
arrays:
  x: {shape: [B, 2 * H, 2 * H, C], dtype: bfloat16}
  w: {shape: [2 * C, 4 * C], dtype: bfloat16}
  y: {shape: [B, H, H, 2 * C], dtype: bfloat16}
compute: y[b, i, j, o] = sum(x[b, 2 * i + k // C %% 2, 2 * j + k // (2 * C), k %% C] * w[o, k], k)
"""
PATCHES = """
params: {N: %s, H: %s, P: %s, E: %s}
arrays:
  x: {shape: [N, H * P, H * P, 3], dtype: float16}
  w: {shape: [E, P, P, 3], dtype: float16}
  y: {shape: [N, H * H, E], dtype: float16}
compute: y[n, t, e] = sum(x[n, t // H * P + r, t %% H * P + s, c] * w[e, r, s, c], r, s, c)
"""
UNCHANGED = {
    "a remainder that wraps": ("4 * C", "k // C % 3", "k % C"),
    "digits that overlap": ("4 * C", "k // 2 % 4", "k % C"),
    "an index beside its digits": ("4 * C", "k // 4", "k"),
}
SINGLE_SUM = """
params: {M: 256, C: 64, N: 128}
arrays:
  x: {shape: [M, 64, 4 * C], dtype: float16}
  w: {shape: [N, %s], dtype: float16}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = sum(x[m, %s, %s] * w[n, k], k)
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_fastest_digit_of_k_is_copied_in_vectors(planned, target):
    kernel = planned(f"target: {target}\n{MERGED % (16, 28, 192)}")
    assert kernel.family == ("wgmma" if target == "sm_90a" else "gemm")
    widths = {a.width for a in accesses(kernel.body) if a.array.name == "x" and a.array.space == "global"}
    assert 1 not in widths


@pytest.mark.parametrize("sizes", [(2, 2, 3), (1, 5, 16), (2, 3, 40)])
@pytest.mark.parametrize("family", ["", "schedule: {family: gemm}\n"], ids=["any family", "gemm"])
def test_sums_over_digits_of_k_are_right(prove, sizes, family):
    prove(f"target: sm_80\n{MERGED % sizes}{family}", sanitize=True)


@pytest.mark.parametrize("sizes", [(2, 3, 2, 5), (1, 4, 4, 33)])
def test_results_at_digits_of_their_index_are_right(prove, sizes):
    prove(f"target: sm_80\n{PATCHES % sizes}", sanitize=True)


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_is_not_a_number_of_digits_stays_as_it_is(made, name):
    source = made("target: sm_80\n" + SINGLE_SUM % UNCHANGED[name]).source
    assert "k_0" not in source


def test_digits_of_k_in_im2col_tensor_maps_are_right(prove):
    prove(f"target: sm_90a\n{MERGED % (2, 8, 64)}schedule: {{family: wgmma}}\n")
