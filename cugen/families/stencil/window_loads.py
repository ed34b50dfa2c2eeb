"""Loads of a register window: vectors where all its columns are in bounds, else scalars, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import cast

import sympy

from cugen.families.stencil.register_window import (
    RegisterWindow,
    center_columns,
    columns_inside,
    has_scalar_halo,
    read_columns,
    replace_item,
    source_column,
)
from cugen.families.stencil.window_rows import Columns, Tree, tree_of
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import unrolled
from cugen.pieces.sections import SectionGroup
from cugen.pieces.vector_body import vector_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import is_bounds_checked, within
from cugen.plan.memory import Access, Element, Vector
from cugen.plan.names import Names
from cugen.plan.nodes import (
    Assign,
    Declare,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, Range, integer
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Const, Expr, Local

_Fill = Callable[[tuple[Integer, ...], Columns, Scope], None]
LOOP_NAMES = ("row", "plane", "slab", "layer")  # loop variables over the dimensions of a window, the fastest first


def load_window(lowering: Lowering, window: RegisterWindow, origins: Mapping[str, Integer]) -> SectionGroup:
    """Declares and fills a window: vector loads where all its columns are in bounds, else scalar loads. `origins` are
    the indices of the thread's first output. The sections are those of templates/macros/register_windows.cu.j2."""
    ranges_before = dict(lowering.ranges)
    definitions, loads = _loads(lowering, window, origins)
    widen_ranges((*definitions, *loads), lowering.ranges)
    join_ranges(lowering.ranges, ranges_before)  # loops over other windows share the variables
    declared = Declare(window.array)
    return SectionGroup(window.array.symbol, (Section("registers", (declared, *definitions)), *loads))


def _loop_name(dimensions: int) -> str:
    """The loop variable over the slowest of so many dimensions: `layer_2` of a sixth one, after the columns."""
    further = dimensions - len(LOOP_NAMES)
    return f"{LOOP_NAMES[-1]}_{further + 1}" if further > 0 else LOOP_NAMES[dimensions - 1]


def counter_name(
    counters: dict[tuple[str, Range], str], names: Names, hint: str, indices: Mapping[str, Integer]
) -> str:
    """The name of a loop variable, shared by consecutive loops; none of an index, which may be defined later."""
    key = (f"{hint} of windows", (0, 0))
    if key not in counters:
        counters[key] = names.allocate(f"{hint}_" if hint in indices else hint)
    return counters[key]


def join_ranges(ranges: dict[sympy.Symbol, Range], added: Mapping[sympy.Symbol, Range]) -> None:
    """Extends each range to the union with the added one."""
    for name, (low, high) in added.items():
        old = ranges.get(name, (low, high))
        ranges[name] = min(old[0], low), max(old[1], high)


def widen_ranges(nodes: tuple[Node, ...], ranges: dict[sympy.Symbol, Range]) -> None:
    """Extends ranges over all definitions of a name: separate C++ blocks may define it with different values."""
    for node in walk_nodes(dissolved(nodes)):
        if isinstance(node, Define | For):
            index = node.index if isinstance(node, Define) else node.loop.index
            join_ranges(ranges, {index.symbol: index.range})


def _is_bounded_by_texture(lowering: Lowering, window: RegisterWindow, start: Integer) -> bool:
    """Whether the address mode of a 2-D texture applies the boundary to every column of a row."""
    texture, boundary = window.source.texture_2d, window.footprint.boundary
    if texture is None or boundary is None:
        return False
    ends = (start, start + window.counts[window.along] - 1)
    return all(texture.takes(boundary.mode, column, lowering.ranges) for column in ends)


def _has_zeroed_vectors(window: RegisterWindow) -> bool:
    """Whether a vector of a row is loaded or zero."""
    boundary = window.footprint.boundary
    return window.whole_accesses and window.access_width > 1 and boundary is not None and boundary.mode == "zero"


def _loads(
    lowering: Lowering, window: RegisterWindow, origins: Mapping[str, Integer]
) -> tuple[tuple[Define, ...], tuple[Section, ...]]:
    """The definition of the window's first column, where the loads use one, and the loads."""
    tree = tree_of(read_columns(window))
    start = source_column(window, origins)
    definitions: tuple[Define, ...] = ()
    if _is_bounded_by_texture(lowering, window, start):
        loader = _WindowLoader(lowering, window, origins, start, is_block=False)
        return (), loader.loads(tree, loader.scalar_row)
    if has_scalar_halo(lowering, window, origins):
        center = center_columns(window)
        return (), _WindowLoader(lowering, window, origins, start, is_block=False).center_and_halo(tree, center)
    inside = columns_inside(lowering, window, start)
    if not start.is_Symbol and (inside.terms or window.counts[window.along] > window.access_width):
        first = define(f"{window.footprint.axes[window.along].index}_left", start, lowering)
        definitions = (first,)
        start = first.index.symbol
        inside = columns_inside(lowering, window, start)
    if inside.terms and _has_zeroed_vectors(window):
        return definitions, _WindowLoader(lowering, window, origins, start, is_block=False).whole_vectors(tree)
    is_choice = bool(inside.terms)
    loader = _WindowLoader(lowering, window, origins, start, is_choice)
    loads = loader.loads(tree, loader.vector_row)
    if is_choice:
        loader = _WindowLoader(lowering, window, origins, start, is_choice)
        loads = (Section("if_in_bounds", (If(inside, loads, loader.loads(tree, loader.scalar_row)),)),)
    used = free_symbols(dissolved(loads))
    return tuple(node for node in definitions if node.index.symbol in used), loads


@dataclass
class _BlockLowering(Lowering):
    """Lowering with C++ blocks: names end with the block that defines them, `names_of` are those of each scope."""

    names_of: dict[Scope, Names] = field(default_factory=dict)

    def define(self, hint: str, definition: Integer, scope: Scope) -> Integer:
        home = self.names_of[scope]
        self.names.declare_in(home)
        index = super().define(hint, definition, scope)
        if home is not self.names:
            home.allocate(str(index))
        return index


class _WindowLoader:
    """Loads all rows of a window in one way: vector loads, scalar loads or both."""

    def __init__(
        self, lowering: Lowering, window: RegisterWindow, origins: Mapping[str, Integer], start: Integer, is_block: bool
    ) -> None:
        names = Names(lowering.names) if is_block else lowering.names
        symbols = dict(lowering.symbols)
        self.lowering = _BlockLowering(
            names, lowering.arrays, symbols, lowering.ranges, lowering.limits, filled=lowering.filled
        )
        self.scope = Scope()
        self.lowering.names_of[self.scope] = names
        self.window, self.origins, self.start = window, origins, start
        self.loops: dict[str, Index] = {}
        self.counters, self.counter_names = {} if is_block else lowering.loops, names

    def loads(self, tree: Tree | Columns, fill: _Fill) -> tuple[Section, ...]:
        """The loads of all rows, each by `fill`."""
        self._rows(tree, (), self.scope, fill)
        return _row_sections(self.scope.nodes)

    def center_and_halo(self, tree: Tree | Columns, center: Columns) -> tuple[Section, ...]:
        """Vector loads of the center columns, and scalar loads of the few halo columns."""

        def fill(row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
            low, high = columns
            if low < center[1] and high >= center[0]:
                self.vector_row(row, (max(low, center[0]), min(high, center[1] - 1)), scope)
            if low < center[0]:
                self.scalar_row(row, (low, min(high, center[0] - 1)), scope, "left")
            if high >= center[1]:
                self.scalar_row(row, (max(low, center[1]), high), scope, "right")

        return self.loads(tree, fill)

    def _rows(self, tree: Tree | Columns, row: tuple[Integer, ...], scope: Scope, fill: _Fill) -> None:
        dimensions = len(self.window.counts) - 1 - len(row)
        if dimensions == 0:
            fill(row, cast(Columns, tree), scope)
            return
        for first, end, below in cast(Tree, tree):
            if end - first == 1:
                self._rows(below, (*row, integer(first)), scope, fill)
                continue
            index = self._loop(_loop_name(dimensions), first, end)
            with self._block(scope, index) as inner:
                self._rows(below, (*row, index.symbol), inner, fill)
            body = _row_sections(inner.nodes)
            scope.nodes.append(For(Loop(index, integer(first), integer(end), unroll=True), body))

    def vector_row(self, row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
        """Vector loads of a row, whose columns are in bounds."""
        window, size = self.window, self.window.access_width
        low, high = columns[0] // size * size, -(-(columns[1] + 1) // size) * size
        # Only the row may be out of bounds: the check is that of column 0 in an array of one column.
        row_subscripts = self._subscripts(row, integer(0))
        narrow = replace(window.source, shape=replace_item(window.source.shape, window.along, integer(1)))
        subscripts, guard, otherwise = within(self.lowering, window.footprint.read, row_subscripts, narrow, scope)
        step = max(size, window.column_step)
        column = self._loop("column", low, high) if high - low > step else None
        offset = integer(low) if column is None else column.symbol
        first = source_column(self.window, self.origins) + offset if column is None else self.start + offset
        source = Access(
            window.source, replace_item(subscripts, window.along, first), "load", size, span=window.footprint.read.span
        )
        body: tuple[Node, ...]
        is_choice = guard is not None and (window.counts[window.along] == 1 or _is_converted(window))
        if size == 1 and is_choice:
            local = Local(
                self.lowering.names.allocate(f"{window.footprint.array.lower()}_value"), window.footprint.read.dtype
            )
            body = Load(local, source, guard, otherwise), self._store(row, offset, local)
            guard = None
        elif size == 1:
            body = (self._store(row, offset, Element.of(source)),)
        else:
            condition = None
            if isinstance(otherwise, Const) and otherwise.value == 0:
                condition, guard = guard, None
            v = self._loop("v", 0, size)
            with nullcontext() if column is None and guard is None else self._block(scope):
                vector = self._vector(row)
            store = self._store(row, offset + v.symbol, vector.component(v.symbol))
            body = (*_load(vector, source, condition), unrolled(v, (store,)))
        if column is not None:
            body = (For(Loop(column, integer(low), integer(high), step, unroll=True), body),)
        if guard is None or otherwise is None:
            scope.nodes.extend(body)
            return
        boundary = self._loop("column", columns[0], columns[1] + 1)
        outside = self._store(row, boundary.symbol, otherwise)
        loop = Loop(boundary, integer(columns[0]), integer(columns[1] + 1), window.column_step, unroll=True)
        fill = For(loop, (outside,))
        scope.nodes.append(If(guard, body, (fill,)))

    def whole_vectors(self, tree: Tree | Columns) -> tuple[Section, ...]:
        """Vector loads of all rows, each with its bounds check."""
        return self.loads(tree, self.checked_vector_row)

    def checked_vector_row(self, row: tuple[Integer, ...], columns: Columns, scope: Scope) -> None:
        """Vector loads of a row; a vector out of bounds is zero."""
        window, size = self.window, self.window.access_width
        low, high = columns[0] // size * size, -(-(columns[1] + 1) // size) * size
        step = max(size, window.column_step)
        column = self._loop("column", low, high) if high - low > step else None
        offset = integer(low) if column is None else column.symbol
        v = self._loop("v", 0, size)
        coordinates = self._subscripts(row, self.start + offset)
        with nullcontext(scope) if column is None else self._block(scope, column) as inner:
            subscripts, guard, _ = within(self.lowering, window.footprint.read, coordinates, window.source, inner)
            vector = self._vector(row)
        inner.nodes += _load(
            vector, Access(window.source, subscripts, "load", size, span=window.footprint.read.span), guard
        )
        inner.nodes.append(unrolled(v, (self._store(row, offset + v.symbol, vector.component(v.symbol)),)))
        if column is not None:
            loop = Loop(column, integer(low), integer(high), step, unroll=True)
            scope.nodes.append(For(loop, tuple(inner.nodes)))

    def scalar_row(self, row: tuple[Integer, ...], columns: Columns, scope: Scope, name: str = "value") -> None:
        """Scalar loads of a row, with bounds checks and the boundary mode."""
        low, high = columns
        column = self._loop("column", low, high + 1) if low < high else None
        offset = integer(low) if column is None else column.symbol
        window, read = self.window, self.window.footprint.read
        coordinates = self._subscripts(row, self.start + offset)
        with nullcontext(scope) if column is None else self._block(scope, column) as inner:
            subscripts, guard, otherwise = within(self.lowering, read, coordinates, window.source, inner)
            access = Access(window.source, subscripts, "load", span=read.span)
            value: Expr = Element.of(access)
            if guard is not None:
                local = Local(self.lowering.names.allocate(f"{window.footprint.array.lower()}_{name}"), read.dtype)
                checked = is_bounds_checked(self.lowering, read, access)
                inner.nodes.append(Load(local, access, guard, otherwise, checked))
                value = local
        inner.nodes.append(self._store(row, offset, value))
        if column is not None:
            loop = Loop(column, integer(low), integer(high + 1), window.column_step, unroll=True)
            scope.nodes.append(For(loop, tuple(inner.nodes)))

    def _vector(self, row: tuple[Integer, ...]) -> Vector:
        """`u2`, or `u2_plane0_row2` of a row whose numbers are constants: it is named as loops over rows are."""
        window = self.window
        counts = [count for dimension, count in enumerate(window.counts) if dimension != window.along]
        which = tuple(
            f"{_loop_name(len(row) - dimension)}{number}"
            for dimension, (number, count) in enumerate(zip(row, counts, strict=True))
            if number.is_Integer and count > 1
        )
        return vector_of(window.source, window.footprint.array, window.access_width, self.lowering, which=which)

    @contextmanager
    def _block(self, scope: Scope, loop: Index | None = None) -> Iterator[Scope]:
        """The scope of a C++ block inside `scope`."""
        outer = self.lowering.names
        inner = Scope(scope, frozenset() if loop is None else frozenset((loop.name,)))
        self.lowering.names = self.lowering.names_of[inner] = Names(outer)
        yield inner
        outer.end(self.lowering.names)
        self.lowering.names = outer

    def _loop(self, hint: str, first: int, end: int) -> Index:
        """A loop variable, shared by loops of the same name."""
        known = self.loops.get(hint)
        name = known.name if known else counter_name(self.counters, self.counter_names, hint, self.origins)
        low, high = known.range if known else (first, end - 1)
        index = Index(name, integer(first), (min(low, first), max(high, end - 1)))
        self.loops[hint] = index
        self.lowering.ranges[index.symbol] = index.range
        self.lowering.symbols[name] = index.symbol
        return index

    def _subscripts(self, row: tuple[Integer, ...], column: Integer) -> tuple[Integer, ...]:
        """The subscripts in the source of an element of the window, before its boundary mode applies."""
        along, coordinates = self.window.along, iter(row)
        pairs = zip(self.window.footprint.axes, self.window.origin, strict=True)
        bases = (first if a.index is None else a.start(self.origins[a.index]) + first for a, first in pairs)
        return tuple(column if d == along else next(coordinates) + base for d, base in enumerate(bases))

    def _store(self, row: tuple[Integer, ...], column: Integer, value: Expr) -> Node:
        along = self.window.along
        subscripts = self.window.subscripts((*row[:along], column, *row[along:]))
        return Store(Access(self.window.array, subscripts, "store"), value)


def _is_converted(window: RegisterWindow) -> bool:
    """Whether elements are converted when they are loaded, which is done after the choice of a bounds check."""
    return window.source.dtype.compute != window.source.dtype


def _load(vector: Vector, access: Access, guard: Guard | None) -> tuple[Node, ...]:
    """Declares a vector, zero where the guard fails. Its elements are converted after the branch, which would otherwise
    wait for each load."""
    if guard is None:
        return (Load(vector, access),)
    return Let(vector, Const(0, vector.dtype), mutable=True), If(guard, (Assign(vector, Element.of(access)),))


def _row_sections(nodes: Sequence[Node]) -> tuple[Section, ...]:
    """A single loop over rows as a section, with the definitions before it; otherwise a section per row, or loop."""
    *before, last = nodes
    # A loop over the columns of a row has no sections.
    is_row_loop = isinstance(last, For) and any(isinstance(inner, Section) for inner in last.body)
    if is_row_loop and all(isinstance(node, Define) for node in before):
        return (Section("row_invariants", tuple(before)), Section("row_loop", (last,)))
    rows: list[Section] = []
    start = 0
    for end, node in enumerate(nodes, 1):
        if isinstance(node, For | If) or end == len(nodes):
            rows.append(Section("row", tuple(nodes[start:end])))
            start = end
    return (Section("rows", tuple(rows)),)
