"""One thread per output element, or per scanned row, with serial loops: the fallback that takes every group."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cugen.families.base import Family
from cugen.pieces.grid import AXES, fastest_first, map_threads
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import placement_refusals, stage_inputs
from cugen.pieces.serial_scan import SerialScan, lower_serial_scan, recognise
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import For, Node, Section
from cugen.plan.request import Match, Refusal, Refusals, Request, refuse_tunables
from cugen.plan.scopes import Scope

MAX_BLOCK_Z = 64  # threads of a block along z (CUDA programming guide, all compute capabilities)
MAX_UNROLLED_TRIPS = 64  # an array in registers needs constant indices, else ptxas puts it in local memory


def match(request: Request) -> Match | Refusals:
    """Refuses explicit schedules and placements only."""
    reasons = (*_schedule_refusals(request), *refuse_tunables(request, ()))
    return Refusals(reasons) if reasons else Match(partial(_build, request, recognise(request)))


def _schedule_refusals(request: Request) -> list[Refusal]:
    reasons = list(placement_refusals(request))
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
    parts = [(section.name, section.body) for section in sections]
    return replace(assemble(request, lowering, "direct", parts, mapping.grid, mapping.block), reasons=(reason,))


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


FAMILY = Family(
    "direct",
    rank=0,
    doc="one thread per output element, serial loops over reduction indices",
    match=match,
)
