"""Temporaries inlined where that decides which family takes the statement that reads them."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.request import Request
from cugen.rewrite.grouping import inlined_statements, joined_statements
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.runs import group
from cugen.schedule.splitting.single_statements import is_placed, is_taken, single_of, steps_of, target_of
from cugen.spec.expressions import Read, Reduce, Scan, walk
from cugen.spec.model import Spec, Statement


def with_inlined_operands(spec: Spec) -> Spec:
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


def with_maps_in_epilogues(spec: Spec) -> Spec:
    """The spec with maps inlined into the statement of a reduction that alone reads them, as a residual of a GEMM,
    where a family other than the fallbacks takes that, but not both statements in a launch."""
    context = make_context(spec)

    def is_better(statement: Statement, joined: Statement) -> bool:
        if any(isinstance(node, Reduce) for node in walk(statement.value)) or not is_taken(joined, context):
            return False
        both = {statement.target, joined.target}
        planned = next((g for g in group(context).groups if both <= {s.target for s in g.statements}), None)
        if planned is None:
            return _is_residual(statement, joined, spec)
        request = Request("", planned, context, schedule_of(spec, planned.statements), target(spec.target), ())
        return all(family.fallback or not family.takes(request) for family in families())

    statements = joined_statements(spec, is_better)
    return spec if statements == spec.statements else replace(spec, statements=statements)


def _is_residual(statement: Statement, joined: Statement, spec: Spec) -> bool:
    """Whether the reader of a map has its results beside its reductions, not as their operands."""
    (reader,) = (s for s in spec.statements if target_of(s) == target_of(joined))
    loops = (node for node in walk(reader.value) if isinstance(node, Reduce | Scan))
    return not any(isinstance(node, Read) and node.array == statement.target for loop in loops for node in walk(loop))


def with_inlined_runs(spec: Spec) -> Spec:
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
