"""Constant evaluation of baked numbers: expressions in literals and static params, by Python's math module."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence

from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Param
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.syntax import (
    BinaryNode,
    CallNode,
    CompareNode,
    ConditionalNode,
    NameNode,
    Node,
    NumberNode,
    SubscriptNode,
    UnaryNode,
)
from cugen.spec.resolve.param_expressions import COMPARE, COMPARISONS


def resolve_number(node: Node, params: Sequence[Param], report: Reporter, *, key: str) -> int | float | bool | None:
    """Evaluates an expression in static params and literals at compile time; None after reporting an error."""
    try:
        return _number(node, {param.name: param for param in params})
    except _NotANumber as error:
        report.error(error.code, error.message, error.node.span, key=key, label=error.label, help=error.help)
        return None


class _NotANumber(Exception):
    """An expression without a compile-time value, as a diagnostic."""

    def __init__(self, code: str, message: str, node: Node, label: str, help: str) -> None:
        super().__init__(message)
        self.code, self.message, self.node, self.label, self.help = code, message, node, label, help


_MAX_EXPONENT = 1100  # of `**` and `<<`; larger results overflow a double
_Number = int | float | bool
_NAMED: dict[str, _Number] = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "true": True, "false": False}
_UNARY: dict[str, Callable[..., _Number]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "not": operator.not_,
}
_BINARY: dict[str, Callable[..., _Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    **{symbol: COMPARE[name] for symbol, name in COMPARISONS.items()},
}
_MATH_MODULE = (
    *("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil", "trunc"),
)
_FUNCTIONS: dict[str, tuple[int, Callable[..., _Number]]] = {
    **{name: (1, getattr(math, name)) for name in _MATH_MODULE},
    "abs": (1, abs),
    "round": (1, round),
    "sign": (1, lambda x: (x > 0) - (x < 0)),
    "rsqrt": (1, lambda x: 1 / math.sqrt(x)),
    "atan2": (2, math.atan2),
    "maximum": (2, max),
    "minimum": (2, min),
    "pow": (2, operator.pow),
    "fma": (3, lambda a, b, c: a * b + c),
    "clamp": (3, lambda x, low, high: min(max(x, low), high)),
    "where": (3, lambda condition, a, b: a if condition else b),
}


def _number(node: Node, params: Mapping[str, Param]) -> _Number:
    match node:
        case NumberNode(value=value):
            return value
        case NameNode(name=name):
            return _name_value(node, name, params)
        case UnaryNode(operator=symbol, operand=operand):
            return _apply(node, _UNARY[symbol], [_number(operand, params)])
        case BinaryNode(operator="and", left=left, right=right):
            return bool(_number(left, params)) and bool(_number(right, params))
        case BinaryNode(operator="or", left=left, right=right):
            return bool(_number(left, params)) or bool(_number(right, params))
        case BinaryNode(operator=symbol, left=left, right=right):
            return _apply(node, _BINARY[symbol], [_number(left, params), _number(right, params)])
        case CompareNode(operands=parts, operators=symbols):
            values = [_number(part, params) for part in parts]
            links = zip(values, symbols, values[1:], strict=False)
            return all(_BINARY[symbol](a, b) for a, symbol, b in links)
        case ConditionalNode(condition=condition, then=then, orelse=orelse):
            return _number(then if _number(condition, params) else orelse, params)
        case CallNode(function=name, arguments=arguments, keywords=keywords):
            arity, function = _FUNCTIONS.get(name, (0, None))
            if function is None:
                help = did_you_mean(name, _FUNCTIONS, what="functions")
                raise _NotANumber("CG1202", f"`{name}` isn't allowed in a baked number", node, "unknown here", help)
            if keywords or len(arguments) != arity:
                message = f"`{name}` takes {arity} argument{'s' if arity > 1 else ''} here"
                raise _NotANumber("CG1203", message, node, "wrong arguments", "pass exactly these")
            if name == "where":
                return _number(arguments[1] if _number(arguments[0], params) else arguments[2], params)
            return _apply(node, function, [_number(argument, params) for argument in arguments])
        case SubscriptNode():
            help = "use numbers, params and functions"
            raise _NotANumber("CG1214", "a baked number can't read an array", node, "an array", help)


def _name_value(node: Node, name: str, params: Mapping[str, Param]) -> _Number:
    if name in _NAMED:
        return _NAMED[name]
    if name not in params:
        help = did_you_mean(name, params, what="params")
        raise _NotANumber("CG1201", f"`{name}` isn't a param", node, "unknown here", help)
    value = params[name].value
    if value is None:
        help = "leave `value` out, so that the scalar is an argument, or make the param static"
        raise _NotANumber("CG1214", f"`{name}` is dynamic, so it has no value yet", node, "known at launch", help)
    return value


def _apply(node: Node, function: Callable[..., _Number], operands: list[_Number]) -> _Number:
    try:
        if function in (operator.pow, operator.lshift) and abs(operands[1]) > _MAX_EXPONENT:
            raise _NotANumber("CG1214", "the number is too large", node, "here", "choose smaller numbers")
        value = function(*operands)
        if isinstance(value, complex):
            raise ArithmeticError("it is complex")
        if isinstance(value, int | float) and abs(value) <= 2**1023:
            return value
        if isinstance(value, float) and not all(math.isfinite(x) for x in operands):
            return value  # infinity and NaN propagate
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _NotANumber("CG1214", f"this has no value: {error}", node, "here", "choose other numbers") from error
    raise _NotANumber("CG1214", "the number is too large", node, "here", "choose smaller numbers")
