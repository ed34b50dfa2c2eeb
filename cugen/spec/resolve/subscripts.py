"""Resolution of subscripts: quasi-affine integer trees over indices, params and gathered integers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue, Read, walk
from cugen.spec.parse.syntax import BinaryNode, NameNode, Node, NumberNode, SubscriptNode, UnaryNode
from cugen.spec.prove.integers import evaluate, is_too_large
from cugen.spec.resolve.bindings import Scope
from cugen.spec.resolve.param_expressions import INTEGER_OPERATORS, report_terms
from cugen.spec.resolve.typing_rules import Value
from cugen.spec.types import BOOL, FLOAT32, FLOAT64, INT64

if TYPE_CHECKING:
    from cugen.spec.resolve.elaborate import Elaborator

_BETWEEN_ELEMENTS = (
    "to read between elements, put a float32 matrix into `memory: {space: texture, dims: 2, filter: linear}`"
)
_ROUNDED = (
    "store the rounded subscripts in an array of an integer type, as in `t[i] = cast(round(...), int32)`;"
    f" {_BETWEEN_ELEMENTS}"
)
_HINTS = {
    **dict.fromkeys(("round", "floor", "ceil", "trunc", "cast"), _ROUNDED),
    **dict.fromkeys(
        ("clamp", "minimum", "maximum", "min", "max"),
        "give the array `boundary: clamp`, or guard the read with `where`",
    ),
    "abs": "give the array `boundary: reflect`, or guard two reads with `where`",
}
MAX_DIVISIONS = 12  # nested in a subscript: the cost of a bounds proof may double with each
_DEFAULT_HINT = (
    "use integers, params, indices, elements of integer arrays, `+ - *` by a constant, `//` and `%` by a constant; for"
    " anything else, name it in a statement of its own, `at[...] = ...`, and read at `at[...]`"
)


def resolve_subscript(elaborator: Elaborator, node: Node, scope: Scope, exact: list[tuple[Expr, int]]) -> Expr | None:
    """The tree of one subscript, or None after reporting an error. Exact divisions `/` become `//` and are added to
    `exact` as (dividend, divisor)."""
    tree = _Subscript(elaborator, scope, exact).tree(node)
    if tree is not None and _divisions(tree) > MAX_DIVISIONS:
        elaborator.report.error(
            "CG1106",
            f"divisions are nested more than {MAX_DIVISIONS} deep",
            node.span,
            label="nested too deep",
            help="split the index into several, or read the subscript from an integer array",
        )
        return None
    if tree is not None and is_too_large(tree):
        report_terms(node.span, elaborator.report)
        return None
    return tree


def resolve_coordinate(elaborator: Elaborator, node: Node, scope: Scope) -> Value | None:
    """A subscript of a filtered texture: any number, converted to float32. None after reporting an error."""
    mark = len(elaborator.leaves)
    value = elaborator.value(node, scope.without_widening)
    del elaborator.leaves[mark:]
    if value is None:
        return None
    if value.dtype == BOOL or (value.dtype == FLOAT64 and not value.weak):
        elaborator.report.error(
            "CG1208",
            f"the subscripts of a filtered texture are of type {FLOAT32}, and this is {value.dtype}",
            node.span,
            label=f"has {value.dtype}",
            help="write `cast(..., float32)`",
        )
        return None
    tree = elaborator.typing.convert(value, FLOAT32, node.span)
    return None if tree is None else replace(value, expr=tree, dtype=FLOAT32, weak=False)


def _divisions(tree: Expr) -> int:
    """The nesting depth of `//` and `%`."""
    if not isinstance(tree, Op):
        return 0
    return max(map(_divisions, tree.args)) + (tree.name in ("floordiv", "mod"))


class _Subscript:
    def __init__(self, elaborator: Elaborator, scope: Scope, exact: list[tuple[Expr, int]]) -> None:
        self._elaborator = elaborator
        self._scope = scope
        self._exact = exact

    def _reject(self, node: Node, message: str, label: str, help: str) -> None:
        self._elaborator.report.error("CG1216", message, node.span, label=label, help=help)

    def tree(self, node: Node) -> Expr | None:
        match node:
            case NumberNode(value=int(value)):
                if value < 2**63:
                    return Const(value, INT64)
                self._elaborator.report.error(
                    "CG1210",
                    "the number doesn't fit into 64 bits",
                    node.span,
                    label="too large",
                    help="write a smaller number",
                )
                return None
            case NumberNode():
                self._reject(
                    node, "a subscript is an integer", "not an integer", f"write an integer; {_BETWEEN_ELEMENTS}"
                )
                return None
            case NameNode() | SubscriptNode():
                return self._element(node)
            case UnaryNode(operator="-" | "+" as sign, operand=operand):
                arg = self.tree(operand)
                if arg is None or sign == "+":
                    return arg
                return Const(-int(arg.value), INT64) if isinstance(arg, Const) else Op("neg", (arg,), INT64, node.span)
            case BinaryNode(operator=symbol, left=left, right=right) if symbol in INTEGER_OPERATORS or symbol == "/":
                a, b = self.tree(left), self.tree(right)
                return None if a is None or b is None else self._operator(node, symbol, a, b)
        help = _HINTS.get(getattr(node, "function", ""), _DEFAULT_HINT)
        self._reject(node, "a subscript must be quasi-affine", "not quasi-affine", help)
        return None

    def _element(self, node: NameNode | SubscriptNode) -> Expr | None:
        if isinstance(node, NameNode) and self._elaborator.is_unbound(node.name, self._scope):
            params = self._elaborator.params
            twin = next((f"; the param is `{name}`" for name in params if name.lower() == node.name.lower()), "")
            self._elaborator.report.error(
                "CG1201" if twin else "CG1205",  # beside a param of that name it is an unknown name, since cugen 0.1
                f"the index `{node.name}` is unbound",
                node.span,
                label="not bound here",
                help=f"put it on the left, or bind it with a reduction such as `sum(..., {node.name})`{twin}",
            )
            return None
        value = self._elaborator.value(node, self._scope.without_widening)
        if value is None:
            return None
        if isinstance(value.expr, IndexValue | ParamValue) or (isinstance(value.expr, Read) and value.dtype.is_integer):
            return value.expr
        if isinstance(value.expr, Read):
            help = _ROUNDED if value.dtype.is_float else "store the subscripts in an array of an integer type"
            self._reject(node, f"an element of type {value.dtype} can't be a subscript", "not an integer", help)
        else:
            help = "make it a param, or read it from an integer array"
            self._reject(node, "only indices, params and elements of integer arrays can be subscripts", "here", help)
        return None

    def _operator(self, node: BinaryNode, symbol: str, a: Expr, b: Expr) -> Expr | None:
        if symbol in ("+", "-"):
            return Op(INTEGER_OPERATORS[symbol], (a, b), INT64, node.span)
        if symbol == "*":
            if is_fixed(a) or is_fixed(b):
                return Op("mul", (a, b), INT64, node.span)
            help = "multiply by a constant or a param, or read the subscript from an integer array"
            self._reject(node, "a subscript multiplies two indices", "not quasi-affine", help)
            return None
        if not is_fixed(b):
            help = "divide by an integer or a param"
            self._reject(node.right, "the divisor in a subscript isn't constant", "not constant", help)
            return None
        divisor = self._value(b)
        if divisor is not None and divisor < 1:
            self._elaborator.report.error(
                "CG1217",
                f"a subscript is divided by {divisor}",
                node.right.span,
                label=f"is {divisor}",
                help="divide by a positive number",
            )
            return None
        if symbol != "/":
            return Op(INTEGER_OPERATORS[symbol], (a, b), INT64, node.span)
        if divisor is None:
            help = "use `//`, and guard the read with `where(a % b == 0, ...)`"
            self._reject(node.right, "an exact division needs a divisor that is known here", "dynamic", help)
            return None
        self._exact.append((a, divisor))
        return Op("floordiv", (a, b), INT64, node.span)

    def _value(self, expr: Expr) -> int | None:
        values = {name: param.value for name, param in self._elaborator.params.items() if param.value is not None}
        try:
            return evaluate(expr, values)
        except KeyError:
            return None


def is_fixed(expr: Expr) -> bool:
    """Whether a tree is loop-invariant: it consists of integers and params only."""
    return all(isinstance(part, Const | ParamValue | Op) for part in walk(expr))
