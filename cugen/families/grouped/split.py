"""Reductions by key in two launches: blocks reduce parts of the elements, the second launch combines these."""

from __future__ import annotations

from cugen.families.grouped.config import choose_config, fits, part_count, pays
from cugen.families.grouped.recognition import match_grouped
from cugen.pieces.keyed.parts import in_parts, may_have_parts
from cugen.plan.request import Refusal, Single, Steps


def split(single: Single) -> Steps | None:
    """Both launches as statements; None where one fills the device, or where comparisons with each bin cost less."""
    schedule = single.schedule
    if not may_have_parts(schedule):
        return None
    problem = match_grouped(single.request())
    if isinstance(problem, Refusal):
        return None
    config = choose_config(problem)
    parts = part_count(problem, config)
    if parts < 2 or not fits(problem, config) or (schedule.family is None and not pays(problem, config)):
        return None
    return in_parts(single, problem, parts)
