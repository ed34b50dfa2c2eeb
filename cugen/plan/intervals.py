"""Interval arithmetic on integer values: where arithmetic may wrap, and where 32 bits suffice."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import sympy

from cugen.plan.memory import IndexLocal
from cugen.plan.symbols import Range, symbol
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Local, Op, ParamValue, Select
from cugen.spec.types import DType

WIDEST = 64  # bits of an integer type


def interval(expr: Expr, names: Mapping[str, Range]) -> Range:
    """The range of an integer or bool expression; `names` has the ranges of indices and params, and of locals by
    their `local_symbol`."""
    full_range = (expr.dtype.lowest, expr.dtype.highest)
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case IndexLocal(name=name) | IndexValue(name=name) | ParamValue(name=name):
            return names.get(name, full_range)
        case Local(name=name):
            return names.get(local_symbol(name).name, full_range)
        case Cast(arg=arg, to=to) if not arg.dtype.is_float:
            return _within(interval(arg, names), to)
        case Select(then=then, orelse=orelse):
            a, b = interval(then, names), interval(orelse, names)
            return min(a[0], b[0]), max(a[1], b[1])
        case Op(name="add" | "sub" | "mul" | "neg" | "minimum" | "maximum" | "abs"):
            return _within(unwrapped(expr, names), expr.dtype)
        case Op(name="shl" | "shr", args=(_, Const(value=count))) if 0 <= count < WIDEST:
            return _within(unwrapped(expr, names), expr.dtype)
        case Op(name="floordiv" | "mod", args=(arg, divisor)) if (divisors := interval(divisor, names))[0] > 0:
            if expr.name == "mod":
                return 0, divisors[1] - 1
            quotients = [value // by for value in interval(arg, names) for by in divisors]
            return min(quotients), max(quotients)
        case Op(name="bitand", args=(_, Const(value=value))) if isinstance(value, int) and value >= 0:
            return 0, value
    return full_range


def local_symbol(name: str) -> sympy.Symbol:
    """The key of a local's range, which no index has."""
    return symbol(f"local {name}")


def bound_local(ranges: MutableMapping[sympy.Symbol, Range], local: Local, values: Range) -> None:
    """Records that a local has these values, or any if its type can't hold them; as does a local of the same name in
    another block."""
    low, high = values if fits(values, local.dtype) else (local.dtype.lowest, local.dtype.highest)
    old = ranges.get(local_symbol(local.name), (low, high))
    ranges[local_symbol(local.name)] = min(low, old[0]), max(high, old[1])


def unwrapped(expr: Op, names: Mapping[str, Range]) -> Range:
    """The range of a sum, difference, product, negation or extremum, or of a shift by a count of bits that the type
    has, before it wraps to its type."""
    parts = [interval(arg, names) for arg in expr.args]
    (low, high), (other_low, other_high) = parts[0], parts[-1]
    match expr.name:
        case "add":
            return low + other_low, high + other_high
        case "sub":
            return low - other_high, high - other_low
        case "mul":
            corners = (low * other_low, low * other_high, high * other_low, high * other_high)
            return min(corners), max(corners)
        case "neg":
            return -high, -low
        case "minimum":
            return min(low, other_low), min(high, other_high)
        case "maximum":
            return max(low, other_low), max(high, other_high)
        case "shl" | "shr":
            counts = [min(max(0, count), WIDEST - 1) for count in (other_low, other_high)]
            shifted = [
                value << count if expr.name == "shl" else value >> count for value in parts[0] for count in counts
            ]
            return min(shifted), max(shifted)
        case _:
            return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


def fits(values: Range, dtype: DType) -> bool:
    return dtype.lowest <= values[0] and values[1] <= dtype.highest


def _within(values: Range, dtype: DType) -> Range:
    return values if fits(values, dtype) else (dtype.lowest, dtype.highest)
