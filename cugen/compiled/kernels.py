"""Cost of a launch as compiled: each access with the SASS instructions that implement it.

The compiler vectorises, unrolls, folds and eliminates accesses, and hardware counters see the result. Each access is
reported *as written* in the source and *as compiled* in the disassembly. Every memory instruction implements an access,
is compiler-generated, or is unexplained.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import SPIN_WAIT, UNKNOWN_LANES, Site, sites
from cugen.analysis.verdicts import copy_sources
from cugen.analysis.verdicts.constant_reasons import bytes_read
from cugen.analysis.verdicts.report import site_totals
from cugen.compiled import sass
from cugen.compiled.addresses import Form, address_forms, source_forms
from cugen.compiled.differences import SOME_TRIPS, Code, code_of, transformations
from cugen.compiled.matching import SPACES, Matches, PrintedSite, after_barrier, fills_zeros, is_half, match
from cugen.compiled.mmas import CompiledMma, compiled_mmas
from cugen.compiled.ptx_lines import check_same_compilation, source_lines
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.tensor_copies import CompiledCopy, compiled_copies
from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.machine.requests import async_copies
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Access
from cugen.plan.nodes import AcquireSpinWait, Barrier, Condition, Define, For, Guard, If, Node
from cugen.plan.pipeline_nodes import InitBarrier
from cugen.plan.symbols import integer, symbol
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.spec.expressions import Op, walk
from cugen.spec.model import Spec
from cugen.toolchain.binary import elf
from cugen.toolchain.binary.disassembler import disassemble

_BANK = re.compile(r"c\[0x3\]\[([^\]]*)\]")
_POINTER_BYTES = 8
DIVERGED_AFTER_WAIT = "its lanes leave a spin-wait at different times, so its executions are not static"
DIVERGED_BY_DATA = "its lanes diverge on data and needn't have converged by the next iteration"
_HALVES = "narrowed: of some elements one half is loaded"
_MISTAKEN = "eliminated: it has fewer instructions than trips, and some may be of another access"
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


@dataclass(frozen=True)
class CompiledKernel:
    """All accesses of one kernel by loads and stores of threads, and the memory instructions that belong to none.

    warps, barriers: number of warps of the launch, and of mbarriers. constant_bytes: of constant arrays, that it reads
    at most. compiler_generated: instructions that the compiler added, by purpose. ambiguous: instructions that match
    several accesses, assigned round-robin. mmas: of tensor cores; operands of wgmma aren't among the accesses. copies:
    of boxes, by TMA. unexplained: memory and tensor-core instructions that match none of the plan.
    """

    kernel: str
    target: str
    warps: int
    barriers: int
    constant_bytes: int
    program: Program
    accesses: tuple[CompiledAccess, ...]
    compiler_generated: Mapping[str, tuple[Instruction, ...]]
    ambiguous: tuple[Instruction, ...]
    mmas: tuple[CompiledMma, ...]
    copies: tuple[CompiledCopy, ...]
    unexplained: tuple[Instruction, ...]


def compiled_kernels(
    plan: Plan,
    spec: Spec,
    lines: Mapping[int, int],
    image: bytes,
    ptx: str,
    target: Target | str,
    params: Mapping[str, int],
) -> tuple[CompiledKernel, ...]:
    """Compiled kernels of a plan, from the cubin `image` and its `ptx`, both with lines.

    lines: source lines of the accesses, from `access_lines`. params: value of each param, by its name in C.
    Raises ToolMissing without nvdisasm, ValueError for the PTX of another cubin."""
    row = known_target(target) if isinstance(target, str) else target
    check_same_compilation(image, ptx)
    programs = sass.parse(disassemble(image, lines="ptx"), source_lines(ptx))
    sections = elf.kernels(image)
    result = []
    first = 0
    for kernel in plan.kernels:
        line_of = {access.serial: lines[first + n] for n, access in enumerate(accesses(kernel.body))}
        first += len(line_of)
        pointers = _pointers(kernel, spec, sections[kernel.name].argument_bytes)
        bank = elf.section(image, f".nv.constant2.{kernel.name}")
        program = programs[kernel.name]
        forms = address_forms(program, bank)
        printed = _printed_sites(kernel, line_of, params)
        matches = match(program, forms, source_forms(program, bank), printed, pointers)
        constants = _constant_uses(program, elf.constants(image))
        compiled = _compiled(kernel, program, forms, printed, matches, constants, params, row)
        of_tensor_cores, others = compiled_mmas(kernel, program, line_of, params)
        copies, other_copies = compiled_copies(kernel, program, line_of, params)
        loads_and_stores = (i for i in compiled.unexplained if i.name not in sass.TENSOR_COPIES)
        unexplained = (*loads_and_stores, *others, *other_copies)
        result.append(replace(compiled, mmas=of_tensor_cores, copies=copies, unexplained=unexplained))
    return tuple(result)


def _pointers(kernel: Kernel, spec: Spec, argument_bytes: int) -> dict[str, str]:
    """Array names by the word of constant bank 0 that holds their pointer. Kernel arguments end the bank, each aligned
    to its size."""
    scalars = {scalar.name: scalar.dtype.bytes for scalar in spec.scalars}
    params = {param.name for param in spec.params}
    offsets: dict[str, int] = {}
    end = 0
    for name in kernel.arguments:
        size = scalars.get(name, 4 if name in params else _POINTER_BYTES)
        end += -end % size
        offsets[name] = end
        end += size
    base = argument_bytes - end
    pointers = {name: offset for name, offset in offsets.items() if name not in scalars and name not in params}
    return {f"c[0x0][{base + offset:#x}]": name for name, offset in pointers.items()}


def _printed_sites(kernel: Kernel, line_of: Mapping[int, int], params: Mapping[str, int]) -> list[PrintedSite]:
    is_after_barrier = after_barrier(kernel.body)
    result = [
        site
        for site in sites(kernel, params)
        if site.access.array.space in SPACES and site.instruction is None and site.access.kind != "barrier"
    ]
    return [PrintedSite(site, line_of[site.access.serial], is_after_barrier.get(site.access.serial)) for site in result]


def _constant_uses(program: Program, symbols: Mapping[str, tuple[int, int]]) -> dict[str, tuple[Instruction, ...]]:
    """The instructions that read each `__constant__` variable, as a load or as an operand."""
    result: dict[str, list[Instruction]] = {}
    for instruction in program.instructions:
        for operand in _BANK.findall(" ".join(instruction.operands)):
            numbers = re.findall(r"-?0x[0-9a-f]+", operand)
            offset = int(numbers[-1], 16) if numbers else 0
            below = [(start, name) for name, (start, _) in symbols.items() if start <= offset]
            if below:
                uses = result.setdefault(max(below)[1], [])
                uses += [instruction] if instruction not in uses else []
    return {name: tuple(uses) for name, uses in result.items()}


def _compiled(
    kernel: Kernel,
    program: Program,
    forms: Mapping[int, Form],
    printed: Sequence[PrintedSite],
    matches: Matches,
    constants: Mapping[str, tuple[Instruction, ...]],
    params: Mapping[str, int],
    target: Target,
) -> CompiledKernel:
    results = []

    def total(site: Site) -> Totals | None:
        return next(iter(_total(kernel, (site,), target)[0] or ()), None)

    code = code_of(kernel, params, program, forms, printed, matches, total)
    ends = {p.site.access.serial: p.site for p in printed}
    dropped = [p.site for p, instructions in zip(printed, matches.instructions, strict=True) if not instructions]
    starts = {p.site.copy_target.serial: p.site for p in printed if p.site.copy_target is not None}
    for printed_site, instructions in zip(printed, matches.instructions, strict=True):
        if printed_site.space == "constant":
            uses = constants.get(printed_site.site.access.array.symbol, ())
            results.append(_constant_access(kernel, printed_site, uses, target))
        elif printed_site.site.copy_target is not None:
            reading = tuple(i for i in instructions if not fills_zeros(i))
            results.append(
                _copy_source(kernel, code, printed_site, ends[printed_site.site.copy_target.serial], reading, target)
            )
        elif printed_site.site.source_offset is not None:
            read = starts[printed_site.site.access.serial]
            results.append(_copy_target(kernel, code, printed_site, read, instructions, target))
        elif instructions and any(_are_exclusive_stores(printed_site.site, second) for second in dropped):
            both = replace(printed_site, site=replace(printed_site.site, predicates=printed_site.site.predicates[:-1]))
            result = _access(kernel, code, both, instructions, target)
            why = "merged: one instruction stores for both branches"
            written, _ = _total(kernel, (printed_site.site,), target)
            results.append(replace(result, written=written[0] if written else None, changes=(*result.changes, why)))
        else:
            results.append(_access(kernel, code, printed_site, instructions, target))
    results = _without_mistaken(matches, _without_shared_values(program, results))
    results = _without_diverged(kernel, results)
    compiler_generated: dict[str, tuple[Instruction, ...]] = {}
    arguments = tuple(
        i for i in program.instructions if i.space == "constant" and not _BANK.search(" ".join(i.operands))
    )
    if arguments:
        compiler_generated["arguments and addresses"] = arguments
    if local := tuple(i for i in program.instructions if i.space == "local"):
        compiler_generated["registers spilled or indexed"] = local
    return CompiledKernel(
        kernel.name,
        target.name,
        _blocks(kernel, params) * -(-kernel.threads // 32),
        _blocks(kernel, params) * _barriers(kernel),
        bytes_read(kernel),
        program,
        tuple(results),
        compiler_generated,
        matches.ambiguous,
        (),
        (),
        matches.unexplained,
    )


def _are_exclusive_stores(first: Site, second: Site) -> bool:
    """Whether two stores write the same address under complementary guards."""
    if first.access.kind != "store" or second.access.kind != "store" or not first.predicates or not second.predicates:
        return False
    (*outer, guard), (*others, last) = first.predicates, second.predicates
    first_address, second_address = ((site.access.array, site.offset, site.counters) for site in (first, second))
    return first_address == second_address and outer == others and last == replace(guard, negated=not guard.negated)


def _without_shared_values(program: Program, results: Sequence[CompiledAccess]) -> list[CompiledAccess]:
    """Removes totals of loads whose values other accesses reuse. The compiler may have moved such loads: if their
    instructions are in several blocks, their execution count is unknown."""
    borrowed = {
        r.access.array.name
        for r in results
        if r.reason.startswith("reused") or any(change.startswith(SOME_TRIPS) for change in r.changes)
    }
    why = "reused: other accesses use its values, and its instructions are in several blocks"
    return [
        replace(r.unknown(why), changes=(*r.changes, why))
        if r.access.array.name in borrowed
        and r.executions is not None
        and len({program.block_of(i) for i in r.instructions}) > 1
        else r
        for r in results
    ]


def _without_mistaken(matches: Matches, results: Sequence[CompiledAccess]) -> list[CompiledAccess]:
    """Removes totals of loads with fewer instructions than trips that may have those of another access of the array:
    if one has more than its trips, or if they match several accesses."""
    kinds = {(r.access.array.symbol, r.access.kind) for r in results if r.reason.startswith("duplicated")}
    return [
        r.unknown(_MISTAKEN)
        if any(change.startswith(SOME_TRIPS) for change in r.changes)
        and (
            (r.access.array.symbol, r.access.kind) in kinds
            or not set(matches.ambiguous + matches.merged).isdisjoint(r.instructions)
        )
        else r
        for r in results
    ]


def _without_diverged(kernel: Kernel, results: Sequence[CompiledAccess]) -> list[CompiledAccess]:
    """Removes totals of accesses after a spin-wait, and of those in loops that diverge on data: each converged
    group of lanes executes them."""
    reasons = {access.serial: DIVERGED_BY_DATA for access in _in_diverged_loops(kernel.body)}
    reasons |= {access.serial: DIVERGED_AFTER_WAIT for access in _after_waits(kernel.body)}
    return [
        r.unknown(reasons[r.access.serial])
        if r.access.serial in reasons
        and r.executions is not None
        and (r.compiled is None or any(p.active > 1 for totals in r.compiled for p in totals.patterns))
        else r
        for r in results
    ]


def _in_diverged_loops(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Accesses of loops with conditions on data that compilers join by branches, if lanes run a part of an iteration
    alone, or more iterations than others."""
    defined = {node.index.symbol for node in walk_nodes(nodes) if isinstance(node, Define)}
    for node in walk_nodes(nodes):
        if not isinstance(node, For):
            continue
        guarded = (i.then for i in walk_nodes(node.body) if isinstance(i, If) and isinstance(i.condition, Guard))
        alone = (node.body,) if node.loop.stop.free_symbols & defined else guarded
        conditions = (i.condition for part in alone for i in walk_nodes(part) if isinstance(i, If))
        if any(map(_joins_conditions_on_data, conditions)):
            yield from accesses((node,))


def _joins_conditions_on_data(condition: Condition) -> bool:
    if isinstance(condition, Guard):
        return False
    return any(isinstance(part, Op) and part.name in ("and", "or") for part in walk(condition))


def _after_waits(nodes: Sequence[Node]) -> Iterator[Access]:
    """Accesses after a spin-wait, up to the next barrier."""
    waited = False
    for node in nodes:
        match node:
            case AcquireSpinWait():
                waited = True
            case Barrier():
                waited = False
            case _ if waited:
                yield from accesses((node,))
            case For():
                yield from _after_waits(node.body)
            case If():
                yield from _after_waits(node.then)
                yield from _after_waits(node.orelse)


def _barriers(kernel: Kernel) -> int:
    """mbarriers of a block."""
    arrays = {node.barrier.array for node in walk_nodes(kernel.body) if isinstance(node, InitBarrier)}
    return sum(math.prod(map(int, array.shape)) for array in arrays)


def _blocks(kernel: Kernel, params: Mapping[str, int]) -> int:
    values = {symbol(name): integer(value) for name, value in params.items()}
    blocks = 1
    for extent in kernel.grid:
        blocks *= int(extent.xreplace(values))
    return blocks


def _constant_access(
    kernel: Kernel, printed_site: PrintedSite, uses: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    """Constant load. Reads with a register address cost requests; reads with a constant address are free operands."""
    addressed = tuple(u for u in uses if any(re.search(r"c\[0x3\]\[.*R\d", operand) for operand in u.operands))
    changes = []
    if known := len(uses) - len(addressed):
        changes.append(f"folded: {known} instructions have its address as an operand")
    if not uses:
        changes.append("dropped: its values are immediates")
    written, reason = _total(kernel, (printed_site.site,), target)
    compiled = written if addressed else ()
    return _result(printed_site, uses, changes, written, compiled, reason if addressed else "")


def _access(
    kernel: Kernel, code: Code, printed_site: PrintedSite, instructions: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    written, reason = _total(kernel, (printed_site.site,), target)
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
        compiled, reason = _total(kernel, executed, target)
    if compiled is None and all(
        (site.opaque and site.opaque not in UNKNOWN_LANES) or site.source_offset for site in executed
    ):
        # The address depends on data, the execution count does not: evaluate it at a fixed offset.
        anywhere = [replace(site, offset=integer(0), opaque="", source_offset=None) for site in executed]
        runs, _ = _total(kernel, anywhere, target)
        return _result(printed_site, instructions, changes, written, None, reason, runs)
    return _result(printed_site, instructions, changes, written, compiled, reason, compiled)


def _copy_source(
    kernel: Kernel,
    code: Code,
    printed_site: PrintedSite,
    end: Site,
    instructions: tuple[Instruction, ...],
    target: Target,
) -> CompiledAccess:
    """Global source of an asynchronous copy. If it bypasses L1, it fetches one sector per written sector."""
    result = _access(kernel, code, printed_site, instructions, target)
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


def _copy_target(
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
        return _access(
            kernel,
            code,
            replace(printed_site, site=replace(printed_site.site, predicates=read.predicates)),
            instructions,
            target,
        )
    site = printed_site.site
    if read.predicates == site.predicates:
        why = "mistaken: zero-filling instructions of another copy have the lines of this one"
        return _result(printed_site, instructions, [why], _total(kernel, (site,), target)[0], None, why)
    *outer, guard = read.predicates
    copied = replace(site, predicates=read.predicates)
    # A zero fill reads no source.
    filled = replace(site, predicates=(*outer, replace(guard, negated=True)), source_offset=None)
    copying = tuple(i for i in instructions if i not in filling)
    written, _ = _total(kernel, (site,), target)
    changes: list[str] = []
    compiled: list[Totals] = []
    all_runs: list[Totals] = []
    unknown = ""
    for branch, emitted in ((copied, copying), (filled, filling)):
        branch_changes, executed, why = transformations(code, branch, emitted) if emitted else ([], (), "")
        changes += branch_changes
        if executed is None:
            return _result(printed_site, instructions, [*changes, why], written, None, why)
        runs, why = _total(kernel, [replace(part, source_offset=None) for part in executed], target)
        costs, reason = _total(kernel, executed, target)
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


def _total(kernel: Kernel, sites: Sequence[Site], target: Target) -> tuple[tuple[Totals, ...] | None, str]:
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
