"""Reductions of one or more axes, and the positions of extremes."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import BF16, F32, I32, I64, Operator

GROUP = "reductions"
_SHAPE, _READ = "[B, S, D]", "x[b, s, d]"
_AXES = {"b": 0, "s": 1, "d": 2}

# The name, the reduction, the type of its results, and PyTorch's function with the axis as `%d`.
_OVER_AN_AXIS = (
    ("sum", "sum", F32, "torch.sum(x, %d)"),
    ("mean", "mean", F32, "torch.mean(x, %d)"),
    ("max", "max", F32, "torch.amax(x, %d)"),
    ("min", "min", F32, "torch.amin(x, %d)"),
    ("argmax", "argmax", I64, "torch.argmax(x, %d)"),
    ("argmin", "argmin", I64, "torch.argmin(x, %d)"),
)


def _one_axis(name: str, value: str, dtype: str, peer: str, axis: str, *, compiled: bool = False) -> Operator:
    kept = [index for index in _AXES if index != axis]
    sizes = {
        "b": {"B": 600, "S": 300, "D": 257},
        "s": {"B": 70, "S": 900, "D": 500},
        "d": {"B": 90, "S": 333, "D": 1111},
    }
    arrays = {"x": f"{_SHAPE} | {F32}", "y": f"[{', '.join(kept).upper()}] | {dtype}"}
    compute = f"y[{', '.join(kept)}] = {value}"
    return Operator(
        f"{name} of axis {_AXES[axis]} f32", GROUP, sizes[axis], arrays, compute, peer, is_compiled=compiled
    )


def operators() -> Iterator[Operator]:
    for name, reduction, dtype, peer in _OVER_AN_AXIS:
        for axis, number in _AXES.items():
            value = f"{reduction}({_READ}, {axis})"
            yield _one_axis(name, value, dtype, peer % number, axis, compiled=(name, axis) == ("sum", "s"))
    yield _one_axis("product", f"prod(1 + 0.01 * {_READ}, s)", F32, "torch.prod(1 + 0.01 * x, 1)", "s")
    yield _one_axis("variance", f"var({_READ}, d, ddof=1)", F32, "torch.var(x, 2)", "d")
    yield _one_axis("deviation", f"sqrt(var({_READ}, s, ddof=1))", F32, "torch.std(x, 1)", "s")
    yield _one_axis("absolute sum", f"sum(abs({_READ}), b)", F32, "torch.sum(torch.abs(x), 0)", "b")
    yield _one_axis("euclidean norm", f"norm({_READ}, s)", F32, "torch.linalg.vector_norm(x, dim=1)", "s")
    value = f"max({_READ}, d) + log(sum(exp(x[b, s, e] - max({_READ}, d)), e))"
    yield _one_axis("logsumexp", value, F32, "torch.logsumexp(x, 2)", "d")
    yield _one_axis("count of positive", f"cast(sum({_READ} > 0, s), int64)", I64, "torch.sum(x > 0, 1)", "s")
    yield from _more_axes()


def _more_axes() -> Iterator[Operator]:
    image = {"N": 20, "C": 130, "H": 90, "W": 101}
    x = {"x": f"[N, C, H, W] | {F32}"}
    yield Operator(
        "global average of planes f32", GROUP, image, {**x, "y": f"[N, C] | {F32}"},
        "y[n, c] = mean(x[n, c, h, w], h, w)", "torch.mean(x, (2, 3))",
    )  # fmt: skip
    yield Operator(
        "sum of all but channels f32", GROUP, image, {**x, "y": f"[C] | {F32}"},
        "y[c] = sum(x[n, c, h, w], n, h, w)", "torch.sum(x, (0, 2, 3))",
    )  # fmt: skip
    yield Operator(
        "max of channels with the axis kept f32", GROUP, image, {**x, "y": f"[N, 1, H, W] | {F32}"},
        "y[n, 0, h, w] = max(x[n, c, h, w], c)", "torch.amax(x, 1, keepdim=True)",
    )  # fmt: skip
    yield Operator(
        "mean of everything bf16", GROUP, {"M": 8191, "N": 6001}, {"x": f"[M, N] | {BF16}", "y": f"[] | {BF16}"},
        "y = mean(x[i, j], i, j)", "torch.mean(x)",
    )  # fmt: skip
    yield Operator(
        "dot product f32", GROUP, {"N": 30_000_001},
        {"a": f"[N] | {F32}", "b": f"[N] | {F32}", "y": f"[] | {F32}"}, "y = sum(a[i] * b[i], i)", "torch.dot(a, b)",
    )  # fmt: skip
    yield Operator(
        "sum of integers int32", GROUP, {"M": 3001, "N": 9000}, {"x": f"[M, N] | {I32}", "y": f"[M] | {I64}"},
        "y[i] = sum(cast(x[i, j], int64), j)", "torch.sum(x, 1)",
    )  # fmt: skip
    yield Operator(
        "argmax of a long vector f32", GROUP, {"N": 50_000_021}, {"x": f"[N] | {F32}", "y": f"[] | {I64}"},
        "y = argmax(x[i], i)", "torch.argmax(x)",
    )  # fmt: skip
    yield Operator(
        "any and all of rows f32", GROUP, {"M": 4000, "N": 6007},
        {"x": f"[M, N] | {F32}", "y": "[M] | bool"},
        "y[i] = any(x[i, j] > 0.999, j) and all(x[i, j] > -2, j)", "(x > 0.999).any(1) & (x > -2).all(1)",
    )  # fmt: skip
