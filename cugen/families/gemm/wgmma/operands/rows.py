"""Which contraction of a request wgmma computes. Where A and the output have several indices that B hasn't, one is M:

    C[b, i, m, n] = sum(A[b, i, m, k] * B[b, k, n], k)
has tiles whose rows are along i or along m, and the other indices are a batch. A short M leaves rows of a tile unused.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.recognition import Contraction, is_plain, operand_of, recognise
from cugen.families.gemm.wgmma.operands.pixels import images_of
from cugen.machine.target import MAX_TENSOR_DIMENSIONS
from cugen.machine.wgmma import WGMMA_M
from cugen.pieces.grid import fastest_first
from cugen.pieces.vectors import is_contiguous
from cugen.plan.request import Refusal, Request
from cugen.spec.expressions import Index, free_indices


def recognise_gemm(request: Request, *, takes_windows: bool = False) -> Contraction | Refusal:
    """As `recognise`, with the M that wgmma has tiles for, matrices in place of windows that TMA can't copy, and fused
    batch indices where an operand has more dimensions than a tensor map."""
    contraction = recognise(request, takes_windows=takes_windows, takes_scales=True)
    if isinstance(contraction, Refusal):
        return contraction
    alternative: Contraction | Refusal = contraction
    if windows := [operand for operand in contraction.operands if operand.window is not None]:
        if any(isinstance(images_of(contraction, operand), str) for operand in windows):
            alternative = recognise(request, takes_scales=True)
    elif any(len(operand.array.shape) > MAX_TENSOR_DIMENSIONS for operand in contraction.operands):
        alternative = recognise(request, fuses_batch=True, takes_scales=True)
    return _with_long_rows(contraction if isinstance(alternative, Refusal) else alternative)


@lru_cache(maxsize=16)
def _with_long_rows(contraction: Contraction) -> Contraction:
    """The contraction whose M is the index that the schedule has a size for, else the fastest of those that have the
    rows of an instruction, else the longest. An operand that TMA can copy stays one."""
    if any(operand.window is not None for operand in contraction.operands):
        return contraction
    reads_a, reads_b = ([o.read for o in operands] for operands in (contraction.a_operands, contraction.b_operands))
    candidates = [
        _with_m(contraction, index)
        for index in fastest_first(contraction.request)
        if index != contraction.n
        and not any(index.name in free_indices(read) for read in reads_b)
        and is_plain(index.name, reads_a)
    ]
    scheduled = [c for c in candidates if c.m.name in dict(contraction.request.schedule.block)]
    return max(scheduled or filter(_is_contiguous, candidates), key=_rows_of_instruction, default=contraction)


def _is_contiguous(contraction: Contraction) -> bool:
    """Whether A is contiguous along K or M."""
    names = contraction.k.name, contraction.m.name
    return all(any(is_contiguous(o.array, o.read.subscripts, i) for i in names) for o in contraction.a_operands)


def _rows_of_instruction(contraction: Contraction) -> int:
    return min(contraction.context.planned_extent(contraction.m), WGMMA_M)


def _with_m(contraction: Contraction, m: Index) -> Contraction:
    if m == contraction.m:
        return contraction
    request, k = contraction.request, contraction.k
    operands = (operand_of(request, o.read, m, k, None, is_along_m=True) for o in contraction.a_operands)
    batch = (index for index in fastest_first(request) if index not in (m, contraction.n))
    return replace(contraction, m=m, batch=tuple(batch), a_operands=tuple(operands))
