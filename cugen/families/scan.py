"""Scans shared by threads: along neighbours in memory a team of threads has each row."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.base import Family, Refusal, Request, Tunable, refuse_tunables
from cugen.families.elementwise import placement_refusals
from cugen.families.kernels import assemble, new_lowering
from cugen.families.scan_form import Work, find_work
from cugen.families.scan_rows import RowScan, Team
from cugen.plan.ir import Kernel
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds

_THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads that share a row; by default by its length",
)
_ROWS = Tunable("rows", (1, 2, 4, 8, 16, 32, 64), "as fit", "rows of a block; by default as many as make 256 threads")
_VECTORS = Tunable("vectors", (1, 2, 4, 8), "by length", "vectors that a thread has in flight at a time")
_TUNABLES = (_THREADS, _ROWS, _VECTORS)
_BLOCK = 256


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, _TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(
                Refusal("has `threads`, `rows` and `vectors` in place of a block and a step", f"schedule.{key}")
            )
    work = find_work(request)
    if isinstance(work, Refusal):
        return (*found, work)
    if not work.is_row:
        found.append(Refusal("runs along columns"))
    return tuple(found)


def build(request: Request) -> Kernel:
    work = find_work(request)
    assert not isinstance(work, Refusal)
    lowering = new_lowering(request)
    team = _team(work)
    scan = RowScan(work, lowering, team)
    parts = scan.parts()
    kernel = assemble(
        work.request, lowering, "scan", parts, scan.blocks.grid, scan.block, alignments=_alignments(work, team.width)
    )
    kernel = replace(kernel, computes=tuple(s.text for s in request.group.statements))
    return replace(kernel, reasons=_reasons(work, team))


def _team(work: Work) -> Team:
    context, asked = work.request.context, dict(work.request.schedule.tunables)
    longest = bounds(to_integer(work.along.extent, context.symbols), dict(context.ranges))[1]
    width = work.most.count
    while width > max(longest, 1):
        width //= 2
    slots = max(-(-longest // width), 1)
    vectors = int(asked.get("vectors", 2 if slots > 32 or width == 1 else 1))
    threads = int(asked.get("threads", min(1 << (-(-slots // vectors) - 1).bit_length(), _BLOCK)))
    rows = max(_BLOCK // threads, 1)
    if work.rest:
        most = bounds(to_integer(work.rest[0].extent, context.symbols), dict(context.ranges))[1]
        rows = min(rows, 1 << max(most - 1, 0).bit_length())
    else:
        rows = 1
    return Team(threads, int(asked.get("rows", rows if threads <= 32 else 1)), vectors, width)


def _alignments(work: Work, width: int) -> tuple[tuple[str, int], ...]:
    if width == 1:
        return ()
    wide = {read.array for read in work.wide_reads}
    wide |= {s.target for s in work.request.group.statements if work.is_stored(s)}
    arrays = work.request.context.spec.arrays
    return tuple((a.name, width * a.dtype.bytes) for a in arrays if a.name in wide and not a.is_temporary)


def _reasons(work: Work, team: Team) -> tuple[str, ...]:
    along = work.along.name
    return (
        f"{team.threads} threads walk along {along} together, {team.vectors} x {team.width} neighbours each at a time",
        work.most.reason,
    )


FAMILY = Family(
    "scan",
    rank=20,
    doc="scans, each row walked by a team of threads",
    refusals=refusals,
    build=build,
    tunables=_TUNABLES,
)
