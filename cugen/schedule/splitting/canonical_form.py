"""The canonical form of a spec, so that how it is spelt decides nothing about how it is planned: that of its
expressions, and of several forms the one that families other than the fallbacks take most of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from operator import is_

from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Request
from cugen.rewrite.canonical.chosen_elements import with_chosen_elements
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.rewrite.canonical.extents import with_canonical_extents
from cugen.rewrite.canonical.guarded_reads import with_boundaries_of_guarded_reads
from cugen.rewrite.canonical.prefix_reductions import with_prefix_reductions
from cugen.rewrite.grouping import completed_statements, inlined_statements, is_single_temporary, joined_statements
from cugen.rewrite.hoist_reductions import hoisted
from cugen.rewrite.indices.components import with_components
from cugen.rewrite.indices.computed_subscripts import with_computed_subscripts
from cugen.rewrite.indices.gathered_rows import with_gathered_rows
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.rewrite.stored.gathered_matrices import with_all_matrices
from cugen.rewrite.stored.nested_scans import with_stored_scans
from cugen.rewrite.stored.separable_windows import with_separable_windows
from cugen.rewrite.stored.unpacked_operands import with_unpacked_operand
from cugen.rewrite.stored_operands import MIN_MULTIPLY_ADDS
from cugen.rewrite.sums.contraction_order import OrderedSums, multiply_adds, with_contraction_order
from cugen.rewrite.sums.distributed_sums import with_distributed_sums
from cugen.rewrite.sums.grouped_sums import with_grouped_sums
from cugen.rewrite.sums.row_terms import RowTerms, with_row_terms
from cugen.rewrite.sums.short_reductions import with_short_reductions, without_loops
from cugen.rewrite.sums.short_rows import with_short_rows
from cugen.rewrite.sums.short_scans import with_short_scan
from cugen.rewrite.transposed.solve_congruences import divides_index, with_solved_congruences
from cugen.schedule.runs import group
from cugen.schedule.splitting.prices import pays_for_all_matrices, seconds
from cugen.schedule.splitting.single_statements import (
    is_placed,
    is_taken,
    single_of,
    steps_of,
    target_of,
)
from cugen.spec.expressions import Op, Read, Reduce, bound_indices, free_indices, walk
from cugen.spec.model import Array, Memory, Schedule, Spec, Statement

# Multiply-adds of sums of products in another order, relative to those as they are written (heuristics).
_MIN_WORK_RATIO = 2  # from which on a second launch pays off
_MAX_WORK_RATIO = 1.25  # up to which two launches of other families than the fallbacks are faster than one of these


def with_canonical_form(spec: Spec) -> Spec:
    """The spec with canonical expressions, extents and subscripts; the same object if it has them."""
    chosen = with_chosen_elements(with_canonical_expressions(spec))
    expressions = with_boundaries_of_guarded_reads(with_gathered_rows(chosen))
    canonical = with_canonical_extents(_with_solved_congruences(expressions))
    short = _with_prefix_reductions(_without_loops(with_short_reductions(canonical)))
    return _with_short_rows(_with_computed_subscripts(with_components(_with_short_scans(short))))


def with_taken_form(spec: Spec) -> Spec:
    """The spec in the form that families other than the fallbacks take most of, before statements are split: with
    nested reductions and operands in temporaries of their own, or without these."""
    products = _with_grouped_sums(_with_products_of_all_matrices(spec))
    windows = with_separable_windows(_with_row_terms(products), is_placed)
    separate = _without_stored_loops(_with_unpacked_operands(with_hoisted_reductions(windows)))
    return _with_inlined_runs(_with_maps_in_epilogues(_with_inlined_operands(_with_split_dimensions(separate))))


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
            is_better = is_taken(solved, context) or not is_taken(statement, context)
        statements.append(solved if is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _without_loops(spec: Spec) -> Spec:
    """The spec with short reductions unrolled where a family other than the fallbacks takes the statement only then, or
    prefers it so, and none divides it into steps; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        unrolled = without_loops(statement, spec)
        is_better = unrolled and _is_better_unrolled(unrolled, statement, context)
        statements.append(unrolled if unrolled and is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _without_stored_loops(spec: Spec) -> Spec:
    """The same for reductions whose results are stored, hoisted ones too: temporaries of them stay in memory."""
    context, statements, stored = make_context(spec), list[Statement](), set[str]()
    written = Counter(statement.target for statement in spec.statements)
    for statement in spec.statements:
        array = spec.array(statement.target)
        is_stored = not array.is_temporary or is_single_temporary(statement, spec, written)
        unrolled = without_loops(statement, spec, is_stored=True) if is_stored else None
        is_better = unrolled and _is_taken_only(unrolled, statement, context)
        statements.append(unrolled if unrolled and is_better else statement)
        if is_better and array.is_temporary:
            stored.add(array.name)
    arrays = (replace(a, memory=Memory("scratch")) if a.name in stored else a for a in spec.arrays)
    is_same = all(map(is_, statements, spec.statements))
    return spec if is_same else replace(spec, statements=tuple(statements), arrays=tuple(arrays))


def _is_better_unrolled(unrolled: Statement, statement: Statement, context: Context) -> bool:
    if not is_taken(unrolled, context):
        return False
    request = single_of(statement, context).request()
    first = next((family for family in families() if family.takes(request)), None)
    prefers = first is not None and first.prefers_terms is not None and first.prefers_terms(request)
    return prefers or _is_taken_only(unrolled, statement, context)


def _with_products_of_all_matrices(spec: Spec) -> Spec:
    """The spec with products of all matrices that rows gather, where a family other than the fallbacks takes these, and
    they take less time; the same object if there are none."""
    arrays, statements = spec.arrays, list[Statement]()
    for statement in spec.statements:
        here = replace(spec, arrays=arrays)
        steps = None if is_placed(statement, spec) else with_all_matrices(statement, here)
        if steps is not None and pays_for_all_matrices(statement, steps, here):
            staged = (*arrays, *(stored.array for stored in steps.stored))
            context = make_context(replace(spec, arrays=staged))
            if all(is_taken(stored.statement, context) for stored in steps.stored):
                arrays = staged
                statements += (stored.statement for stored in steps.stored)
                statement = steps.statement
        statements.append(statement)
    return spec if arrays == spec.arrays else replace(spec, arrays=arrays, statements=tuple(statements))


def _with_grouped_sums(spec: Spec) -> Spec:
    """The spec with sums over groups as sums over all their terms, where a family multiplies its partial sums by the
    groups' factors, or operands that are multiplied by them take less time than partial sums in memory; the same object
    if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        joined = with_grouped_sums(statement, spec)
        is_better = joined is not statement and _is_faster_joined(joined, statement, context)
        statements.append(joined if is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _is_faster_joined(joined: Statement, statement: Statement, context: Context) -> bool:
    single = single_of(joined, context)
    if (requested := single.schedule.family) is not None:  # whose reasons to refuse the sum are those to be told
        written = single_of(statement, context).request()
        return not any(family.takes(written) for family in families() if family.name == requested)
    if is_specialised(single.request()):
        return True
    split, spec = steps_of(single), context.spec
    if split is None or _keeps_nested(spec, statement):
        return False
    steps = split[1]
    staged = _hoisted(replace(spec, statements=(statement,)))
    by_steps = seconds(replace(spec, arrays=(*spec.arrays, *steps.temporaries), statements=steps.statements))
    return len(staged.statements) == 1 or by_steps < seconds(staged)


def _is_taken_only(unrolled: Statement, statement: Statement, context: Context) -> bool:
    """Whether a family other than the fallbacks takes a statement unrolled only, and none divides it into steps."""
    if is_taken(statement, context) or not is_taken(unrolled, context):
        return False
    return steps_of(single_of(statement, context)) is None


def _with_prefix_reductions(spec: Spec) -> Spec:
    """The spec with reductions that are scans as such, where a family other than the fallbacks takes these; the same
    object if there are none."""
    statements = list[Statement]()
    for statement in spec.statements:
        scanned = statement if is_placed(statement, spec) else with_prefix_reductions(statement, spec)
        is_better = scanned is not statement and _is_taken_in_stages(scanned, spec)
        statements.append(scanned if is_better else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _is_taken_in_stages(statement: Statement, spec: Spec) -> bool:
    """Whether families other than the fallbacks take the statement, with what is nested in temporaries."""
    single = replace(spec, statements=(statement,))
    staged = _hoisted(with_stored_scans(single, _needs_stages))
    context = make_context(staged)
    return all(is_taken(stage, context) for stage in staged.statements)


def _with_short_scans(spec: Spec) -> Spec:
    """The spec with short scans that would be stored as terms of what reads them, where families other than the
    fallbacks take that; the same object if there are none."""
    for written in map(target_of, spec.statements):
        position = next((n for n, s in enumerate(spec.statements) if target_of(s) == written), None)
        changed = None if position is None else with_short_scan(spec, position)
        if changed is not None and written[0] in group(make_context(spec)).stored:
            candidate, results = changed
            context = make_context(candidate)
            spec = candidate if all(is_taken(result, context) for result in results) else spec
    return spec


def _with_short_rows(spec: Spec) -> Spec:
    """The spec with a thread for each short row of results, where the fallbacks alone take a statement of those that
    this replaces, and others take it; the same object if there are none."""
    position = 0
    while position < len(spec.statements):
        rows = with_short_rows(spec, position)
        if rows is not None:
            context, changed = make_context(spec), make_context(rows.spec)
            has_loops = (s for s in rows.replaced if any(isinstance(node, Reduce) for node in walk(s.value)))
            is_left = any(not is_taken(s, context) and steps_of(single_of(s, context)) is None for s in has_loops)
            if is_left and all(is_taken(result, changed) for result in rows.results):
                spec = rows.spec
                position = spec.statements.index(rows.results[-1])
        position += 1
    return spec


def _with_computed_subscripts(spec: Spec) -> Spec:
    """The spec with computed subscripts in the launch that reads at them, where they are in its registers; the same
    object if there are none."""
    for written in map(target_of, spec.statements):
        position = next((n for n, s in enumerate(spec.statements) if target_of(s) == written), None)
        computed = None if position is None else with_computed_subscripts(spec, position)
        if computed is not None and not set(computed.targets) & set(group(make_context(computed.spec)).stored):
            spec = computed.spec
    return spec


def _with_row_terms(spec: Spec) -> Spec:
    """The spec with reductions over values of rows as one term per row, where a launch that reduces the row takes that;
    the same object if there are none."""
    position = 0
    while position < len(spec.statements):
        placed = is_placed(spec.statements[position], spec)
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
    return _hoisted(_with_ordered_sums(_with_distributed_sums(with_stored_scans(spec, _needs_stages))))


def _hoisted(spec: Spec) -> Spec:
    return hoisted(spec, partial(_keeps_nested, spec), _needs_stages)


def _with_distributed_sums(spec: Spec) -> Spec:
    """The spec with sums of sums distributed where another order then takes much less work; the same object if there
    are none."""
    for written in map(target_of, spec.statements):
        position = next((n for n, s in enumerate(spec.statements) if target_of(s) == written), None)
        if position is None or is_placed(spec.statements[position], spec):
            continue
        distributed = with_distributed_sums(spec, position)
        if distributed is None:
            continue
        candidate, statement = distributed
        context = make_context(candidate)
        ordered = with_contraction_order(statement, context)
        if ordered is None:
            continue
        removed = [s for s in spec.statements if s not in candidate.statements]
        new = [ordered.statement if s is statement else s for s in candidate.statements if s not in spec.statements]
        if _is_much_less_work(multiply_adds(new, context), multiply_adds(removed, make_context(spec))):
            spec = candidate
    return spec


def _with_ordered_sums(spec: Spec) -> Spec:
    """The spec with sums of products nested, where each is hoisted then, and it takes less work, or no family but the
    fallbacks takes the statement as it is; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        ordered = None if is_placed(statement, spec) else with_contraction_order(statement, context)
        if ordered is None or not _are_better(ordered, statement, context):
            statements.append(statement)
            continue
        stages = _hoisted(replace(spec, statements=(ordered.statement,))).statements
        statements.append(ordered.statement if not any(map(_has_nested, stages)) else statement)
    return spec if all(map(is_, statements, spec.statements)) else replace(spec, statements=tuple(statements))


def _is_much_less_work(after: int, before: int) -> bool:
    return before >= MIN_MULTIPLY_ADDS and after * _MIN_WORK_RATIO <= before


def _are_better(ordered: OrderedSums, statement: Statement, context: Context) -> bool:
    if ordered.original_multiply_adds < MIN_MULTIPLY_ADDS:
        return False
    if _is_much_less_work(ordered.multiply_adds, ordered.original_multiply_adds):
        return True
    if ordered.multiply_adds > ordered.original_multiply_adds * _MAX_WORK_RATIO or is_taken(statement, context):
        return False
    split = steps_of(single_of(statement, context))
    return split is None or split[0].fallback


def _has_nested(statement: Statement) -> bool:
    """Whether a reduction is inside another."""
    reductions = (node for node in walk(statement.value) if isinstance(node, Reduce))
    return any(isinstance(node, Reduce) for reduction in reductions for node in walk(reduction.body))


def _needs_stages(statement: Statement, spec: Spec) -> bool:
    """Whether no family but the fallbacks takes the statement, and it asks for no placement."""
    return not is_placed(statement, spec) and not is_taken(statement, make_context(spec))


def _keeps_nested(spec: Spec, statement: Statement) -> bool:
    """Whether a family takes the statement with its nested reductions in place, and is faster with them there."""
    request = single_of(statement, make_context(spec)).request()
    return any(family.keeps_nested is not None and family.keeps_nested(request) for family in families())


def _with_unpacked_operands(spec: Spec) -> Spec:
    """The spec with operands of a few rows' sums unpacked first where a family other than the fallbacks takes the sums
    then; the same object if there are none."""
    values = {target_of(s): s.value for s in inlined_statements(spec)}
    context, statements, arrays = make_context(spec), list[Statement](), list[Array]()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(target_of(statement), statement.value))
        placed = is_placed(statement, spec)
        steps = None if placed else with_unpacked_operand(single_of(whole, context), is_specialised)
        statements += steps.statements if steps else (statement,)
        arrays += steps.temporaries if steps else ()
        context = make_context(replace(spec, arrays=(*spec.arrays, *arrays))) if steps else context
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *arrays)) if arrays else spec


def _with_split_dimensions(spec: Spec) -> Spec:
    """The spec with dimensions and indices split where a family other than the fallbacks takes more statements then, or
    they have fewer divisions or sums over the parts of a subscript, and none is lost, nor a mixed group: other compound
    subscripts are left as they are."""
    inlined = replace(spec, statements=inlined_statements(spec))
    for candidate in (spec, inlined, replace(inlined, statements=completed_statements(inlined))):
        split = with_split_dimensions(candidate)
        if split.statements != candidate.statements:
            kept = {statement.target for statement in candidate.statements}
            ranks, split_ranks = [(t, rank) for t, rank in _matched_targets(spec) if t in kept], _matched_targets(split)
            before, after = Counter(t for t, _ in ranks), Counter(t for t, _ in split_ranks)
            is_better = _division_count(split) < _division_count(candidate)
            is_better = is_better or _summed_parts(split) < _summed_parts(candidate)
            is_better = is_better and _keeps_ranks(ranks, split_ranks)
            if (is_better or before != after) and before <= after and _mixed_count(spec) <= _mixed_count(split):
                return split
    return spec


def _matched_targets(spec: Spec) -> list[tuple[str, int]]:
    """The targets of the statements that a family other than the fallbacks takes, with temporaries inlined, and the
    rank of the first such family."""
    context = make_context(spec)
    requests = [(s.target, single_of(s, context).request()) for s in inlined_statements(spec)]
    first = [(t, next((f for f in families() if not f.fallback and f.takes(r)), None)) for t, r in requests]
    return [(target, family.rank) for target, family in first if family is not None]


def _keeps_ranks(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> bool:
    """Whether no target's statements go to families that are asked later."""
    lowest: dict[str, int] = {}
    for target_name, rank in after:
        lowest[target_name] = min(rank, lowest.get(target_name, rank))
    return all(rank <= lowest.get(target_name, rank) for target_name, rank in before)


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


def _with_inlined_operands(spec: Spec) -> Spec:
    """The spec with temporaries inlined where a statement is split that no family takes with them inlined: grouping
    inlines them later, and how an operand is spelt must not decide how it is computed."""
    values = {target_of(s): s.value for s in inlined_statements(spec)}
    if all(values.get(target_of(s), s.value) == s.value for s in spec.statements):
        return spec
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(target_of(statement), statement.value))
        single = single_of(whole, context)
        is_split = whole != statement and not is_specialised(single.request()) and steps_of(single) is not None
        statements.append(whole if is_split else statement)
    return replace(spec, statements=tuple(statements))


def _with_maps_in_epilogues(spec: Spec) -> Spec:
    """The spec with maps inlined into the statement of a reduction that alone reads them, as a residual of a GEMM,
    where a family other than the fallbacks takes that, but not both statements."""
    context = make_context(spec)

    def is_better(statement: Statement, joined: Statement) -> bool:
        if any(isinstance(node, Reduce) for node in walk(statement.value)) or not is_taken(joined, context):
            return False
        both = {statement.target, joined.target}
        planned = next((g for g in group(context).groups if both <= {s.target for s in g.statements}), None)
        if planned is None:
            return False
        request = Request("", planned, context, schedule_of(spec, planned.statements), target(spec.target), ())
        return all(family.fallback or not family.takes(request) for family in families())

    statements = joined_statements(spec, is_better)
    return spec if statements == spec.statements else replace(spec, statements=statements)


def _with_inlined_runs(spec: Spec) -> Spec:
    """The spec with reductions that the fallbacks alone take inlined into a map of runs of their results, which then
    aren't stored; the same object if there are none."""
    context = make_context(spec)

    def is_better(statement: Statement, joined: Statement) -> bool:
        if not any(isinstance(node, Reduce) for node in walk(statement.value)) or is_placed(joined, spec):
            return False
        single = single_of(statement, context)
        return not is_taken(statement, context) and steps_of(single) is None

    statements = joined_statements(spec, is_better, in_runs=True)
    return spec if statements == spec.statements else replace(spec, statements=statements)
