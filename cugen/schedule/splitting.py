"""Statements that one launch can't do well, as several with temporaries between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.registry import families
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Request, Single, Steps
from cugen.plan.schedules import schedule_of
from cugen.rewrite.hoist_reductions import hoisted
from cugen.schedule.aliases import with_current_names
from cugen.schedule.runs import group
from cugen.spec.expressions import Expr, Read, walk
from cugen.spec.model import Array, Schedule, Spec, Statement


def plan_context(spec: Spec) -> Context:
    """The context of a spec's launches: its statements split where a family does them in several steps."""
    return make_context(split_statements(spec), spec)


def split_statements(spec: Spec) -> Spec:
    """The spec with every statement that some family splits replaced by its steps; the spec itself where none does."""
    spec = hoisted(spec)
    context = make_context(spec)
    statements: list[Statement] = []
    temporaries: list[Array] = []
    owners: list[tuple[str, Schedule]] = []
    together = _together(context)
    waiting = list(spec.statements)
    final: dict[str, None] = {}
    while waiting:
        statement = waiting.pop(0)
        schedule = with_current_names(schedule_of(spec, (statement,)), families())
        is_whole = statement.target in final or (statement.target, statement.subscripts) in together
        found = None if is_whole else _steps(Single(statement, context, schedule, target(spec.target), _is_matched))
        if found is None:
            statements.append(statement)
            continue
        family, steps = found
        temporaries += steps.temporaries
        owners += _schedules(schedule, family, statement, steps)
        context = make_context(replace(spec, arrays=(*spec.arrays, *temporaries)))
        final.update({step.target: None for step in steps.statements if step.target not in steps.again})
        waiting = [*steps.statements, *waiting]
    if not temporaries:
        return spec
    statements = _side_by_side(statements, {array.name: None for array in temporaries})
    schedules = (*spec.schedules, *owners)
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *temporaries), schedules=schedules)


def _is_matched(request: Request) -> bool:
    """Whether some family has a better way than a thread for each element."""
    return any(family.rank > 0 and not family.refusals(request) for family in families())


def _steps(single: Single) -> tuple[Family, Steps] | None:
    """What the first family that splits the statement makes of it."""
    for family in families():
        if family.split is not None and single.schedule.family in (None, family.name):
            steps = family.split(single)
            if steps is not None:
                return family, steps
    return None


def _together(context: Context) -> dict[tuple[str, tuple[Expr, ...]], None]:
    """The places of statements that one launch does best with others over unlike indices: they stay whole."""
    if len(context.spec.statements) < 2:
        return {}
    groups = group(context).groups
    return {(s.target, s.subscripts): None for found in groups if found.mixed for s in found.statements}


def _schedules(
    schedule: Schedule, family: Family, statement: Statement, steps: Steps
) -> Iterator[tuple[str, Schedule]]:
    """What is fixed about each step: most are for the family that made them, some of those as the user says."""
    for array in steps.temporaries:
        tunables = schedule.tunables if array.name in steps.tuned else ()
        yield array.name, Schedule(None if array.name in steps.open else family.name, tunables=tunables)
    if steps.tuned:
        yield statement.target, replace(schedule, family=None if steps.opens_last else schedule.family, tunables=())


def _side_by_side(statements: list[Statement], steps: Mapping[str, None]) -> list[Statement]:
    """The statements with each step moved up to an earlier one over equal indices, where it needs nothing of what is
    written between: they may then share a launch."""
    ordered: list[Statement] = []
    for statement in statements:
        position = len(ordered)
        if statement.target in steps:
            reads = {node.array for node in walk(statement.value) if isinstance(node, Read)}
            extents = [index.extent for index in statement.indices]
            for place in reversed(range(len(ordered))):
                earlier = ordered[place]
                if earlier.target in steps and [index.extent for index in earlier.indices] == extents:
                    position = place + 1
                if earlier.target in reads:
                    break
        ordered.insert(position, statement)
    return ordered
