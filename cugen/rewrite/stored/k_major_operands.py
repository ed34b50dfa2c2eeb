"""Copies operands of tensor cores that aren't copied in vectors along K, where loading them costs more:

    C[m, n] = sum(A[k, m] * B[k, n], k)                       int8
becomes
    A_rows[m, k] = A[k, m];  B_rows[n, k] = B[k, n]
    C[m, n] = sum(A_rows[m, k] * B_rows[n, k], k)
Instructions take elements of 8 bits in words of consecutive k, so that others are gathered one by one for each tile;
and so are elements of any type of an operand that is contiguous along a batch. Where rows of bytes begin anywhere, as K
is no multiple of a vector, zeros follow those of the copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from cugen.machine import Device
from cugen.plan.context import Context
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import factors_of
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, Temporary, last_request, steps_of, storing_seconds, temporary
from cugen.spec.expressions import (
    Boundary,
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Read,
    Reduce,
    Scan,
    free_indices,
    walk,
)
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

_NARROW_BITS = 8
_VECTOR_BYTES = 16  # the widest that a thread copies
_MIN_GAIN = 1.1  # by the models (heuristic)


def with_k_major_operands(
    single: Single, predicted_seconds: Callable[[Request], float | None], device: Device
) -> Steps | None:
    """The copies and the product of them; None where there is nothing to copy, and where copies and product take no
    less time than the product as it is, by `predicted_seconds` of products on tensor cores."""
    statement, context = single.statement, single.context
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 and single.schedule == Schedule() else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    reads = _operands(reduction)
    indices = {index.name: index for index in (*statement.indices, *reduction.indices)}
    if len(reads) != 2 or len(reduction.indices) != 1:
        return None
    k = _padded(reduction.indices[0], reads, context)
    is_padded = k != reduction.indices[0]
    copied = [read for read in reads if is_padded or _is_gathered(read, k.name, reads, context)]
    gathering = predicted_seconds(single.request()) if copied else None
    if gathering is None:
        return None
    copies: list[Temporary] = []
    changed: dict[Expr, Expr] = {}
    taken = taken_names(context.spec, indices.values())
    for read in copied:
        shared = next(filter(None, (copy.read_of(read, indices) for copy in copies)), None)
        if shared is None:
            copies.append(_copy(read, reduction.indices[0], k, indices, single, taken))
        changed[read] = shared or copies[-1].read
    product: dict[Expr, Expr] = {
        reduction: replace(reduction, body=replaced(reduction.body, changed.get), indices=(k,))
    }
    steps = steps_of(copies, replace(statement, value=replaced(statement.value, product.get)))
    copied_bytes = [_bytes(copy, context) for copy in copies]
    seconds = predicted_seconds(last_request(single, steps)) if max(copied_bytes) <= MAX_TEMPORARY_BYTES else None
    if seconds is None:
        return None
    copying = sum(storing_seconds(size, device) for size in copied_bytes)
    return steps if _MIN_GAIN * (seconds + copying) <= gathering else None


def _bytes(copy: Temporary, context: Context) -> int:
    """At the sizes that are planned for."""
    return prod(map(context.planned_extent, copy.statement.indices)) * copy.array.dtype.bytes


def _operands(reduction: Reduce) -> list[Read]:
    """The elements that are multiplied, if each is read at distinct bare indices."""
    reads: list[Read] = []
    for factor in factors_of(reduction.body):
        value = factor.expr.arg if isinstance(factor.expr, Cast) else factor.expr
        if factor.is_divisor or not isinstance(value, Read) or value.boundary is not None or value.exact:
            return []
        names = [sub.name for sub in value.subscripts if isinstance(sub, IndexValue)]
        if len(set(names)) != len(value.subscripts):
            return []
        reads.append(value)
    return reads


def _is_gathered(read: Read, k: str, reads: list[Read], context: Context) -> bool:
    """Whether elements of an operand may be gathered: no vectors of them along an index that its tiles have."""
    array = context.arrays[read.array]
    unit = [sub for sub, stride in zip(read.subscripts, array.strides, strict=True) if stride == 1]
    along = unit[-1].name if unit and isinstance(unit[-1], IndexValue) else ""
    if along == k:
        return False
    others = frozenset[str]().union(*(free_indices(partner) for partner in reads if partner is not read))
    rows = free_indices(read) - others
    return array.dtype.bits <= _NARROW_BITS or along not in rows or len(rows) > 1


def _padded(k: Index, reads: list[Read], context: Context) -> Index:
    """K, up to a multiple of the widest vectors of operands of 8 bits if its extent is known. Products of wider ones
    have tiles then that spill registers (ptxas 13.0)."""
    length, dtypes = context.static_extent(k), [context.arrays[read.array].dtype for read in reads]
    if length is None or any(dtype.bits > _NARROW_BITS for dtype in dtypes):
        return k
    width = max(_VECTOR_BYTES // dtype.bytes for dtype in dtypes)
    return k if length % width == 0 else replace(k, extent=Const(-(-length // width) * width, INT64))


def _copy(read: Read, k: Index, padded: Index, indices: dict[str, Index], single: Single, taken: set[str]) -> Temporary:
    order = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    rows = tuple(indices[name] for name in sorted(order, key=list(indices).index) if name != k.name)
    what = f"{read.array}, contiguous along {k.name}, for: {single.statement.text}"
    dtype = single.context.arrays[read.array].dtype
    name = fresh(f"{read.array}_rows", taken)
    value = read
    if padded != k:
        value = replace(read, boundary=Boundary("zero"))
    copy = temporary(name, (*rows, padded), value, what, single.statement, is_stored=True)
    return replace(copy, array=replace(copy.array, dtype=dtype))
