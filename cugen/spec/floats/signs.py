"""Expressions that are nonnegative under any rounding: their square root is never NaN on a device."""

from __future__ import annotations

from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Op, ParamValue, Reduce, Scan, Select

_ALWAYS = frozenset(("abs", "exp", "exp2", "sqrt", "rsqrt", "cosh", "erfc", "acos", "acosh"))


def is_nonnegative(expr: Expr) -> bool:
    """Whether `expr` is ≥ 0 or NaN for all inputs, with every operation rounded to nearest."""
    match expr:
        case Const(value=value):
            return value >= 0
        case IndexValue() | ParamValue():
            return True
        case Op(name=name) if name in _ALWAYS:
            return expr.dtype.is_float
        case Op(name="mul", args=(a, b)) if a == b:
            return expr.dtype.is_float
        case Op(name="pow", args=(a, b)):
            return expr.dtype.is_float and (_is_even(b) or is_nonnegative(a))
        case Op(name="add" | "mul" | "div" | "minimum", args=(a, b)):
            return expr.dtype.is_float and is_nonnegative(a) and is_nonnegative(b)
        case Op(name="maximum", args=(a, b)):
            return is_nonnegative(a) or is_nonnegative(b)
        case Cast(arg=arg, to=to):
            return to.is_float and is_nonnegative(arg)
        case Select(then=then, orelse=orelse):
            return is_nonnegative(then) and is_nonnegative(orelse)
        case Reduce(kind="sum" | "prod" | "min", body=body) | Scan(kind="sum" | "prod" | "min", body=body):
            return expr.dtype.is_float and is_nonnegative(body)
        case Reduce(kind="max", body=body, where=None):
            return is_nonnegative(body)
    return False


def _is_even(exponent: Expr) -> bool:
    if isinstance(exponent, Cast):
        return _is_even(exponent.arg)
    return isinstance(exponent, Const) and exponent.value % 2 == 0
