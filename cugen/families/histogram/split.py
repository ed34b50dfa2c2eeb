"""Histograms of few long rows in two launches: blocks count parts of each row, the second launch adds these up."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.histogram.config import block_count, choose_config, fits, part_count
from cugen.families.histogram.contention import pays
from cugen.families.histogram.recognition import match_histogram
from cugen.plan.request import Refusal, Single, Steps
from cugen.rewrite.split_reductions import ReductionSplitter


def split(single: Single) -> Steps | None:
    """Both launches as statements; None where one fills the device, or where comparisons with each bin cost less."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    problem = match_histogram(single.request())
    if isinstance(problem, Refusal):
        return None
    config, parts = choose_config(problem), part_count(problem)
    if parts < 2 or not fits(problem, config):
        return None
    if schedule.family is None and not pays(problem, config.replicas, block_count(problem, config)):
        return None
    origins = {} if single.keeps_indices else problem.origins
    replaced = {name: indices for name, indices in problem.origins.items() if name not in origins}
    indices = tuple(i for index in problem.reduced for i in replaced.get(index.name, (index,)))
    (statement,) = problem.unfused
    splitter = ReductionSplitter(statement, single.context, [indices], origins, parts, aligned=indices[-1:])
    return replace(splitter.steps(), opens_last=True)
