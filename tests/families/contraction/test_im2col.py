"""im2col: what no implicit GEMM takes, as matrix multiplications over laid-out operands."""

from __future__ import annotations

import pytest

TEXT = """
params: {{{params}}}
arrays:
  x: {{shape: [{x}], dtype: {dtype}{more}}}
  w: {{shape: [{w}], dtype: {dtype}}}
  y: {{shape: [{y}], dtype: float32}}
compute: {compute}
"""


def text(params, x, w, y, compute, dtype="float32", more=", boundary: zero"):
    return TEXT.format(params=params, x=x, w=w, y=y, compute=compute, dtype=dtype, more=more)


CHANNELS_LAST = "y[b, h, v, k] = relu(sum(x[b, h + r - 1, v + s - 1, c] * w[r, s, c, k], r, s, c))"


def channels_last(size=16, dtype="float32", boundary="reflect"):
    params, more = f"B: 1, H: {size}, W: 16, C: 32, K: 32", f", boundary: {boundary}"
    return text(params, "B, H, W, C", "3, 3, C, K", "B, H, W, K", CHANNELS_LAST, dtype, more)


TRANSPOSED = text(
    "B: 2, H: 8, W: 9, C: 48, K: 36",
    "B, C, H, W",
    "C, K, 3, 3",
    "B, K, 2 * H, 2 * W",
    "y[b, k, h, v] = sum(x[b, c, (h - r) / 2, (v - s) / 2] * w[c, k, r, s], c, r, s)",
)
CONTRACTION = text(
    "I: 64, J: 70, K: 32, L: 40", "I, K, L", "L, K, J", "I, J", "y[i, j] = sum(x[i, k, l] * w[l, k, j], k, l)", more=""
)


def stored_by_launch(kernel) -> list[str]:
    return [kernel.computes[0].split(" = ")[0] for kernel in kernel.plan.kernels]


def test_receptive_fields_become_the_rows_of_a_matrix(made, prove):
    kernel = made(channels_last())
    assert stored_by_launch(kernel) == ["x_unfolded[b, h, v, r, s, c]", "y[b, h, v, k]"]
    assert kernel.plan.kernels[1].family in ("tiled", "gemm")
    prove(channels_last())


def test_zeros_outside_are_filled_in_by_the_copies_of_an_implicit_gemm(made):
    kernel = made(channels_last(boundary="zero"))
    assert stored_by_launch(kernel) == ["y[b, h, v, k]"]
    assert kernel.plan.kernels[0].family == "gemm"


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["clamp", "wrap", "reflect", "symmetric"])
def test_any_other_boundary_is_unfolded(made, prove, boundary):
    assert len(made(channels_last(boundary=boundary)).plan.kernels) == 2
    prove(channels_last(boundary=boundary))


def test_small_convolutions_and_those_with_a_schedule_are_one_launch(made):
    assert stored_by_launch(made(channels_last(8))) == ["y[b, h, v, k]"]
    assert stored_by_launch(made(channels_last() + "schedule: {family: direct}")) == ["y[b, h, v, k]"]


@pytest.mark.slow
def test_a_small_transposed_convolution_stores_products_in_place_of_unfolded_operands(made, prove):
    assert stored_by_launch(made(TRANSPOSED)) == ["y_products[b, k, w_2, w_3, x_2, x_3]", "y[b, k, h, v]"]
    prove(TRANSPOSED)


@pytest.mark.slow
def test_contracted_indices_take_the_order_of_the_other_operand(made, prove):
    assert stored_by_launch(made(CONTRACTION)) == ["x_unfolded[i, l, k]", "y[i, j]"]
    prove(CONTRACTION)
    prove(channels_last(dtype="float16"))
