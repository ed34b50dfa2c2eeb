"""Tensor cores that a kernel leaves idle although they take the types of its sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.machine.mma import MmaInstruction, instruction_for
from cugen.plan.kernel import IdleUnit, Kernel
from cugen.plan.nodes import Mma
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.request import Request
from cugen.plan.traversal.walking import walk_nodes
from cugen.schedule.unused_precisions import products


def with_idle_unit(kernel: Kernel, request: Request) -> Kernel:
    """The kernel with the tensor cores that it leaves idle; the family may have said why."""
    instruction = next(_instructions(request), None)
    if instruction is None or any(isinstance(node, Mma | Wgmma) for node in walk_nodes(kernel.body)):
        return replace(kernel, idle_unit=None) if kernel.idle_unit else kernel
    if kernel.idle_unit is not None:
        return kernel
    return replace(kernel, idle_unit=IdleUnit(instruction.peak, f"`{kernel.family}` multiplies on CUDA cores"))


def _instructions(request: Request) -> Iterator[MmaInstruction]:
    """The instructions of the target for the types of the sums of products."""
    arrays, precision = request.context.arrays, request.context.spec.precision
    for a, b, accumulated in products(request.group.statements, arrays):
        instruction = instruction_for(
            a, b, accumulated, request.target, tf32=precision.tf32, fast_fp8=precision.is_fp8_fast
        )
        if instruction is not None and instruction.feature.is_on(request.target):
            yield instruction
