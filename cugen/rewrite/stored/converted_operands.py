"""Stores an operand of a GEMM in the type of the other one, which holds its numbers, so that tensor cores take both.

    y[m, n] = sum(x[m, k] * w[n, k], k)                        x: float16, w: int8
becomes
    w_float16[n, k] = w[n, k];  y[m, n] = sum(x[m, k] * w_float16[n, k], k)
Both 16-bit floats hold all numbers of 8 bits: products and sums are those of the types as they are written. The operand
may be computed of 8-bit integers, as those of two in a byte are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.sums.factors import factors_of
from cugen.rewrite.temporaries import fresh, last_request, steps_of, temporary
from cugen.spec.expressions import Cast, Expr, Index, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced
from cugen.spec.types import DType

_MIN_MULTIPLY_ADDS = 1 << 26  # on CUDA cores they take as long as a launch (heuristic)
_MIN_N = 32  # multiply-adds of an element, which on CUDA cores take longer than its load, store and loads (heuristic)
_MAX_BYTES = 1 << 29
_NARROW_BITS, _WIDE_BITS = 8, 16


def with_converted_operand(single: Single, uses_tensor_cores: Callable[[Request], bool]) -> Steps | None:
    """The launch that stores the operand, and the GEMM; None where no operand is of 8 bits beside one of 16, where it
    doesn't pay off, and where the GEMM uses tensor cores as it is, or doesn't then."""
    statement = single.statement
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    if single.schedule != Schedule():
        return None
    for value, dtype in _convertible(reduction, single):
        indices = _dimensions(value, (*statement.indices, *reduction.indices))
        if not _is_profitable(value, indices, dtype, reduction, single) or uses_tensor_cores(single.request()):
            return None
        read = next(node for node in walk(value) if isinstance(node, Read))
        taken = {array.name for array in single.context.spec.arrays} | {index.name for index in indices}
        name = fresh(f"{read.array}_{dtype.name}", taken)
        what = f"{read.array} in the type of the other operand, which holds its numbers, for: {statement.text}"
        matrix = temporary(name, indices, value, what, statement, is_stored=True)
        matrix = replace(matrix, array=replace(matrix.array, dtype=dtype))
        product = replaced(statement.value, {value: matrix.read}.get)
        steps = steps_of([matrix], replace(statement, value=product))
        return steps if uses_tensor_cores(last_request(single, steps)) else None
    return None


def _convertible(reduction: Reduce, single: Single) -> Iterator[tuple[Expr, DType]]:
    """The factor of a product of two that has numbers of 8 bits, and the type of the other one, of 16."""
    factors = list(factors_of(reduction.body))
    if len(factors) != 2 or any(factor.is_divisor for factor in factors):
        return
    first, second = (factor.expr for factor in factors)
    for value, partner in ((first, second), (second, first)):
        stored = _stored_type(partner, single)
        of_value = value.arg.dtype if isinstance(value, Cast) else _stored_type(value, single)
        if stored is None or of_value is None or not any(isinstance(node, Read) for node in walk(value)):
            continue
        if stored.is_float and (stored.bits, of_value.bits) == (_WIDE_BITS, _NARROW_BITS):
            yield value, stored


def _stored_type(expr: Expr, single: Single) -> DType | None:
    """The type in which an array is stored whose element an expression is; None for others."""
    return single.context.arrays[expr.array].dtype if isinstance(expr, Read) else None


def _dimensions(value: Expr, indices: tuple[Index, ...]) -> tuple[Index, ...]:
    """The indices of a value, in the order of the array that it is an element of; else K comes last."""
    names = free_indices(value)
    used = {index.name: index for index in indices if index.name in names}
    for read in (node for node in walk(value) if isinstance(node, Read)):
        order = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
        if sorted(order) == sorted(used) and len(order) == len(read.subscripts):
            return tuple(used[name] for name in order)
    return tuple(used.values())


def _is_profitable(value: Expr, indices: tuple[Index, ...], dtype: DType, reduction: Reduce, single: Single) -> bool:
    extent, outputs = single.context.max_extent, single.statement.indices
    shared = [index for index in outputs if index not in indices]
    return (
        prod(map(extent, (*outputs, *reduction.indices))) >= _MIN_MULTIPLY_ADDS
        and prod(map(extent, shared)) >= _MIN_N
        and prod(map(extent, indices)) * dtype.bytes <= _MAX_BYTES
    )
