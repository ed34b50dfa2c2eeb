"""Index expressions as text: subscripts as printed in the source, with the lane strides visible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import sympy

from cugen.plan.kernel import Kernel
from cugen.plan.memory import FETCHED_TYPES, Access
from cugen.plan.names import is_origin
from cugen.plan.symbols import (
    INT32_MAX,
    INT32_MIN,
    BitXor,
    Choice,
    FloorDiv,
    Integer,
    Maximum,
    Minimum,
    Mod,
    Range,
    bounds,
    symbol,
)
from cugen.plan.traversal.usage import constants

# Precedence, as in C.
_ATOM, _PRODUCT, _SUM, _XOR, _CHOICE = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Wording:
    """Formats the expressions of one kernel. `ranges` has its names in order of definition, `params` its params,
    `constants` its compile-time constants, which stand where numbers do."""

    ranges: Mapping[sympy.Symbol, Range]
    params: frozenset[sympy.Symbol]
    constants: frozenset[sympy.Symbol] = frozenset()

    @staticmethod
    def of(kernel: Kernel, params: Iterable[str]) -> Wording:
        names = frozenset(map(symbol, params)), frozenset(map(symbol, constants(kernel.body)))
        return Wording(dict(kernel.ranges), *names)

    @cached_property
    def _introduced(self) -> dict[sympy.Symbol, int]:
        return {name: position for position, name in enumerate(self.ranges)}

    def text(self, expr: Integer) -> str:
        return self._text(expr)[0]

    def access(self, access: Access) -> str:
        """`As[ty][k]`, or one subscript for an array that is printed flat: `A[m * K + k]`; of a texture its fetch."""
        array = access.array
        symbol, access = access.printed()
        if array.space == "texture":
            kind = FETCHED_TYPES[array.dtype.name]
            if array.texture_2d is None:
                return f"tex1Dfetch<{kind}>({symbol}, {self._flat(access)})"
            subscripts = tuple(c.name for c in access.coordinates)
            subscripts = subscripts or tuple(self._within(sub, _SUM) for sub in access.subscripts)
            extents = tuple(self._within(extent, _ATOM) for extent in array.shape)
            return array.texture_2d.fetch(kind, symbol, subscripts, extents)
        if array.space == "tensor":
            return f"{symbol}({', '.join(map(self.text, reversed(access.subscripts)))})"
        if access.rank is not None:
            symbol = f"cluster.map_shared_rank({symbol}, {self.text(access.rank)})"
        if not array.flat:
            return symbol + "".join(f"[{self.text(sub)}]" for sub in access.physical_subscripts())
        return f"{symbol}[{self._flat(access)}]"

    def _flat(self, access: Access) -> str:
        """Linear offset from the slowest dimension to the fastest."""
        text, precedence = "", _ATOM
        for factors, subscript, stride in access.addends():
            for factor in factors:
                text, precedence = self._scaled(text, precedence, factor), _PRODUCT
            if subscript == 0:
                continue
            term, term_precedence = self._text(subscript)
            if stride != 1:
                term, term_precedence = self._scaled(term, term_precedence, stride), _PRODUCT
            if text:
                term, term_precedence = f"{text} + {_bracketed(term, term_precedence, _SUM)}", _SUM
            text, precedence = term, term_precedence
        return text or "0"

    def _scaled(self, text: str, precedence: int, factor: Integer) -> str:
        if text == "1":
            return self._within(factor, _PRODUCT)
        return f"{_bracketed(text, precedence, _PRODUCT)} * {self._within(factor, _ATOM)}"

    def _within(self, expr: Integer, limit: int) -> str:
        return _bracketed(*self._text(expr), limit)

    def _text(self, expr: Integer) -> tuple[str, int]:
        if expr.is_Integer:
            return (str(expr), _ATOM) if expr >= 0 else (f"({expr})", _ATOM)
        if expr.is_Symbol:
            return expr.name, _ATOM
        if expr.is_Add:
            return self._sum(expr), _SUM
        if expr.is_Mul:
            return self._product(expr), _PRODUCT
        if expr.is_Pow:
            return " * ".join([self._within(expr.base, _ATOM)] * int(expr.exp)), _PRODUCT
        if isinstance(expr, Choice):
            left, right, then, otherwise = (self._within(arg, _SUM) for arg in expr.args)
            is_zero = right == "1" and self._bounds(expr.args[0])[0] >= 0
            return f"{left} {'== 0' if is_zero else f'< {right}'} ? {then} : {otherwise}", _CHOICE
        a, b = expr.args
        match expr:
            case Mod() if self._is_remainder(a, b):
                return self._text(a)
            case FloorDiv() | Mod() if self._bounds(a)[0] >= 0:
                operator = "/" if isinstance(expr, FloorDiv) else "%"
                return f"{self._within(a, _PRODUCT)} {operator} {self._within(b, _ATOM)}", _PRODUCT
            case FloorDiv() | Mod():
                name = "floor_div" if isinstance(expr, FloorDiv) else "floor_mod"
                return f"{name}({self.text(a)}, {self.text(b)})", _ATOM
            case BitXor():
                return f"{self._within(a, _ATOM)} ^ {self._within(b, _ATOM)}", _XOR
            case Minimum() | Maximum():
                return f"{'min' if isinstance(expr, Minimum) else 'max'}({self.text(a)}, {self.text(b)})", _ATOM
        raise TypeError(f"not an integer expression: {expr}")

    def _bounds(self, expr: Integer) -> Range:
        """As `bounds`; names without a range (values read from memory) may have any value."""
        unknown = {s: (INT32_MIN, INT32_MAX) for s in expr.free_symbols if s not in self.ranges}
        return bounds(expr, {**self.ranges, **unknown})

    def _is_remainder(self, a: Integer, b: Integer) -> bool:
        """Whether 0 <= a < b, so that a % b is a."""
        return self._bounds(a)[0] >= 0 and self._bounds(a - b)[1] < 0

    def _sum(self, expr: Integer) -> str:
        text = ""
        for term in sorted(expr.args, key=self._term_order):
            negative = bool(term.could_extract_minus_sign())
            term_text = self._within(-term if negative else term, _PRODUCT)
            text += f" {'-' if negative else '+'} {term_text}" if text else f"{'-' if negative else ''}{term_text}"
        return text

    def _term_order(self, term: Integer) -> tuple[int, int, int, str]:
        """Sort key of a term in a sum: block offsets, thread indices, other names, constants last."""
        symbols = term.free_symbols
        if term.is_Integer:
            kind = 6
        elif symbols <= self.constants:
            kind = 5
        elif any(s.name.startswith("blockIdx.") for s in symbols):
            kind = 0
        elif term.is_Symbol and is_origin(term.name):
            kind = 1
        elif term.is_Symbol and term.name in ("tx", "ty"):
            kind = 2
        else:
            kind = 4 if term in self.params else 3
        return int(term.could_extract_minus_sign()), kind, self._latest(term), str(term)

    def _latest(self, term: Integer) -> int:
        unordered = self.params | self.constants
        return max((self._introduced.get(s, 0) for s in term.free_symbols - unordered), default=0)

    def _product(self, expr: Integer) -> str:
        coefficient, cofactor = expr.as_coeff_Mul()
        factors = sorted(
            sympy.Mul.make_args(cofactor),
            key=lambda factor: (factor not in self.params, self._latest(factor), str(factor)),
        )
        magnitude = abs(int(coefficient))
        constant = [factor for factor in factors if factor.free_symbols <= self.constants]
        varying = [factor for factor in factors if factor not in constant]
        if magnitude != 1:
            constant.insert(0, sympy.Integer(magnitude))
        builtin = bool(varying) and varying[0].is_Symbol and "Idx." in varying[0].name
        factors = [*varying, *constant] if builtin else [*constant, *varying]
        parts = [self._within(factor, _PRODUCT if n == 0 else _ATOM) for n, factor in enumerate(factors)]
        return ("-" if coefficient < 0 else "") + " * ".join(parts)


def _bracketed(text: str, precedence: int, limit: int) -> str:
    return text if precedence <= limit else f"({text})"
