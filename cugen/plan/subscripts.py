"""Conversion of the spec's integer expressions to the plan's sympy expressions."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping

from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, integer, symbol
from cugen.spec.expressions import Cast, Const, Expr, IndexValue, Local, Op, ParamValue, Read, Select, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64

_ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_SUBSCRIPT_OPERATIONS = {*_ARITHMETIC, "neg", "floordiv", "mod", "minimum", "maximum"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class NotAnInteger(ValueError):
    """An expression that contains more than indices, params and constants."""


def to_integer(expr: Expr, symbols: Mapping[str, Integer]) -> Integer:
    """The sympy form of an integer expression; `symbols` maps indices, params and locals. NotAnInteger for other
    leaves, and where arithmetic of a narrow type may wrap, which the form doesn't."""
    match expr:
        case Const(value=value) if isinstance(value, int):
            return integer(int(value))
        case IndexValue(name=name) | ParamValue(name=name) | Local(name=name):
            if name not in symbols:
                raise NotAnInteger(name)
            return symbols[name]
        case Cast(arg=arg) if is_widening(expr):
            return to_integer(arg, symbols)
        case Op(name=name, args=args) if is_exact(expr):
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


def is_widening(expr: Cast) -> bool:
    """Whether a conversion of integers keeps every value."""
    narrow, wide = expr.arg.dtype, expr.to
    if not (narrow.is_integer and wide.is_integer):
        return False
    return wide.lowest <= narrow.lowest and narrow.highest <= wide.highest


def is_exact(op: Op) -> bool:
    """Whether an operation gives what it gives on integers of any size: in int64, which no subscript exceeds, or where
    the types of its operands leave room."""
    if op.dtype == INT64:
        return True
    if not op.dtype.is_integer:
        return False
    low, high = type_range(op)
    return op.dtype.lowest <= low and high <= op.dtype.highest


def type_range(expr: Expr) -> tuple[int, int]:
    """The values that an integer expression may have by the types of its leaves, before its own type wraps them."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Cast(arg=arg) if arg.dtype.is_integer:
            low, high = _held_range(arg)
            if expr.dtype.lowest <= low and high <= expr.dtype.highest:
                return low, high
        case Op(name="neg", args=(arg,)):
            low, high = _held_range(arg)
            return -high, -low
        case Op(name="add" | "sub" | "mul" as name, args=(a, b)):
            pairs = itertools.product(_held_range(a), _held_range(b))
            values = [_ARITHMETIC[name](x, y) for x, y in pairs]
            return min(values), max(values)
        case Cast(arg=arg) if arg.dtype == BOOL:
            return 0, 1
        case Select(then=then, orelse=orelse):
            lows, highs = zip(_held_range(then), _held_range(orelse), strict=True)
            return min(lows), max(highs)
        case Op(name="abs", args=(arg,)):
            low, high = _held_range(arg)
            return max(low, -high, 0), max(-low, high)
        case Op(name="bitand", args=(_, Const(value=mask)) | (Const(value=mask), _)) if mask >= 0:
            return 0, int(mask)
        case Op(name="minimum" | "maximum" as name, args=args):
            chosen = min if name == "minimum" else max
            lows, highs = zip(*map(_held_range, args), strict=True)
            return chosen(lows), chosen(highs)
        case Op(name="mod", args=(_, Const(value=divisor))) if divisor > 0:
            return 0, int(divisor) - 1
        case Op(name="floordiv", args=(a, Const(value=divisor))) if divisor > 0:
            low, high = _held_range(a)
            return low // int(divisor), high // int(divisor)
    return expr.dtype.lowest, expr.dtype.highest


def _held_range(expr: Expr) -> tuple[int, int]:
    """The values of an operand: those of its type, where arithmetic in it may wrap."""
    low, high = type_range(expr)
    if expr.dtype.lowest <= low and high <= expr.dtype.highest:
        return low, high
    return expr.dtype.lowest, expr.dtype.highest


def computed_parts(expr: Expr) -> Iterator[Expr]:
    """The parts of a subscript that `to_integer` takes only as locals: elements, and what else is no sum or quotient of
    integers, such as a rounded number."""
    match expr:
        case Const() | IndexValue() | ParamValue():
            pass
        case Cast(arg=arg) if is_widening(expr):
            yield from computed_parts(arg)
        case Op(name=name, args=args) if name in _SUBSCRIPT_OPERATIONS and is_exact(expr):
            for arg in args:
                yield from computed_parts(arg)
        case _:
            yield expr


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
        case Op(name=name, args=(left, right)) if name in COMPARISONS and left.dtype != BOOL:
            try:
                return Guard((Comparison(to_integer(left, symbols), COMPARISONS[name], to_integer(right, symbols)),))
            except NotAnInteger:
                return None
    return None
