"""Statements against hand-written NumPy: evaluated in full, in small chunks, and at single points."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cugen.reference import evaluate as evaluation
from cugen.reference import interpreter


@dataclass(frozen=True)
class Form:
    name: str
    compute: str
    arrays: dict[str, str]
    expected: Callable[..., Any]
    extra: str = ""


def conv1d(x, w, pad_mode, **pad):
    radius = len(w) // 2
    padded = np.pad(x, radius, mode=pad_mode, **pad)
    return np.array([padded[i : i + len(w)] @ w for i in range(len(x))])


def conv2d(x, w, stride=1, dilation=1):
    n, _, h, width = x.shape
    f, _, r, s = w.shape
    oh, ow = ((size - dilation * (k - 1) - 1) // stride + 1 for size, k in ((h, r), (width, s)))
    y = np.zeros((n, f, oh, ow))
    for i in range(r):
        for j in range(s):
            window = x[:, :, i * dilation :, j * dilation :][:, :, : oh * stride : stride, : ow * stride : stride]
            y += np.einsum("nchw,fc->nfhw", window[:, :, :oh, :ow], w[:, :, i, j])
    return y


def transposed_conv(x, w, stride):
    y = np.zeros((len(x) - 1) * stride + len(w))
    for i, value in enumerate(x):
        y[i * stride : i * stride + len(w)] += value * w
    return y


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b):
    mean = x.mean(axis=1, keepdims=True)
    var = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * g + b


def erf(x):
    return np.vectorize(math.erf)(x)


def gathered(x, i):
    return x[i]


def exclusive(x):
    return np.concatenate([np.zeros((len(x), 1)), np.cumsum(x, axis=1)[:, :-1]], axis=1)


MN = {"A": "float32 7 5", "C": "float32 7 5"}
ROW = {"x": "float32 40", "y": "float32 40"}
MATRICES = {
    "nn": ("A[m, k] * B[k, n]", "7 9", "9 5", lambda A, B: A @ B),
    "nt": ("A[m, k] * B[n, k]", "7 9", "5 9", lambda A, B: A @ B.T),
    "tn": ("A[k, m] * B[k, n]", "9 7", "9 5", lambda A, B: A.T @ B),
    "tt": ("A[k, m] * B[n, k]", "9 7", "5 9", lambda A, B: A.T @ B.T),
}

FORMS = [
    *(
        Form(
            f"matmul_{kind}_{dtype}",
            f"C[m, n] = sum({body}, k)",
            {"A": f"{dtype} {a}", "B": f"{dtype} {b}", "C": f"{dtype} 7 5"},
            expected,
        )
        for kind, (body, a, b, expected) in MATRICES.items()
        for dtype in ("float32", "float64", "int32")
    ),
    Form(
        "large_matmul",
        "C[m, n] = sum(A[m, k] * B[k, n], k)",
        {"A": "float32 40 50", "B": "float32 50 30", "C": "float32 40 30"},
        lambda A, B: A @ B,
    ),
    Form(
        "batched_matmul",
        "C[b, m, n] = sum(A[b, m, k] * B[b, k, n], k)",
        {"A": "float32 3 20 30", "B": "float32 3 30 25", "C": "float32 3 20 25"},
        lambda A, B: A @ B,
    ),
    Form(
        "matmul_with_shared_batch",
        "C[b, m, n] = sum(A[b, m, k] * B[k, n], k)",
        {"A": "float32 3 20 30", "B": "float32 30 25", "C": "float32 3 20 25"},
        lambda A, B: A @ B,
    ),
    Form(
        "three_factors",
        "C[m, n] = sum(A[m, k] * s[k] * B[k, n], k)",
        {"A": "float32 20 30", "s": "float32 30", "B": "float32 30 25", "C": "float32 20 25"},
        lambda A, s, B: A * s @ B,
    ),
    Form(
        "bilinear_form",
        "C[n] = sum(A[n, i] * W[i, j] * B[n, j], i, j)",
        {"A": "float32 8 12", "W": "float32 12 13", "B": "float32 8 13", "C": "float32 8"},
        lambda A, W, B: np.einsum("ni,ij,nj->n", A, W, B),
    ),
    Form(
        "matmul_scaled_and_accumulated",
        "C[m, n] += 2 * sum(A[m, k] * B[k, n], k)",
        {"A": "float32 20 30", "B": "float32 30 25", "C": "float32 20 25"},
        lambda A, B, C: C + 2 * (A @ B),
    ),
    Form(
        "matvec",
        "y[m] = sum(A[m, k] * x[k], k)",
        {"A": "float32 20 30", "x": "float32 30", "y": "float32 20"},
        lambda A, x: A @ x,
    ),
    Form(
        "upper_triangular_product",
        "C[i, j] = sum(A[i, k] * B[k, j], k, where=i <= k and k <= j)",
        {"A": "float32 30 30", "B": "float32 30 30", "C": "float32 30 30"},
        lambda A, B: np.triu(A) @ np.triu(B),
    ),
    Form(
        "lower_triangle_of_a_product",
        "C[i, j] = sum(A[i, k] * A[j, k], k, where=j <= i)",
        {"A": "float32 20 30", "C": "float32 20 20"},
        lambda A: np.tril(A @ A.T),
    ),
    Form(
        "product_whose_mask_couples_all_indices",
        "C[i, j] = sum(A[i, k] * B[k, j], k, where=i + j <= k)",
        {"A": "float32 20 20", "B": "float32 20 20", "C": "float32 20 20"},
        lambda A, B: np.array([[A[i, i + j :] @ B[i + j :, j] for j in range(20)] for i in range(20)]),
    ),
    Form("transpose", "C[n, m] = A[m, n]", {"A": "float32 7 5", "C": "float32 5 7"}, lambda A: A.T),
    Form("outer", "C[i, j] = x[i] * z[j]", {"x": "float32 7", "z": "float32 5", "C": "float32 7 5"}, np.outer),
    Form("diagonal", "y[i] = A[i, i]", {"A": "float32 7 7", "y": "float32 7"}, np.diagonal),
    Form("constant_fill", "C[m, n] = 3.5", {"C": "float32 7 5"}, lambda: np.full((7, 5), 3.5)),
    Form(
        "index_values",
        "C[m, n] = m * 10 + n",
        {"C": "int32 7 5"},
        lambda: np.arange(7)[:, None] * 10 + np.arange(5),
    ),
    Form("total", "s = sum(A[m, n], m, n)", {"A": "float32 7 5", "s": "float32"}, np.sum),
    Form("sum_over_rows", "y[n] = sum(A[m, n], m)", {"A": "float32 7 5", "y": "float32 5"}, lambda A: A.sum(0)),
    Form("sum_of_bools", "y[m] = sum(A[m, n] > 0, n)", {"A": "float32 7 5", "y": "int32 7"}, lambda A: (A > 0).sum(1)),
    Form("prod", "y[m] = prod(A[m, n], n)", {"A": "float32 7 5", "y": "float32 7"}, lambda A: A.prod(1)),
    Form("max", "y[m] = max(A[m, n], n)", {"A": "float32 7 5", "y": "float32 7"}, lambda A: A.max(1)),
    Form("min", "y[m] = min(A[m, n], n)", {"A": "int16 7 5", "y": "int16 7"}, lambda A: A.min(1)),
    Form("any", "y[m] = any(A[m, n] > 1, n)", {"A": "float32 7 5", "y": "bool 7"}, lambda A: (A > 1).any(1)),
    Form("all", "y[m] = all(A[m, n] > -1, n)", {"A": "float32 7 5", "y": "bool 7"}, lambda A: (A > -1).all(1)),
    Form(
        "argmax", "y[m] = cast(argmax(A[m, n], n), int32)", {"A": "float32 7 5", "y": "int32 7"}, lambda A: A.argmax(1)
    ),
    Form("argmin_of_ties", "y[m] = argmin(A[m, n], n)", {"A": "int8 7 25", "y": "int64 7"}, lambda A: A.argmin(1)),
    Form(
        "mean_where",
        "y[m] = sum(A[m, n], n, where=n >= m) / 2",
        {"A": "float32 5 5", "y": "float32 5"},
        lambda A: np.triu(A).sum(1) / 2,
    ),
    Form(
        "max_where_nothing_is_left",
        "y[m] = max(A[m, n], n, where=n > m)",
        {"A": "float32 5 5", "y": "float32 5"},
        lambda A: np.array([A[m, m + 1 :].max(initial=-np.inf) for m in range(5)]),
    ),
    Form(
        "softmax_by_hand",
        "y[i, j] = exp(x[i, j] - max(x[i, k], k)) / sum(exp(x[i, l] - max(x[i, k], k)), l)",
        {"x": "float32 6 30", "y": "float32 6 30"},
        softmax,
    ),
    Form(
        "softmax_in_steps",
        """m[i] = max(x[i, j], j)
        e[i, j] = exp(x[i, j] - m[i])
        y[i, j] = e[i, j] / sum(e[i, k], k)""",
        {"x": "float32 6 30", "y": "float32 6 30"},
        softmax,
    ),
    Form(
        "layer_norm",
        """mu[i] = sum(x[i, j], j) / 30
        v[i] = sum((x[i, j] - mu[i]) * (x[i, j] - mu[i]), j) / 30
        y[i, j] = (x[i, j] - mu[i]) * rsqrt(v[i] + 1e-5) * g[j] + b[j]""",
        {"x": "float32 6 30", "g": "float32 30", "b": "float32 30", "y": "float32 6 30"},
        layer_norm,
    ),
    Form(
        "attention",
        """s[i, j] = sum(q[i, d] * k[j, d], d) / 4
        p[i, j] = exp(s[i, j] - max(s[i, l], l))
        o[i, d] = sum(p[i, j] * v[j, d], j) / sum(p[i, j], j)""",
        {"q": "float32 12 16", "k": "float32 14 16", "v": "float32 14 16", "o": "float32 12 16"},
        lambda q, k, v: softmax(q @ k.T / 4) @ v,
    ),
    *(
        Form(
            f"conv1d_{mode}",
            "y[i] = sum(x[i + r - 2] * w[r], r)",
            {"x": f"float32 40 : boundary: {boundary}", "w": "float32 5", "y": "float32 40"},
            lambda x, w, *, mode=mode, pad=pad: conv1d(x, w, mode, **pad),
        )
        for mode, boundary, pad in (
            ("constant", "zero", {}),
            ("edge", "clamp", {}),
            ("wrap", "wrap", {}),
            ("reflect", "reflect", {}),
            ("symmetric", "symmetric", {}),
            ("constant", "{value: 2.5}", {"constant_values": 2.5}),
        )
    ),
    Form(
        "conv2d",
        "y[n, f, p, q] = sum(x[n, c, p + r, q + s] * w[f, c, r, s], c, r, s)",
        {"x": "float32 2 3 9 8", "w": "float32 4 3 3 2", "y": "float32 2 4 7 7"},
        conv2d,
    ),
    Form(
        "conv2d_strided",
        "y[n, f, p, q] = sum(x[n, c, 2 * p + r, 2 * q + s] * w[f, c, r, s], c, r, s)",
        {"x": "float32 2 3 9 8", "w": "float32 4 3 3 2", "y": "float32 2 4 4 4"},
        lambda x, w: conv2d(x, w, stride=2),
    ),
    Form(
        "conv2d_dilated",
        "y[n, f, p, q] = sum(x[n, c, p + 3 * r, q + 3 * s] * w[f, c, r, s], c, r, s)",
        {"x": "float32 2 3 9 8", "w": "float32 4 3 3 2", "y": "float32 2 4 3 5"},
        lambda x, w: conv2d(x, w, dilation=3),
    ),
    Form(
        "depthwise_conv",
        "y[c, p, q] = sum(x[c, p + r, q + s] * w[c, r, s], r, s)",
        {"x": "float32 3 9 8", "w": "float32 3 3 2", "y": "float32 3 7 7"},
        lambda x, w: np.concatenate([conv2d(x[None, [c]], w[None, [c]])[0] for c in range(3)]),
    ),
    Form(
        "transposed_conv_by_exact_division",
        "y[o] = sum(x[(o - r) / 3] * w[r], r)",
        {"x": "float32 9 : boundary: zero", "w": "float32 4", "y": "float32 28"},
        lambda x, w: transposed_conv(x, w, 3),
    ),
    Form(
        "max_pool",
        "y[p] = max(x[2 * p + r - 1], r)",
        {"x": "float32 20 : boundary: {value: -inf}", "y": "float32 10"},
        lambda x: np.maximum(np.maximum(np.r_[-np.inf, x[1:-1:2]], x[::2]), x[1::2]),
        "indices: {r: 3}",
    ),
    Form(
        "upsampling",
        "y[i, j] = x[i // 2, j // 3]",
        {"x": "float32 4 3", "y": "float32 8 9"},
        lambda x: x.repeat(2, 0).repeat(3, 1),
    ),
    Form(
        "pixel_shuffle", "y[i] = x[i % 4, i // 4]", {"x": "float32 4 5", "y": "float32 20"}, lambda x: x.T.reshape(-1)
    ),
    Form("flip", "y[i] = x[39 - i]", ROW, lambda x: x[::-1]),
    Form("cumsum", "y[i, j] = cumsum(x[i, j], j)", {"x": "float32 4 9", "y": "float32 4 9"}, lambda x: x.cumsum(1)),
    Form("cumprod", "y[i, j] = cumprod(x[i, j], i)", {"x": "float32 4 9", "y": "float32 4 9"}, lambda x: x.cumprod(0)),
    Form("cummax", "y[i] = cummax(x[i], i)", ROW, np.maximum.accumulate),
    Form("cummin", "y[i] = cummin(x[i], i)", {"x": "int32 40", "y": "int32 40"}, np.minimum.accumulate),
    Form(
        "cumsum_exclusive",
        "y[i, j] = cumsum(x[i, j], j, exclusive=true)",
        {"x": "float32 4 9", "y": "float32 4 9"},
        exclusive,
    ),
    Form(
        "cumsum_reverse",
        "y[i, j] = cumsum(x[i, j], j, reverse=true)",
        {"x": "float32 4 9", "y": "float32 4 9"},
        lambda x: x[:, ::-1].cumsum(1)[:, ::-1],
    ),
    Form(
        "cumsum_exclusive_reverse",
        "y[i, j] = cumsum(x[i, j], j, exclusive=true, reverse=true)",
        {"x": "float32 4 9", "y": "float32 4 9"},
        lambda x: exclusive(x[:, ::-1])[:, ::-1],
    ),
    Form(
        "cumsum_where",
        "y[i, j] = cumsum(x[i, j], j, where=j % 2 == 0)",
        {"x": "float32 4 9", "y": "float32 4 9"},
        lambda x: (x * (np.arange(9) % 2 == 0)).cumsum(1),
    ),
    Form(
        "scan_of_a_reduction",
        "y[i] = cumsum(sum(x[i, j], j), i)",
        {"x": "float32 9 4", "y": "float32 9"},
        lambda x: x.sum(1).cumsum(),
    ),
    Form("gather_rows", "y[i, j] = x[ids[i], j]", {"x": "float32 3 5", "ids": "int32 8", "y": "float32 8 5"}, gathered),
    Form(
        "gather_of_a_gather",
        "y[i] = x[a[b[i]]]",
        {"x": "float32 3", "a": "int32 3", "b": "int64 8", "y": "float32 8"},
        lambda x, a, b: x[a[b]],
    ),
    Form(
        "embedding_bag",
        "y[i, j] = sum(x[ids[i, k], j] * w[i, k], k)",
        {"x": "float32 3 20", "ids": "int32 8 4", "w": "float32 8 4", "y": "float32 8 20"},
        lambda x, ids, w: (x[ids] * w[..., None]).sum(1),
    ),
    Form(
        "one_hot",
        "y[i, j] = 1 if ids[i] == j else 0",
        {"ids": "int32 8", "y": "float32 8 3"},
        lambda ids: np.eye(3)[ids],
    ),
    Form(
        "histogram",
        "y[b] = sum(ids[i] == b, i)",
        {"ids": "int32 50", "y": "int32 3"},
        lambda ids: np.bincount(ids, minlength=3),
    ),
    Form(
        "several_parts",
        """t[j] = 2 * x[j]
        y[0, j] = x[j]
        y[1, j] = t[j]
        y[2, j] = x[j] + t[j]""",
        {"x": "float32 9", "y": "float32 3 9"},
        lambda x: np.stack([x, 2 * x, 3 * x]),
    ),
    Form(
        "interleaved_parts",
        """y[2 * i] = x[i] - z[i]
        y[2 * i + 1] = x[i] + z[i]""",
        {"x": "float32 9", "z": "float32 9", "y": "float32 18"},
        lambda x, z: np.stack([x - z, x + z], axis=1).reshape(-1),
        "indices: {i: 9}",
    ),
    Form("in_place", "x[i] += 1", {"x": "float32 9"}, lambda x: x + 1),
    Form(
        "conditional_read",
        "y[i] = x[i - 1] if i > 0 else x[i]",
        ROW,
        lambda x: np.r_[x[0], x[:-1]],
    ),
    Form(
        "gelu",
        "y[i] = 0.5 * x[i] * (1 + erf(x[i] * 0.7071067811865476))",
        {"x": "float64 9", "y": "float64 9"},
        lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    ),
    Form("fma", "y[i] = fma(x[i], x[i], 2)", {"x": "float64 40", "y": "float64 40"}, lambda x: x * x + 2),
    Form(
        "distances",
        "d[i, j] = sqrt(sum((a[i, k] - b[j, k]) ** 2, k))",
        {"a": "float32 6 3", "b": "float32 5 3", "d": "float32 6 5"},
        lambda a, b: np.linalg.norm(a[:, None] - b[None], axis=2),
    ),
]


def given_arrays(form, rng):
    """Random data for all inputs and inouts; integers are small, since some of them index three rows."""
    target = {line.strip().split("[")[0].split(" ")[0] for line in form.compute.splitlines()}
    data = {}
    for name, text in form.arrays.items():
        if name in target and "+=" not in form.compute:
            continue
        dtype, *shape = text.partition(" : ")[0].split(" ")
        shape = tuple(map(int, shape))
        data[name] = (rng.normal(size=shape) if dtype.startswith("float") else rng.integers(0, 3, shape)).astype(dtype)
    return data


def by_hand(form, data):
    wide = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in data.items()}
    return np.asarray(form.expected(*wide.values()))


def assert_means(result, expected):
    assert result.value.shape == expected.shape
    np.testing.assert_allclose(result.exact.astype(np.float64), expected, rtol=2e-7, atol=1e-6)
    assert np.isfinite(result.bound).all()
    assert result.accepts(expected.astype(result.value.dtype)).all()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_result_is_that_of_numpy(form, run, rng):
    data = given_arrays(form, rng)
    assert_means(run(form.compute, form.arrays, data, form.extra), by_hand(form, data))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_small_chunks_give_the_same_result(form, run, rng, monkeypatch):
    monkeypatch.setattr(interpreter, "MAX_TERMS", 16)
    monkeypatch.setattr(evaluation, "MAX_ARRAY_ELEMENTS", 16)
    data = given_arrays(form, rng)
    assert_means(run(form.compute, form.arrays, data, form.extra), by_hand(form, data))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stored", [1 << 26, 0], ids=["stored temporaries", "recomputed temporaries"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_single_points_give_the_same_result(form, stored, run, rng, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_FULL_OPERATIONS", 0)
    monkeypatch.setattr(evaluation, "MAX_STORED_ELEMENTS", stored)
    data = given_arrays(form, rng)
    expected = by_hand(form, data)
    name = form.compute.strip().splitlines()[-1].strip().split("[")[0].split(" ")[0]
    numbers = rng.integers(0, expected.size, 7)
    result = run(form.compute, form.arrays, data, form.extra, points={name: numbers})
    assert_means(result, expected.reshape(-1)[numbers])


def test_points_of_a_sum_over_a_temporary_that_no_memory_holds(run, rng):
    a, b = (rng.normal(size=(200_000, 12)).astype(np.float32) for _ in "ab")
    arrays = {"a": "float32 200000 12", "b": "float32 200000 12", "y": "float64 200000"}
    compute = """
        t[i, j, k] = abs(a[i, k] - b[j, k])
        y[i] = sum(t[i, i + 0, k], k) + t[i, 7, 3]"""
    points = {"y": np.array([0, 99, 199_999])}
    result = run(compute, arrays, {"a": a, "b": b}, "indices: {j: 200000}", points=points)
    expected = np.abs(a - b).sum(axis=1) + np.abs(a[:, 3] - b[7, 3])
    assert_means(result, expected[points["y"]].astype(np.float64))
