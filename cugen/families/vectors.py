"""How many neighbouring elements one access may move: what alignment proves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cugen.plan.context import Context
from cugen.plan.ir import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum
from cugen.spec.expressions import Expr, IndexValue, free_indices

WIDEST = 16  # bytes that one thread moves with one access


@dataclass(frozen=True, slots=True)
class Width:
    """At most `count` elements an access; `reason` says what stands against more."""

    count: int
    reason: str


def divisor(expr: Integer, context: Context) -> int:
    """A number that surely divides `expr`, by the values of params and what dynamic ones are multiples of; 0 for 0."""
    value = context.static(expr) if expr.free_symbols <= context.ranges.keys() else None
    if value is not None:
        return abs(value)
    if expr.is_Symbol:
        for param in context.spec.params:
            if context.symbols[param.name] == expr:
                return param.multiple_of
    if expr.is_Mul:
        return math.prod(divisor(factor, context) for factor in expr.args)
    if expr.is_Add:
        return math.gcd(*(divisor(term, context) for term in expr.args))
    if isinstance(expr, FloorDiv) and expr.args[1].is_Integer:
        dividend, by = divisor(expr.args[0], context), int(expr.args[1])
        return dividend // by if dividend % by == 0 else 1
    if isinstance(expr, Minimum | Maximum):
        return math.gcd(*(divisor(choice, context) for choice in expr.args))
    return 1


def is_contiguous(array: Array, subscripts: Sequence[Expr], along: str) -> bool:
    """Whether neighbours along the index `along` are neighbours in memory."""
    strides = [stride for sub, stride in zip(subscripts, array.strides, strict=True) if sub == IndexValue(along)]
    return strides == [1]


def widest(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """The widest access to neighbours along the index `along`, the first of them at a multiple of the width.

    Only places that are bare indices or the same for all say how their rows are aligned.
    """
    most = WIDEST // array.dtype.bytes
    found = Width(most, f"{most} elements of {array.name} are {WIDEST} bytes, the most that one access moves")
    if not is_contiguous(array, subscripts, along):
        return Width(1, f"neighbours along {along} are no neighbours in {array.name}")
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        if sub == IndexValue(along):
            continue
        if not isinstance(sub, IndexValue) and free_indices(sub):
            return Width(1, f"dimension {dimension} of {array.name} is read anywhere")
        offset = stride if isinstance(sub, IndexValue) else stride * to_integer(sub, context.symbols)
        count = math.gcd(divisor(offset, context), most)
        if count < found.count:
            sure = f"the offset of dimension {dimension} in {array.name} is surely a multiple of {count}, not of more"
            found = Width(count, sure)
    return found
