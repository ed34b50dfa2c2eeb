"""Translation of window reductions: to convolutions and pools of a library, or unrolled."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.bench.translation.dialects import NoPeer
from cugen.bench.translation.terms import Term, slice_text
from cugen.bench.translation.windows import Axis, Convolution, Pool, convolution, pooling
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Const, Read, Reduce
from cugen.spec.types import BOOL, INT64, DType

if TYPE_CHECKING:
    from cugen.bench.translation.writer import Writer

_MAX_UNROLLED_TAPS = 64  # taps of a window that is unrolled (heuristic)


def window(writer: Writer, node: Reduce, taps: Sequence[str]) -> Term:
    """Reduction over a window (`taps`) and possibly other indices. Raises NoPeer for large windows."""
    if writer.say.has_convolutions:
        if (match := convolution(node, writer.file.params)) is not None and node.dtype.is_float:
            return _convolution(writer, match)
        if (pool := pooling(node, writer.file.params)) is not None and _fits_pool(writer, pool):
            return _pool(writer, pool)
    extents = [writer.extents[name] for name in taps]
    if math.prod(extents) > _MAX_UNROLLED_TAPS or node.kind not in ("sum", "max", "min", "prod", "any", "all"):
        raise NoPeer(f"a window of {math.prod(extents)} elements")
    terms: list[Term] = []
    outer = tuple(index for index in node.indices if index.name not in taps)
    for values in itertools.product(*map(range, extents)):
        fixed = {name: Const(value, INT64) for name, value in zip(taps, values, strict=True)}
        where = None if node.where is None else substitute(node.where, fixed)
        part = replace(node, body=substitute(node.body, fixed), indices=outer, where=where)
        terms.append(writer.reduce(part) if outer else _element(writer, part))
    name = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "mul", "any": "or", "all": "and"}[node.kind]
    total = terms[0]
    for term in terms[1:]:
        total = writer.operator(name, [total, term], is_bool=node.dtype == BOOL)
    return total


def _element(writer: Writer, node: Reduce) -> Term:
    body = writer.term(node.body)
    return body if node.where is None else writer.masked(body, writer.term(node.where), node.kind)


def _convolution(writer: Writer, match: Convolution) -> Term:
    x, padding = _slid(writer, match.x, match.axes, [match.batch, match.channel])
    w = writer.read(match.w)
    order = (match.channel if match.is_depthwise else match.out, "" if match.is_depthwise else match.channel)
    weights = _with_ones(writer, w, (*order, *(axis.tap for axis in match.axes)))
    groups = f", groups={writer.extents[match.channel]}" if match.is_depthwise else ""
    rank = len(match.axes)
    text = f"torch.nn.functional.conv{rank}d({x}, {weights}{_settings(match.axes, padding)}{groups})"
    channels = match.channel if match.is_depthwise else match.out
    return _without_ones(writer, text, (match.batch, channels, *(axis.out for axis in match.axes)), w.dtype)


def _fits_pool(writer: Writer, pool: Pool) -> bool:
    """Whether the boundary matches the library's padding by -inf, or nothing is read outside."""
    shape = writer.file.stored[pool.x.array].shape[len(pool.leading) :]
    ranges = [axis.reach(writer.extents) for axis in pool.axes]
    inside = all(low >= 0 and high < size for (low, high), size in zip(ranges, shape, strict=True))
    return inside or (pool.x.boundary is not None and pool.x.boundary.value == -math.inf)


def _pool(writer: Writer, pool: Pool) -> Term:
    leading = ("", *pool.leading)[-2:] if len(pool.leading) < 2 else pool.leading
    leading = leading if len(leading) == 2 else ("", *leading)
    x, padding = _slid(writer, pool.x, pool.axes, leading)
    rank = len(pool.axes)
    kernel = f", {tuple(axis.taps(writer.extents) for axis in pool.axes)}"
    text = f"torch.nn.functional.max_pool{rank}d({x}{kernel}{_settings(pool.axes, padding)})"
    dtype = writer.file.stored[pool.x.array].dtype
    return _without_ones(writer, text, (*leading, *(axis.out for axis in pool.axes)), dtype)


def _slid(writer: Writer, read: Read, axes: Sequence[Axis], leading: Sequence[str]) -> tuple[str, Sequence[int]]:
    """Input of a window with two leading dimensions, and the library's padding for each axis."""
    stored = writer.file.stored[read.array]
    first = len(stored.shape) - len(axes)
    pooled = read.boundary is not None and read.boundary.value == -math.inf
    by_library = pooled or read.boundary is None or read.boundary.mode == "zero"
    even = all(axis.is_padded_evenly(n, writer.extents) for axis, n in zip(axes, stored.shape[first:], strict=True))
    is_half_padded = all(2 * -axis.start <= axis.dilation * axis.taps(writer.extents) for axis in axes)
    if by_library and even and (is_half_padded or not pooled):
        text, padding = stored.name, [-axis.start for axis in axes]
    else:
        ranges = [(0, n - 1) for n in stored.shape[:first]] + [axis.reach(writer.extents) for axis in axes]
        name, offsets, sizes = writer.base(read.array, read.boundary, ranges)
        slices = [
            slice_text(low + offset, high + offset + 1, 1, size)
            for (low, high), offset, size in zip(ranges, offsets, sizes, strict=True)
        ]
        text = name if set(slices) == {":"} else f"{name}[{', '.join(slices)}]"
        padding = [0] * len(axes)
    index = ", ".join("None" if name == "" else ":" for name in leading)
    return (f"{text}[{index}]" if "" in leading else text), padding


def _with_ones(writer: Writer, term: Term, axes: Sequence[str]) -> str:
    """The term permuted to these axes, with a unit dimension for each empty name."""
    ordered = writer.permuted(term, tuple(name for name in axes if name))
    index = ", ".join(":" if name else "None" for name in axes)
    return ordered.text if all(axes) else f"{ordered.atom}[{index}]"


def _without_ones(writer: Writer, text: str, axes: Sequence[str], dtype: DType) -> Term:
    kept = tuple(name for name in axes if name)
    index = ", ".join(":" if name else "0" for name in axes)
    text = text if all(axes) else f"{text}[{index}]"
    return Term(text, kept, dtype)


def _settings(axes: Sequence[Axis], padding: Sequence[int]) -> str:
    """Window arguments with non-default values."""
    given = {
        "stride": (tuple(axis.stride for axis in axes), 1),
        "padding": (tuple(padding), 0),
        "dilation": (tuple(axis.dilation for axis in axes), 1),
    }
    return "".join(f", {name}={values}" for name, (values, usual) in given.items() if set(values) != {usual})
