"""The explicit schedule of a group of statements."""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.expressions import Reduce, Scan, walk
from cugen.spec.model import Schedule, Spec, Statement


def schedule_of(spec: Spec, statements: tuple[Statement, ...]) -> Schedule:
    """The schedule under an output's name, else the applicable part of the common one."""
    schedules = dict(spec.schedules)
    for statement in statements:
        if statement.target in schedules:
            return schedules[statement.target]
    common = schedules.get("")
    if common is None:
        return Schedule()
    names = _index_names(statements)

    def applicable(sizes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((name, size) for name, size in sizes if name in names)

    if len(spec.statements) == 1:
        return common
    return replace(
        common, block=applicable(common.block), thread=applicable(common.thread), step=applicable(common.step)
    )


def _index_names(statements: tuple[Statement, ...]) -> frozenset[str]:
    names = {index.name for statement in statements for index in statement.indices}
    for statement in statements:
        for node in walk(statement.value):
            if isinstance(node, Reduce):
                names |= {index.name for index in node.indices}
            elif isinstance(node, Scan):
                names.add(node.inner.name)
    return frozenset(names)
