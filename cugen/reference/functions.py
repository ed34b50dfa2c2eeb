"""Elementary functions: their values, the errors that CUDA documents for them, and how operands' errors pass through.

The errors in units in the last place are those of the tables in the CUDA C++ Programming Guide, "Mathematical
Functions" (standard functions, default compiler settings); one unit more where the C libraries of hosts are documented
to be worse. Reference values come from NumPy and `math`, which are within a few units of 2^-53.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cugen.reference.storage import Floats, Values
from cugen.reference.tracked import Bound, Tracked, by_ends, deviation, rounded
from cugen.spec.types import FLOAT64, DType

Function = Callable[[Values], Values]
_OWN = 8.0  # units of 2^-53 that NumPy's and math's functions may be off


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
    """One function: `ulps32` and `ulps64` of the device, and the rule for inherited errors (`monotone` if None)."""

    value: Function
    ulps32: float
    ulps64: float
    inherit: Callable[[Tracked, Values], Bound] | None = None


def _unless(singular: Values, bound: Bound) -> Bound:
    return None if bound is None else np.where(singular, np.inf, bound)


def _lipschitz_two(x: Tracked, value: Values) -> Bound:
    return None if x.bound is None else np.where(np.isinf(x.bound), np.inf, np.minimum(x.bound, 2.0))


def _through_tan(x: Tracked, value: Values) -> Bound:
    if x.bound is None:
        return None
    branch = [np.floor((x.value + sign * x.bound) / np.pi + 0.5) for sign in (-1, 1)]
    return _unless(branch[0] != branch[1], by_ends(np.tan, x, value))


def _through_cosh(x: Tracked, value: Values) -> Bound:
    return by_ends(np.cosh, Tracked(np.abs(x.value), x.bound), value, lowest=0.0)


def _through_erf(x: Tracked, value: Values) -> Bound:
    """The slope 2/sqrt(pi)·exp(-x²) is greatest at the end nearest to 0."""
    if x.bound is None:
        return None
    nearest = np.maximum(np.abs(x.value) - x.bound, 0.0)
    steepest = 2 / math.sqrt(math.pi) * np.exp(-(nearest**2))
    return np.where(np.isinf(x.bound), np.inf, np.minimum(x.bound * steepest, 2.0))


def _through_lgamma(x: Tracked, value: Values) -> Bound:
    """log|Γ| is convex between its poles: the greatest change is at one of the ends."""
    if x.bound is None:
        return None
    low, high = x.value - x.bound, x.value + x.bound
    crosses = (low <= 0) & (np.floor(low) != np.floor(high))
    return _unless(crosses, by_ends(_LGAMMA, x, value))


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
    """The function at `x`, whose argument is known to be ≥ 0 on the device too where `nonnegative`."""
    function = FUNCTIONS[name]
    operand = np.asarray(x.value)
    value = np.asarray(function.value(operand))
    if function.inherit is None:
        inherited = by_ends(function.value, x, value, lowest=0.0 if nonnegative else None)
    else:
        inherited = function.inherit(x, value)
    ulps = function.ulps64 if dtype == FLOAT64 else function.ulps32
    if name == "lgamma":
        # Between -11 and -2 the guide promises nothing relative; the reflection's terms are of the size of |x|.
        inside = (operand < -2) & (operand > -12)
        inherited = _plus(inherited, np.where(inside, 64 * _unit(dtype) * (np.abs(operand) + 1), 0.0))
    return rounded(value, inherited, dtype, ulps=ulps, own=_OWN)


def _unit(dtype: DType) -> float:
    return 2.0**-53 if dtype == FLOAT64 else 2.0**-24


def _plus(bound: Bound, more: Floats) -> Floats:
    return more if bound is None else bound + more


def power(x: Tracked, y: Tracked, dtype: DType, *, nonnegative: bool) -> Tracked:
    """`x ** y` of floats: over the operands' intervals it is extreme at a corner, or where the base crosses 0."""
    value = np.power(x.value, y.value)
    inherited: Bound = None
    if x.bound is not None or y.bound is not None:
        low = x.value - x.slack
        bases = [np.maximum(low, 0.0) if nonnegative else low, x.value + x.slack]
        bases.append(np.where((bases[0] < 0) & (bases[1] > 0), 0.0, x.value))
        inherited = np.zeros(())
        for base in bases:
            for exponent in (y.value - y.slack, y.value + y.slack):
                inherited = np.maximum(inherited, deviation(value, np.power(base, exponent)))
        inherited = np.where(np.isinf(x.slack) | np.isinf(y.slack), np.inf, inherited)
    return rounded(value, inherited, dtype, ulps=2 if dtype == FLOAT64 else 4, own=_OWN)


def arc_tangent(y: Tracked, x: Tracked, dtype: DType) -> Tracked:
    """`atan2(y, x)`: an error of the point turns it by at most π/2 · error / distance; 2π across the cut."""
    value = np.arctan2(y.value, x.value)
    inherited: Bound = None
    if x.bound is not None or y.bound is not None:
        error, distance = np.hypot(x.slack, y.slack), np.hypot(x.value, y.value)
        crosses = (x.value - x.slack < 0) & (np.abs(y.value) <= y.slack) & (y.slack > 0)
        turned = np.where(error == 0, 0.0, np.pi / 2 * error / distance)
        inherited = np.where(crosses | (error >= distance) & (error > 0), 2 * np.pi, turned)
        inherited = np.where(np.isinf(error), np.inf, inherited)
    return rounded(value, inherited, dtype, ulps=2 if dtype == FLOAT64 else 3, own=_OWN)
