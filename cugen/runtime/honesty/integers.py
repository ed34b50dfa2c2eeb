"""Vectorised evaluation of index expressions over all threads of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.nodes import COMPARISONS, Comparison
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Maximum, Minimum, Mod

Numbers = NDArray[np.int64]

_FUNCTIONS: dict[Any, Callable[[Any, Any], Any]] = {
    FloorDiv: np.floor_divide,
    Mod: np.mod,
    BitXor: np.bitwise_xor,
    Minimum: np.minimum,
    Maximum: np.maximum,
}


def value_of(expr: Integer, names: Mapping[sympy.Symbol, Numbers]) -> Numbers:
    """The value of `expr` for each thread; a 0-d array where it is uniform. Divisors must be positive."""
    if expr.is_Symbol:
        return names[expr]
    if expr.is_Integer:
        return np.asarray(int(expr), np.int64)
    parts = [value_of(arg, names) for arg in expr.args]
    if expr.is_Add or expr.is_Mul:
        combine = np.add if expr.is_Add else np.multiply
        total = parts[0]
        for part in parts[1:]:
            total = np.asarray(combine(total, part))
        return total
    if isinstance(expr, Choice):
        left, right, then, otherwise = parts
        return np.asarray(np.where(left < right, then, otherwise))
    first, second = parts
    return np.asarray(np.power(first, second) if expr.is_Pow else _FUNCTIONS[type(expr)](first, second))


def holds(term: Comparison, names: Mapping[sympy.Symbol, Numbers]) -> NDArray[np.bool_]:
    """Whether the comparison holds for each thread."""
    result: NDArray[np.bool_] = np.asarray(
        COMPARISONS[term.operator](value_of(term.left, names), value_of(term.right, names))
    )
    return result
