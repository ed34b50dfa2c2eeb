"""Elementary functions: values, the device errors that CUDA documents, and the propagation of operands' errors.

The errors in units in the last place are those of the tables in the CUDA C++ Programming Guide, "Mathematical
Functions" (standard functions, default compiler settings), plus one unit where host C libraries document a larger
error. Reference values come from NumPy and `math`, which are within a few units of 2^-53.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cugen.reference.storage import Floats, Values
from cugen.reference.tracked import Bound, Tracked, deviation, endpoint_error, rounded
from cugen.spec.floats.powers import literal_power
from cugen.spec.types import FLOAT64, DType

Function = Callable[[Values], Values]
_HOST_ULPS = 8.0  # error bound of NumPy's and math's functions, in units of 2^-53


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole: zero and the negative integers
        return math.inf


def _by_element(function: Callable[[float], float]) -> Function:
    vectorised = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(vectorised(x), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Elementary:
    """One function: the device's error in ulps for float32 and float64, and its error propagation (None: monotone)."""

    value: Function
    ulps32: float
    ulps64: float
    propagate: Callable[[Tracked, Values], Bound] | None = None


def _unless(singular: Values, bound: Bound) -> Bound:
    return None if bound is None else np.where(singular, np.inf, bound)


def _lipschitz_two(x: Tracked, value: Values) -> Bound:
    return None if x.bound is None else np.where(np.isinf(x.bound), np.inf, np.minimum(x.bound, 2.0))


def _through_tan(x: Tracked, value: Values) -> Bound:
    if x.bound is None:
        return None
    branch = [np.floor((x.value + sign * x.bound) / np.pi + 0.5) for sign in (-1, 1)]
    return _unless(branch[0] != branch[1], endpoint_error(np.tan, x, value))


def _through_cosh(x: Tracked, value: Values) -> Bound:
    return endpoint_error(np.cosh, Tracked(np.abs(x.value), x.bound), value, lowest=0.0)


def _through_erf(x: Tracked, value: Values) -> Bound:
    """The slope 2/sqrt(pi)·exp(-x²) is greatest at the endpoint nearest to 0."""
    if x.bound is None:
        return None
    nearest = np.maximum(np.abs(x.value) - x.bound, 0.0)
    steepest = 2 / math.sqrt(math.pi) * np.exp(-(nearest**2))
    return np.where(np.isinf(x.bound), np.inf, np.minimum(x.bound * steepest, 2.0))


def _through_lgamma(x: Tracked, value: Values) -> Bound:
    """log|Γ| is convex between its poles: the largest deviation is at an endpoint."""
    if x.bound is None:
        return None
    low, high = x.value - x.bound, x.value + x.bound
    crosses = (low <= 0) & (np.floor(low) != np.floor(high))
    return _unless(crosses, endpoint_error(_LGAMMA, x, value))


_LGAMMA = _by_element(_log_gamma)

FUNCTIONS: dict[str, Elementary] = {
    "sqrt": Elementary(np.sqrt, 0.5, 0.5),
    "rsqrt": Elementary(lambda x: 1 / np.sqrt(x), 2, 2),
    "cbrt": Elementary(np.cbrt, 1, 1),
    "exp": Elementary(np.exp, 2, 1),
    "exp2": Elementary(np.exp2, 2, 1),
    "expm1": Elementary(np.expm1, 1, 1),
    "log": Elementary(np.log, 1, 1),
    "log2": Elementary(np.log2, 1, 1),
    "log10": Elementary(np.log10, 2, 2),
    "log1p": Elementary(np.log1p, 1, 1),
    "sin": Elementary(np.sin, 2, 2, _lipschitz_two),
    "cos": Elementary(np.cos, 2, 2, _lipschitz_two),
    "tan": Elementary(np.tan, 4, 2, _through_tan),
    "asin": Elementary(np.arcsin, 4, 2),
    "acos": Elementary(np.arccos, 3, 2),
    "atan": Elementary(np.arctan, 2, 2),
    "sinh": Elementary(np.sinh, 3, 2),
    "cosh": Elementary(np.cosh, 2, 2, _through_cosh),
    "tanh": Elementary(np.tanh, 3, 2),
    "asinh": Elementary(np.arcsinh, 3, 3),
    "acosh": Elementary(np.arccosh, 4, 3),
    "atanh": Elementary(np.arctanh, 3, 3),
    "erf": Elementary(_by_element(math.erf), 2, 2, _through_erf),
    "erfc": Elementary(_by_element(math.erfc), 4, 5, _through_erf),
    "lgamma": Elementary(_LGAMMA, 7, 5, _through_lgamma),
}


def apply_function(name: str, x: Tracked, dtype: DType, *, nonnegative: bool) -> Tracked:
    """The function at `x`; `nonnegative`: the argument is ≥ 0 on the device, whatever its rounding."""
    function = FUNCTIONS[name]
    operand = np.asarray(x.value)
    value = np.asarray(function.value(operand))
    if function.propagate is None:
        propagated = endpoint_error(function.value, x, value, lowest=0.0 if nonnegative else None)
    else:
        propagated = function.propagate(x, value)
    ulps = function.ulps64 if dtype == FLOAT64 else function.ulps32
    if name == "lgamma":
        # Between -11 and -2 the guide gives no relative bound; the terms of the reflection formula are of order |x|.
        is_reflected = (operand < -2) & (operand > -12)
        propagated = _add_error(propagated, np.where(is_reflected, 64 * _unit(dtype) * (np.abs(operand) + 1), 0.0))
    return rounded(value, propagated, dtype, ulps=ulps, host_ulps=_HOST_ULPS)


def _unit(dtype: DType) -> float:
    return 2.0**-53 if dtype == FLOAT64 else 2.0**-24


def _add_error(bound: Bound, error: Floats) -> Floats:
    return error if bound is None else bound + error


def power(x: Tracked, y: Tracked, dtype: DType, *, nonnegative: bool) -> Tracked:
    """`x ** y` of floats; over the operands' intervals its extrema are at corners, or where the base crosses 0."""
    value = np.power(x.value, y.value)
    propagated: Bound = None
    if x.bound is not None or y.bound is not None:
        low = x.value - x.slack
        bases = [np.maximum(low, 0.0) if nonnegative else low, x.value + x.slack]
        bases.append(np.where((bases[0] < 0) & (bases[1] > 0), 0.0, x.value))
        propagated = np.zeros(())
        for base in bases:
            for exponent in (y.value - y.slack, y.value + y.slack):
                propagated = np.maximum(propagated, deviation(value, np.power(base, exponent)))
        propagated = np.where(np.isinf(x.slack) | np.isinf(y.slack), np.inf, propagated)
    ulps = max(2.0 if dtype == FLOAT64 else 4.0, _ulps_of_products(y))
    return rounded(value, propagated, dtype, ulps=ulps, host_ulps=_HOST_ULPS)


def _ulps_of_products(exponent: Tracked) -> float:
    """The error of a power that is computed by multiplications; 0 for any other exponent."""
    if exponent.value.size != 1 or exponent.bound is not None:
        return 0
    power = literal_power(float(exponent.value.item()))
    return 0 if power is None else power.ulps


def arc_tangent(y: Tracked, x: Tracked, dtype: DType) -> Tracked:
    """`atan2(y, x)`: an error of the point rotates it by at most π/2 · error / distance; 2π across the branch cut."""
    value = np.arctan2(y.value, x.value)
    propagated: Bound = None
    if x.bound is not None or y.bound is not None:
        error, distance = np.hypot(x.slack, y.slack), np.hypot(x.value, y.value)
        crosses = (x.value - x.slack < 0) & (np.abs(y.value) <= y.slack) & (y.slack > 0)
        rotation = np.where(error == 0, 0.0, np.pi / 2 * error / distance)
        propagated = np.where(crosses | (error >= distance) & (error > 0), 2 * np.pi, rotation)
        propagated = np.where(np.isinf(error), np.inf, propagated)
    return rounded(value, propagated, dtype, ulps=2 if dtype == FLOAT64 else 3, host_ulps=_HOST_ULPS)
