"""Sizes over params as the manifest writes them: a number where it's known, else text in the language of shapes."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from cugen.plan.manifest import Size
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, Range, bounds


def size(expr: Integer, ranges: Mapping[sympy.Symbol, Range], names: Mapping[str, str]) -> Size:
    """`names` maps the C name of a param to the spec's."""
    fixed = expr.subs({s: ranges[s][0] for s in expr.free_symbols if ranges[s][0] == ranges[s][1]})
    if fixed.is_Integer:
        return int(fixed)
    low, high = bounds(fixed, ranges)
    return low if low == high else _text(fixed, names)[0]


def _text(expr: Integer, names: Mapping[str, str]) -> tuple[str, int]:
    """The text and whether it binds as an atom (0), a product (1) or a sum (2)."""
    if expr.is_Integer:
        return str(int(expr)), 0 if int(expr) >= 0 else 2
    if expr.is_Symbol:
        return names.get(expr.name, expr.name), 0
    parts = [_text(arg, names) for arg in sorted(expr.args, key=lambda a: (a.is_Integer, str(a)))]
    if expr.is_Add:
        return " + ".join(text if level < 2 else f"({text})" for text, level in parts), 2
    if expr.is_Mul:
        return " * ".join(text if level == 0 else f"({text})" for text, level in parts), 1
    if expr.is_Pow:
        base = _operand(_text(expr.base, names))
        return " * ".join([base] * int(expr.exp)), 1
    a, b = (_text(arg, names) for arg in expr.args)
    match expr:
        case FloorDiv():
            return f"{_operand(a)} // {_operand(b)}", 1
        case Mod():
            return f"{_operand(a)} % {_operand(b)}", 1
        case Minimum():
            return f"minimum({a[0]}, {b[0]})", 0
        case Maximum():
            return f"maximum({a[0]}, {b[0]})", 0
    raise TypeError(f"not a size: {expr}")


def _operand(part: tuple[str, int]) -> str:
    return part[0] if part[1] == 0 else f"({part[0]})"
