"""Reductions that read each element for a single result, mapped to rows or columns by the input's layout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.reduce.columns import ColumnConfig, ColumnKernel
from cugen.families.reduce.config import TUNABLES, ThreadConfig, choose_config, is_cached_once, point_count, reasons
from cugen.families.reduce.problem import ReductionProblem
from cugen.families.reduce.recognition import match_reductions
from cugen.families.reduce.rows import RowConfig, RowKernel
from cugen.families.reduce.short_rows import ShortRowConfig, ShortRowKernel
from cugen.families.reduce.split import split
from cugen.pieces.block_reduce import WARP
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import tunables_only
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.kernel import Kernel
from cugen.spec.expressions import Reduce
from cugen.spec.model import Schedule


def match(request: Request) -> Match | Refusals:
    refused = tunables_only(request, TUNABLES, "takes the tunables `threads` and `rows`, not a block or step")
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
    if is_cached_once(problem):
        what = "column" if problem.column_index else "row"
        yield Refusal(f"reads a {what} once per dependent reduction; a family that caches {what}s reads it once")
    if int(tunables.get("vector", 1)) > config.width:
        (why,) = reasons(problem, config)[1:]
        yield Refusal(f"a load has at most {config.width} elements: {why}", "schedule.vector")
    if isinstance(config, ShortRowConfig):
        return
    if isinstance(config, ColumnConfig):
        threads = config.threads * config.threads_per_column * config.outer_rows
        if threads < WARP and point_count(problem, problem.output_indices) > WARP and not is_requested:
            yield Refusal(f"too few columns along {problem.column_index} to fill a warp")
    else:
        threads = config.threads * config.outer_threads * config.rows * config.outer_rows
        if config.threads > WARP and int(tunables.get("rows", 1)) > 1:
            yield Refusal("several rows per block need at most a warp per row", "schedule.rows")
            return
    if threads > request.target.threads_per_block:
        yield Refusal(f"{threads} threads exceed the limit of a block", "schedule.rows")


def prefers_terms(request: Request) -> bool:
    """Whether one thread has a result, from no more elements of each array than one access moves: other statements read
    the same ones, and results beside each other are stored together."""
    problem = match_reductions(request)
    if isinstance(problem, Refusal) or request.schedule != Schedule():
        return False
    config = choose_config(problem)
    if not isinstance(config, RowConfig) or config.threads * config.outer_threads > 1:
        return False
    widest = max(problem.arrays[read.array].dtype.bytes for stage in problem.stages for read in stage.reads)
    return all(point_count(problem, stage.indices) * widest <= MAX_ACCESS_BYTES for stage in problem.stages)


def build(request: Request, problem: ReductionProblem, config: ThreadConfig) -> Kernel:
    lowering = new_lowering(request, problem.arrays)
    match config:
        case RowConfig():
            parts = RowKernel(problem, lowering, config).kernel_parts()
        case ColumnConfig():
            parts = ColumnKernel(problem, lowering, config).kernel_parts()
        case ShortRowConfig():
            parts = ShortRowKernel(problem, lowering, config).kernel_parts()
    return assemble(request, lowering, "reduce", *parts, reasons=reasons(problem, config))


FAMILY = Family(
    "reduce",
    rank=15,
    needs=Reduce,
    doc="reductions that read each element for a single result, mapped to rows or columns by the input's layout",
    match=match,
    tunables=TUNABLES,
    split=split,
    prefers_terms=prefers_terms,
    share_passes=True,
)
