"""Index expressions as trees of JSON values, which the script of a page evaluates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import sympy

from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod

Tree: TypeAlias = "int | str | list[Tree]"  # a number, a name, or an operator with its operands

_OPERATORS = {FloorDiv: "//", Mod: "%", BitXor: "^", Minimum: "min", Maximum: "max", Choice: "?"}


def tree(expr: Integer) -> Tree:
    """`["+", ["*", 16, "k"], "threadIdx.x"]`; of a choice `["?", a, b, then, otherwise]` for `a < b`.

    The operands of sums and products are sorted, so that equal expressions give equal trees."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return str(expr.name)
    operands = [tree(arg) for arg in expr.args]
    if expr.is_Add or expr.is_Mul:
        return ["+" if expr.is_Add else "*", *sorted(operands, key=str)]
    if expr.is_Pow:
        return ["**", *operands]
    for function, operator in _OPERATORS.items():
        if isinstance(expr, function):
            return [operator, *operands]
    raise TypeError(f"not an integer expression: {expr}")


def names(exprs: Iterable[Integer]) -> frozenset[sympy.Symbol]:
    """All names in some expressions."""
    return frozenset().union(*(expr.free_symbols for expr in exprs))
