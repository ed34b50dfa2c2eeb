"""The explicit schedule of a group of statements."""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.expressions import bound_indices
from cugen.spec.model import Schedule, Spec, Statement


def schedule_of(spec: Spec, statements: tuple[Statement, ...]) -> Schedule:
    """The schedule under an output's name, else the applicable part of the common one."""
    schedules = dict(spec.schedules)
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
