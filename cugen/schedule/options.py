"""Options of a schedule that any family takes: they change a kernel that is made, or its launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cugen.machine.features import REGISTER_LIMITS
from cugen.machine.occupancy import max_registers
from cugen.machine.target import Target
from cugen.plan.kernel import Kernel
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.request import Refusal, Request
from cugen.plan.traversal.walking import walk_nodes
from cugen.rewrite.schedules import optional_schedule
from cugen.schedule.unrolling import Unrolling, loops_of
from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Options, Schedule
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.reading import shorten


def with_options(kernel: Kernel, request: Request, report: Reporter) -> Kernel:
    """The kernel as the options of its schedule have it; reports those that it can't have."""
    schedule = optional_schedule(request.context.original, request.group.statements)
    options = schedule.options
    if options == Options():
        return kernel
    unrolling = Unrolling(dict(options.unroll))
    kernel = replace(unrolling.apply(kernel), options=options)
    for name, reason in unrolling.refused.items():
        help = "leave the loop out of `unroll`, or choose another factor"
        _refuse(schedule, f"unroll.{name}", f"the loop over `{name}` can't be unrolled so: {reason}", help, report)
    for refusal in _refusals(kernel, request.target):
        _refuse(schedule, refusal.key, f"`{refusal.key}`: {refusal.reason}", "leave it out", report)
    if options.max_registers:
        kernel = replace(kernel, minimum_blocks=0)
    return kernel


def check_loops(kernels: Sequence[tuple[Kernel, Request]], report: Reporter) -> None:
    """Reports names in `unroll` that no loop has, of all kernels of a schedule."""
    loops: dict[Schedule, dict[str, None]] = {}
    for kernel, request in kernels:
        schedule = optional_schedule(request.context.original, request.group.statements)
        loops.setdefault(schedule, {}).update(dict.fromkeys(loops_of(kernel)))
    for schedule, known in loops.items():
        for name, _ in schedule.options.unroll:
            if name not in known:
                help = did_you_mean(name, tuple(known), what="loops") if known else "leave `unroll` out"
                _refuse(schedule, f"unroll.{name}", f"no loop of the source is over `{shorten(name)}`", help, report)


def _refuse(schedule: Schedule, key: str, message: str, help: str, report: Reporter) -> None:
    report.error("CG2111", message, schedule.span_of(key), key=f"schedule.{key}", help=help)


def _refusals(kernel: Kernel, target: Target) -> Iterator[Refusal]:
    """Options of the compiler and the launch that the kernel or the target can't have."""
    options = kernel.options
    if options.max_registers:
        limit = max_registers(target, kernel.threads)
        if reason := REGISTER_LIMITS.why_not(target):
            yield Refusal(reason, "max_registers")
        elif any(isinstance(node, Wgmma) for node in walk_nodes(kernel.body)):
            yield Refusal("the sums of wgmma stay in registers, whose number the kernel sets itself", "max_registers")
        elif options.max_registers > limit:
            reason = f"{target.name} has {limit} registers at most for a thread of a block of {kernel.threads}"
            yield Refusal(reason, "max_registers")
    if options.carveout is not None and not target.carveouts:
        yield Refusal(
            f"{target.name} has no L1 that is part of shared memory; sm_20 to sm_37 have, and sm_70 and newer",
            "carveout",
        )
    if options.bank_bytes and options.bank_bytes not in target.bank_modes:
        widths = " and ".join(map(str, target.bank_modes))
        yield Refusal(f"{target.name} has {widths} bytes for the width of a bank", "bank_bytes")
