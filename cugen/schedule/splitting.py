"""Splits statements that need several launches into steps with temporaries, such as split-K and its reduction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.registry import families
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.hoist_reductions import hoisted
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.schedule.runs import group
from cugen.spec.expressions import Expr, Read, walk
from cugen.spec.model import Array, Schedule, Spec, Statement


def plan_context(spec: Spec) -> Context:
    """The context of a spec's launches, after `split_statements`."""
    return make_context(split_statements(spec), spec)


def split_statements(spec: Spec) -> Spec:
    """The spec with statements replaced by the steps into which a family splits them; the same object if none is."""
    spec = hoisted(spec)
    context = make_context(spec)
    statements: list[Statement] = []
    temporaries: list[Array] = []
    step_schedules: list[tuple[str, Schedule]] = []
    mixed = _mixed_statements(context)
    queue = list(spec.statements)
    unsplittable: dict[str, None] = {}
    while queue:
        statement = queue.pop(0)
        schedule = with_current_names(schedule_of(spec, (statement,)), families())
        is_whole = statement.target in unsplittable or (statement.target, statement.subscripts) in mixed
        split = None if is_whole else _split(Single(statement, context, schedule, target(spec.target), _is_matched))
        if split is None:
            statements.append(statement)
            continue
        family, steps = split
        temporaries += steps.temporaries
        step_schedules += _schedules(schedule, family, statement, steps)
        context = make_context(replace(spec, arrays=(*spec.arrays, *temporaries)))
        unsplittable.update({step.target: None for step in steps.statements if step.target not in steps.again})
        queue = [*steps.statements, *queue]
    if not temporaries:
        return spec
    statements = _with_adjacent_steps(statements, {array.name: None for array in temporaries})
    schedules = (*spec.schedules, *step_schedules)
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *temporaries), schedules=schedules)


def _is_matched(request: Request) -> bool:
    """Whether some family other than `direct` takes the request."""
    return any(family.rank > 0 and family.takes(request) for family in families())


def _split(single: Single) -> tuple[Family, Steps] | None:
    """The first family that splits the statement, and its steps."""
    for family in families():
        if family.split is not None and single.schedule.family in (None, family.name):
            steps = family.split(single)
            if steps is not None:
                return family, steps
    return None


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
        ordered.insert(position, statement)
    return ordered
