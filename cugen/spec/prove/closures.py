"""Integer trees and conditions compiled to closures, for exhaustive searches over many points."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue, Select

Point = Sequence[int]
IntegerFunction = Callable[[Point], int]
Condition = Callable[[Point], bool | None]

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def integer_function(expr: Expr, params: Mapping[str, int], positions: Mapping[str, int]) -> IntegerFunction:
    """Compiles an integer tree to a function of a point; `positions` maps each index to its component of the point.

    KeyError for an index or param that is missing, TypeError for another kind of tree."""
    match expr:
        case Const(value=value):
            number = int(value)
            return lambda point: number
        case ParamValue(name=name):
            known = params[name]
            return lambda point: known
        case IndexValue(name=name):
            return operator.itemgetter(positions[name])
        case Op(name="neg", args=(arg,)):
            inner = integer_function(arg, params, positions)
            return lambda point: -inner(point)
        case Op(name="add" | "sub" | "mul" | "floordiv" | "mod" as name, args=(left, right)):
            a = integer_function(left, params, positions)
            if isinstance(right, Const | ParamValue):
                return _with_constant(name, a, integer_function(right, params, positions)(()))
            b = integer_function(right, params, positions)
            match name:
                case "add":
                    return lambda point: a(point) + b(point)
                case "sub":
                    return lambda point: a(point) - b(point)
                case "mul":
                    return lambda point: a(point) * b(point)
                case "floordiv":
                    return lambda point: a(point) // divisor if (divisor := b(point)) else 0
                case "mod":
                    return lambda point: a(point) % divisor if (divisor := b(point)) else 0
    raise TypeError(f"not an integer tree: {expr!r}")


def _with_constant(name: str, a: IntegerFunction, b: int) -> IntegerFunction:
    match name:
        case "add":
            return lambda point: a(point) + b
        case "sub":
            return lambda point: a(point) - b
        case "mul":
            return lambda point: a(point) * b
    if b == 0:
        return lambda point: 0
    if name == "floordiv":
        return lambda point: a(point) // b
    return lambda point: a(point) % b


def condition_function(expr: Expr, params: Mapping[str, int], positions: Mapping[str, int]) -> Condition:
    """Compiles a condition to a function of a point, which returns None where the value depends on array data."""
    match expr:
        case Const(value=value):
            known = bool(value)
            return lambda point: known
        case Op(name="not", args=(arg,)):
            inner = condition_function(arg, params, positions)
            return lambda point: None if (value := inner(point)) is None else not value
        case Op(name="and" | "or" as name, args=(left, right)):
            return _connective(
                name == "or", condition_function(left, params, positions), condition_function(right, params, positions)
            )
        case Select(condition=test, then=then, orelse=orelse):
            return _conditional(*(condition_function(part, params, positions) for part in (test, then, orelse)))
        case Op(name=name, args=(left, right)) if (
            name in _COMPARED and left.dtype.is_integer and right.dtype.is_integer
        ):
            try:
                a, b = integer_function(left, params, positions), integer_function(right, params, positions)
            except (TypeError, KeyError):
                return lambda point: None
            compare = _COMPARED[name]
            return lambda point: compare(a(point), b(point))
        case _:
            return lambda point: None


def _connective(decisive: bool, a: Condition, b: Condition) -> Condition:
    """Three-valued `or` (decisive: True) or `and` (decisive: False)."""

    def value(point: Point) -> bool | None:
        first = a(point)
        if first is decisive:
            return decisive
        second = b(point)
        if second is decisive:
            return decisive
        return None if first is None or second is None else not decisive

    return value


def _conditional(test: Condition, then: Condition, orelse: Condition) -> Condition:
    def value(point: Point) -> bool | None:
        known = test(point)
        return None if known is None else then(point) if known else orelse(point)

    return value
