"""Operators over tracked values: arithmetic, comparison, logic, bits, selection and casts."""

from __future__ import annotations

import numpy as np

from cugen.reference.fast_math import accurate_name, with_error
from cugen.reference.functions import FUNCTIONS, apply_function, arc_tangent, power
from cugen.reference.integers import integer_operator
from cugen.reference.storage import Floats, Values, cast, format_of, rounds_twice
from cugen.reference.tracked import (
    HOST_ROUNDING,
    Bound,
    Tracked,
    after_store,
    combine,
    deviation,
    endpoint_error,
    exact_integers,
    integers_are_exact,
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
_STEP_FUNCTIONS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign}


def apply_operator(name: str, args: tuple[Tracked, ...], dtype: DType, *, nonnegative: bool = False) -> Tracked:
    """The operator's result in compute type `dtype`; `nonnegative`: the first operand is ≥ 0 on any device."""
    if accurate := accurate_name(name):
        return with_error(accurate, args, apply_operator(accurate, args, dtype, nonnegative=nonnegative))
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
            return _extremum(name, x, y)
        case _ if name in _STEP_FUNCTIONS:
            step = _STEP_FUNCTIONS[name]
            stepped = step(args[0].value)
            bound = endpoint_error(step, args[0], stepped)
            return Tracked(stepped, bound, bound is None and integers_are_exact(stepped, dtype))
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
            integral = integral and integers_are_exact(product, dtype)
            # The product may be rounded or not (fused); its error shows under cancellation.
            absolute = unit(dtype) * np.abs(product)
        case "div":
            value = a.value / b.value
            inherited = _quotient_error(a, b, value)
            integral = False
        case "floordiv" | "mod":
            return _floored(name, a, b, dtype)
        case _:
            raise TypeError(f"no operator of floats: {name}")
    if integral and (exact := exact_integers(value, dtype)):
        return exact
    if absolute is not None:
        inherited = combine(inherited, np.where(np.isfinite(value), absolute, 0.0))
    return rounded(value, inherited, dtype)


def _product_error(a: Tracked, b: Tracked) -> Bound:
    both = None if a.bound is None else scaled(a.bound, b.bound)
    return combine(scaled(a.value, b.bound), scaled(b.value, a.bound), both)


def _quotient_error(a: Tracked, b: Tracked, value: Values) -> Bound:
    """The error of `a / b`: (ea + |a/b|·eb) / (|b| - eb); inf where the divisor may be 0."""
    error = combine(a.bound, scaled(value, b.bound))
    if error is None:
        return None
    nearest = np.abs(b.value) - b.slack
    return np.where((nearest <= 0) & (b.slack > 0), np.inf, np.where(error == 0, 0.0, error / nearest))


def _floored(name: str, a: Tracked, b: Tracked, dtype: DType) -> Tracked:
    """Floor division and remainder; a quotient within its error of an integer may be floored to either side."""
    quotient = a.value / b.value
    floor, remainder = np.floor_divide(a.value, b.value), np.mod(a.value, b.value)
    if a.integral and b.integral and integers_are_exact(2 * a.value, dtype) and bool(np.all(b.value)):
        return Tracked(floor if name == "floordiv" else remainder, None, integral=True)
    error = combine(_quotient_error(a, b, quotient), 2 * unit(dtype) * np.abs(quotient))
    assert error is not None
    whole = (remainder == 0) & (a.slack == 0) & (b.slack == 0)
    jumps = ~whole & (np.floor(quotient - error) != np.floor(quotient + error))
    undefined = np.isinf(a.value) | np.isinf(b.value)  # floor(a / b) and floor_divide differ for infinities
    if name == "floordiv":
        return rounded(floor, np.where(undefined, np.inf, np.where(jumps, np.ceil(error) + 1, 0.0)), dtype)
    inherited = combine(a.bound, scaled(floor, b.bound), unit(dtype) * 2 * np.abs(a.value))
    assert inherited is not None
    inherited = np.where(whole, 0.0, inherited) + np.where(jumps, np.abs(b.value) + b.slack, 0.0)
    return rounded(remainder, np.where(undefined, np.inf, inherited), dtype)


def _extremum(name: str, x: Tracked, y: Tracked) -> Tracked:
    pick = np.maximum if name == "maximum" else np.minimum
    value = pick(x.value, y.value)
    if x.bound is None and y.bound is None:
        return Tracked(value, None, x.integral and y.integral)
    high, low = pick(x.value + x.slack, y.value + y.slack), pick(x.value - x.slack, y.value - y.slack)
    return Tracked(value, np.maximum(deviation(value, high), deviation(value, low)))


def _compare(name: str, a: Tracked, b: Tracked) -> Tracked:
    value = _COMPARISONS[name](a.value, b.value)
    error = combine(a.bound, b.bound)
    if error is None or not error.any():  # it often has fewer elements: a key is compared with each of many
        return Tracked(value)
    with np.errstate(invalid="ignore"):  # equal infinities: decided
        distance = np.abs(np.asarray(a.value, np.float64) - np.asarray(b.value, np.float64))
    is_undecided = (distance <= error) & (error > 0) | np.isinf(error)
    return Tracked(value, is_undecided.astype(np.float64))


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
    is_undecided = (a.slack > 0) | (b.slack > 0)
    if name in ("and", "bitand", "minimum", "mul"):
        is_undecided = is_undecided & ~(~a.value & (a.slack == 0)) & ~(~b.value & (b.slack == 0))
    elif name != "bitxor":
        is_undecided = is_undecided & ~(a.value & (a.slack == 0)) & ~(b.value & (b.slack == 0))
    return Tracked(value, is_undecided.astype(np.float64))


def _integer_bound(name: str, args: tuple[Tracked, ...], dtype: DType, value: Values) -> Bound:
    """Error of an integer operator: propagated by sums and products; inf for the others and where a result may wrap."""
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
    """`then` where the condition holds; both branches are admissible where rounding decides the condition."""
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
    """`Cast`: the value converted to `to`, with its propagated bound."""
    if to == source:
        return x
    if to.is_float:
        return _to_float(x, source, to)
    if source.is_float or to == BOOL:
        value = cast(x.value, to)
        endpoint_bound = endpoint_error(
            lambda v: cast(v, to).astype(np.float64), _as_float(x), value.astype(np.float64)
        )
        if endpoint_bound is not None and to.bits < 32 and to != BOOL:
            assert x.bound is not None  # the wrap to fewer bits isn't monotone, so the endpoints give no bound
            endpoint_bound = np.where((x.bound > 0) & (np.abs(x.value) + x.bound >= to.highest), np.inf, endpoint_bound)
        if endpoint_bound is not None and to == BOOL:
            assert x.bound is not None
            endpoint_bound = np.where((x.bound > 0) & (np.abs(x.value) <= x.bound), 1.0, endpoint_bound)
        return Tracked(value, endpoint_bound)
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
        bound = bound + HOST_ROUNDING * np.abs(value)
    integral = (x.integral or not source.is_float) and bound is None and integers_are_exact(value, to)
    return Tracked(value, bound, integral)
