"""Integer expressions: sympy with opaque functions for floor division, modulo, xor, minimum, maximum and choice.

sympy's `floor` prints as floating point, its `Mod` is reduced by other rules and its `^` is a Boolean. The
simplifications below are exact for every integer argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

Integer: TypeAlias = sympy.Expr  # an integer-valued expression
Range = tuple[int, int]  # inclusive
Ranges = Mapping[sympy.Symbol, Range]

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)


@lru_cache(maxsize=4096)
def symbol(name: str) -> sympy.Symbol:
    """An integer symbol; equal names give equal symbols."""
    return sympy.Symbol(name, integer=True)


def integer(value: int) -> Integer:
    """An integer as an expression; a `Size` by its name."""
    return value.expr if isinstance(value, Size) else sympy.Integer(value)


class Size(int):
    """A compile-time constant with the expression that is printed for it: a name such as `BM`, or `BM / 4`.

    Arithmetic with integers keeps the expression; in arithmetic with expressions it is a number. `integer` makes an
    expression of its name, and `int` a number of it."""

    expr: Integer

    def __new__(cls, value: int, expr: Integer) -> Size:
        size = super().__new__(cls, value)
        size.expr = expr
        return size

    def __reduce__(self) -> tuple[type[Size], tuple[int, Integer]]:
        return Size, (int(self), self.expr)

    def __add__(self, operand: int) -> int:
        return (
            Size(int(self) + int(operand), self.expr + integer(operand)) if isinstance(operand, int) else NotImplemented
        )

    def __sub__(self, operand: int) -> int:
        return (
            Size(int(self) - int(operand), self.expr - integer(operand)) if isinstance(operand, int) else NotImplemented
        )

    def __mul__(self, operand: int) -> int:
        return (
            Size(int(self) * int(operand), self.expr * integer(operand)) if isinstance(operand, int) else NotImplemented
        )

    def __floordiv__(self, operand: int) -> int:
        if not isinstance(operand, int):
            return NotImplemented
        return Size(int(self) // int(operand), FloorDiv(self.expr, integer(operand)))

    __radd__ = __add__
    __rmul__ = __mul__


class FloorDiv(sympy.Function):  # type: ignore[misc]
    """`a // b`, rounded toward minus infinity; b is positive."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b)) if b != 0 else sympy.Integer(0)
        if a == 0:
            return sympy.Integer(0)
        return None


class Mod(sympy.Function):  # type: ignore[misc]
    """`a % b` with the sign of b; b is positive."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1:
            return sympy.Integer(0)
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) % int(b)) if b != 0 else sympy.Integer(0)
        return None


class BitXor(sympy.Function):  # type: ignore[misc]
    """`a ^ b` of non-negative integers."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) ^ int(b))
        if 0 in (a, b):
            return a + b
        return None


class Minimum(sympy.Function):  # type: ignore[misc]
    """The smaller of two. Not sympy's Min, whose attempts to prove an order are too slow for generation."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        return sympy.Integer(min(int(a), int(b))) if a.is_Integer and b.is_Integer else None


class Maximum(sympy.Function):  # type: ignore[misc]
    """The larger of two."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        return sympy.Integer(max(int(a), int(b))) if a.is_Integer and b.is_Integer else None


class Choice(sympy.Function):  # type: ignore[misc]
    """`a < b ? then : otherwise`."""

    nargs = 4
    is_integer = True

    @classmethod
    def eval(cls, a: Any, b: Any, then: Any, otherwise: Any) -> Any:
        if a.is_Integer and b.is_Integer:
            return then if int(a) < int(b) else otherwise
        return then if then == otherwise else None


def ceil_div(a: Integer, b: int) -> Integer:
    """`a / b` rounded up."""
    return FloorDiv(a + integer(b - 1), integer(b)) if b != 1 else a


def floor_quotient(a: Integer, b: int) -> Integer:
    """`a / b` rounded down, for a positive `b`; addends that `b` divides are outside of the division."""
    quotient = remainder = sympy.S.Zero
    for addend in sympy.Add.make_args(a.expand()):
        coefficient, factor = addend.as_coeff_Mul()
        if coefficient % b == 0:
            quotient += coefficient // b * factor
        else:
            remainder += addend
    return quotient + FloorDiv(remainder, integer(b))


def slope(expr: Integer, name: sympy.Symbol) -> sympy.Rational | None:
    """By how much `expr` grows with `name`, on average, if it is linear in it but for floor divisions: with a positive
    slope it never falls, with a negative one it never rises. None if that isn't proved."""
    slopes = []
    for addend in sympy.Add.make_args(expr.expand()):
        coefficient, factor = addend.as_coeff_Mul()
        if name not in factor.free_symbols:
            continue
        inner: sympy.Rational | None = None
        if factor == name:
            inner = integer(1)
        elif isinstance(factor, FloorDiv) and factor.args[1].is_Integer and factor.args[1] > 0:
            of_dividend = slope(factor.args[0], name)
            inner = None if of_dividend is None else of_dividend / factor.args[1]
        if inner is None:
            return None
        slopes.append(coefficient * inner)
    if any(a < 0 for a in slopes) and any(a > 0 for a in slopes):
        return None
    return sum(slopes, integer(0))


def bounds(expr: Integer, ranges: Ranges) -> Range:
    """An interval that contains every value of `expr` for symbols within their ranges."""
    if expr.is_Integer:
        return int(expr), int(expr)
    if expr.is_Symbol:
        return ranges[expr]
    parts = [bounds(arg, ranges) for arg in expr.args]
    if expr.is_Add:
        return sum(low for low, _ in parts), sum(high for _, high in parts)
    if expr.is_Mul:
        low, high = parts[0]
        for other_low, other_high in parts[1:]:
            corners = (low * other_low, low * other_high, high * other_low, high * other_high)
            low, high = min(corners), max(corners)
        return low, high
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        exponent = int(expr.exp)
        powers = [value**exponent for value in parts[0]]
        low = 0 if exponent % 2 == 0 and parts[0][0] < 0 < parts[0][1] else min(powers)
        return low, max(powers)
    if isinstance(expr, Choice):
        (low, high), (other_low, other_high), then, otherwise = parts
        if high < other_low or low >= other_high:
            return then if high < other_low else otherwise
        return min(then[0], otherwise[0]), max(then[1], otherwise[1])
    if len(parts) != 2:
        raise TypeError(f"not an integer expression: {expr}")
    (low, high), second = parts
    match expr:
        case FloorDiv():
            low_divisor, high_divisor = max(second[0], 1), max(second[1], 1)
            quotients = (low // low_divisor, low // high_divisor, high // low_divisor, high // high_divisor)
            return min(quotients), max(quotients)
        case Mod():
            divisor = max(second[1], 1)
            return (low, high) if 0 <= low and high < max(second[0], 1) else (0, divisor - 1)
        case BitXor():
            widest = max(high, second[1])
            return 0, (1 << widest.bit_length()) - 1
        case Minimum():
            return min(low, second[0]), min(high, second[1])
        case Maximum():
            return max(low, second[0]), max(high, second[1])
    raise TypeError(f"not an integer expression: {expr}")


def evaluate(expr: Integer, values: Mapping[sympy.Symbol, int]) -> int:
    """The value of `expr` for the given symbols."""
    return int(expr.subs(values))
