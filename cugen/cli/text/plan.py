"""Text of a plan: the reasons of each kernel, its resources, and its memory accesses."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from cugen.abi.manifest import LaunchEntry
from cugen.cli.resources import Resources
from cugen.cli.text.layout import fit
from cugen.cli.text.terminal import paint, row
from cugen.emit.describe import placement_text
from cugen.emit.printer.nodes import NodePrinter
from cugen.families.base import Family
from cugen.kernel import Kernel
from cugen.kernel_price import PlanPrice
from cugen.machine import target
from cugen.machine.devices import unit_text
from cugen.machine.features import why_not_compiled
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.memory import Access
from cugen.plan.nodes import (
    AcquireSpinWait,
    AwaitCopies,
    Barrier,
    ClusterBarrier,
    Copy,
    Declare,
    Define,
    For,
    If,
    Load,
    NamedBarrier,
    Node,
    ReturnUnless,
)
from cugen.plan.request import Match, Refusals
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import accesses
from cugen.schedule.planner import answers, requests
from cugen.schedule.runs import group
from cugen.schedule.specific_targets import unused_target
from cugen.schedule.splitting.context import plan_context
from cugen.spec.model import Spec

_INDENT = "  "
Answers = tuple[tuple[Family, Match | Refusals], ...]


def plan_text(kernel: Kernel, resources: Resources, price: PlanPrice | None = None) -> str:
    """Text of all launches. `resources`: from a compiler, or the reason why there are none."""
    plan, spec = kernel.plan, kernel.spec
    title = f"{kernel.name}: {spec.doc}" if spec.doc else kernel.name
    purpose = why_not_compiled(target(spec.target))
    lines = [
        paint(fit(title, sys.stdout), "bold", sys.stdout),
        *row("target", f"{spec.target}, {purpose}" if purpose else spec.target),
    ]
    if unused := unused_target(spec):
        lines += row("", unused)
    if spec.params:
        values = ("dynamic" if p.value is None else str(p.value) for p in spec.params)
        lines += row("params", ", ".join(f"{p.name} = {v}" for p, v in zip(spec.params, values, strict=True)))
    if spec.tuned is not None:
        lines += row("schedule", f"{spec.tuned.text}; found by cugen {spec.tuned.version}")
    for declared in spec.arrays:
        if not declared.is_temporary:
            lines += row("array", _array_text(kernel, declared.name))
    for text in (*plan.algorithms, *plan.unused_precisions):
        lines += row("accumulate", text)
    for note in plan.notes:
        lines += row("temporary", note)
    for space in kernel.manifest.workspace:
        lines += row("workspace", f"{space.name}: {space.elements} elements of {space.dtype}")
    for upload in plan.uploads:
        lines += row("upload", f"{upload.bytes} bytes of {upload.argument} to __constant__ {upload.symbol}")
    if resources.compiler:
        lines += row("compiler", f"{resources.compiler} for {spec.target}")
    else:
        lines += row("compiler", f"none: {resources.reason}")
    if price is not None:
        lines += row("price", price.text)
    answers = _answers(spec)
    launches = kernel.manifest.launches
    for number, (made, launch) in enumerate(zip(plan.kernels, launches, strict=True), 1):
        lines += ["", paint(f"launch {number} of {len(launches)}: {made.name}", "bold", sys.stdout)]
        lines += _launch_lines(kernel, made, launch, answers[made.name], resources)
    return "\n".join(lines)


def _answers(spec: Spec) -> dict[str, Answers]:
    """Answers of every family, by kernel."""
    context = plan_context(spec)
    return {request.name: tuple(answers(request)) for request in requests(context, group(context))}


def _array_text(kernel: Kernel, name: str) -> str:
    declared = kernel.spec.array(name)
    argument = next((a for a in kernel.manifest.arguments if a.name == name), None)
    shape = getattr(argument, "shape", None)
    extents = "" if shape is None else f" [{', '.join(map(str, shape))}]"
    placement = placement_text(declared, kernel.plan)
    placed = f", {placement}" if placement else ""
    alignment = getattr(argument, "alignment", declared.dtype.bytes)
    aligned = f", aligned to {alignment} bytes" if alignment > declared.dtype.bytes else ""
    return f"{name}: {declared.role}, {declared.dtype.name}{extents}{placed}{aligned}"


def _launch_lines(
    kernel: Kernel, made: PlannedKernel, launch: LaunchEntry, answers: Answers, resources: Resources
) -> Iterator[str]:
    for statement in made.computes:
        yield from row("computes", " ".join(statement.split()))
    chosen = next(family for family, _ in answers if family.name == made.family)
    yield from row("family", f"{made.family}: {chosen.doc}")
    for reason in made.reasons:
        yield from row("", reason)
    if made.idle_unit is not None:
        yield from row("idle", f"{unit_text(made.idle_unit.peak)}: {made.idle_unit.reason}")
    for family, answer in answers:
        if family.name != made.family:
            refusals = answer.reasons if isinstance(answer, Refusals) else ()
            reasons = "; ".join(dict.fromkeys(refusal.reason for refusal in refusals))
            if not reasons and family.rank > chosen.rank:
                reasons = "needs more registers than a thread may have"
            yield from row("not", f"{family.name}: {reasons or f'fits too, and {made.family} comes before it'}")
    clusters = f" in clusters of {launch.cluster} along x" if launch.cluster > 1 else ""
    yield from row("grid", " × ".join(map(str, launch.grid)) + clusters)
    yield from row("block", f"{' × '.join(map(str, launch.block))} = {made.threads} threads")
    dynamic = f", {launch.dynamic_shared_bytes} of them dynamic" if launch.dynamic_shared_bytes else ""
    yield from row("shared", f"{launch.shared_bytes + launch.dynamic_shared_bytes} bytes{dynamic}")
    if compiled := resources.kernels.get(made.name):
        spills = compiled.spill_stores + compiled.spill_loads
        yield from row("registers", f"{compiled.registers} per thread, {f'{spills} bytes' if spills else 'no'} spills")
    printer = NodePrinter(dict(made.ranges), dict(kernel.plan.scalar_symbols), dict(kernel.plan.param_symbols))
    for part, nodes in made.parts:
        if nodes:
            yield from row("part", part)
            yield from (fit(f"{_INDENT * 3}{line}", sys.stdout) for line in _node_lines(dissolved(nodes), printer))


def _node_lines(nodes: tuple[Node, ...], printer: NodePrinter) -> Iterator[str]:
    """Loops, conditions, barriers and memory accesses, in source order."""
    for node in nodes:
        match node:
            case For(body=body):
                yield printer.loop(node)
                yield from _indented(body, printer)
            case If(condition=condition, then=then, orelse=orelse):
                yield f"if ({printer.condition(condition)})"
                yield from _indented(then, printer)
                if orelse:
                    yield "else"
                    yield from _indented(orelse, printer)
            case ReturnUnless(guard=guard):
                yield f"return if ({printer.negated(guard)})"
            case Barrier():
                yield "__syncthreads()"
            case NamedBarrier():
                yield printer.named_barrier(node)
            case ClusterBarrier(call=call):
                yield f"cluster.{call}()"
            case AwaitCopies(pending=pending):
                yield f"wait for all copies but the last {pending}" if pending else "wait for all copies"
            case AcquireSpinWait(access=access):
                yield f"wait for {_access_text(access, printer)}"
            case Define(index=index, then=None):
                yield printer.definition(index)
            case Declare():
                yield printer.declare(node)
            case Load(access=access, bounds_checked=True):
                yield f"{_access_text(access, printer)}, 0 outside"
            case Load(guard=guard) | Copy(guard=guard) if guard is not None and guard.terms:
                yield f"if ({printer.condition(guard)})"
                yield from (_INDENT + _access_text(access, printer) for access in accesses((node,)))
            case _:
                yield from (_access_text(access, printer) for access in accesses((node,)))


def _indented(nodes: tuple[Node, ...], printer: NodePrinter) -> Iterator[str]:
    return (_INDENT + line for line in _node_lines(nodes, printer))


def _access_text(access: Access, printer: NodePrinter) -> str:
    array = access.array
    wide = f" × {access.width}" if access.width > 1 else ""
    return f"{access.kind:<5} {printer.lvalue(access)}  ({array.space}, {array.dtype.name}{wide})"
