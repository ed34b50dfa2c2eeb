"""One thread per output element, or per scanned row, with serial loops: the fallback that takes every group."""

from __future__ import annotations

from functools import partial
from math import prod

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps, refuse_tunables
from cugen.pieces.elementwise import IN_MEMORY
from cugen.pieces.grid import AXES, MAX_BLOCK_Z, fastest_first, map_threads
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import placement_refusals, stage_inputs
from cugen.pieces.serial_scan import SerialScan, lower_serial_scan, recognise
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For, Node, Section
from cugen.plan.scopes import Scope
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import with_fused_dimensions
from cugen.rewrite.split_reductions import ReductionSplitter
from cugen.rewrite.stored.partial_results import indices_of_partials
from cugen.rewrite.stored.terms import THREADS_TO_FILL_DEVICE, with_stored_terms
from cugen.rewrite.stored.transposed_scans import with_transposed_operand
from cugen.rewrite.temporaries import first_request
from cugen.spec.expressions import Const, IndexValue
from cugen.spec.model import Schedule

MAX_UNROLLED_TRIPS = 64  # an array in registers needs constant indices, else ptxas puts it in local memory

MIN_SERIAL_TERMS = 1 << 10  # of a thread; fewer take less time than a second launch (heuristic)
MIN_PARTS = 4  # fewer save less than a second launch takes (heuristic)
MIN_TERMS_PER_PART = 1 << 6  # that outweigh the store and the load of a partial result (heuristic)

# Terms of a float32 sum without compensation. A running sum of n terms of one sign is off by up to n units in the last
# place: 1024 terms cost at most 10 of the 24 bits, and as a rule fewer than 5.
MAX_PLAIN_TERMS = 1024


def match(request: Request) -> Match | Refusals:
    """Refuses explicit schedules and placements only."""
    reasons = (*_schedule_refusals(request), *refuse_tunables(request, ()))
    return Refusals(reasons) if reasons else Match(partial(_build, request, recognise(request)))


def _schedule_refusals(request: Request) -> list[Refusal]:
    reasons = list(placement_refusals(request))
    if request.schedule.family != "direct" and not reasons:
        shared = (array.name for array in request.touched() if array.memory.space == "shared")
        why = "in shared memory would be copied whole by each block: `family: direct` does so"
        reasons += [Refusal(f"{name} {why}", f"arrays.{name}.memory") for name in shared]
    if any(size != 1 for _, size in request.schedule.thread):
        reasons.append(Refusal("computes one element in each thread", "schedule.thread"))
    if request.schedule.step:
        reasons.append(Refusal("has no tiled loop to step through", "schedule.step"))
    names = [index.name for index in fastest_first(request)]
    for name, size in request.schedule.block:
        key = f"schedule.block.{name}"
        if name not in names:
            reasons.append(Refusal(f"has blocks over output indices only, and {name} is none", key))
        elif size > 1 and names.index(name) >= len(AXES):
            reasons.append(Refusal(f"has threads along {', '.join(names[: len(AXES)])} only, not along {name}", key))
        elif size > MAX_BLOCK_Z and names.index(name) == 2:
            reasons.append(Refusal(f"{name} maps to z, where a block has at most {MAX_BLOCK_Z} threads", key))
    return reasons


def _build(request: Request, serial_scan: SerialScan | None) -> Kernel:
    lowering = new_lowering(request)
    order = fastest_first(request)
    if serial_scan is not None:
        order = tuple(index for index in order if index != serial_scan.index)
    mapping = map_threads(request, lowering, order, dict(request.schedule.block))
    staged, staging = stage_inputs(request, lowering, mapping.block)
    lowering.arrays = {**lowering.arrays, **staged}
    lowering.unroll = MAX_UNROLLED_TRIPS if any(a.space == "register" for a in staged.values()) else 0
    lowering.plain_terms = MAX_PLAIN_TERMS
    scope = Scope()
    if serial_scan is None:
        reason = "one thread computes one element of the output"
        lower_statements(request, lowering, scope)
        elements = _elements(tuple(scope.nodes))
    else:
        reason = f"one thread scans along {serial_scan.index.name} serially"
        elements = lower_serial_scan(serial_scan, lowering, scope)
    # All threads stage; those outside the domain return only after the barrier.
    sections = (*staging, Section("coordinates", mapping.nodes), *elements)
    return assemble(request, lowering, "direct", sections, mapping.grid, mapping.block, reasons=(reason,))


def _elements(nodes: tuple[Node, ...]) -> tuple[Section, ...]:
    """The statements' nodes, with the loop of a single reduction as a section."""
    loops = [(number, node) for number, node in enumerate(nodes) if isinstance(node, For)]
    if len(loops) != 1:
        return (Section("elements", nodes),)
    ((number, reduction),) = loops
    return (
        Section("accumulators", nodes[:number]),
        Section("serial_loop", (For(reduction.loop, (Section("accumulate", reduction.body),)),)),
        Section("elements", nodes[number + 1 :]),
    )


def split(single: Single) -> Steps | None:
    """Two passes for long reductions of few results, where one thread for each leaves most of the device idle, or their
    terms in memory, for families that reduce them."""
    if steps := with_stored_terms(single) or with_transposed_operand(single):
        return steps
    request, context = single.request(), single.context
    if single.schedule != Schedule() or any(context.arrays[a.name].space not in IN_MEMORY for a in request.touched()):
        return None
    fixed = [sub for sub in single.statement.subscripts if not isinstance(sub, IndexValue)]
    writers = [s for s in context.spec.statements if s.target == single.statement.target]
    # Statements that write parts of one array are fewer launches together.
    if not all(isinstance(sub, Const) for sub in fixed) or (fixed and len(writers) > 1):
        return None
    try:
        if not collected((single.statement,)):
            return None
    except NotInStages:
        return None
    unfused = with_common_indices((single.statement,), context)
    fused = with_fused_dimensions(unfused, context)
    stages = [reductions[0].indices for reductions in collected(fused.statements)]
    results = prod(map(context.planned_extent, single.statement.indices))
    terms = max(prod(map(context.planned_extent, indices)) for indices in stages)
    parts = min(THREADS_TO_FILL_DEVICE // max(results, 1), terms // MIN_TERMS_PER_PART)
    if terms < MIN_SERIAL_TERMS or parts < MIN_PARTS or single.is_specialised(request):
        return None
    steps = ReductionSplitter(unfused[0], context, stages, fused.origins, parts, is_open=True).steps()
    longest = max(context.planned_extent(index) for indices in stages for index in indices)
    if longest >= parts // 2 or single.is_specialised(first_request(single, steps)):
        return steps
    # Parts of one index leave the device idle.
    if stored := with_stored_terms(single, in_other_orders=True):
        return stored
    reductions = [reduction for stage in collected(unfused) for reduction in stage]
    filling = min(THREADS_TO_FILL_DEVICE, results * parts) // 2
    whole = indices_of_partials(unfused[0], reductions, context, filling, MIN_TERMS_PER_PART)
    if not whole:
        return steps
    return ReductionSplitter(unfused[0], context, stages, {}, parts, is_open=True, whole=whole).steps()


FAMILY = Family(
    "direct",
    rank=0,
    doc="one thread per output element, serial loops over reduction indices",
    match=match,
    split=split,
    is_general=True,
    fallback=True,
    guards_results=True,
)
