"""Reductions by key in two launches: blocks reduce parts of the elements, the second launch combines these."""

from __future__ import annotations

from dataclasses import replace

from cugen.pieces.keyed.problem import KeyedProblem
from cugen.plan.request import Single, Steps
from cugen.rewrite.split_reductions import ReductionSplitter
from cugen.spec.model import Schedule


def may_have_parts(schedule: Schedule) -> bool:
    """Whether a schedule leaves the launches open."""
    has_sizes = schedule.block or schedule.thread or schedule.step
    return not has_sizes and dict(schedule.tunables).get("split_k") != 1


def in_parts(single: Single, problem: KeyedProblem, parts: int) -> Steps:
    """Both launches as statements."""
    origins = {} if single.keeps_indices else problem.origins
    replaced = {name: indices for name, indices in problem.origins.items() if name not in origins}
    indices = tuple(i for index in problem.reduced for i in replaced.get(index.name, (index,)))
    (statement,) = problem.unfused
    splitter = ReductionSplitter(statement, single.context, [indices], origins, parts, aligned=indices[-1:])
    return replace(splitter.steps(), opens_last=True)
