"""Whether a schedule may change the order in which sums are taken, and with it the last bits of results."""

from __future__ import annotations

from cugen.families.registry import families
from cugen.schedule.lock import Schedules


def may_reorder(schedules: Schedules) -> bool:
    """By what the families say of their tunables. What they don't say shows in the bits of results, which are compared
    while candidates are timed."""
    telling = {(family.name, t.name) for family in families() for t in family.tunables if t.reorders}
    return any((schedule.family, name) in telling for _, schedule in schedules for name, _ in schedule.tunables)
