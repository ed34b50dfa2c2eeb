"""Of several forms of a spec the one that families other than the fallbacks take most of."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Request, Single
from cugen.rewrite.grouping import inlined_statements
from cugen.rewrite.stored.gathered_matrices import with_all_matrices
from cugen.rewrite.stored.separable_windows import with_separable_windows
from cugen.rewrite.stored.unpacked_operands import with_unpacked_operand
from cugen.rewrite.sums.grouped_sums import with_grouped_sums
from cugen.rewrite.sums.row_terms import RowTerms, with_row_terms
from cugen.schedule.runs import group
from cugen.schedule.splitting.batched_ranges import with_batched_ranges
from cugen.schedule.splitting.dimensions import with_taken_dimensions
from cugen.schedule.splitting.hoisting import keeps_nested, with_hoisted_reductions, with_stored_reductions
from cugen.schedule.splitting.inlining import with_inlined_operands, with_inlined_runs, with_maps_in_epilogues
from cugen.schedule.splitting.prices import pays_for_all_matrices, seconds
from cugen.schedule.splitting.separate_loops import with_separate_loops
from cugen.schedule.splitting.single_statements import is_placed, is_taken, single_of, steps_of, target_of
from cugen.schedule.splitting.unrolled_reductions import with_unrolled_stored_reductions
from cugen.spec.model import Array, Schedule, Spec, Statement

_WIDE_BITS = 16


def with_taken_form(spec: Spec) -> Spec:
    """The spec in the form that families other than the fallbacks take most of, before statements are split: with
    nested reductions and operands in temporaries of their own, or without these."""
    products = _with_grouped_sums(_with_products_of_all_matrices(with_separate_loops(spec)))
    windows = with_separable_windows(_with_row_terms(products), is_placed)
    separate = with_unrolled_stored_reductions(_with_unpacked_operands(with_hoisted_reductions(windows)))
    operands = with_inlined_operands(with_taken_dimensions(with_inlined_operands(separate)))
    return with_batched_ranges(with_inlined_runs(with_maps_in_epilogues(operands)))


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
    return spec.with_statements(statements)


def _is_faster_joined(joined: Statement, statement: Statement, context: Context) -> bool:
    single = single_of(joined, context)
    if (requested := single.schedule.family) is not None:  # whose reasons to refuse the sum are those to be told
        written = single_of(statement, context).request()
        return not any(family.takes(written) for family in families() if family.name == requested)
    if is_specialised(single.request()):
        return True
    split, spec = steps_of(single), context.spec
    if split is None or keeps_nested(spec, statement):
        return False
    steps = split[1]
    staged = with_stored_reductions(replace(spec, statements=(statement,)))
    by_steps = seconds(replace(spec, arrays=(*spec.arrays, *steps.temporaries), statements=steps.statements))
    return len(staged.statements) == 1 or by_steps < seconds(staged)


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


def _with_unpacked_operands(spec: Spec) -> Spec:
    """The spec with operands of a few rows' sums unpacked first where a family other than the fallbacks takes the sums
    then, and tensor cores don't take more rows with operands in floats; the same object if there are none."""
    values = {target_of(s): s.value for s in inlined_statements(spec)}
    context, statements, arrays = make_context(spec), list[Statement](), list[Array]()
    for statement in spec.statements:
        whole = replace(statement, value=values.get(target_of(statement), statement.value))
        placed = is_placed(statement, spec)
        single = single_of(whole, context)
        steps = None if placed else with_unpacked_operand(single, is_specialised)
        steps = None if steps and _is_split_in_wide_floats(single) else steps
        statements += steps.statements if steps else (statement,)
        arrays += steps.temporaries if steps else ()
        context = make_context(replace(spec, arrays=(*spec.arrays, *arrays))) if steps else context
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *arrays)) if arrays else spec


def _is_split_in_wide_floats(single: Single) -> bool:
    """Whether a family that splits the statement stores its operands in floats of 16 bits, which tensor cores take."""
    split = steps_of(single)
    types = () if split is None else tuple(array.dtype for array in split[1].temporaries)
    return bool(types) and all(dtype.is_float and dtype.bits == _WIDE_BITS for dtype in types)
