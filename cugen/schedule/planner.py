"""Chooses a family for each group of statements and builds the plan, or reports why no family fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.registry import families
from cugen.machine import target
from cugen.machine.features import READ_ONLY_LOADS, TEXTURE_OBJECTS, TYPES
from cugen.machine.occupancy import max_registers
from cugen.machine.target import TEXTURE_PITCH_ALIGNMENT
from cugen.plan.alignment import divisor, unaligned
from cugen.plan.context import Context
from cugen.plan.features import types_of, why_unsupported, wide_fetches
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.pipeline_nodes import SetMaxRegisters
from cugen.plan.registers.estimate import Estimate
from cugen.plan.request import Match, Refusal, Refusals, Request
from cugen.plan.symbols import bounds
from cugen.plan.textures.limits import limits
from cugen.plan.traversal.walking import walk_nodes
from cugen.rewrite.grouping import Grouping
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.schedule.cache_operators import check_cache_operators, uncached_accesses
from cugen.schedule.constant_tables import candidates, uniformly_read, with_constant_tables
from cugen.schedule.idle_units import with_idle_unit
from cugen.schedule.options import check_loops, with_options
from cugen.schedule.register_arrays import moving_subscripts
from cugen.schedule.runs import group
from cugen.schedule.splitting.context import plan_context
from cugen.schedule.unused_precisions import algorithms, unused_precisions
from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Read, Reduce, Scan, Span, free_indices, walk
from cugen.spec.model import Memory, Schedule, Spec, Statement
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.keys import SCHEDULE_KEYS
from cugen.spec.parse.reading import shorten


def make_plan(spec: Spec) -> Plan:
    """The launches of a spec; SpecError, with every family's reasons, if no family can honour it."""
    report = Reporter(spec.path, spec.text)
    _check_features(spec, report)
    check_cache_operators(spec, target(spec.target), report)
    report.raise_if_failed()
    plan = _planned(plan_context(spec), report)
    if not (tables := candidates(plan)):
        return plan
    constant = _planned(with_constant_tables(plan_context(spec), tables), report)
    uniform = uniformly_read(constant, tables)
    if uniform == tables:
        return constant
    return _planned(with_constant_tables(plan_context(spec), uniform), report) if uniform else plan


def _planned(context: Context, report: Reporter) -> Plan:
    _check_textures(context, report)
    report.raise_if_failed()
    grouping = group(context)
    planned: list[tuple[Kernel, Request]] = []
    for request in requests(context, grouping):
        kernel = _choose(request, report)
        if kernel is not None:
            _check_limits(request, kernel, report)
            kernel = with_options(with_idle_unit(kernel, request), request, report)
            planned.append((kernel, request))
    kernels = [kernel for kernel, _ in planned]
    check_loops(planned, report)
    report.raise_if_failed()
    return Plan(
        context,
        tuple(kernels),
        (
            *(context.arrays[name] for name in grouping.stored),
            *(array for kernel in kernels for array in kernel.workspace),
        ),
        context.constants,
        context.uploads,
        tuple(context.scalar_symbols.items()),
        tuple((name, expr.name) for name, expr in context.symbols.items()),
        notes=grouping.notes,
        unused_precisions=unused_precisions(context, [s for g in grouping.groups for s in g.statements], kernels),
        algorithms=algorithms(context),
    )


def requests(context: Context, grouping: Grouping) -> Iterator[Request]:
    """One request for each kernel of the plan; allocates the kernels' names in `context`."""
    spec = context.spec
    for planned in grouping.groups:
        name, statements = spec.kernel, planned.statements
        if len(grouping.groups) > 1:
            name = context.names.allocate(f"{spec.kernel}_{_named_after(statements, context, grouping)}")
        schedule = with_current_names(schedule_of(spec, statements), families())
        yield Request(name, planned, context, schedule, target(spec.target), grouping.stored)


def _named_after(statements: tuple[Statement, ...], context: Context, grouping: Grouping) -> str:
    """The array that a kernel is named after: what its first statement computes, unless that is a temporary in
    registers which the planner made; then the first that is stored."""
    declared = {array.name for array in context.original.arrays}
    targets = [statement.target for statement in statements]
    stored = (name for name in targets if name in declared or name in grouping.stored)
    return targets[0] if targets[0] in declared else next(stored, targets[0])


def answers(request: Request) -> Iterator[tuple[Family, Match | Refusals]]:
    """Each family with its answer, by rank."""
    return ((family, family.answer(request)) for family in families())


def _choose(request: Request, report: Reporter) -> Kernel | None:
    """The kernel of the first match by rank, or of the family that the schedule names.

    The family of a step is a preference: nobody asked for it."""
    if not _check_tunables(request, report):
        return None
    if request.schedule.family is not None and not _is_step(request):
        return _forced(request, request.schedule.family, report)
    preferred = [(family, request) for family in families() if family.name == request.schedule.family]
    request = replace(request, schedule=replace(request.schedule, family=None))
    unfit: list[Kernel] = []
    reserved = _is_reserved(request)
    for family, attempt in (*preferred, *((family, request) for family in families())):
        if not family.may_match(attempt) or isinstance(match := family.answer(attempt), Refusals):
            continue
        if family.needs is None and reserved:
            break
        if (fitting := _fitting(match, attempt)) is not None:
            return fitting
        if isinstance(first := _checked(match.kernel(), attempt), Kernel):
            unfit.append(first)
    if unfit:
        return unfit[0]
    refused = [
        (family, refusal)
        for family in families()
        if isinstance(answer := _built(family, request), Refusals)
        for refusal in answer.reasons
    ]
    keys = [refusal.key for _, refusal in refused if refusal.key]
    key = keys[-1] if keys else ""
    report.error(
        "CG2103",
        "no family can honour what the spec asks for",
        _span(request, key),
        key=key,
        notes=_notes(request, refused),
        help="leave the key out, so that the generator chooses, or set what one of the families supports",
    )
    return None


def _notes(request: Request, refused: list[tuple[Family, Refusal]]) -> tuple[str, ...]:
    """The reasons of families that take the statements under another schedule or placement, or on another target, and
    the names of others; where there are none, all reasons."""
    applicable = {family.name for family in families() if _applies(family, request)}
    lacks = f"{request.target.name} has no "
    applicable |= {family.name for family, refusal in refused if refusal.reason.startswith(lacks)}
    if not applicable:
        return tuple(dict.fromkeys(f"{family.name}: {refusal.reason}" for family, refusal in refused))
    named = [(family.name, refusal.reason) for family, refusal in refused if family.name in applicable]
    reasons = dict.fromkeys(f"{name}: {reason}" for name, reason in named)
    others = dict.fromkeys(family.name for family, _ in refused if family.name not in applicable)
    return (*reasons, *([f"other families don't take these statements: {', '.join(others)}"] if others else []))


def _applies(family: Family, request: Request) -> bool:
    """Whether a family refuses the request for keys of the spec alone."""
    if not family.may_match(request):
        return False
    answer = family.answer(replace(request, schedule=Schedule()))
    return isinstance(answer, Match) or all(refusal.key for refusal in answer.reasons)


def _is_reserved(request: Request) -> bool:
    """Whether a family that is made for the reduction or scan takes the statements but for tiles in shared memory. They
    aren't left to another, which would honour the tiles at a multiple of the traffic; unless each element is of one
    result, and any family reads it once."""
    spec = request.context.spec
    if _has_single_results(request):
        return False
    if not any(array.memory.space == "shared" and array.role != "temporary" for array in request.touched()):
        return False
    arrays = tuple(replace(a, memory=Memory()) if a.memory.space == "shared" else a for a in spec.arrays)
    unplaced = replace(request, context=replace(request.context, spec=replace(spec, arrays=arrays)))
    first = next((family for family in families() if family.takes(unplaced)), None)
    return first is not None and first.needs is not None


def _has_single_results(request: Request) -> bool:
    """Whether each element that a reduction reads counts for a single result."""
    outputs = {index.name for statement in request.group.statements for index in statement.indices}
    reductions = (n for s in request.group.statements for n in walk(s.value) if isinstance(n, Reduce | Scan))
    reads = (read for reduction in reductions for read in walk(reduction) if isinstance(read, Read))
    return all(outputs <= free_indices(read) for read in reads)


def _is_step(request: Request) -> bool:
    """Whether the group computes a temporary into which the planner split a statement."""
    declared = {array.name for array in request.context.original.arrays}
    return any(statement.target not in declared for statement in request.group.statements)


def _built(family: Family, request: Request) -> Kernel | Refusals:
    """The family's kernel, with what `_checked` proves of it, or why there is none."""
    answer = family.answer(request)
    if isinstance(answer, Refusals):
        return answer
    return _checked(answer.kernel(), request)


def _checked(kernel: Kernel, request: Request) -> Kernel | Refusals:
    """The kernel if the target has what it uses, textures are read by single fetches, accesses have the cache operators
    that the spec asks for, every vector access is proved to be aligned, and the arrays that the spec puts in registers
    have static subscripts."""
    if reasons := why_unsupported(kernel, request.target):
        return Refusals(tuple(map(Refusal, reasons)))
    if wide := wide_fetches(kernel.body, request.context.arrays):
        return Refusals(tuple(Refusal(reason, f"arrays.{name}.memory") for name, reason in wide.items()))
    if uncached := tuple(uncached_accesses(kernel)):
        return Refusals(uncached)
    if moving := moving_subscripts(kernel, request):
        return Refusals(moving)
    if not (accesses := unaligned(kernel.body, request.context)):
        return kernel
    array = accesses[0].array.name
    return Refusals((Refusal(f"moves {accesses[0].width} elements of {array} at once, which are not always aligned"),))


def _fitting(match: Match, request: Request) -> Kernel | None:
    """The kernel of a match, or of a smaller one, whose registers and shared memory fit; None if those of all don't, or
    one fails a check."""
    smaller: Match | None = match
    while smaller is not None:
        kernel = _checked(smaller.kernel(), request)
        if isinstance(kernel, Refusals):
            return None
        if _is_scheduled(request) or (_fits_shared(kernel, request) and fits_registers(kernel, request)):
            return kernel
        smaller = smaller.smaller() if smaller.smaller else None
    return None


def _is_scheduled(request: Request) -> bool:
    """Whether the user, or a lock file, chose sizes: these are kept."""
    schedule = request.schedule
    return bool(schedule.block or schedule.thread or schedule.step or schedule.tunables)


def _fits_shared(kernel: Kernel, request: Request) -> bool:
    """Whether a block of the target may have the kernel's shared memory."""
    limits, static, dynamic = request.target, kernel.shared_bytes, kernel.dynamic_shared_bytes
    return static <= limits.shared_per_block and static + dynamic <= limits.shared_opt_in


def fits_registers(kernel: Kernel, request: Request) -> bool:
    """Whether the estimated registers of a thread are as few as the launch allows, and no array in them is indexed at
    run time; else the compiler would keep some of them in local memory."""
    launched = max_registers(request.target, kernel.threads, max(kernel.minimum_blocks, 1))
    limit = max((n.count for n in walk_nodes(kernel.body) if isinstance(n, SetMaxRegisters)), default=launched)
    estimate = Estimate(kernel, request.context)
    return estimate.registers() - kernel.deferrable_registers <= limit and not estimate.dynamic


def _forced(request: Request, name: str, report: Reporter) -> Kernel | None:
    key, span = "schedule.family", request.schedule.span_of("family")
    family = next((family for family in families() if family.name == name), None)
    if family is None:
        cure = did_you_mean(name, [family.name for family in families()], what="families")
        message = f"there is no family `{shorten(name)}`"
        report.error("CG2101", message, span, key=key, label="unknown family", help=cure)
        return None
    answer = _built(family, request)
    if isinstance(answer, Kernel):
        return answer
    candidates = (known for known in families() if known.may_match(request))
    fitting = [known.name for known in candidates if isinstance(_built(known, request), Kernel)]
    if fitting:
        cure = f"leave `family` out, or take one that fits: {', '.join(fitting)}"
    elif tunable := _refused_tunable(request, answer.reasons):
        key, span = f"schedule.{tunable}", request.schedule.span_of(tunable)
        cure = f"leave `{tunable}` out, or set a value that the family supports"
    else:
        cure = "leave `family` out; no family fits the spec as it is"
    notes = tuple(f"{name}: {refusal.reason}" for refusal in answer.reasons)
    report.error("CG2102", f"the family {name} can't do this", span, key=key, notes=notes, help=cure)
    return None


def _refused_tunable(request: Request, reasons: tuple[Refusal, ...]) -> str:
    """The tunable that all refusals are about; empty if there is none."""
    keys = {refusal.key for refusal in reasons}
    names = [name for name, _ in request.schedule.tunables if keys == {f"schedule.{name}"}]
    return names[0] if names else ""


def _check_tunables(request: Request, report: Reporter) -> bool:
    """Whether each tunable of the schedule exists in some family, or in the one that it names."""
    forced = request.schedule.family
    candidates = [family for family in families() if family.name == forced] or families()
    known = list(dict.fromkeys(tunable.name for family in candidates for tunable in family.tunables))
    unknown = [name for name, _ in request.schedule.tunables if name not in known]
    for name in unknown:
        subject = f"the family `{forced}` has no" if len(candidates) == 1 else "no family has a"
        report.error(
            "CG2104",
            f"{subject} tunable `{shorten(name)}`",
            request.schedule.span_of(name),
            key=f"schedule.{shorten(name)}",
            label="unknown tunable",
            help=did_you_mean(name, (*SCHEDULE_KEYS, *known), what="keys"),
        )
    return not unknown


def _span(request: Request, key: str) -> Span:
    """The source location of a key: of a placement its array's, of a schedule key its own."""
    parts = key.split(".")
    spec = request.context.spec
    if parts[0] == "arrays" and len(parts) > 1:
        array = spec.array(parts[1])
        return array.memory.span if array.memory.span.line else array.span
    if parts[0] == "schedule":
        span = request.schedule.span_of(".".join(parts[1:]))
        if span.line:
            return span
    return request.group.statements[0].span


def _check_features(spec: Spec, report: Reporter) -> None:
    """Reports the types and memory spaces of a spec that its target lacks."""
    row = target(spec.target)
    declared = [array for array in spec.arrays if not array.is_temporary]
    # Baked values are stored in their compute type.
    typed = [(n.name, n.dtype if n.values is None else n.dtype.compute, n.span) for n in declared]
    typed += [(scalar.name, scalar.dtype, scalar.span) for scalar in spec.scalars]
    typed += [(s.text, dtype, s.span) for s in spec.statements for dtype in dict.fromkeys(types_of(s.value))]
    seen: set[str] = set()
    for name, dtype, span in typed:
        feature = TYPES.get(dtype.name)
        if feature is not None and feature.name not in seen and (reason := feature.why_not(row)):
            seen.add(feature.name)
            report.error(
                "CG3104",
                f"`{shorten(name)}` needs {dtype.name}: {reason}",
                span,
                help=f"choose another type, or a target from {feature.first} on",
            )
    spaces = {"readonly": ("in the read-only cache", READ_ONLY_LOADS), "texture": ("a texture", TEXTURE_OBJECTS)}
    for array in declared:
        placed, feature = spaces.get(array.memory.space or "", ("", None))
        if feature is not None and (reason := feature.why_not(row)):
            report.error(
                "CG3104",
                f"`{array.name}` is {placed}: {reason}",
                array.memory.span,
                key=f"arrays.{array.name}.memory",
                help="leave `memory` out: the array is then read from global memory",
            )


def _check_textures(context: Context, report: Reporter) -> None:
    """Reports textures that are always larger than the target allows, and pitches that may not be aligned."""
    row = target(context.spec.target)
    for texture in context.textures:
        declared, array = context.spec.array(texture.argument), context.arrays[texture.argument]
        key = f"arrays.{declared.name}.memory"
        for limit in limits(context.texture_sizes(texture), row):
            value = bounds(limit.value, dict(context.ranges))[0]
            if value > limit.maximum:
                report.error(
                    "CG3105",
                    f"`{declared.name}` has {limit.text.format(value)}; a texture of {row.name} has at most"
                    f" {limit.maximum}",
                    declared.memory.span,
                    key=key,
                    help="use `memory: readonly`, or leave `memory` out",
                )
        if array.texture_2d is None:
            continue
        *_, pitch = context.texture_sizes(texture)
        if divisor(pitch.expand(), context) % TEXTURE_PITCH_ALIGNMENT:
            known = context.static(pitch)
            rows = "rows" if known is None else f"rows of {known} bytes"
            report.error(
                "CG3106",
                f"`{declared.name}` has {rows}; the pitch of a 2-D texture must be a multiple of"
                f" {TEXTURE_PITCH_ALIGNMENT} bytes",
                declared.memory.span,
                key=key,
                label=""
                if known is None
                else f"{known} % {TEXTURE_PITCH_ALIGNMENT} = {known % TEXTURE_PITCH_ALIGNMENT}",
                help=f"add `pitch: {{align: {TEXTURE_PITCH_ALIGNMENT}}}` to the array, or remove `dims`",
            )


def _check_limits(request: Request, kernel: Kernel, report: Reporter) -> None:
    limits = request.target
    if kernel.threads > limits.threads_per_block:
        report.error(
            "CG3101",
            f"a block of {kernel.threads} threads; {limits.name} allows {limits.threads_per_block}",
            _span(request, "schedule.block"),
            key="schedule.block",
            help="make the block smaller, or give each thread more elements with `thread`",
        )
    shared, dynamic = kernel.shared_bytes, kernel.dynamic_shared_bytes
    if not _fits_shared(kernel, request):
        allowed = limits.shared_opt_in if dynamic else limits.shared_per_block
        report.error(
            "CG3102",
            f"the tiles take {shared + dynamic} bytes of shared memory; {limits.name} allows {allowed} a block",
            _span(request, "schedule.block"),
            key="schedule.block",
            notes=(f"with `dynamic: true` a block may have {limits.shared_opt_in} bytes",) if not dynamic else (),
            help="make the tiles smaller: block, step, pad or stages",
        )
    for axis, extent, allowed in zip("xyz", kernel.grid, limits.grid, strict=True):
        blocks = bounds(extent, request.context.ranges)[0]  # with dynamic sizes the launcher checks the others
        if blocks > allowed:
            report.error(
                "CG3103",
                f"a grid of {blocks} blocks along {axis}; {limits.name} allows {allowed}",
                _span(request, "schedule.block"),
                key="schedule.block",
                help="make the block larger, or give each thread more elements with `thread`",
            )
