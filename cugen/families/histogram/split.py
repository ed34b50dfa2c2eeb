"""Histograms of few long rows in two launches: blocks count parts of each row, the second launch adds these up."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.histogram.config import choose_config, fits
from cugen.families.histogram.contention import pays
from cugen.families.histogram.recognition import HistogramProblem, match_histogram
from cugen.machine.devices import PLANNING_DEVICE
from cugen.plan.request import Refusal, Single, Steps
from cugen.rewrite.split_reductions import ReductionSplitter

# Heuristics.
BLOCKS_PER_SM = 4
MIN_ELEMENTS_PER_PART = 1 << 12
MIN_ELEMENTS_PER_COUNTER = 16  # of a part: the second launch reads each


def split(single: Single) -> Steps | None:
    """Both launches as statements; None where one fills the device, or where comparisons with each bin cost less."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    problem = match_histogram(single.request())
    if isinstance(problem, Refusal):
        return None
    config = choose_config(problem)
    if not fits(problem, config) or (schedule.family is None and not pays(problem, config.copies)):
        return None
    parts = _part_count(problem)
    if parts < 2:
        return None
    origins = {} if single.keeps_indices else problem.origins
    replaced = {name: indices for name, indices in problem.origins.items() if name not in origins}
    indices = tuple(i for index in problem.reduced for i in replaced.get(index.name, (index,)))
    splitter = ReductionSplitter(problem.unfused, single.context, [indices], origins, parts, aligned=indices[-1:])
    return replace(splitter.steps(), opens_last=True)


def _part_count(problem: HistogramProblem) -> int:
    """Parts of each row; 1 where the rows fill the device, or where a part has too few elements."""
    split_k = dict(problem.request.schedule.tunables).get("split_k")
    if split_k is not None:
        return int(split_k)
    blocks = BLOCKS_PER_SM * PLANNING_DEVICE.sms
    rows, elements = problem.planned_count(problem.rows), problem.planned_count(problem.reduced)
    minimum = max(MIN_ELEMENTS_PER_PART, MIN_ELEMENTS_PER_COUNTER * problem.bin_count)
    return max(min(blocks // max(rows, 1), elements // minimum), 1)
