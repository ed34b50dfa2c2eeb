"""What families make of one statement: which take it as it is, and the steps into which one divides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.registry import families, first_family_name, is_specialised
from cugen.machine import target
from cugen.plan.context import Context, make_context
from cugen.plan.request import Group, Request, Single, Steps
from cugen.rewrite.hoist_reductions import elements
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.spec.expressions import Expr, Read, bound_indices, walk
from cugen.spec.model import Schedule, Spec, Statement

Target = tuple[str, tuple[Expr, ...]]  # a statement, by what it writes


def target_of(statement: Statement) -> Target:
    return statement.target, statement.subscripts


def single_of(statement: Statement, context: Context) -> Single:
    spec = context.spec
    schedule = with_current_names(schedule_of(spec, (statement,)), families())
    return Single(statement, context, schedule, target(spec.target), is_specialised, first_family_name)


def is_taken(statement: Statement, context: Context) -> bool:
    """Whether a family other than the fallbacks takes the statement."""
    request = single_of(statement, context).request()
    return any(not family.fallback and family.takes(request) for family in families())


def is_placed(statement: Statement, spec: Spec) -> bool:
    """Whether the statement has a schedule, or reads an array with a placement, other than a temporary that is stored:
    that is for the launch in which it is read."""
    reads = (node for node in walk(statement.value) if isinstance(node, Read))
    if any(spec.array(read.array).memory.space not in (None, "global", "scratch") for read in reads):
        return True
    return schedule_of(spec, (statement,)) != Schedule()


def term_count(statement: Statement, spec: Spec) -> int:
    """The terms of all results of a statement, at sizes that are known."""
    return elements(tuple(dict.fromkeys((*statement.indices, *bound_indices(statement.value)))), spec) or 0


def steps_of(single: Single) -> tuple[Family, Steps] | None:
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
    schedules = dict(schedules_of_steps(single.schedule, family, single.statement, steps))
    return all(
        family.takes(Request("", Group((step,)), context, schedules[step.target], single.target, temporaries))
        for step in steps.statements
        if step.target in temporaries and schedules[step.target].family == family.name
    )


def schedules_of_steps(
    schedule: Schedule, family: Family, statement: Statement, steps: Steps
) -> Iterator[tuple[str, Schedule]]:
    """The schedules of the steps: their family, unless it is open, and the user's tunables where they apply."""
    for array in steps.temporaries:
        tunables = schedule.tunables if array.name in steps.tuned else ()
        yield array.name, Schedule(None if array.name in steps.open else family.name, tunables=tunables)
    if steps.tuned:
        yield statement.target, replace(schedule, family=None if steps.opens_last else schedule.family, tunables=())
