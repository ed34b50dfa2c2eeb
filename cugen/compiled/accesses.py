"""Cost of one access as written and as compiled: of its instructions, and for asynchronous copies of both ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import SPIN_WAIT, UNKNOWN_LANES, Site
from cugen.analysis.verdicts import copy_sources
from cugen.analysis.verdicts.report import site_totals
from cugen.compiled.matching import PrintedSite, fills_zeros, is_half
from cugen.compiled.sass import Instruction
from cugen.compiled.transformations.code import Code
from cugen.compiled.transformations.differences import transformations
from cugen.machine import Target
from cugen.machine.requests import async_copies
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.symbols import integer

_HALVES = "narrowed: of some elements one half is loaded"
_PARTS_OF_SECTORS = "its lanes don't copy whole sectors in pairs, so some sectors are fetched more than once"


@dataclass(frozen=True)
class CompiledAccess:
    """One access as written and as compiled.

    written_bytes: bytes per lane and execution in the source. instructions: those that implement the access.
    changes: compiler transformations, as sentences; empty if each execution is one instruction.
    written, compiled: exact totals over the launch; None, with a `reason`, if they depend on data or aren't modelled.
    executions, lanes: warp-level executions of its instructions, and their active lanes; known even if the addresses
    depend on data.
    """

    access: Access
    space: str
    line: int
    written_bytes: int
    instructions: tuple[Instruction, ...]
    changes: tuple[str, ...]
    written: Totals | None
    compiled: tuple[Totals, ...] | None
    executions: int | None
    lanes: int | None
    reason: str = ""

    def unknown(self, reason: str) -> CompiledAccess:
        """The access without totals."""
        return replace(self, compiled=None, executions=None, lanes=None, reason=reason)


def constant_access(
    kernel: Kernel, printed_site: PrintedSite, uses: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    """Constant load. Reads with a register address cost requests; reads with a constant address are free operands."""
    addressed = tuple(u for u in uses if any(re.search(r"c\[0x3\]\[.*R\d", operand) for operand in u.operands))
    changes = []
    if known := len(uses) - len(addressed):
        changes.append(f"folded: {known} instructions have its address as an operand")
    if not uses:
        changes.append("dropped: its values are immediates")
    written, reason = totals_of(kernel, (printed_site.site,), target)
    compiled = written if addressed else ()
    return _result(printed_site, uses, changes, written, compiled, reason if addressed else "")


def compiled_access(
    kernel: Kernel, code: Code, printed_site: PrintedSite, instructions: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    """Load or store, given all its instructions."""
    written, reason = totals_of(kernel, (printed_site.site,), target)
    if printed_site.site.opaque == SPIN_WAIT:
        return _result(printed_site, instructions, (), None, None, SPIN_WAIT)
    if not instructions:
        return _result(printed_site, (), ["dropped: no instruction carries it out"], written, (), "", ())
    if any(is_half(instruction, printed_site.site) for instruction in instructions):
        return _result(printed_site, instructions, [_HALVES], written, None, _HALVES)
    changes, executed, why = transformations(code, printed_site.site, instructions)
    if executed is None:
        return _result(printed_site, instructions, [*changes, why], written, None, why)
    compiled = written
    if executed != (printed_site.site,):
        compiled, reason = totals_of(kernel, executed, target)
    if compiled is None and all(
        (site.opaque and site.opaque not in UNKNOWN_LANES) or site.source_offset for site in executed
    ):
        # The address depends on data, the execution count does not: evaluate it at a fixed offset.
        anywhere = [replace(site, offset=integer(0), opaque="", source_offset=None) for site in executed]
        runs, _ = totals_of(kernel, anywhere, target)
        return _result(printed_site, instructions, changes, written, None, reason, runs)
    return _result(printed_site, instructions, changes, written, compiled, reason, compiled)


def copy_source(
    kernel: Kernel,
    code: Code,
    printed_site: PrintedSite,
    end: Site,
    instructions: tuple[Instruction, ...],
    target: Target,
) -> CompiledAccess:
    """Global source of an asynchronous copy. If it bypasses L1, it fetches one sector per written sector."""
    result = compiled_access(kernel, code, printed_site, instructions, target)
    if result.compiled is None or result.written_bytes < async_copies.L1_BYPASS_BYTES:
        return result
    sources = copy_sources.lane_sources(
        printed_site.site.offset, kernel.block, printed_site.site.access.array.dtype.bytes
    )
    aligned = all(totals.sectors == totals.ideal_sectors for totals in result.compiled)
    if aligned and sources is not None and async_copies.are_sector_pairs(sources):
        written, _ = site_totals(kernel, replace(end, source_offset=None, source_guard=None), target)
        if all(async_copies.are_sector_pairs(pattern.lanes) for pattern in written.patterns):
            return result
    return replace(result, compiled=None, reason=_PARTS_OF_SECTORS)


def copy_target(
    kernel: Kernel,
    code: Code,
    printed_site: PrintedSite,
    read: Site,
    instructions: tuple[Instruction, ...],
    target: Target,
) -> CompiledAccess:
    """Shared target of an asynchronous copy, with the zero-filling instructions of a failed source guard."""
    # Predicated executions are counted by instruction.
    printed_site = replace(printed_site, site=replace(printed_site.site, source_guard=None))
    filling = tuple(i for i in instructions if fills_zeros(i))
    if not filling:
        return compiled_access(
            kernel,
            code,
            replace(printed_site, site=replace(printed_site.site, predicates=read.predicates)),
            instructions,
            target,
        )
    site = printed_site.site
    if read.predicates == site.predicates:
        why = "mistaken: zero-filling instructions of another copy have the lines of this one"
        return _result(printed_site, instructions, [why], totals_of(kernel, (site,), target)[0], None, why)
    *outer, guard = read.predicates
    copied = replace(site, predicates=read.predicates)
    # A zero fill reads no source.
    filled = replace(site, predicates=(*outer, replace(guard, negated=True)), source_offset=None)
    copying = tuple(i for i in instructions if i not in filling)
    written, _ = totals_of(kernel, (site,), target)
    changes: list[str] = []
    compiled: list[Totals] = []
    all_runs: list[Totals] = []
    unknown = ""
    for branch, emitted in ((copied, copying), (filled, filling)):
        branch_changes, executed, why = transformations(code, branch, emitted) if emitted else ([], (), "")
        changes += branch_changes
        if executed is None:
            return _result(printed_site, instructions, [*changes, why], written, None, why)
        runs, why = totals_of(kernel, [replace(part, source_offset=None) for part in executed], target)
        costs, reason = totals_of(kernel, executed, target)
        if runs is None:
            return _result(printed_site, instructions, changes, written, None, why)
        all_runs += runs
        compiled += costs or ()
        unknown = unknown or reason
    changes.append(f"filled: {len(filling)} instructions write the zeros")
    if (
        written
        and written[0].lanes
        and site.access.array.dtype.bytes * site.access.width == async_copies.L1_BYPASS_BYTES
    ):
        compiled = list(written)  # copying and zero-filling instructions together cost as much as one combined copy
    total = None if unknown else tuple(compiled)
    return _result(printed_site, instructions, changes, written, total, unknown, tuple(all_runs))


def _result(
    printed_site: PrintedSite,
    instructions: tuple[Instruction, ...],
    changes: Sequence[str],
    written: tuple[Totals, ...] | None,
    compiled: tuple[Totals, ...] | None,
    reason: str,
    runs: tuple[Totals, ...] | None = None,
) -> CompiledAccess:
    access = printed_site.site.access
    return CompiledAccess(
        access,
        printed_site.space,
        printed_site.line,
        access.array.dtype.bytes * access.width,
        instructions,
        tuple(changes),
        written[0] if written else None,
        compiled,
        None if runs is None else sum(totals.warps for totals in runs),
        None if runs is None else sum(totals.lanes for totals in runs),
        reason,
    )


def totals_of(kernel: Kernel, sites: Sequence[Site], target: Target) -> tuple[tuple[Totals, ...] | None, str]:
    """Totals of each site over the launch; None with the reason if one of them is unknown."""
    totals = []
    try:
        for site in sites:
            result, assumptions = site_totals(kernel, site, target)
            if async_copies.OTHER_SOURCES in assumptions:
                raise Unknown(async_copies.OTHER_SOURCES)
            totals.append(result)
    except (Unknown, ValueError) as why:  # ValueError: no instruction has such addresses
        return None, str(why)
    return tuple(totals), ""
