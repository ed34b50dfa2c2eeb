"""Normalisations and softmaxes: statistics of an axis or more, and a map with them."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import BF16, F16, F32, Operator

GROUP = "norms and softmax"
_F = "torch.nn.functional"
_IMAGE = {"N": 12, "C": 96, "H": 110, "W": 121}
_X, _Y = {"x": f"[N, C, H, W] | {F32}"}, {"y": f"[N, C, H, W] | {F32}"}
_AFFINE = {"g": f"[C] | {F32}", "b": f"[C] | {F32}"}


def operators() -> Iterator[Operator]:
    yield from _images()
    yield from _rows()
    yield from _softmaxes()


def _images() -> Iterator[Operator]:
    yield Operator(
        "batch norm in training f32", GROUP, _IMAGE, {**_X, **_AFFINE, **_Y},
        "mu[c] = mean(x[n, c, h, w], n, h, w)\n"
        "v[c] = var(x[n, c, h, w], n, h, w)\n"
        "y[n, c, h, w] = (x[n, c, h, w] - mu[c]) / sqrt(v[c] + 1e-5) * g[c] + b[c]",
        f"{_F}.batch_norm(x, None, None, g, b, training=True, eps=1e-5)", is_compiled=True,
    )  # fmt: skip
    yield Operator(
        "batch norm in inference f32", GROUP, _IMAGE, {**_X, "m": f"[C] | {F32}", "v": f"[C] | {F32}", **_AFFINE, **_Y},
        "y[n, c, h, w] = (x[n, c, h, w] - m[c]) * rsqrt(abs(v[c]) + 1e-5) * g[c] + b[c]",
        f"{_F}.batch_norm(x, m, torch.abs(v), g, b, training=False, eps=1e-5)",
    )  # fmt: skip
    yield Operator(
        "instance norm f32", GROUP, _IMAGE, {**_X, **_Y},
        "mu[n, c] = mean(x[n, c, h, w], h, w)\n"
        "v[n, c] = mean((x[n, c, h, w] - mu[n, c]) ** 2, h, w)\n"
        "y[n, c, h, w] = (x[n, c, h, w] - mu[n, c]) / sqrt(v[n, c] + 1e-5)",
        f"{_F}.instance_norm(x, eps=1e-5)",
    )  # fmt: skip
    grouped = {"N": 12, "D": 12, "H": 110, "W": 121}
    affine = {"g": f"[G * D] | {F32}", "b": f"[G * D] | {F32}"}
    yield Operator(
        "group norm f32", GROUP, grouped,
        {"x": f"[N, G * D, H, W] | {F32}", **affine, "y": f"[N, G * D, H, W] | {F32}"},
        "mu[n, k] = mean(x[n, k * D + d, h, w], d, h, w)\n"
        "v[n, k] = var(x[n, k * D + d, h, w], d, h, w)\n"
        "y[n, c, h, w] = (x[n, c, h, w] - mu[n, c // D]) * rsqrt(v[n, c // D] + 1e-5) * g[c] + b[c]",
        f"{_F}.group_norm(x, 8, g, b, 1e-5)", derived={"G": 8}, more="indices: {k: G, d: D}", is_compiled=True,
    )  # fmt: skip
    yield Operator(
        "group norm with groups as an axis f32", GROUP, grouped,
        {"x": f"[N, G, D, H, W] | {F32}", "y": f"[N, G, D, H, W] | {F32}"},
        "mu[n, k] = mean(x[n, k, d, h, w], d, h, w)\n"
        "v[n, k] = var(x[n, k, d, h, w], d, h, w)\n"
        "y[n, k, d, h, w] = (x[n, k, d, h, w] - mu[n, k]) * rsqrt(v[n, k] + 1e-5)",
        f"{_F}.group_norm(x.flatten(1, 2), 6, None, None, 1e-5).view(x.shape)", derived={"G": 6},
    )  # fmt: skip
    yield Operator(
        "layer norm of planes f32", GROUP, {"N": 24, "C": 40, "H": 90, "W": 95},
        {**_X, "g": f"[C, H, W] | {F32}", "b": f"[C, H, W] | {F32}", **_Y},
        "mu[n] = mean(x[n, c, h, w], c, h, w)\n"
        "v[n] = var(x[n, c, h, w], c, h, w)\n"
        "y[n, c, h, w] = (x[n, c, h, w] - mu[n]) / sqrt(v[n] + 1e-5) * g[c, h, w] + b[c, h, w]",
        f"{_F}.layer_norm(x, x.shape[1:], g, b, 1e-5)",
    )  # fmt: skip
    yield Operator(
        "RMS norm of channels f32", GROUP, _IMAGE, {**_X, **_Y},
        "y[n, c, h, w] = x[n, c, h, w] / sqrt(mean(x[n, d, h, w] ** 2, d) + 1e-5)",
        "x / torch.sqrt(torch.mean(x ** 2, 1, keepdim=True) + 1e-5)", is_compiled=True,
    )  # fmt: skip
    yield Operator(
        "layer norm of channels f32", GROUP, _IMAGE, {**_X, **_AFFINE, **_Y},
        "mu[n, h, w] = mean(x[n, c, h, w], c)\n"
        "v[n, h, w] = var(x[n, c, h, w], c)\n"
        "y[n, c, h, w] = (x[n, c, h, w] - mu[n, h, w]) / sqrt(v[n, h, w] + 1e-6) * g[c] + b[c]",
        f"{_F}.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), g, b, 1e-6).permute(0, 3, 1, 2).contiguous()",
    )  # fmt: skip
    yield Operator(
        "local response norm f32", GROUP, _IMAGE, {"x": f"[N, C, H, W] | {F32} | boundary: zero", **_Y},
        "y[n, c, h, w] = x[n, c, h, w] / (1 + 0.0001 / 5 * sum(x[n, c + r - 2, h, w] ** 2, r)) ** 0.75",
        f"{_F}.local_response_norm(x, 5)", more="indices: {r: 5}",
    )  # fmt: skip


def _rows() -> Iterator[Operator]:
    for dtype, short, rows, columns in ((F32, "f32", 9001, 3000), (BF16, "bf16", 12_000, 5120)):
        vectors = {"g": f"[N] | {dtype}", "b": f"[N] | {dtype}"}
        arrays = {"x": f"[M, N] | {dtype}", **vectors, "y": f"[M, N] | {dtype}"}
        yield Operator(
            f"layer norm {short} {rows}×{columns}", GROUP, {"M": rows, "N": columns}, arrays,
            "mu[i] = mean(x[i, j], j)\ns[i] = rsqrt(var(x[i, j], j) + 1e-5)\n"
            "y[i, j] = (x[i, j] - mu[i]) * s[i] * g[j] + b[j]",
            f"{_F}.layer_norm(x, (x.shape[1],), g, b, 1e-5)",
        )  # fmt: skip
    arrays = {"x": f"[M, N] | {F32}", "y": f"[M, N] | {F32}"}
    matrix = {"M": 5003, "N": 7000}
    yield Operator(
        "Frobenius norm f32", GROUP, matrix, arrays, "y[i, j] = x[i, j] / norm(x[k, l], k, l)",
        "x / torch.linalg.matrix_norm(x)", is_compiled=True,
    )  # fmt: skip
    yield Operator(
        "L1 norm of rows f32", GROUP, matrix, arrays, "y[i, j] = x[i, j] / sum(abs(x[i, k]), k)",
        "x / torch.sum(torch.abs(x), 1, keepdim=True)",
    )  # fmt: skip
    yield Operator(
        "L2 norm of rows f32", GROUP, matrix, arrays, "y[i, j] = x[i, j] / maximum(norm(x[i, k], k), 1e-12)",
        f"{_F}.normalize(x, dim=1)",
    )  # fmt: skip
    yield Operator(
        "L2 norm of columns f32", GROUP, matrix, arrays, "y[i, j] = x[i, j] / maximum(norm(x[k, j], k), 1e-12)",
        f"{_F}.normalize(x, dim=0)",
    )  # fmt: skip
    yield Operator(
        "mean-absolute norm of rows f32", GROUP, matrix, arrays, "y[i, j] = x[i, j] / mean(abs(x[i, k]), k)",
        "x / torch.mean(torch.abs(x), 1, keepdim=True)",
    )  # fmt: skip
    residual = {"x": f"[M, N] | {F32}", "r": f"[M, N] | {F32}", "g": f"[N] | {F32}", "y": f"[M, N] | {F32}"}
    yield Operator(
        "residual and RMS norm f32", GROUP, {"M": 7001, "N": 3584}, residual,
        "t[i, j] = x[i, j] + r[i, j]\ny[i, j] = t[i, j] * rsqrt(mean(t[i, k] ** 2, k) + 1e-6) * g[j]",
        f"{_F}.rms_norm(x + r, (x.shape[1],), g, 1e-6)", is_compiled=True,
    )  # fmt: skip


def _softmaxes() -> Iterator[Operator]:
    for dtype, short, rows, columns in ((F32, "f32", 3000, 9001), (F16, "f16", 5000, 6000), (F32, "f32", 150, 150_001)):
        arrays = {"x": f"[M, N] | {dtype}", "y": f"[M, N] | {dtype}"}
        yield Operator(
            f"softmax {short} {rows}×{columns}", GROUP, {"M": rows, "N": columns}, arrays,
            "y[i, j] = softmax(x[i, j], j)", "torch.softmax(x, 1)",
        )  # fmt: skip
    arrays = {"x": f"[M, N] | {F32}", "y": f"[M, N] | {F32}"}
    sizes = {"M": 4000, "N": 6500}
    yield Operator(
        "log softmax f32", GROUP, sizes, arrays, "y[i, j] = log_softmax(x[i, j], j)", "torch.log_softmax(x, 1)"
    )
    yield Operator(
        "softmax written out f32", GROUP, sizes, arrays,
        "e[i, j] = exp(x[i, j] - max(x[i, k], k))\ny[i, j] = e[i, j] / sum(e[i, k], k)", "torch.softmax(x, 1)",
    )  # fmt: skip
    yield Operator(
        "softmax of columns f32", GROUP, sizes, arrays, "y[i, j] = softmax(x[i, j], i)", "torch.softmax(x, 0)"
    )
    yield Operator(
        "softmax of channels f32", GROUP, _IMAGE, {**_X, **_Y}, "y[n, c, h, w] = softmax(x[n, c, h, w], c)",
        "torch.softmax(x, 1)",
    )  # fmt: skip
    yield Operator(
        "causal softmax f32", GROUP, {"B": 20, "S": 1300}, {"x": f"[B, S, S] | {F32}", "y": f"[B, S, S] | {F32}"},
        "s[b, i, j] = x[b, i, j] * 0.125 if j <= i else -inf\ny[b, i, j] = softmax(s[b, i, j], j)",
        "torch.softmax((x * 0.125).masked_fill("
        "torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1), -float('inf')), 2)",
    )  # fmt: skip
