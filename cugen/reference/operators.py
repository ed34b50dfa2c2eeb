"""Operators over tracked values: arithmetic, comparison, logic, bits, selection and casts."""

from __future__ import annotations

import numpy as np

from cugen.reference.functions import FUNCTIONS, apply_function, arc_tangent, power
from cugen.reference.integers import integer_operator
from cugen.reference.storage import Floats, Values, cast, format_of, rounds_twice
from cugen.reference.tracked import (
    OWN_ROUNDING,
    Bound,
    Tracked,
    after_store,
    by_ends,
    combine,
    deviation,
    exactly,
    fits,
    rounded,
    scaled,
    unit,
)
from cugen.spec.types import BOOL, FLOAT32, DType, Kind

_COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_STEPS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign}


def apply_operator(name: str, args: tuple[Tracked, ...], dtype: DType, *, nonnegative: bool = False) -> Tracked:
    """The operator's result in compute type `dtype`; `nonnegative`: the device's first operand is surely ≥ 0."""
    if name in _COMPARISONS:
        return _compare(name, *args)
    if dtype.kind is Kind.BOOL:
        return _logic(name, args)
    if not dtype.is_float:
        value = np.asarray(integer_operator(name, [a.value for a in args]))
        return Tracked(value, _integer_bound(name, args, dtype, value))
    if name in FUNCTIONS:
        return apply_function(name, args[0], dtype, nonnegative=nonnegative)
    match name, args:
        case "pow", (x, y):
            return power(x, y, dtype, nonnegative=nonnegative)
        case "atan2", (y, x):
            return arc_tangent(y, x, dtype)
        case "neg" | "abs", (x,):
            return Tracked(-x.value if name == "neg" else np.abs(x.value), x.bound, x.integral)
        case "maximum" | "minimum", (x, y):
            return _extreme(name, x, y)
        case _ if name in _STEPS:
            step = _STEPS[name]
            stepped = step(args[0].value)
            bound = by_ends(step, args[0], stepped)
            return Tracked(stepped, bound, bound is None and fits(stepped, dtype))
    return _arithmetic(name, args, dtype)


def _arithmetic(name: str, args: tuple[Tracked, ...], dtype: DType) -> Tracked:
    a, b = args[0], args[1]
    integral = all(x.integral for x in args)
    absolute: Bound = None
    inherited: Bound
    match name:
        case "add" | "sub":
            value = a.value + b.value if name == "add" else a.value - b.value
            inherited = combine(a.bound, b.bound)
        case "mul":
            value = a.value * b.value
            inherited = _product_error(a, b)
        case "fma":
            product = a.value * b.value
            value = product + args[2].value
            inherited = combine(_product_error(a, b), args[2].bound)
            integral = integral and fits(product, dtype)
            # Rounded or not, the product's error may show where the sum cancels.
            absolute = unit(dtype) * np.abs(product)
        case "div":
            value = a.value / b.value
            inherited = _quotient_error(a, b, value)
            integral = False
        case "floordiv" | "mod":
            return _floored(name, a, b, dtype)
        case _:
            raise TypeError(f"no operator of floats: {name}")
    if integral and (exact := exactly(value, dtype)):
        return exact
    if absolute is not None:
        inherited = combine(inherited, np.where(np.isfinite(value), absolute, 0.0))
    return rounded(value, inherited, dtype)


def _product_error(a: Tracked, b: Tracked) -> Bound:
    both = None if a.bound is None else scaled(a.bound, b.bound)
    return combine(scaled(a.value, b.bound), scaled(b.value, a.bound), both)


def _quotient_error(a: Tracked, b: Tracked, value: Values) -> Bound:
    """`a / b`: (ea + |a/b|·eb) / (|b| - eb); anything where the divisor may be 0."""
    error = combine(a.bound, scaled(value, b.bound))
    if error is None:
        return None
    nearest = np.abs(b.value) - b.slack
    return np.where((nearest <= 0) & (b.slack > 0), np.inf, np.where(error == 0, 0.0, error / nearest))


def _floored(name: str, a: Tracked, b: Tracked, dtype: DType) -> Tracked:
    """Floor division and its remainder; a quotient so near an integer that its rounding matters may fall either way."""
    quotient = a.value / b.value
    floor, rest = np.floor_divide(a.value, b.value), np.mod(a.value, b.value)
    if a.integral and b.integral and fits(2 * a.value, dtype) and bool(np.all(b.value)):
        return Tracked(floor if name == "floordiv" else rest, None, integral=True)
    error = combine(_quotient_error(a, b, quotient), 2 * unit(dtype) * np.abs(quotient))
    assert error is not None
    whole = (rest == 0) & (a.slack == 0) & (b.slack == 0)
    jumps = ~whole & (np.floor(quotient - error) != np.floor(quotient + error))
    odd = np.isinf(a.value) | np.isinf(b.value)  # floor(a / b) and the remainder's way disagree at infinity
    if name == "floordiv":
        return rounded(floor, np.where(odd, np.inf, np.where(jumps, np.ceil(error) + 1, 0.0)), dtype)
    inherited = combine(a.bound, scaled(floor, b.bound), unit(dtype) * 2 * np.abs(a.value))
    assert inherited is not None
    inherited = np.where(whole, 0.0, inherited) + np.where(jumps, np.abs(b.value) + b.slack, 0.0)
    return rounded(rest, np.where(odd, np.inf, inherited), dtype)


def _extreme(name: str, x: Tracked, y: Tracked) -> Tracked:
    pick = np.maximum if name == "maximum" else np.minimum
    value = pick(x.value, y.value)
    if x.bound is None and y.bound is None:
        return Tracked(value, None, x.integral and y.integral)
    high, low = pick(x.value + x.slack, y.value + y.slack), pick(x.value - x.slack, y.value - y.slack)
    return Tracked(value, np.maximum(deviation(value, high), deviation(value, low)))


def _compare(name: str, a: Tracked, b: Tracked) -> Tracked:
    value = _COMPARISONS[name](a.value, b.value)
    reach = combine(a.bound, b.bound)
    if reach is None:
        return Tracked(value)
    apart = np.abs(np.asarray(a.value, np.float64) - np.asarray(b.value, np.float64))
    either = (apart <= reach) & (reach > 0) | np.isinf(reach)
    return Tracked(value, either.astype(np.float64))


def _logic(name: str, args: tuple[Tracked, ...]) -> Tracked:
    if name in ("not", "invert"):
        return Tracked(~args[0].value, args[0].bound)
    a, b = args
    value = {
        "and": np.logical_and,
        "bitand": np.logical_and,
        "minimum": np.logical_and,
        "mul": np.logical_and,
        "or": np.logical_or,
        "bitor": np.logical_or,
        "maximum": np.logical_or,
        "bitxor": np.logical_xor,
    }[name](a.value, b.value)
    if a.bound is None and b.bound is None:
        return Tracked(value)
    either = (a.slack > 0) | (b.slack > 0)
    if name in ("and", "bitand", "minimum", "mul"):
        either &= ~(~a.value & (a.slack == 0)) & ~(~b.value & (b.slack == 0))
    elif name != "bitxor":
        either &= ~(a.value & (a.slack == 0)) & ~(b.value & (b.slack == 0))
    return Tracked(value, either.astype(np.float64))


def _integer_bound(name: str, args: tuple[Tracked, ...], dtype: DType, value: Values) -> Bound:
    """Sums and products pass a bound on; anything else, and whatever might wrap, admits everything."""
    total = combine(*(a.bound for a in args))
    if total is None:
        return None
    match name:
        case "add" | "sub" | "neg" | "maximum" | "minimum":
            error: Bound = total
        case "mul":
            error = _product_error(args[0], args[1])
        case _:
            error = np.where(total > 0, np.inf, 0.0)
    assert error is not None
    near = value.astype(np.float64)
    wraps = (near + error > float(dtype.highest)) | (near - error < float(dtype.lowest))
    return np.where((error > 0) & wraps, np.inf, error)


def select(condition: Tracked, then: Tracked, orelse: Tracked) -> Tracked:
    """`then` where the condition holds; where rounding decides the condition, either branch."""
    value = np.where(condition.value, then.value, orelse.value)
    integral = then.integral and orelse.integral
    if condition.bound is None and then.bound is None and orelse.bound is None:
        return Tracked(value, None, integral)
    bound: Floats = np.where(condition.value, then.slack, orelse.slack)
    if condition.bound is not None:
        gap = deviation(np.asarray(then.value, np.float64), np.asarray(orelse.value, np.float64))
        bound = np.where(condition.bound > 0, gap + np.maximum(then.slack, orelse.slack), bound)
    return Tracked(value, bound)


def convert(x: Tracked, source: DType, to: DType) -> Tracked:
    """`Cast`: the value rounded to `to`, and what that makes of its bound."""
    if to == source:
        return x
    if to.is_float:
        return _to_float(x, source, to)
    if source.is_float or to == BOOL:
        value = cast(x.value, to)
        ends = by_ends(lambda v: cast(v, to).astype(np.float64), _as_float(x), value.astype(np.float64))
        if ends is not None and to.bits < 32 and to != BOOL:
            assert x.bound is not None  # where the wrap to few bits may happen in between, the ends say nothing
            ends = np.where((x.bound > 0) & (np.abs(x.value) + x.bound >= to.highest), np.inf, ends)
        if ends is not None and to == BOOL:
            assert x.bound is not None
            ends = np.where((x.bound > 0) & (np.abs(x.value) <= x.bound), 1.0, ends)
        return Tracked(value, ends)
    value = cast(x.value, to)
    if x.bound is None:
        return Tracked(value)
    near = x.value.astype(np.float64)
    outside = (near + x.bound > float(to.highest)) | (near - x.bound < float(to.lowest))
    return Tracked(value, np.where((x.bound > 0) & outside, np.inf, x.bound), False, x.candidates)


def _as_float(x: Tracked) -> Tracked:
    return Tracked(x.value.astype(np.float64), x.bound)


def _to_float(x: Tracked, source: DType, to: DType) -> Tracked:
    if source.is_float and to.compute == to and format_of(to).digits >= format_of(source).digits:
        return x  # a wider compute type
    bound = x.bound
    if rounds_twice(source, to):
        bound = combine(bound, np.abs(x.value.astype(np.float64)) * format_of(FLOAT32).unit)
    operand = x.value if bound is None else x.value.astype(np.float64)
    stored, bound = after_store(Tracked(operand, bound), to)
    value = stored.astype(np.float64)
    if bound is not None and source.is_integer and to == to.compute:
        bound = bound + OWN_ROUNDING * np.abs(value)
    integral = (x.integral or not source.is_float) and bound is None and fits(value, to)
    return Tracked(value, bound, integral)
