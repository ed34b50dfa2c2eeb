"""Reductions by key in two launches: blocks reduce parts of the elements, the second launch combines these."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.grouped.config import choose_config, fits, part_count, pays
from cugen.families.grouped.recognition import match_grouped
from cugen.plan.request import Refusal, Single, Steps
from cugen.rewrite.split_reductions import ReductionSplitter


def split(single: Single) -> Steps | None:
    """Both launches as statements; None where one fills the device, or where comparisons with each bin cost less."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    problem = match_grouped(single.request())
    if isinstance(problem, Refusal):
        return None
    config = choose_config(problem)
    parts = part_count(problem, config)
    if parts < 2 or not fits(problem, config) or (schedule.family is None and not pays(problem, config)):
        return None
    origins = {} if single.keeps_indices else problem.origins
    replaced = {name: indices for name, indices in problem.origins.items() if name not in origins}
    indices = tuple(i for index in problem.reduced for i in replaced.get(index.name, (index,)))
    (statement,) = problem.unfused
    splitter = ReductionSplitter(statement, single.context, [indices], origins, parts, aligned=indices[-1:])
    return replace(splitter.steps(), opens_last=True)
