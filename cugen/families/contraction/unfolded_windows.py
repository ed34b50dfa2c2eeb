"""Copies of windows that don't overlap, one after the other in the order of the filters, as of image patches:

    y[n, k, i, j] = sum(x[n, c, 16 * i + r, 16 * j + s] * f[k, c, r, s], c, r, s)
becomes
    x_windows[n, i, j, c, r, s] = x[n, c, 16 * i + r, 16 * j + s]
    y[n, k, i, j] = sum(x_windows[n, i, j, c, r, s] * f[k, c, r, s], c, r, s)
which is a GEMM over c, r and s. The copy has no more elements than the array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from cugen.families.contraction.copied_convolution import NARROW_BYTES, Convolution, convolution_of, multiply_adds
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.request import Request, Single, Steps
from cugen.plan.symbols import bounds
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, free_indices
from cugen.spec.rewriting import replaced

_MIN_MULTIPLY_ADDS = 1 << 24  # fewer take as long as the copy (heuristic)


def with_unfolded_windows(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The copy and the GEMM of it; None where windows overlap or may be outside, where their pixels are as wide as
    vectors, or a window's rows are shorter than these, and where the GEMM isn't taken."""
    convolution = convolution_of(single)
    if convolution is None or convolution.windows.boundary is not None:
        return None
    if multiply_adds(single, convolution) < _MIN_MULTIPLY_ADDS or not _has_wide_rows(convolution, single):
        return None
    windows, statement, spec = convolution.windows, single.statement, single.context.spec
    contracted = {index.name: index for index in (convolution.channel, *convolution.taps)}
    names = [sub.name for sub in convolution.filters.subscripts if isinstance(sub, IndexValue)]
    indices = [index for index in statement.indices if index.name in free_indices(windows)]
    indices += [contracted[name] for name in names if name in contracted]
    if math.prod(map(single.context.max_extent, indices)) > _elements(convolution, single):
        return None
    taken = taken_names(spec, (*statement.indices, *contracted.values()))
    name, what = fresh(f"{windows.array}_windows", taken), f"{windows.array}, windows in order"
    copy = temporary(name, tuple(indices), windows, what, statement, is_stored=True)
    copy = replace(copy, array=replace(copy.array, dtype=spec.array(windows.array).dtype))
    reads: dict[Expr, Expr] = {windows: copy.read}
    steps = steps_of([copy], replace(statement, value=replaced(statement.value, reads.get)), splits_last=True)
    return steps if is_taken(last_request(single, steps)) else None


def _elements(convolution: Convolution, single: Single) -> int:
    array = single.context.spec.array(convolution.windows.array)
    return math.prod(single.context.max_extent(Index("", extent)) for extent in array.shape)


def _has_wide_rows(convolution: Convolution, single: Single) -> bool:
    """Whether elements are narrow ones, a window's rows are vectors of them, and the channels of a pixel aren't."""
    array, extent = single.context.arrays[convolution.windows.array], single.context.max_extent
    channel = convolution.windows.subscripts.index(IndexValue(convolution.channel.name))
    channels = extent(convolution.channel) if array.strides[channel] == 1 else 1
    if array.dtype.bytes > NARROW_BYTES or channels * array.dtype.bytes % MAX_ACCESS_BYTES == 0:
        return False
    pixels = [d for d in range(len(array.strides)) if d != channel]
    nearest = min(pixels, key=lambda d: bounds(array.strides[d], single.context.ranges))
    moved = free_indices(convolution.windows.subscripts[nearest])
    row = math.prod(extent(index) for index in convolution.taps if index.name in moved)
    return row * channels * array.dtype.bytes >= MAX_ACCESS_BYTES
