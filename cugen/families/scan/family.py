"""Scans shared by threads: along neighbours in memory a team has each row, across them threads have columns."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.base import Family
from cugen.families.scan.columns import ColumnScan
from cugen.families.scan.config import (
    TUNABLES,
    look_back_team,
    looks_back,
    resident_blocks,
    size_refusals,
    strips_of,
    team_of,
)
from cugen.families.scan.decoupled_look_back import LookBackScan
from cugen.families.scan.recognition import Work, find_work, in_segments
from cugen.families.scan.rows import RowScan
from cugen.families.scan.split import split
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.request import Refusal, Request, refuse_tunables


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `threads` and `vectors` in place of a block and a step", f"schedule.{key}"))
    work = find_work(request)
    if isinstance(work, Refusal):
        return (*found, work)
    return tuple(found) if found else tuple(size_refusals(work))


def build(request: Request) -> Kernel:
    work = find_work(request)
    assert not isinstance(work, Refusal)
    lowering = new_lowering(request)
    if looks_back(work):
        return _look_back(work, lowering)
    scan = RowScan(work, lowering, team_of(work)) if work.is_row else ColumnScan(work, lowering, strips_of(work))
    kernel = assemble(
        request, lowering, "scan", scan.parts(), scan.grid, scan.block, alignments=_alignments(work, scan.width)
    )
    return replace(kernel, reasons=(scan.reason, work.most.reason))


def _look_back(work: Work, lowering: Lowering) -> Kernel:
    team = look_back_team(work)
    scan = LookBackScan(in_segments(work, team.step), lowering, team)
    kernel = assemble(
        work.request,
        lowering,
        "scan",
        scan.parts(),
        scan.grid,
        scan.block,
        minimum_blocks=resident_blocks(work, team),
        alignments=_alignments(work, team.width),
        workspace=scan.workspace,
    )
    return replace(kernel, reasons=(scan.reason, work.most.reason))


def _alignments(work: Work, width: int) -> tuple[tuple[str, int], ...]:
    if width == 1:
        return ()
    wide = {read.array for read in work.wide_reads}
    wide |= {s.target for s in work.request.group.statements if work.is_stored(s)}
    arrays = work.request.context.spec.arrays
    return tuple((a.name, width * a.dtype.bytes) for a in arrays if a.name in wide and not a.is_temporary)


FAMILY = Family(
    "scan",
    rank=20,
    doc="scans, whose rows or columns threads walk together",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    split=split,
)
