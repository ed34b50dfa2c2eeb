"""Conjunctions of conditions, and their parts."""

from __future__ import annotations

from collections.abc import Iterable

from cugen.spec.expressions import Const, Expr, Op, Select
from cugen.spec.types import BOOL


def conjuncts(where: Expr | None) -> tuple[Expr, ...]:
    """The conjuncts in test order; `a and b`, where b reads data, is `b if a else false`."""
    if where is None:
        return ()
    match where:
        case Op(name="and", args=parts):
            return tuple(condition for part in parts for condition in conjuncts(part))
        case Select(condition=first, then=second, orelse=Const(value=False)):
            return (*conjuncts(first), *conjuncts(second))
    return (where,)


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """All of the conditions as one; None for none."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Op("and", (result, condition), BOOL)
    return result
