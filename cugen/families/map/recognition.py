"""The work of a `map` kernel, with a short index unrolled where a thread then moves fewer sectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.map.config import shift_of
from cugen.families.map.work import Work, work_of
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.elementwise import IN_MEMORY, loaded_reads
from cugen.pieces.structures.runs import sectors_per_element
from cugen.pieces.vectors import SECTOR_BYTES, ElementRef, Width, step_along
from cugen.plan.context import Context
from cugen.plan.request import Request
from cugen.rewrite.fuse_dimensions import FusedStatements, with_remainders
from cugen.rewrite.indices.unrolled import Unrolling, adjacent_elements, equal_parts, unrolled, unrolling
from cugen.spec.expressions import Index, Op, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.prove.affine import Variable, affine_form

_STEPS = ("floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne")
MAX_UNROLLED = 8  # values of an index: as many vectors of each output in a thread's registers (heuristic)
MIN_UNROLLED_THREADS = 1 << 15  # that are left: enough to fill a large GPU with a vector each (heuristic)
MIN_REQUEST_BYTES = 4  # of a lane (heuristic)
MAX_REMAINDER_VECTORS = 64  # of a row, of the widest type; longer unaligned rows are as fast in vectors (measured)
MIN_GAIN = 1.1  # of the sectors, which are estimated (heuristic)


def recognise(request: Request) -> Work:
    """The work of a request that consists of statements without loops."""
    work = simple = work_of(request)
    sectors = _sectors(work) / MIN_GAIN
    for candidate, count in _unrolled(request):
        changed = work_of(candidate)
        if _is_allowed(changed) and (fewer := _sectors(changed) / count) < sectors:
            work, sectors = changed, fewer
    return (_over_all_elements(work) or work) if work is simple else work


def _over_all_elements(work: Work) -> Work | None:
    """The work over all elements of short rows that vectors can't take, by one index, whose remainder by their constant
    length inputs have that are the same for all rows."""
    request, context = work.request, work.request.context
    is_sized = request.schedule.block or request.schedule.thread or work.requested_widths()
    if is_sized or work.is_partial or len(work.order) < 2:
        return None
    fast, slow = work.order[:2]
    extent = context.static_extent(fast)
    if extent is None or extent >= MAX_REMAINDER_VECTORS * work.full_width or work.loaded or work.stored:
        return None
    if work.full_width == 1 or not (work.max_width.count == 1 or shift_of(work, extent)):
        return None
    if math.prod(context.max_extent(index) for index in work.order) >= 1 << 31:  # remainders of 64 bits take longer
        return None
    form = FusedStatements(request.group.statements, work.arrays)
    result = with_remainders(form, slow, fast, context)
    if result is None:
        return None
    changed = work_of(request, result)
    reason = f"{work.max_width.reason}; short rows are one index over all elements"
    return replace(changed, max_width=Width(changed.max_width.count, reason))


def _is_allowed(work: Work) -> bool:
    """Whether enough threads are left, and vectors may be as wide as the schedule requests."""
    elements = math.prod(map(work.request.context.planned_extent, work.order))
    is_wide = all(width <= work.max_width.count for width, _ in work.requested_widths())
    return is_wide and elements // work.max_width.count >= MIN_UNROLLED_THREADS


def _unrolled(request: Request) -> Iterator[tuple[Request, int]]:
    """The request with short indices, short parts of indices, and both unrolled; and how many elements that gives each
    thread."""
    statements, context, schedule = request.group.statements, request.context, request.schedule
    if schedule.block or schedule.thread or not all(map(request.is_stored, statements)):
        return
    for index in statements[0].indices:
        extent = context.static_extent(index)
        if extent is None:
            continue
        if 1 < extent <= MAX_UNROLLED and len(statements[0].indices) > 1:
            new = unrolled(statements, context.arrays, unrolling(index, extent), context)
            yield request.with_statements(new), extent
            for divided in new[0].indices:
                for chosen in _parts(new, divided, MAX_UNROLLED // extent, context):
                    of_both = unrolled(new, context.arrays, chosen, context)
                    yield request.with_statements(of_both), extent * len(chosen.values)
        for chosen in _parts(statements, index, MAX_UNROLLED, context):
            new = unrolled(statements, context.arrays, chosen, context)
            yield request.with_statements(new), len(chosen.values)


def _parts(statements: tuple[Statement, ...], index: Index, max_count: int, context: Context) -> Iterator[Unrolling]:
    """The unrollings of short parts of an index, or of few of them."""
    extent = context.static_extent(index)
    if extent is None:
        return
    for length in _lengths(statements, index, extent, context):
        if length <= max_count:
            yield adjacent_elements(index, extent, length)
        elif extent // length <= max_count:
            yield equal_parts(index, extent, extent // length)


def _lengths(statements: tuple[Statement, ...], index: Index, extent: int, context: Context) -> list[int]:
    """Divisors of an extent at whose multiples quotients, remainders and comparisons of the index change."""
    params = {param.name: param for param in context.spec.params}
    lengths: dict[int, None] = {}
    for node in (node for s in statements for expr in (*s.subscripts, s.value) for node in walk(expr)):
        if not isinstance(node, Op) or node.name not in _STEPS or not all(arg.dtype.is_integer for arg in node.args):
            continue
        left, right = (affine_form(arg, params) for arg in node.args)
        is_quotient = node.name in ("floordiv", "mod")
        moving = left if is_quotient else left - right
        coefficients = dict(moving.terms)
        step = coefficients.get(Variable(index.name), 0)
        if abs(step) == 1 and len(coefficients) == 1 and (right.is_constant or not is_quotient):
            length = math.gcd(extent, moving.constant, right.constant if is_quotient else 0)
            if 1 < length < extent:
                lengths[length] = None
    return list(lengths)


def _sectors(work: Work) -> float:
    """Sectors that a warp's requests for one element of each lane move per lane; those that all lanes share are left
    out."""
    context, along = work.request.context, work.along
    structures = (*work.loaded, *work.stored)
    in_structures = {reference for structure in structures for reference in structure.fields}
    of_structures = (sectors_per_element(structure, along, work.max_width.count, context) for structure in structures)
    references = dict.fromkeys((*_loads(work), *((s.target, s.subscripts) for s in work.request.stored_statements())))
    others = (reference for reference in references if reference not in in_structures)
    return sum(of_structures) + sum(_sectors_of(work, reference) for reference in others)


def _loads(work: Work) -> list[ElementRef]:
    reads = loaded_reads(work.request.group.statements)
    return [(read.array, read.subscripts) for read in reads if work.arrays[read.array].space in IN_MEMORY]


def _sectors_of(work: Work, reference: ElementRef) -> float:
    """Of an access by each lane alone: adjacent lanes are along the contiguous index, and where it is short along the
    next one. Requests for less than 4 bytes of each lane take as long as for 4."""
    name, subscripts = reference
    array, context = work.arrays[name], work.request.context
    lanes, sectors, width = WARP_SIZE, 1.0, 1
    for index in work.order[:2]:
        count = max(min(lanes, context.planned_extent(index)), 1)
        lanes //= count
        is_moving = any(index.name in free_indices(sub) for sub in subscripts)
        step = step_along(array, subscripts, index.name, context) if is_moving else 0
        if step is not None:
            sectors *= min(max(abs(step) * array.dtype.bytes / SECTOR_BYTES, 1 / count), 1)
        if index.name == work.along and step == 1:
            width = work.max_width.count
    return max(sectors, MIN_REQUEST_BYTES / SECTOR_BYTES / width)
