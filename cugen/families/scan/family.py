"""Parallel scans: a thread group per row along contiguous memory, or one or more threads per column across it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.scan.columns import ColumnConfig, ColumnScan
from cugen.families.scan.config import TUNABLES, choose_config, min_blocks_per_sm, size_refusals
from cugen.families.scan.decoupled_look_back import LookBackConfig, LookBackScan
from cugen.families.scan.multi_pass import multi_pass
from cugen.families.scan.recognition import ScanProblem, in_tiles, match_scans
from cugen.families.scan.rows import RowConfig, RowScan
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.placement import tunables_only
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Declare, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import bounds
from cugen.spec.expressions import Scan


def match(request: Request) -> Match | Refusals:
    """The scans with their config, or why they aren't computed in parallel with this schedule."""
    refused = tunables_only(request, TUNABLES, "takes the tunables `threads` and `vectors`, no block, thread or step")
    problem = match_scans(request)
    if isinstance(problem, Refusal):
        return Refusals((*refused, problem))
    if refused:
        return Refusals(tuple(refused))
    config = choose_config(problem)
    reasons = tuple(size_refusals(problem, config))
    return Refusals(reasons) if reasons else _match(request, problem, config)


def _match(request: Request, problem: ScanProblem, config: RowConfig | LookBackConfig | ColumnConfig) -> Match:
    """The kernel of a config; smaller ones have half of the vectors per thread each."""

    def smaller() -> Match | None:
        return _match(request, problem, replace(config, vectors=config.vectors // 2)) if config.vectors > 1 else None

    return Match(partial(_kernel, request, problem, config), smaller=smaller)


def _kernel(request: Request, problem: ScanProblem, config: RowConfig | LookBackConfig | ColumnConfig) -> Kernel:
    lowering = new_lowering(request)
    scan: RowScan | ColumnScan
    match config:
        case LookBackConfig():
            scan = LookBackScan(in_tiles(problem, config.step), lowering, config)
        case RowConfig():
            scan = RowScan(problem, lowering, config)
        case ColumnConfig():
            scan = ColumnScan(problem, lowering, config)
    return assemble(
        request,
        lowering,
        "scan",
        _sections(scan, problem, lowering),
        scan.grid,
        scan.block,
        minimum_blocks=min_blocks_per_sm(problem, config) if isinstance(config, LookBackConfig) else 0,
        workspace=scan.workspace,
        reasons=(scan.reason, problem.max_width.reason),
    )


def _sections(scan: RowScan | ColumnScan, problem: ScanProblem, lowering: Lowering) -> tuple[Section, ...]:
    """The steps of the kernel, and the loop along the scan: load, combine the threads' aggregates, scan and store."""
    lowering.prepare(tuple(s.value for s in problem.request.group.statements))
    top = Scope()
    body = Scope(top, certain=bounds(scan.loop.extent, lowering.ranges)[0] >= 1)
    # Tiles of columns have their prefixes in memory.
    tile_prefixes: tuple[Section, ...] = ()
    if isinstance(scan, RowScan):
        tile_prefixes = tuple(scan.reduce_preceding(reduction, top) for reduction in problem.prefix_reductions)
    first, inside = scan.position(scan.loop.start)
    prologue, load = scan.load(first, inside)
    combine = scan.combine(body, first, inside)
    result = Section("scan_vectors", scan.registers.each_vector(first, scan.scan(body, inside)))
    shared = tuple(map(Declare, scan.exchange.arrays)) if scan.exchange else ()
    return (
        *scan.block_id,
        Section("indices", scan.indices),
        Section("shared", shared),
        Section("tile_prefixes", tile_prefixes),
        Section("invariants", tuple(top.nodes)),
        *prologue,
        Section("carry", scan.carry()),
        *scan.loop.around((Section("step_invariants", tuple(body.nodes)), *load, *combine, result)),
    )


FAMILY = Family(
    "scan",
    rank=20,
    needs=Scan,
    doc="parallel scans of rows or columns",
    match=match,
    tunables=TUNABLES,
    split=multi_pass,
    share_passes=True,
)
