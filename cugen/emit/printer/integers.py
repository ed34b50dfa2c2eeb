"""Printer of index expressions from sympy to C. The order of terms is independent of sympy's version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import mul

import sympy

from cugen.plan.memory import Access
from cugen.plan.nodes import Comparison, Guard
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
    integer,
)

# C operator precedence of index expressions.
_ATOM, _PRODUCT, _SUM, _XOR, _CHOICE = 0, 1, 2, 3, 4
_BUILTINS = ("blockIdx.", "threadIdx.")


@dataclass
class IntegerPrinter:
    """Printer of one kernel. `params` are printed first in products and last in sums, `constants` as numbers are.

    `functions` collects the helper functions called, `long_names` the indices declared in 64 bits."""

    ranges: Mapping[sympy.Symbol, Range]
    params: frozenset[str]
    constants: frozenset[str] = frozenset()
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    long_names: dict[str, None] = field(default_factory=dict)
    _casts_builtins: bool = False

    def __post_init__(self) -> None:
        self._order = {name: position for position, name in enumerate(self.ranges)}

    def print(self, expr: Integer, *, wide: bool = False) -> str:
        """C text of `expr`, evaluated in 64 bits with `wide` even where 32 suffice."""
        return self._print(expr, wide)[0]

    def is_wide(self, expr: Integer) -> bool:
        """Whether the value can overflow 32 bits."""
        low, high = bounds(expr, self.ranges)
        return not (INT32_MIN <= low and high <= INT32_MAX)

    def _is_long(self, expr: Integer) -> bool:
        """Whether C evaluates `expr` in 64 bits, even if its value fits 32."""
        parts = list(sympy.preorder_traversal(expr))
        if any(part.is_Symbol and part.name in self.long_names for part in parts):
            return True
        return any(map(self.is_wide, parts)) or any(self._grows_wide(part) for part in parts if part.is_Add)

    def _grows_wide(self, total: Integer) -> bool:
        """Whether a partial sum, in the order of printing, can overflow 32 bits."""
        return any(map(self.is_wide, accumulate(sorted(total.args, key=self._term_key))))

    def comparison(self, term: Comparison) -> str:
        with self._signed(term.left, term.right):
            left, right = self._operand(term.left, False, _SUM), self._operand(term.right, False, _SUM)
        return f"{left} {term.operator} {right}"

    @contextmanager
    def _signed(self, *values: Integer) -> Iterator[None]:
        """Converts `threadIdx` and `blockIdx`, which are unsigned, if one of the values may be negative."""
        before = self._casts_builtins
        self._casts_builtins = before or any(bounds(value, self.ranges)[0] < 0 for value in values)
        yield
        self._casts_builtins = before

    def guard(self, guard: Guard) -> str:
        """The conjunction of the guard's comparisons."""
        return " && ".join(self.comparison(term) for term in guard.terms)

    def negated(self, guard: Guard) -> str:
        """The negated guard, by De Morgan."""
        opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
        terms = [Comparison(term.left, opposite[term.operator], term.right) for term in guard.terms]
        return " || ".join(self.comparison(term) for term in terms)

    def subscripts(self, access: Access) -> str:
        """`[m * K + k]` for a flat array, `[m][k]` for any other."""
        array = access.array
        if not array.flat:
            return "".join(f"[{self.print(sub)}]" for sub in access.physical_subscripts())
        return f"[{self.flat(access)}]"

    def flat(self, access: Access) -> str:
        """Linear offset, slowest dimension first: Horner form for dense arrays, else a sum of index times stride."""
        strides = access.array.strides
        order = list(range(len(strides)))
        if len(order) > 1 and strides[0] == 1 and strides[-1] != 1:
            order.reverse()
        shape, printed_shape = access.array.shape, access.array.printed_shape or access.array.shape
        dense = all((strides[a] - strides[b] * shape[b]).expand() == 0 for a, b in pairwise(order)) and (
            not order or strides[order[-1]] == 1
        )
        wide = self.is_wide(access.offset()) if order else False
        text, precedence = "", _ATOM
        for position, dimension in enumerate(order):
            sub = access.subscripts[dimension]
            if dense and text and shape[dimension] != 1:
                text, precedence = self._scaled(text, precedence, printed_shape[dimension]), _PRODUCT
            if not text and sub == 0 and position < len(order) - 1:
                continue
            if dense:
                text, precedence = self._added(text, precedence, sub, integer(1), wide)
            else:
                text, precedence = self._added(text, precedence, sub, strides[dimension], wide)
        return text or "0"

    def coordinates(self, access: Access) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The subscripts as operands of a sum, or the names of a filtered fetch's coordinates, and the extents as those
        of a division."""
        if access.coordinates:
            return tuple(c.name for c in access.coordinates), tuple(map(self._factor, access.array.shape))
        with self._signed(*access.subscripts):
            subscripts = tuple(self._operand(sub, False, _SUM) for sub in access.subscripts)
        return subscripts, tuple(map(self._factor, access.array.shape))

    def _added(self, text: str, precedence: int, sub: Integer, stride: Integer, wide: bool) -> tuple[str, int]:
        if sub == 0 and text:
            return text, precedence
        term, term_precedence = self._print(sub, (wide and not text) or self.is_wide(sub * stride))
        if stride != 1:
            term, term_precedence = self._scaled(term, term_precedence, stride), _PRODUCT
        if not text:
            return term, term_precedence
        return f"{text} + {_paren(term, term_precedence, _SUM)}", _SUM

    def _scaled(self, text: str, precedence: int, factor: Integer) -> str:
        if text == "1":
            return self._operand(factor, False, _PRODUCT)
        return f"{_paren(text, precedence, _PRODUCT)} * {self._factor(factor)}"

    def _factor(self, expr: Integer) -> str:
        text, precedence = self._print(expr, False)
        return _paren(text, precedence, _ATOM)

    def _print(self, expr: Integer, wide: bool) -> tuple[str, int]:
        wide = wide or (not expr.is_Symbol and self.is_wide(expr))
        if expr.is_Integer:
            value = int(expr)
            text = f"{value}LL" if wide else str(value)
            return (text, _ATOM) if value >= 0 else (f"({text})", _ATOM)
        if expr.is_Symbol:
            if wide and not self.is_wide(expr) and expr.name not in self.long_names:
                return f"(long long){expr.name}", _ATOM
            if self._casts_builtins and expr.name.startswith(_BUILTINS):
                return f"(int){expr.name}", _ATOM
            return expr.name, _ATOM
        if expr.is_Add:
            return self._sum(expr, wide)
        if expr.is_Mul:
            return self._product(expr, wide)
        if expr.is_Pow:
            factors = [expr.base] * int(expr.exp)
            return self._multiplied(factors, wide), _PRODUCT
        if isinstance(expr, Choice):
            return self._choice(expr, wide), _CHOICE
        a, b = expr.args
        match expr:
            case Mod() if bounds(a, self.ranges)[0] >= 0 and bounds(a - b, self.ranges)[1] < 0:
                return self._print(a, wide)
            case FloorDiv() | Mod() if bounds(a, self.ranges)[0] >= 0:
                operator = "/" if isinstance(expr, FloorDiv) else "%"
                return f"{self._operand(a, wide, _PRODUCT)} {operator} {self._factor(b)}", _PRODUCT
            case FloorDiv() | Mod():
                name = "floor_div" if isinstance(expr, FloorDiv) else "floor_mod"
                wide = wide or self._is_long(a) or self._is_long(b)
                self.functions.setdefault((name, "long long" if wide else "int"))
                with self._signed(a):
                    return f"{name}({self.print(a, wide=wide)}, {self.print(b, wide=wide)})", _ATOM
            case BitXor():
                return f"{self._operand(a, wide, _ATOM)} ^ {self._operand(b, wide, _ATOM)}", _XOR
            case Minimum() | Maximum():
                name = "min" if isinstance(expr, Minimum) else "max"
                both = wide or self._is_long(a) or self._is_long(b)
                with self._signed(a, b):
                    return f"{name}({self.print(a, wide=both)}, {self.print(b, wide=both)})", _ATOM
        raise TypeError(f"not an integer expression: {expr}")

    def _choice(self, expr: Integer, wide: bool) -> str:
        left, right, then, otherwise = expr.args
        test = Comparison(right, ">", left) if left.is_Integer else Comparison(left, "<", right)
        condition = self.comparison(test)
        return f"{condition} ? {self._operand(then, wide, _SUM)} : {self._operand(otherwise, wide, _SUM)}"

    def _operand(self, expr: Integer, wide: bool, limit: int) -> str:
        text, precedence = self._print(expr, wide)
        return _paren(text, precedence, limit)

    def _sum(self, expr: Integer, wide: bool) -> tuple[str, int]:
        terms = sorted(expr.args, key=self._term_key)
        wide = wide or self._grows_wide(expr)
        text = ""
        for position, term in enumerate(terms):
            negative = term.could_extract_minus_sign()
            value = -term if negative else term
            converted = (term,) if position == 0 else (value,) if wide else ()
            with self._signed(*converted):
                operand = self._operand(value, wide and position == 0, _PRODUCT)
            if not text:
                text = f"-{operand}" if negative else operand
            else:
                text += f" - {operand}" if negative else f" + {operand}"
        return text, _SUM

    def _term_key(self, term: Integer) -> tuple[int, int, int, str]:
        """Sort key: positive before negative; block offset, thread index, other indices, params, constants."""
        negative = bool(term.could_extract_minus_sign())
        names = [s.name for s in term.free_symbols]
        if term.is_Integer:
            kind = 6
        elif self.constants.issuperset(names):
            kind = 5
        elif any(name.startswith("blockIdx.") for name in names):
            kind = 0
        elif term.is_Symbol and _is_origin(term.name):
            kind = 1
        elif term.is_Symbol and term.name in ("tx", "ty"):
            kind = 2
        elif not term.is_Symbol:
            kind = 3
        else:
            kind = 3 if term.name not in self.params else 4
        return (1 if negative else 0, kind, self._latest(term), str(term))

    def _latest(self, term: Integer) -> int:
        """Position of the term's innermost index."""
        unordered = self.params | self.constants
        return max((self._order.get(s, 0) for s in term.free_symbols if s.name not in unordered), default=0)

    def _product(self, expr: Integer, wide: bool) -> tuple[str, int]:
        coefficient, factors, constants = 1, [], []
        for factor in expr.args:
            if factor.is_Integer:
                coefficient *= int(factor)
            elif self.constants.issuperset(s.name for s in factor.free_symbols):
                constants.append(factor)
            else:
                factors.append(factor)
        constants.sort(key=str)
        factors.sort(key=lambda f: (not (f.is_Symbol and f.name in self.params), self._latest(f), str(f)))
        sign = "-" if coefficient < 0 else ""
        magnitude = abs(coefficient)
        if magnitude != 1:
            constants.insert(0, integer(magnitude))
        builtin = bool(factors) and any(s.name.startswith(_BUILTINS) for s in factors[0].free_symbols)
        factors = [*factors, *constants] if builtin else [*constants, *factors]
        with self._signed(*((expr,) if sign else ())):
            return sign + self._multiplied(factors, wide), _PRODUCT

    def _multiplied(self, factors: list[Integer], wide: bool) -> str:
        wide = wide or any(self.is_wide(partial) for partial in accumulate(factors, mul))
        with self._signed(*(factors if wide else ())):
            parts = [self._operand(f, wide and n == 0, _PRODUCT if n == 0 else _ATOM) for n, f in enumerate(factors)]
        return " * ".join(parts)


def _is_origin(name: str) -> bool:
    """Whether the name is that of a tile's origin, such as `k0`, or `j0_`, since `j0` is a C library function."""
    return len(name) > 1 and name.removesuffix("_").endswith("0")


def _paren(text: str, precedence: int, limit: int) -> str:
    return text if precedence <= limit else f"({text})"
