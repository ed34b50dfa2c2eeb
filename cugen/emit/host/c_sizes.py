"""Sizes and conditions of a manifest as C expressions that C and C++ both take, in as many bits as they need.

What is printed means what cugen.abi.sizes computes: `//` and `%` round down, which C's operators do where nothing is
negative; elsewhere helper functions do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.abi.manifest import Size
from cugen.abi.sizes import parsed
from cugen.plan.symbols import INT32_MAX, INT32_MIN
from cugen.spec.parse.syntax import BinaryNode, CallNode, CompareNode, NameNode, Node, NumberNode, UnaryNode

HELPERS = ("floor_quotient", "floor_remainder", "lesser", "greater")  # templates/sizes.h.j2
_ATOM, _UNARY, _PRODUCT, _SUM, _COMPARISON, _AND, _OR = range(7)
_SIGNS = {"+": _SUM, "-": _SUM, "*": _PRODUCT}


@dataclass(frozen=True, slots=True)
class Name:
    """What stands for a param: its C name, or a number that was baked in, and the values that it can have."""

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
    """`names` maps the spec's params. `wide` names are declared in 64 bits; the others get a cast where 32 are too few.
    `helpers` collects the functions that the texts call."""

    names: Mapping[str, Name]
    wide: bool = False
    helpers: dict[str, None] = field(default_factory=dict)

    def print(self, size: Size) -> str:
        return str(size) if isinstance(size, int) else self._text(size)

    def sum(self, size: Size) -> str:
        """The text where it stands in a comparison."""
        return str(size) if isinstance(size, int) else self._piece(size).within(_SUM)

    def bounds(self, size: Size) -> tuple[int, int]:
        """The least and the greatest value."""
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
        plain = _Walk(self, cast=False)
        found = plain.piece(tree)
        if self.wide or not plain.overflows:
            self.helpers.update(plain.helpers)
            return found
        cast = _Walk(self, cast=True)
        found = cast.piece(tree)
        self.helpers.update(cast.helpers)
        return found


class _Walk:
    def __init__(self, printer: SizePrinter, *, cast: bool) -> None:
        self._names = printer.names
        self._cast = cast
        self.overflows = False
        self.helpers: dict[str, None] = {}

    def piece(self, node: Node) -> _Piece:
        found = self._of(node)
        self.overflows = self.overflows or not (INT32_MIN <= found.low and found.high <= INT32_MAX)
        return found

    def _of(self, node: Node) -> _Piece:
        match node:
            case NumberNode(value=int() as value):
                return _Piece(str(value), _ATOM, value, value)
            case NameNode(name="true" | "false" as name):
                return _Piece(str(int(name == "true")), _ATOM, 0, 1)
            case NameNode(name=name):
                return self._param(self._names[name])
            case BinaryNode(operator="and" | "or" as word, left=left, right=right):
                return self._joined(word, left, right)
            case BinaryNode(operator="**", left=left, right=right):
                return self._power(self.piece(left), self.piece(right))
            case BinaryNode(operator="//" | "/", left=left, right=right):
                return self._quotient(self.piece(left), self.piece(right))
            case BinaryNode(operator="%", left=left, right=right):
                return self._remainder(self.piece(left), self.piece(right))
            case BinaryNode(operator=sign, left=left, right=right) if sign in _SIGNS:
                return self._arithmetic(sign, self.piece(left), self.piece(right))
            case UnaryNode(operator="-", operand=operand):
                one = self.piece(operand)
                return _Piece(f"-{one.within(_ATOM)}", _UNARY, -one.high, -one.low)
            case UnaryNode(operator="+", operand=operand):
                return self.piece(operand)
            case UnaryNode(operator="not", operand=operand):
                return _Piece(f"!{self.piece(operand).within(_ATOM)}", _UNARY, 0, 1)
            case CompareNode(operands=operands, operators=signs):
                parts = [self.piece(operand).within(_SUM) for operand in operands]
                pairs = [f"{a} {sign} {b}" for a, sign, b in zip(parts, signs, parts[1:], strict=False)]
                return _Piece(" && ".join(pairs), _COMPARISON if len(pairs) == 1 else _AND, 0, 1)
            case CallNode(function="minimum" | "maximum" as function, arguments=(left, right)):
                one, two = self.piece(left), self.piece(right)
                least = function == "minimum"
                pick = min if least else max
                text = self._call("lesser" if least else "greater", one, two)
                return _Piece(text, _ATOM, pick(one.low, two.low), pick(one.high, two.high))
        raise ValueError("not in the language of shapes")

    def _param(self, name: Name) -> _Piece:
        text = f"(long long){name.text}" if self._cast and name.low != name.high else name.text
        return _Piece(text, _UNARY if text != name.text else _ATOM, name.low, name.high)

    def _joined(self, word: str, left: Node, right: Node) -> _Piece:
        # Compilers warn of `a && b || c` without brackets.
        parts = [self.piece(node) for node in (left, right)]
        texts = [part.within(_COMPARISON if word == "or" else _AND) for part in parts]
        return _Piece(f" {'||' if word == 'or' else '&&'} ".join(texts), _OR if word == "or" else _AND, 0, 1)

    def _arithmetic(self, sign: str, one: _Piece, two: _Piece) -> _Piece:
        if sign == "*":
            return self._product([one, two])
        right = two.within(_SUM if sign == "+" else _PRODUCT)
        low, high = (two.low, two.high) if sign == "+" else (-two.high, -two.low)
        return _Piece(f"{one.within(_SUM)} {sign} {right}", _SUM, one.low + low, one.high + high)

    def _product(self, factors: list[_Piece]) -> _Piece:
        first, *rest = factors
        for factor in rest:
            corners = [a * b for a in (first.low, first.high) for b in (factor.low, factor.high)]
            text = f"{first.within(_PRODUCT)} * {factor.within(_UNARY)}"
            first = _Piece(text, _PRODUCT, min(corners), max(corners))
            self.overflows = self.overflows or first.high > INT32_MAX or first.low < INT32_MIN
        return first

    def _power(self, base: _Piece, exponent: _Piece) -> _Piece:
        """Of numbers that are known: the language of shapes has no others."""
        if base.low != base.high or exponent.low != exponent.high:
            raise ValueError("a power of what isn't known")
        value = int(base.low**exponent.low)
        return _Piece(str(value), _ATOM if value >= 0 else _UNARY, value, value)

    def _quotient(self, one: _Piece, two: _Piece) -> _Piece:
        divisors = [max(two.low, 1), max(two.high, 1)]
        corners = [a // b for a in (one.low, one.high) for b in divisors]
        low, high = min(corners), max(corners)
        if two.low < 1:
            low, high = min(low, -abs(high), 0), max(high, abs(low), 0)
        if one.low >= 0 and two.low > 0:
            return _Piece(f"{one.within(_PRODUCT)} / {two.within(_UNARY)}", _PRODUCT, low, high)
        return _Piece(self._call("floor_quotient", one, two), _ATOM, low, high)

    def _remainder(self, one: _Piece, two: _Piece) -> _Piece:
        low, high = min(two.low + 1, 0), max(two.high - 1, 0)
        if one.low >= 0 and two.low > 0:
            return _Piece(f"{one.within(_PRODUCT)} % {two.within(_UNARY)}", _PRODUCT, low, high)
        return _Piece(self._call("floor_remainder", one, two), _ATOM, low, high)

    def _call(self, name: str, one: _Piece, two: _Piece) -> str:
        self.helpers[name] = None
        return f"cugen_{name}({one.text}, {two.text})"
