"""Tensor-core instructions of a kernel, by the MMA of the plan that each belongs to.

Compilers neither merge nor repeat them, but may make several smaller ones of one, by its K or its rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import ProgramPoint, steps
from cugen.compiled.differences import unrolled_loops
from cugen.compiled.sass import Instruction, Program
from cugen.compiled.transformed_sites import is_loop
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Mma

_NAMES = ("HMMA", "IMMA", "DMMA", "QMMA")
_SHAPE = re.compile(r"(16|8)x?(8)x?(\d+)$")  # M, N and K: `HMMA.16816`, `DMMA.16x8x4`
_LANES = 32  # of a warp (CUDA programming guide)


@dataclass(frozen=True)
class CompiledMma:
    """One MMA of the plan with its instructions.

    executions: warp-level executions of its instructions over the launch; None, with a `reason`, if unknown."""

    node: Mma
    line: int
    instructions: tuple[Instruction, ...]
    executions: int | None
    reason: str = ""


def compiled_mmas(
    kernel: Kernel, program: Program, line_of: Mapping[int, int], params: Mapping[str, int]
) -> tuple[tuple[CompiledMma, ...], tuple[Instruction, ...]]:
    """The MMAs of a kernel, and the tensor-core instructions that belong to none.

    line_of: source line of each access, by its serial number."""
    counts, unrolled = ExecutionCounts(kernel.block), unrolled_loops(kernel)
    unexplained = [i for i in program.instructions if i.name in _NAMES]
    result = []
    for step in steps(kernel, params):
        if isinstance(step.node, Mma):
            line = line_of[step.node.acc_upper.serial]
            instructions = tuple(i for i in unexplained if i.line == line)
            unexplained = [i for i in unexplained if i.line != line]
            loops = {str(c.symbol): c.count for c in step.point.counters if is_loop(c)}
            is_straight = all(program.loop_of(i) is None for i in instructions)
            trips = prod(count for name, count in loops.items() if is_straight or name in unrolled)
            parts, reason = _parts(step.node, trips, instructions, is_straight=is_straight)
            executions, reason = (None, reason) if reason else _executions(counts, step.point, parts)
            result.append(CompiledMma(step.node, line, instructions, executions, reason))
    return tuple(result), tuple(unexplained)


def _parts(node: Mma, trips: int, instructions: Sequence[Instruction], *, is_straight: bool) -> tuple[int, str]:
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
    shape = _SHAPE.match(instruction.opcode.split(".")[1])
    return prod(map(int, shape.groups())) if shape else 0
