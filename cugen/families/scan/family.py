"""Parallel scans: a thread group per row along contiguous memory, or one or more threads per column across it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.scan.columns import ColumnConfig, ColumnScan
from cugen.families.scan.config import TUNABLES, choose_config, min_blocks_per_sm, size_refusals
from cugen.families.scan.decoupled_look_back import LookBackConfig, LookBackScan
from cugen.families.scan.multi_pass import multi_pass
from cugen.families.scan.recognition import ScanProblem, in_tiles, match_scans
from cugen.families.scan.rows import RowConfig, RowScan
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.spec.expressions import Scan


def match(request: Request) -> Match | Refusals:
    """The scans with their config, or why they aren't computed in parallel with this schedule."""
    refused = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            refused.append(
                Refusal("takes the tunables `threads` and `vectors`, no block, thread or step", f"schedule.{key}")
            )
    problem = match_scans(request)
    if isinstance(problem, Refusal):
        return Refusals((*refused, problem))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    reasons = tuple(size_refusals(problem, config))
    return Refusals(reasons) if reasons else Match(partial(_kernel, request, problem, config))


def _kernel(request: Request, problem: ScanProblem, config: RowConfig | LookBackConfig | ColumnConfig) -> Kernel:
    lowering = new_lowering(request)
    scan: RowScan | ColumnScan
    match config:
        case LookBackConfig():
            return _look_back(problem, lowering, config)
        case RowConfig():
            scan = RowScan(problem, lowering, config)
        case ColumnConfig():
            scan = ColumnScan(problem, lowering, config)
    kernel = assemble(
        request, lowering, "scan", scan.parts(), scan.grid, scan.block, alignments=_alignments(problem, scan.width)
    )
    return replace(kernel, reasons=(scan.reason, problem.max_width.reason))


def _look_back(problem: ScanProblem, lowering: Lowering, config: LookBackConfig) -> Kernel:
    scan = LookBackScan(in_tiles(problem, config.step), lowering, config)
    kernel = assemble(
        problem.request,
        lowering,
        "scan",
        scan.parts(),
        scan.grid,
        scan.block,
        minimum_blocks=min_blocks_per_sm(problem, config),
        alignments=_alignments(problem, config.width),
        workspace=scan.workspace,
    )
    return replace(kernel, reasons=(scan.reason, problem.max_width.reason))


def _alignments(problem: ScanProblem, width: int) -> tuple[tuple[str, int], ...]:
    if width == 1:
        return ()
    vectorised = {read.array for read in problem.vector_reads}
    vectorised |= {s.target for s in problem.request.group.statements if problem.is_stored(s)}
    arrays = problem.request.context.spec.arrays
    return tuple((a.name, width * a.dtype.bytes) for a in arrays if a.name in vectorised and not a.is_temporary)


FAMILY = Family(
    "scan",
    rank=20,
    needs=Scan,
    doc="parallel scans of rows or columns",
    match=match,
    tunables=TUNABLES,
    split=multi_pass,
)
