"""Groups statements into kernels with what the families say about statements over different indices."""

from __future__ import annotations

from cugen.families.registry import families, is_specialised
from cugen.machine import target
from cugen.plan.context import Context
from cugen.plan.request import Group, Request
from cugen.rewrite.grouping import Grouping, group_statements
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.spec.expressions import Scan, walk
from cugen.spec.model import Schedule, Statement


def group(context: Context) -> Grouping:
    """The statements in order, grouped into kernels; a run over different indices is one where a family takes it."""

    def request(statements: tuple[Statement, ...], stored: tuple[str, ...], *, mixed: bool = False) -> Request:
        schedule = with_current_names(schedule_of(context.spec, statements), families())
        return Request("", Group(statements, mixed), context, schedule, target(context.spec.target), stored)

    def can_fuse(statements: tuple[Statement, ...], stored: tuple[str, ...]) -> bool:
        if any(statement.algorithm for statement in statements):
            return False  # its steps are launches of their own
        run = request(statements, stored, mixed=True)
        mixing = [family for family in families() if family.mixes]
        return any(family.takes(run) for family in mixing if run.schedule.family in (None, family.name))

    def may_join(group: tuple[Statement, ...], statement: Statement, stored: tuple[str, ...]) -> bool:
        joined = request((*group, statement), stored)
        if joined.schedule != Schedule() or is_specialised(joined):
            return True
        parts: list[tuple[Statement, ...]] = [group, (statement,)]
        # A map is as fast in the loop of a scan that no family but the fallbacks takes.
        parts = list(filter(_has_scan, parts)) or parts
        return not any(is_specialised(request(part, tuple(s.target for s in part))) for part in parts)

    return group_statements(context.spec, can_fuse, may_join)


def _has_scan(statements: tuple[Statement, ...]) -> bool:
    return any(isinstance(node, Scan) for statement in statements for node in walk(statement.value))
