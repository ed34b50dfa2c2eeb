"""The explicit schedule of a group of statements, and the options of its kernel."""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.expressions import bound_indices
from cugen.spec.model import Options, Schedule, Spec, Statement


def schedule_of(spec: Spec, statements: tuple[Statement, ...]) -> Schedule:
    """The schedule under an output's name, else the applicable part of the common one. It has no options: these change
    a kernel that is made, and leave the choice of its family and sizes alone."""
    schedules = {name: replace(schedule, options=Options()) for name, schedule in spec.schedules}
    for statement in statements:
        if statement.target in schedules:
            return schedules[statement.target]
    common = schedules.get("", Schedule())
    if len(spec.statements) == 1:
        return common
    names = {index.name for s in statements for index in (*s.indices, *bound_indices(s.value))}

    def applicable(sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((name, size) for name, size in sizes if name in names)

    return replace(
        common, block=applicable(common.block), thread=applicable(common.thread), step=applicable(common.step)
    )


def optional_schedule(original: Spec, statements: tuple[Statement, ...]) -> Schedule:
    """The schedule that the user wrote whose options a kernel has: under its output's name, else the common one. A
    single statement has the same for all kernels into which it is split."""
    schedules = dict(original.schedules)
    named = [schedules[statement.target] for statement in statements if statement.target in schedules]
    if not named and len(original.statements) == 1:
        named = list(schedules.values())[-1:]
    return named[0] if named else schedules.get("", Schedule())
