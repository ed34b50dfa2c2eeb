"""The builtin functions of the language: signatures, and expansions that define some of them.

The manual prints this table. An expansion is source text of the language; arguments are substituted as values, so that
repeated uses are evaluated once. Every expansion is numerically stable where `exp` overflows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Span
from cugen.spec.parse.grammar import parse_expression
from cugen.spec.parse.syntax import (
    BinaryNode,
    CallNode,
    CompareNode,
    ConditionalNode,
    NameNode,
    Node,
    NumberNode,
    SubscriptNode,
    Text,
    UnaryNode,
)


@dataclass(frozen=True, slots=True)
class Function:
    """A builtin function. `arguments` are names with their default, None for a required one. `group` is elementwise,
    expansion, reduction, scan, softmax or special; `indices` is the (minimum, maximum) number of index arguments.
    `of_floats`: an integer argument of the expansion is a float first, as that of `exp`; `-abs(x)` could wrap."""

    name: str
    group: str
    arguments: tuple[tuple[str, str | None], ...]
    indices: tuple[int, int] = (0, 0)
    options: tuple[str, ...] = ()
    expansion: str = ""
    of_floats: bool = False

    @property
    def usage(self) -> str:
        """The call syntax, for messages and the manual."""
        parts = [name if default is None else f"{name}={default}" for name, default in self.arguments]
        positional = [part for part in parts if "=" not in part]
        named = [part for part in parts if "=" in part]
        indices = ["k"] if self.indices[1] == 1 else ["k", "..."] if self.indices[1] else []
        options = [f"{option}=..." for option in self.options]
        return f"{self.name}({', '.join([*positional, *indices, *named, *options])})"


MAX_INDICES = 99  # index arguments of a reduction: unlimited in effect

_ONE_OPERAND = (
    *("abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2"),
    *("log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "lgamma"),
)
_TWO_OPERANDS = ("atan2", "maximum", "minimum", "pow")


def _expansion(
    name: str, arguments: tuple[tuple[str, str | None], ...], text: str, *, of_floats: bool = False
) -> Function:
    return Function(name, "expansion", arguments, expansion=text, of_floats=of_floats)


_X = (("x", None),)
_EXPANSIONS = (
    _expansion("clamp", (("x", None), ("lo", None), ("hi", None)), "minimum(maximum(x, lo), hi)"),
    _expansion("relu", _X, "maximum(x, 0)"),
    _expansion("leaky_relu", (("x", None), ("a", "0.01")), "where(x > 0, x, a * x)"),
    _expansion("elu", (("x", None), ("a", "1.0")), "where(x > 0, x, a * expm1(x))"),
    _expansion("selu", _X, "1.0507009873554805 * where(x > 0, x, 1.6732632423543772 * expm1(x))"),
    _expansion("sigmoid", _X, "where(x >= 0, 1.0, exp(-abs(x))) / (1 + exp(-abs(x)))", of_floats=True),
    _expansion("silu", _X, "x * sigmoid(x)", of_floats=True),
    _expansion("softplus", _X, "maximum(x, 0) + log1p(exp(-abs(x)))", of_floats=True),
    _expansion("gelu", _X, "0.5 * x * (1 + erf(0.7071067811865476 * x))"),
    _expansion("gelu_tanh", _X, "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"),
    _expansion("hardtanh", _X, "minimum(maximum(x, -1), 1)"),
    _expansion("softsign", _X, "x / (1 + abs(x))", of_floats=True),
)


def _reduction(name: str, max_indices: int = MAX_INDICES, extra: tuple[tuple[str, str | None], ...] = ()) -> Function:
    return Function(name, "reduction", (("x", None), *extra), (1, max_indices), ("where",))


_REDUCTIONS = (
    *(_reduction(name) for name in ("sum", "prod", "max", "min", "mean", "any", "all")),
    _reduction("argmax", 1),
    _reduction("argmin", 1),
    _reduction("var", extra=(("ddof", "0"),)),
    _reduction("norm", extra=(("p", "2"),)),
)
_SCANS = tuple(
    Function(name, "scan", _X, (1, 1), ("exclusive", "reverse", "where"))
    for name in ("cumsum", "cumprod", "cummax", "cummin")
)
_SPECIAL = (
    Function("fma", "special", (("a", None), ("b", None), ("c", None))),
    Function("where", "special", (("condition", None), ("a", None), ("b", None))),
    Function("cast", "special", (("x", None), ("dtype", None))),
    Function("inside", "special", (("read", None),)),
    Function("softmax", "softmax", _X, (1, 1)),
    Function("log_softmax", "softmax", _X, (1, 1)),
)

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        *(Function(name, "elementwise", _X) for name in _ONE_OPERAND),
        *(Function(name, "elementwise", (("a", None), ("b", None))) for name in _TWO_OPERANDS),
        *_SPECIAL,
        *_EXPANSIONS,
        *_REDUCTIONS,
        *_SCANS,
    )
}


@lru_cache(maxsize=256)
def expansion_tree(text: str, span: Span) -> Node:
    """The parse tree of an expansion or a default, with all spans set to `span`; texts of this table always parse."""
    report = Reporter("cugen/spec/resolve/calls/functions.py", text)
    position = (span.line, span.column)
    node = parse_expression(Text(text, (position,) * (len(text) + 1)), report)
    report.raise_if_failed()
    assert node is not None
    return with_span(node, span)


def with_span(node: Node, span: Span) -> Node:
    """The parse tree with all spans replaced."""

    def relocated(part: Node) -> Node:
        return with_span(part, span)

    match node:
        case NumberNode() | NameNode():
            return replace(node, span=span)
        case UnaryNode(operand=operand):
            return replace(node, operand=relocated(operand), span=span)
        case BinaryNode(left=left, right=right):
            return replace(node, left=relocated(left), right=relocated(right), span=span)
        case CompareNode(operands=operands):
            return replace(node, operands=tuple(map(relocated, operands)), span=span)
        case ConditionalNode(condition=condition, then=then, orelse=orelse):
            return replace(
                node, condition=relocated(condition), then=relocated(then), orelse=relocated(orelse), span=span
            )
        case SubscriptNode(subscripts=subscripts):
            return replace(node, subscripts=tuple(map(relocated, subscripts)), array_span=span, span=span)
        case CallNode(arguments=arguments, keywords=keywords):
            keyword_nodes = tuple((name, relocated(value)) for name, value in keywords)
            arguments = tuple(map(relocated, arguments))
            return replace(node, arguments=arguments, keywords=keyword_nodes, function_span=span, span=span)
