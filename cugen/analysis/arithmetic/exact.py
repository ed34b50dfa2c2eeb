"""Integer operators without wrapping, on arrays of values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cugen.spec.types import INT64, DType

Numbers = npt.NDArray[Any]  # of int64, which hold the results of operations on 32 bits, or bools
_EXACT_BITS = 32  # of types whose operations int64 can hold


def _floored(quotient: Callable[[Any, Any], Any]) -> Callable[[Numbers, Numbers], Numbers]:
    """Floor division or remainder, 0 where the divisor is."""

    def result(a: Numbers, b: Numbers) -> Numbers:
        is_zero = b == 0
        return np.where(is_zero, 0, quotient(a, np.where(is_zero, 1, b)))

    return result


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": lambda a, b, c: a * b + c,
    "floordiv": _floored(operator.floordiv),
    "mod": _floored(operator.mod),
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "neg": operator.neg,
    "abs": operator.abs,
    "sign": np.sign,
    **{name: lambda a: a for name in ("floor", "ceil", "round", "trunc")},
}


def exact(name: str, args: list[Numbers], dtype: DType) -> Numbers | None:
    """The result of an operator on values of an integer type, as if the type had no limits. Of a power, and of a type
    of 64 bits, it has Python integers; None for exponents that are negative, or give numbers too large for any type. A
    complement, and a shift by a count outside, are as the type defines them."""
    if dtype.bits > _EXACT_BITS:
        args = [arg.astype(object) for arg in args]
    match name, args:
        case "invert", [a]:
            return a ^ dtype.highest if dtype.lowest == 0 else -1 - a
        case "shl" | "shr", [a, b]:
            is_inside = (b >= 0) & (b < dtype.bits)
            count = np.where(is_inside, b, 0)
            if name == "shl":
                return np.where(is_inside, a << count, 0)
            return np.where(is_inside, a >> count, np.where(a < 0, -1, 0))
        case "pow", [a, b]:
            is_usual = bool(((b >= 0) & (b < INT64.bits)).all())
            return a.astype(object) ** b.astype(object) if is_usual else None
    result: Numbers = _OPERATORS[name](*args)
    return result


def wrapped(values: Numbers, dtype: DType) -> Numbers | None:
    """The values modulo the type; None if int64 can't hold them."""
    inside = (values - dtype.lowest) % (1 << dtype.bits) + dtype.lowest if is_outside(values, dtype).any() else values
    return None if is_outside(inside, INT64).any() else inside.astype(np.int64)


def is_outside(values: Numbers, dtype: DType) -> npt.NDArray[np.bool_]:
    """Which values the type can't hold."""
    outside = (values < dtype.lowest) | (values > dtype.highest)
    return outside.astype(np.bool_)
