"""Sizes and conditions of a manifest as expressions valid in C and C++, in 32 or 64 bits.

The semantics are those of cugen.abi.sizes: `//` and `%` round down. C's operators do so for nonnegative operands;
other operands need a helper function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.abi.manifest import Size
from cugen.abi.sizes import parsed
from cugen.plan.symbols import INT32_MAX, INT32_MIN
from cugen.spec.parse.syntax import BinaryNode, CallNode, CompareNode, NameNode, Node, NumberNode, UnaryNode

_ATOM, _UNARY, _PRODUCT, _SUM, _COMPARISON, _AND, _OR = range(7)
_SIGNS = {"+": _SUM, "-": _SUM, "*": _PRODUCT}


@dataclass(frozen=True, slots=True)
class Name:
    """A param: its C name, or the literal of a fixed one, and its range."""

    text: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    precedence: int
    low: int
    high: int

    def within(self, limit: int) -> str:
        return self.text if self.precedence <= limit else f"({self.text})"


@dataclass
class SizePrinter:
    """`names` maps the spec's params. With `wide` they are declared in 64 bits, else cast where 32 bits could overflow.
    `helpers` collects the functions called."""

    names: Mapping[str, Name]
    wide: bool = False
    helpers: dict[str, None] = field(default_factory=dict)

    def print(self, size: Size) -> str:
        return str(size) if isinstance(size, int) else self._text(size)

    def sum(self, size: Size) -> str:
        """Text of an operand of a comparison."""
        return str(size) if isinstance(size, int) else self._piece(size).within(_SUM)

    def bounds(self, size: Size) -> tuple[int, int]:
        """Minimum and maximum value."""
        if isinstance(size, int):
            return size, size
        piece = _Walk(self, cast=False).piece(parsed(size))
        return piece.low, piece.high

    def condition(self, text: str) -> str:
        return self._text(text)

    def _text(self, text: str) -> str:
        return self._piece(text).text

    def _piece(self, text: str) -> _Piece:
        tree = parsed(text)
        walk = _Walk(self, cast=False)
        piece = walk.piece(tree)
        if walk.overflows and not self.wide:
            walk = _Walk(self, cast=True)
            piece = walk.piece(tree)
        self.helpers.update(walk.helpers)
        return piece


class _Walk:
    def __init__(self, printer: SizePrinter, *, cast: bool) -> None:
        self._names = printer.names
        self._cast = cast
        self.overflows = False
        self.helpers: dict[str, None] = {}

    def piece(self, node: Node) -> _Piece:
        piece = self._piece(node)
        self.overflows = self.overflows or not (INT32_MIN <= piece.low and piece.high <= INT32_MAX)
        return piece

    def _piece(self, node: Node) -> _Piece:
        match node:
            case NumberNode(value=int() as value):
                return _Piece(str(value), _ATOM, value, value)
            case NameNode(name="true" | "false" as name):
                return _Piece(str(int(name == "true")), _ATOM, 0, 1)
            case NameNode(name=name):
                return self._param(self._names[name])
            case BinaryNode(operator="and" | "or" as word, left=left, right=right):
                return self._logical(word, left, right)
            case BinaryNode(operator="**", left=left, right=right):
                return self._power(self.piece(left), self.piece(right))
            case BinaryNode(operator="//" | "/", left=left, right=right):
                return self._quotient(self.piece(left), self.piece(right))
            case BinaryNode(operator="%", left=left, right=right):
                return self._remainder(self.piece(left), self.piece(right))
            case BinaryNode(operator=sign, left=left, right=right) if sign in _SIGNS:
                return self._arithmetic(sign, self.piece(left), self.piece(right))
            case UnaryNode(operator="-", operand=operand):
                inner = self.piece(operand)
                return _Piece(f"-{inner.within(_ATOM)}", _UNARY, -inner.high, -inner.low)
            case UnaryNode(operator="+", operand=operand):
                return self.piece(operand)
            case UnaryNode(operator="not", operand=operand):
                return _Piece(f"!{self.piece(operand).within(_ATOM)}", _UNARY, 0, 1)
            case CompareNode(operands=operands, operators=signs):
                parts = [self.piece(operand).within(_SUM) for operand in operands]
                pairs = [f"{a} {sign} {b}" for a, sign, b in zip(parts, signs, parts[1:], strict=False)]
                return _Piece(" && ".join(pairs), _COMPARISON if len(pairs) == 1 else _AND, 0, 1)
            case CallNode(function="minimum" | "maximum" as function, arguments=(left, right)):
                a, b = self.piece(left), self.piece(right)
                bound = min if function == "minimum" else max
                text = self._call(bound.__name__, a, b)
                return _Piece(text, _ATOM, bound(a.low, b.low), bound(a.high, b.high))
        raise ValueError("not a shape expression")

    def _param(self, name: Name) -> _Piece:
        text = f"(long long){name.text}" if self._cast and name.low != name.high else name.text
        return _Piece(text, _UNARY if text != name.text else _ATOM, name.low, name.high)

    def _logical(self, word: str, left: Node, right: Node) -> _Piece:
        # Compilers warn about `a && b || c` without parentheses.
        parts = [self.piece(node) for node in (left, right)]
        texts = [part.within(_COMPARISON if word == "or" else _AND) for part in parts]
        return _Piece(f" {'||' if word == 'or' else '&&'} ".join(texts), _OR if word == "or" else _AND, 0, 1)

    def _arithmetic(self, sign: str, left: _Piece, right: _Piece) -> _Piece:
        if sign == "*":
            return self._product([left, right])
        text = right.within(_SUM if sign == "+" else _PRODUCT)
        low, high = (right.low, right.high) if sign == "+" else (-right.high, -right.low)
        return _Piece(f"{left.within(_SUM)} {sign} {text}", _SUM, left.low + low, left.high + high)

    def _product(self, factors: list[_Piece]) -> _Piece:
        first, *factors_after_first = factors
        for factor in factors_after_first:
            corners = [a * b for a in (first.low, first.high) for b in (factor.low, factor.high)]
            text = f"{first.within(_PRODUCT)} * {factor.within(_UNARY)}"
            first = _Piece(text, _PRODUCT, min(corners), max(corners))
            self.overflows = self.overflows or first.high > INT32_MAX or first.low < INT32_MIN
        return first

    def _power(self, base: _Piece, exponent: _Piece) -> _Piece:
        """Power of constants; shapes have no others."""
        if base.low != base.high or exponent.low != exponent.high:
            raise ValueError("a power of a param")
        value = int(base.low**exponent.low)
        return _Piece(str(value), _ATOM if value >= 0 else _UNARY, value, value)

    def _quotient(self, left: _Piece, right: _Piece) -> _Piece:
        divisors = [max(right.low, 1), max(right.high, 1)]
        corners = [a // b for a in (left.low, left.high) for b in divisors]
        low, high = min(corners), max(corners)
        if right.low < 1:
            low, high = min(low, -abs(high), 0), max(high, abs(low), 0)
        if left.low >= 0 and right.low > 0:
            return _Piece(f"{left.within(_PRODUCT)} / {right.within(_UNARY)}", _PRODUCT, low, high)
        return _Piece(self._call("floor_quotient", left, right), _ATOM, low, high)

    def _remainder(self, left: _Piece, right: _Piece) -> _Piece:
        low, high = min(right.low + 1, 0), max(right.high - 1, 0)
        if left.low >= 0 and right.low > 0:
            return _Piece(f"{left.within(_PRODUCT)} % {right.within(_UNARY)}", _PRODUCT, low, high)
        return _Piece(self._call("floor_remainder", left, right), _ATOM, low, high)

    def _call(self, name: str, left: _Piece, right: _Piece) -> str:
        self.helpers[name] = None
        return f"cugen_{name}({left.text}, {right.text})"
