"""Which statements share a kernel, as far as families that take unlike indices have a say in it."""

from __future__ import annotations

from cugen.families.registry import families
from cugen.machine import target
from cugen.plan.context import Context
from cugen.plan.request import Group, Request
from cugen.plan.schedules import schedule_of
from cugen.rewrite.grouping import Grouping, group_statements
from cugen.schedule.aliases import with_current_names
from cugen.spec.model import Statement


def group(context: Context) -> Grouping:
    """The statements in order, cut into kernels; those that a family takes together over unlike indices are one."""
    mixing = [family for family in families() if family.mixes]

    def takes(statements: tuple[Statement, ...], stored: tuple[str, ...]) -> bool:
        schedule = with_current_names(schedule_of(context.spec, statements), families())
        request = Request("", Group(statements, mixed=True), context, schedule, target(context.spec.target), stored)
        wanted = [family for family in mixing if schedule.family in (None, family.name)]
        return any(not family.refusals(request) for family in wanted)

    return group_statements(context.spec, takes)
