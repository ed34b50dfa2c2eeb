"""Evaluation of a manifest's sizes and conditions: expressions over params, parsed and never executed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping

from cugen.abi.manifest import Size
from cugen.spec.diagnostics import Reporter
from cugen.spec.parse.grammar import parse_expression
from cugen.spec.parse.syntax import BinaryNode, CallNode, CompareNode, NameNode, Node, NumberNode, Text, UnaryNode

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MAX_EXPONENT = 64  # bounds the size of the result


def evaluate(size: Size, params: Mapping[str, int]) -> int:
    """The value of a size. KeyError for a param without a value, ValueError for text that is no shape expression."""
    return size if isinstance(size, int) else int(_value(parsed(size), params))


def evaluate_all(sizes: tuple[Size, ...], params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, params) for size in sizes)


def holds(condition: str, params: Mapping[str, int]) -> bool:
    """Whether a requirement holds. Errors as for `evaluate`."""
    return bool(_value(parsed(condition), params))


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Node:
    """Syntax tree of a size or a condition. ValueError for text that is no shape expression."""
    report = Reporter("manifest", text)
    node = parse_expression(Text(text, tuple((1, column + 1) for column in range(len(text) + 1))), report)
    if node is None or report.failed:
        reasons = "; ".join(diagnostic.message for diagnostic in report.diagnostics)
        raise ValueError(f"not an expression in params: {text!r} ({reasons})")
    return node


def _value(node: Node, params: Mapping[str, int]) -> int:
    match node:
        case NumberNode(value=int() as value):
            return value
        case NameNode(name="true" | "false" as name):
            return name == "true"
        case NameNode(name=name):
            return params[name]
        case BinaryNode(operator="and", left=left, right=right):
            return bool(_value(left, params)) and bool(_value(right, params))
        case BinaryNode(operator="or", left=left, right=right):
            return bool(_value(left, params)) or bool(_value(right, params))
        case BinaryNode(operator="/", left=left, right=right):  # exact, as in shapes
            quotient, remainder = divmod(_value(left, params), _value(right, params) or 1)
            if remainder:
                raise ValueError("a division leaves a remainder")
            return quotient
        case BinaryNode(operator="**", left=left, right=right):
            exponent = _value(right, params)
            if not 0 <= exponent <= _MAX_EXPONENT:
                raise ValueError(f"an exponent of {exponent}; 0 to {_MAX_EXPONENT} are allowed")
            return int(_value(left, params) ** exponent)
        case BinaryNode(operator=sign, left=left, right=right) if sign in _ARITHMETIC:
            return _ARITHMETIC[sign](_value(left, params), _value(right, params))
        case UnaryNode(operator="-", operand=operand):
            return -_value(operand, params)
        case UnaryNode(operator="+", operand=operand):
            return _value(operand, params)
        case UnaryNode(operator="not", operand=operand):
            return not _value(operand, params)
        case CompareNode(operands=operands, operators=signs) if all(sign in _COMPARISONS for sign in signs):
            numbers = [_value(operand, params) for operand in operands]
            pairs = zip(signs, numbers, numbers[1:], strict=False)
            return all(_COMPARISONS[sign](a, b) for sign, a, b in pairs)
        case CallNode(function="minimum", arguments=(a, b)):
            return min(_value(a, params), _value(b, params))
        case CallNode(function="maximum", arguments=(a, b)):
            return max(_value(a, params), _value(b, params))
    raise ValueError("not a shape expression")
