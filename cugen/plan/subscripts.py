"""Conversion of the spec's integer expressions to the plan's sympy expressions."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Local, Op, ParamValue, Read, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL

_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class NotAnInteger(ValueError):
    """An expression that contains more than indices, params and constants."""


def to_integer(expr: Expr, symbols: Mapping[str, Integer]) -> Integer:
    """The sympy form of an integer expression; `symbols` maps indices, params and locals."""
    match expr:
        case Const(value=value) if isinstance(value, int):
            return integer(int(value))
        case IndexValue(name=name) | ParamValue(name=name) | Local(name=name):
            if name not in symbols:
                raise NotAnInteger(name)
            return symbols[name]
        case Cast(arg=arg, to=to) if to.is_integer and arg.dtype.is_integer and to.bits >= arg.dtype.bits:
            return to_integer(arg, symbols)
        case Op(name=name, args=args) if expr.dtype.is_integer:
            operands = [to_integer(arg, symbols) for arg in args]
            match name, operands:
                case "add", [a, b]:
                    return a + b
                case "sub", [a, b]:
                    return a - b
                case "mul", [a, b]:
                    return a * b
                case "neg", [a]:
                    return -a
                case "floordiv", [a, b]:
                    return FloorDiv(a, b)
                case "mod", [a, b]:
                    return Mod(a, b)
                case "minimum", [a, b]:
                    return Minimum(a, b)
                case "maximum", [a, b]:
                    return Maximum(a, b)
    raise NotAnInteger(repr(expr))


def are_distinct(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether two elements of an array differ by a constant along some dimension, for all values of their indices."""
    return any(_differ(x, y) for x, y in zip(a, b, strict=True))


def _differ(a: Expr, b: Expr) -> bool:
    named = (node for part in (a, b) for node in walk(part) if isinstance(node, IndexValue | ParamValue | Local))
    symbols = {node.name: symbol(node.name) for node in named}
    try:
        difference = (to_integer(a, symbols) - to_integer(b, symbols)).expand()
    except NotAnInteger:
        return False
    return bool(difference.is_Integer and difference != 0)


def is_subscript(expr: Expr) -> bool:
    """Whether `to_integer` takes an expression, once the elements that it reads are in locals."""
    named = (node for node in walk(expr) if isinstance(node, IndexValue | ParamValue | Local))
    loaded = replaced(expr, lambda node: Const(0, node.dtype) if isinstance(node, Read) else None)
    try:
        to_integer(loaded, {node.name: symbol(node.name) for node in named})
    except NotAnInteger:
        return False
    return True


def access_of(
    array: Array, element: Read | Statement, symbols: Mapping[str, Integer], kind: str, width: int = 1
) -> Access:
    """The access to the element that the spec reads or writes, or to `width` elements from there on."""
    subscripts = tuple(to_integer(sub, symbols) for sub in element.subscripts)
    return Access(array, subscripts, kind, width, span=element.span)


def to_guard(expr: Expr, symbols: Mapping[str, Integer]) -> Guard | None:
    """A condition over indices and params as a guard; None if it depends on data or isn't a conjunction."""
    match expr:
        case Op(name="and", args=args):
            parts = [to_guard(arg, symbols) for arg in args]
            terms: tuple[Comparison, ...] = ()
            for part in parts:
                if part is None:
                    return None
                terms += part.terms
            return Guard(terms)
        case Op(name=name, args=(left, right)) if name in _COMPARISONS and left.dtype != BOOL:
            try:
                return Guard((Comparison(to_integer(left, symbols), _COMPARISONS[name], to_integer(right, symbols)),))
            except NotAnInteger:
                return None
    return None
