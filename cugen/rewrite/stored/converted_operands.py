"""Stores operands of a GEMM in a type that holds their numbers and that tensor cores take: an operand in that of the
other one, both in a third one, or those of a float64 sum in float64.

    y[m, n] = sum(x[m, k] * w[n, k], k)                        x: float16, w: int8
becomes
    w_float16[n, k] = w[n, k];  y[m, n] = sum(x[m, k] * w_float16[n, k], k)
Both 16-bit floats hold all numbers of 8 bits, tf32 those of 16-bit floats, float64 those of 32: products and sums are
those of the types as they are written. float8 is stored in float16 where tensor cores don't take it, and operands are
in float32 where the spec allows tf32. The operand may be computed of 8-bit integers, as those of two in a byte are.
Conditions of two matrices that are counted, `sum(a[m, k] and b[k, n], k)` or as a product of bools, are stored in int8,
as 0 and 1, whose products are those of tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from operator import add, mul, sub

from cugen.plan.request import Request, Single, Steps
from cugen.plan.subscripts import type_range
from cugen.rewrite.canonical.held_types import held_type
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import factors_of
from cugen.rewrite.temporaries import Temporary, last_request, steps_of, temporary
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    free_indices,
    walk,
)
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced, without_quotients
from cugen.spec.types import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, DType

_MIN_MULTIPLY_ADDS = 1 << 26  # on CUDA cores they take as long as a launch (heuristic)
_MIN_N = 9  # multiply-adds of an element, which on CUDA cores take longer than its load, store and loads (heuristic)
_MAX_BYTES = 1 << 29
_COUNTER_FAMILY = "histogram"  # counts how often two keys occur together, and looks at each pair once
_NARROW_BITS, _WIDE_BITS = 8, 16
_MAX_INTEGER = 1 << 8  # up to which a float of 16 bits holds all integers, as it does all numbers of 8 bits
_MAX_FLOAT16_INTEGER = 1 << 11  # up to which float16 does
_ARITHMETIC = {"add": add, "sub": sub, "mul": mul}


def with_converted_operands(single: Single, uses_tensor_cores: Callable[[Request], bool]) -> Steps | None:
    """The launches that store operands, and the GEMM; None where none can be converted, where it doesn't pay off, and
    where the GEMM uses tensor cores as it is, or doesn't then."""
    statement = single.statement
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind not in ("sum", "any") or reduction.where is not None:
        return None
    if single.schedule != Schedule():
        return None
    candidates = _convertible(reduction, single)
    if (conditions := _conditions(reduction)) is not None:
        if single.first_family(single.request()) == _COUNTER_FAMILY:
            return None
        operands = tuple(Cast(condition, INT8) for condition in conditions)
        count = _count(reduction, operands)
        whole = count if reduction.kind == "sum" else Op("gt", (count, Const(0, INT32)), BOOL)
        results: dict[Expr, Expr] = {reduction: whole}
        statement = replace(statement, value=replaced(statement.value, results.get))
        candidates = iter(((operands, INT8),))
    for values, dtype in candidates:
        indices = (*statement.indices, *reduction.indices)
        dimensions = {value: _dimensions(value, indices, k_last=dtype == INT8) for value in values}
        if not all(_is_profitable(indices, dtype, reduction, single) for indices in dimensions.values()):
            return None
        if uses_tensor_cores(single.request()):
            return None
        of_values = (index for indices in dimensions.values() for index in indices)
        taken = taken_names(single.context.spec, of_values)
        matrices = {value: _matrix(value, indices, dtype, single, taken) for value, indices in dimensions.items()}
        reads: dict[Expr, Expr] = {value: matrix.read for value, matrix in matrices.items()}
        multiplied = replaced(statement.value, reads.get)
        steps = steps_of([*matrices.values()], replace(statement, value=multiplied), splits_last=True)
        return steps if uses_tensor_cores(last_request(single, steps)) else None
    return None


def _conditions(reduction: Reduce) -> tuple[Expr, Expr] | None:
    """The conditions of two matrices of which a reduction counts the terms with both, or tests that there are any."""
    body = reduction.body
    if reduction.kind == "sum":
        if not reduction.dtype.is_integer:
            return None
        body = body.arg if isinstance(body, Cast) else body
    match body:
        case Select(condition=first, then=second, orelse=Const(value=False)) if second.dtype == BOOL:
            return first, second
        case Op(name="and", args=(first, second)):
            return first, second
        case Op(name="mul", args=(Cast(arg=first), Cast(arg=second))) if first.dtype == second.dtype == BOOL:
            return first, second
    return None


def _count(reduction: Reduce, operands: Sequence[Expr]) -> Reduce:
    """The sum of the products of two operands that are 0 or 1."""
    dtype = reduction.dtype if reduction.kind == "sum" else INT32
    body = Op("mul", tuple(Cast(operand, dtype) for operand in operands), dtype)
    return replace(reduction, kind="sum", body=body, dtype=dtype)


def _matrix(value: Expr, indices: tuple[Index, ...], dtype: DType, single: Single, taken: set[str]) -> Temporary:
    arrays = (node.array for node in walk(value) if isinstance(node, Read))
    operand = next(arrays, f"{single.statement.target}_operand")
    name = fresh(f"{operand}_{dtype.name}", taken)
    what = f"{operand} in a type that tensor cores take, which holds its numbers, for: {single.statement.text}"
    matrix = temporary(name, indices, value, what, single.statement, is_stored=True)
    return replace(matrix, array=replace(matrix.array, dtype=dtype))


def _convertible(reduction: Reduce, single: Single) -> Iterator[tuple[tuple[Expr, ...], DType]]:
    """Factors of a product of two that aren't stored in a type that holds the numbers of both, and that type."""
    if reduction.kind != "sum":
        return
    names = {index.name for index in reduction.indices}
    factors = list(factors_of(reduction.body))
    if len(factors) > 2:  # others may be scales of groups of terms
        factors = [factor for factor in factors if names <= free_indices(without_quotients(factor.expr))]
    if len(factors) != 2 or any(factor.is_divisor for factor in factors):
        return
    values = tuple(dict.fromkeys(factor.expr for factor in factors))
    types = [dtype for value in values if (dtype := _type_of(value, single)) is not None]
    common = _common_type(types, reduction.dtype) if len(types) == len(values) else None
    narrow = tuple(value for value in values if _stored_type(value, single) != common)
    if common is not None and narrow:
        yield narrow, common


def _common_type(types: Sequence[DType], of_sum: DType) -> DType | None:
    """The narrowest type of a tensor core that holds the numbers of all types; of float64 sums float64."""
    if of_sum == FLOAT64:
        return FLOAT64 if all(dtype == FLOAT64 or dtype.bits <= 32 for dtype in types) else None
    if not of_sum.is_float:
        return None
    candidates = (*(dtype for dtype in types if dtype.bits == _WIDE_BITS), FLOAT16, FLOAT32)
    return next((common for common in candidates if all(_holds(common, dtype) for dtype in types)), None)


def _holds(common: DType, dtype: DType) -> bool:
    """Whether a float of 16 bits, or tf32 where it is float32, holds all numbers of a type."""
    if dtype == common or dtype.bits <= _NARROW_BITS:
        return common.is_float
    return common == FLOAT32 and dtype.is_float and dtype.bits == _WIDE_BITS


def _type_of(value: Expr, single: Single) -> DType | None:
    """The type of the numbers of a value that is stored, or computed and then converted; None for others."""
    if not any(isinstance(node, Read) for node in walk(value)):
        return None
    ends = _integer_range(value)
    if ends is not None:
        return INT8 if max(map(abs, ends)) <= _MAX_INTEGER else FLOAT16
    if not isinstance(value, Read) and (narrow := held_type(value, single.context.arrays)) is not None:
        return narrow
    if not isinstance(value, Cast):
        return _stored_type(value, single)
    return value.arg.dtype if value.arg.dtype.bits < value.dtype.bits else value.dtype


def _integer_range(value: Expr) -> tuple[int, int] | None:
    """The values that a float computed of integers may have, such as `cast(q, float32) - 8`; None where it may be no
    integer, or too large a one for its type."""
    match value:
        case Const(value=number) if value.dtype.is_float and float(number).is_integer():
            return int(number), int(number)
        case Cast(arg=arg, to=to) if arg.dtype.is_integer and to.is_float:
            ends = type_range(arg)
        case Op(name="add" | "sub" | "mul" as name, args=(left, right)) if value.dtype.is_float:
            of_left, of_right = _integer_range(left), _integer_range(right)
            if of_left is None or of_right is None:
                return None
            results = [_ARITHMETIC[name](a, b) for a, b in product(of_left, of_right)]
            ends = min(results), max(results)
        case _:
            return None
    return ends if max(map(abs, ends)) <= _MAX_FLOAT16_INTEGER else None


def _stored_type(expr: Expr, single: Single) -> DType | None:
    """The type in which an array is stored whose element an expression is; None for others."""
    return single.context.arrays[expr.array].dtype if isinstance(expr, Read) else None


def _dimensions(value: Expr, indices: tuple[Index, ...], *, k_last: bool) -> tuple[Index, ...]:
    """The indices of a value, in the order of the array that it is an element of; else, and with `k_last`, as all
    instructions take bytes, K comes last."""
    names = free_indices(value)
    used = {index.name: index for index in indices if index.name in names}
    for read in () if k_last else (node for node in walk(value) if isinstance(node, Read)):
        order = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
        if sorted(order) == sorted(used) and len(order) == len(read.subscripts):
            return tuple(used[name] for name in order)
    return tuple(used.values())


def _is_profitable(indices: tuple[Index, ...], dtype: DType, reduction: Reduce, single: Single) -> bool:
    """Whether arithmetic outweighs the temporary's traffic, and its size is allowed as far as it is known; extents that
    are known at launch count as long."""
    context, extent, outputs = single.context, single.context.max_extent, single.statement.indices
    shared = [index for index in outputs if index not in indices]
    known = (static for index in indices if (static := context.static_extent(index)) is not None)
    return (
        prod(map(extent, (*outputs, *reduction.indices))) >= _MIN_MULTIPLY_ADDS
        and prod(map(extent, shared)) >= _MIN_N
        and prod(known) * dtype.bytes <= _MAX_BYTES
    )
