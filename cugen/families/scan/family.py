"""Parallel scans: a thread group per row along contiguous memory, or one or more threads per column across it."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.base import Family
from cugen.families.scan.columns import ColumnScan
from cugen.families.scan.config import (
    TUNABLES,
    column_config,
    look_back_config,
    min_blocks_per_sm,
    row_config,
    size_refusals,
    uses_look_back,
)
from cugen.families.scan.decoupled_look_back import LookBackScan
from cugen.families.scan.multi_pass import multi_pass
from cugen.families.scan.recognition import ScanProblem, in_tiles, match_scans
from cugen.families.scan.rows import RowScan
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.request import Refusal, Request, refuse_tunables


def refusals(request: Request) -> tuple[Refusal, ...]:
    refused = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            refused.append(
                Refusal("takes the tunables `threads` and `vectors`, no block, thread or step", f"schedule.{key}")
            )
    problem = match_scans(request)
    if isinstance(problem, Refusal):
        return (*refused, problem)
    return tuple(refused) if refused else tuple(size_refusals(problem))


def build(request: Request) -> Kernel:
    problem = match_scans(request)
    assert not isinstance(problem, Refusal)
    lowering = new_lowering(request)
    if uses_look_back(problem):
        return _look_back(problem, lowering)
    scan = (
        RowScan(problem, lowering, row_config(problem))
        if problem.is_row
        else ColumnScan(problem, lowering, column_config(problem))
    )
    kernel = assemble(
        request, lowering, "scan", scan.parts(), scan.grid, scan.block, alignments=_alignments(problem, scan.width)
    )
    return replace(kernel, reasons=(scan.reason, problem.max_width.reason))


def _look_back(problem: ScanProblem, lowering: Lowering) -> Kernel:
    config = look_back_config(problem)
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
    doc="parallel scans of rows or columns",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    split=multi_pass,
)
