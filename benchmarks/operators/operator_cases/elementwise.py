"""Elementwise operators: activations, broadcasts and masks."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import BF16, F16, F32, Operator

GROUP = "elementwise"
_F = "torch.nn.functional"

# The name, the spec's expression, and PyTorch's.
_UNARY = (
    ("relu", "relu(x[i, j])", "torch.relu(x)"),
    ("leaky relu", "leaky_relu(x[i, j], 0.07)", f"{_F}.leaky_relu(x, 0.07)"),
    ("sigmoid", "sigmoid(x[i, j])", "torch.sigmoid(x)"),
    ("tanh", "tanh(x[i, j])", "torch.tanh(x)"),
    ("softplus", "softplus(x[i, j])", f"{_F}.softplus(x)"),
    ("softsign", "x[i, j] / (1 + abs(x[i, j]))", f"{_F}.softsign(x)"),
    ("elu", "elu(x[i, j], 0.8)", f"{_F}.elu(x, 0.8)"),
    ("selu", "selu(x[i, j])", "torch.selu(x)"),
    ("gelu", "gelu(x[i, j])", f"{_F}.gelu(x)"),
    (
        "gelu as GPT-2 writes it",
        "0.5 * x[i, j] * (1.0 + tanh(sqrt(2.0 / pi) * (x[i, j] + 0.044715 * pow(x[i, j], 3.0))))",
        f"{_F}.gelu(x, approximate='tanh')",
    ),
    ("swish", "x[i, j] * sigmoid(x[i, j])", f"{_F}.silu(x)"),
    ("hard tanh", "clamp(x[i, j], -0.5, 0.75)", f"{_F}.hardtanh(x, -0.5, 0.75)"),
    ("hard sigmoid", "clamp(x[i, j] / 6 + 0.5, 0, 1)", f"{_F}.hardsigmoid(x)"),
    ("hard swish", "x[i, j] * clamp(x[i, j] + 3, 0, 6) / 6", f"{_F}.hardswish(x)"),
    ("mish", "x[i, j] * tanh(log1p(exp(x[i, j])))", f"{_F}.mish(x)"),
    ("log sigmoid", "-softplus(-x[i, j])", f"{_F}.logsigmoid(x)"),
    ("hard shrink", "x[i, j] if abs(x[i, j]) > 0.25 else 0", f"{_F}.hardshrink(x, 0.25)"),
    ("soft shrink", "sign(x[i, j]) * maximum(abs(x[i, j]) - 0.25, 0)", f"{_F}.softshrink(x, 0.25)"),
    ("celu", "maximum(x[i, j], 0) + minimum(0, 2.0 * (exp(x[i, j] / 2.0) - 1))", f"{_F}.celu(x, 2.0)"),
    ("scale by a number", "x[i, j] * 3.14", "x * 3.14"),
    ("inverse root", "1 / sqrt(x[i, j] * x[i, j] + 1e-6)", "torch.rsqrt(x * x + 1e-6)"),
)


def operators() -> Iterator[Operator]:
    arrays = {"x": f"[M, N] | {F32}", "y": f"[M, N] | {F32}"}
    for number, (name, value, peer) in enumerate(_UNARY):
        sizes = {"M": 1536, "N": 24593} if number % 2 else {"M": 3000, "N": 12288}
        yield Operator(f"{name} f32", GROUP, sizes, arrays, f"y[i, j] = {value}", peer, is_compiled=name == "mish")
    for dtype, short in ((BF16, "bf16"), (F16, "f16")):
        halves = {"x": f"[M, N] | {dtype}", "y": f"[M, N] | {dtype}"}
        sizes = {"M": 4095, "N": 8193}
        yield Operator(f"gelu {short}", GROUP, sizes, halves, "y[i, j] = gelu(x[i, j])", f"{_F}.gelu(x)")
        yield Operator(f"sigmoid {short}", GROUP, sizes, halves, "y[i, j] = sigmoid(x[i, j])", "torch.sigmoid(x)")
    yield from _broadcasts()
    yield from _gates()


def _broadcasts() -> Iterator[Operator]:
    image = {"N": 12, "C": 72, "H": 150, "W": 201}
    x = {"x": f"[N, C, H, W] | {F32}"}
    y = {"y": f"[N, C, H, W] | {F32}"}
    yield Operator(
        "prelu per channel f32", GROUP, image, {**x, "a": f"[C] | {F32}", **y},
        "y[n, c, h, w] = where(x[n, c, h, w] >= 0, x[n, c, h, w], a[c] * x[n, c, h, w])", f"{_F}.prelu(x, a)",
    )  # fmt: skip
    yield Operator(
        "scale and shift per channel f32", GROUP, image, {**x, "a": f"[C] | {F32}", "b": f"[C] | {F32}", **y},
        "y[n, c, h, w] = a[c] * x[n, c, h, w] + b[c]", "x * a[:, None, None] + b[:, None, None]", is_compiled=True,
    )  # fmt: skip
    yield Operator(
        "position embedding f32", GROUP, {"B": 20, "S": 700, "D": 1000},
        {"x": f"[B, S, D] | {F32}", "p": f"[S, D] | {F32}", "y": f"[B, S, D] | {F32}"},
        "y[b, s, d] = x[b, s, d] + p[s, d]", "x + p",
    )  # fmt: skip
    yield Operator(
        "outer sum f32", GROUP, {"M": 5001, "N": 6002},
        {"a": f"[M, 1] | {F32}", "b": f"[1, N] | {F32}", "y": f"[M, N] | {F32}"},
        "y[i, j] = a[i, 0] + b[0, j]", "a + b",
    )  # fmt: skip
    yield Operator(
        "masked fill f32", GROUP, {"B": 24, "S": 1100}, {"x": f"[B, S, S] | {F32}", "y": f"[B, S, S] | {F32}"},
        "y[b, i, j] = x[b, i, j] if j <= i else -1e9",
        "x.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1), -1e9)",
    )  # fmt: skip
    yield Operator(
        "lerp f32", GROUP, {"N": 40_000_003},
        {"a": f"[N] | {F32}", "b": f"[N] | {F32}", "t": f"[N] | {F32}", "y": f"[N] | {F32}"},
        "y[i] = a[i] + t[i] * (b[i] - a[i])", "torch.lerp(a, b, t)",
    )  # fmt: skip


def _gates() -> Iterator[Operator]:
    sizes = {"M": 6000, "N": 5120}
    arrays = {"x": f"[M, 2 * N] | {F32}", "y": f"[M, N] | {F32}"}
    yield Operator("glu f32", GROUP, sizes, arrays, "y[i, j] = x[i, j + 0] * sigmoid(x[i, j + N])", f"{_F}.glu(x)")
    pair = {"a": f"[M, N] | {BF16}", "b": f"[M, N] | {BF16}", "y": f"[M, N] | {BF16}"}
    yield Operator(
        "swiglu bf16", GROUP, {"M": 6000, "N": 11008}, pair, "y[i, j] = silu(a[i, j]) * b[i, j]", f"{_F}.silu(a) * b",
        is_compiled=True,
    )  # fmt: skip
    heads = {
        "q": f"[B, H, S, 2 * D] | {F32}",
        "c": f"[S, D] | {F32}",
        "s": f"[S, D] | {F32}",
        "y": f"[B, H, S, 2 * D] | {F32}",
    }
    rotated = (
        "y[b, h, t, d] = q[b, h, t, d] * c[t, d % D]"
        " + (-q[b, h, t, d + D] if d < D else q[b, h, t, d - D]) * s[t, d % D]"
    )
    peer = (
        "q * torch.cat((c, c), 1)"
        " + torch.cat((-q[..., q.shape[3] // 2:], q[..., : q.shape[3] // 2]), 3) * torch.cat((s, s), 1)"
    )
    yield Operator("rotary embedding f32", GROUP, {"B": 6, "H": 20, "S": 1500, "D": 40}, heads, rotated, peer)
