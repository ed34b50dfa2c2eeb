"""Copies of a convolution's operands with the channels as the fastest index, of which a tap's are copied in vectors:

    y[n, k, h, w] = sum(x[n, c, h + r - 1, w + s - 1] * f[k, c, r, s], c, r, s)
becomes
    x_last[n, h_in, w_in, c] = x[n, c, h_in, w_in];  f_last[k, r, s, c] = f[k, c, r, s]
    y[n, k, h, w] = sum(x_last[n, h + r - 1, w + s - 1, c] * f_last[k, r, s, c], c, r, s)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cugen.families.contraction.copied_convolution import NARROW_BYTES, Convolution, convolution_of, multiply_adds
from cugen.plan.memory import Array
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Read, free_indices
from cugen.spec.rewriting import replaced

# Fewer multiply-adds take as long as the copies of both operands, or of the filters (heuristic).
_MIN_MULTIPLY_ADDS, _MIN_MULTIPLY_ADDS_OF_FILTERS = 1 << 24, 1 << 21


def with_channels_last(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The copies and the convolution of them; None where the operands are in that order, and where the convolution
    isn't taken then. Windows of wide elements stay as they are, since single elements are copied as fast; so do those
    that are contiguous along another index of the output. Their filters need adjacent contracted indices only."""
    convolution = convolution_of(single)
    if convolution is None:
        return None
    windows = single.context.arrays[convolution.windows.array]
    channel = convolution.windows.subscripts.index(IndexValue(convolution.channel.name))
    is_last = windows.strides[channel] == 1
    moves = not is_last and windows.dtype.bytes <= NARROW_BYTES and _is_contiguous_along_pixels(convolution, windows)
    filters = single.context.arrays[convolution.filters.array]
    filters_order = _filters_order(convolution, filters, channels_last=is_last or moves)
    spec = single.context.spec
    if spec.array(convolution.filters.array).is_temporary and filters.dtype.bytes > NARROW_BYTES:
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
    if not copies or multiply_adds(single, convolution) < minimum:
        return None
    last = replace(single.statement, value=replaced(single.statement.value, reads.get))
    steps = steps_of(copies, last, splits_last=True)
    return steps if is_taken(last_request(single, steps)) else None


def _is_contiguous_along_pixels(convolution: Convolution, windows: Array) -> bool:
    """Whether the contiguous dimension of the windows has a computed subscript."""
    subscripts = zip(convolution.windows.subscripts, windows.strides, strict=True)
    return any(stride == 1 and not isinstance(sub, IndexValue) for sub, stride in subscripts)


def _with_last(count: int, last: tuple[int, ...]) -> tuple[int, ...]:
    """So many dimensions with some of them last."""
    return (*(d for d in range(count) if d not in last), *last)


def _filters_order(convolution: Convolution, filters: Array, *, channels_last: bool) -> tuple[int, ...] | None:
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
        filters.strides[d].expand() == (filters.strides[d + 1] * filters.shape[d + 1]).expand() for d in contracted[:-1]
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
