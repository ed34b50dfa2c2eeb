"""Conditions, quotients and remainders that the ranges of indices decide.

    y[i] = x[i] if i < 64 else x[(i + 64) % 128]      for i below 32
becomes
    y[i] = x[i]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy

from cugen.plan.context import Context
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, Range, bounds, symbol
from cugen.spec.expressions import Const, Expr, Index, Op, Select
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.types import BOOL, INT64


@dataclass(frozen=True)
class Decisions:
    """What the ranges of params and indices decide."""

    context: Context
    indices: Mapping[str, Index]
    symbols: dict[str, Integer] = field(init=False)
    ranges: dict[sympy.Symbol, Range] = field(init=False)

    def __post_init__(self) -> None:
        values = {name: symbol(f"index {name}") for name in self.indices}
        last = {values[name]: self.context.max_extent(index) - 1 for name, index in self.indices.items()}
        object.__setattr__(self, "symbols", {**self.context.symbols, **values})
        object.__setattr__(self, "ranges", {**self.context.ranges, **{name: (0, n) for name, n in last.items()}})

    def decided(self, expr: Expr) -> Expr:
        """The expression without what is decided; itself if nothing is."""
        expr = rebuild(expr, self.decided)
        match expr:
            case Select(condition=Const(value=value), then=then, orelse=orelse):
                return converted(then if value else orelse, expr.dtype)
            case Op(name="and" | "or" as name, args=args):
                return _connected(expr, args, neutral=name == "and")
            case Op(name="not", args=(Const(value=value),)):
                return Const(not value, BOOL)
            case Op(name="lt" | "le" | "gt" | "ge" | "eq" | "ne" as name, args=(left, right)):
                return self._comparison(expr, name, left, right)
            case Op(name="mod" | "floordiv" as name, args=(dividend, divisor)):
                return self._quotient(expr, name, dividend, divisor)
        return expr

    def _range(self, expr: Expr) -> Range | None:
        try:
            return bounds(to_integer(expr, self.symbols).expand(), self.ranges)
        except NotAnInteger:
            return None

    def _comparison(self, expr: Op, name: str, left: Expr, right: Expr) -> Expr:
        if not (left.dtype.is_integer and right.dtype.is_integer):
            return expr
        interval = self._range(Op("sub", (left, right), INT64))
        if interval is None:
            return expr
        low, high = interval
        always = {"lt": high < 0, "le": high <= 0, "gt": low > 0, "ge": low >= 0, "eq": low == high == 0}
        never = {"lt": low >= 0, "le": low > 0, "gt": high <= 0, "ge": high < 0, "eq": low > 0 or high < 0}
        always["ne"], never["ne"] = never["eq"], always["eq"]
        return Const(always[name], BOOL) if always[name] or never[name] else expr

    def _quotient(self, expr: Op, name: str, dividend: Expr, divisor: Expr) -> Expr:
        if expr.dtype != INT64 or (by := self._range(divisor)) is None or by[0] != by[1] or by[0] < 1:
            return expr
        interval = self._range(dividend)
        if interval is None or interval[0] // by[0] != interval[1] // by[0]:
            return expr
        quotient = interval[0] // by[0]
        if name == "floordiv":
            return Const(quotient, INT64)
        return Op("sub", (dividend, Const(quotient * by[0], INT64)), INT64) if quotient else dividend


def _connected(expr: Op, args: tuple[Expr, ...], *, neutral: bool) -> Expr:
    """A conjunction or disjunction without its decided conditions."""
    known = [bool(arg.value) for arg in args if isinstance(arg, Const)]
    if (not neutral) in known:
        return Const(not neutral, BOOL)
    remaining = [arg for arg in args if not isinstance(arg, Const)]
    if not remaining:
        return Const(neutral, BOOL)
    result = remaining[0]
    for arg in remaining[1:]:
        result = Op(expr.name, (result, arg), BOOL)
    return result if known else expr
