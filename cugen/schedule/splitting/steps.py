"""Splits statements that need several launches into steps with temporaries, such as split-K and its reduction."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Group, Request
from cugen.rewrite.grouping import Grouping, inlined_statements
from cugen.rewrite.hoist_reductions import at_typical_sizes, has_no_more_elements
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.temporaries import MIN_MULTIPLY_ADDS
from cugen.schedule.aliases import with_current_names
from cugen.schedule.runs import group
from cugen.schedule.splitting.single_statements import (
    Target,
    is_placed,
    is_taken,
    schedules_of_steps,
    single_of,
    steps_of,
    target_of,
    term_count,
)
from cugen.schedule.splitting.taken_form import with_taken_form
from cugen.spec.expressions import Expr, Read, Reduce, Scan, walk
from cugen.spec.model import Array, Memory, Schedule, Spec, Statement
from cugen.spec.winograd.recognition import convolution_of


def split_statements(spec: Spec, winograd: frozenset[str] = frozenset()) -> Spec:
    """The spec with statements replaced by the steps into which a family splits them; the same object if none is.
    `winograd` are the arrays that Winograd's algorithm may compute.

    Temporaries are inlined after that. Statements of one launch are split along an index of the spec where their steps
    share launches only then. A step that its family refuses is no step: the statement is split as it is with its
    temporaries inlined, or not at all."""
    spec = with_taken_form(spec)
    inlined: dict[Target, None] = {}
    whole: dict[Target, None] = {}
    keeping: set[Target] = set()  # indices of the spec
    tried: set[Target] = set()
    while True:
        split, origins = _split_all(spec, whole, keeping, winograd)
        if not origins:
            return _with_stored_results(split, origins)
        context = make_context(split)
        grouping = group(context)
        refused = _refused_origins(context, grouping, origins)
        separated = _separated(spec, grouping, origins)
        if joined := (separated | {target for target, others in refused.items() if others}) - tried:
            keeping, tried = keeping | joined, tried | joined
            continue
        if in_vain := separated & keeping:
            keeping -= in_vain
            continue
        if not refused:
            return _with_stored_results(split, origins)
        values = {target_of(s): s.value for s in inlined_statements(spec)}
        new = [s for s in spec.statements if target_of(s) in refused and s.value != values.get(target_of(s), s.value)]
        again = {target_of(s): None for s in new if target_of(s) not in inlined}
        inlined |= again
        whole |= {target: None for target in refused if target not in again}
        statements = (replace(s, value=values[target_of(s)]) if target_of(s) in again else s for s in spec.statements)
        spec = replace(spec, statements=tuple(statements))


def _with_stored_results(spec: Spec, origins: Mapping[str, Target]) -> Spec:
    """The spec with temporaries stored that no family but the fallbacks takes in place: those of which a split has left
    no reduction, and those that cost less to store than the statement that reads them takes. Others are recomputed
    where they are read."""
    split = {target for target, _ in origins.values() if spec.array(target).memory.space is None}
    values = {target_of(s): s.value for s in inlined_statements(spec)}
    context, typical = make_context(spec), at_typical_sizes(spec)
    small, mixed = _small_targets(typical), _mixed_statements(context)
    stored: set[str] = set()
    for statement in spec.statements:
        if target_of(statement) in mixed:
            continue  # its launch has the temporaries
        whole = replace(statement, value=values.get(target_of(statement), statement.value))
        if whole.value == statement.value:
            continue
        read = {node.array for node in walk(statement.value) if isinstance(node, Read)}
        read &= split | small if term_count(statement, typical) >= MIN_MULTIPLY_ADDS else split
        inlined = {name for name in read if spec.array(name).is_temporary and spec.array(name).memory.space is None}
        if inlined and is_taken(statement, context) and not is_taken(whole, context):
            stored |= inlined
    arrays = (replace(a, memory=Memory("scratch")) if a.name in stored else a for a in spec.arrays)
    return replace(spec, arrays=tuple(arrays)) if stored else spec


def _small_targets(spec: Spec) -> set[str]:
    """The targets with no more elements than an array in memory that they are computed of. A temporary without
    reductions that has more is recomputed, so it counts as none: of `d[i, j] = x[i] - z[j]` a square is as large."""
    small: set[str] = set()
    recomputed: set[str] = set()
    for statement in spec.statements:
        if has_no_more_elements(statement.value, statement.indices, spec, recomputed):
            small.add(statement.target)
        elif spec.array(statement.target).is_temporary:
            is_reduced = any(isinstance(node, Reduce | Scan) for node in walk(statement.value))
            recomputed |= set() if is_reduced else {statement.target}
    return small


def winograd_targets(spec: Spec) -> frozenset[str]:
    """The arrays that Winograd's algorithm may compute: those of which each statement, as it is written, is a
    convolution that the reference knows. A rewritten statement might be one of other operands."""
    if not spec.precision.winograd:
        return frozenset()
    others = {s.target for s in spec.statements if isinstance(convolution_of(s, spec), str)}
    return frozenset(s.target for s in spec.statements) - others


def _split_all(
    spec: Spec, whole: Mapping[Target, None], keeping: Set[Target], winograd: frozenset[str]
) -> tuple[Spec, Mapping[str, Target]]:
    """The spec with all statements split, except those of `whole`, and the statement that each step comes from; those
    of `keeping` along an index of the spec."""
    context = make_context(spec)
    statements: list[Statement] = []
    temporaries: list[Array] = []
    step_schedules: list[tuple[str, Schedule]] = []
    mixed = _mixed_statements(context)
    queue = [(statement, target_of(statement)) for statement in spec.statements]
    unsplittable: dict[Target, None] = {}
    origins: dict[str, Target] = {}
    while queue:
        statement, origin = queue.pop(0)
        schedule = with_current_names(schedule_of(spec, (statement,)), families())
        is_whole = target_of(statement) in unsplittable or target_of(statement) in mixed or origin in whole
        single = replace(
            single_of(statement, context),
            allows_winograd=statement.target in winograd,
            keeps_indices=origin in keeping,
        )
        split = None if is_whole else steps_of(single)
        if split is None:
            statements.append(statement)
            continue
        family, steps = split
        temporaries += steps.temporaries
        step_schedules += schedules_of_steps(schedule, family, statement, steps)
        context = make_context(replace(spec, arrays=(*spec.arrays, *temporaries)))
        unsplittable.update({target_of(step): None for step in steps.statements if step.target not in steps.again})
        origins.update({array.name: origin for array in steps.temporaries})
        queue = [*((step, origin) for step in steps.statements), *queue]
    if not temporaries:
        return spec, origins
    statements = _with_adjacent_steps(statements, {array.name: None for array in temporaries})
    schedules = (*spec.schedules, *step_schedules)
    arrays = (*spec.arrays, *temporaries)
    return replace(spec, statements=tuple(statements), arrays=arrays, schedules=schedules), origins


def _refused_origins(context: Context, grouping: Grouping, origins: Mapping[str, Target]) -> dict[Target, bool]:
    """The split statements with a step that its family doesn't take as it is planned; whether its launch has steps of
    others."""
    spec = context.spec
    refused: dict[Target, bool] = {}
    for planned in grouping.groups:
        steps = [origins[s.target] for s in planned.statements if s.target in origins]
        schedule = with_current_names(schedule_of(spec, planned.statements), families())
        request = Request("", planned, context, schedule, target(spec.target), grouping.stored)
        forced = next((family for family in families() if family.name == schedule.family), None)
        if steps and forced is not None and not forced.takes(request):
            refused.update(dict.fromkeys(steps, len(set(steps)) > 1))
    return refused


def _separated(spec: Spec, grouping: Grouping, origins: Mapping[str, Target]) -> set[Target]:
    """Split statements that one launch computes unsplit, and whose steps don't share their launches: they would read
    again what they have in common."""
    launches: dict[Target, set[int]] = {}
    for number, planned in enumerate(grouping.groups):
        for statement in planned.statements:
            if statement.target in origins:
                launches.setdefault(origins[statement.target], set()).add(number)
    if len(launches) < 2:
        return set()
    separated: set[Target] = set()
    for planned in group(make_context(spec)).groups:
        split = [target for target in map(target_of, planned.statements) if target in launches]
        if split and len(set.union(*(launches[t] for t in split))) > max(len(launches[t]) for t in split):
            separated.update(split)
    return separated


def _mixed_statements(context: Context) -> dict[tuple[str, tuple[Expr, ...]], None]:
    """Targets and subscripts of the statements in mixed groups, and in those that alone honour placements: they are not
    split."""
    if len(context.spec.statements) < 2:
        return {}
    grouping = group(context)
    whole = (g for g in grouping.groups if g.mixed or _is_placed_together(g, grouping.stored, context))
    return {(s.target, s.subscripts): None for g in whole for s in g.statements}


def _is_placed_together(joined: Group, stored: tuple[str, ...], context: Context) -> bool:
    """Whether a family other than the general ones takes statements that read placed arrays together, and not all of
    them alone."""
    spec = context.spec
    if len(joined.statements) < 2 or not any(is_placed(statement, spec) for statement in joined.statements):
        return False
    schedule = with_current_names(schedule_of(spec, joined.statements), families())
    request = Request("", joined, context, schedule, target(spec.target), stored)
    alone = (single_of(statement, context).request() for statement in joined.statements)
    return is_specialised(request) and not all(map(is_specialised, alone))


def _with_adjacent_steps(statements: list[Statement], steps: Mapping[str, None]) -> list[Statement]:
    """The statements, each step moved to directly after an earlier one with the same extents where dependences allow.

    Adjacent steps can be fused into one launch."""
    ordered: list[Statement] = []
    for statement in statements:
        position = len(ordered)
        if statement.target in steps:
            reads = {node.array for node in walk(statement.value) if isinstance(node, Read)}
            extents = [index.extent for index in statement.indices]
            for n in reversed(range(len(ordered))):
                earlier = ordered[n]
                if earlier.target in steps and [index.extent for index in earlier.indices] == extents:
                    position = n + 1
                if earlier.target in reads:
                    break
            while position < len(ordered) and [index.extent for index in ordered[position].indices] == extents:
                position += 1
        ordered.insert(position, statement)
    return ordered
