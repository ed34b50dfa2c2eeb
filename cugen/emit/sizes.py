"""Sizes over params as in the manifest: integers where constant, else shape expressions."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from cugen.abi.manifest import Size
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, Range, bounds


def size(expr: Integer, ranges: Mapping[sympy.Symbol, Range], names: Mapping[str, str]) -> Size:
    """`names` maps C names of params to names in the spec."""
    if expr.is_Integer:
        return int(expr)
    constant = {s: sympy.Integer(ranges[s][0]) for s in expr.free_symbols if ranges[s][0] == ranges[s][1]}
    fixed = expr.xreplace(constant)
    if fixed.is_Integer:
        return int(fixed)
    low, high = bounds(fixed, ranges)
    return low if low == high else _text(fixed, names)[0]


def _text(expr: Integer, names: Mapping[str, str]) -> tuple[str, int]:
    """Text and precedence: an atom (0), a product (1) or a sum (2)."""
    if expr.is_Integer:
        return str(int(expr)), 0 if int(expr) >= 0 else 2
    if expr.is_Symbol:
        return names.get(expr.name, expr.name), 0
    if expr.is_Add:
        return _sum(expr, names), 2
    if expr.is_Mul and expr.could_extract_minus_sign():
        return f"-{_operand(_text(-expr, names))}", 2
    if expr.is_Mul:
        return " * ".join(_operand(part) for part in sorted((_text(arg, names) for arg in expr.args), key=_key)), 1
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


def _sum(expr: Integer, names: Mapping[str, str]) -> str:
    """`M + N - 1`: positive terms first."""
    added = [_text(term, names) for term in expr.args if not term.could_extract_minus_sign()]
    subtracted = [_text(-term, names) for term in expr.args if term.could_extract_minus_sign()]
    plus, minus = ([_in_sum(part) for part in sorted(parts, key=_key)] for parts in (added, subtracted))
    first = " + ".join(plus)
    return " - ".join([first, *minus] if plus else [f"-{minus[0]}", *minus[1:]])


def _in_sum(part: tuple[str, int]) -> str:
    return part[0] if part[1] < 2 else f"({part[0]})"


def _key(part: tuple[str, int]) -> tuple[bool, str]:
    """Sort key by text, numbers last; independent of sympy's order."""
    return part[0].isdigit(), part[0]


def _operand(part: tuple[str, int]) -> str:
    return part[0] if part[1] == 0 else f"({part[0]})"
