"""Vector widths: how many consecutive elements one access may move, as far as alignment is provable."""

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

MAX_ACCESS_BYTES = 16  # of one thread's load or store instruction (CUDA programming guide)
SECTOR_BYTES = 32  # the granularity of device memory transactions (CUDA programming guide)

ElementRef = tuple[str, tuple[Expr, ...]]  # an array and its subscripts


@dataclass(frozen=True, slots=True)
class Width:
    """The vector width in elements; `reason` says what limits it."""

    count: int
    reason: str


def divisor(expr: Integer, context: Context) -> int:
    """A number that provably divides `expr`, from param values and `multiple_of`; 0 for 0."""
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
    """Whether a subscript is gathered: it reads an array."""
    return any(isinstance(node, Read) for node in walk(sub))


def is_fixed(sub: Expr) -> bool:
    """Whether a subscript is the same for all elements and doesn't read memory."""
    return not free_indices(sub) and not is_read(sub)


def is_contiguous(array: Array, subscripts: Sequence[Expr], along: str) -> bool:
    """Whether consecutive values of the index `along` address consecutive elements."""
    strides = [stride for sub, stride in zip(subscripts, array.strides, strict=True) if sub == IndexValue(along)]
    return strides == [1]


def widest(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """The widest vector along the index `along` that starts at a multiple of its width.

    Subscripts must be bare indices or the same for all elements; any other makes the width 1.
    """
    width = _full_width(array)
    if not is_contiguous(array, subscripts, along):
        return _not_contiguous(array, along)
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        if sub == IndexValue(along):
            continue
        if not isinstance(sub, IndexValue) and not is_fixed(sub):
            return Width(1, f"dimension {dimension} of {array.name} has a computed subscript")
        offset = stride if isinstance(sub, IndexValue) else stride * to_integer(sub, context.symbols)
        width = _limited(width, array, dimension, divisor(offset, context))
    return width


def widest_at(array: Array, subscripts: Sequence[Expr], along: str, context: Context) -> Width:
    """As `widest`, also for affine subscripts such as `i + 1`, and gathered ones in dimensions other than `along`'s."""
    if all(isinstance(sub, IndexValue) or is_fixed(sub) for sub in subscripts):
        return widest(array, subscripts, along, context)
    width = _full_width(array)
    names = {name: symbol(f"index {name}") for sub in subscripts for name in free_indices(sub)}
    vector_index, contiguous_dimensions = names.get(along), 0
    for dimension, (sub, stride) in enumerate(zip(subscripts, array.strides, strict=True)):
        moves = along in free_indices(sub)
        if is_read(sub):
            if moves:
                return Width(1, f"{array.name} is gathered")
            offset = stride
        else:
            offset = (stride * to_integer(sub, {**context.symbols, **names})).expand()
            if moves:
                contiguous_dimensions += 1
                offset = (offset - vector_index).expand()
                if vector_index in offset.free_symbols:
                    return _not_contiguous(array, along)
        width = _limited(width, array, dimension, divisor(offset, context))
    return width if contiguous_dimensions == 1 else _not_contiguous(array, along)


def _full_width(array: Array) -> Width:
    count = MAX_ACCESS_BYTES // array.dtype.bytes
    reason = f"{count} elements of {array.name} are {MAX_ACCESS_BYTES} bytes, the most that one access moves"
    return Width(count, reason)


def _not_contiguous(array: Array, along: str) -> Width:
    return Width(1, f"consecutive {along} are not contiguous in {array.name}")


def _limited(width: Width, array: Array, dimension: int, multiple: int) -> Width:
    """The width under which an offset that is a multiple of `multiple` keeps vectors aligned."""
    count = math.gcd(multiple, width.count)
    if count == width.count:
        return width
    reason = f"the offset of dimension {dimension} in {array.name} is provably a multiple of {count} elements only"
    return Width(count, reason)


def have_equal_alignment(
    arrays: Mapping[str, Array],
    indices: Sequence[Index],
    context: Context,
    references: tuple[ElementRef, ElementRef],
    modulus: int,
) -> bool:
    """Whether the offsets of two elements are always equal modulo `modulus` elements."""
    names = {index.name: symbol(f"index {index.name}") for index in indices}
    difference = offset_of(arrays, references[0], {**context.symbols, **names})
    difference = (difference - offset_of(arrays, references[1], {**context.symbols, **names})).expand()
    coefficients = [difference.coeff(name) for name in names.values()]
    constant = difference.subs(dict.fromkeys(names.values(), 0))
    return all(divisor(term, context) % modulus == 0 for term in (*coefficients, constant))


def offset_of(
    arrays: Mapping[str, Array], reference: ElementRef, symbols: Mapping[str, Integer], without: str | None = None
) -> Integer:
    """An element's offset in its array; `without` leaves out the bare index of that name, which gives the row start."""
    array, subscripts = reference
    return sympy.Add(
        *(
            to_integer(sub, symbols) * stride
            for sub, stride in zip(subscripts, arrays[array].strides, strict=True)
            if without is None or sub != IndexValue(without)
        )
    )
