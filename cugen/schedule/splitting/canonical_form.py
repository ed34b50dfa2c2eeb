"""The canonical form of a spec, so that how it is spelt decides nothing about how it is planned."""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.context import make_context
from cugen.rewrite.canonical.chosen_elements import with_chosen_elements
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.rewrite.canonical.extents import with_canonical_extents
from cugen.rewrite.canonical.guarded_reads import with_boundaries_of_guarded_reads
from cugen.rewrite.canonical.held_types import with_rounded_temporaries
from cugen.rewrite.canonical.padded_windows import with_padded_windows
from cugen.rewrite.canonical.prefix_reductions import with_prefix_reductions
from cugen.rewrite.canonical.totals import with_late_totals
from cugen.rewrite.indices.components import with_components
from cugen.rewrite.indices.computed_subscripts import with_computed_subscripts
from cugen.rewrite.indices.gathered_rows import with_gathered_rows
from cugen.rewrite.indices.window_sums import with_window_sums
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.stored.nested_scans import with_stored_scans
from cugen.rewrite.sums.factored_operands import with_factored_operands
from cugen.rewrite.sums.interleaved_channels import with_interleaved_channels
from cugen.rewrite.sums.invariant_terms import with_invariant_terms
from cugen.rewrite.sums.short_reductions import with_short_reductions
from cugen.rewrite.sums.short_rows import with_short_rows
from cugen.rewrite.sums.short_scans import with_short_scan
from cugen.rewrite.transposed.solve_congruences import divides_index, with_solved_congruences
from cugen.schedule.runs import group
from cugen.schedule.splitting.hoisting import needs_stages, with_stored_reductions
from cugen.schedule.splitting.single_statements import is_placed, is_taken, single_of, steps_of, target_of
from cugen.schedule.splitting.unrolled_reductions import with_unrolled_reductions
from cugen.spec.expressions import Reduce, bound_indices, walk
from cugen.spec.model import Spec, Statement


def with_canonical_form(spec: Spec) -> Spec:
    """The spec with canonical expressions, extents and subscripts; the same object if it has them."""
    rounded = with_rounded_temporaries(with_canonical_expressions(with_late_totals(spec)))
    factored = with_factored_operands(with_invariant_terms(rounded))
    chosen = with_chosen_elements(with_padded_windows(factored))
    expressions = with_boundaries_of_guarded_reads(with_gathered_rows(chosen))
    canonical = with_canonical_extents(_with_solved_congruences(expressions))
    short = _with_prefix_reductions(with_unrolled_reductions(with_short_reductions(canonical)))
    components = with_components(with_interleaved_channels(_with_short_scans(with_window_sums(short))))
    return _with_short_rows(_with_computed_subscripts(components))


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
    return spec.with_statements(statements)


def _with_prefix_reductions(spec: Spec) -> Spec:
    """The spec with reductions that are scans as such, where a family other than the fallbacks takes these; the same
    object if there are none."""
    statements = list[Statement]()
    for statement in spec.statements:
        scanned = statement if is_placed(statement, spec) else with_prefix_reductions(statement, spec)
        is_better = scanned is not statement and _is_taken_in_stages(scanned, spec)
        statements.append(scanned if is_better else statement)
    return spec.with_statements(statements)


def _is_taken_in_stages(statement: Statement, spec: Spec) -> bool:
    """Whether families other than the fallbacks take the statement, with what is nested in temporaries."""
    single = replace(spec, statements=(statement,))
    staged = with_stored_reductions(with_stored_scans(single, needs_stages))
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
