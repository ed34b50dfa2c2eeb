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

from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import Site, sites
from cugen.analysis.verdicts.constant_reasons import bytes_read
from cugen.compiled import sass
from cugen.compiled.accesses import (
    CompiledAccess,
    compiled_access,
    constant_access,
    copy_source,
    copy_target,
    totals_of,
)
from cugen.compiled.addresses import Form, address_forms, source_forms
from cugen.compiled.matching import SPACES, Matches, PrintedSite, after_barrier, fills_zeros, match
from cugen.compiled.mmas import CompiledMma, compiled_mmas
from cugen.compiled.ptx_lines import check_same_compilation, source_lines
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.tensor_copies import CompiledCopy, compiled_copies
from cugen.compiled.transformations.code import Code, code_of
from cugen.compiled.transformations.differences import SOME_TRIPS
from cugen.machine import Target
from cugen.machine import target as known_target
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
_MISTAKEN = "eliminated: it has fewer instructions than trips, and some may be of another access"


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
    def total(site: Site) -> Totals | None:
        return next(iter(totals_of(kernel, (site,), target)[0] or ()), None)

    code = code_of(kernel, params, program, forms, printed, matches, total)
    results = _compiled_accesses(kernel, code, printed, matches, constants, target)
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


def _compiled_accesses(
    kernel: Kernel,
    code: Code,
    printed: Sequence[PrintedSite],
    matches: Matches,
    constants: Mapping[str, tuple[Instruction, ...]],
    target: Target,
) -> list[CompiledAccess]:
    """The accesses, each by its own instructions alone."""
    results = []
    ends = {p.site.access.serial: p.site for p in printed}
    dropped = [p.site for p, instructions in zip(printed, matches.instructions, strict=True) if not instructions]
    starts = {p.site.copy_target.serial: p.site for p in printed if p.site.copy_target is not None}
    for printed_site, instructions in zip(printed, matches.instructions, strict=True):
        if printed_site.space == "constant":
            uses = constants.get(printed_site.site.access.array.symbol, ())
            results.append(constant_access(kernel, printed_site, uses, target))
        elif printed_site.site.copy_target is not None:
            reading = tuple(i for i in instructions if not fills_zeros(i))
            results.append(
                copy_source(kernel, code, printed_site, ends[printed_site.site.copy_target.serial], reading, target)
            )
        elif printed_site.site.source_offset is not None:
            read = starts[printed_site.site.access.serial]
            results.append(copy_target(kernel, code, printed_site, read, instructions, target))
        elif instructions and any(_are_exclusive_stores(printed_site.site, second) for second in dropped):
            both = replace(printed_site, site=replace(printed_site.site, predicates=printed_site.site.predicates[:-1]))
            result = compiled_access(kernel, code, both, instructions, target)
            why = "merged: one instruction stores for both branches"
            written, _ = totals_of(kernel, (printed_site.site,), target)
            results.append(replace(result, written=written[0] if written else None, changes=(*result.changes, why)))
        else:
            results.append(compiled_access(kernel, code, printed_site, instructions, target))
    return results


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
