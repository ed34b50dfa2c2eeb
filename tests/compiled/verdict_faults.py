"""What machine code has and the analysis, which has no compiler, doesn't tell: divergent branches and local memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.analysis.launches.facts import Facts, facts
from cugen.compiled.branches import explained_lines, programs, subroutine_blocks
from cugen.compiled.ptx_lines import check_same_compilation
from cugen.compiled.sass import Program
from cugen.kernel import Kernel
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.nodes import For
from cugen.plan.traversal.walking import values_of, walk_nodes
from cugen.toolchain.codes import TARGET_UNKNOWN
from cugen.toolchain.cuda import Cubin, compile_cubin, compile_ptx
from cugen.toolchain.errors import CompileError

from .data_dependence import data_dependent_branches

OLDEST = "sm_75"  # that compilers of CUDA 13 know


def compiled_for(kernel: Kernel) -> tuple[Cubin, str]:
    """The machine code for the spec's target, and the target; for an older one, that of the oldest known."""
    try:
        return compile_cubin(kernel.source, kernel.name, kernel.spec.target), kernel.spec.target
    except CompileError as error:
        if error.code != TARGET_UNKNOWN:
            raise
    return compile_cubin(kernel.source, kernel.name, OLDEST), OLDEST


def has_lines(image: bytes, ptx: str) -> bool:
    """Whether the PTX is that of the machine code. Rarely, two runs of a compiler number registers differently."""
    try:
        check_same_compilation(image, ptx)
    except ValueError:
        return False
    return True


def verdict_faults(kernel: Kernel, params: Mapping[str, int]) -> Iterator[str]:
    """params: values of all params, by their names in the spec."""
    cubin, target = compiled_for(kernel)
    ptx = compile_ptx(kernel.source, kernel.name, target)
    if not has_lines(cubin.image, ptx):
        return
    machine_code = programs(cubin.image, ptx)
    lines = kernel.statement_lines()
    values = {symbol.name: params[name] for name, symbol in kernel.context.symbols.items()}
    for launch in kernel.plan.kernels:
        known = facts(launch, kernel.context, target, values)
        program = machine_code[launch.name]
        yield from _branch_faults(launch, known, program, lines)
        yield from _local_faults(launch, known, program, cubin)


def _branch_faults(launch: PlannedKernel, known: Facts, program: Program, lines: Mapping[int, range]) -> Iterator[str]:
    """Branches that depend on data, at statements of which the analysis says nothing."""
    explained = explained_lines(known, launch, lines)
    has_functions = any(branch.kind in ("function", "conversion") for branch in known.branches)
    has_loops = any(isinstance(node, For) for node in walk_nodes(launch.body))
    subroutines = subroutine_blocks(program)
    # Line tables have hoisted code at no line, or at that of a statement which computes indices alone.
    with_values = {line for n in walk_nodes(launch.body) if values_of(n) for line in lines.get(id(n), ())}
    for branch in data_dependent_branches(program):
        is_in_subroutine = program.block_of(branch) in subroutines
        is_hoisted = branch.line not in with_values
        is_explained = branch.line in explained and not is_in_subroutine
        is_named = has_functions if is_in_subroutine else is_hoisted and (has_functions or has_loops)
        if not is_explained and not is_named:
            yield f"{launch.name}: {branch.opcode} in line {branch.line} depends on data"


def _local_faults(launch: PlannedKernel, known: Facts, program: Program, cubin: Cubin) -> Iterator[str]:
    """Local memory without a verdict; a spill is none, nor is a register that a subroutine saves."""
    resources, subroutines = cubin.kernels[launch.name], subroutine_blocks(program)
    instructions = [i for i in program.instructions if i.space == "local"]
    saves_registers = any(program.block_of(instruction) in subroutines for instruction in instructions)
    if resources.spill_stores or saves_registers:
        return
    if known.local.high == 0 and (instructions or resources.stack_bytes):
        yield f"{launch.name}: {len(instructions)} instructions of local memory, {resources.stack_bytes} bytes"
    elif resources.stack_bytes > known.local.high:
        yield f"{launch.name}: {resources.stack_bytes} bytes of local memory, at most {known.local.high} are expected"
