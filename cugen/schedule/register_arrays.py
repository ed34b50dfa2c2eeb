"""Arrays that a spec asks to keep in registers, but whose subscripts are known at run time only."""

from __future__ import annotations

from cugen.plan.kernel import Kernel
from cugen.plan.registers.estimate import dynamic_arrays
from cugen.plan.request import Refusal, Request
from cugen.plan.traversal import usage
from cugen.spec.expressions import Read, free_indices, walk
from cugen.spec.prove.affine import text_of


def moving_subscripts(kernel: Kernel, request: Request) -> tuple[Refusal, ...]:
    """Why the kernel can't keep an input or a baked array in registers: compilers keep what they can't index at compile
    time in local memory."""
    requested = [a.name for a in request.touched() if a.memory.space == "register" and a.role in ("input", "baked")]
    if not requested:
        return ()
    dynamic = dynamic_arrays(kernel, request.context)
    arrays = (array for array in usage.arrays(kernel.body) if array.symbol in dynamic and array.name in requested)
    return tuple(_refusal(array.name, request) for array in arrays)


def _refusal(name: str, request: Request) -> Refusal:
    read = max((read for read in request.reads() if read.array == name), key=lambda read: _moves(read, request))
    reason = f"a register array needs static subscripts, and that of {text_of(read)} is known at run time only"
    return Refusal(f"{reason}: use shared or constant memory", f"arrays.{name}.memory")


def _moves(read: Read, request: Request) -> tuple[bool, bool]:
    """Whether a read depends on data or on the indices of the results; else it is in a loop that isn't unrolled."""
    outer = {index.name for statement in request.group.statements for index in statement.indices}
    gathers = any(isinstance(part, Read) for subscript in read.subscripts for part in walk(subscript))
    return gathers, bool(free_indices(read) & outer)
