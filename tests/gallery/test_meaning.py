"""What each spec of the gallery computes, written once more by hand: the reference must mean the same."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.runtime.inputs import draw, known_params
from cugen.spec.model import Spec

Array = Any  # a NumPy array; NumPy's own annotations lose its shape and type in most operations
MEANINGS: dict[str, Callable[..., Array]] = {}
ROUNDING = 2.0**-22  # the reference rounds what a spec stores on the way; a wrong term would be far larger


def meaning_of(*kernels: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """The function yields the only output of these kernels; its parameters are their inputs, floats in float64."""

    def register(function: Callable[..., Array]) -> Callable[..., Array]:
        MEANINGS.update(dict.fromkeys(kernels, function))
        return function

    return register


@meaning_of(
    "ladder_1_naive",
    "ladder_2_coalesced",
    "ladder_3_shared",
    "ladder_4_columns",
    "ladder_5_squares",
    "ladder_6_stages",
    "ladder_7_serpentine",
    "ladder_8_wide",
    "ladder_9_shared_out",
    "tensor_ladder_1_naive",
    "tensor_ladder_2_tiled",
    "tensor_ladder_3_mma",
    "tensor_ladder_4_pipeline",
    "tensor_ladder_5_wgmma",
    "tensor_ladder_6_wgmma_wide",
    "tensor_ladder_7_wgmma_stages",
    "tensor_ladder_8_wgmma_raster",
    "matmul_naive",
    "matmul_tiled",
    "matmul_tiled_even",
    "matmul_padded",
    "matmul_dynamic_shared",
    "matmul_tile_variants__8",
    "matmul_tile_variants__16",
    "matmul_tile_variants__32",
    "matmul_column_major",
    "matmul_register_tiles",
    "matmul_batched",
    "matmul_few_rows_down",
    "matmul_f64",
    "matmul_f16",
    "gemm_slices",
    "gemm_split",
    "gemm_tensor_f64",
    "gemm_tensor_tf32",
    "gemm_wgmma_f16",
    "gemm_wgmma_stream_k",
)
def product(A: Array, B: Array) -> Array:
    return np.matmul(A, B)


@meaning_of("gemm_f32")
def scaled_product_and_bias(A: Array, B: Array, bias: Array, alpha: float) -> Array:
    return alpha * (A @ B) + bias


@meaning_of("gemm_f64", "gemm_tensor_bf16", "gemm_wgmma_multicast", "gemm_wgmma_no_producer", "gemm_wgmma_split")
def product_with_turned(A: Array, B: Array) -> Array:
    return A @ B.T


@meaning_of("gemm_wgmma_swap_ab")
def product_with_turned_and_bias_of_rows(A: Array, B: Array, bias: Array) -> Array:
    return A @ B.T + bias[:, None]


@meaning_of("gemm_f16")
def added_product_of_turned(A: Array, B: Array, C: Array) -> Array:
    return C + A.T @ B


@meaning_of("gemm_tensor_f16")
def active_product_of_turned_and_bias(A: Array, B: Array, bias: Array) -> Array:
    return np.maximum(A.T @ B + bias, 0)


@meaning_of("gemm_tensor_fp8__float8_e4m3", "gemm_tensor_fp8__float8_e5m2", "gemm_wgmma_fp8")
def scaled_product_with_turned(A: Array, B: Array, scale: float) -> Array:
    return scale * (A @ B.T)


@meaning_of("gemm_batched")
def active_products_and_residual(A: Array, B: Array, residual: Array) -> Array:
    return np.maximum(A @ B, 0) + residual


@meaning_of("permute_heads")
def heads_turned(K: Array) -> Array:
    return K.transpose(0, 2, 3, 1)


@meaning_of("transpose_f16")
def scaled_and_turned(A: Array, scale: Array) -> Array:
    return (A * scale[:, None]).T


@meaning_of("bias_relu")
def bias_activation_and_gate(x: Array, bias: Array, gate: Array) -> Array:
    return np.maximum(x + bias, 0) * gate[:, None]


@meaning_of("logistic")
def logistic_slope(x: Array, steepness: float) -> Array:
    curve = 1 / (1 + np.exp(-steepness * x))
    return steepness * curve * (1 - curve)


@meaning_of("outer_product")
def outer_product(a: Array, b: Array) -> Array:
    return np.outer(a, b)


@meaning_of("matmul_int8", "gemm_int8", "gemm_tensor_int8", "gemm_wgmma_int8")
def product_of_integers(A: Array, B: Array) -> Array:
    return np.matmul(A.astype(np.int32), B.astype(np.int32))


@meaning_of("matmul_transposed_a")
def product_with_first_transposed(A: Array, B: Array) -> Array:
    return A.T @ B


@meaning_of("matmul_transposed_b")
def product_with_second_transposed(A: Array, B: Array) -> Array:
    return A @ B.T


@meaning_of("matmul_bias_relu")
def dense_layer(A: Array, B: Array, bias: Array) -> Array:
    return np.maximum(A @ B + bias, 0)


@meaning_of("matmul_few_rows")
def layer_of_few_rows(x: Array, w: Array, bias: Array) -> Array:
    return np.maximum(x @ w.T + bias, 0)


@meaning_of("matmul_small")
def products_and_bias(A: Array, B: Array, bias: Array) -> Array:
    return np.matmul(A, B) + bias


@meaning_of("matmul_lower_triangular")
def product_with_lower_triangle(L: Array, B: Array) -> Array:
    return np.tril(L) @ B


@meaning_of("saxpy")
def scaled_and_added(a: float, x: Array, y: Array) -> Array:
    return a * x + y


@meaning_of("polynomial")
def polynomial(c: Array, x: Array) -> Array:
    return np.polynomial.polynomial.polyval(x, c)


@meaning_of("structures_of_arrays")
def lengths_of_components(x: Array, y: Array, z: Array) -> Array:
    return np.linalg.norm([x, y, z], axis=0)


@meaning_of("array_of_structures")
def lengths_of_points(point: Array) -> Array:
    return np.linalg.norm(point, axis=1)


@meaning_of("transpose_naive", "transpose_shared", "transpose_padded", "transpose_swizzled", "transpose_f64_kepler")
def transposed(A: Array) -> Array:
    return A.T


@meaning_of("blur5x5", "blur_separable", "blur_fused", "blur_shared")
def blurred(image: Array) -> Array:
    row = np.array([1, 4, 6, 4, 1]) / 16
    height, width = image.shape
    padded = np.pad(image, 2, mode="edge")
    return sum(
        row[r] * row[s] * padded[r : r + height, s : s + width] for r in range(5) for s in range(5)
    ) + np.zeros_like(image)


@meaning_of("n_body")
def accelerations(p: Array) -> Array:
    away = p[None, :, :2] - p[:, None, :2]
    cubed = (np.square(away).sum(2) + 0.25) ** 1.5
    return (p[None, :, 3:] * away / cubed[:, :, None]).sum(1)


@meaning_of("moving_average")
def means_of_63(samples: Array) -> Array:
    return np.convolve(np.pad(samples, 31, mode="reflect"), np.ones(63) / 63, mode="valid")


@meaning_of("decimate")
def filtered_at_every_fourth_sample(x: Array, h: Array) -> Array:
    return np.convolve(x, h[::-1], mode="valid")[::4][:300007]


@meaning_of("autocorrelation")
def autocorrelation(x: Array) -> Array:
    return np.array([[row[: row.size - lag] @ row[lag:] for lag in range(100)] for row in x])


@meaning_of("sobel")
def steepness(image: Array) -> Array:
    height, width = image.shape
    padded = np.pad(image, 1, mode="edge")
    smooth, differ = [1, 2, 1], [-1, 0, 1]
    gx, gy = np.zeros_like(image), np.zeros_like(image)
    for r in range(3):
        for s in range(3):
            part = padded[r : r + height, s : s + width]
            gx += smooth[r] * differ[s] * part
            gy += differ[r] * smooth[s] * part
    return np.hypot(gx, gy)


@meaning_of("jacobi2d")
def relaxed(u: Array) -> Array:
    result = u.copy()
    result[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
    return result


@meaning_of("heat_torus")
def heated_torus(u: Array) -> Array:
    around = sum(np.roll(u, shift, axis) for axis in (0, 1) for shift in (-1, 1))
    return u + float(np.float32(0.2)) * (around - 4 * u)


@meaning_of("enlarge")
def enlarged(x: Array) -> Array:
    def steps(size: int, count: int) -> tuple[Array, Array]:
        """The element before each point, and the weight of the one after it in 1/256."""
        points = (np.arange(count) + 0.5) * size / count - 0.5
        return np.divmod(np.floor(points * 256 + 0.5).astype(int), 256)

    (rows, below), (columns, right) = steps(270, 405), steps(480, 720)
    below = below[:, None]
    both = (below * right + 128) // 256
    weights = {(0, 0): 256 - below - right + both, (1, 0): below - both, (0, 1): right - both, (1, 1): both}
    return sum(
        weight / 256 * x[np.clip(rows + i, 0, 269)][:, np.clip(columns + j, 0, 479)]
        for (i, j), weight in weights.items()
    )


@meaning_of("heat3d")
def heated(u: Array) -> Array:
    laplacian = sum(np.diff(u, n=2, axis=axis, prepend=0, append=0) for axis in range(3))
    return u + float(np.float32(0.1)) * laplacian


@meaning_of("row_sum")
def sums_of_rows(x: Array) -> Array:
    return np.sum(x, axis=1)


@meaning_of("column_sum")
def sums_of_columns(x: Array) -> Array:
    return np.sum(x, axis=0)


@meaning_of("full_sum")
def sum_of_all(x: Array) -> Array:
    return np.sum(x)


@meaning_of("softmax", "softmax_long_rows")
def softmax(x: Array) -> Array:
    powers = np.exp(x)
    return powers / powers.sum(axis=1, keepdims=True)


@meaning_of("layer_norm")
def normalised(x: Array, gamma: Array, beta: Array) -> Array:
    deviation = np.sqrt(x.var(axis=1, keepdims=True) + float(np.float32(1e-5)))
    return (x - x.mean(axis=1, keepdims=True)) / deviation * gamma + beta


@meaning_of("rms_norm_dynamic")
def scaled_to_unit_power(eps: float, x: Array, weight: Array) -> Array:
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight


@meaning_of("gelu__float32", "gelu__float16", "gelu__bfloat16")
def weighed_by_normal_probability(x: Array) -> Array:
    return np.array([value * NormalDist().cdf(value) for value in x.astype(np.float64).tolist()])


@meaning_of("gemm_wgmma_bf16")
def gelu_of_product_and_bias(A: Array, B: Array, bias: Array) -> Array:
    x = A.astype(np.float64) @ B.astype(np.float64).T + bias
    return weighed_by_normal_probability(x.ravel()).reshape(x.shape)


@meaning_of("argmax")
def positions_of_maxima(x: Array) -> Array:
    return np.argmax(x, axis=1)


@meaning_of("group_means")
def group_means(key: Array, x: Array) -> Array:
    groups = [x[key == g] for g in range(40)]
    return np.array([group.mean() if group.size else 0.0 for group in groups])


@meaning_of("table_gradient")
def table_gradient(id: Array, g: Array) -> Array:
    gradient = np.zeros((2000, g.shape[1]))
    for number, row in zip(id, g, strict=True):
        if 0 <= number < 2000:
            gradient[number] += row
    return gradient


@meaning_of("histogram")
def numbers_in_bins(x: Array) -> Array:
    bins = (x * np.float32(100)).astype(np.int32) + 100
    return np.bincount(bins[(bins >= 0) & (bins < 200)], minlength=200)


@meaning_of("cumulative_sum")
def running_sums(x: Array) -> Array:
    return np.cumsum(x, axis=1)


@meaning_of("prefix_sum")
def running_sum_of_a_vector(x: Array) -> Array:
    return np.cumsum(x)


@meaning_of("drawdown")
def falls(price: Array) -> Array:
    return np.maximum.accumulate(price, axis=0) - price


@meaning_of("suffix_sums")
def sums_to_the_right(x: Array) -> Array:
    positive = np.where(x > 0, x, 0)
    return np.cumsum(positive[:, ::-1], axis=1)[:, ::-1] - positive


@meaning_of("gather")
def picked_rows(table: Array, ids: Array) -> Array:
    return table[ids]


@meaning_of("pitched_copy")
def copied(dense: Array) -> Array:
    return dense


@meaning_of("max_pool")
def largest_of_windows(x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows[:, ::2, ::2].max(axis=(3, 4))


@meaning_of("depthwise")
def filtered_by_channel(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.einsum("ncijrs,crs->ncij", windows, w)


@meaning_of("conv_channels")
def convolved_with_bias(x: Array, w: Array, bias: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.maximum(np.einsum("ncijrs,kcrs->nkij", windows, w) + bias[:, None, None], 0)


@meaning_of("conv_channels_first")
def convolved_with_stride(x: Array, w: Array, bias: Array) -> Array:
    return convolved_with_bias(x, w, bias)[..., ::2, ::2]


@meaning_of("conv_channels_last")
def convolved_channels_last(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("nijcrs,krsc->nijk", windows, w), 0)


@meaning_of("conv_weight_gradient")
def weight_gradient(x: Array, dy: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), axis=(1, 2))
    return np.einsum("nijk,nijcrs->krsc", dy, windows)


@meaning_of("conv_input_gradient")
def input_gradient(dy: Array, w: Array) -> Array:
    padded = np.pad(dy, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nkijrs,kcrs->ncij", windows, w[..., ::-1, ::-1])


@meaning_of("conv_winograd")
def convolved_by_winograd(x: Array, w: Array, bias: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    sums = np.einsum("ncijrs,kcrs->nkij", windows, w, optimize=True)
    return np.maximum(sums + bias[:, None, None], 0)


@meaning_of("conv_winograd_gradient")
def input_gradient_by_winograd(dy: Array, w: Array) -> Array:
    padded = np.pad(dy, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("nijkrs,rsck->nijc", windows, w[::-1, ::-1], optimize=True)


@meaning_of("conv_wgmma_bf16")
def convolved_by_wgmma(x: Array, f: Array, bias: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("nijcrs,krsc->nijk", windows[:, ::2, ::2], f) + bias, 0)


@meaning_of("conv_reflect")
def convolved_with_mirrored_borders(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.maximum(np.einsum("nijcrs,rsck->nijk", windows, w), 0)


@meaning_of("conv_strided_dilated")
def convolved(x: Array, w: Array) -> Array:
    """Stride 2, dilation 2, two zeros round the image: tap (r, s) meets every second pixel from (2r, 2s) on."""
    padded = np.pad(x, ((0, 0), (2, 2), (2, 2)))
    rows, columns = (padded.shape[1] - 5) // 2 + 1, (padded.shape[2] - 5) // 2 + 1
    result = np.zeros((w.shape[0], rows, columns))
    for r in range(3):
        for s in range(3):
            met = padded[:, 2 * r :: 2, 2 * s :: 2][:, :rows, :columns]
            result += np.einsum("oc,cpq->opq", w[:, :, r, s], met)
    return result


@meaning_of("conv_transposed")
def scattered(x: Array, w: Array) -> Array:
    """Stride 2, one pixel cut off all round: each pixel adds the filter, scaled by it, at twice its place."""
    _, height, width = x.shape
    result = np.zeros((w.shape[1], 2 * (height - 1) + 4, 2 * (width - 1) + 4))
    for i in range(height):
        for j in range(width):
            result[:, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += np.einsum("c,cors->ors", x[:, i, j], w)
    return result[:, 1:-1, 1:-1]


@meaning_of("attention_causal")
def attended(q: Array, k: Array, v: Array) -> Array:
    score = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    allowed = np.tril(np.exp(score))
    return (allowed / allowed.sum(axis=-1, keepdims=True)) @ v


@meaning_of("life")
def lived_on(before: Array) -> Array:
    alive = before % 2
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    living = sum(np.roll(alive, shift, axis=(0, 1)).astype(int) for shift in around)
    return (living == 3) | ((living == 2) & (alive == 1))


@meaning_of("tone_curve")
def toned(photo: Array, curve: Array) -> Array:
    return curve[photo]


def _widened(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind in "fV" else values  # V: bfloat16 and float8


def test_each_spec_has_a_meaning_written_by_hand(gallery: dict[str, Spec]) -> None:
    assert sorted(MEANINGS) == sorted(gallery)


@pytest.mark.sampled(6)
@pytest.mark.whole
def test_the_reference_agrees_with_the_meaning_written_by_hand(spec: Spec, dynamic_params: dict[str, int]) -> None:
    inputs = draw(spec, known_params(spec, dynamic_params), seed=5)
    expected = MEANINGS[spec.kernel](**{n: _widened(a) for n, a in inputs.arrays.items()}, **inputs.scalars)
    (result,) = evaluate(spec, inputs.arrays, params=dynamic_params, scalars=inputs.scalars).values()
    assert result.exact.shape == expected.shape
    np.testing.assert_allclose(result.exact.astype(np.float64), expected, rtol=ROUNDING, atol=ROUNDING)
    assert np.all(result.accepts(expected.astype(result.value.dtype)))
