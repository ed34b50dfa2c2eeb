"""Sizes and conditions of a manifest as numbers. They are parsed, never executed: a manifest is a file."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping

from cugen.plan.manifest import Size

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.Mod: lambda a, b: a % b if b else 0,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(size: Size, params: Mapping[str, int]) -> int:
    """The value of a size. `params` maps names to values; KeyError for one that is missing, ValueError for text that
    is not in the language of shapes."""
    return size if isinstance(size, int) else int(_value(_parsed(size), params))


def evaluate_all(sizes: tuple[Size, ...], params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, params) for size in sizes)


def holds(condition: str, params: Mapping[str, int]) -> bool:
    """Whether a requirement holds. Errors as for `evaluate`."""
    return bool(_value(_parsed(condition), params))


@functools.lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"not an expression in params: {text!r}") from error


def _value(node: ast.expr, params: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return params[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_value(left, params), _value(right, params))
        case ast.BinOp(left=left, op=ast.Div(), right=right):  # exact, as in the language of shapes
            quotient, remainder = divmod(_value(left, params), _value(right, params) or 1)
            if remainder:
                raise ValueError(f"{ast.unparse(node)} leaves a remainder")
            return quotient
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, params)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, params)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, params) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_value(value, params) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            numbers = [_value(operand, params) for operand in (left, *others)]
            pairs = zip(ops, numbers, numbers[1:], strict=False)
            return all(_COMPARISONS[type(op)](a, b) for op, a, b in pairs)
    raise ValueError(f"not in the language of shapes: {ast.unparse(node)}")
