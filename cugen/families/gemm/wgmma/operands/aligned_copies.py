"""Copies of operands that TMA or wgmma can't read: rows that begin anywhere, and 8- and 32-bit elements that aren't
contiguous along K. The copies have rows that are multiples of 128 bytes apart, in the workspace:

    C[m, n] = sum(A[m, k] * B[k, n], k)
becomes
    A_copy[m, k] = A[m, k];  B_copy[n, k] = B[k, n]
    C[m, n] = sum(A_copy[m, k] * B_copy[n, k], k)

Indices that the contraction has fused are those of the spec again: a row is what was fused with the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.contraction.scales import without_scales
from cugen.families.gemm.wgmma.operands.tiles import layout_refusal, operand_refusals
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WgmmaInstruction
from cugen.plan.request import Single, Steps
from cugen.rewrite.align_reductions import with_common_indices
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.fuse_dimensions import product, with_fused_dimensions
from cugen.rewrite.temporaries import Temporary, steps_of, temporary
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, bound_indices, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.resolve.statements import dense_strides
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class _Unfused:
    """The statement of a contraction over the indices of the spec: the read of each operand, and of which indices each
    one of the contraction was fused."""

    statement: Statement
    reads: Mapping[Read, Read]
    parts: Mapping[str, tuple[Index, ...]]


def with_aligned_copies(single: Single, contraction: Contraction, instruction: WgmmaInstruction) -> Steps | None:
    """The copies and the contraction of them; None if no operand needs one, or a copy doesn't help."""
    if any(any(operand_refusals(operand)) for operand in contraction.operands):
        return None
    copied = [o for o in contraction.operands if layout_refusal(contraction, o, instruction)]
    if not copied:
        return None
    spec, unfused = single.context.spec, _unfused(single, contraction)
    taken = taken_names(spec, (index for parts in unfused.parts.values() for index in parts))
    copies: dict[Expr, Expr] = {}
    temporaries = []
    for operand in copied:
        copy = _copy(single, contraction, operand, unfused, instruction, taken)
        if copy is None:
            return None
        copies[unfused.reads[operand.read]] = copy.read
        temporaries.append(copy)
    value = replaced(unfused.statement.value, copies.get)
    return steps_of(temporaries, replace(unfused.statement, value=value))


def _unfused(single: Single, contraction: Contraction) -> _Unfused:
    (statement,) = with_common_indices((single.statement,), single.context)
    (fused,) = contraction.request.group.statements
    scaled = None if contraction.scales is None else without_scales(single.request().with_statements((statement,)))
    (unscaled,) = scaled[0].group.statements if scaled else (statement,)
    reads = ((node for node in walk(value) if isinstance(node, Read)) for value in (fused.value, unscaled.value))
    origins = with_fused_dimensions((unscaled,), single.context).origins
    parts = {index.name: origins.get(index.name, (index,)) for index in contraction.indices}
    return _Unfused(statement, dict(zip(*reads, strict=True)), parts)


def _copy(
    single: Single,
    contraction: Contraction,
    operand: Operand,
    unfused: _Unfused,
    instruction: WgmmaInstruction,
    taken: set[str],
) -> Temporary | None:
    """A copy of an operand, contiguous along K if the instruction asks for that or K has the smaller stride, else along
    M or N; None where it is read at an expression in other indices."""
    read, k = unfused.reads[operand.read], contraction.k
    is_k_major = operand.is_k_major or not instruction.may_be_mn_major
    last = k.name if is_k_major else operand.mn.name
    names = [sub.name for sub in operand.read.subscripts if isinstance(sub, IndexValue) and sub.name != last] + [last]
    dimensions = [unfused.parts[name] for name in names]
    indices = tuple(index for parts in dimensions for index in parts)
    others = free_indices(read) - {index.name for index in indices}
    if any(single.context.static_extent(i) != 1 for i in _bound(unfused.statement) if i.name in others):
        return None
    first = replaced(read, lambda node: _number(0) if isinstance(node, IndexValue) and node.name in others else None)
    dtype = single.context.spec.array(read.array).dtype
    what = f"{read.array}, in rows that TMA reads"
    name = fresh(f"{read.array}_copy", taken)
    copy = temporary(name, indices, first, what, single.statement, is_stored=True)
    strides = _pitched(dimensions, SWIZZLED_ROW_BYTES // dtype.bytes)
    return replace(copy, array=replace(copy.array, dtype=dtype, strides=strides))


def _bound(statement: Statement) -> tuple[Index, ...]:
    return (*statement.indices, *bound_indices(statement.value))


def _pitched(dimensions: Sequence[tuple[Index, ...]], multiple: int) -> tuple[Expr, ...]:
    """Row-major strides of the indices, in rows of the last dimension that are multiples of so many elements apart."""
    *outer, row = dimensions
    length = product(tuple(index.extent for index in row))
    rows = Op("floordiv", (Op("add", (length, _number(multiple - 1)), INT64), _number(multiple)), INT64)
    above = tuple(index.extent for parts in outer for index in parts)
    pitches = tuple(product((Op("mul", (rows, _number(multiple)), INT64), *above[:d:-1])) for d in range(len(above)))
    return (*pitches, *dense_strides(tuple(index.extent for index in row)))


def _number(value: int) -> Const:
    return Const(value, INT64)
