"""Tensor-core instructions of a kernel, by the MMA or wgmma of the plan that each belongs to.

Compilers neither merge nor repeat them, but may make several smaller ones of an MMA, by its K or its rows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import ProgramPoint, Site, sites, steps
from cugen.analysis.verdicts.async_proxy import instruction_totals
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.transformations.code import unrolled_loops
from cugen.compiled.transformations.transformed_sites import is_loop
from cugen.machine.wgmma import WARPS_OF_WARPGROUP
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Mma
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.traversal.walking import walk_nodes

_OF_WARPGROUPS = ("HGMMA", "IGMMA", "QGMMA")
_NAMES = ("HMMA", "IMMA", "DMMA", "QMMA", *_OF_WARPGROUPS)
_SHAPE = re.compile(r"(16|8)x?(8)x?(\d+)$")  # M, N and K: `HMMA.16816`, `DMMA.16x8x4`
_WARPGROUP_SHAPE = re.compile(r"(64)x(\d+)x(\d+)$")  # `HGMMA.64x256x16`
_LANES = 32  # of a warp (CUDA programming guide)


@dataclass(frozen=True)
class CompiledMma:
    """One MMA or wgmma of the plan with its instructions.

    executions: warp-level executions of its instructions over the launch; None, with a `reason`, if unknown.
    wavefronts: of the operands of wgmma in shared memory; None if unknown, 0 for an MMA."""

    node: Mma | Wgmma
    line: int
    instructions: tuple[Instruction, ...]
    executions: int | None
    reason: str = ""
    wavefronts: int | None = 0


def compiled_mmas(
    kernel: Kernel, program: Program, line_of: Mapping[int, int], params: Mapping[str, int]
) -> tuple[tuple[CompiledMma, ...], tuple[Instruction, ...]]:
    """The MMAs of a kernel, and the tensor-core instructions that belong to none.

    line_of: source line of each access, by its serial number."""
    counts, unrolled = ExecutionCounts(kernel.block), unrolled_loops(kernel)
    unexplained = [i for i in program.instructions if i.name in _NAMES]
    wgmmas = sorted(line_of[n.acc_upper.serial] for n in walk_nodes(kernel.body) if isinstance(n, Wgmma))
    operands = {site.access.serial: site for site in sites(kernel, params) if site.access.kind == "operand"}
    result = []
    for step in steps(kernel, params):
        if isinstance(step.node, Mma | Wgmma):
            line = line_of[step.node.acc_upper.serial]
            instructions = tuple(i for i in unexplained if _call_line(i, wgmmas) == line)
            unexplained = [i for i in unexplained if i not in instructions]
            is_straight = all(program.loop_of(i) is None for i in instructions)
            trips = unrolled_trips(step.point, unrolled, is_straight=is_straight)
            parts, reason = _parts(step.node, trips, instructions, is_straight=is_straight)
            executions, reason = (None, reason) if reason else _executions(counts, step.point, parts)
            compiled = CompiledMma(step.node, line, instructions, executions, reason)
            if isinstance(step.node, Wgmma):
                compiled = replace(compiled, wavefronts=_operand_wavefronts(kernel, step.node, operands))
            result.append(compiled)
    return tuple(result), tuple(unexplained)


def _call_line(instruction: Instruction, wgmmas: Sequence[int]) -> int:
    """The line of the call that an instruction is of. ptxas gives some wgmmas the line of a call in their arguments, or
    of what follows them: theirs is the last of the lines `wgmmas` before it."""
    if instruction.name not in _OF_WARPGROUPS or not wgmmas:
        return instruction.line
    return wgmmas[max(0, bisect_right(wgmmas, instruction.line) - 1)]


def _operand_wavefronts(kernel: Kernel, node: Wgmma, operands: Mapping[int, Site]) -> int | None:
    try:
        each = [instruction_totals(kernel, operands[access.serial])[0] for access in (node.a, node.b)]
    except Unknown:
        return None
    return sum(totals.wavefronts for totals in each)


def unrolled_trips(point: ProgramPoint, unrolled: Container[str], *, is_straight: bool) -> int:
    """Copies of a statement in machine code: the trips of the unrolled loops round it, of all if code is in none."""
    loops = {str(c.symbol): c.count for c in point.counters if is_loop(c)}
    return prod(count for name, count in loops.items() if is_straight or name in unrolled)


def _parts(node: Mma | Wgmma, trips: int, instructions: Sequence[Instruction], *, is_straight: bool) -> tuple[int, str]:
    """Instructions of one MMA, and why they are unknown: their multiply-adds must make up its own in each of the trips
    of unrolled loops. Inside of a loop there may be several iterations of them."""
    sizes = {multiply_adds(i) for i in instructions}
    size, of_node = max(sizes, default=0), node.multiply_adds * _LANES
    if len(sizes) == 1 and size and of_node % size == 0:
        parts, count = of_node // size, len(instructions)
        if count == parts * trips or (not is_straight and count % (parts * trips) == 0):
            return parts, ""
    return 0, f"unexplained: {len(instructions)} instructions for {trips} trips of {of_node} multiply-adds"


def _executions(counts: ExecutionCounts, point: ProgramPoint, parts: int) -> tuple[int | None, str]:
    try:
        executed = counts.of(point)
    except Unknown as why:
        return None, str(why)
    return (executed.warps * parts, "") if executed.exact else (None, point.opaque)


def multiply_adds(instruction: Instruction) -> int:
    """Multiply-adds of a warp that a tensor-core instruction makes; 0 if its shape is unknown."""
    shape = instruction.opcode.split(".")[1]
    if of_warpgroup := _WARPGROUP_SHAPE.match(shape):
        return prod(map(int, of_warpgroup.groups())) // WARPS_OF_WARPGROUP
    of_warp = _SHAPE.match(shape)
    return prod(map(int, of_warp.groups())) if of_warp else 0
