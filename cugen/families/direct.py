"""One thread per output element (or per line of them, along scans), serial loops: the family that takes all."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.base import Family
from cugen.pieces.grid import AXES, fastest_first, lay_out
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import place, placement_refusals
from cugen.pieces.serial_scan import lower_walk, recognise
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables
from cugen.plan.scopes import Scope

_MOST_ALONG_Z = 64  # threads of a block, on every device
_UNROLL = 64  # loops over an array in registers must be unrolled, or the array lands in local memory


def refusals(request: Request) -> tuple[Refusal, ...]:
    """Only what a schedule or a placement asks for can stand against it."""
    found = list(placement_refusals(request))
    if any(size != 1 for _, size in request.schedule.thread):
        found.append(Refusal("computes one element in each thread", "schedule.thread"))
    if request.schedule.step:
        found.append(Refusal("stages nothing step by step", "schedule.step"))
    names = [index.name for index in fastest_first(request)]
    for name, size in request.schedule.block:
        key = f"schedule.block.{name}"
        if name not in names:
            found.append(Refusal(f"has blocks over output indices only, and {name} is none", key))
        elif size > 1 and names.index(name) >= len(AXES):
            found.append(Refusal(f"has threads along {', '.join(names[: len(AXES)])} only, not along {name}", key))
        elif size > _MOST_ALONG_Z and names.index(name) == 2:
            found.append(Refusal(f"{name} lies along z, where a block has at most {_MOST_ALONG_Z} threads", key))
    return (*found, *refuse_tunables(request, ()))


def build(request: Request) -> Kernel:
    lowering = new_lowering(request)
    walked = recognise(request)
    order = fastest_first(request)
    if walked is not None:
        order = tuple(index for index in order if index != walked.index)
    layout = lay_out(request, lowering, order, dict(request.schedule.block))
    staged, prologue = place(request, lowering, layout.block)
    lowering.arrays = {**lowering.arrays, **staged}
    lowering.unroll = _UNROLL if any(a.space == "register" for a in staged.values()) else 0
    scope = Scope()
    if walked is None:
        reason = "one thread computes one element of the output"
        lower_statements(request, lowering, scope)
    else:
        reason = f"one thread walks along {walked.index.name} with running values"
        lower_walk(walked, lowering, scope)
    # All threads help to stage, so those without an element leave only after it.
    parts = (("staging", prologue), ("indices", layout.nodes), ("elements", tuple(scope.nodes)))
    return replace(assemble(request, lowering, "direct", parts, layout.grid, layout.block), reasons=(reason,))


FAMILY = Family(
    "direct",
    rank=0,
    doc="one thread per output element, serial loops over reduction indices",
    refusals=refusals,
    build=build,
)
