"""Integer operators at the width of their type: results wrap, and division by zero yields 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cugen.reference.storage import Values


def integer_operator(name: str, args: Sequence[Values]) -> Values:
    """The operator on integer arrays of the same type; corner cases as in `OPERATORS`. TypeError for an unknown one."""
    match name, args:
        case "add", [a, b]:
            return np.add(a, b)
        case "sub", [a, b]:
            return np.subtract(a, b)
        case "mul", [a, b]:
            return np.multiply(a, b)
        case "fma", [a, b, c]:
            return np.add(np.multiply(a, b), c)
        case "floordiv", [a, b]:
            return _divided(a, b)[0]
        case "mod", [a, b]:
            return _divided(a, b)[1]
        case "pow", [a, b]:
            return _power(a, b)
        case "shl" | "shr", [a, b]:
            return _shifted(name, a, b)
        case "bitand", [a, b]:
            return np.bitwise_and(a, b)
        case "bitor", [a, b]:
            return np.bitwise_or(a, b)
        case "bitxor", [a, b]:
            return np.bitwise_xor(a, b)
        case "maximum", [a, b]:
            return np.maximum(a, b)
        case "minimum", [a, b]:
            return np.minimum(a, b)
        case "neg", [a]:
            return np.negative(a)
        case "invert", [a]:
            return np.invert(a)
        case "abs", [a]:
            return np.abs(a)
        case "sign", [a]:
            return np.sign(a)
        case (("floor" | "ceil" | "round" | "trunc"), [a]):
            return a
    raise TypeError(f"no operator of integers: {name} with {len(args)} operands")


def _divided(a: Values, b: Values) -> tuple[Values, Values]:
    """Floor quotient and remainder; the minimum of the type divided by -1 wraps."""
    unity = b.dtype.type(1)
    is_ordinary = (b != 0) & (b != -unity) if b.dtype.kind == "i" else b != 0
    divisor = np.where(is_ordinary, b, unity)
    quotient, remainder = np.floor_divide(a, divisor), np.mod(a, divisor)
    if b.dtype.kind == "i":
        quotient = np.where(b == -unity, np.negative(a), quotient)
    zero = b == 0
    return np.where(zero, b.dtype.type(0), quotient), np.where(zero, b.dtype.type(0), remainder)


def _power(a: Values, b: Values) -> Values:
    if b.dtype.kind == "u":
        return np.power(a, b)
    unity, zero = a.dtype.type(1), a.dtype.type(0)
    negative = b < 0
    reciprocal = np.where(a == unity, unity, np.where(a == -unity, np.where(b % 2 == 0, unity, -unity), zero))
    return np.where(negative, reciprocal, np.power(a, np.where(negative, zero, b)))


def _shifted(name: str, a: Values, b: Values) -> Values:
    """A count outside 0 .. bits - 1 gives 0, or for a right shift the sign."""
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    count = np.where(inside, b, b.dtype.type(0))
    if name == "shl":
        return np.where(inside, np.left_shift(a, count), a.dtype.type(0))
    sign_fill = np.where(a < 0, a.dtype.type(-1), a.dtype.type(0)) if a.dtype.kind == "i" else a.dtype.type(0)
    return np.where(inside, np.right_shift(a, count), sign_fill)
