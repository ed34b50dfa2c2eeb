"""How many neighbouring elements one access may move: what alignment proves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, symbol
from cugen.spec.expressions import Expr, Index, IndexValue, Read, free_indices, walk

MAX_ACCESS_BYTES = 16  # bytes that one thread moves with one access
SECTOR = 32  # bytes of memory that come and go together

Place = tuple[str, tuple[Expr, ...]]  # an array, and where in it


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


def is_read(sub: Expr) -> bool:
    """Whether elements of memory say where a subscript is."""
    return any(isinstance(node, Read) for node in walk(sub))


def is_fixed(sub: Expr) -> bool:
    """Whether a subscript is the same for all, and known without a look into memory."""
    return not free_indices(sub) and not is_read(sub)


def is_contiguous(array: Array, subscripts: Sequence[Expr], along: str) -> bool:
    """Whether neighbours along the index `along` are neighbours in memory."""
    strides = [stride for sub, stride in zip(subscripts, array.strides, strict=True) if sub == IndexValue(along)]
    return strides == [1]


def widest(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """The widest access to neighbours along the index `along`, the first of them at a multiple of the width.

    Only places that are bare indices or the same for all say how their rows are aligned.
    """
    most = MAX_ACCESS_BYTES // array.dtype.bytes
    found = Width(most, f"{most} elements of {array.name} are {MAX_ACCESS_BYTES} bytes, the most that one access moves")
    if not is_contiguous(array, subscripts, along):
        return Width(1, f"neighbours along {along} are no neighbours in {array.name}")
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        if sub == IndexValue(along):
            continue
        if not isinstance(sub, IndexValue) and not is_fixed(sub):
            return Width(1, f"dimension {dimension} of {array.name} is read anywhere")
        offset = stride if isinstance(sub, IndexValue) else stride * to_integer(sub, context.symbols)
        count = math.gcd(divisor(offset, context), most)
        if count < found.count:
            sure = f"the offset of dimension {dimension} in {array.name} is surely a multiple of {count}, not of more"
            found = Width(count, sure)
    return found


def widest_at(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """The same, also for places that other indices, or other elements, say in more than a bare index."""
    if all(isinstance(sub, IndexValue) or is_fixed(sub) for sub in subscripts):
        return widest(array, subscripts, along, context)
    apart = Width(1, f"neighbours along {along} are no neighbours in {array.name}")
    most = MAX_ACCESS_BYTES // array.dtype.bytes
    found = Width(most, f"{most} elements of {array.name} are {MAX_ACCESS_BYTES} bytes, the most that one access moves")
    names = {name: symbol(f"index {name}") for sub in subscripts for name in free_indices(sub)}
    own, walked = names.get(along), 0
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        moves = along in free_indices(sub)
        if is_read(sub):
            if moves:
                return Width(1, f"{array.name} is read where other elements say")
            offset = stride
        else:
            offset = (stride * to_integer(sub, {**context.symbols, **names})).expand()
            if moves:
                walked += 1
                offset = (offset - own).expand()
                if own in offset.free_symbols:
                    return apart
        count = math.gcd(divisor(offset, context), most)
        if count < found.count:
            sure = f"the offset of dimension {dimension} in {array.name} is surely a multiple of {count}, not of more"
            found = Width(count, sure)
    return found if walked == 1 else apart


def have_equal_alignment(
    arrays: Mapping[str, Array],
    indices: Sequence[Index],
    context: Context,
    places: tuple[Place, Place],
    modulus: int,
) -> bool:
    """Whether two places always lie equally many elements behind a multiple of `modulus`."""
    names = {index.name: symbol(f"index {index.name}") for index in indices}
    apart = offset_of(arrays, places[0], {**context.symbols, **names})
    apart = (apart - offset_of(arrays, places[1], {**context.symbols, **names})).expand()
    steps = [apart.coeff(name) for name in names.values()]
    rest = apart.subs(dict.fromkeys(names.values(), 0))
    return all(divisor(step, context) % modulus == 0 for step in (*steps, rest))


def offset_of(
    arrays: Mapping[str, Array], place: Place, symbols: Mapping[str, Integer], without: str | None = None
) -> Integer:
    """Where in memory a place is, in elements; or where its row begins, `without` the index that runs along it."""
    array, subscripts = place
    return sympy.Add(
        *(
            to_integer(sub, symbols) * stride
            for sub, stride in zip(subscripts, arrays[array].strides, strict=True)
            if without is None or sub != IndexValue(without)
        )
    )
