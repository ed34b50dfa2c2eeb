"""Vectors along a row: their width, where they start, and which accesses they serve."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.vector_body import is_guarded
from cugen.pieces.vectors import (
    MAX_ACCESS_BYTES,
    ElementRef,
    Width,
    have_equal_alignment,
    is_computed,
    is_contiguous,
    narrowest,
    offset_of,
    widest_at,
)
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.memory import ADDRESSED, Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import integer, symbol
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, children, free_indices

MIN_ACCESS_BYTES = 8  # of vectors, below which those of unaligned rows start at the first aligned element
MAX_SHARED_LINE_BYTES = 4  # per lane, so that the elements of a warp are in a cache line
MIN_PEELED_ROW_VECTORS = 16  # so that the elements at both ends of a row cost little
NARROW_VECTOR_ELEMENTS = 8  # per access: element types of 16 bits and less count as narrow


def row_width(problem: RowProblem) -> Width:
    """The widest access that the alignment of all arrays allows."""
    context, along = problem.request.context, problem.column.name
    accesses = [(problem.arrays[array], subscripts) for array, subscripts in _accesses(problem)]
    widths = [_widest(*access, along, context) for access in accesses if is_vector(*access, along)]
    if not widths:
        return Width(1, f"no array is contiguous along {along}")
    multiple = divisor(context.extent(problem.column), context)
    return narrowest(widths).dividing(multiple, "the row length is only known to be a multiple of {count}")


def aligned_accesses(problem: RowProblem, width: Width, *, shifts: bool) -> tuple[ElementRef, ...]:
    """The accesses that vectors of unaligned rows serve: those of equal alignment to the first one that all indices
    subscript. None where accesses are wide enough, or rows short, not contiguous, or placed by the spec. `shifts`:
    whether vectors of others may be shifted."""
    context, along = problem.request.context, problem.column.name
    length = context.typical_extent(problem.column)
    if length is None or is_placed(problem) or contiguous_row(problem):
        return ()
    indices = (*problem.domain.rows, problem.column)
    names = {index.name for index in indices}
    accesses = [access for access in _accesses(problem) if is_contiguous(problem.arrays[access[0]], access[1], along)]
    full = [access for access in accesses if names <= frozenset[str]().union(*map(free_indices, access[1]))]
    aligned = tuple(
        access
        for access in dict.fromkeys(accesses)
        if problem.arrays[access[0]].space in ADDRESSED
        and full
        and have_equal_alignment(problem.arrays, indices, context, (access, full[0]), MAX_ACCESS_BYTES)
    )
    stores = {(output.target, output.subscripts) for output in problem.outputs if output.is_per_element}
    if not aligned or not stores <= set(aligned):
        return ()
    peeled = peeled_width(problem, aligned, shifted_accesses(problem, aligned) if shifts else ())
    bytes_per_element = max(problem.arrays[array].dtype.bytes for array, _ in aligned)
    is_wide = min(peeled.count * bytes_per_element, MIN_ACCESS_BYTES) <= width.count * bytes_per_element
    return () if is_wide or length < MIN_PEELED_ROW_VECTORS * peeled.count else aligned


def shifted_accesses(problem: RowProblem, aligned: tuple[ElementRef, ...]) -> tuple[ElementRef, ...]:
    """The reads whose rows are aligned, as those of a vector that all rows share: in a row that begins anywhere, two of
    their aligned vectors have the elements of one vector of the `aligned` accesses."""
    along, context = problem.column.name, problem.request.context
    symbols = {**context.symbols, **{index.name: symbol(f"index {index.name}") for index in problem.domain.rows}}

    def is_shifted(read: Read) -> bool:
        array, reference = problem.arrays[read.array], (read.array, read.subscripts)
        if reference in aligned or array.space not in ADDRESSED or read.boundary is not None:
            return False
        if array.dtype.bytes >= MAX_SHARED_LINE_BYTES:  # single elements of a warp fill a cache line
            return False
        if any(map(is_computed, read.subscripts)) or not is_contiguous(array, read.subscripts, along):
            return False
        start = offset_of(problem.arrays, reference, {**symbols, along: integer(0)})
        return divisor(start, context) % MAX_ACCESS_BYTES == 0

    reads = (read for output in problem.outputs for read in _reads_of_rows(output.value, problem))
    return tuple(dict.fromkeys((read.array, read.subscripts) for read in reads if is_shifted(read)))


def is_placed(problem: RowProblem) -> bool:
    """Whether the spec places an array in a memory other than the workspace."""
    return any(array.memory.space not in (None, "scratch") for array in problem.request.touched())


def peeled_width(problem: RowProblem, aligned: tuple[ElementRef, ...], shifted: tuple[ElementRef, ...]) -> Width:
    """The width of vectors from the first aligned element of a row on. Where accesses are neither aligned there nor
    shifted, lanes stay so close to each other that single elements of these are in one cache line."""
    along, vectors = problem.column.name, (*aligned, *shifted)
    types = [problem.arrays[array].dtype for array, _ in vectors]
    others = [a for a in _accesses(problem) if a not in vectors and any(along in free_indices(sub) for sub in a[1])]
    count = (MAX_SHARED_LINE_BYTES if others else MAX_ACCESS_BYTES) // max(dtype.bytes for dtype in types)
    reason = f"rows of {aligned[0][0]} begin anywhere: both ends of one are read and stored by element"
    if shifted:
        names = " and ".join(dict.fromkeys(name for name, _ in shifted))
        reason += f", and vectors of {names} are in two aligned ones"
    return Width(max(count, 1), reason)


def is_narrow(problem: RowProblem) -> bool:
    """Whether all arrays that are accessed along the row have elements of 16 bits and less."""
    along = problem.column.name
    types = [
        problem.arrays[array].dtype for array, subs in _accesses(problem) if any(along in free_indices(s) for s in subs)
    ]
    return bool(types) and all(MAX_ACCESS_BYTES // dtype.bytes >= NARROW_VECTOR_ELEMENTS for dtype in types)


def contiguous_row(problem: RowProblem) -> str:
    """The row index along which threads are adjacent, since fewer of the accessed arrays are strided along it than
    along the columns, whatever adjacent rows share being none; empty for none. Of fewer rows than a warp only where
    more arrays are contiguous along it."""
    column = problem.column
    moving = [
        (array, subs) for array, subs in _accesses(problem) if any(column.name in free_indices(sub) for sub in subs)
    ]

    def contiguous(index: Index) -> int:
        return sum(is_contiguous(problem.arrays[array], subs, index.name) for array, subs in moving)

    def cost(index: Index) -> tuple[int, int]:
        dependent = sum(any(index.name in free_indices(sub) for sub in subs) for _, subs in moving)
        return dependent - contiguous(index), -contiguous(index)

    def is_candidate(index: Index) -> bool:
        fills_warp = contiguous(index) > 0 and problem.request.context.planned_extent(index) >= WARP_SIZE
        return fills_warp or contiguous(index) > contiguous(column)

    best = min((column, *filter(is_candidate, reversed(problem.domain.rows))), key=cost)
    return best.name if best != column else ""


def is_vector(array: Array, subscripts: tuple[Expr, ...], along: str) -> bool:
    """Whether elements of the row, or a segment of it, are contiguous in memory, with subscripts of indices alone."""
    if array.space not in IN_MEMORY or any(map(is_computed, subscripts)):
        return False
    in_segment, _ = _in_segment(subscripts, along)
    return is_contiguous(array, in_segment, along) and sum(along in free_indices(sub) for sub in in_segment) == 1


def reads_vector(expr: Expr, problem: RowProblem, width: int) -> bool:
    """Whether one vector load reads `width` consecutive elements, or none of them where the row is outside."""
    if width == 1 or not isinstance(expr, Read) or not _is_whole(expr, problem):
        return False
    return is_vector(problem.arrays[expr.array], expr.subscripts, problem.column.name)


def _is_whole(read: Read, problem: RowProblem) -> bool:
    """Whether a row is either in bounds or all zeros."""
    return read.boundary is None or is_guarded(read, problem.column.name)


def _widest(array: Array, subscripts: tuple[Expr, ...], along: str, context: Context) -> Width:
    """The widest vector along the column. It stays in a segment: its width divides the segments' lengths."""
    in_segment, lengths = _in_segment(subscripts, along)
    multiples = [divisor(to_integer(length, context.symbols), context) for length in lengths]
    reason = f"{array.name} is contiguous in segments of a multiple of {{count}} elements"
    return widest_at(array, in_segment, along, context).dividing(math.gcd(0, *multiples), reason)


def _in_segment(subscripts: tuple[Expr, ...], along: str) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The subscripts of an element in its segment of the row, and the segments' lengths: `along % S` is `along`, and
    quotients by S are fixed."""
    lengths: list[Expr] = []

    def segment(sub: Expr) -> Expr:
        match sub:
            case Op(name="mod", args=(IndexValue(name=name), length)) if name == along:
                lengths.append(length)
                return IndexValue(along)
            case Op(name="mod", args=(Op(name="floordiv") as quotient, _)):
                return segment(quotient)
            case Op(name="floordiv", args=(IndexValue(name=name), length)) if name == along:
                lengths.append(length)
                return IndexValue(f"segment of {along}")
        return sub

    return tuple(map(segment, subscripts)), tuple(lengths)


def _accesses(problem: RowProblem) -> Iterator[ElementRef]:
    """The reads of whole rows, and the stores per element."""
    for output in problem.outputs:
        yield from ((read.array, read.subscripts) for read in _reads_of_rows(output.value, problem))
    yield from ((output.target, output.subscripts) for output in problem.outputs if output.is_per_element)


def _reads_of_rows(expr: Expr, problem: RowProblem) -> Iterator[Read]:
    """The reads of whole rows; none in the subscripts of another."""
    match expr:
        case Read():
            if _is_whole(expr, problem):
                yield expr
        case _:
            for child in children(expr):
                yield from _reads_of_rows(child, problem)
