"""Interval arithmetic on the coordinates of samples: whether a point is between the elements of a texture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from cugen.spec.expressions import Cast, Const, Expr, Index, IndexValue, Op, ParamValue, Select
from cugen.spec.model import Param

Interval = tuple[float, float]
_ANYTHING = (-math.inf, math.inf)
_MONOTONE: dict[str, Callable[[float], float]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}


class Intervals:
    """The intervals of expressions over params and indices. Roundings to float32 are left out: a texture clamps what
    they take past its last element."""

    def __init__(self, params: Mapping[str, Param], indices: tuple[Index, ...]) -> None:
        self._params = params
        self._extents = {index.name: index.extent for index in indices}

    def is_between(self, coordinate: Expr, extent: Expr) -> bool:
        """Whether a coordinate is between the first and the last of `extent` elements."""
        low, high = self.of(coordinate)
        return low >= 0 and high <= self.of(extent)[0] - 1

    def of(self, expr: Expr) -> Interval:
        """Bounds of the values; infinite where nothing is known."""
        match expr:
            case Const(value=value):
                return float(value), float(value)
            case ParamValue(name=name):
                param = self._params[name]
                return (param.minimum, param.maximum) if param.value is None else (param.value, param.value)
            case IndexValue(name=name) if name in self._extents:
                return 0, max(self.of(self._extents[name])[1] - 1, 0)
            case Cast(arg=arg) if expr.to.is_float:
                return self.of(arg)
            case Select(then=then, orelse=orelse):
                (low, high), (other_low, other_high) = self.of(then), self.of(orelse)
                return min(low, other_low), max(high, other_high)
            case Op(name=name, args=(arg,)):
                return self._of_one(name, *self.of(arg))
            case Op(name=name, args=(a, b)):
                return self._of_two(name, self.of(a), self.of(b))
        return _ANYTHING

    def _of_one(self, name: str, low: float, high: float) -> Interval:
        if name == "neg":
            return -high, -low
        if name in _MONOTONE and math.isfinite(low) and math.isfinite(high):
            return _MONOTONE[name](low), _MONOTONE[name](high)
        return _ANYTHING

    def _of_two(self, name: str, a: Interval, b: Interval) -> Interval:
        match name:
            case "add":
                return a[0] + b[0], a[1] + b[1]
            case "sub":
                return a[0] - b[1], a[1] - b[0]
            case "minimum":
                return min(a[0], b[0]), min(a[1], b[1])
            case "maximum":
                return max(a[0], b[0]), max(a[1], b[1])
            case "mul" if all(map(math.isfinite, (*a, *b))):
                corners = [x * y for x in a for y in b]
                return min(corners), max(corners)
            case "div" | "floordiv" if b[0] > 0 and all(map(math.isfinite, (*a, *b))):
                corners = [x // y if name == "floordiv" else x / y for x in a for y in b]
                return min(corners), max(corners)
            case "mod" if 0 < b[0] and b[1] < math.inf:
                return 0, b[1]
        return _ANYTHING
