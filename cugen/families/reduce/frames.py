"""Frames of an array that overlap, as the windows of a signal or of a filter that decimates."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from cugen.families.reduce.reads import strides_of
from cugen.machine.requests.warp import WORD_BYTES
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.vectors import SECTOR_BYTES, is_computed
from cugen.plan.request import Request
from cugen.plan.symbols import Integer
from cugen.rewrite.fuse_dimensions import FusedStatements
from cugen.spec.expressions import Index, Read, free_indices

MAX_SHARING_FRAMES = 64  # of the same elements, where others than their lanes would read a sector for each (heuristic)


def is_of_frames(subscript: Integer, inner: sympy.Symbol, outer: sympy.Symbol, index: Index, request: Request) -> bool:
    """Whether a subscript is that of frames, `frame * step + i + offset`, that begin at least a sector apart: lanes
    with consecutive frames would read one each."""
    direction, step = subscript.coeff(inner), request.context.static(subscript.coeff(outer))
    offset = (subscript - direction * inner - subscript.coeff(outer) * outer).expand()
    if direction not in (1, -1) or step is None or offset.free_symbols & {inner, outer}:
        return False
    is_sparse = step * WORD_BYTES >= SECTOR_BYTES
    return is_sparse and request.context.planned_extent(index) <= MAX_SHARING_FRAMES * step


def frames_beyond_boundary(
    reads: Sequence[Read],
    moving: Sequence[Read],
    fused: FusedStatements,
    reduced: set[str],
    output_names: Sequence[str],
    request: Request,
) -> Read | None:
    """The read of frames that may end beyond a boundary, `x[f * step - k]`, if another array is read along them, which
    loads follow: lanes read consecutive elements."""

    def steps(read: Read) -> dict[str, Integer]:
        return strides_of(read, fused, reduced, request)

    rows = {name for read in moving for name, step in steps(read).items() if step == 1}
    for read in reads:
        is_fixed = read.boundary is not None and not any(map(is_computed, read.subscripts))
        if is_fixed and free_indices(read) >= {*reduced, *output_names} and fused.arrays[read.array].space in IN_MEMORY:
            along = [name for name, step in steps(read).items() if step in (1, -1)]
            overlap = any(free & reduced and free - reduced for free in map(free_indices, read.subscripts))
            if len(along) == 1 and along[0] in rows and overlap:
                return read
    return None
