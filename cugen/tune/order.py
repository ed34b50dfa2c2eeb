"""Reordering of floating-point reductions by a schedule, which changes the last bits of results."""

from __future__ import annotations

from cugen.families.registry import families
from cugen.schedule.lock import Schedules
from cugen.spec.expressions import Reduce, Scan, walk
from cugen.spec.model import Spec

_ORDERED = ("sum", "prod")  # of floating-point numbers


def may_reorder(spec: Spec, schedules: Schedules) -> bool:
    """Whether the tunables of the schedules are declared to reorder reductions. Undeclared reordering is detected by
    comparing the bits of results while candidates are timed."""
    telling = {(family.name, t.name) for family in families() for t in family.tunables if t.reorders}
    chosen = {(schedule.family, name) for _, schedule in schedules for name, _ in schedule.tunables}
    return _has_ordered_sums(spec) and bool(telling & chosen)


def _has_ordered_sums(spec: Spec) -> bool:
    return any(
        isinstance(node, Reduce | Scan) and node.kind in _ORDERED and node.dtype.is_float
        for statement in spec.statements
        for node in walk(statement.value)
    )
