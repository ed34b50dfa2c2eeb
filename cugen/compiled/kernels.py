"""What the compiler made of each access, and what a launch costs as it was compiled.

The .cu says what each thread reads; the compiler merges, unrolls, folds and drops. Hardware counters see the second.
So each access is reported twice: *as written*, in the instructions that the source shows, and *as compiled*, in those
that the disassembly shows. Every memory instruction belongs to an access, to a purpose of the compiler's own, or is
listed as unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.analysis.totals.exact import Totals, Unknown
from cugen.analysis.totals.sites import SPIN_WAIT, UNKNOWN_LANES, Site, sites
from cugen.analysis.verdicts import copy_sources
from cugen.analysis.verdicts.report import site_totals
from cugen.compiled import sass
from cugen.compiled.addresses import Form, address_forms, source_forms
from cugen.compiled.differences import Code, code_of, made_of
from cugen.compiled.matching import SPACES, Matches, Placed, behind_barrier, fills, match
from cugen.compiled.sass import Instruction, Program
from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.machine.requests import async_copies
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Access
from cugen.plan.nodes import AcquireSpinWait, Barrier, For, If, Node
from cugen.plan.symbols import integer, symbol
from cugen.plan.walking import accesses
from cugen.spec.model import Spec
from cugen.toolchain.binary import elf
from cugen.toolchain.binary.disassembler import disassemble

_BANK = re.compile(r"c\[0x3\]\[([^\]]*)\]")
_POINTER_BYTES = 8
PARTED = "its lanes stop waiting at times of their own; how often it runs depends on when other blocks answer"
_PARTS_OF_SECTORS = "its lanes don't copy whole sectors in pairs, so that sectors are fetched more than once"


@dataclass(frozen=True)
class CompiledAccess:
    """One access as written and as compiled.

    written_bytes: what one lane moves at once in the source. instructions: those that carry the access out.
    changes: what the compiler did, as sentences; empty where each execution in the source is one of an instruction.
    written, compiled: exact totals over the launch; None where they depend on data or on what isn't modelled, for the
    `reason` given. executions: in how many warps its instructions run, known also where only the addresses are data.
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
    reason: str = ""


@dataclass(frozen=True)
class CompiledKernel:
    """All accesses of one kernel outside registers, and the memory instructions that belong to none of them.

    warps: those that the launch starts. own: instructions of the compiler's own, by purpose. shared_out: those that
    more than one access could have asked for, dealt out in turn. unexplained: those that nothing in the plan asks for.
    """

    kernel: str
    target: str
    warps: int
    program: Program
    accesses: tuple[CompiledAccess, ...]
    own: Mapping[str, tuple[Instruction, ...]]
    shared_out: tuple[Instruction, ...]
    unexplained: tuple[Instruction, ...]


def compiled_kernels(
    plan: Plan,
    spec: Spec,
    lines: Mapping[int, int],
    image: bytes,
    target: Target | str,
    params: Mapping[str, int],
) -> tuple[CompiledKernel, ...]:
    """Each kernel of a plan as the cubin `image` has it.

    `lines` is what `access_lines` gives for the source that was compiled; `params` gives every param's value by its
    name in C. ToolMissing without nvdisasm."""
    row = known_target(target) if isinstance(target, str) else target
    programs = sass.parse(disassemble(image))
    sections = elf.kernels(image)
    found = []
    first = 0
    for kernel in plan.kernels:
        count = len(list(accesses(kernel.body)))
        own_lines = [lines[first + n] for n in range(count)]
        first += count
        pointers = _pointers(kernel, spec, sections[kernel.name].argument_bytes)
        bank = elf.section(image, f".nv.constant2.{kernel.name}")
        program = programs[kernel.name]
        forms = address_forms(program, bank)
        placed = _placed(kernel, own_lines, params)
        matches = match(program, forms, source_forms(program, bank), placed, pointers)
        constants = _constant_uses(program, elf.constants(image))
        found.append(_compiled(kernel, program, forms, placed, matches, constants, params, row))
    return tuple(found)


def _pointers(kernel: Kernel, spec: Spec, argument_bytes: int) -> dict[str, str]:
    """The array behind each word of constant bank 0. Arguments stand at the bank's end, each aligned to its size."""
    scalars = {scalar.name: scalar.dtype.bytes for scalar in spec.scalars}
    params = {param.name for param in spec.params}
    places: dict[str, int] = {}
    end = 0
    for name in kernel.arguments:
        size = scalars.get(name, 4 if name in params else _POINTER_BYTES)
        end += -end % size
        places[name] = end
        end += size
    base = argument_bytes - end
    own = {name: place for name, place in places.items() if name not in scalars and name not in params}
    return {f"c[0x0][{base + place:#x}]": name for name, place in own.items()}


def _placed(kernel: Kernel, lines: Sequence[int], params: Mapping[str, int]) -> list[Placed]:
    line_of = {id(access): line for access, line in zip(accesses(kernel.body), lines, strict=True)}
    behind = behind_barrier(kernel.body)
    found = [site for site in sites(kernel, params) if site.access.array.space in SPACES]
    return [Placed(site, line_of[id(site.access)], behind.get(id(site.access))) for site in found]


def _constant_uses(program: Program, symbols: Mapping[str, tuple[int, int]]) -> dict[str, tuple[Instruction, ...]]:
    """The instructions that read each `__constant__` variable, as a load or as an operand."""
    found: dict[str, list[Instruction]] = {}
    for instruction in program.instructions:
        for place in _BANK.findall(" ".join(instruction.operands)):
            numbers = re.findall(r"-?0x[0-9a-f]+", place)
            offset = int(numbers[-1], 16) if numbers else 0
            below = [(start, name) for name, (start, _) in symbols.items() if start <= offset]
            if below:
                uses = found.setdefault(max(below)[1], [])
                uses += [instruction] if instruction not in uses else []
    return {name: tuple(uses) for name, uses in found.items()}


def _compiled(
    kernel: Kernel,
    program: Program,
    forms: Mapping[int, Form],
    placed: Sequence[Placed],
    matches: Matches,
    constants: Mapping[str, tuple[Instruction, ...]],
    params: Mapping[str, int],
    target: Target,
) -> CompiledKernel:
    results = []
    code = code_of(kernel, params, program, forms, placed, matches)
    ends = {id(p.site.access): p.site for p in placed}
    dropped = [p.site for p, instructions in zip(placed, matches.instructions, strict=True) if not instructions]
    starts = {id(p.site.copy_target): p.site for p in placed if p.site.copy_target is not None}
    for place, instructions in zip(placed, matches.instructions, strict=True):
        if place.space == "constant":
            uses = constants.get(place.site.access.array.symbol, ())
            results.append(_constant_access(kernel, place, uses, target))
        elif place.site.copy_target is not None:
            reading = tuple(i for i in instructions if not fills(i))
            results.append(_copy_source(kernel, code, place, ends[id(place.site.copy_target)], reading, target))
        elif place.site.source_offset is not None:
            read = starts[id(place.site.access)]
            results.append(_copy_target(kernel, code, place, read, instructions, target))
        elif instructions and any(_are_branches(place.site, other) for other in dropped):
            both = replace(place, site=replace(place.site, predicates=place.site.predicates[:-1]))
            found = _access(kernel, code, both, instructions, target)
            why = "joined: one instruction stores what either branch would"
            written, _ = _total(kernel, (place.site,), target)
            results.append(replace(found, written=written[0] if written else None, changes=(*found.changes, why)))
        else:
            results.append(_access(kernel, code, place, instructions, target))
    results = _without_parted(kernel, _without_lenders(program, results))
    own: dict[str, tuple[Instruction, ...]] = {}
    arguments = tuple(
        i for i in program.instructions if i.space == "constant" and not _BANK.search(" ".join(i.operands))
    )
    if arguments:
        own["arguments and addresses"] = arguments
    if local := tuple(i for i in program.instructions if i.space == "local"):
        own["registers spilled or indexed"] = local
    return CompiledKernel(
        kernel.name,
        target.name,
        _warps(kernel, params),
        program,
        tuple(results),
        own,
        matches.shared_out,
        matches.unexplained,
    )


def _are_branches(one: Site, other: Site) -> bool:
    """Whether two stores write to one place, each where the other doesn't."""
    if one.access.kind != "store" or other.access.kind != "store" or not one.predicates or not other.predicates:
        return False
    (*outer, guard), (*others, last) = one.predicates, other.predicates
    place, its = ((site.access.array, site.offset, site.counters) for site in (one, other))
    return place == its and outer == others and last == replace(guard, negated=not guard.negated)


def _without_lenders(program: Program, results: Sequence[CompiledAccess]) -> list[CompiledAccess]:
    """Where an access takes values that another one has read, that one may have moved to where both can use it: if its
    instructions are scattered, how often they run isn't told."""
    borrowed = {r.access.array.name for r in results if r.reason.startswith("reused")}
    why = "reused: other accesses take its values, and its instructions are scattered"
    return [
        replace(r, compiled=None, executions=None, reason=why, changes=(*r.changes, why))
        if r.access.array.name in borrowed
        and r.compiled is not None
        and len({program.block_of(i) for i in r.instructions}) > 1
        else r
        for r in results
    ]


def _without_parted(kernel: Kernel, results: Sequence[CompiledAccess]) -> list[CompiledAccess]:
    """Lanes that wait for answers of their own part: what stands behind runs for those that go on together."""
    parted = {id(access) for access in _behind_waits(kernel.body)}
    return [
        replace(r, compiled=None, executions=None, reason=PARTED)
        if id(r.access) in parted and any(p.active > 1 for totals in r.compiled or () for p in totals.patterns)
        else r
        for r in results
    ]


def _behind_waits(nodes: Sequence[Node]) -> Iterator[Access]:
    """What is accessed after a wait, until the block's threads or the lanes of a warp meet again."""
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
                yield from _behind_waits(node.body)
            case If():
                yield from _behind_waits(node.then)
                yield from _behind_waits(node.orelse)


def _warps(kernel: Kernel, params: Mapping[str, int]) -> int:
    values = {symbol(name): integer(value) for name, value in params.items()}
    blocks = 1
    for extent in kernel.grid:
        blocks *= int(extent.xreplace(values))
    return blocks * -(-kernel.threads // 32)


def _constant_access(kernel: Kernel, place: Placed, uses: tuple[Instruction, ...], target: Target) -> CompiledAccess:
    """Reads at an address in a register cost requests; those at a known one are operands, and cost none."""
    addressed = tuple(u for u in uses if any(re.search(r"c\[0x3\]\[.*R\d", operand) for operand in u.operands))
    changes = []
    if known := len(uses) - len(addressed):
        changes.append(f"folded: {known} instructions name its place in the bank")
    if not uses:
        changes.append("dropped: its values stand in the code")
    written, reason = _total(kernel, (place.site,), target)
    compiled = written if addressed else ()
    return _result(place, uses, changes, written, compiled, reason if addressed else "")


def _access(
    kernel: Kernel, code: Code, place: Placed, instructions: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    written, reason = _total(kernel, (place.site,), target)
    if place.site.opaque == SPIN_WAIT:
        return _result(place, instructions, (), None, None, SPIN_WAIT)
    if not instructions:
        return _result(place, (), ["dropped: no instruction carries it out"], written, (), "", ())
    changes, shaped, why = made_of(code, place.site, instructions)
    if shaped is None:
        return _result(place, instructions, [*changes, why], written, None, why)
    compiled = written
    if shaped != (place.site,):
        compiled, reason = _total(kernel, shaped, target)
    if compiled is None and all(
        (site.opaque and site.opaque not in UNKNOWN_LANES) or site.source_offset for site in shaped
    ):
        # Which element is read is data, but not whether: at any one place it runs as often.
        anywhere = [replace(site, offset=integer(0), opaque="", source_offset=None) for site in shaped]
        runs, _ = _total(kernel, anywhere, target)
        return _result(place, instructions, changes, written, None, reason, runs)
    return _result(place, instructions, changes, written, compiled, reason, compiled)


def _copy_source(
    kernel: Kernel, code: Code, place: Placed, end: Site, instructions: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    """What a copy reads. One that passes L1 by fetches a sector once for each that it writes to."""
    found = _access(kernel, code, place, instructions, target)
    if found.compiled is None or found.written_bytes < async_copies.L1_BYPASS_BYTES:
        return found
    sources = copy_sources.lane_sources(place.site.offset, kernel.block, place.site.access.array.dtype.bytes)
    aligned = all(totals.sectors == totals.ideal_sectors for totals in found.compiled)
    if aligned and sources is not None and async_copies.are_sector_pairs(sources):
        written, _ = site_totals(kernel, replace(end, source_offset=None, source_guard=None), target)
        if all(async_copies.are_sector_pairs(pattern.lanes) for pattern in written.patterns):
            return found
    return replace(found, compiled=None, reason=_PARTS_OF_SECTORS)


def _copy_target(
    kernel: Kernel, code: Code, place: Placed, read: Site, instructions: tuple[Instruction, ...], target: Target
) -> CompiledAccess:
    """What a copy writes: by the instructions that read, and by those that write zeros where the guard of the source
    fails."""
    place = replace(place, site=replace(place.site, source_guard=None))  # what is held back is counted by instructions
    filling = tuple(i for i in instructions if fills(i))
    if not filling:
        return _access(
            kernel, code, replace(place, site=replace(place.site, predicates=read.predicates)), instructions, target
        )
    site = place.site
    if read.predicates == site.predicates:
        why = "mistaken: the compiler gives instructions of another copy, which write zeros, the lines of this one"
        return _result(place, instructions, [why], _total(kernel, (site,), target)[0], None, why)
    *outer, guard = read.predicates
    parts = (
        (replace(site, predicates=read.predicates), tuple(i for i in instructions if i not in filling)),
        (
            replace(site, predicates=(*outer, replace(guard, negated=True)), source_offset=None),  # nothing is read
            filling,
        ),
    )
    written, _ = _total(kernel, (site,), target)
    changes: list[str] = []
    compiled: list[Totals] = []
    executions = 0
    unknown = ""
    for part, own in parts:
        found, shaped, why = made_of(code, part, own) if own else ([], (), "")
        changes += found
        if shaped is None:
            return _result(place, instructions, [*changes, why], written, None, why)
        runs, why = _total(kernel, [replace(piece, source_offset=None) for piece in shaped], target)
        costs, reason = _total(kernel, shaped, target)
        if runs is None:
            return _result(place, instructions, changes, written, None, why)
        executions += sum(totals.warps for totals in runs)
        compiled += costs or ()
        unknown = unknown or reason
    changes.append(f"filled: {len(filling)} instructions write the zeros")
    if (
        written
        and written[0].lanes
        and site.access.array.dtype.bytes * site.access.width == async_copies.L1_BYPASS_BYTES
    ):
        compiled = list(written)  # those that read and those that fill cost what one would that did both
    total = None if unknown else tuple(compiled)
    return replace(_result(place, instructions, changes, written, total, unknown), executions=executions)


def _result(
    place: Placed,
    instructions: tuple[Instruction, ...],
    changes: Sequence[str],
    written: tuple[Totals, ...] | None,
    compiled: tuple[Totals, ...] | None,
    reason: str,
    runs: tuple[Totals, ...] | None = None,
) -> CompiledAccess:
    access = place.site.access
    return CompiledAccess(
        access,
        place.space,
        place.line,
        access.array.dtype.bytes * access.width,
        instructions,
        tuple(changes),
        written[0] if written else None,
        compiled,
        None if runs is None else sum(totals.warps for totals in runs),
        reason,
    )


def _total(kernel: Kernel, shaped: Sequence[Site], target: Target) -> tuple[tuple[Totals, ...] | None, str]:
    totals = []
    try:
        for site in shaped:
            found, assumptions = site_totals(kernel, site, target)
            if async_copies.OTHER_SOURCES in assumptions:
                raise Unknown(async_copies.OTHER_SOURCES)
            totals.append(found)
    except (Unknown, ValueError) as why:  # ValueError: no such instruction could read these addresses
        return None, str(why)
    return tuple(totals), ""
