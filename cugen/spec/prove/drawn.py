"""Ranges of random inputs, by interval arithmetic: elements used as subscripts are in bounds, keys and ends of ranges
are about the values of the index that they are compared with. The same of temporaries and other results.

Guards (`where`) of gathers are ignored, which is conservative: a range may be narrower than necessary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Scan,
    Select,
    bound_indices,
    children,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate

Interval = tuple[float, float]  # of integers for arrays of integers; of floats that become integers for others
_SEARCH_LIMIT = 2**40  # above any extent
_FLOAT_STEP = 2.0**-10  # to which ranges of floats are exact
_ORDER = ("lt", "le", "gt", "ge")
_COMPARISONS = ("eq", "ne", *_ORDER)
_TRUTH = (*_COMPARISONS, "and", "or", "not")
_MAX_SHIFT = 64
_ROUNDED: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}


def drawn_ranges(spec: Spec, params: Mapping[str, int]) -> dict[str, Interval]:
    """Minimum and maximum element, by name, of each array that occurs in a subscript or is compared with an index, or
    in a result that is.

    For a read with a boundary the range includes one element outside at either end, which exercises the boundary, and
    that of a comparison one that no value of the index equals."""
    gathered: dict[str, Interval] = {}
    compared: dict[str, Interval] = {}

    def narrow(
        ranges: dict[str, Interval], value: Expr, within: Interval, extents: Mapping[str, int], outside: int = 0
    ) -> None:
        for name in dict.fromkeys(_elements(value)):
            step = _FLOAT_STEP if spec.array(name).dtype.is_float else 1
            if (allowed := _allowed(value, within, _Scope(params, extents), step)) is not None:
                low, high = allowed[0] - outside, allowed[1] + outside
                old_low, old_high = ranges.get(name, (low, high))
                ranges[name] = (max(low, old_low), min(high, old_high))

    for statement in reversed(spec.statements):  # what reads a result comes after it
        indices = (*statement.indices, *bound_indices(statement.value))
        extents = {index.name: evaluate(index.extent, params) for index in indices}
        for read in _reads(statement):
            shape = [evaluate(extent, params) for extent in spec.array(read.array).shape]
            for subscript, extent in zip(read.subscripts, shape, strict=True):
                narrow(gathered, subscript, (0, extent - 1), extents, 0 if read.boundary is None else 1)
        for name, value, index in _comparisons(statement):
            if ends := _Scope(params, extents).bounds(index, (0, 0)):
                narrow(compared, value, (ends[0], ends[1] + (name in _ORDER)), extents, 1)
        for ranges in (gathered, compared):
            if statement.target in ranges:
                narrow(ranges, statement.value, ranges[statement.target], extents)
    return compared | gathered


def ascending_axes(spec: Spec) -> dict[str, int]:
    """The axis along which an array ascends, by name: that of its elements which are both ends of an index, as in
    `start[i] <= k and k < start[i + 1]`."""
    axes: dict[str, int] = {}
    for statement in spec.statements:
        ends: dict[tuple[str, Expr], tuple[Expr, ...]] = {}
        for name, value, index in _comparisons(statement):
            if name in _ORDER and isinstance(value := _uncast(value), Read):
                first = ends.setdefault((value.array, index), value.subscripts)
                pairs = enumerate(zip(first, value.subscripts, strict=True))
                for axis in [axis for axis, (a, b) in pairs if a != b][-1:]:
                    axes.setdefault(value.array, axis)
    return axes


def _comparisons(statement: Statement) -> Iterator[tuple[str, Expr, Expr]]:
    """Comparisons of integers computed from elements with those computed from indices alone, in this order."""
    for node in walk(statement.value):
        match node:
            case Op(name=name, args=(left, right)) if name in _COMPARISONS and left.dtype.is_integer:
                for value, index in ((left, right), (right, left)):
                    parts = {type(part) for part in walk(index)}
                    if IndexValue in parts and not parts & {Read, Reduce, Scan} and any(_elements(value)):
                        yield name, value, index


def _uncast(expr: Expr) -> Expr:
    return _uncast(expr.arg) if isinstance(expr, Cast) else expr


def _reads(statement: Statement) -> Iterator[Read]:
    for expr in (statement.value, *statement.subscripts):
        yield from (node for node in walk(expr) if isinstance(node, Read))


def _elements(expr: Expr) -> Iterator[str]:
    """The arrays whose elements an integer is computed from, without those that only choose."""
    match expr:
        case Read(array=array):
            yield array
        case Select(then=then, orelse=orelse):
            yield from (*_elements(then), *_elements(orelse))
        case Reduce(kind="argmax" | "argmin" | "any" | "all"):
            return
        case Reduce(body=body) | Scan(body=body):
            yield from _elements(body)
        case Op(name=name) if name in _TRUTH:
            return
        case _:
            for child in children(expr):
                yield from _elements(child)


def _allowed(value: Expr, within: Interval, scope: _Scope, step: float) -> Interval | None:
    """The widest range of elements, from 0 or the lower bound on and in such steps, for which `value` is within these
    bounds; None where that isn't known, or isn't decided by the elements.

    The value is assumed to be monotonic in the element."""
    start = math.floor(min(0, within[0]) / step)

    def bounds(low: int, high: int) -> Interval:
        return scope.bounds(value, (low * step, high * step)) or (-math.inf, math.inf)

    lowest, highest = bounds(start, _SEARCH_LIMIT)
    if within[0] <= lowest and highest <= within[1]:
        return None
    if bounds(1, 1)[0] < bounds(0, 0)[0]:
        low = _smallest(start, lambda element: bounds(element, element)[1] <= within[1])
        high = _smallest(low, lambda element: bounds(low, element)[0] < within[0]) - 1
    else:
        low = _smallest(start, lambda element: bounds(element, element)[0] >= within[0])
        high = _smallest(low, lambda element: bounds(low, element)[1] > within[1]) - 1
    return None if low == _SEARCH_LIMIT else (low * step, max(low, high) * step)


def _smallest(start: int, holds: Callable[[int], bool]) -> int:
    """The smallest number of start .. _SEARCH_LIMIT for which the monotonic predicate holds, by bisection."""
    below, above = start - 1, _SEARCH_LIMIT
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


@dataclass(frozen=True, slots=True)
class _Scope:
    """The values of params and the extents of indices by which an expression is bounded."""

    params: Mapping[str, int]
    extents: Mapping[str, int]

    def bounds(self, expr: Expr, element: Interval) -> Interval | None:
        """Bounds of a number whose reads are within `element`; None where they aren't known."""
        match expr:
            case Const(value=value):
                return value, value
            case ParamValue(name=name):
                return self.params[name], self.params[name]
            case IndexValue(name=name):
                return 0, max(0, self.extents[name] - 1)
            case Read():
                return element
            case Cast(arg=arg, to=to):
                ends = self.bounds(arg, element)
                return (math.trunc(ends[0]), math.trunc(ends[1])) if ends and to.is_integer else ends
            case Select(then=then, orelse=orelse):
                return _union(self.bounds(then, element), self.bounds(orelse, element))
            case Reduce(kind="argmax" | "argmin", indices=(index,)):
                return 0, max(0, evaluate(index.extent, self.params) - 1)
            case Reduce(kind="any" | "all"):
                return 0, 1
            case Reduce(kind="max" | "min", body=body) | Scan(kind="cummax" | "cummin", body=body):
                return self.bounds(body, element)
            case Reduce(kind="sum", body=body, indices=indices):
                return _times(self.bounds(body, element), [evaluate(index.extent, self.params) for index in indices])
            case Scan(kind="cumsum", body=body, inner=index):
                return _times(self.bounds(body, element), [evaluate(index.extent, self.params)])
            case Op(name=name) if name in _TRUTH:
                return 0, 1
            case Op(name=name, args=args):
                operands = [self.bounds(arg, element) for arg in args]
                known = [operand for operand in operands if operand is not None]
                return _of_operator(name, known) if len(known) == len(operands) else None
        return None


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _times(body: Interval | None, extents: Sequence[int]) -> Interval | None:
    """Of a sum of so many terms, or of none."""
    if body is None:
        return None
    terms = math.prod(extents)
    return min(0, body[0] * terms), max(0, body[1] * terms)


def _of_operator(name: str, operands: Sequence[Interval]) -> Interval | None:
    match name, operands:
        case "add", [(a, b), (c, d)]:
            return a + c, b + d
        case "sub", [(a, b), (c, d)]:
            return a - d, b - c
        case "neg", [(a, b)]:
            return -b, -a
        case "mul", [(a, b), (c, d)]:
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case "div", [(a, b), (c, d)] if c == d != 0:
            return min(a / c, b / c), max(a / c, b / c)
        case "floordiv", [(a, b), (c, d)] if c == d > 0:
            return a // c, b // c
        case "mod", [(a, b), (c, d)] if c == d > 0:
            return (a % c, b % c) if b - a < c and a % c <= b % c else (0, c - 1)
        case "shr", [(a, b), (c, d)] if 0 <= c == d < _MAX_SHIFT:
            return a // 2**c, b // 2**c
        case "shl", [(a, b), (c, d)] if 0 <= c == d < _MAX_SHIFT:
            return a * 2**c, b * 2**c
        case "bitand", [(a, b), (c, d)] if max(a, c) >= 0:
            return (0, min(end for low, end in ((a, b), (c, d)) if low >= 0))
        case "maximum", [(a, b), (c, d)]:
            return max(a, c), max(b, d)
        case "minimum", [(a, b), (c, d)]:
            return min(a, c), min(b, d)
        case "abs", [(a, b)]:
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case "floor" | "trunc" | "round" | "ceil", [(a, b)]:
            return _ROUNDED[name](a), _ROUNDED[name](b)
    return None
