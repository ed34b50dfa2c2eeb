"""Nested reductions and scans in temporaries of their own, in the order that takes least work.

Sums of products are distributed and nested in another order first, where that is less work."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cugen.families.registry import families
from cugen.plan.context import Context, make_context
from cugen.rewrite.hoist_reductions import hoisted
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.rewrite.stored.nested_scans import with_stored_scans
from cugen.rewrite.sums.contraction_order import OrderedSums, multiply_adds, with_contraction_order
from cugen.rewrite.sums.distributed_sums import with_distributed_sums
from cugen.rewrite.temporaries import MIN_MULTIPLY_ADDS
from cugen.schedule.splitting.single_statements import is_placed, is_taken, single_of, steps_of, target_of
from cugen.spec.expressions import Reduce, walk
from cugen.spec.model import Spec, Statement

# Multiply-adds of sums of products in another order, relative to those as they are written (heuristics).
_MIN_WORK_RATIO = 2  # from which on a second launch pays off
_MAX_WORK_RATIO = 1.25  # up to which two launches of other families than the fallbacks are faster than one of these


def with_hoisted_reductions(spec: Spec) -> Spec:
    """The spec with nested scans in temporaries, and nested reductions, except where a family is faster with them in
    place, or takes short ones in place; the same object if none is hoisted."""
    return with_stored_reductions(_with_ordered_sums(_with_distributed_sums(with_stored_scans(spec, needs_stages))))


def with_stored_reductions(spec: Spec) -> Spec:
    """The spec with nested reductions in temporaries, but for those that a family keeps; the same object if none is."""
    return hoisted(spec, partial(keeps_nested, spec), needs_stages)


def needs_stages(statement: Statement, spec: Spec) -> bool:
    """Whether no family but the fallbacks takes the statement, and it asks for no placement."""
    return not is_placed(statement, spec) and not is_taken(statement, make_context(spec))


def keeps_nested(spec: Spec, statement: Statement) -> bool:
    """Whether a family takes the statement with its nested reductions in place, and is faster with them there."""
    request = single_of(statement, make_context(spec)).request()
    return any(family.keeps_nested is not None and family.keeps_nested(request) for family in families())


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
        stages = with_stored_reductions(replace(spec, statements=(ordered.statement,))).statements
        statements.append(ordered.statement if not any(map(_has_nested, stages)) else statement)
    return spec.with_statements(statements)


def _is_much_less_work(after: int, before: int) -> bool:
    return before >= MIN_MULTIPLY_ADDS and after * _MIN_WORK_RATIO <= before


def _are_better(ordered: OrderedSums, statement: Statement, context: Context) -> bool:
    if ordered.original_multiply_adds < MIN_MULTIPLY_ADDS:
        return False
    if _is_much_less_work(ordered.multiply_adds, ordered.original_multiply_adds):
        return True
    if ordered.multiply_adds > ordered.original_multiply_adds * _MAX_WORK_RATIO or _is_taken_split(statement, context):
        return False
    split = steps_of(single_of(statement, context))
    return split is None or split[0].fallback


def _is_taken_split(statement: Statement, context: Context) -> bool:
    """Whether a family other than the fallbacks takes the statement as it is, or with its dimensions split."""
    if is_taken(statement, context):
        return True
    split = with_split_dimensions(replace(context.spec, statements=(statement,)))
    return split.statements != (statement,) and is_taken(split.statements[0], make_context(split))


def _has_nested(statement: Statement) -> bool:
    """Whether a reduction is inside another."""
    reductions = (node for node in walk(statement.value) if isinstance(node, Reduce))
    return any(isinstance(node, Reduce) for reduction in reductions for node in walk(reduction.body))
