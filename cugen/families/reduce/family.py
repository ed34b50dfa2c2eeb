"""Reductions that read each element for a single result, mapped to rows or columns by the input's layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cugen.families.base import Family
from cugen.families.reduce.columns import ColumnConfig, build_columns
from cugen.families.reduce.config import TUNABLES, WARP, ThreadConfig, alignments, choose_config, point_count, reasons
from cugen.families.reduce.recognition import ReductionProblem, match_reductions
from cugen.families.reduce.rows import RowConfig, build_rows
from cugen.families.reduce.short_rows import ShortRowConfig, build_short_rows
from cugen.families.reduce.split import split
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.request import Match, Refusal, Refusals, Request, refuse_tunables
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    refused = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            refused.append(Refusal("takes the tunables `threads` and `rows`, not a block or step", f"schedule.{key}"))
    problem = match_reductions(request)
    if isinstance(problem, Refusal):
        return Refusals((*refused, problem))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    refused += _size_refusals(request, problem, config)
    return Refusals(tuple(refused)) if refused else Match(partial(build, request, problem, config))


def _size_refusals(request: Request, problem: ReductionProblem, config: ThreadConfig) -> Iterator[Refusal]:
    tunables = dict(request.schedule.tunables)
    is_requested = request.schedule.family == "reduce"
    if len(problem.stages) > 1 and not problem.column_index and not is_requested:
        yield Refusal("reads a row once per dependent reduction; a family that caches rows reads it once")
    if int(tunables.get("vector", 1)) > config.width:
        (why,) = reasons(problem, config)[1:]
        yield Refusal(f"a load has at most {config.width} elements: {why}", "schedule.vector")
    if isinstance(config, ShortRowConfig):
        return
    if isinstance(config, ColumnConfig):
        threads = config.threads * config.threads_per_column
        if threads < WARP and point_count(problem, problem.output_indices) > WARP and not is_requested:
            yield Refusal(f"too few columns along {problem.column_index} to fill a warp")
    else:
        threads = config.threads * config.outer_threads * config.rows
        if config.threads > WARP and int(tunables.get("rows", 1)) > 1:
            yield Refusal("several rows per block need at most a warp per row", "schedule.rows")
            return
    if threads > request.target.threads_per_block:
        yield Refusal(f"{threads} threads exceed the limit of a block", "schedule.rows")


def build(request: Request, problem: ReductionProblem, config: ThreadConfig) -> Kernel:
    lowering = new_lowering(request)
    lowering.arrays = problem.arrays
    match config:
        case RowConfig():
            built = build_rows(problem, lowering, config)
        case ColumnConfig():
            built = build_columns(problem, lowering, config)
        case ShortRowConfig():
            built = build_short_rows(problem, lowering, config)
    kernel = assemble(
        request, lowering, "reduce", built.parts, built.grid, built.block, alignments=alignments(problem, config)
    )
    return replace(kernel, reasons=reasons(problem, config))


FAMILY = Family(
    "reduce",
    rank=15,
    needs=Reduce,
    doc="reductions that read each element for a single result, mapped to rows or columns by the input's layout",
    match=match,
    tunables=TUNABLES,
    split=split,
)
