"""Splits the terms of correlations with few results, such as autocorrelations, into parts that fill the device."""

from __future__ import annotations

import math

from cugen.families.staged.correlation.config import threads_of
from cugen.families.staged.correlation.recognition import recognise, unasked_refusals
from cugen.machine.devices import PLANNING_DEVICE
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import fastest_first
from cugen.plan.request import Refusal, Single, Steps
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.split_reductions import ReductionSplitter
from cugen.spec.expressions import IndexValue
from cugen.spec.model import Schedule

NAME = "correlation"
OUTPUTS_PER_THREAD = 4  # of blocks that are counted (heuristic)
BLOCKS_PER_SM = 2  # that parts are made for (heuristic)
MIN_PARTS = 4  # fewer save less than a second launch takes (heuristic)
MIN_TERMS_PER_PART = 1 << 11  # that outweigh the partial results of a block's slices (heuristic)


def split(single: Single) -> Steps | None:
    """The partial sums of parts of the terms, and their sum, where the results are those of too few blocks."""
    request, context = single.request(), single.context
    if single.schedule != Schedule() or any(context.arrays[a.name].space not in IN_MEMORY for a in request.touched()):
        return None
    statement = single.statement
    if not statement.indices or not all(isinstance(sub, IndexValue) for sub in statement.subscripts):
        return None
    unfused = with_common_indices((statement,), context)
    order = fastest_first(request)
    correlation = recognise(request.with_statements(unfused), order)
    if isinstance(correlation, Refusal) or any(unasked_refusals(request, correlation)):
        return None
    threads = threads_of(request, correlation, order, OUTPUTS_PER_THREAD)
    spans = (threads.get(index.name, 1) * (OUTPUTS_PER_THREAD if index == order[0] else 1) for index in order)
    blocks = math.prod(-(-max(context.planned_extent(i), 1) // span) for i, span in zip(order, spans, strict=True))
    terms = math.prod(map(context.planned_extent, correlation.indices))
    parts = min(BLOCKS_PER_SM * PLANNING_DEVICE.sms // blocks, terms // MIN_TERMS_PER_PART)
    if parts < MIN_PARTS or (single.is_specialised(request) and single.first_family(request) != NAME):
        return None
    try:
        stages = [reductions[0].indices for reductions in collected(unfused)]
    except NotInStages:
        return None
    return ReductionSplitter(unfused[0], context, stages, {}, parts, aligned=(correlation.term,), is_open=True).steps()
