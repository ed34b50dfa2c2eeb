"""Convolutions in one to three dimensions, dense, depthwise, grouped, strided and dilated, and transposed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .operator import BF16, F16, F32, Operator

GROUP, TRANSPOSED = "convolutions", "transposed convolutions"
_F = "torch.nn.functional"
_SIDES, _POSITIONS, _TAPS = "DHW", "ijk", "rst"
_SHORT = {F32: "f32", F16: "f16", BF16: "bf16"}
Size = int | Sequence[int]


def _each(value: Size, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def convolution(
    name: str, sizes: dict[str, int], taps: Sequence[int], stride: Size = 1, pad: Size = 0, dilation: Size = 1,
    groups: int = 1, dtype: str = F32, after: str = "{}", more_inputs: dict[str, str] | None = None, peer: str = "{}",
    group: str = GROUP, *, is_last: bool = False,
) -> Operator:  # fmt: skip
    """x [N, G·C, …] and w [G·F, C, …], or with channels last where `is_last`. C and F are those of a group. `after`
    and `peer` are the epilogue, whose `{}` is the convolution."""
    rank = len(taps)
    strides, pads, dilations = _each(stride, rank), _each(pad, rank), _each(dilation, rank)
    sides, positions, bound = _SIDES[-rank:], _POSITIONS[-rank:], _TAPS[:rank]
    reach = [step * (count - 1) + 1 for count, step in zip(taps, dilations, strict=True)]
    outs = [f"O{side}" for side in sides]
    derived: dict[str, int | str] = {
        out: f"({side} + {2 * p - last}) // {s} + 1"
        for out, side, p, last, s in zip(outs, sides, pads, reach, strides, strict=True)
    }
    reads = [
        " ".join(filter(None, (f"{s} * {i}" if s > 1 else i, "+", f"{d} * {r}" if d > 1 else r, f"- {p}" if p else "")))
        for i, r, s, p, d in zip(positions, bound, strides, pads, dilations, strict=True)
    ]
    channels, filters = ("C", "F") if groups == 1 else (f"{groups} * C", f"{groups} * F")
    channel = "c" if groups == 1 else "f // F * C + c"
    boundary = " | boundary: zero" if any(pads) else ""
    counts = list(map(str, taps))

    def shaped(first: str, second: str, spatial: Sequence[str]) -> str:
        return ", ".join([first, *spatial, second] if is_last else [first, second, *spatial])

    arrays = {
        "x": f"[{shaped('N', channels, sides)}] | {dtype}{boundary}",
        "w": f"[{shaped(filters, 'C', counts)}] | {dtype}",
        **(more_inputs or {}),
        "y": f"[{shaped('N', filters, outs)}] | {dtype}",
    }
    value = f"sum(x[{shaped('n', channel, reads)}] * w[{shaped('f', 'c', bound)}], c, {', '.join(bound)})"
    call = f"{_F}.conv{rank}d({{x}}, {{w}}, None, {strides}, {pads}, {dilations}, {groups})"
    if is_last:
        to, back = (0, rank + 1, *range(1, rank + 1)), (0, *range(2, rank + 2), 1)
        call = call.format(x=f"x.permute{to}", w=f"w.permute{to}") + f".permute{back}"
    else:
        call = call.format(x="x", w="w")
    min_sizes = {side: max(1, last - 2 * p) for side, last, p in zip(sides, reach, pads, strict=True)}
    return Operator(
        f"{name} {_SHORT[dtype]}", group, sizes, arrays,
        f"y[{shaped('n', 'f', positions)}] = {after.format(value)}", peer.format(call), derived, min_sizes,
        has_algorithms=True,
    )  # fmt: skip


def depthwise(name: str, sizes: dict[str, int], taps: Sequence[int], stride: int = 1, pad: Size = 0) -> Operator:
    """x [N, C, H, W], w [C, 1, …]."""
    pads = _each(pad, 2)
    boundary = " | boundary: zero" if any(pads) else ""
    reads = ", ".join(f"{stride} * {i} + {r} - {p}" for i, r, p in zip("ij", "rs", pads, strict=True))
    derived = {
        f"O{side}": f"({side} + {2 * p - count}) // {stride} + 1"
        for side, count, p in zip("HW", taps, pads, strict=True)
    }
    arrays = {
        "x": f"[N, C, H, W] | {F32}{boundary}",
        "w": f"[C, 1, {taps[0]}, {taps[1]}] | {F32}",
        "y": f"[N, C, OH, OW] | {F32}",
    }
    return Operator(
        f"{name} f32", GROUP, sizes, arrays, f"y[n, c, i, j] = sum(x[n, c, {reads}] * w[c, 0, r, s], r, s)",
        f"{_F}.conv2d(x, w, None, {stride}, {pads}, 1, x.shape[1])", dict(derived),
        {side: max(1, count - 2 * p) for side, count, p in zip("HW", taps, pads, strict=True)}, has_algorithms=True,
    )  # fmt: skip


def operators() -> Iterator[Operator]:
    yield from _dense()
    yield from _thin()
    yield from _halves()


def _dense() -> Iterator[Operator]:
    yield convolution("conv 1-D 3", {"N": 20, "C": 72, "F": 130, "W": 1500}, (3,))
    yield convolution("conv 1-D 5 dilated", {"N": 20, "C": 48, "F": 96, "W": 3001}, (5,), 2, 6, 3)
    yield convolution("conv 1-D 9 of few channels", {"N": 30, "C": 4, "F": 60, "W": 20_001}, (9,), 1, 4)
    yield convolution("conv 2-D 3×3", {"N": 6, "C": 72, "F": 144, "H": 60, "W": 75}, (3, 3), 1, 1)
    yield convolution("conv 2-D 3×3 without padding", {"N": 10, "C": 24, "F": 60, "H": 130, "W": 131}, (3, 3))
    yield convolution("conv 2-D 3×3 of many channels", {"N": 12, "C": 300, "F": 280, "H": 15, "W": 17}, (3, 3), 1, 1)
    yield convolution("conv 2-D 3×3 by 2", {"N": 10, "C": 60, "F": 120, "H": 57, "W": 71}, (3, 3), 2, 1)
    yield convolution("conv 2-D 11×11 by 4", {"N": 40, "C": 3, "F": 90, "H": 225, "W": 225}, (11, 11), 4, 2)
    yield convolution("conv 2-D 7×7 by 2", {"N": 12, "C": 3, "F": 60, "H": 231, "W": 250}, (7, 7), 2, 3)
    yield convolution("conv 2-D 5×3 asymmetric", {"N": 10, "C": 30, "F": 70, "H": 200, "W": 111}, (5, 3), 1, (2, 1))
    yield convolution(
        "conv 2-D 3×7 dilated and padded apart",
        {"N": 6, "C": 32, "F": 60, "H": 150, "W": 180},
        (3, 7),
        1,
        (2, 4),
        (2, 3),
    )
    yield convolution("conv 2-D 5×5", {"N": 10, "C": 18, "F": 60, "H": 100, "W": 101}, (5, 5), 1, 2)
    yield convolution("conv 2-D 1×1 pointwise", {"N": 14, "C": 70, "F": 140, "H": 120, "W": 130}, (1, 1))
    yield convolution("conv 2-D 1×1 of many channels", {"N": 14, "C": 500, "F": 400, "H": 14, "W": 15}, (1, 1))
    yield convolution("conv 2-D 3×3 of one image", {"N": 1, "C": 130, "F": 120, "H": 40, "W": 41}, (3, 3), 1, 1)
    yield convolution("conv 2-D 1×7", {"N": 6, "C": 150, "F": 160, "H": 17, "W": 17}, (1, 7), 1, (0, 3))
    volume = {"N": 3, "C": 12, "F": 60, "D": 36, "H": 42, "W": 50}
    yield convolution("conv 3-D 3×3×3", volume, (3, 3, 3))
    yield convolution("conv 3-D 3×5×7", {**volume, "C": 6}, (3, 5, 7))
    yield convolution("conv 3-D 3×3×3 by 2", {**volume, "C": 24}, (3, 3, 3), 2, 1)
    yield convolution("conv 3-D 3×3×1", {**volume, "C": 3}, (3, 3, 1), 1, (1, 1, 0))


def _thin() -> Iterator[Operator]:
    image = {"N": 12, "C": 72, "H": 200, "W": 211}
    yield depthwise("depthwise 3×3", image, (3, 3))
    yield depthwise("depthwise 3×3 by 2", image, (3, 3), 2, 1)
    yield depthwise("depthwise 5×5", image, (5, 5), 1, 2)
    yield depthwise("depthwise 3×1", image, (3, 1))
    yield depthwise("depthwise 7×7", {"N": 12, "C": 190, "H": 28, "W": 30}, (7, 7), 1, 3)
    yield convolution("grouped conv 2-D 3×3", {"N": 10, "C": 12, "F": 24, "H": 56, "W": 60}, (3, 3), 1, 1, groups=6)
    yield convolution(
        "grouped conv 2-D 5×7 by 2", {"N": 10, "C": 8, "F": 20, "H": 90, "W": 111}, (5, 7), 2, (2, 3), groups=4
    )
    yield convolution("grouped conv 1-D 15", {"N": 16, "C": 6, "F": 10, "W": 5001}, (15,), 1, 7, groups=12)
    yield convolution(
        "grouped conv 3-D 3×3×3", {"N": 2, "C": 8, "F": 8, "D": 20, "H": 30, "W": 33}, (3, 3, 3), 1, 1, groups=3
    )
    yield Operator(
        "depthwise then pointwise f32", GROUP, {"N": 10, "C": 60, "F": 110, "H": 120, "W": 121},
        {
            "x": f"[N, C, H, W] | {F32} | boundary: zero", "d": f"[C, 3, 3] | {F32}", "p": f"[F, C] | {F32}",
            "y": f"[N, F, H, W] | {F32}",
        },
        "t[n, c, h, w] = sum(x[n, c, h + r - 1, w + s - 1] * d[c, r, s], r, s)\n"
        "y[n, f, h, w] = sum(t[n, c, h, w] * p[f, c], c)",
        f"{_F}.conv2d({_F}.conv2d(x, d.unsqueeze(1), None, 1, 1, 1, x.shape[1]), p[:, :, None, None])",
        has_algorithms=True,
    )  # fmt: skip


def _halves() -> Iterator[Operator]:
    for dtype in (BF16, F16):
        yield convolution(
            "channels last 3×3", {"N": 12, "C": 96, "F": 160, "H": 40, "W": 44}, (3, 3), 1, 1, dtype=dtype, is_last=True
        )
        yield convolution(
            "channels last 1×1", {"N": 12, "C": 200, "F": 320, "H": 30, "W": 35}, (1, 1), dtype=dtype, is_last=True
        )
    yield convolution(
        "channels last 3×3 by 2", {"N": 12, "C": 72, "F": 120, "H": 61, "W": 63}, (3, 3), 2, 1, dtype=BF16, is_last=True
    )
    yield convolution("channels first 3×3", {"N": 8, "C": 64, "F": 96, "H": 50, "W": 56}, (3, 3), 1, 1, dtype=F16)


def transposed(
    name: str, sizes: dict[str, int], taps: Sequence[int], stride: Size = 1, pad: Size = 0, more_rows: Size = 0,
    dilation: Size = 1, groups: int = 1, after: str = "{}", more_inputs: dict[str, str] | None = None, peer: str = "{}",
    group: str = TRANSPOSED,
) -> Operator:  # fmt: skip
    """x [N, G·C, …], w [G·C, F, …] of PyTorch's transposed convolution; `more_rows` is its output padding."""
    rank = len(taps)
    strides, pads, dilations, added = (_each(value, rank) for value in (stride, pad, dilation, more_rows))
    sides, positions, bound = _SIDES[-rank:], _POSITIONS[-rank:], _TAPS[:rank]
    outs = [f"O{side}" for side in sides]
    reach = [step * (count - 1) + 1 for count, step in zip(taps, dilations, strict=True)]
    derived: dict[str, int | str] = {
        out: f"({side} - 1) * {s} + {last - 2 * p + a}"
        for out, side, s, p, last, a in zip(outs, sides, strides, pads, reach, added, strict=True)
    }
    reads = [
        f"({i} + {p} - {f'{d} * {r}' if d > 1 else r}) / {s}"
        if s > 1
        else f"{i} + {p} - {f'{d} * {r}' if d > 1 else r}"
        for i, r, s, p, d in zip(positions, bound, strides, pads, dilations, strict=True)
    ]
    channels, filters = ("C", "F") if groups == 1 else (f"{groups} * C", f"{groups} * F")
    channel, feature = ("c", "f") if groups == 1 else ("f // F * C + c", "f % F")
    arrays = {
        "x": f"[N, {channels}, {', '.join(sides)}] | {F32} | boundary: zero",
        "w": f"[{channels}, F, {', '.join(map(str, taps))}] | {F32}",
        **(more_inputs or {}),
        "y": f"[N, {filters}, {', '.join(outs)}] | {F32}",
    }
    value = (
        f"sum(x[n, {channel}, {', '.join(reads)}] * w[{channel}, {feature}, {', '.join(bound)}], c, {', '.join(bound)})"
    )
    call = f"{_F}.conv_transpose{rank}d(x, w, None, {strides}, {pads}, {added}, {groups}, {dilations})"
    min_sizes = {
        side: max(1, -(-(1 - last + 2 * p - a) // s) + 1)
        for side, s, p, last, a in zip(sides, strides, pads, reach, added, strict=True)
    }
    more = "" if groups == 1 else "indices: {c: C}"
    return Operator(
        f"{name} f32", group, sizes, arrays, f"y[n, f, {', '.join(positions)}] = {after.format(value)}",
        peer.format(call), derived, min_sizes, more, has_algorithms=True,
    )  # fmt: skip


def transposed_operators() -> Iterator[Operator]:
    yield transposed("transposed 1-D 5", {"N": 12, "C": 40, "F": 50, "W": 3001}, (5,))
    yield transposed("transposed 1-D 4 by 2", {"N": 12, "C": 96, "F": 48, "W": 1500}, (4,), 2, 1)
    yield transposed("transposed 1-D 3 dilated by 4", {"N": 12, "C": 40, "F": 50, "W": 3001}, (3,), 1, 0, 0, 4)
    yield transposed("transposed 2-D 3×3", {"N": 6, "C": 48, "F": 60, "H": 90, "W": 91}, (3, 3))
    yield transposed("transposed 2-D 4×4 by 2", {"N": 8, "C": 72, "F": 40, "H": 45, "W": 50}, (4, 4), 2, 1)
    yield transposed("transposed 2-D 3×5", {"N": 6, "C": 36, "F": 50, "H": 80, "W": 101}, (3, 5), 1, (1, 2))
    yield transposed(
        "transposed 2-D 3×3 by 2 and 3", {"N": 6, "C": 40, "F": 30, "H": 60, "W": 61}, (3, 3), (2, 3), 1, (1, 2)
    )
    yield transposed(
        "transposed 2-D 3×3 by 2 dilated by 2", {"N": 6, "C": 32, "F": 40, "H": 60, "W": 61}, (3, 3), 2, 2, 1, 2
    )
    yield transposed("transposed 2-D 3×3 by 5", {"N": 6, "C": 32, "F": 40, "H": 40, "W": 41}, (3, 3), 5, 1, 4)
    yield transposed("transposed 2-D grouped", {"N": 6, "C": 16, "F": 20, "H": 50, "W": 51}, (4, 4), 2, 1, groups=4)
    volume = {"N": 2, "C": 36, "F": 24, "D": 20, "H": 24, "W": 27}
    yield transposed("transposed 3-D 3×3×3", volume, (3, 3, 3))
    yield transposed("transposed 3-D 3×3×3 by 2", volume, (3, 3, 3), 2, 1, 1)
    yield transposed("transposed 3-D 2×3×5", {**volume, "C": 20}, (2, 3, 5))
    yield transposed("transposed 3-D grouped by 2", {**volume, "C": 8, "F": 8}, (3, 3, 3), 2, 1, 1, groups=4)
