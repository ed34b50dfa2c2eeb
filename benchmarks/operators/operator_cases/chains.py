"""Chains: a GEMM or a convolution with what follows it, up to a reduction."""

from __future__ import annotations

from collections.abc import Iterator

from .convolutions import convolution, transposed
from .operator import BF16, F32, Operator

PRODUCTS, CONVOLUTIONS = "GEMM chains", "convolution chains"
_F = "torch.nn.functional"
_LINEAR = {"x": f"[M, K] | {F32}", "w": f"[N, K] | {F32}", "b": f"[N] | {F32}"}
_SUM = "sum(x[m, k] * w[n, k], k)"
_CALL = f"{_F}.linear(x, w, b)"
_STATS = {"g": f"[N] | {F32}", "s": f"[N] | {F32}"}


def products() -> Iterator[Operator]:
    yield from _epilogues()
    yield from _reduced()
    yield from _normalised()


# The name, the epilogue of z = x·wᵀ + b, and PyTorch's.
_EPILOGUES = (
    ("bias and relu", "relu({z})", "torch.relu({z})"),
    ("swish and scale", "silu({z}) * 2.5", f"{_F}.silu({{z}}) * 2.5"),
    ("divide and gelu", "gelu(({z}) / 10)", f"{_F}.gelu({{z}} / 10)"),
    ("subtract, multiply and relu", "relu((({z}) - 2) * 1.5)", "torch.relu(({z} - 2) * 1.5)"),
    (
        "swish, divide, clamp, tanh and clamp",
        "clamp(tanh(clamp(silu({z}) / 2, -1, 1)), -0.9, 0.9)",
        f"torch.clamp(torch.tanh(torch.clamp({_F}.silu({{z}}) / 2, -1, 1)), -0.9, 0.9)",
    ),
    ("mish twice", "tanh(softplus({z})) * ({z})", f"{_F}.mish({{z}})"),
    ("sigmoid, scale and residual", "sigmoid({z}) * 2 + ({z})", "torch.sigmoid({z}) * 2 + {z}"),
    ("minimum with a constant and subtract", "minimum({z}, 0.5) - 1.25", "torch.clamp({z}, max=0.5) - 1.25"),
)  # fmt: skip


def _epilogues() -> Iterator[Operator]:
    for number, (name, after, peer) in enumerate(_EPILOGUES):
        sizes = {"M": 1000, "N": 1536, "K": 2000} if number % 2 else {"M": 300, "N": 5000, "K": 1001}
        yield Operator(
            f"linear, {name} f32", PRODUCTS, sizes, {**_LINEAR, "y": f"[M, N] | {F32}"},
            f"z[m, n] = {_SUM} + b[n]\ny[m, n] = {after.format(z='z[m, n]')}", peer.format(z=_CALL),
            is_compiled=number == 4,
        )  # fmt: skip
    halves = {name: text.replace(F32, BF16) for name, text in _LINEAR.items()}
    yield Operator(
        "linear, bias and gelu bf16", PRODUCTS, {"M": 2500, "N": 4096, "K": 1500}, {**halves, "y": f"[M, N] | {BF16}"},
        f"y[m, n] = gelu({_SUM} + b[n])", f"{_F}.gelu({_CALL})",
    )  # fmt: skip
    yield Operator(
        "linear and residual with a scale per column f32", PRODUCTS, {"M": 900, "N": 2000, "K": 3000},
        {**_LINEAR, "r": f"[M, N] | {F32}", "a": f"[N] | {F32}", "y": f"[M, N] | {F32}"},
        f"y[m, n] = r[m, n] + a[n] * ({_SUM} + b[n])", f"r + a * {_CALL}",
    )  # fmt: skip
    yield Operator(
        "two layers f32", PRODUCTS, {"M": 800, "N": 1200, "K": 900, "L": 1100},
        {"x": f"[M, K] | {F32}", "w": f"[N, K] | {F32}", "v": f"[L, N] | {F32}", "y": f"[M, L] | {F32}"},
        "h[m, n] = relu(sum(x[m, k] * w[n, k], k))\ny[m, l] = sum(h[m, n] * v[l, n], n)",
        "torch.relu(x @ w.T) @ v.T",
    )  # fmt: skip
    yield Operator(
        "gated layer f32", PRODUCTS, {"M": 1100, "N": 1400, "K": 1000},
        {"x": f"[M, K] | {F32}", "w": f"[N, K] | {F32}", "v": f"[N, K] | {F32}", "y": f"[M, N] | {F32}"},
        "y[m, n] = silu(sum(x[m, k] * w[n, k], k)) * sum(x[m, k] * v[n, k], k)",
        f"{_F}.silu(x @ w.T) * (x @ v.T)",
    )  # fmt: skip


def _reduced() -> Iterator[Operator]:
    """Rows of a linear layer that are reduced."""
    sizes = {"M": 1000, "N": 3000, "K": 1500}
    head, vector = f"z[m, n] = {_SUM} + b[n]\n", {"y": f"[M] | {F32}"}
    for name, after, peer in (
        ("sum of rows", "y[m] = sum(z[m, n], n)", "torch.sum({z}, 1)"),
        ("max of rows", "y[m] = max(z[m, n], n)", "torch.amax({z}, 1)"),
        ("sigmoid and sum", "y[m] = sum(sigmoid(z[m, n]), n)", "torch.sum(torch.sigmoid({z}), 1)"),
        (
            "logsumexp and gelu", "y[m] = gelu(max(z[m, n], n) + log(sum(exp(z[m, l] - max(z[m, n], n)), l)))",
            f"{_F}.gelu(torch.logsumexp({{z}}, 1))",
        ),
    ):  # fmt: skip
        yield Operator(
            f"linear, {name} f32", PRODUCTS, sizes, {**_LINEAR, **vector}, head + after, peer.format(z=_CALL)
        )
    yield Operator(
        "linear, max pool, sum and scale f32", PRODUCTS, {"M": 900, "H": 1400, "K": 1200},
        {"x": f"[M, K] | {F32}", "w": f"[2 * H, K] | {F32}", "y": f"[M] | {F32}"},
        "z[m, n] = sum(x[m, k] * w[n, k], k)\ny[m] = 0.5 * sum(max(z[m, 2 * h + r], r), h)",
        f"0.5 * torch.sum({_F}.max_pool1d((x @ w.T).unsqueeze(1), 2).squeeze(1), 1)", more="indices: {r: 2, h: H}",
    )  # fmt: skip
    yield Operator(
        "linear, mean pool, gelu, scale and max f32", PRODUCTS, {"M": 900, "H": 350, "K": 1200},
        {"x": f"[M, K] | {F32}", "w": f"[8 * H, K] | {F32}", "y": f"[M] | {F32}"},
        "z[m, n] = sum(x[m, k] * w[n, k], k)\ny[m] = max(gelu(mean(z[m, 8 * h + r], r)) * 2, h)",
        f"torch.amax({_F}.gelu({_F}.avg_pool1d((x @ w.T).unsqueeze(1), 8).squeeze(1)) * 2, 1)",
        more="indices: {r: 8, h: H}",
    )  # fmt: skip
    yield Operator(
        "linear and mean of everything f32", PRODUCTS, sizes, {**_LINEAR, "y": f"[] | {F32}"},
        head + "y = mean(abs(z[m, n]), m, n)", f"torch.mean(torch.abs({_CALL}))",
    )  # fmt: skip


def _normalised() -> Iterator[Operator]:
    sizes = {"M": 1000, "N": 1600, "K": 1200}
    head, result = f"z[m, n] = {_SUM} + b[n]\n", {"y": f"[M, N] | {F32}"}
    yield Operator(
        "linear and softmax f32", PRODUCTS, sizes, {**_LINEAR, **result}, head + "y[m, n] = softmax(z[m, n], n)",
        f"torch.softmax({_CALL}, 1)",
    )  # fmt: skip
    yield Operator(
        "linear, layer norm and relu f32", PRODUCTS, sizes, {**_LINEAR, **_STATS, **result},
        head + "mu[m] = mean(z[m, n], n)\nv[m] = var(z[m, n], n)\n"
        "y[m, n] = relu((z[m, n] - mu[m]) * rsqrt(v[m] + 1e-5) * g[n] + s[n])",
        f"torch.relu({_F}.layer_norm({_CALL}, (w.shape[0],), g, s, 1e-5))",
    )  # fmt: skip
    yield Operator(
        "linear, batch norm, gelu and relu f32", PRODUCTS, sizes, {**_LINEAR, **_STATS, **result},
        head + "mu[n] = mean(z[m, n], m)\nv[n] = var(z[m, n], m)\n"
        "y[m, n] = relu(gelu((z[m, n] - mu[n]) / sqrt(v[n] + 1e-5) * g[n] + s[n]))",
        f"torch.relu({_F}.gelu({_F}.batch_norm({_CALL}, None, None, g, s, True, 0.1, 1e-5)))", min_sizes={"M": 2},
    )  # fmt: skip
    yield Operator(
        "linear, group norm and hard tanh f32", PRODUCTS, {"M": 1000, "H": 50, "K": 1200},
        {"x": f"[M, K] | {F32}", "w": f"[32 * H, K] | {F32}", "y": f"[M, 32 * H] | {F32}"},
        "z[m, n] = sum(x[m, k] * w[n, k], k)\n"
        "mu[m, q] = mean(z[m, q * H + h], h)\nv[m, q] = var(z[m, q * H + h], h)\n"
        "y[m, n] = hardtanh((z[m, n] - mu[m, n // H]) * rsqrt(v[m, n // H] + 1e-5))",
        f"{_F}.hardtanh({_F}.group_norm(x @ w.T, 32))", more="indices: {q: 32, h: H}", min_sizes={"H": 2},
    )  # fmt: skip


def convolutions() -> Iterator[Operator]:
    yield from _after_convolutions()
    yield from _pooled()
    yield from _after_transposed()


def _after_convolutions() -> Iterator[Operator]:
    image = {"N": 10, "C": 24, "F": 48, "H": 66, "W": 75}
    bias = {"b": f"[F] | {F32}"}
    shift = {"b": f"[F] | {F32}", "a": f"[F] | {F32}"}
    column = "[:, None, None]"
    for name, after, more_inputs, peer in (
        ("bias and relu", "relu({} + b[f])", bias, f"torch.relu({{}} + b{column})"),
        ("relu then bias", "relu({}) + b[f]", bias, f"torch.relu({{}}) + b{column}"),
        (
            "scale and minimum",
            "minimum({} * 1.5 + b[f], a[f])",
            shift,
            f"torch.minimum({{}} * 1.5 + b{column}, a{column})",
        ),
        (
            "batch norm in inference and relu",
            "relu(a[f] * {} + b[f])",
            shift,
            f"torch.relu(a{column} * {{}} + b{column})",
        ),
        (
            "tanh, scale, bias and max",
            "maximum(tanh({}) * 2 + b[f], 0.1)",
            bias,
            f"torch.clamp(torch.tanh({{}}) * 2 + b{column}, min=0.1)",
        ),
    ):
        yield convolution(
            f"conv, {name}", image, (3, 3), 1, 1, after=after, more_inputs=more_inputs, peer=peer, group=CONVOLUTIONS
        )
    yield _chain(
        "conv, subtract, hard swish and mish",
        "t[n, f, i, j] = z[n, f, i, j] - 0.5\n"
        "u[n, f, i, j] = t[n, f, i, j] * clamp(t[n, f, i, j] + 3, 0, 6) / 6\n"
        "y[n, f, i, j] = u[n, f, i, j] * tanh(softplus(u[n, f, i, j]))",
        "[N, F, P, Q]",
        f"{_F}.mish({_F}.hardswish({{}} - 0.5))",
    )
    volume = {"N": 3, "C": 8, "F": 24, "D": 18, "H": 34, "W": 35}
    yield convolution(
        "conv 3-D, relu, leaky relu, gelu, sigmoid and bias",
        volume,
        (3, 3, 3),
        after="sigmoid(gelu(leaky_relu(relu({}), 0.01))) + b[f]",
        more_inputs=bias,
        peer=f"torch.sigmoid({_F}.gelu({_F}.leaky_relu(torch.relu({{}}), 0.01))) + b.view(-1, 1, 1, 1)",
        group=CONVOLUTIONS,
    )


_CONV = "sum(x[n, c, i + r, j + s] * w[f, c, r, s], c, r, s) + b[f]"
_TORCH_CONV = f"{_F}.conv2d(x, w, b)"
_CONV_IN = {"x": f"[N, C, H, W] | {F32}", "w": f"[F, C, 3, 3] | {F32}", "b": f"[F] | {F32}"}
_CONV_OUT = {"P": "H - 2", "Q": "W - 2"}
_CONV_MIN_SIZES = {"H": 3, "W": 3}
_IMAGE = {"N": 10, "C": 16, "F": 48, "H": 68, "W": 75}


def _chain(
    name: str, after: str, shape: str, peer: str, more: str = "", min_sizes: dict[str, int] | None = None, **inputs: str
) -> Operator:
    """A statement or more after z, a 3×3 convolution of x [N, C, H, W] with a bias."""
    return Operator(
        f"{name} f32", CONVOLUTIONS, _IMAGE, {**_CONV_IN, **inputs, "y": f"{shape} | {F32}"},
        f"z[n, f, i, j] = {_CONV}\n{after}", peer.format(_TORCH_CONV), _CONV_OUT,
        {**_CONV_MIN_SIZES, **(min_sizes or {})},
        f"indices: {{i: P, j: Q{more}}}", has_algorithms=True,
    )  # fmt: skip


def _pooled() -> Iterator[Operator]:
    yield _chain(
        "conv, relu and max pool", "y[n, f, u, v] = max(relu(z[n, f, 2 * u + a, 2 * v + e]), a, e)",
        "[N, F, P // 2, Q // 2]", f"{_F}.max_pool2d(torch.relu({{}}), 2)", ", a: 2, e: 2, u: P // 2, v: Q // 2",
        {"H": 4, "W": 4},
    )  # fmt: skip
    yield _chain(
        "conv, mean pool, sigmoid and sum",
        "t[n, f, u, v] = sigmoid(mean(z[n, f, 3 * u + a, 3 * v + e], a, e))\ny[n] = sum(t[n, f, u, v], f, u, v)",
        "[N]", f"torch.sum(torch.sigmoid({_F}.avg_pool2d({{}}, 3)), (1, 2, 3))",
        ", a: 3, e: 3, u: P // 3, v: Q // 3", {"H": 5, "W": 5},
    )  # fmt: skip
    yield _chain(
        "conv, min of channels and tanh twice", "y[n, 0, i, j] = tanh(tanh(min(z[n, f, i, j], f)))", "[N, 1, P, Q]",
        "torch.tanh(torch.tanh(torch.amin({}, 1, keepdim=True)))",
    )  # fmt: skip
    yield _chain(
        "conv and global mean", "y[n, f] = mean(gelu(z[n, f, i, j]), i, j)", "[N, F]",
        f"{_F}.adaptive_avg_pool2d({_F}.gelu({{}}), 1).flatten(1)",
    )  # fmt: skip
    yield _chain(
        "conv and softmax of channels", "y[n, f, i, j] = softmax(z[n, f, i, j], f)", "[N, F, P, Q]",
        "torch.softmax({}, 1)",
    )  # fmt: skip
    yield _chain(
        "conv, instance norm and divide",
        "mu[n, f] = mean(z[n, f, i, j], i, j)\nv[n, f] = var(z[n, f, i, j], i, j)\n"
        "y[n, f, i, j] = (z[n, f, i, j] - mu[n, f]) * rsqrt(v[n, f] + 1e-5) / 2", "[N, F, P, Q]",
        f"{_F}.instance_norm({{}}) / 2", min_sizes={"H": 4, "W": 4},
    )  # fmt: skip
    yield _chain(
        "conv, batch norm in training and relu",
        "mu[f] = mean(z[n, f, i, j], n, i, j)\nv[f] = var(z[n, f, i, j], n, i, j)\n"
        "y[n, f, i, j] = relu((z[n, f, i, j] - mu[f]) * rsqrt(v[f] + 1e-5) * g[f])", "[N, F, P, Q]",
        f"torch.relu({_F}.batch_norm({{}}, None, None, g, None, True))", min_sizes={"H": 4, "W": 4}, g=f"[F] | {F32}",
    )  # fmt: skip
    yield _chain(
        "conv, tanh, residual and logsumexp",
        "t[n, f, i, j] = z[n, f, i, j] + tanh(z[n, f, i, j])\ntop[n, i, j] = max(t[n, f, i, j], f)\n"
        "y[n, i, j] = log(sum(exp(t[n, f, i, j] - top[n, i, j]), f)) + top[n, i, j]", "[N, P, Q]",
        "(lambda z: torch.logsumexp(z + torch.tanh(z), 1))({})",
    )  # fmt: skip
    yield _chain(
        "conv and the mean of all images", "y[f] = mean(z[n, f, i, j], n, i, j)", "[F]", "torch.mean({}, (0, 2, 3))"
    )


def _after_transposed() -> Iterator[Operator]:
    bias = {"b": f"[F] | {F32}"}
    image = {"N": 6, "C": 48, "F": 24, "H": 36, "W": 41}
    yield transposed(
        "transposed conv, bias, clamp, scale and divide",
        image,
        (3, 3),
        2,
        1,
        1,
        after="clamp(clamp({} + b[f], 0, 1) * 2, 0, 1) / 2",
        more_inputs=bias,
        peer="torch.clamp(torch.clamp({} + b[:, None, None], 0, 1) * 2, 0, 1) / 2",
        group=CONVOLUTIONS,
    )
    yield transposed(
        "transposed conv, bias and tanh",
        image,
        (4, 4),
        2,
        1,
        after="tanh({} - b[f])",
        more_inputs=bias,
        peer="torch.tanh({} - b[:, None, None])",
        group=CONVOLUTIONS,
    )
    volume = {"N": 2, "C": 16, "F": 24, "D": 12, "H": 16, "W": 17}
    yield transposed(
        "transposed conv 3-D, swish and scale",
        volume,
        (3, 3, 3),
        2,
        1,
        1,
        after="silu({}) * 1.5",
        peer=f"{_F}.silu({{}}) * 1.5",
        group=CONVOLUTIONS,
    )
    up = "z[n, f, i, j] = sum(x[n, c, (i + 1 - r) / 2, (j + 1 - s) / 2] * w[c, f, r, s], c, r, s) + b[f]\n"
    call = f"{_F}.conv_transpose2d(x, w, b, 2, 1)"
    inputs = {"x": f"[N, C, H, W] | {F32} | boundary: zero", "w": f"[C, F, 4, 4] | {F32}", "b": f"[F] | {F32}"}
    outs = {"P": "2 * H", "Q": "2 * W"}
    yield Operator(
        "transposed conv, mean of planes and softmax f32", CONVOLUTIONS, image, {**inputs, "y": f"[N, F] | {F32}"},
        up + "t[n, f] = mean(z[n, f, i, j], i, j)\ny[n, f] = softmax(t[n, f], f)",
        f"torch.softmax(torch.mean({call}, (2, 3)), 1)", outs, more="indices: {i: P, j: Q}", has_algorithms=True,
    )  # fmt: skip
    yield Operator(
        "transposed conv, softmax of channels, bias and sigmoid f32", CONVOLUTIONS, image,
        {**inputs, "a": f"[F] | {F32}", "y": f"[N, F, P, Q] | {F32}"},
        up + "y[n, f, i, j] = sigmoid(softmax(z[n, f, i, j], f) + a[f])",
        f"torch.sigmoid(torch.softmax({call}, 1) + a[:, None, None])", outs, more="indices: {i: P, j: Q}",
        has_algorithms=True,
    )  # fmt: skip
    yield Operator(
        "transposed conv, max pool, hard tanh and mean f32", CONVOLUTIONS, image,
        {**inputs, "y": f"[N, F] | {F32}"},
        up + "t[n, f, h, v] = max(z[n, f, 2 * h + p, 2 * v + q], p, q)\ny[n, f] = mean(hardtanh(t[n, f, h, v]), h, v)",
        f"torch.mean({_F}.hardtanh({_F}.max_pool2d({call}, 2)), (2, 3))", outs,
        more="indices: {i: P, j: Q, p: 2, q: 2, h: H, v: W}", has_algorithms=True,
    )  # fmt: skip
