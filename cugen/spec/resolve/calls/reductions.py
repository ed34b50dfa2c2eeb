"""Resolution of reductions, scans and softmax: calls with index arguments."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.spec.expressions import Const, Expr, Index, Op, Reduce, Scan, Span, walk
from cugen.spec.parse.syntax import CallNode, NameNode, Node, NumberNode, UnaryNode
from cugen.spec.prove.affine import affine_form
from cugen.spec.prove.nonnegative import is_provably_nonnegative
from cugen.spec.resolve.bindings import BoundIndex, Scope, is_narrower
from cugen.spec.resolve.calls.functions import Function
from cugen.spec.resolve.extents import bare_uses
from cugen.spec.resolve.typing_rules import Value
from cugen.spec.rewriting import SEPARATOR, rename
from cugen.spec.types import BOOL, INT32, INT64, DType

if TYPE_CHECKING:
    from cugen.spec.resolve.elaborate import Elaborator

_SCAN_KINDS = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}
_WIDENED = ("sum", "prod", "mean", "var", "norm", "cumsum", "cumprod")


def resolve(
    elaborator: Elaborator, node: CallNode, function: Function, arguments: dict[str, Node], scope: Scope
) -> Value | None:
    """The typed tree of a reduction, scan or softmax call, or None after reporting an error."""
    if function.group == "reduction":
        return _reduction(elaborator, node, arguments, scope)
    index = node.arguments[1]
    bound = scope.names.get(index.name) if isinstance(index, NameNode) else None
    if bound is None or isinstance(bound, Value):
        verb = "scans along" if function.group == "scan" else "works along"
        elaborator.report.error(
            "CG1212",
            f"`{node.function}` {verb} an index of the left side",
            index.span,
            label="not an index here",
            help=f"name a bare index of the left side, such as `y[i, j] = {node.function}(x[i, j], j)`",
        )
        return None
    if function.group == "scan":
        return _scan(elaborator, node, arguments, bound, scope)
    return _softmax(elaborator, node, arguments["x"], bound, scope)


class ReductionBuilder:
    """Builds the Reduce nodes of one call, with its indices, condition and span."""

    def __init__(self, elaborator: Elaborator, indices: tuple[Index, ...], where: Value | None, span: Span) -> None:
        self.elaborator = elaborator
        self.typing = elaborator.typing
        self.indices = indices
        self.where = where
        self.span = span

    def renamed(self, value: Value) -> tuple[ReductionBuilder, Value]:
        """A copy with fresh indices, and `value` renamed to them, for the second use of a term in an expansion."""
        names = {index.name: self.elaborator.fresh(index.name.split(SEPARATOR)[0]) for index in self.indices}
        indices = tuple(Index(names[index.name], index.extent) for index in self.indices)
        where = None if self.where is None else replace(self.where, expr=rename(self.where.expr, names))
        builder = ReductionBuilder(self.elaborator, indices, where, self.span)
        return builder, replace(value, expr=rename(value.expr, names))

    def reduce(self, kind: str, body: Value) -> Value | None:
        """sum prod max min any all of a term; sum and prod use the accumulator type."""
        typed: Value | None = body
        if kind in ("any", "all"):
            typed = self.typing.as_bool(body, self.span)
        elif kind in ("sum", "prod") and not body.weak:
            typed = self._accumulated(body)
        if typed is None:
            return None
        condition = None if self.where is None else self.where.expr
        tree = Reduce(kind, typed.expr, self.indices, typed.expr.dtype, condition, self.span)
        return self.typing.build(tree, typed.dtype, self._parts(typed), self.span, weak=typed.weak)

    def _accumulated(self, body: Value) -> Value | None:
        dtype = accumulate_type(body.dtype, self.elaborator.accumulate)
        expr = self.typing.convert(body, dtype, self.span)
        return None if expr is None else replace(body, expr=expr, dtype=dtype)

    def argument_of_extremum(self, kind: str, body: Value) -> Value | None:
        """argmax and argmin."""
        typed = self.typing.with_default_type(body, self.span)
        if typed is None:
            return None
        condition = None if self.where is None else self.where.expr
        tree = Reduce(kind, typed.expr, self.indices, INT64, condition, self.span)
        return self.typing.build(tree, INT64, self._parts(typed), self.span)

    def count(self) -> Value | None:
        """The number of terms: the product of the extents, or with a condition the sum of 1."""
        if self.where is not None:
            return self.reduce("sum", self.typing.number(1))
        total: Expr = self.indices[0].extent
        for index in self.indices[1:]:
            total = Op("mul", (total, index.extent), INT64, self.span)
        return Value(total, INT64, weak=True, size=sum(1 for _ in walk(total)))

    def mean(self, body: Value) -> Value | None:
        """The sum divided by the number of terms."""
        return self.divided(self.reduce("sum", body), self.count())

    def divided(self, total: Value | None, count: Value | None) -> Value | None:
        """The quotient of a sum and a count; None if either is."""
        return None if total is None or count is None else self.typing.arithmetic("div", total, count, self.span)

    def _parts(self, body: Value) -> list[Value]:
        return [body] if self.where is None else [body, self.where]


def accumulate_type(dtype: DType, requested: DType | None) -> DType:
    """The accumulator type of a sum of `dtype`: the requested one if it is of the same kind, else the default."""
    if requested is not None and (dtype.is_float == requested.is_float):
        return requested.compute
    return dtype.accumulate


def _resolve_term(elaborator: Elaborator, node: Node, scope: Scope, *, widened: bool) -> Value | None:
    """A reduction's term. If the accumulator is wider than the loads, these are widened first, so that products don't
    overflow or round before accumulation. The accumulator type depends on the term's type: hence two passes."""
    mark = len(elaborator.leaves)
    value = elaborator.value(node, scope if widened else scope.without_widening)
    leaves = elaborator.leaves[mark:]
    if not widened:
        del elaborator.leaves[mark:]
    if value is None or value.weak or not widened:
        return value
    dtype = accumulate_type(INT32 if value.dtype == BOOL else value.dtype, elaborator.accumulate)
    if scope.widen is not None or not any(is_narrower(leaf.compute, dtype) for leaf in leaves):
        return value
    del elaborator.leaves[mark:]
    return elaborator.value(node, replace(scope, widen=dtype))


def _read_where(elaborator: Elaborator, arguments: dict[str, Node], scope: Scope) -> tuple[bool, Value | None]:
    """Whether the `where` option is valid, and its condition if given."""
    if "where" not in arguments:
        return True, None
    value = elaborator.condition(arguments["where"], scope)
    return value is not None, value


def _reduction(elaborator: Elaborator, node: CallNode, arguments: dict[str, Node], scope: Scope) -> Value | None:
    names = _bound_names(elaborator, node, scope)
    if names is None:
        return None
    indices: list[Index] = []
    inner: dict[str, BoundIndex] = {}
    is_valid = True
    for name in names:
        uses = bare_uses(
            [node.arguments[0], *(v for k, v in node.keywords if k == "where")], name.name, elaborator.arrays
        )
        extent = elaborator.extents.of(name.name, uses, name.span)
        is_valid = is_valid and extent is not None
        index = Index(elaborator.fresh(name.name), extent if extent is not None else Const(1, INT64))
        indices.append(index)
        inner[name.name] = BoundIndex(index.name, index.extent)
    inside = scope.bind(inner)
    where_is_valid, where = _read_where(elaborator, arguments, inside)
    body = _resolve_term(elaborator, arguments["x"], inside, widened=node.function in _WIDENED)
    options = {
        name: elaborator.value(arguments[name], scope.without_widening) for name in ("ddof", "p") if name in arguments
    }
    if not is_valid or not where_is_valid or body is None or None in options.values():
        return None
    builder = ReductionBuilder(elaborator, tuple(indices), where, node.span)
    match node.function:
        case "mean":
            return builder.mean(body)
        case "argmax" | "argmin":
            return builder.argument_of_extremum(node.function, body) if _is_nonempty(elaborator, builder) else None
        case "var":
            return _variance(builder, body, options["ddof"])
        case "norm":
            return _norm(builder, body, arguments["p"], options["p"])
        case kind:
            return builder.reduce(kind, body)


def _bound_names(elaborator: Elaborator, node: CallNode, scope: Scope) -> list[NameNode] | None:
    names: list[NameNode] = []
    for argument in node.arguments[1:]:
        if not isinstance(argument, NameNode) or (
            node.function in ("max", "min") and elaborator.kind_of(argument.name, scope) not in (None, "an index")
        ):
            help = "name an index, such as `sum(x[k], k)`"
            if node.function in ("max", "min"):
                instead = {"max": "maximum", "min": "minimum"}[node.function]
                help = (
                    f"`{node.function}` reduces over an index; the {node.function} of two values is `{instead}(a, b)`"
                )
            message = f"`{node.function}` reduces over an index, and this isn't the name of one"
            elaborator.report.error("CG1211", message, argument.span, label="not an index", help=help)
            return None
        if any(argument.name == name.name for name in names):
            message = f"`{argument.name}` is bound twice here"
            elaborator.report.error("CG1204", message, argument.span, label="second time", help="name each index once")
            return None
        if not elaborator.new_index(argument, scope):
            return None
        names.append(argument)
    return names


def _is_nonempty(elaborator: Elaborator, builder: ReductionBuilder) -> bool:
    if _has_terms(builder.indices[0].extent, Const(1, INT64), elaborator):
        return True
    elaborator.report.error(
        "CG1314",
        "argmax and argmin have no value over an empty range",
        builder.span,
        label="the index may have extent 0",
        help="let the param's range start at 1, as in `K: {range: [1, 4096]}`",
    )
    return False


def _has_terms(count: Expr, required: Expr, elaborator: Elaborator) -> bool:
    """Whether a number of terms is proved to be at least another."""
    params = elaborator.params
    return is_provably_nonnegative(affine_form(count, params) - affine_form(required, params), (), params)


def _variance(builder: ReductionBuilder, body: Value, ddof: Value | None) -> Value | None:
    """sum((x - mean(x)) ** 2) / maximum(count - ddof, 0), with the maximum where there may be fewer terms."""
    typing, span = builder.typing, builder.span
    mean = builder.mean(body)
    outer, term = builder.renamed(body)
    offset = None if mean is None else typing.arithmetic("sub", term, mean, span)
    square = None if offset is None else typing.arithmetic("mul", offset, offset, span)
    total = None if square is None else outer.reduce("sum", square)
    count = builder.count()
    if count is not None and ddof is not None and not (isinstance(ddof.expr, Const) and ddof.expr.value == 0):
        is_enough = builder.where is None and _has_terms(count.expr, ddof.expr, builder.elaborator)
        count = typing.arithmetic("sub", count, ddof, span)
        if count is not None and not is_enough:
            count = typing.arithmetic("maximum", count, typing.number(0), span)
    return builder.divided(total, count)


def _norm(builder: ReductionBuilder, body: Value, written: Node, power: Value | None) -> Value | None:
    """(sum(abs(x) ** p)) ** (1 / p); p = 2, 1, inf and -inf have their usual forms."""
    typing, span = builder.typing, builder.span
    p = _literal(written)
    if p == 2:
        square = typing.arithmetic("mul", body, body, span)
        total = None if square is None else builder.reduce("sum", square)
        return None if total is None else typing.unary("sqrt", total, span)
    size = typing.unary("abs", body, span)
    if size is None or power is None:
        return None
    if p == math.inf:
        return _greatest_size(builder, size)
    if p is not None and p in (1, -math.inf):
        return builder.reduce("sum" if p == 1 else "min", size)
    if p == 0:
        differs = typing.compare("ne", body, typing.number(0), span)
        return None if differs is None else builder.reduce("sum", differs)
    raised = typing.arithmetic("pow", size, typing.number(float(p)) if p is not None else power, span)
    total = None if raised is None else builder.reduce("sum", raised)
    root = typing.arithmetic("div", typing.number(1), power, span)
    return None if total is None or root is None else typing.arithmetic("pow", total, root, span)


def _greatest_size(builder: ReductionBuilder, size: Value) -> Value | None:
    """The greatest of sizes, and 0 where there are none."""
    greatest, count = builder.reduce("max", size), builder.count()
    if greatest is None or count is None:
        return None
    if builder.where is None and _has_terms(count.expr, Const(1, INT64), builder.elaborator):
        return greatest
    return builder.typing.arithmetic("maximum", greatest, builder.typing.number(0), builder.span)


def _literal(node: Node) -> float | None:
    match node:
        case NumberNode(value=number):
            return number
        case NameNode(name="inf"):
            return math.inf
        case UnaryNode(operator="-", operand=operand):
            value = _literal(operand)
            return None if value is None else -value
        case _:
            return None


def _scan(
    elaborator: Elaborator, node: CallNode, arguments: dict[str, Node], outer: BoundIndex, scope: Scope
) -> Value | None:
    name = node.arguments[1]
    assert isinstance(name, NameNode)
    if not outer.is_left:
        elaborator.report.error(
            "CG1212",
            f"`{node.function}` scans along an index that is a subscript by itself on the left; `{name.name}` isn't",
            name.span,
            label="not alone on the left",
            help=f"compute the scan in a statement of its own, such as `t[{name.name}] = ...`, and read its result",
        )
        return None
    inner = Index(elaborator.fresh(name.name), outer.extent)
    inside = scope.bind({name.name: BoundIndex(inner.name, inner.extent)})
    where_is_valid, where = _read_where(elaborator, arguments, inside)
    flags = {option: _read_flag(elaborator, arguments.get(option)) for option in ("exclusive", "reverse")}
    body = _resolve_term(elaborator, arguments["x"], inside, widened=node.function in _WIDENED)
    if not where_is_valid or body is None or None in flags.values():
        return None
    kind = _SCAN_KINDS[node.function]
    reduced = ReductionBuilder(elaborator, (inner,), where, node.span).reduce(kind, body)
    if reduced is None or not isinstance(reduced.expr, Reduce):
        return None
    tree = Scan(
        kind,
        reduced.expr.body,
        inner,
        outer.name,
        reduced.expr.dtype,
        bool(flags["exclusive"]),
        bool(flags["reverse"]),
        reduced.expr.where,
        node.span,
    )
    return replace(reduced, expr=tree)


def _read_flag(elaborator: Elaborator, node: Node | None) -> bool | None:
    if node is None:
        return False
    if isinstance(node, NameNode) and node.name in ("true", "false"):
        return node.name == "true"
    elaborator.report.error(
        "CG1203", "this option is `true` or `false`", node.span, label="neither", help="write `true` or `false`"
    )
    return None


def _softmax(elaborator: Elaborator, node: CallNode, argument: Node, index: BoundIndex, scope: Scope) -> Value | None:
    """softmax: exp(x - max(x)) / sum(exp(x - max(x))); log_softmax: x - max(x) - log(sum(exp(x - max(x))))."""
    typing, span = elaborator.typing, node.span
    argument_value = _resolve_term(elaborator, argument, scope, widened=False)
    if argument_value is None:
        return None
    if any(isinstance(part, Scan) and part.outer == index.name for part in walk(argument_value.expr)):
        help = "compute the scan in a separate statement"
        message = f"`{node.function}` can't be along the index of a scan in its argument"
        elaborator.report.error("CG1212", message, span, label="scanned inside", help=help)
        return None
    argument_value = typing.as_float(argument_value, span)
    base = index.name.split(SEPARATOR)[0]
    first, second = (Index(elaborator.fresh(base), index.extent) for _ in range(2))
    under = replace(argument_value, expr=rename(argument_value.expr, {index.name: first.name}))
    maximum = ReductionBuilder(elaborator, (first,), None, span).reduce("max", under)
    offset = None if maximum is None else typing.arithmetic("sub", argument_value, maximum, span)
    power = None if offset is None else typing.unary("exp", offset, span)
    if offset is None or power is None:
        return None
    term = replace(power, expr=rename(power.expr, {index.name: second.name}))
    total = ReductionBuilder(elaborator, (second,), None, span).reduce("sum", term)
    if total is None:
        return None
    if node.function == "softmax":
        return typing.arithmetic("div", power, total, span)
    log = typing.unary("log", total, span)
    return None if log is None else typing.arithmetic("sub", offset, log, span)
