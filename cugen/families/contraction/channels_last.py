"""Copies of a convolution's operands with the channels as the fastest index, of which a tap's are copied in vectors:

    y[n, k, h, w] = sum(x[n, c, h + r - 1, w + s - 1] * f[k, c, r, s], c, r, s)
becomes
    x_last[n, h_in, w_in, c] = x[n, c, h_in, w_in];  f_last[k, r, s, c] = f[k, c, r, s]
    y[n, k, h, w] = sum(x_last[n, h + r - 1, w + s - 1, c] * f_last[k, r, s, c], c, r, s)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from cugen.plan.memory import Array
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, free_indices, walk
from cugen.spec.rewriting import replaced

# Fewer multiply-adds take as long as the copies of both operands, or of the filters (heuristic).
_MIN_MULTIPLY_ADDS, _MIN_MULTIPLY_ADDS_OF_FILTERS = 1 << 24, 1 << 21
_NARROW_BYTES = 2  # elements of which a copy of one is no asynchronous one


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A sum of products of windows and filters; `channel` is the only contracted index that is a subscript of `windows`
    by itself, `taps` are the others in the order of its dimensions."""

    windows: Read
    filters: Read
    channel: Index
    taps: tuple[Index, ...]


def with_channels_last(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The copies and the convolution of them; None where the operands are in that order, and where the convolution
    isn't taken then. Windows of wide elements stay as they are, since single elements are copied as fast; so do those
    that are contiguous along another index of the output. Their filters need adjacent contracted indices only."""
    convolution = _convolution(single)
    if convolution is None:
        return None
    windows = single.context.arrays[convolution.windows.array]
    channel = convolution.windows.subscripts.index(IndexValue(convolution.channel.name))
    is_last = windows.strides[channel] == 1
    moves = not is_last and windows.dtype.bytes <= _NARROW_BYTES and _is_contiguous_along_pixels(convolution, windows)
    filters = single.context.arrays[convolution.filters.array]
    filters_order = _filters_order(convolution, filters, channels_last=is_last or moves)
    spec = single.context.spec
    if spec.array(convolution.filters.array).is_temporary and filters.dtype.bytes > _NARROW_BYTES:
        filters_order = None  # a launch stores them before: a second one costs more than their order saves
    taken = taken_names(spec, (*single.statement.indices, convolution.channel, *convolution.taps))
    copies: list[Temporary] = []
    reads: dict[Expr, Expr] = {}
    for read, order in (
        (convolution.windows, _with_last(len(windows.strides), (channel,)) if moves else None),
        (convolution.filters, filters_order),
    ):
        if order is not None:
            copies.append(_copy(single, read, order, taken))
            subscripts = tuple(read.subscripts[d] for d in order)
            reads[read] = replace(read, array=copies[-1].array.name, subscripts=subscripts)
    minimum = _MIN_MULTIPLY_ADDS if moves else _MIN_MULTIPLY_ADDS_OF_FILTERS
    if not copies or _multiply_adds(single, convolution) < minimum:
        return None
    last = replace(single.statement, value=replaced(single.statement.value, reads.get))
    steps = steps_of(copies, last, splits_last=True)
    return steps if is_taken(last_request(single, steps)) else None


def _convolution(single: Single) -> _Convolution | None:
    reductions = list(dict.fromkeys(node for node in walk(single.statement.value) if isinstance(node, Reduce)))
    if len(reductions) != 1 or reductions[0].kind != "sum" or reductions[0].where is not None:
        return None
    (reduction,) = reductions
    reads = list(dict.fromkeys(node for node in walk(reduction.body) if isinstance(node, Read)))
    windows = [read for read in reads if not _is_plain(read)]
    filters = [read for read in reads if _is_plain(read) and read.boundary is None]
    if len(windows) != 1 or len(filters) != 1 or windows[0].exact or windows[0].array == filters[0].array:
        return None
    if all(isinstance(sub, IndexValue) or not free_indices(sub) for sub in windows[0].subscripts):  # a slice
        return None
    summed = {index.name: index for index in reduction.indices}
    bare = [sub.name for sub in windows[0].subscripts if isinstance(sub, IndexValue) and sub.name in summed]
    if len(bare) != 1 or sum(bare[0] in free_indices(sub) for sub in windows[0].subscripts) != 1:
        return None
    taps = [name for sub in windows[0].subscripts for name in summed if name in free_indices(sub) and name != bare[0]]
    if sorted((*taps, *bare)) != sorted(summed) or not summed.keys() <= free_indices(filters[0]):
        return None
    return _Convolution(windows[0], filters[0], summed[bare[0]], tuple(summed[name] for name in taps))


def _is_plain(read: Read) -> bool:
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    return len(names) == len(set(names)) == len(read.subscripts)


def _multiply_adds(single: Single, convolution: _Convolution) -> int:
    indices = (*single.statement.indices, convolution.channel, *convolution.taps)
    return math.prod(map(single.context.max_extent, indices))


def _is_contiguous_along_pixels(convolution: _Convolution, windows: Array) -> bool:
    """Whether the contiguous dimension of the windows has a computed subscript."""
    subscripts = zip(convolution.windows.subscripts, windows.strides, strict=True)
    return any(stride == 1 and not isinstance(sub, IndexValue) for sub, stride in subscripts)


def _with_last(count: int, last: tuple[int, ...]) -> tuple[int, ...]:
    """So many dimensions with some of them last."""
    return (*(d for d in range(count) if d not in last), *last)


def _filters_order(convolution: _Convolution, filters: Array, *, channels_last: bool) -> tuple[int, ...] | None:
    """The dimensions of the filters with the contracted ones last: the channels last of all, or all as they are; None
    where they are dense in that order, whatever precedes them, and whatever follows them but for single bytes, which
    tensor cores read along the contracted dimensions."""
    names = [sub.name for sub in convolution.filters.subscripts if isinstance(sub, IndexValue)]
    wanted = [*(index.name for index in convolution.taps), convolution.channel.name]
    contracted = [d for d, name in enumerate(names) if name in wanted]
    order = tuple(names.index(name) for name in wanted) if channels_last else tuple(contracted)
    first = len(names) - len(wanted) if filters.dtype.bytes == 1 else contracted[0]
    is_adjacent = contracted == list(range(first, first + len(wanted)))
    is_dense = is_adjacent and all(
        filters.strides[d] == (filters.strides[d + 1] * filters.shape[d + 1]).expand() for d in contracted[:-1]
    )
    return None if is_dense and list(order) == contracted else _with_last(len(names), order)


def _copy(single: Single, read: Read, order: tuple[int, ...], taken: set[str]) -> Temporary:
    """A copy of the whole array with its dimensions in another order."""
    array = single.context.spec.array(read.array)
    names = [
        sub.name if isinstance(sub, IndexValue) else fresh(f"{_moving(sub, single)}_in", taken)
        for sub in read.subscripts
    ]
    value = Read(read.array, tuple(map(IndexValue, names)), read.dtype)
    indices = tuple(Index(names[d], array.shape[d]) for d in order)
    what = f"{read.array}, channels last"
    copy = temporary(fresh(f"{read.array}_last", taken), indices, value, what, single.statement, is_stored=True)
    return replace(copy, array=replace(copy.array, dtype=array.dtype))


def _moving(sub: Expr, single: Single) -> str:
    """The output index in a subscript; `i` where there is none."""
    names = (index.name for index in single.statement.indices)
    return next((name for name in names if name in free_indices(sub)), "i")
