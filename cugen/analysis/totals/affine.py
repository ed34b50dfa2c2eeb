"""Affine and quasi-affine forms of index expressions over loop counters, and their evaluation.

Exact totals rely on `quasi_period`: e(v + period) = e(v) + drift for all values of the other variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, lcm, prod
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod, Ranges

Numbers = NDArray[np.int64]  # one value for each thread of a block
Values = Mapping[sympy.Symbol, "int | Numbers"]

MAX_MAGNITUDE = 1 << 62  # of an index in NumPy's integers, and of the distance of two such is 2^63


@dataclass(frozen=True)
class Affine:
    """`coefficients` of the affine counters; `residual` holds all other terms, and `nonaffine` the counters in them."""

    coefficients: Mapping[sympy.Symbol, int]
    residual: Integer
    nonaffine: tuple[sympy.Symbol, ...]

    def evaluator(self, ranges: Ranges, scale: int = 1) -> Callable[[Values], Any]:
        """Function that evaluates the residual. OverflowError if `scale` times the whole may exceed 63 bits."""
        whole = magnitude(self.residual, ranges)
        whole += sum(abs(step) * max(map(abs, ranges[counter])) for counter, step in self.coefficients.items())
        if whole * scale >= MAX_MAGNITUDE:
            raise OverflowError(f"{self.residual} and its counters exceed 64 bits")
        return _evaluator(self.residual)


def affine_form(expr: Integer, counters: tuple[sympy.Symbol, ...]) -> Affine:
    """Affine form of an expression over `counters`; the residual is over thread indices and nonaffine counters."""
    expanded = sympy.expand(expr)
    terms = expanded.args if expanded.is_Add else (expanded,)
    coefficients: dict[sympy.Symbol, int] = {}
    nonlinear: list[Integer] = []
    for term in terms:
        coefficient, factor = term.as_coeff_Mul()
        if factor in counters and coefficient.is_Integer:
            coefficients[factor] = coefficients.get(factor, 0) + int(coefficient)
        else:
            nonlinear.append(term)
    remainder = sympy.Add(*nonlinear)
    nonaffine = tuple(c for c in counters if c in remainder.free_symbols)
    for counter in nonaffine:
        if counter in coefficients:
            remainder += coefficients.pop(counter) * counter
    return Affine(coefficients, remainder, nonaffine)


@lru_cache(maxsize=4096)
def quasi_period(expr: Integer, variable: sympy.Symbol) -> tuple[int, int] | None:
    """(period, drift) of an expression in a variable; None if they depend on the other variables.

    Minimum and Maximum must be resolved first where the variable could change the selected operand.
    """
    if variable not in expr.free_symbols:
        return 1, 0
    if expr.is_Symbol:
        return 1, 1
    parts = [quasi_period(arg, variable) for arg in expr.args]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    if isinstance(expr, Choice):
        return None
    if expr.is_Add:
        period = lcm(*(p for p, _ in known))
        return period, sum(drift * (period // p) for p, drift in known)
    if expr.is_Mul:
        coefficient, factor = expr.as_coeff_Mul()
        inner = quasi_period(factor, variable) if factor != expr else None
        return None if inner is None else (inner[0], inner[1] * int(coefficient))
    (period, drift), (other_period, other_drift) = known
    match expr:
        case FloorDiv() | Mod() if expr.args[1].is_Integer:
            divisor = int(expr.args[1])
            times = divisor // gcd(drift, divisor)
            return period * times, drift * times // divisor if isinstance(expr, FloorDiv) else 0
        case BitXor():
            return (lcm(period, other_period), 0) if drift == other_drift == 0 else None
        case Minimum() | Maximum():
            common = lcm(period, other_period)
            drifts = (drift * (common // period), other_drift * (common // other_period))
            return (common, drifts[0]) if drifts[0] == drifts[1] else None
    return None


def in_extremum(expr: Integer, variable: sympy.Symbol) -> bool:
    """Whether an operand of a Minimum or Maximum depends on the variable."""
    return any(variable in extremum.free_symbols for extremum in expr.atoms(Minimum, Maximum))


def resolve_extrema(expr: Integer, varying: frozenset[sympy.Symbol], values: Values) -> Integer:
    """Replaces each Minimum and Maximum over a varying counter by the operand selected at `values`.

    Precondition: the region is cut so that all lanes and values select the same operand."""
    if not expr.args or not (expr.free_symbols & varying):
        return expr
    parts = [resolve_extrema(arg, varying, values) for arg in expr.args]
    if isinstance(expr, Minimum | Maximum) and (expr.free_symbols & varying):
        ranges = {name: (int(np.min(value)), int(np.max(value))) for name, value in values.items()}
        first, second = (np.max(evaluator(part, ranges)(values)) for part in parts)
        return parts[0] if (first < second) == isinstance(expr, Minimum) else parts[1]
    return expr.func(*parts)


def evaluator(expr: Integer, ranges: Ranges) -> Callable[[Values], Any]:
    """Function that evaluates the expression; symbols are integers in `ranges`, or arrays whose shapes broadcast.

    OverflowError if a part of it may exceed 63 bits: NumPy's integers would wrap.
    """
    if magnitude(expr, ranges) >= MAX_MAGNITUDE:
        raise OverflowError(f"{expr} exceeds 64 bits")
    return _evaluator(expr)


def magnitude(expr: Integer, ranges: Ranges) -> int:
    """Upper bound of the absolute value of an expression, and of every part of it that `evaluator` computes."""
    if expr.is_Integer:
        return abs(int(expr))
    if expr.is_Symbol:
        return max(map(abs, ranges[expr]))
    parts = [magnitude(arg, ranges) for arg in expr.args]
    if expr.is_Add:
        return sum(parts)
    if expr.is_Mul:
        return prod(max(part, 1) for part in parts)
    if expr.is_Pow:
        return parts[0] ** min(parts[1], MAX_MAGNITUDE.bit_length()) if parts[0] > 1 else max(parts)
    return 2 * max(parts) if isinstance(expr, BitXor) else max(parts)


def _divided(operator: np.ufunc, dividend: Any, divisor: Any) -> Any:
    """The quotient or remainder; anything where a guard excludes a divisor of 0."""
    with np.errstate(divide="ignore"):
        return operator(dividend, divisor)


def _evaluator(expr: Integer) -> Callable[[Values], Any]:
    if expr.is_Integer:
        constant = int(expr)
        return lambda values: constant
    if expr.is_Symbol:
        return lambda values: values[expr]
    parts = [_evaluator(arg) for arg in expr.args]
    if expr.is_Add:
        return lambda values: sum(part(values) for part in parts)
    if expr.is_Mul:
        return lambda values: _product(part(values) for part in parts)
    if expr.is_Pow:
        base, exponent = parts
        return lambda values: base(values) ** exponent(values)
    if isinstance(expr, Choice):
        left, right, then, otherwise = parts
        return lambda values: np.where(left(values) < right(values), then(values), otherwise(values))
    a, b = parts
    match expr:
        case FloorDiv() if expr.args[1].is_Integer:
            return lambda values: a(values) // b(values)
        case Mod() if expr.args[1].is_Integer:
            return lambda values: a(values) % b(values)
        case FloorDiv():
            return lambda values: _divided(np.floor_divide, a(values), b(values))
        case Mod():
            return lambda values: _divided(np.remainder, a(values), b(values))
        case BitXor():
            return lambda values: a(values) ^ b(values)
        case Minimum():
            return lambda values: np.minimum(a(values), b(values))
        case Maximum():
            return lambda values: np.maximum(a(values), b(values))
    raise TypeError(f"not an integer expression: {expr}")


def _product(values: Iterable[Any]) -> Any:
    result: Any = 1
    for value in values:
        result = result * value  # not in place: shapes are broadcast
    return result


def extremum_differences(expr: Integer) -> tuple[Integer, ...]:
    """Differences whose sign selects the operand of each Minimum and Maximum.

    Nested functions contribute one difference per operand that they may select."""
    differences: dict[Integer, None] = {}
    for part in sympy.preorder_traversal(expr):
        if isinstance(part, Minimum | Maximum):
            first, second = (alternatives(arg) for arg in part.args)
            differences.update(dict.fromkeys(a - b for a in first for b in second))
    return tuple(differences)


def alternatives(expr: Integer) -> tuple[Integer, ...]:
    """Forms of the expression for all selections of Minimum and Maximum operands."""
    if not expr.has(Minimum, Maximum):
        return (expr,)
    if isinstance(expr, Minimum | Maximum):
        return tuple(dict.fromkeys(alternative for arg in expr.args for alternative in alternatives(arg)))
    parts = [alternatives(arg) for arg in expr.args]
    return tuple(dict.fromkeys(expr.func(*chosen) for chosen in product(*parts)))
