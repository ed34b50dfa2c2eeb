"""Footprints: the elements read per element of the output, as ranges of offsets in every dimension."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType

import sympy

from cugen.families.stencil.phases import at_phase, phase
from cugen.pieces.elementwise import IN_MEMORY
from cugen.plan.context import Context
from cugen.plan.request import Request
from cugen.plan.subscripts import NotAnInteger, to_guard, to_integer
from cugen.plan.symbols import FloorDiv, Integer, integer
from cugen.spec.expressions import Boundary, Expr, Index, IndexValue, Op, Read, Reduce, conjuncts, free_indices, walk
from cugen.spec.model import Statement

MAX_FOOTPRINT_POINTS = 1024  # larger footprints aren't enumerated
MAX_COLUMNS_PER_POINT = 8  # of a footprint's row; sparser rows would waste registers (heuristic)
MAX_UNROLLED_TAPS = 225  # of a footprint; compilers keep an array that is indexed at run time in local memory
MAX_UNROLLED_POINTS = 64  # of a reduction; longer ones get a loop over their channels (heuristic)
_COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a footprint: offsets `low` to `high` from `scale` times the periods of `index`, an index of the
    output or a channel; None where the offsets are absolute. Without phases, the period is 1."""

    index: str | None
    scale: int
    low: int
    high: int
    period: int = 1

    @property
    def is_elementwise(self) -> bool:
        """Whether the outputs of a period read as many elements."""
        return self.period > 1 and self.scale == self.period == self.high - self.low + 1

    def periods(self, outputs: Mapping[str, int]) -> int:
        """The periods of a thread's outputs."""
        return outputs.get(self.index or "", 1) // self.period

    def start(self, first: Integer) -> Integer:
        """The element to which the offsets are relative, for the thread's first output, which begins a period."""
        return self.scale * FloorDiv(first, integer(self.period))


@dataclass(frozen=True, slots=True)
class Footprint:
    """The reads of one array per element of the output: their offsets `points`, and the boundary mode outside.

    Where indices have periods, the points are those of all outputs in a period, which read `loads` elements."""

    array: str
    axes: tuple[Axis, ...]
    points: tuple[tuple[int, ...], ...]
    reads: tuple[Read, ...]
    boundary: Boundary | None
    loads: int

    def axis_along(self, index: str) -> int:
        """The dimension of the array that an index of the output moves."""
        return next(d for d, axis in enumerate(self.axes) if axis.index == index)

    def distance_along(self, index: str, outputs: int) -> int:
        """Elements from a thread's first one to the next thread's along an index."""
        axis = self.axes[self.axis_along(index)]
        return axis.scale * outputs // axis.period

    def is_scattered(self, along: str) -> bool:
        """Whether most elements between the points of a row are never read."""
        dimension = self.axis_along(along)
        rows: dict[tuple[int, ...], list[int]] = {}
        for point in self.points:
            rows.setdefault((*point[:dimension], *point[dimension + 1 :]), []).append(point[dimension])
        return any(max(row) - min(row) > MAX_COLUMNS_PER_POINT * len(row) for row in rows.values())

    def has_far_rows(self, along: str) -> bool:
        """Whether most rows between those of the points are never read, as of two halves of an array."""
        dimension = self.axis_along(along)
        across = [{point[d] for point in self.points} for d in range(len(self.axes)) if d != dimension]
        return any(max(offsets) - min(offsets) > MAX_COLUMNS_PER_POINT * len(offsets) for offsets in across)

    @property
    def read(self) -> Read:
        """One of the reads; elements out of bounds are zero where it has no boundary mode, and then unused."""
        return replace(self.reads[0], boundary=self.boundary or Boundary("zero"))

    @property
    def overlaps(self) -> bool:
        """Whether footprints extend along an index of the output, or outputs in a period share elements. Not where one
        read takes a row in consecutive runs, as `sum(x[g * S + s], s)` does: that is a reduction, spelt without a
        dimension of its own. A period whose outputs read an element each, in order, extends nowhere."""
        if self.loads > len(self.points):
            return True
        extended = [axis for axis in self.axes if axis.low < axis.high and not axis.is_elementwise]
        runs = [a for a in extended if a.high - a.low + 1 == a.scale == len(self.points) and a.period == 1]
        return any(axis.index is not None for axis in extended) and not (runs == extended and len(self.reads) == 1)


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The offsets of a read: the output index, scale and period of each dimension, and the points."""

    axes: tuple[tuple[str | None, int, int], ...]
    points: tuple[tuple[int, ...], ...]
    loads: int


def memory_reads(request: Request) -> Iterator[tuple[Statement, Read]]:
    """The reads from memory with their statements, without those of elements that an earlier statement has computed."""
    written: dict[tuple[str, tuple[Expr, ...]], None] = {}
    for statement in map(explicit, request.group.statements):
        for node in walk(statement.value):
            if isinstance(node, Read) and (node.array, node.subscripts) not in written:
                yield statement, node
        written[statement.target, statement.subscripts] = None


@dataclass(frozen=True, slots=True)
class ChannelReduction:
    """A reduction with a loop over `channels`, its plain indices; register windows hold the `taps` of one channel."""

    reduction: Reduce
    channels: tuple[Index, ...]
    taps: tuple[Index, ...]


def find_channel_reductions(
    request: Request,
    along: str,
    periods: Mapping[str, int] = MappingProxyType({}),
    longer_than: int = MAX_UNROLLED_POINTS,
) -> tuple[ChannelReduction, ...]:
    """The long reductions over channels: indices that are plain subscripts of all reads that move along `along`.

    One that depends on the index of an enclosing reduction is computed there."""
    reductions: dict[Reduce, ChannelReduction] = {}
    for statement, read in memory_reads(request):
        output_names = {index.name for index in statement.indices} | {phase(name) for name in periods}
        for node in walk(statement.value):
            if not isinstance(node, Reduce) or free_indices(node) - output_names:
                continue
            if read in walk(node.body) and along in free_indices(read):
                moving = [r for r in walk(node.body) if isinstance(r, Read) and along in free_indices(r)]
                channels = tuple(index for index in node.indices if _is_plain(index.name, moving))
                extents = list(map(request.context.static_extent, node.indices))
                known = [extent for extent in extents if extent is not None]
                points = math.prod(known) * math.prod(periods.values())
                if channels and (len(known) < len(extents) or points > longer_than):
                    taps = tuple(index for index in node.indices if index not in channels)
                    reductions[node] = ChannelReduction(node, channels, taps)
    return tuple(reductions.values())


def _is_plain(name: str, reads: list[Read]) -> bool:
    subscripts = [sub for read in reads for sub in read.subscripts if name in free_indices(sub)]
    return bool(subscripts) and all(sub == IndexValue(name) for sub in subscripts)


@dataclass(frozen=True, slots=True)
class Footprints:
    """The footprints of reads that move along an index, by array; `reasons` why others have none."""

    by_array: Mapping[str, Footprint]
    reasons: tuple[str, ...]
    channel_reductions: tuple[ChannelReduction, ...]


def find_footprints(request: Request, along: str, periods: Mapping[str, int] = MappingProxyType({})) -> Footprints:
    """The footprints of the reads that move along the index `along`, and in the periods of the output's indices."""
    channel_reductions = find_channel_reductions(request, along, periods)
    channels = frozenset(index.name for reduction in channel_reductions for index in reduction.channels)
    reads: dict[str, list[tuple[Read, _Offsets]]] = {}
    reasons: dict[str, None] = {}
    for statement, read in memory_reads(request):
        if along not in free_indices(read):
            continue
        offsets = _offsets(request, statement, read, along, channels, periods)
        if isinstance(offsets, str):
            reasons[offsets] = None
        elif all(index != along for index, _, _ in offsets.axes):
            reasons[f"{read.array} is read at subscripts that don't move with {along}"] = None
        elif read.array in reads and reads[read.array][0][1].axes != offsets.axes:
            reasons[f"{read.array} is read with different scales or indices"] = None
        else:
            reads.setdefault(read.array, []).append((read, offsets))
    by_array = {array: _footprint(array, of_array) for array, of_array in reads.items()}
    return Footprints(by_array, tuple(reasons), channel_reductions)


def _footprint(array: str, offsets: list[tuple[Read, _Offsets]]) -> Footprint:
    points = tuple(sorted({point for _, read in offsets for point in read.points}))
    axes = tuple(
        Axis(index, scale, min(point[d] for point in points), max(point[d] for point in points), period)
        for d, (index, scale, period) in enumerate(offsets[0][1].axes)
    )
    reads = tuple(dict.fromkeys(read for read, _ in offsets))
    boundary = next((read.boundary for read in reads if read.boundary is not None), None)
    is_phased = any(axis.period > 1 for axis in axes)
    loads = sum(read.loads for _, read in offsets) if is_phased else len(points)
    return Footprint(array, axes, points, reads, boundary, loads)


def _offsets(
    request: Request, statement: Statement, read: Read, along: str, channels: frozenset[str], periods: Mapping[str, int]
) -> _Offsets | str:
    """The offsets of a read in all phases, or why it has no footprint along the index."""
    phased = [name for name in periods if {name, phase(name)} & free_indices(read)]
    axes: tuple[tuple[str | None, int, int], ...] | None = None
    points: list[tuple[int, ...]] = []
    for phases in itertools.product(*(range(periods[name]) for name in phased)):
        values = dict(zip(phased, phases, strict=True))
        offsets = _offsets_at(request, statement, read, along, channels, periods, values)
        if isinstance(offsets, str):
            return offsets
        if axes is not None and offsets.axes != axes:
            return f"{read.array} is read with different scales in different phases"
        axes = offsets.axes
        points += offsets.points
    if axes is None or not points:
        return f"no element of {read.array} is read"
    return _Offsets(axes, tuple(dict.fromkeys(points)), len(points))


def _offsets_at(
    request: Request,
    statement: Statement,
    read: Read,
    along: str,
    channels: frozenset[str],
    periods: Mapping[str, int],
    phases: Mapping[str, int],
) -> _Offsets | str:
    """The offsets of a read at some phases of the indices."""
    context = request.context
    array = context.arrays[read.array]
    moving = channels | {index.name for index in statement.indices}
    bound = (index for node in walk(statement.value) if isinstance(node, Reduce) for index in node.indices)
    extents = {index.name: context.static_extent(index) for index in bound}  # known at compile time, else None
    if read.exact or array.space not in IN_MEMORY:
        return f"{read.array} is read only where a division is exact, or is not in global memory"
    axes: list[tuple[str | None, int, int]] = []
    terms: list[tuple[Mapping[str, int], int]] = []
    for sub, stride in zip(read.subscripts, array.strides, strict=True):
        linear = _linear(at_phase(sub, periods, phases, context.spec), context)
        if linear is None:
            return f"a subscript of {read.array} is not affine in the indices"
        coefficients, constant = linear
        moved = [name for name in coefficients if name in moving]
        taps = {name: c for name, c in coefficients.items() if name not in moving}
        if len(moved) > 1:
            return f"{' and '.join(moved)} index the same dimension of {read.array}"
        if any(extents.get(name) is None for name in taps):
            return f"the footprint in {read.array} has no fixed size"
        index = moved[0] if moved else None
        scale = coefficients[index] if index is not None else 0
        if scale < 0 or (index == along and stride != 1):
            return f"{read.array} is not read contiguously along {along}"
        axes.append((index, scale, periods.get(index or "", 1)))
        terms.append((taps, constant))
    indices = [index for index, _, _ in axes if index is not None]
    names = sorted({name for taps, _ in terms for name in taps})
    sizes = [extents[name] or 0 for name in names]
    if len(set(indices)) < len(indices):
        return f"{read.array} is read along a diagonal"
    if not 0 < math.prod(sizes) <= MAX_FOOTPRINT_POINTS:
        return f"the footprint in {read.array} has {math.prod(sizes)} points, the limit is {MAX_FOOTPRINT_POINTS}"
    each_tap = (dict(zip(names, values, strict=True)) for values in itertools.product(*map(range, sizes)))
    if phases:
        conditions = [at_phase(condition, periods, phases, context.spec) for condition in _conditions(statement, read)]
        each_tap = (tap for tap in each_tap if all(_may_hold(condition, tap, context) for condition in conditions))
    points = [tuple(sum(c * tap[n] for n, c in taps.items()) + first for taps, first in terms) for tap in each_tap]
    return _Offsets(tuple(axes), tuple(points), len(points))


def _conditions(statement: Statement, read: Read) -> tuple[Expr, ...]:
    """The conditions under which a read is made, where it is in one reduction only."""
    reductions = [n for n in walk(statement.value) if isinstance(n, Reduce) and read in walk(n.body)]
    return conjuncts(reductions[0].where) if len(reductions) == 1 else ()


def _may_hold(condition: Expr, taps: Mapping[str, int], context: Context) -> bool:
    """Whether a condition may hold at a tap; only one that is over params and taps alone is known not to."""
    guard = to_guard(condition, {**context.symbols, **{name: integer(value) for name, value in taps.items()}})
    fixed = {name: sympy.Integer(low) for name, (low, high) in context.ranges.items() if low == high}
    for term in () if guard is None else guard.terms:
        difference = (term.left - term.right).xreplace(fixed)
        if difference.is_Integer and not _COMPARISONS[term.operator](int(difference), 0):
            return False
    return True


def _linear(sub: Expr, context: Context) -> tuple[dict[str, int], int] | None:
    """The integer coefficients of a subscript's indices and its constant; None where it is not affine."""
    names = sorted(free_indices(sub))
    symbols: dict[str, Integer] = {name: sympy.Symbol(f"index {name}", integer=True) for name in names}
    fixed = {name: sympy.Integer(low) for name, (low, high) in context.ranges.items() if low == high}
    try:
        remainder = to_integer(sub, {**context.symbols, **symbols}).xreplace(fixed).expand()
    except NotAnInteger:
        return None
    coefficients: dict[str, int] = {}
    for name, symbol in symbols.items():
        coefficient = remainder.coeff(symbol)
        if not coefficient.is_Integer:
            return None
        remainder = (remainder - coefficient * symbol).expand()
        if coefficient != 0:
            coefficients[name] = int(coefficient)
    return (coefficients, int(remainder)) if remainder.is_Integer else None


def explicit(statement: Statement) -> Statement:
    """`y = y + value` for `y += value`, so that the old element is read like any other."""
    if not statement.accumulate:
        return statement
    old = Read(statement.target, statement.subscripts, statement.value.dtype)
    return replace(statement, value=Op("add", (old, statement.value), statement.value.dtype), accumulate=False)
