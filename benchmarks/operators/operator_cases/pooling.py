"""Pooling in one to three dimensions, and images that are made larger or smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .operator import F16, F32, Operator

GROUP = "pooling"
_F = "torch.nn.functional"
_SIDES, _POSITIONS, _TAPS, _OUT = "DHW", "dhw", "rst", "PQT"


def _pool(
    name: str, kind: str, sizes: dict[str, int], taps: Sequence[int], stride: int, pad: int, dilation: int = 1,
    dtype: str = F32,
) -> Operator:  # fmt: skip
    """`kind`: max, or mean with padding as zeros that count."""
    rank = len(taps)
    sides, positions, bound = _SIDES[-rank:], _POSITIONS[-rank:], _TAPS[:rank]
    out = [f"O{side}" for side in sides]
    reach = {side: dilation * (count - 1) + 1 for side, count in zip(sides, taps, strict=True)}
    derived = {
        name: f"({side} + {2 * pad - reach[side]}) // {stride} + 1" for name, side in zip(out, sides, strict=True)
    }
    read = ", ".join(f"{stride} * {i} + {dilation} * {r} - {pad}" for i, r in zip(positions, bound, strict=True))
    value = f"{kind}(x[n, c, {read}], {', '.join(bound)})"
    fill = "{value: -inf}" if kind == "max" else "zero"
    arrays = {
        "x": f"[N, C, {', '.join(sides)}] | {dtype} | boundary: {fill}",
        "y": f"[N, C, {', '.join(out)}] | {dtype}",
    }
    counts = ", ".join(f"{r}: {count}" for r, count in zip(bound, taps, strict=True))
    more = f"indices: {{{counts}}}"
    dilated = f", {dilation}" if kind == "max" else ""
    function = "max_pool" if kind == "max" else "avg_pool"
    peer = f"{_F}.{function}{rank}d(x, {tuple(taps)}, {stride}, {pad}{dilated})"
    min_sizes = {side: max(1, reach[side] - pad) for side in sides}
    return Operator(
        name, GROUP, sizes, arrays, f"y[n, c, {', '.join(positions)}] = {value}", peer, derived, min_sizes, more
    )


def operators() -> Iterator[Operator]:
    line, image, volume = (
        {"N": 20, "C": 150, "W": 9001},
        {"N": 10, "C": 72, "H": 190, "W": 211},
        {"N": 3, "C": 24, "D": 60, "H": 71, "W": 80},
    )
    yield _pool("max pool 1-D 7 by 2 dilated by 3 f32", "max", line, (7,), 2, 3, 3)
    yield _pool("mean pool 1-D 6 by 1 f32", "mean", line, (6,), 1, 2)
    yield _pool("max pool 2-D 2×2 by 2 f32", "max", image, (2, 2), 2, 0)
    yield _pool("max pool 2-D 3×3 by 2 f32", "max", image, (3, 3), 2, 1)
    yield _pool("max pool 2-D 5×5 by 1 dilated by 2 f32", "max", image, (5, 5), 1, 2, 2)
    yield _pool("mean pool 2-D 3×3 by 3 f32", "mean", image, (3, 3), 3, 1)
    yield _pool("mean pool 2-D 11×11 by 11 f32", "mean", image, (11, 11), 11, 0)
    yield _pool("max pool 2-D 3×3 by 2 f16", "max", image, (3, 3), 2, 1, dtype=F16)
    yield _pool("max pool 3-D 3×3×3 by 2 f32", "max", volume, (3, 3, 3), 2, 1)
    yield _pool("max pool 3-D 3×3×3 by 1 dilated by 3 f32", "max", volume, (3, 3, 3), 1, 1, 3)
    yield _pool("mean pool 3-D 3×3×3 by 2 f32", "mean", volume, (3, 3, 3), 2, 1)
    yield _pool("mean pool 3-D 2×4×4 by 2 f32", "mean", volume, (2, 4, 4), 2, 0)
    yield from _resized()


def _resized() -> Iterator[Operator]:
    image = {"N": 10, "C": 40, "H": 101, "W": 120}
    yield Operator(
        "nearest upsampling f32", GROUP, image,
        {"x": f"[N, C, H, W] | {F32}", "y": f"[N, C, 2 * H, 2 * W] | {F32}"},
        "y[n, c, h, w] = x[n, c, h // 2, w // 2]", f"{_F}.interpolate(x, scale_factor=2, mode='nearest')",
    )  # fmt: skip
    yield Operator(
        "pixel shuffle f32", GROUP, {"N": 8, "C": 12, "H": 150, "W": 161},
        {"x": f"[N, 9 * C, H, W] | {F32}", "y": f"[N, C, 3 * H, 3 * W] | {F32}"},
        "y[n, c, h, w] = x[n, 9 * c + 3 * (h % 3) + w % 3, h // 3, w // 3]", f"{_F}.pixel_shuffle(x, 3)",
    )  # fmt: skip
    yield Operator(
        "reflection padding f32", GROUP, image,
        {"x": f"[N, C, H, W] | {F32} | boundary: reflect", "y": f"[N, C, H + 6, W + 8] | {F32}"},
        "y[n, c, h, w] = x[n, c, h - 3, w - 4]", f"{_F}.pad(x, (4, 4, 3, 3), mode='reflect')",
        min_sizes={"H": 4, "W": 5},
    )  # fmt: skip
    yield Operator(
        "power-average pool 1-D f32", GROUP, {"N": 20, "C": 150, "W": 9000},
        {"x": f"[N, C, 3 * W] | {F32}", "y": f"[N, C, W] | {F32}"},
        "y[n, c, w] = norm(x[n, c, 3 * w + r], r)", f"{_F}.lp_pool1d(x, 2.0, 3)", more="indices: {r: 3}",
    )  # fmt: skip
