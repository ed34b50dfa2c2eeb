"""Register windows: the elements that a thread's outputs read, in registers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.stencil.footprint import Footprint
from cugen.families.stencil.window_rows import Columns
from cugen.pieces.kernels import dense_array
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array, row_major
from cugen.plan.nodes import Comparison, Guard
from cugen.plan.symbols import Integer, integer

MAX_SCALAR_HALO = 2  # halo elements of a row with scalar loads in place of a vector access (heuristic)


@dataclass(frozen=True, slots=True)
class RegisterWindow:
    """The bounding box of the footprints of a thread's outputs, as an array in registers.

    `origin` is its first element relative to the scaled index, per dimension of `source`; `array` has the dimensions of
    more than one element (`counts`), and of a row the columns from `first_column` on. Rows are loaded by accesses of
    `access_width` elements, each of which is in bounds or out of bounds as a whole with `whole_accesses`."""

    footprint: Footprint
    outputs: Mapping[str, int]  # of a thread, by index; 1 where absent
    source: Array
    array: Array
    origin: tuple[int, ...]
    counts: tuple[int, ...]
    along: int  # the dimension of the rows
    access_width: int
    first_column: int = 0
    whole_accesses: bool = False

    @property
    def column_step(self) -> int:
        """Distance of the columns that one row reads, where scalar loads take no others."""
        axis = self.footprint.axes[self.along]
        between_outputs = axis.scale if axis.periods(self.outputs) > 1 else 0
        step = math.gcd(between_outputs, *(point[self.along] - axis.low for point in self.footprint.points))
        return max(step, 1) if self.access_width == 1 else 1

    def subscripts(self, coordinates: tuple[Integer, ...]) -> tuple[Integer, ...]:
        """The subscripts in `array` of coordinates in the bounding box."""
        loaded = replace_item(coordinates, self.along, coordinates[self.along] - self.first_column)
        return tuple(coordinate for coordinate, count in zip(loaded, self.counts, strict=True) if count > 1)


def make_window(
    footprint: Footprint, source: Array, along: str, outputs: Mapping[str, int], access_width: int, symbol: str
) -> RegisterWindow:
    """The register window of `outputs` per thread, its rows aligned to `access_width` elements."""
    origin: list[int] = []
    counts: list[int] = []
    for axis in footprint.axes:
        size = access_width if axis.index == along else 1
        low = axis.low // size * size
        end = axis.scale * (axis.periods(outputs) - 1) + axis.high + 1
        origin.append(low)
        counts.append(-(-(end - low) // size) * size)
    registers = dense_array(symbol, source.dtype.compute, [count for count in counts if count > 1], "register")
    array = replace(registers, name=footprint.array)
    return RegisterWindow(
        footprint, outputs, source, array, tuple(origin), tuple(counts), footprint.axis_along(along), access_width
    )


def without_unread_columns(
    lowering: Lowering, window: RegisterWindow, origins: Mapping[str, Integer]
) -> RegisterWindow:
    """The window without the halo columns that nothing reads, where these are loaded by scalar accesses. The others
    are loaded in vectors, also those that nothing reads."""
    is_one_column = window.counts[window.along] == 1
    if is_one_column or not has_scalar_halo(lowering, window, origins):
        return window
    columns, (center_first, center_end) = read_columns(window).values(), center_columns(window)
    first = min(center_first, *(low for low, _ in columns))
    end = max(center_end, *(high + 1 for _, high in columns))
    along = len([count for count in window.counts[: window.along] if count > 1])
    shape = replace_item(window.array.shape, along, integer(end - first))
    array = replace(window.array, shape=shape, strides=row_major(shape))
    return replace(window, array=array, first_column=first)


def project(window: RegisterWindow, dimensions: tuple[int, ...], source: Array) -> RegisterWindow:
    """The window over some of its dimensions, loaded from a source that has only these; no element is out of bounds."""
    axes = tuple(window.footprint.axes[d] for d in dimensions)
    points = tuple(sorted({tuple(point[d] for d in dimensions) for point in window.footprint.points}))
    footprint = replace(window.footprint, axes=axes, points=points, boundary=None)
    origin, counts = (tuple(values[d] for d in dimensions) for values in (window.origin, window.counts))
    along = dimensions.index(window.along)
    return replace(window, footprint=footprint, source=source, origin=origin, counts=counts, along=along)


def read_columns(window: RegisterWindow) -> dict[tuple[int, ...], Columns]:
    """The first and the last column that are read, by row of the window."""
    axes = window.footprint.axes
    offsets = list(itertools.product(*(range(axis.periods(window.outputs)) for axis in axes)))
    rows: dict[tuple[int, ...], Columns] = {}
    for offset, point in itertools.product(offsets, window.footprint.points):
        row = [axis.scale * o + p - first for axis, o, p, first in zip(axes, offset, point, window.origin, strict=True)]
        column = row.pop(window.along)
        low, high = rows.get(tuple(row), (column, column))
        rows[tuple(row)] = min(low, column), max(high, column)
    return rows


def source_column(window: RegisterWindow, origins: Mapping[str, Integer]) -> Integer:
    """The source index of the window's first column."""
    axis = window.footprint.axes[window.along]
    return axis.start(origins[axis.index or ""]) + window.origin[window.along]


def columns_inside(lowering: Lowering, window: RegisterWindow, start: Integer, columns: Columns | None = None) -> Guard:
    """The condition on its first column under which a row has all columns, or those from begin to end."""
    first, end = columns or (0, window.counts[window.along])
    extent = window.source.shape[window.along]
    return lowering.needed(Guard((Comparison(start + first, ">=", integer(0)), Comparison(start + end, "<=", extent))))


def has_scalar_halo(lowering: Lowering, window: RegisterWindow, origins: Mapping[str, Integer]) -> bool:
    """Whether the few halo columns of a row have scalar loads, and the center columns vector loads in bounds."""
    start, (first, end) = source_column(window, origins), center_columns(window)
    halo = max(max(first - low, 0) + max(high + 1 - end, 0) for low, high in read_columns(window).values())
    size = window.access_width
    if window.column_step > 1 or halo > MAX_SCALAR_HALO or first < 0 or first % size or end % size:
        return False
    may_exceed = columns_inside(lowering, window, start).terms
    return bool(may_exceed) and not columns_inside(lowering, window, start, (first, end)).terms


def center_columns(window: RegisterWindow) -> Columns:
    """The columns of the thread's outputs without the halo, as begin and end."""
    axis = window.footprint.axes[window.along]
    first = -window.origin[window.along]
    return first, first + axis.scale * axis.periods(window.outputs)


def replace_item(values: tuple[Integer, ...], position: int, value: Integer) -> tuple[Integer, ...]:
    return (*values[:position], value, *values[position + 1 :])
