"""Digits of an index that subscripts of a window take by `//` and `%`, as indices of their own.

    y[m, o] = sum(x[m // 4, k // C % 2, k // (2 * C), k % C] * w[o, k], k)         k below 4 * C
reads `x` at the digits of k, with radices 2, 2 and C, slowest first: as a sum over three indices would that are fused
in `w`. Copies along the fastest one are vectors then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from cugen.plan.context import Context
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, children, free_indices
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


@dataclass(frozen=True, slots=True)
class _Digit:
    """`index // divisor % radix` in a subscript; the slowest digit has no `radix` where it is a quotient alone."""

    divisor: int
    radix: int | None
    extent: Expr | None
    value: Expr


def with_digits(read: Read, index: Index, context: Context, taken: set[str]) -> tuple[Read, tuple[Index, ...]]:
    """The read with the digits of an index as indices, and these, slowest first; as it is, with the index itself, where
    the read has the index otherwise, or it isn't known to have as many values as its digits. `taken`: names in use."""
    unchanged = (read, (index,))
    size = context.static_extent(index)
    uses = [digit for sub in read.subscripts for digit in _digits(sub, index.name, context)]
    digits = sorted({digit for digit in uses if digit is not None}, key=lambda digit: digit.divisor)
    if size is None or None in uses or len(digits) < 2:
        return unchanged
    *faster, slowest = digits
    if slowest.radix is None and size % slowest.divisor == 0:
        slowest = replace(slowest, radix=size // slowest.divisor, extent=Const(size // slowest.divisor, INT64))
    ordered = [*faster, slowest]
    radices = [digit.radix or 0 for digit in ordered]
    is_chain = all(digit.divisor == prod(radices[:n]) for n, digit in enumerate(ordered))
    if not is_chain or prod(radices) != size:
        return unchanged
    indices, values = list[Index](), dict[Expr, Expr]()
    for number, digit in reversed([*enumerate(ordered)]):
        assert digit.extent is not None
        indices.append(Index(fresh(f"{index.name}_{number}", taken), digit.extent))
        values[digit.value] = IndexValue(indices[-1].name)
    return replace(read, subscripts=tuple(replaced(sub, values.get) for sub in read.subscripts)), tuple(indices)


def _digits(expr: Expr, name: str, context: Context) -> Iterator[_Digit | None]:
    """The digits of an index in an expression; None for each place that has the index otherwise."""
    if name not in free_indices(expr):
        return
    if (digit := _digit(expr, name, context)) is not None:
        yield digit
    elif isinstance(expr, IndexValue):
        yield None
    else:
        for child in children(expr):
            yield from _digits(child, name, context)


def _digit(expr: Expr, name: str, context: Context) -> _Digit | None:
    """The digit that an expression is."""
    match expr:
        case Op(name="mod", args=(IndexValue(name=of), radix)) if of == name:
            return _of(1, radix, expr, context)
        case Op(name="mod", args=(Op(name="floordiv", args=(IndexValue(name=of), divisor)), radix)) if of == name:
            return _of(_static(divisor, context), radix, expr, context)
        case Op(name="floordiv", args=(IndexValue(name=of), divisor)) if of == name:
            return _of(_static(divisor, context), None, expr, context)
    return None


def _of(divisor: int | None, radix: Expr | None, value: Expr, context: Context) -> _Digit | None:
    size = None if radix is None else _static(radix, context)
    if divisor is None or divisor < 1 or (radix is not None and (size is None or size < 1)):
        return None
    return _Digit(divisor, size, radix, value)


def _static(expr: Expr, context: Context) -> int | None:
    """The value of an expression over params that are fixed."""
    if free_indices(expr):
        return None
    try:
        return context.static(to_integer(expr, context.symbols))
    except NotAnInteger:
        return None
