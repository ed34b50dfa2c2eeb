"""Windows: what statements read round each element of their output, as ranges of offsets in every dimension."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.plan.context import Context
from cugen.plan.request import Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Boundary, Expr, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Statement

MOST_POINTS = 1024  # of a window; beyond, what it reads isn't listed point by point
_GAPS = 8  # columns of a row for each point in it, beyond which reads are no window
_MOST_HELD = 64  # points of a reduction beyond which windows move along its bare indices
_IN_MEMORY = ("global", "readonly")


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a window: low … high beyond `scale` times the `index` of the output or of a walk (or the same
    for all)."""

    index: str | None
    scale: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Window:
    """All that is read of one array round an element of the output; `points` holds the offsets, `boundary` what lies
    outside."""

    array: str
    axes: tuple[Axis, ...]
    points: tuple[tuple[int, ...], ...]
    reads: tuple[Read, ...]
    boundary: Boundary | None

    def axis_along(self, index: str) -> int:
        """The dimension that the output's index moves."""
        return next(d for d, axis in enumerate(self.axes) if axis.index == index)

    @property
    def is_one_point(self) -> bool:
        return len(self.points) == 1

    def is_scattered(self, along: str) -> bool:
        """Whether most of what lies between the points of a row is never read."""
        dimension = self.axis_along(along)
        rows: dict[tuple[int, ...], list[int]] = {}
        for point in self.points:
            rows.setdefault((*point[:dimension], *point[dimension + 1 :]), []).append(point[dimension])
        return any(max(row) - min(row) > _GAPS * len(row) for row in rows.values())

    @property
    def reaches(self) -> bool:
        """Whether neighbours of the output share what it reads."""
        return any(axis.index is not None and axis.low < axis.high for axis in self.axes)


@dataclass(frozen=True, slots=True)
class _Place:
    """A read's offsets: which output index moves each dimension, how fast, and to which points."""

    axes: tuple[tuple[str | None, int], ...]
    points: tuple[tuple[int, ...], ...]


def memory_reads(request: Request) -> Iterator[tuple[Statement, Read]]:
    """The reads that see memory, with their statements: those of elements that no statement before has written."""
    written: dict[tuple[str, tuple[Expr, ...]], None] = {}
    for statement in map(explicit, request.group.statements):
        for node in walk(statement.value):
            if isinstance(node, Read) and (node.array, node.subscripts) not in written:
                yield statement, node
        written[statement.target, statement.subscripts] = None


@dataclass(frozen=True, slots=True)
class Walk:
    """A reduction that is too long for windows to hold all of it: they move along its indices `walked`, one step after
    another, and hold what it reads over the `rest` of them."""

    reduction: Reduce
    walked: tuple[spec.Index, ...]
    rest: tuple[spec.Index, ...]


def find_walks(request: Request, along: str) -> tuple[Walk, ...]:
    """The reductions over channels and the like: indices that are bare subscripts in all that moves along `along`."""
    found: dict[Reduce, Walk] = {}
    for statement, read in memory_reads(request):
        for node in walk(statement.value):
            if isinstance(node, Reduce) and read in walk(node.body) and along in spec.free_indices(read):
                moving = [r for r in walk(node.body) if isinstance(r, Read) and along in spec.free_indices(r)]
                walked = tuple(index for index in node.indices if _is_bare(index.name, moving))
                extents = [request.context.static(to_integer(i.extent, request.context.symbols)) for i in node.indices]
                known = [extent for extent in extents if extent is not None]
                if walked and (len(known) < len(extents) or math.prod(known) > _MOST_HELD):
                    rest = tuple(index for index in node.indices if index not in walked)
                    found[node] = Walk(node, walked, rest)
    return tuple(found.values())


def _is_bare(name: str, reads: list[Read]) -> bool:
    subscripts = [sub for read in reads for sub in read.subscripts if name in spec.free_indices(sub)]
    return bool(subscripts) and all(sub == IndexValue(name) for sub in subscripts)


def find_windows(request: Request, along: str) -> tuple[dict[str, Window], tuple[str, ...]]:
    """The windows, by array, of the reads that move along the index `along`; and why others that move with it are
    none."""
    walked = frozenset(index.name for found in find_walks(request, along) for index in found.walked)
    found: dict[str, list[tuple[Read, _Place]]] = {}
    others: dict[str, None] = {}
    for statement, read in memory_reads(request):
        if along not in spec.free_indices(read):
            continue
        place = _place(request, statement, read, along, walked)
        if isinstance(place, str):
            others[place] = None
        elif all(index != along for index, _ in place.axes):
            others[f"{read.array} is read at places that don't move with {along}"] = None
        elif read.array in found and found[read.array][0][1].axes != place.axes:
            others[f"{read.array} is read at places that move in different ways"] = None
        else:
            found.setdefault(read.array, []).append((read, place))
    return {array: _window(array, reads) for array, reads in found.items()}, tuple(others)


def _window(array: str, found: list[tuple[Read, _Place]]) -> Window:
    points = tuple(sorted({point for _, place in found for point in place.points}))
    axes = tuple(
        Axis(index, scale, min(point[d] for point in points), max(point[d] for point in points))
        for d, (index, scale) in enumerate(found[0][1].axes)
    )
    reads = tuple(dict.fromkeys(read for read, _ in found))
    boundary = next((read.boundary for read in reads if read.boundary is not None), None)
    return Window(array, axes, points, reads, boundary)


def _place(request: Request, statement: Statement, read: Read, along: str, walked: frozenset[str]) -> _Place | str:
    """Where a read lies, or why it is in no window along the index."""
    context = request.context
    array = context.arrays[read.array]
    own = walked | {index.name for index in statement.indices}
    extents = _window_extents(statement, context)
    if read.exact or array.space not in _IN_MEMORY:
        return f"{read.array} is read where a division leaves nothing, or is no array in global memory"
    axes: list[tuple[str | None, int]] = []
    terms: list[tuple[Mapping[str, int], int]] = []
    for sub, stride in zip(read.subscripts, array.strides, strict=True):
        linear = _linear(sub, context)
        if linear is None:
            return f"a subscript of {read.array} is more than indices times numbers and their sum"
        coefficients, constant = linear
        moved = [name for name in coefficients if name in own]
        window = {name: c for name, c in coefficients.items() if name not in own}
        if len(moved) > 1:
            return f"{' and '.join(moved)} move the same dimension of {read.array}"
        if any(extents.get(name) is None for name in window):
            return f"windows in {read.array} have no fixed size"
        index = moved[0] if moved else None
        scale = coefficients[index] if index is not None else 0
        if scale < 0 or (index == along and stride != 1):
            return f"what is read of {read.array} moves with {along}, but not along its rows"
        axes.append((index, scale))
        terms.append((window, constant))
    indices = [index for index, _ in axes if index is not None]
    names = sorted({name for window, _ in terms for name in window})
    sizes = [extents[name] or 0 for name in names]
    if len(set(indices)) < len(indices):
        return f"{read.array} is read along a diagonal"
    if not 0 < math.prod(sizes) <= MOST_POINTS:
        return f"a window in {read.array} has {math.prod(sizes)} points, {MOST_POINTS} are looked at"
    points = []
    for values in itertools.product(*map(range, sizes)):
        at = dict(zip(names, values, strict=True))
        points.append(tuple(sum(c * at[n] for n, c in window.items()) + constant for window, constant in terms))
    return _Place(tuple(axes), tuple(points))


def _window_extents(statement: Statement, context: Context) -> dict[str, int | None]:
    """How far the indices of the statement's reductions run, where that is known."""
    found: dict[str, int | None] = {}
    for node in walk(statement.value):
        if isinstance(node, Reduce):
            for index in node.indices:
                found[index.name] = context.static(to_integer(index.extent, context.symbols))
    return found


def _linear(sub: Expr, context: Context) -> tuple[dict[str, int], int] | None:
    """The coefficients of a subscript's indices, and its constant; None where it has others than integers."""
    names = sorted(spec.free_indices(sub))
    symbols: dict[str, Integer] = {name: sympy.Symbol(f"index {name}", integer=True) for name in names}
    fixed = {name: sympy.Integer(low) for name, (low, high) in context.ranges.items() if low == high}
    try:
        rest = to_integer(sub, {**context.symbols, **symbols}).xreplace(fixed).expand()
    except NotAnInteger:
        return None
    coefficients: dict[str, int] = {}
    for name, symbol in symbols.items():
        coefficient = rest.coeff(symbol)
        if not coefficient.is_Integer:
            return None
        rest = (rest - coefficient * symbol).expand()
        if coefficient != 0:
            coefficients[name] = int(coefficient)
    return (coefficients, int(rest)) if rest.is_Integer else None


def explicit(statement: Statement) -> Statement:
    """`y = y + value` for `y += value`: the old element is read like any other."""
    if not statement.accumulate:
        return statement
    old = Read(statement.target, statement.subscripts, statement.value.dtype)
    return replace(statement, value=Op("add", (old, statement.value), statement.value.dtype), accumulate=False)
