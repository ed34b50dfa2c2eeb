"""The tile of a cascade: where it lies in the temporary's array, and how a block fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.stencil.config import Shape, load_width
from cugen.families.stencil.footprint import Axis, Window
from cugen.families.stencil.register_window import Held, hold, join_ranges, load_window
from cugen.families.stencil.window_values import WindowLowering, index_values
from cugen.pieces.blocks import define, thread
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.names import Names
from cugen.plan.nodes import Assign, Comparison, For, Guard, If, Index, Let, Loop, Node, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Boundary, IndexValue, Read


@dataclass(frozen=True, slots=True)
class Cascade:
    """The first statement makes an array of which the second reads the `window`; `before` and `after` are the windows
    of each, by array. `shape` is how a block computes the second's results."""

    first: Request
    second: Request
    window: Window
    before: Mapping[str, Window]
    after: Mapping[str, Window]
    shape: Shape

    @property
    def along(self) -> int:
        """The dimension of the array's rows."""
        return self.window.axis_along(self.shape.along)

    @property
    def counts(self) -> tuple[int, ...]:
        """The tile's cells in each dimension of the array; rows are whole vectors."""
        found = []
        for axis in self.window.axes:
            size = self.shape.width if axis.index == self.shape.along else 1
            found.append(-(-(axis.high - self.first_of(axis) + self.shape.per_block(axis.index or "")) // size) * size)
        return tuple(found)

    def first_of(self, axis: Axis) -> int:
        """The tile's first cell, from the block's first output."""
        size = self.shape.width if axis.index == self.shape.along else 1
        return axis.low // size * size

    @property
    def kept(self) -> tuple[int, ...]:
        """The dimensions that the tile has."""
        return tuple(d for d, count in enumerate(self.counts) if count > 1 or d == self.along)

    @property
    def tile_bytes(self) -> int:
        cells = self.first.context.arrays[self.window.array].dtype.bytes
        for count in self.counts:
            cells *= count
        return cells

    @property
    def again(self) -> float:
        """How many cells a block fills for each of its outputs."""
        ratio = 1.0
        for axis, count in zip(self.window.axes, self.counts, strict=True):
            ratio *= count / self.shape.per_block(axis.index or "")
        return ratio


class Tile:
    """The nodes that fill the tile, with names that end with them."""

    def __init__(self, cascade: Cascade, around: Lowering) -> None:
        self.cascade, self.shape, self.width = cascade, cascade.shape, cascade.shape.width
        self.around = around
        self.source = around.arrays[cascade.window.array]
        self.array = self._array()
        self.maker = cascade.first.group.statements[0]
        self.names = tuple(sub.name for sub in self.maker.subscripts if isinstance(sub, IndexValue))
        self.along = self.names[cascade.along]
        self.held: list[Held] = []

    def _array(self) -> Array:
        shape = tuple(integer(self.cascade.counts[d]) for d in self.cascade.kept)
        strides = (shape[-1], integer(1)) if len(shape) == 2 else (integer(1),)
        return replace(
            self.source,
            symbol=self.around.names.allocate(f"{self.source.symbol}_tile"),
            shape=shape,
            strides=strides,
            space="shared",
            flat=False,
            align=self.width * self.source.dtype.bytes if self.width > 1 else 0,
        )

    def starts(self, places: Mapping[str, Integer]) -> tuple[Node, ...]:
        """Where the tile begins in each dimension of the array, which may be outside; `places` are the block's."""
        self.begin: list[Integer] = []
        nodes: list[Node] = []
        for dimension, axis in enumerate(self.cascade.window.axes):
            place = places[axis.index or ""] * self.shape.per_block(axis.index or "") + self.cascade.first_of(axis)
            wish = f"{axis.index}_tile" if dimension in self.cascade.kept else f"{axis.index}_block"
            node = define(wish, place, self.around)
            self.begin.append(node.index.symbol)
            nodes.append(node)
        return tuple(nodes)

    def fill(self) -> tuple[Node, ...]:
        """Every cell, a vector of each row for a thread: the block's threads take the first rows, then the next."""
        around, counts, along = self.around, self.cascade.counts, self.cascade.along
        rows = next((d for d in self.cascade.kept if d != along), None)
        step = self.shape.threads[self.shape.order[1].name] * self.together if rows is not None else 1
        is_loop = rows is not None and counts[rows] > step
        # The names of a loop's body end with it.
        names = Names(around.names) if is_loop else around.names
        symbols, ranges, limits = dict(around.symbols), dict(around.ranges), dict(around.limits)
        self.lowering = WindowLowering(names, around.arrays, symbols, ranges, limits, around.unroll)
        # The dimension of the rows that a thread computes at once, and their number.
        self.several = None if rows is None or self.together == 1 else (rows, self._counter("r", self.together))
        cell = {along: thread("x", self.shape.threads[self.shape.along], self.lowering) * self.width}
        if rows is None:
            return self._neighbours(cell)
        cell[rows] = thread("y", step // self.together, self.lowering) * self.together
        if not is_loop:
            return self._neighbours(cell)
        loop = Loop(self._counter("row", counts[rows], cell[rows]), cell[rows], integer(counts[rows]), step)
        return (For(loop, self._neighbours({**cell, rows: loop.index.symbol})),)

    @property
    def together(self) -> int:
        """Rows whose windows a thread holds at once: those of its outputs where windows overlap, and the tile has the
        rows of the block and no others."""
        order, window = self.shape.order, self.cascade.window
        if self.width == 1 or len(order) < 2:
            return 1
        dimension = window.axis_along(order[1].name)
        name = self.names[dimension]
        overlap = any(a.index == name and a.low < a.high for w in self.cascade.before.values() for a in w.axes)
        extent = to_integer(order[1].extent, self.around.symbols)
        alike = (extent - self.source.shape[dimension]).expand() == 0
        own = self.cascade.counts[dimension] == self.shape.per_block(order[1].name)
        is_own = own and window.axes[dimension].low == 0
        return self.shape.outputs[order[1].name] if overlap and alike and is_own else 1

    def _counter(self, wish: str, count: int, start: Integer | None = None) -> Index:
        index = Index(self.lowering.names.allocate(wish), integer(0) if start is None else start, (0, count - 1))
        self.lowering.ranges[index.symbol] = index.range
        return index

    def _neighbours(self, cell: Mapping[int, Integer]) -> tuple[Node, ...]:
        """Neighbours in a row of the tile: together where all are elements of the array, else one by one."""
        scope, along = Scope(), self.cascade.along
        places = tuple(begin + cell.get(dimension, integer(0)) for dimension, begin in enumerate(self.begin))
        if self.width == 1:
            self._one(places, self._of_tile(cell), scope)
            return tuple(scope.nodes)
        first = self.lowering.define(f"{self.along}_first", places[along], scope)
        narrow = replace(self.source, shape=_with(self.source.shape, along, integer(1)))
        rows, guard = _with(places, along, integer(0)), None
        if self.together == 1:
            rows, guard, _ = within(self.lowering, self._read(), rows, narrow, scope)
        extent = self.source.shape[along]
        inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + self.width, "<=", extent)))
        terms = (*(guard.terms if guard else ()), *self.lowering.needed(inside).terms)
        v = self._counter("v", self.width)
        at_once = self._at_once(_with(rows, along, first), cell, v)
        if not terms:
            return (*scope.nodes, *at_once)
        one_by_one = self._one_by_one(_with(places, along, first), cell, v, scope)
        return (*scope.nodes, If(Guard(terms), at_once, one_by_one))

    def _of_tile(self, cell: Mapping[int, Integer]) -> tuple[Integer, ...]:
        return tuple(cell[d] for d in self.cascade.kept)

    def _one_by_one(
        self, places: tuple[Integer, ...], cell: Mapping[int, Integer], v: Index, scope: Scope
    ) -> tuple[Node, ...]:
        along, loops, cell = self.cascade.along, [v], dict(cell)
        places, cell[along] = _with(places, along, places[along] + v.symbol), cell[along] + v.symbol
        if self.several is not None:
            dimension, row = self.several
            loops.append(row)
            places = _with(places, dimension, places[dimension] + row.symbol)
            cell[dimension] = cell[dimension] + row.symbol
        for index in loops:
            self.lowering.symbols[index.name] = index.symbol
        inner = Scope(scope, frozenset(index.name for index in loops), certain=False)
        self._one(places, self._of_tile(cell), inner)
        nodes = tuple(inner.nodes)
        for index in loops:
            nodes = (For(Loop(index, integer(0), integer(index.range[1] + 1), rolled=True), nodes),)
        return nodes

    def _at_once(self, at: tuple[Integer, ...], cell: Mapping[int, Integer], v: Index) -> tuple[Node, ...]:
        """The results for neighbours in a row, or in several, from windows in registers. All of them are elements."""
        around, first, scope = self.lowering, at[self.cascade.along], Scope()
        ranges, last = dict(around.ranges), self.source.shape[self.cascade.along] - self.width
        limits = {**around.limits, first: last + 1}
        ranges[first] = max(ranges[first][0], 0), ranges[first][1]
        lowering = WindowLowering(
            Names(around.names), around.arrays, dict(around.symbols), ranges, limits, around.unroll
        )
        nodes = self._computed(lowering, at, cell, v, scope)
        del ranges[first]
        join_ranges(around.ranges, ranges)
        return nodes

    def _computed(
        self,
        lowering: WindowLowering,
        at: tuple[Integer, ...],
        cell: Mapping[int, Integer],
        v: Index,
        scope: Scope,
    ) -> tuple[Node, ...]:
        for name, place in zip(self.names, at, strict=True):
            lowering.symbols[name] = place if place.is_Symbol else lowering.define(name, place, scope)
            lowering.places[name] = integer(0)
        origins, outputs, cell = dict(lowering.symbols), {self.along: self.width}, dict(cell)
        lowering.places[self.along] = v.symbol
        several = self.several
        if several is not None:
            name = self.names[several[0]]
            outputs[name], lowering.places[name] = self.together, several[1].symbol
        for window in self.cascade.before.values():
            source = lowering.arrays[window.array]
            symbol = self.around.names.allocate(f"{window.array.lower()}_window")
            held = hold(window, source, self.along, outputs, self._chunk(window), symbol)
            self.held.append(held)
            lowering.held.update(dict.fromkeys(window.reads, held))
            scope.nodes += load_window(lowering, held, origins, outputs)
        if several is None:
            self._row(lowering, origins, self._of_tile(cell), v, scope)
            return tuple(scope.nodes)
        dimension, row = several
        inner = Scope(scope, frozenset((self.names[dimension],)), certain=False)
        name, extent = self.names[dimension], self.source.shape[dimension]
        own = lowering.define(name, origins[name] + row.symbol, inner)
        (definition,) = inner.nodes
        inner.nodes.clear()
        lowering.symbols[name], lowering.limits[own] = own, extent
        cell[dimension] = cell[dimension] + row.symbol
        self._row(lowering, origins, self._of_tile(cell), v, inner)
        inside = If(Guard((Comparison(own, "<", extent),)), tuple(inner.nodes))
        loop = Loop(row, integer(0), integer(self.together), unroll=True)
        return (*scope.nodes, For(loop, (definition, inside)))

    def _row(
        self,
        lowering: WindowLowering,
        origins: Mapping[str, Integer],
        cell: tuple[Integer, ...],
        v: Index,
        scope: Scope,
    ) -> None:
        """The results for neighbours in one row, stored at once."""
        inner = Scope(scope, frozenset((self.along,)))
        if self.along in index_values(self.maker.value):
            lowering.symbols[self.along] = lowering.define(self.along, origins[self.along] + v.symbol, inner)
        lowering.prepare((self.maker.value,))
        value = lowering.lower(self.maker.value, inner)
        name = self.source.name.lower()
        wish = f"{name}_{self.width}" if name[-1].isdigit() else f"{name}{self.width}"
        dtype = self.source.dtype
        result = Vector(lowering.names.allocate(wish), dtype.compute, dtype, self.width)
        body = (*inner.nodes, Assign(result.component(v.symbol), value))
        scope.nodes += [
            Let(result, None, mutable=True),
            For(Loop(v, integer(0), integer(self.width), unroll=True), body),
            Store(Access(self.array, cell, "store", self.width), result),
        ]

    def _chunk(self, window: Window) -> int:
        scale = window.axes[window.axis_along(self.along)].scale
        source = self.around.arrays[window.array]
        return min(load_width(self.cascade.first, source, window, self.along), scale * self.width)

    def _one(self, places: tuple[Integer, ...], cell: tuple[Integer, ...], scope: Scope) -> None:
        """One cell, with what lies outside."""
        around = self.lowering
        subscripts, guard, otherwise = within(around, self._read(), places, self.source, scope)
        in_block = guard is not None or scope.parent is not None  # whose end is that of the names
        names = Names(around.names) if in_block else around.names
        lowering = Lowering(names, around.arrays, dict(around.symbols), around.ranges, around.limits)
        if any(array.space == "register" for array in around.arrays.values()):
            lowering.unroll = around.unroll
        work = Scope()
        for name, place in zip(self.names, subscripts, strict=True):
            lowering.symbols[name] = place if place.is_Symbol else lowering.define(name, place, work)
        lowering.prepare((self.maker.value,))
        value = lowering.lower(self.maker.value, work)
        work.nodes.append(Store(Access(self.array, cell, "store"), value))
        if guard is None or otherwise is None:
            scope.nodes += work.nodes
            return
        outside = Store(Access(self.array, cell, "store"), otherwise)
        scope.nodes.append(If(guard, tuple(work.nodes), (outside,)))

    def _read(self) -> Read:
        """Any cell: what is outside is zero where no boundary says otherwise, and is never used."""
        window = self.cascade.window
        return replace(window.reads[0], boundary=window.boundary or Boundary("zero"))


def _with(items: tuple[Integer, ...], position: int, item: Integer) -> tuple[Integer, ...]:
    return (*items[:position], item, *items[position + 1 :])
