"""Copies of operands that TMA or wgmma can't read: rows that begin anywhere, and 8- and 32-bit elements that aren't
contiguous along K. The copies have rows that are multiples of 128 bytes apart, in the workspace:

    C[m, n] = sum(A[m, k] * B[k, n], k)
becomes
    A_copy[m, k] = A[m, k];  B_copy[n, k] = B[k, n]
    C[m, n] = sum(A_copy[m, k] * B_copy[n, k], k)
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm.wgmma.operands import layout_refusal, operand_refusals
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WgmmaInstruction
from cugen.plan.request import Single, Steps
from cugen.rewrite.temporaries import Temporary, fresh, steps_of, temporary
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


def with_aligned_copies(single: Single, contraction: Contraction, instruction: WgmmaInstruction) -> Steps | None:
    """The copies and the contraction of them; None if no operand needs one, or a copy doesn't help."""
    if any(any(operand_refusals(operand)) for operand in contraction.operands):
        return None
    copied = [o for o in contraction.operands if layout_refusal(contraction, o, instruction)]
    if not copied:
        return None
    spec, indices = single.context.spec, contraction.indices
    taken = {*(a.name for a in spec.arrays), *(p.name for p in spec.params), *(s.name for s in spec.scalars)}
    taken |= {index.name for index in indices}
    copies = {o.read: _copy(single, contraction, o, instruction, taken) for o in copied}
    value = replaced(single.statement.value, lambda node: copies[node].read if node in copies else None)
    return steps_of(tuple(copies.values()), replace(single.statement, value=value))


def _copy(
    single: Single, contraction: Contraction, operand: Operand, instruction: WgmmaInstruction, taken: set[str]
) -> Temporary:
    """A copy of an operand, contiguous along K if the instruction asks for that, else along what the operand is."""
    array, k = operand.read.array, contraction.k
    names = [sub.name for sub in operand.read.subscripts if isinstance(sub, IndexValue)]
    if not operand.is_k_major and not instruction.may_be_mn_major:
        names = [*(name for name in names if name != k.name), k.name]
    known = {index.name: index for index in (*contraction.batch, contraction.m, contraction.n, k)}
    indices = tuple(known[name] for name in names)
    dtype = single.context.spec.array(array).dtype
    what = f"{array}, in rows that TMA reads"
    copy = temporary(fresh(f"{array}_copy", taken), indices, operand.read, what, single.statement, is_stored=True)
    strides = _pitched(indices, SWIZZLED_ROW_BYTES // dtype.bytes)
    return replace(copy, array=replace(copy.array, dtype=dtype, strides=strides))


def _pitched(indices: tuple[Index, ...], multiple: int) -> tuple[Expr, ...]:
    """Row-major strides of rows that are multiples of so many elements apart."""
    *_, last = indices
    rows = Op("floordiv", (Op("add", (last.extent, _number(multiple - 1)), INT64), _number(multiple)), INT64)
    stride: Expr = Op("mul", (rows, _number(multiple)), INT64)
    strides: list[Expr] = [_number(1)]
    for index in reversed(indices[:-1]):
        strides.append(stride)
        stride = Op("mul", (index.extent, stride), INT64)
    return tuple(reversed(strides))


def _number(value: int) -> Const:
    return Const(value, INT64)
