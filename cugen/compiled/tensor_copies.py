"""TMA instructions of a kernel, by the copy of the plan that each belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import Site, sites, steps
from cugen.analysis.verdicts.async_proxy import boxes_of, instruction_totals
from cugen.compiled.mmas import unrolled_trips
from cugen.compiled.sass import TENSOR_COPIES, Instruction, Program
from cugen.compiled.transformations.code import unrolled_loops
from cugen.machine.requests.boxes import LINE_BYTES, box_bytes, received_sectors
from cugen.machine.requests.warp import WORD_BYTES
from cugen.plan.kernel import Kernel
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore


@dataclass(frozen=True)
class CompiledCopy:
    """One copy of boxes of the plan with its instructions.

    executions: by one thread each, over the launch; None, with a `reason`, if unknown. So are words of shared memory,
    of 4 bytes, which are written, or those inside the array, which are read; and the sectors that a load receives."""

    node: TensorLoad | TensorStore
    line: int
    instructions: tuple[Instruction, ...]
    executions: int | None = None
    words: int | None = None
    sectors: int | None = None
    reason: str = ""


def compiled_copies(
    kernel: Kernel, program: Program, line_of: Mapping[int, int], params: Mapping[str, int]
) -> tuple[tuple[CompiledCopy, ...], tuple[Instruction, ...]]:
    """The copies of a kernel, and the TMA instructions that belong to none.

    line_of: source line of each access, by its serial number."""
    unrolled = unrolled_loops(kernel)
    unexplained = [i for i in program.instructions if i.name in TENSOR_COPIES]
    of_access = {site.access.serial: site for site in sites(kernel, params)}
    result = []
    for step in steps(kernel, params):
        node = step.node
        if not isinstance(node, TensorLoad | TensorStore):
            continue
        name = "UTMALDG" if isinstance(node, TensorLoad) else "UTMASTG"
        line = line_of[node.source.serial]
        instructions = tuple(i for i in unexplained if i.line == line and i.name == name)
        unexplained = [i for i in unexplained if i not in instructions]
        is_straight = all(program.loop_of(i) is None for i in instructions)
        trips = unrolled_trips(step.point, unrolled, is_straight=is_straight)
        compiled = CompiledCopy(node, line, instructions)
        if not instructions or len(instructions) % trips:
            reason = f"unexplained: {len(instructions)} instructions for {trips} trips"
            result.append(replace(compiled, reason=reason))
            continue
        try:
            result.append(_counted(kernel, of_access, compiled))
        except Unknown as why:
            result.append(replace(compiled, reason=str(why)))
    return tuple(result), tuple(unexplained)


def _counted(kernel: Kernel, of_access: Mapping[int, Site], copy: CompiledCopy) -> CompiledCopy:
    shared, mapped = copy.node.target, copy.node.source
    if isinstance(copy.node, TensorStore):
        shared, mapped = mapped, shared
    launch = boxes_of(kernel, of_access[mapped.serial])
    executions = sum(each.count for each in launch)
    if isinstance(copy.node, TensorStore):
        words = sum(box_bytes(each.extents) * each.count for each in launch) // WORD_BYTES
        return replace(copy, executions=executions, words=words)
    tensor_map = mapped.array.tensor_map
    assert tensor_map is not None
    tile, _ = instruction_totals(kernel, of_access[shared.serial])
    sectors = sum(received_sectors(each.extents, tensor_map.box) * each.count for each in launch)
    return replace(
        copy,
        executions=executions,
        words=tile.wavefronts * LINE_BYTES // WORD_BYTES,
        sectors=sectors if tensor_map.pixels is None else None,  # those of pixels outside aren't measured
    )
