"""Splits statements that need several launches into steps with temporaries, such as split-K and its reduction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import is_

from cugen.families.base import Family
from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Group, Request, Single, Steps
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.rewrite.canonical.extents import with_canonical_extents
from cugen.rewrite.canonical.guarded_reads import with_boundaries_of_guarded_reads
from cugen.rewrite.grouping import completed_statements, inlined_statements, joined_statements
from cugen.rewrite.hoist_reductions import at_typical_sizes, elements, has_no_more_elements, hoisted
from cugen.rewrite.indices.components import with_components
from cugen.rewrite.indices.computed_subscripts import with_computed_subscripts
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.rewrite.stored.nested_scans import with_stored_scans
from cugen.rewrite.stored.unpacked_operands import with_unpacked_operand
from cugen.rewrite.stored_operands import MIN_MULTIPLY_ADDS
from cugen.rewrite.sums.contraction_order import OrderedSums, with_contraction_order
from cugen.rewrite.sums.row_terms import RowTerms, with_row_terms
from cugen.rewrite.sums.short_reductions import with_short_reductions, without_loops
from cugen.rewrite.transposed.solve_congruences import divides_index, with_solved_congruences
from cugen.schedule.aliases import with_current_names
from cugen.schedule.runs import group
from cugen.spec.expressions import Expr, Op, Read, Reduce, bound_indices, free_indices, walk
from cugen.spec.model import Array, Memory, Schedule, Spec, Statement
from cugen.spec.winograd.recognition import convolution_of

# Multiply-adds of sums of products in another order, relative to those as they are written (heuristics).
_MIN_WORK_RATIO = 2  # from which on a second launch pays off
_MAX_WORK_RATIO = 1.25  # up to which two launches of other families than the fallbacks are faster than one of these


def plan_context(spec: Spec) -> Context:
    """The context of a spec's launches: of its canonical form, after `split_statements`."""
    expressions = with_boundaries_of_guarded_reads(with_canonical_expressions(spec))
    canonical = with_canonical_extents(_with_solved_congruences(expressions))
    unrolled = with_components(_without_loops(with_short_reductions(canonical)))
    return make_context(split_statements(_with_computed_subscripts(unrolled), winograd_targets(spec)), spec)


def _with_solved_congruences(spec: Spec) -> Spec:
    """The spec with reductions over the solutions of congruences, where these are divided by the modulus, or a family
    other than the fallbacks takes the statement then or took none before; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        solved = with_solved_congruences(statement, spec)
        stepped = {name for name, _ in schedule_of(spec, (statement,)).step}
        if stepped - {index.name for index in bound_indices(solved.value)}:
            solved = statement
        is_better = solved is statement or divides_index(statement)
        if not is_better:
            is_better = _is_taken(solved, context) or not _is_taken(statement, context)
        statements.append(solved if is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _without_loops(spec: Spec) -> Spec:
    """The spec with short reductions unrolled where a family other than the fallbacks takes the statement only then,
    and none divides it into steps; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        unrolled = without_loops(statement, spec)
        is_better = unrolled and not _is_taken(statement, context) and _is_taken(unrolled, context)
        is_better = is_better and _split(_single(statement, context)) is None
        statements.append(unrolled if unrolled and is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _is_taken(statement: Statement, context: Context) -> bool:
    """Whether a family other than the fallbacks takes the statement."""
    request = _single(statement, context).request()
    return any(not family.fallback and family.takes(request) for family in families())


def split_statements(spec: Spec, winograd: frozenset[str] = frozenset()) -> Spec:
    """The spec with statements replaced by the steps into which a family splits them; the same object if none is.
    `winograd` are the arrays that Winograd's algorithm may compute.

    Temporaries are inlined after that. A step that its family then refuses is no step: the statement is split as it is
    with its temporaries inlined, or not at all."""
    spec = _with_unpacked_operands(with_hoisted_reductions(_with_row_terms(spec)))
    spec = _with_maps_in_epilogues(_with_inlined_operands(_with_split_dimensions(spec)))
    inlined: dict[Target, None] = {}
    whole: dict[Target, None] = {}
    while True:
        split, origins = _split_all(spec, whole, winograd)
        if not (refused := _refused_origins(split, origins)):
            return _with_stored_results(split, origins)
        values = {_target(s): s.value for s in inlined_statements(spec)}
        new = [s for s in spec.statements if _target(s) in refused and s.value != values.get(_target(s), s.value)]
        again = {_target(s): None for s in new if _target(s) not in inlined}
        inlined |= again
        whole |= {target: None for target in refused if target not in again}
        statements = (replace(s, value=values[_target(s)]) if _target(s) in again else s for s in spec.statements)
        spec = replace(spec, statements=tuple(statements))


def _with_stored_results(spec: Spec, origins: Mapping[str, Target]) -> Spec:
    """The spec with temporaries stored that no family but the fallbacks takes in place: those of which a split has left
    no reduction, and those that cost less to store than the statement that reads them takes. Others are recomputed
    where they are read."""
    split = {target for target, _ in origins.values() if spec.array(target).memory.space is None}
    values = {_target(s): s.value for s in inlined_statements(spec)}
    context, typical = make_context(spec), at_typical_sizes(spec)
    small = {s.target for s in spec.statements if has_no_more_elements(s.value, s.indices, typical)}
    stored: set[str] = set()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(_target(statement), statement.value))
        if whole.value == statement.value:
            continue
        read = {node.array for node in walk(statement.value) if isinstance(node, Read)}
        read &= split | small if _terms(statement, typical) >= MIN_MULTIPLY_ADDS else split
        inlined = {name for name in read if spec.array(name).is_temporary and spec.array(name).memory.space is None}
        if inlined and _is_taken(statement, context) and not _is_taken(whole, context):
            stored |= inlined
    arrays = (replace(a, memory=Memory("scratch")) if a.name in stored else a for a in spec.arrays)
    return replace(spec, arrays=tuple(arrays)) if stored else spec


def _with_computed_subscripts(spec: Spec) -> Spec:
    """The spec with computed subscripts in the launch that reads at them, where they are in its registers; the same
    object if there are none."""
    for written in map(_target, spec.statements):
        position = next((n for n, s in enumerate(spec.statements) if _target(s) == written), None)
        computed = None if position is None else with_computed_subscripts(spec, position)
        if computed is not None and not set(computed.targets) & set(group(make_context(computed.spec)).stored):
            spec = computed.spec
    return spec


def _with_unpacked_operands(spec: Spec) -> Spec:
    """The spec with operands of a few rows' sums unpacked first where a family other than the fallbacks takes the sums
    then; the same object if there are none."""
    values = {_target(s): s.value for s in inlined_statements(spec)}
    context, statements, arrays = make_context(spec), list[Statement](), list[Array]()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(_target(statement), statement.value))
        placed = _is_placed(statement, spec)
        steps = None if placed else with_unpacked_operand(_single(whole, context), is_specialised)
        statements += steps.statements if steps else (statement,)
        arrays += steps.temporaries if steps else ()
        context = make_context(replace(spec, arrays=(*spec.arrays, *arrays))) if steps else context
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *arrays)) if arrays else spec


def _terms(statement: Statement, spec: Spec) -> int:
    """The terms of all results of a statement, at sizes that are known."""
    return elements(tuple(dict.fromkeys((*statement.indices, *bound_indices(statement.value)))), spec) or 0


def _with_row_terms(spec: Spec) -> Spec:
    """The spec with reductions over values of rows as one term per row, where a launch that reduces the row takes that;
    the same object if there are none."""
    position = 0
    while position < len(spec.statements):
        placed = _is_placed(spec.statements[position], spec)
        terms = None if placed else with_row_terms(spec, position)
        if terms is not None and _is_of_rows(terms):
            spec, position = terms.spec, position + 1
        position += 1
    return spec


def _is_of_rows(terms: RowTerms) -> bool:
    """Whether a family computes the terms together with what their rows are reduced to."""
    context = make_context(terms.spec)
    grouping = group(context)
    (planned,) = (g for g in grouping.groups if any(s.target == terms.target for s in g.statements))
    request = Request("", planned, context, Schedule(), target(terms.spec.target), grouping.stored)
    return any(family.mixes and family.takes(request) for family in families())


def with_hoisted_reductions(spec: Spec) -> Spec:
    """The spec with nested scans in temporaries, and nested reductions, except where a family is faster with them in
    place, or takes short ones in place; the same object if none is hoisted."""
    return _hoisted(_with_ordered_sums(with_stored_scans(spec)))


def _hoisted(spec: Spec) -> Spec:
    return hoisted(spec, partial(_keeps_nested, spec), _needs_stages)


def _with_ordered_sums(spec: Spec) -> Spec:
    """The spec with sums of products nested, where each is hoisted then, and it takes less work, or no family but the
    fallbacks takes the statement as it is; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        ordered = None if _is_placed(statement, spec) else with_contraction_order(statement, context)
        if ordered is None or not _are_better(ordered, statement, context):
            statements.append(statement)
            continue
        stages = _hoisted(replace(spec, statements=(ordered.statement,))).statements
        statements.append(ordered.statement if not any(map(_has_nested, stages)) else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _are_better(ordered: OrderedSums, statement: Statement, context: Context) -> bool:
    if ordered.original_multiply_adds < MIN_MULTIPLY_ADDS:
        return False
    if ordered.multiply_adds * _MIN_WORK_RATIO <= ordered.original_multiply_adds:
        return True
    if ordered.multiply_adds > ordered.original_multiply_adds * _MAX_WORK_RATIO or _is_taken(statement, context):
        return False
    split = _split(_single(statement, context))
    return split is None or split[0].fallback


def _is_placed(statement: Statement, spec: Spec) -> bool:
    """Whether the statement has a schedule, or reads an array with a placement: that is for the launch in which it is
    read."""
    reads = (node for node in walk(statement.value) if isinstance(node, Read))
    if any(spec.array(read.array).memory.space not in (None, "global") for read in reads):
        return True
    return schedule_of(spec, (statement,)) != Schedule()


def _has_nested(statement: Statement) -> bool:
    """Whether a reduction is inside another."""
    reductions = (node for node in walk(statement.value) if isinstance(node, Reduce))
    return any(isinstance(node, Reduce) for reduction in reductions for node in walk(reduction.body))


def _needs_stages(statement: Statement, spec: Spec) -> bool:
    """Whether no family but the fallbacks takes the statement, and it asks for no placement."""
    return not _is_placed(statement, spec) and not _is_taken(statement, make_context(spec))


def _keeps_nested(spec: Spec, statement: Statement) -> bool:
    """Whether a family takes the statement with its nested reductions in place, and is faster with them there."""
    request = _single(statement, make_context(spec)).request()
    return any(family.keeps_nested is not None and family.keeps_nested(request) for family in families())


def _with_split_dimensions(spec: Spec) -> Spec:
    """The spec with dimensions and indices split where a family other than the fallbacks takes more statements then, or
    they have fewer divisions or sums over the parts of a subscript, and none is lost, nor a mixed group: other compound
    subscripts are left as they are."""
    inlined = replace(spec, statements=inlined_statements(spec))
    for candidate in (spec, inlined, replace(inlined, statements=completed_statements(inlined))):
        split = with_split_dimensions(candidate)
        if split.statements != candidate.statements:
            kept = {statement.target for statement in candidate.statements}
            before = Counter({t: n for t, n in _matched_targets(spec).items() if t in kept})
            after = _matched_targets(split)
            is_better = before != after or _division_count(split) < _division_count(candidate)
            is_better = is_better or _summed_parts(split) < _summed_parts(candidate)
            if is_better and before <= after and _mixed_count(spec) <= _mixed_count(split):
                return split
    return spec


def _matched_targets(spec: Spec) -> Counter[str]:
    """The targets of the statements that a family other than the fallbacks takes, with temporaries inlined."""
    context = make_context(spec)
    requests = [(s.target, _single(s, context).request()) for s in inlined_statements(spec)]
    return Counter(t for t, r in requests if any(not family.fallback and family.takes(r) for family in families()))


def _mixed_count(spec: Spec) -> int:
    """The statements in mixed groups, such as the norm of a row and its elements."""
    return sum(len(planned.statements) for planned in group(make_context(spec)).groups if planned.mixed)


def _division_count(spec: Spec) -> int:
    divisions = ("floordiv", "mod")
    return sum(isinstance(node, Op) and node.name in divisions for s in spec.statements for node in walk(s.value))


def _summed_parts(spec: Spec) -> int:
    """The subscripts in terms of reductions over several of their indices, as `x[p * Q + q]` in a sum over p and q."""
    reductions = (node for s in spec.statements for node in walk(s.value) if isinstance(node, Reduce))
    bodies = ((node.body, {index.name for index in node.indices}) for node in reductions)
    reads = ((read, names) for body, names in bodies for read in walk(body) if isinstance(read, Read))
    return sum(len(free_indices(sub) & names) > 1 for read, names in reads for sub in read.subscripts)


def _single(statement: Statement, context: Context) -> Single:
    spec = context.spec
    schedule = with_current_names(schedule_of(spec, (statement,)), families())
    return Single(statement, context, schedule, target(spec.target), is_specialised)


def _with_inlined_operands(spec: Spec) -> Spec:
    """The spec with temporaries inlined where a statement is split that no family takes with them inlined: grouping
    inlines them later, and how an operand is spelt must not decide how it is computed."""
    values = {_target(s): s.value for s in inlined_statements(spec)}
    if all(values.get(_target(s), s.value) == s.value for s in spec.statements):
        return spec
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(_target(statement), statement.value))
        single = _single(whole, context)
        is_split = whole != statement and not is_specialised(single.request()) and _split(single) is not None
        statements.append(whole if is_split else statement)
    return replace(spec, statements=tuple(statements))


def _with_maps_in_epilogues(spec: Spec) -> Spec:
    """The spec with maps inlined into the statement of a reduction that alone reads them, as a residual of a GEMM,
    where a family other than the fallbacks takes that, but not both statements."""
    context = make_context(spec)

    def is_better(statement: Statement, joined: Statement) -> bool:
        if any(isinstance(node, Reduce) for node in walk(statement.value)) or not _is_taken(joined, context):
            return False
        both = {statement.target, joined.target}
        planned = next((g for g in group(context).groups if both <= {s.target for s in g.statements}), None)
        if planned is None:
            return False
        request = Request("", planned, context, schedule_of(spec, planned.statements), target(spec.target), ())
        return all(family.fallback or not family.takes(request) for family in families())

    statements = joined_statements(spec, is_better)
    return spec if statements == spec.statements else replace(spec, statements=statements)


def winograd_targets(spec: Spec) -> frozenset[str]:
    """The arrays that Winograd's algorithm may compute: those of which each statement, as it is written, is a
    convolution that the reference knows. A rewritten statement might be one of other operands."""
    if not spec.precision.winograd:
        return frozenset()
    others = {s.target for s in spec.statements if isinstance(convolution_of(s, spec), str)}
    return frozenset(s.target for s in spec.statements) - others


Target = tuple[str, tuple[Expr, ...]]  # a statement, by what it writes


def _target(statement: Statement) -> Target:
    return statement.target, statement.subscripts


def _split_all(spec: Spec, whole: Mapping[Target, None], winograd: frozenset[str]) -> tuple[Spec, Mapping[str, Target]]:
    """The spec with all statements split, except those of `whole`, and the statement that each step comes from."""
    context = make_context(spec)
    statements: list[Statement] = []
    temporaries: list[Array] = []
    step_schedules: list[tuple[str, Schedule]] = []
    mixed = _mixed_statements(context)
    queue = [(statement, _target(statement)) for statement in spec.statements]
    unsplittable: dict[Target, None] = {}
    origins: dict[str, Target] = {}
    while queue:
        statement, origin = queue.pop(0)
        schedule = with_current_names(schedule_of(spec, (statement,)), families())
        is_whole = _target(statement) in unsplittable or _target(statement) in mixed or origin in whole
        single = replace(_single(statement, context), allows_winograd=statement.target in winograd)
        split = None if is_whole else _split(single)
        if split is None:
            statements.append(statement)
            continue
        family, steps = split
        temporaries += steps.temporaries
        step_schedules += _schedules(schedule, family, statement, steps)
        context = make_context(replace(spec, arrays=(*spec.arrays, *temporaries)))
        unsplittable.update({_target(step): None for step in steps.statements if step.target not in steps.again})
        origins.update({array.name: origin for array in steps.temporaries})
        queue = [*((step, origin) for step in steps.statements), *queue]
    if not temporaries:
        return spec, origins
    statements = _with_adjacent_steps(statements, {array.name: None for array in temporaries})
    schedules = (*spec.schedules, *step_schedules)
    arrays = (*spec.arrays, *temporaries)
    return replace(spec, statements=tuple(statements), arrays=arrays, schedules=schedules), origins


def _refused_origins(spec: Spec, origins: Mapping[str, Target]) -> dict[Target, None]:
    """The split statements with a step that its family doesn't take as it is planned."""
    if not origins:
        return {}
    context = make_context(spec)
    grouping = group(context)
    refused: dict[Target, None] = {}
    for planned in grouping.groups:
        steps = [origins[s.target] for s in planned.statements if s.target in origins]
        schedule = with_current_names(schedule_of(spec, planned.statements), families())
        request = Request("", planned, context, schedule, target(spec.target), grouping.stored)
        forced = next((family for family in families() if family.name == schedule.family), None)
        if steps and forced is not None and not forced.takes(request):
            refused.update(dict.fromkeys(steps))
    return refused


def _split(single: Single) -> tuple[Family, Steps] | None:
    """The first family that computes the statement by an algorithm that the spec allows, or that splits it into steps
    that it takes, and these."""
    for family in families():
        if family.algorithm is not None and (steps := family.algorithm(single)) is not None:
            return family, steps
    for family in families():
        if family.split is not None and single.schedule.family in (None, family.name):
            if _has_invalid_values(family, single.schedule):
                continue
            steps = family.split(single)
            if steps is not None and _takes(family, single, steps):
                return family, steps
    return None


def _has_invalid_values(family: Family, schedule: Schedule) -> bool:
    """Whether tunables of the family have values that it refuses."""
    chosen = dict(schedule.tunables)
    return any(tunable.name in chosen and not tunable.has(chosen[tunable.name]) for tunable in family.tunables)


def _takes(family: Family, single: Single, steps: Steps) -> bool:
    """Whether the family takes the steps that are left to it, such as their placements."""
    spec, temporaries = single.context.spec, tuple(array.name for array in steps.temporaries)
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    schedules = dict(_schedules(single.schedule, family, single.statement, steps))
    return all(
        family.takes(Request("", Group((step,)), context, schedules[step.target], single.target, temporaries))
        for step in steps.statements
        if step.target in temporaries and schedules[step.target].family == family.name
    )


def _mixed_statements(context: Context) -> dict[tuple[str, tuple[Expr, ...]], None]:
    """Targets and subscripts of the statements in mixed groups: they are not split."""
    if len(context.spec.statements) < 2:
        return {}
    groups = group(context).groups
    return {(s.target, s.subscripts): None for g in groups if g.mixed for s in g.statements}


def _schedules(
    schedule: Schedule, family: Family, statement: Statement, steps: Steps
) -> Iterator[tuple[str, Schedule]]:
    """The schedules of the steps: their family, unless it is open, and the user's tunables where they apply."""
    for array in steps.temporaries:
        tunables = schedule.tunables if array.name in steps.tuned else ()
        yield array.name, Schedule(None if array.name in steps.open else family.name, tunables=tunables)
    if steps.tuned:
        yield statement.target, replace(schedule, family=None if steps.opens_last else schedule.family, tunables=())


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
