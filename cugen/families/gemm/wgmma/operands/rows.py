"""Which contraction of a request wgmma computes."""

from __future__ import annotations

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.wgmma.operands.pixels import images_of
from cugen.machine.target import MAX_TENSOR_DIMENSIONS
from cugen.plan.request import Refusal, Request


def recognise_gemm(request: Request, *, takes_windows: bool = False) -> Contraction | Refusal:
    """As `recognise`, with matrices in place of windows that TMA can't copy, and fused batch indices where an operand
    has more dimensions than a tensor map."""
    contraction = recognise(request, takes_windows=takes_windows, takes_scales=True)
    if isinstance(contraction, Refusal):
        return contraction
    alternative: Contraction | Refusal = contraction
    if windows := [operand for operand in contraction.operands if operand.window is not None]:
        if any(isinstance(images_of(contraction, operand), str) for operand in windows):
            alternative = recognise(request, takes_scales=True)
    elif any(len(operand.array.shape) > MAX_TENSOR_DIMENSIONS for operand in contraction.operands):
        alternative = recognise(request, fuses_batch=True, takes_scales=True)
    return contraction if isinstance(alternative, Refusal) else alternative
