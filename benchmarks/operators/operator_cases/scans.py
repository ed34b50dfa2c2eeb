"""Scans of any axis: inclusive, exclusive, reverse and masked."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import F32, I32, I64, Operator

GROUP = "scans"
_ROWS, _COLUMNS, _LONG = {"M": 3000, "N": 7001}, {"M": 4001, "N": 3000}, {"M": 6, "N": 2_000_003}

# The name, the sizes, the scan, and PyTorch's.
_MATRICES = (
    ("cumulative sum of rows", _ROWS, "cumsum(x[i, j], j)", "torch.cumsum(x, 1)"),
    ("cumulative sum of columns", _COLUMNS, "cumsum(x[i, j], i)", "torch.cumsum(x, 0)"),
    ("cumulative sum of long rows", _LONG, "cumsum(x[i, j], j)", "torch.cumsum(x, 1)"),
    ("cumulative product of rows", _ROWS, "cumprod(1 + 0.001 * x[i, j], j)", "torch.cumprod(1 + 0.001 * x, 1)"),
    ("reverse cumulative sum", _ROWS, "cumsum(x[i, j], j, reverse=true)", "x.flip(1).cumsum(1).flip(1)"),
    ("exclusive cumulative sum", _ROWS, "cumsum(x[i, j], j, exclusive=true)", "torch.cumsum(x, 1) - x"),
    ("cumulative max of rows", _ROWS, "cummax(x[i, j], j)", "torch.cummax(x, 1).values"),
    ("cumulative min of columns", _COLUMNS, "cummin(x[i, j], i)", "torch.cummin(x, 0).values"),
    ("reverse cumulative sum of columns", _COLUMNS, "cumsum(x[i, j], i, reverse=true)", "x.flip(0).cumsum(0).flip(0)"),
)  # fmt: skip


def operators() -> Iterator[Operator]:
    arrays = {"x": f"[M, N] | {F32}", "y": f"[M, N] | {F32}"}
    for name, sizes, value, peer in _MATRICES:
        yield Operator(f"{name} f32", GROUP, sizes, arrays, f"y[i, j] = {value}", peer)
    masked = {"x": f"[M, N] | {F32}", "m": "[M, N] | bool", "y": f"[M, N] | {F32}"}
    yield Operator(
        "masked cumulative sum f32", GROUP, _ROWS, masked,
        "y[i, j] = cumsum(x[i, j], j, where=m[i, j])", "torch.cumsum(x * m, 1)",
    )  # fmt: skip
    volume = {"x": f"[B, S, D] | {F32}", "y": f"[B, S, D] | {F32}"}
    yield Operator(
        "cumulative sum of the middle axis f32", GROUP, {"B": 40, "S": 800, "D": 700}, volume,
        "y[b, s, d] = cumsum(x[b, s, d], s)", "torch.cumsum(x, 1)",
    )  # fmt: skip
    yield Operator(
        "cumulative sum of a vector f32", GROUP, {"N": 30_000_001}, {"x": f"[N] | {F32}", "y": f"[N] | {F32}"},
        "y[i] = cumsum(x[i], i)", "torch.cumsum(x, 0)",
    )  # fmt: skip
    yield Operator(
        "cumulative sum of integers int32", GROUP, {"N": 10_000_019}, {"x": f"[N] | {I32}", "y": f"[N] | {I64}"},
        "y[i] = cumsum(cast(x[i], int64), i)", "torch.cumsum(x, 0)",
    )  # fmt: skip
