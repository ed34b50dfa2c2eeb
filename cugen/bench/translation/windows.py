"""Recognition of window sums and maxima as convolutions and pools of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cugen.bench.translation.affine import Affine, affine
from cugen.spec.expressions import Op, Read, Reduce

Extents = Mapping[str, int]


@dataclass(frozen=True)
class Axis:
    """One dimension of a window. `out`: index of the output. `tap`: index of the window, empty for one tap."""

    out: str
    tap: str
    start: int  # the subscript where both are 0
    stride: int = 1
    dilation: int = 1

    def reach(self, extents: Extents) -> tuple[int, int]:
        """First and last subscript."""
        last = self.stride * (extents[self.out] - 1) + self.dilation * (self.taps(extents) - 1)
        return self.start, self.start + last

    def taps(self, extents: Extents) -> int:
        return extents[self.tap] if self.tap else 1

    def is_padded_evenly(self, size: int, extents: Extents) -> bool:
        """Whether symmetric padding by `-start` gives the extent of the output."""
        left = size - 2 * self.start - self.dilation * (self.taps(extents) - 1) - 1
        return self.start <= 0 and left >= 0 and left // self.stride + 1 == extents[self.out]


@dataclass(frozen=True)
class Convolution:
    """Convolution of `x` with filter `w`. Index names, empty if absent: `batch` and `channel` of the input, `out` of
    the output channels. `is_depthwise`: one filter per channel."""

    x: Read
    w: Read
    axes: tuple[Axis, ...]
    batch: str
    channel: str
    out: str
    is_depthwise: bool


@dataclass(frozen=True)
class Pool:
    """Maximum of `x` over windows. `leading`: indices of the dimensions before `axes`."""

    x: Read
    axes: tuple[Axis, ...]
    leading: tuple[str, ...]


def windows_of(node: Reduce, params: Mapping[str, int]) -> tuple[str, ...]:
    """Reduction indices that a subscript adds to another index."""
    bound = [index.name for index in node.indices]
    dimensions: dict[str, None] = {}
    for read in reads_of(node):
        for form in (affine(subscript, params) for subscript in read.subscripts):
            if form is not None and len(form.steps) > 1:
                dimensions |= dict.fromkeys(name for name in bound if name in form.steps)
    return tuple(dimensions)


def reads_of(node: Reduce) -> list[Read]:
    from cugen.spec.expressions import walk

    return [leaf for leaf in walk(node.body) if isinstance(leaf, Read)]


def convolution(node: Reduce, params: Mapping[str, int]) -> Convolution | None:
    """Recognises a convolution; None if the library has none for this sum."""
    match node:
        case Reduce(kind="sum", body=Op(name="mul", args=(Read() as a, Read() as b)), where=None):
            pass
        case _:
            return None
    bound = {index.name for index in node.indices}
    x, w = (a, b) if any(_is_window(f, bound) for f in _forms(a, params)) else (b, a)
    dims, taps = _dimensions(x, bound, params), _plain(w, params)
    if dims is None or taps is None:
        return None
    windowed = {axis.tap for axis in dims if isinstance(axis, Axis)}
    bare = [name for name in dims if isinstance(name, str)]
    channels = [name for name in bare if name in bound]
    shared = [name for name in bare if name in taps and name not in bound]
    outs = [name for name in taps if name not in windowed and name not in bare]
    if len(channels) + len(shared) > 1 or len(outs) > 1 or (shared and outs) or not windowed <= set(taps):
        return None
    if set(outs) & bound or bound - windowed - set(channels):
        return None
    channel = next(iter(channels + shared), "")
    # Without a channel, the first of three dimensions is the batch.
    images = not channel and len(dims) > 2 and isinstance(dims[0], str)
    first = dims.index(channel) + 1 if channel else int(images)
    leading = dims[: first - 1] if channel else dims[:first]
    batch = [name for name in leading if isinstance(name, str)]
    if len(batch) != len(leading) or len(batch) > 1:
        return None
    axes = tuple(axis if isinstance(axis, Axis) else Axis(axis, "", 0) for axis in dims[first:])
    if not 1 <= len(axes) <= 3:
        return None
    return Convolution(x, w, axes, next(iter(batch), ""), channel, next(iter(outs), ""), bool(shared))


def pooling(node: Reduce, params: Mapping[str, int]) -> Pool | None:
    """Recognises a max-pool; None if the library has none for this maximum."""
    if node.kind != "max" or node.where is not None or not isinstance(node.body, Read):
        return None
    bound = {index.name for index in node.indices}
    dims = _dimensions(node.body, bound, params)
    if dims is None:
        return None
    axes = tuple(axis for axis in dims if isinstance(axis, Axis))
    leading = tuple(name for name in dims if isinstance(name, str))
    if {axis.tap for axis in axes} != bound or dims != [*leading, *axes]:
        return None
    return Pool(node.body, axes, leading) if 1 <= len(axes) <= 3 and len(leading) <= 2 else None


def _forms(read: Read, params: Mapping[str, int]) -> Sequence[Affine | None]:
    return [affine(subscript, params) for subscript in read.subscripts]


def _is_window(form: Affine | None, bound: set[str]) -> bool:
    return form is not None and len(form.steps) == 2 and len(set(form.steps) & bound) == 1


def _dimensions(read: Read, bound: set[str], params: Mapping[str, int]) -> list[str | Axis] | None:
    """Index or window of each dimension; None if one is neither."""
    dimensions: list[str | Axis] = []
    if read.exact:
        return None
    for form in _forms(read, params):
        if form is None:
            return None
        if _is_window(form, bound):
            (tap,) = set(form.steps) & bound
            (out,) = set(form.steps) - bound
            if form.steps[out] < 1 or form.steps[tap] < 1:
                return None
            dimensions.append(Axis(out, tap, form.constant, form.steps[out], form.steps[tap]))
        elif list(form.steps.values()) == [1] and form.constant == 0:
            dimensions.append(next(iter(form.steps)))
        else:
            return None
    names = [name for d in dimensions for name in ((d.out, d.tap) if isinstance(d, Axis) else (d,))]
    return dimensions if len(set(names)) == len(names) else None


def _plain(read: Read, params: Mapping[str, int]) -> list[str] | None:
    """Indices of a read with bare subscripts; None for other reads."""
    dimensions = _dimensions(read, set(), params)
    return None if dimensions is None else [name for name in dimensions if isinstance(name, str)]
