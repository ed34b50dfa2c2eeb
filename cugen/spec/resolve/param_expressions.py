"""Integers over params (shapes, extents, strides) and `require` conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Const, Expr, Op, ParamValue, Span
from cugen.spec.model import Param
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse.syntax import BinaryNode, CompareNode, NameNode, Node, NumberNode, UnaryNode
from cugen.spec.prove.integers import MAX_TERMS, evaluate
from cugen.spec.types import BOOL, INT64

INTEGER_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_INT64 = range(-(2**63), 2**63)


def resolve_integer(node: Node, params: Sequence[Param], report: Reporter, *, key: str) -> Expr | None:
    """An integer tree over params (`+ - * // %`); static params stay `ParamValue`s. None after reporting an error."""
    return _Integers(params, report, key).integer(node)


def report_terms(span: Span, report: Reporter, *, key: str = "") -> None:
    """Reports a product of sums with too many terms, `(A + 1) * (B + 1) * …`."""
    report.error(
        "CG1106",
        f"the expression has more than {MAX_TERMS} terms when its products are multiplied out",
        span,
        key=key,
        label="too many terms",
        help="make a sum in a factor one param",
    )


def resolve_condition(node: Node, params: Sequence[Param], report: Reporter, *, key: str) -> Expr | None:
    """A bool tree over params: comparisons of integer trees joined by and, or, not. None after reporting an error."""
    return _Integers(params, report, key).condition(node)


def holds(condition: Expr, values: Mapping[str, int]) -> bool:
    """Whether a condition of `resolve_condition` holds; `values` maps its params. KeyError for a missing one, TypeError
    for another kind of tree."""
    match condition:
        case Const(value=value):
            return bool(value)
        case Op(name="and", args=(a, b)):
            return holds(a, values) and holds(b, values)
        case Op(name="or", args=(a, b)):
            return holds(a, values) or holds(b, values)
        case Op(name="not", args=(a,)):
            return not holds(a, values)
        case Op(name=name, args=(a, b)) if name in COMPARE:
            return COMPARE[name](evaluate(a, values), evaluate(b, values))
    raise TypeError(f"not a condition over params: {condition!r}")


class _Integers:
    def __init__(self, params: Sequence[Param], report: Reporter, key: str) -> None:
        self._params = {param.name: param for param in params}
        self._values = {param.name: param.value for param in params if param.value is not None}
        self._report = report
        self._key = key

    def _error(self, code: str, message: str, node: Node, label: str, help: str) -> None:
        self._report.error(code, message, node.span, key=self._key, label=label, help=help)

    def integer(self, node: Node) -> Expr | None:
        match node:
            case NumberNode(value=int(value)):
                if value in _INT64:
                    return Const(value, INT64)
                self._error("CG1210", "the number doesn't fit into 64 bits", node, "too large", "write a smaller one")
                return None
            case NameNode(name=name):
                if name in self._params:
                    return ParamValue(name)
                help = did_you_mean(name, self._params, what="params")
                self._error("CG1201", f"`{name}` isn't a param", node, "unknown here", help)
                return None
            case UnaryNode(operator="-" | "+" as sign, operand=operand):
                arg = self.integer(operand)
                if arg is None or sign == "+":
                    return arg
                return Const(-int(arg.value), INT64) if isinstance(arg, Const) else Op("neg", (arg,), INT64, node.span)
            case BinaryNode(operator=symbol, left=left, right=right) if symbol in INTEGER_OPERATORS:
                a, b = self.integer(left), self.integer(right)
                if a is None or b is None:
                    return None
                if symbol in ("//", "%") and self._static(b) == 0:
                    self._error("CG1217", "this divides by zero", right, "is 0", "divide by another value")
                    return None
                return Op(INTEGER_OPERATORS[symbol], (a, b), INT64, node.span)
            case BinaryNode(operator="**", left=left, right=right):
                return self._power(node, left, right)
            case BinaryNode(operator="/"):
                help = "write `//` for the quotient rounded down"
                self._error("CG1213", "`/` doesn't give an integer", node, "not an integer", help)
                return None
        help = "use integers, params and `+ - * // %`"
        self._error("CG1213", "this isn't an integer expression in params", node, "not allowed here", help)
        return None

    def _power(self, node: Node, left: Node, right: Node) -> Expr | None:
        """Integer trees have no `**`: it is folded here, which needs static operands."""
        a, b = self.integer(left), self.integer(right)
        if a is None or b is None:
            return None
        base, exponent = self._static(a), self._static(b)
        if base is None or exponent is None or exponent < 0:
            help = "use `**` with known numbers and an exponent of at least 0"
            self._error("CG1213", "this power isn't a known integer", node, "not known", help)
            return None
        if (abs(base) > 1 and exponent > 63) or (value := base**exponent) not in _INT64:
            self._error("CG1210", "the power doesn't fit into 64 bits", node, "too large", "choose smaller numbers")
            return None
        return Const(value, INT64)

    def _static(self, expr: Expr) -> int | None:
        try:
            return evaluate(expr, self._values)
        except KeyError:
            return None

    def condition(self, node: Node) -> Expr | None:
        match node:
            case NameNode(name="true" | "false" as name):
                return Const(name == "true", BOOL)
            case UnaryNode(operator="not", operand=operand):
                arg = self.condition(operand)
                return None if arg is None else Op("not", (arg,), BOOL, node.span)
            case BinaryNode(operator="and" | "or" as name, left=left, right=right):
                a, b = self.condition(left), self.condition(right)
                return None if a is None or b is None else Op(name, (a, b), BOOL, node.span)
            case CompareNode(operands=operands, operators=operators):
                values = [self.integer(operand) for operand in operands]
                result: Expr | None = None
                for left_value, symbol, right_value in zip(values, operators, values[1:], strict=False):
                    if left_value is None or right_value is None:
                        return None
                    link = Op(COMPARISONS[symbol], (left_value, right_value), BOOL, node.span)
                    result = link if result is None else Op("and", (result, link), BOOL, node.span)
                return result
        help = "write a comparison such as `C % G == 0`"
        self._error("CG1215", "this isn't a condition on params", node, "no comparison", help)
        return None
