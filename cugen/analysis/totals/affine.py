"""Index expressions as functions of counters: the part that is linear, the part that repeats, and their values.

`shift` is what makes exact totals cheap: e(v + period) = e(v) + drift, whatever the other variables are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, lcm
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod

Numbers = NDArray[np.int64]  # one value for each thread of a block
Values = Mapping[sympy.Symbol, "int | Numbers"]


@dataclass(frozen=True)
class Affine:
    """`coefficients` of the variables that enter linearly; `rest` holds everything else, and `tangled` its counters."""

    coefficients: Mapping[sympy.Symbol, int]
    rest: Integer
    tangled: tuple[sympy.Symbol, ...]


def split(expr: Integer, counters: tuple[sympy.Symbol, ...]) -> Affine:
    """The expression as a sum of multiples of counters and a rest over threads and tangled counters."""
    expanded = sympy.expand(expr)
    terms = expanded.args if expanded.is_Add else (expanded,)
    coefficients: dict[sympy.Symbol, int] = {}
    rest: list[Integer] = []
    for term in terms:
        coefficient, factor = term.as_coeff_Mul()
        if factor in counters and coefficient.is_Integer:
            coefficients[factor] = coefficients.get(factor, 0) + int(coefficient)
        else:
            rest.append(term)
    remainder = sympy.Add(*rest)
    tangled = tuple(c for c in counters if c in remainder.free_symbols)
    for counter in tangled:
        if counter in coefficients:
            remainder += coefficients.pop(counter) * counter
    return Affine(coefficients, remainder, tangled)


@lru_cache(maxsize=4096)
def shift(expr: Integer, variable: sympy.Symbol) -> tuple[int, int] | None:
    """(period, drift) of an expression in a variable; None where there is none that holds for all other values.

    Minimum and Maximum must have been settled first wherever the variable could change their winner.
    """
    if variable not in expr.free_symbols:
        return 1, 0
    if expr.is_Symbol:
        return 1, 1
    parts = [shift(arg, variable) for arg in expr.args]
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
        inner = shift(factor, variable) if factor != expr else None
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


def settled(expr: Integer, varying: frozenset[sympy.Symbol], values: Values) -> Integer:
    """The expression with each Minimum and Maximum that involves a varying counter replaced by its winner at `values`.

    Whoever asks has cut the launch so that the winner is the same for all lanes and all values."""
    if not expr.args or not (expr.free_symbols & varying):
        return expr
    parts = [settled(arg, varying, values) for arg in expr.args]
    if isinstance(expr, Minimum | Maximum) and (expr.free_symbols & varying):
        first, second = (np.max(compiled(part)(values)) for part in parts)
        return parts[0] if (first < second) == isinstance(expr, Minimum) else parts[1]
    return expr.func(*parts)


def compiled(expr: Integer) -> Callable[[Values], Any]:
    """A function from the values of all symbols, integers or one for each thread, to those of the expression."""
    if expr.is_Integer:
        constant = int(expr)
        return lambda values: constant
    if expr.is_Symbol:
        return lambda values: values[expr]
    parts = [compiled(arg) for arg in expr.args]
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
        case FloorDiv():
            return lambda values: a(values) // b(values)
        case Mod():
            return lambda values: a(values) % b(values)
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
        result *= value
    return result


def choices(expr: Integer) -> tuple[Integer, ...]:
    """The differences whose sign decides which operand of each Minimum and Maximum wins.

    Where operands hold such a function themselves, there is one difference for each that may have won inside."""
    found: dict[Integer, None] = {}
    for part in sympy.preorder_traversal(expr):
        if isinstance(part, Minimum | Maximum):
            first, second = (alternatives(arg) for arg in part.args)
            found.update(dict.fromkeys(a - b for a in first for b in second))
    return tuple(found)


def alternatives(expr: Integer) -> tuple[Integer, ...]:
    """What the expression may be once the winner of each Minimum and Maximum in it is known."""
    if not expr.has(Minimum, Maximum):
        return (expr,)
    if isinstance(expr, Minimum | Maximum):
        return tuple(dict.fromkeys(found for arg in expr.args for found in alternatives(arg)))
    parts = [alternatives(arg) for arg in expr.args]
    return tuple(dict.fromkeys(expr.func(*chosen) for chosen in product(*parts)))
