"""Ranges of index arrays for which gathers are in bounds, by interval arithmetic on the subscripts.

Guards (`where`) are ignored, which is conservative: a range may be narrower than necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue, Read, bound_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate

Interval = tuple[int, int]
_SEARCH_LIMIT = 2**40  # above any extent


def gather_ranges(spec: Spec, params: Mapping[str, int]) -> dict[str, Interval]:
    """Minimum and maximum in-bounds element of each array that occurs in a subscript, by name.

    For a read with a boundary the range includes one element outside at either end, which exercises the boundary."""
    ranges: dict[str, Interval] = {}
    for statement in spec.statements:
        indices = (*statement.indices, *bound_indices(statement.value))
        extents = {index.name: evaluate(index.extent, params) for index in indices}
        for read in _reads(statement):
            shape = [evaluate(extent, params) for extent in spec.array(read.array).shape]
            for subscript, extent in zip(read.subscripts, shape, strict=True):
                names = dict.fromkeys(inner.array for inner in walk(subscript) if isinstance(inner, Read))
                if not names:
                    continue
                low, high = _allowed(subscript, extent, extents, params)
                if read.boundary is not None:
                    low, high = low - 1, high + 1
                for name in names:
                    old_low, old_high = ranges.get(name, (low, high))
                    ranges[name] = (max(low, old_low), min(high, old_high))
    return ranges


def _reads(statement: Statement) -> Iterator[Read]:
    for expr in (statement.value, *statement.subscripts):
        yield from (node for node in walk(expr) if isinstance(node, Read))


def _allowed(subscript: Expr, extent: int, extents: Mapping[str, int], params: Mapping[str, int]) -> Interval:
    """The widest range of index elements, nonnegative, for which `subscript` is within 0 .. extent - 1.

    Subscripts are assumed to be monotonic in the element."""

    def interval(low: int, high: int) -> Interval:
        return _interval(subscript, (low, high), extents, params)

    if interval(1, 1)[0] < interval(0, 0)[0]:
        low = _smallest(lambda value: interval(value, value)[1] < extent)
        high = _smallest(lambda value: interval(low, value)[0] < 0) - 1
    else:
        low = _smallest(lambda value: interval(value, value)[0] >= 0)
        high = _smallest(lambda value: interval(low, value)[1] >= extent) - 1
    return low, max(low, high)


def _smallest(holds: Callable[[int], bool]) -> int:
    """The smallest number of 0 .. _SEARCH_LIMIT for which the monotonic predicate holds, by bisection."""
    below, above = -1, _SEARCH_LIMIT
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def _interval(expr: Expr, inner: Interval, extents: Mapping[str, int], params: Mapping[str, int]) -> Interval:
    """Bounds of an integer expression whose reads are within `inner`."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case ParamValue(name=name):
            return params[name], params[name]
        case IndexValue(name=name):
            return 0, max(0, extents[name] - 1)
        case Op(name=name, args=args):
            operands = [_interval(arg, inner, extents, params) for arg in args]
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
                case "floordiv", [(a, b), (c, d)] if c == d > 0:
                    return a // c, b // c
                case "mod", [(a, b), (c, d)] if c == d > 0:
                    return (a % c, b % c) if b - a < c and a % c <= b % c else (0, c - 1)
    return inner  # a read, or a conversion of one
