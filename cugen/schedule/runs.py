"""Groups statements into kernels with what the families say about statements over different indices."""

from __future__ import annotations

from cugen.families.registry import families
from cugen.machine import target
from cugen.plan.context import Context
from cugen.plan.request import Group, Request
from cugen.rewrite.grouping import Grouping, group_statements
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.spec.model import Statement


def group(context: Context) -> Grouping:
    """The statements in order, grouped into kernels; a run over different indices is one where a family takes it."""
    mixing = [family for family in families() if family.mixes]

    def can_fuse(statements: tuple[Statement, ...], stored: tuple[str, ...]) -> bool:
        schedule = with_current_names(schedule_of(context.spec, statements), families())
        request = Request("", Group(statements, mixed=True), context, schedule, target(context.spec.target), stored)
        candidates = [family for family in mixing if schedule.family in (None, family.name)]
        return any(family.takes(request) for family in candidates)

    return group_statements(context.spec, can_fuse)
