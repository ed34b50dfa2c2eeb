"""Windows in registers: which cells of the box round a thread's outputs are read, and the loads that fill it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import cast

import sympy

from cugen.families.stencil.footprint import Window
from cugen.families.stencil.window_rows import Columns, Tree, is_narrow, tree_of
from cugen.pieces.blocks import define
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.names import Names
from cugen.plan.nodes import Comparison, Declare, Define, For, Guard, If, Index, Load, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, Range, integer
from cugen.plan.usage import free_symbols
from cugen.plan.walking import walk_nodes
from cugen.spec.expressions import Boundary, Expr, Local, Read

_Fill = Callable[[tuple[Integer, ...], Columns, Scope], None]
_NAMES = ("row", "plane", "slab", "layer")  # of loops over a window's dimensions, the fastest first


@dataclass(frozen=True, slots=True)
class Held:
    """The box of cells that the windows of a thread's outputs fill, as an array in registers: it begins `first` cells
    beyond the scaled index of each dimension, and has those of more than one cell. Rows come in accesses of `chunk`."""

    window: Window
    source: Array
    array: Array
    first: tuple[int, ...]
    counts: tuple[int, ...]
    along: int  # the dimension of the rows
    chunk: int

    @property
    def is_zeroed(self) -> bool:
        """Whether cells that nothing fills are to be zero."""
        return (
            self.source.space != "shared"
            and self.chunk > 1
            and (self.window.boundary is None or self.window.boundary.mode == "zero")
        )

    def cell(self, places: tuple[Integer, ...]) -> tuple[Integer, ...]:
        """The subscripts in registers of a place in the box."""
        return tuple(place for place, count in zip(places, self.counts, strict=True) if count > 1)


def hold(window: Window, source: Array, along: str, outputs: Mapping[str, int], chunk: int, symbol: str) -> Held:
    first: list[int] = []
    counts: list[int] = []
    for axis in window.axes:
        size = chunk if axis.index == along else 1
        low = axis.low // size * size
        end = axis.scale * (outputs.get(axis.index or "", 1) - 1) + axis.high + 1
        first.append(low)
        counts.append(-(-(end - low) // size) * size)
    shape = tuple(integer(count) for count in counts if count > 1)
    strides = tuple(integer(1) for _ in shape)
    for position in range(len(shape) - 2, -1, -1):
        strides = (*strides[:position], strides[position + 1] * shape[position + 1], *strides[position + 1 :])
    array = Array(window.array, symbol, source.dtype.compute, shape, strides, "register", flat=False)
    return Held(window, source, array, tuple(first), tuple(counts), window.axis_along(along), chunk)


def restricted(held: Held, dimensions: tuple[int, ...], source: Array) -> Held:
    """The same cells over some of the dimensions, from a source that has only these; none of them is outside."""
    window = held.window
    return replace(
        held,
        window=replace(
            window,
            axes=tuple(window.axes[d] for d in dimensions),
            points=tuple(sorted({tuple(point[d] for d in dimensions) for point in window.points})),
            boundary=None,
        ),
        source=source,
        first=tuple(held.first[d] for d in dimensions),
        counts=tuple(held.counts[d] for d in dimensions),
        along=dimensions.index(held.along),
    )


def needed(held: Held, outputs: Mapping[str, int]) -> dict[tuple[int, ...], Columns]:
    """The cells that are read: for every row of the box the first and the last of its columns."""
    axes = held.window.axes
    offsets = list(itertools.product(*(range(outputs.get(axis.index or "", 1)) for axis in axes)))
    rows: dict[tuple[int, ...], Columns] = {}
    for offset, point in itertools.product(offsets, held.window.points):
        cell = [axis.scale * o + p - first for axis, o, p, first in zip(axes, offset, point, held.first, strict=True)]
        column = cell.pop(held.along)
        low, high = rows.get(tuple(cell), (column, column))
        rows[tuple(cell)] = min(low, column), max(high, column)
    return rows


def load_window(
    lowering: Lowering, held: Held, origins: Mapping[str, Integer], outputs: Mapping[str, int]
) -> tuple[Node, ...]:
    """The array of a window, and the nodes that fill it: wide loads where all columns lie inside, else each cell by
    itself. `origins` says where the thread's outputs begin along each index."""
    filled = _filled(lowering, held, origins, outputs)
    widen_ranges(filled, lowering.ranges)
    return (Declare(held.array, zeroed=held.is_zeroed), *filled)


def counter_name(given: dict[tuple[str, Range], str], names: Names, wish: str) -> str:
    """The name of a loop's variable, which loops side by side share."""
    key = (f"{wish} of windows", (0, 0))
    if key not in given:
        given[key] = names.allocate(wish)
    return given[key]


def join_ranges(ranges: dict[sympy.Symbol, Range], others: Mapping[sympy.Symbol, Range]) -> None:
    """Each name has the values that it has on both sides."""
    for name, (low, high) in others.items():
        old = ranges.get(name, (low, high))
        ranges[name] = min(old[0], low), max(old[1], high)


def widen_ranges(nodes: tuple[Node, ...], ranges: dict[sympy.Symbol, Range]) -> None:
    """Blocks side by side give the same names to indices of other values: each name has the values of all."""
    for node in walk_nodes(nodes):
        if isinstance(node, Define | For):
            index = node.index if isinstance(node, Define) else node.loop.index
            join_ranges(ranges, {index.symbol: index.range})


def _own_columns(held: Held, outputs: Mapping[str, int]) -> Columns:
    """The box's columns that neighbours of the thread's outputs have no part in: from the first to beyond the last."""
    axis = held.window.axes[held.along]
    first = -held.first[held.along]
    return first, first + axis.scale * outputs.get(axis.index or "", 1)


def _may_leave(lowering: Lowering, held: Held, start: Integer, own: Columns) -> bool:
    if own[0] % held.chunk or own[1] % held.chunk:
        return True
    terms = (
        Comparison(start + own[0], ">=", integer(0)),
        Comparison(start + own[1], "<=", held.source.shape[held.along]),
    )
    return bool(lowering.needed(Guard(terms)).terms)


def _filled(
    lowering: Lowering, held: Held, origins: Mapping[str, Integer], outputs: Mapping[str, int]
) -> tuple[Node, ...]:
    tree = tree_of(needed(held, outputs))
    axis = held.window.axes[held.along]
    start = axis.scale * origins[axis.index or ""] + held.first[held.along]
    count, extent = held.counts[held.along], held.source.shape[held.along]

    def inside_of(start: Integer) -> Guard:
        terms = (Comparison(start, ">=", integer(0)), Comparison(start + count, "<=", extent))
        return lowering.needed(Guard(terms))

    nodes: list[Node] = []
    inside = inside_of(start)
    own = _own_columns(held, outputs)
    if inside.terms and is_narrow(needed(held, outputs), own) and not _may_leave(lowering, held, start, own):
        return _Filling(lowering, held, origins, start, is_block=False).arms(tree, own)
    if not start.is_Symbol and (inside.terms or count > held.chunk):
        left = define(f"{axis.index}_left", start, lowering)
        nodes.append(left)
        start, inside = left.index.symbol, inside_of(left.index.symbol)
    is_choice = bool(inside.terms)
    filled = _Filling(lowering, held, origins, start, is_choice).chunks(tree)
    if is_choice:
        cells = _Filling(lowering, held, origins, start, is_choice).cells(tree)
        filled = (If(inside, filled, cells),)
    used = free_symbols(filled)
    return (*(node for node in nodes if not isinstance(node, Define) or node.index.symbol in used), *filled)


@dataclass
class _BlockLowering(Lowering):
    """Names end with the block in which they are defined: `names_of` holds those of each."""

    names_of: dict[Scope, Names] = field(default_factory=dict)

    def define(self, wish: str, definition: Integer, scope: Scope) -> Integer:
        index = super().define(wish, definition, scope)
        if self.names_of[scope] is not self.names:
            self.names_of[scope].allocate(str(index))
        return index


class _Filling:
    """One way through all rows of a box, with names of its own."""

    def __init__(
        self, lowering: Lowering, held: Held, origins: Mapping[str, Integer], start: Integer, is_block: bool
    ) -> None:
        own = Names(lowering.names) if is_block else lowering.names
        self.lowering = _BlockLowering(own, lowering.arrays, dict(lowering.symbols), lowering.ranges, lowering.limits)
        self.scope = Scope()
        self.lowering.names_of[self.scope] = own
        self.held, self.origins, self.start = held, origins, start
        self.loops: dict[str, Index] = {}
        self.given = {} if is_block else lowering.loops

    def chunks(self, tree: Tree | Columns) -> tuple[Node, ...]:
        """All columns are inside, and rows come in wide accesses."""
        self._rows(tree, (), self.scope, self._chunks_of_row)
        return tuple(self.scope.nodes)

    def cells(self, tree: Tree | Columns) -> tuple[Node, ...]:
        """Each cell by itself, with what lies outside."""
        self._rows(tree, (), self.scope, self._cells_of_row)
        return tuple(self.scope.nodes)

    def arms(self, tree: Tree | Columns, own: Columns) -> tuple[Node, ...]:
        """The thread's own columns in wide accesses, and the few cells beside them one by one."""

        def fill(row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
            low, high = columns
            if low < own[1] and high >= own[0]:
                self._chunks_of_row(row, (max(low, own[0]), min(high, own[1] - 1)), scope)
            if low < own[0]:
                self._cells_of_row(row, (low, min(high, own[0] - 1)), scope)
            if high >= own[1]:
                self._cells_of_row(row, (max(low, own[1]), high), scope)

        self._rows(tree, (), self.scope, fill)
        return tuple(self.scope.nodes)

    def _rows(self, tree: Tree | Columns, row: tuple[Integer, ...], scope: Scope, fill: _Fill) -> None:
        depth = len(self.held.counts) - 1 - len(row)
        if depth == 0:
            fill(row, cast(Columns, tree), scope)
            return
        for first, end, below in cast(Tree, tree):
            if end - first == 1:
                self._rows(below, (*row, integer(first)), scope, fill)
                continue
            index = self._loop(_NAMES[min(depth, len(_NAMES)) - 1], first, end)
            with self._block(scope, index) as inner:
                self._rows(below, (*row, index.symbol), inner, fill)
            scope.nodes.append(For(Loop(index, integer(first), integer(end), unroll=True), tuple(inner.nodes)))

    def _chunks_of_row(self, row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
        held, size = self.held, self.held.chunk
        low, high = columns[0] // size * size, -(-(columns[1] + 1) // size) * size
        # Column 0 of an array of one column stands for all of these columns, which are inside.
        row_places = self._places(row, integer(0))
        narrow = replace(held.source, shape=_with(held.source.shape, held.along, integer(1)))
        subscripts, guard, otherwise = within(self.lowering, self._read(), row_places, narrow, scope)
        column = self._loop("column", low, high) if high - low > size else None
        place = integer(low) if column is None else column.symbol
        first = self._begin() + place if column is None else self.start + place
        source = Access(held.source, _with(subscripts, held.along, first), "load", size)
        body: tuple[Node, ...]
        if size == 1:
            body = (self._put(row, place, Element.of(source)),)
        else:
            v = self._loop("v", 0, size)
            with nullcontext() if column is None and guard is None else self._block(scope):
                vector = self._vector()
            put = self._put(row, place + v.symbol, vector.component(v.symbol))
            each = For(Loop(v, integer(0), integer(size), unroll=True), (put,))
            body = (Load(vector, source), each)
        if column is not None:
            body = (For(Loop(column, integer(low), integer(high), size, unroll=True), body),)
        if guard is None or otherwise is None:
            scope.nodes.extend(body)
            return
        if held.is_zeroed:
            scope.nodes.append(If(guard, body))
            return
        cell = self._loop("column", columns[0], columns[1] + 1)
        outside = self._put(row, cell.symbol, otherwise)
        fill = For(Loop(cell, integer(columns[0]), integer(columns[1] + 1), unroll=True), (outside,))
        scope.nodes.append(If(guard, body, (fill,)))

    def _cells_of_row(self, row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
        low, high = columns
        column = self._loop("column", low, high + 1) if low < high else None
        place = integer(low) if column is None else column.symbol
        held, read = self.held, self._read()
        places = self._places(row, self.start + place)
        with nullcontext(scope) if column is None else self._block(scope, column) as inner:
            subscripts, guard, otherwise = within(self.lowering, read, places, held.source, inner)
            access = Access(held.source, subscripts, "load")
            value: Expr = Element.of(access)
            if guard is not None:
                local = Local(self.lowering.names.allocate(f"{held.window.array.lower()}_value"), read.dtype)
                inner.nodes.append(Load(local, access, guard, otherwise))
                value = local
        inner.nodes.append(self._put(row, place, value))
        if column is not None:
            loop = Loop(column, integer(low), integer(high + 1), unroll=True)
            scope.nodes.append(For(loop, tuple(inner.nodes)))

    @contextmanager
    def _block(self, scope: Scope, loop: Index | None = None) -> Iterator[Scope]:
        """The scope of a block inside `scope`, whose names end with it."""
        outer = self.lowering.names
        inner = Scope(scope, frozenset() if loop is None else frozenset((loop.name,)))
        self.lowering.names = self.lowering.names_of[inner] = Names(outer)
        yield inner
        self.lowering.names = outer

    def _vector(self) -> Vector:
        """`u4` for four elements of u."""
        source, size = self.held.source, self.held.chunk
        name = self.held.window.array.lower()
        wish = f"{name}_{size}" if name[-1].isdigit() else f"{name}{size}"
        return Vector(self.lowering.names.allocate(wish), source.dtype.compute, source.dtype, size)

    def _loop(self, wish: str, first: int, end: int) -> Index:
        """The variable of a loop; loops of one name share it."""
        known = self.loops.get(wish)
        name = known.name if known else counter_name(self.given, self.lowering.names, wish)
        low, high = known.range if known else (first, end - 1)
        index = Index(name, integer(first), (min(low, first), max(high, end - 1)))
        self.loops[wish] = index
        old = self.lowering.ranges.get(index.symbol, index.range)
        self.lowering.ranges[index.symbol] = min(old[0], index.range[0]), max(old[1], index.range[1])
        self.lowering.symbols[name] = index.symbol
        return index

    def _places(self, row: tuple[Integer, ...], column: Integer) -> tuple[Integer, ...]:
        """The subscripts in the array of a row of the box, before its boundary folds them."""
        places: list[Integer] = []
        rest = iter(row)
        for dimension, (axis, first) in enumerate(zip(self.held.window.axes, self.held.first, strict=True)):
            if dimension == self.held.along:
                places.append(column)
                continue
            base = axis.scale * self.origins[axis.index] if axis.index is not None else integer(0)
            places.append(base + first + next(rest))
        return tuple(places)

    def _begin(self) -> Integer:
        """Where the box begins along its rows, without a name for it."""
        axis = self.held.window.axes[self.held.along]
        return axis.scale * self.origins[axis.index or ""] + self.held.first[self.held.along]

    def _read(self) -> Read:
        """Any cell of the window: what is outside yields zero where no boundary says otherwise, and is never used."""
        window = self.held.window
        return replace(window.reads[0], boundary=window.boundary or Boundary("zero"))

    def _put(self, row: tuple[Integer, ...], column: Integer, value: Expr) -> Node:
        cell = self.held.cell(_insert(row, self.held.along, column))
        return Store(Access(self.held.array, cell, "store"), value)


def _with(items: tuple[Integer, ...], position: int, item: Integer) -> tuple[Integer, ...]:
    return (*items[:position], item, *items[position + 1 :])


def _insert(items: tuple[Integer, ...], position: int, item: Integer) -> tuple[Integer, ...]:
    return (*items[:position], item, *items[position:])
