"""Printer of index expressions from sympy to C. The order of terms is independent of sympy's version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from operator import mul

import sympy

from cugen.plan.memory import Access
from cugen.plan.names import is_origin
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


@lru_cache(maxsize=4096)
def _text(expr: Integer) -> str:
    """The text by which terms are ordered."""
    return str(expr)


@dataclass
class IntegerPrinter:
    """Printer of one kernel. `params` are printed first in products and last in sums, `constants` as numbers are.

    `ranges` are those of the visible names, `functions` collects the helper functions called, `long_names` the visible
    indices declared in 64 bits."""

    ranges: dict[sympy.Symbol, Range]
    params: frozenset[str]
    constants: frozenset[str] = frozenset()
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    long_names: set[str] = field(default_factory=set)
    _casts_builtins: bool = False
    _wraps: bool = False

    def __post_init__(self) -> None:
        self._order = {name: position for position, name in enumerate(self.ranges)}

    def print(self, expr: Integer, *, wide: bool = False) -> str:
        """C text of `expr`, evaluated in 64 bits with `wide` even where 32 suffice."""
        return self._print(expr, wide)[0]

    def definition(self, expr: Integer, *, wide: bool = False) -> str:
        """C text of the value of an index, which fits 32 bits unless it is `wide`. Where its terms alone don't show
        that, 32 bits still suffice if none is negative, so that no partial sum exceeds the total, or if C computes the
        sum without signs, modulo 2^32."""
        if wide or expr.is_Symbol or not self._is_long(expr):
            return self.print(expr, wide=wide)
        with self._wrapping():
            text = self.print(expr)
        terms = sympy.Add.make_args(expr)
        is_sum = all(bounds(term, self.ranges)[0] >= 0 and not self._is_long(term) for term in terms)
        return text if is_sum or text.startswith(_BUILTINS) else self.print(expr)

    @contextmanager
    def _wrapping(self, wraps: bool = True) -> Iterator[None]:
        """Prints sums and products in 32 bits, or, in what they are made of, in as many as the values need."""
        before, self._wraps = self._wraps, wraps
        yield
        self._wraps = before

    def is_wide(self, expr: Integer) -> bool:
        """Whether the value can overflow 32 bits."""
        low, high = bounds(expr, self.ranges)
        return not (INT32_MIN <= low and high <= INT32_MAX)

    def _is_long(self, expr: Integer) -> bool:
        """Whether C evaluates `expr` in 64 bits, even if its value fits 32."""
        parts = list(self._evaluated(expr))
        if any(part.is_Symbol and part.name in self.long_names for part in parts):
            return True
        return any(map(self.is_wide, parts)) or any(self._grows_wide(part) for part in parts if part.is_Add)

    def _evaluated(self, expr: Integer) -> Iterator[Integer]:
        """The expression, and those of which C computes it."""
        yield expr
        for part in self._rounded_up(expr) or expr.args:
            yield from self._evaluated(part)

    def _rounded_up(self, expr: Integer) -> tuple[Integer, Integer] | None:
        """Dividend and divisor of a quotient in 32 bits that is rounded up, of which only the sum has more."""
        if not isinstance(expr, FloorDiv) or not self.is_wide(expr.args[0]) or self.is_wide(expr):
            return None
        quotient = (expr.args[0] - expr.args[1] + 1).expand(), expr.args[1]
        ranges = [bounds(part, self.ranges) for part in quotient]
        fits = all(low >= lowest and high <= INT32_MAX for (low, high), lowest in zip(ranges, (0, 1), strict=True))
        return quotient if fits and not any(map(self._is_long, quotient)) else None

    def _grows_wide(self, total: Integer) -> bool:
        """Whether a partial sum, in the order of printing, can overflow 32 bits."""
        ranges = [bounds(term, self.ranges) for term in total.args]
        lowest, highest = sum(min(low, 0) for low, _ in ranges), sum(max(high, 0) for _, high in ranges)
        if INT32_MIN <= lowest and highest <= INT32_MAX:  # in no order
            return False
        return any(map(self.is_wide, accumulate(sorted(total.args, key=self._term_key))))

    def comparison(self, term: Comparison) -> str:
        left, right = self._narrowed(term.left, term.right)
        with self._signed(left, right):
            return f"{self._operand(left, False, _SUM)} {term.operator} {self._operand(right, False, _SUM)}"

    def _narrowed(self, left: Integer, right: Integer) -> tuple[Integer, Integer]:
        """The sides of a comparison; a constant goes to the other side where 32 bits suffice then."""
        constant = left.as_coeff_Add()[0]
        moved = left - constant, right - constant
        suffices = constant != 0 and self._is_long(left) and not any(map(self._is_long, moved))
        return moved if suffices else (left, right)

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
        """Linear offset, the slowest dimension first."""
        wide = bool(access.subscripts) and self.is_wide(access.offset())
        text, precedence = "", _ATOM
        for factors, subscript, stride in access.addends():
            for factor in factors:
                text, precedence = self._scaled(text, precedence, factor), _PRODUCT
            if subscript != 0:
                text, precedence = self._added(text, precedence, subscript, stride, wide)
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
        if self._wraps and not (expr.is_Add or expr.is_Mul):
            with self._wrapping(False):
                return self._print(expr, wide)
        wide = wide or (not expr.is_Symbol and not self._wraps and self.is_wide(expr))
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
        if (quotient := self._rounded_up(expr)) is not None:
            self.functions.setdefault(("ceil_div", ""))
            text = f"ceil_div({', '.join(map(self.print, quotient))})"
            return f"(long long){text}" if wide else text, _ATOM
        a, b = expr.args
        match expr:
            case Mod() if bounds(a, self.ranges)[0] >= 0 and bounds(a - b, self.ranges)[1] < 0:
                return self._print(a, wide)
            case FloorDiv() | Mod() if bounds(a, self.ranges)[0] >= 0:
                operator = "/" if isinstance(expr, FloorDiv) else "%"
                if wide and not self._is_long(expr):
                    return f"(long long)({self._print(expr, False)[0]})", _ATOM
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
        if right == 1 and bounds(left, self.ranges)[0] >= 0:
            test = Comparison(left, "==", integer(0))
        condition = self.comparison(test)
        return f"{condition} ? {self._operand(then, wide, _SUM)} : {self._operand(otherwise, wide, _SUM)}"

    def _operand(self, expr: Integer, wide: bool, limit: int) -> str:
        text, precedence = self._print(expr, wide)
        return _paren(text, precedence, limit)

    def _sum(self, expr: Integer, wide: bool) -> tuple[str, int]:
        terms = sorted(expr.args, key=self._term_key)
        wide = wide or (not self._wraps and self._grows_wide(expr))
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
        elif term.is_Symbol and is_origin(term.name):
            kind = 1
        elif term.is_Symbol and term.name in ("tx", "ty"):
            kind = 2
        elif not term.is_Symbol:
            kind = 3
        else:
            kind = 3 if term.name not in self.params else 4
        return (1 if negative else 0, kind, self._latest(term), _text(term))

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
        wide = wide or (not self._wraps and any(self.is_wide(partial) for partial in accumulate(factors, mul)))
        with self._signed(*(factors if wide else ())):
            parts = [self._operand(f, wide and n == 0, _PRODUCT if n == 0 else _ATOM) for n, f in enumerate(factors)]
        return " * ".join(parts)


def _paren(text: str, precedence: int, limit: int) -> str:
    return text if precedence <= limit else f"({text})"
