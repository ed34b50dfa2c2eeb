"""Histograms of few long rows in two launches: blocks count parts of each row, the second launch adds these up."""

from __future__ import annotations

from cugen.families.histogram.config import block_count, choose_config, fits, part_count
from cugen.families.histogram.contention import pays
from cugen.families.histogram.recognition import match_histogram
from cugen.pieces.keyed.parts import in_parts, may_have_parts
from cugen.plan.request import Refusal, Single, Steps


def split(single: Single) -> Steps | None:
    """Both launches as statements; None where one fills the device, or where comparisons with each bin cost less."""
    schedule = single.schedule
    if not may_have_parts(schedule):
        return None
    problem = match_histogram(single.request())
    if isinstance(problem, Refusal):
        return None
    config, parts = choose_config(problem), part_count(problem)
    if parts < 2 or not fits(problem, config):
        return None
    if schedule.family is None and not pays(problem, config.replicas, block_count(problem, config)):
        return None
    return in_parts(single, problem, parts)
