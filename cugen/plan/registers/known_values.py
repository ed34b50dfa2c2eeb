"""Values of index expressions where unrolled code knows its loop variables, and the registers that accesses name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import sympy

from cugen.plan.memory import Access
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, Mod

Integers = dict[sympy.Symbol, int]

_COMBINE: Mapping[object, Callable[[list[int]], int]] = {
    sympy.Add: sum,
    sympy.Mul: math.prod,
    FloorDiv: lambda values: values[0] // values[1] if values[1] else 0,
    Mod: lambda values: values[0] % values[1] if values[1] else 0,
    Minimum: min,
    Maximum: max,
    Choice: lambda values: values[2] if values[0] < values[1] else values[3],
}


def evaluator(expr: Integer) -> Callable[[Integers], int | None]:
    """The expression as a function of its symbols; None where one isn't known."""
    if expr.is_Integer:
        constant = int(expr)
        return lambda known: constant
    if expr.is_Symbol:
        return lambda known: known.get(expr)
    parts = [evaluator(arg) for arg in expr.args]
    combine = _COMBINE.get(expr.func)

    def evaluate(known: Integers) -> int | None:
        values = [part(known) for part in parts]
        if combine is None or None in values:
            return None
        return combine([value for value in values if value is not None])

    return evaluate


def position_of(access: Access, value: Callable[[Integer], int | None]) -> int | None:
    """The element of an array that an access names, by `value` of its subscripts; None where one isn't known."""
    position = 0
    for subscript, stride in zip(access.subscripts, access.array.strides, strict=True):
        index, step = value(subscript), value(stride)
        if index is None or step is None:
            return None
        position += index * step
    return position
