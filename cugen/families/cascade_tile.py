"""The tile of a cascade: where it lies in the temporary's array, and how a block fills it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.base import Request
from cugen.families.blocks import define, thread
from cugen.families.stencil_shape import Shape, load_width
from cugen.families.window_registers import Held, hold, load_window
from cugen.families.window_values import WindowLowering, index_values
from cugen.families.windows import Axis, Window
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Comparison,
    For,
    Guard,
    If,
    Index,
    Let,
    Loop,
    Node,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.names import Names
from cugen.plan.reads import within
from cugen.plan.scopes import Scope
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
            found.append(-(-(axis.high - self.first_of(axis) + self.per_block(axis.index)) // size) * size)
        return tuple(found)

    def first_of(self, axis: Axis) -> int:
        """The tile's first cell, from the block's first output."""
        size = self.shape.width if axis.index == self.shape.along else 1
        return axis.low // size * size

    def per_block(self, index: str | None) -> int:
        return self.shape.outputs.get(index or "", 1) * self.shape.threads.get(index or "", 1)

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
            ratio *= count / self.per_block(axis.index)
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
            place = places[axis.index or ""] * self.cascade.per_block(axis.index) + self.cascade.first_of(axis)
            wish = f"{axis.index}_tile" if dimension in self.cascade.kept else f"{axis.index}_block"
            node = define(wish, place, self.around)
            self.begin.append(node.index.symbol)
            nodes.append(node)
        return tuple(nodes)

    def fill(self) -> tuple[Node, ...]:
        """Every cell: the block's threads take as many rows and vectors as they are, then the next."""
        around, counts, along = self.around, self.cascade.counts, self.cascade.along
        self.lowering = WindowLowering(
            Names(around.names),
            around.arrays,
            dict(around.symbols),
            dict(around.ranges),
            dict(around.limits),
            around.unroll,
        )
        across = self.shape.threads[self.shape.along]
        cell = {along: thread("x", across, self.lowering) * self.width}
        loops: list[Loop] = []
        if counts[along] > across * self.width:
            loops.append(self._loop("column", cell[along], counts[along], across * self.width))
            cell[along] = loops[-1].index.symbol
        for dimension in self.cascade.kept:
            if dimension == along:
                continue
            down = self.shape.threads[self.shape.order[1].name]
            cell[dimension] = thread("y", down, self.lowering)
            if counts[dimension] > down:
                loops.append(self._loop("row", cell[dimension], counts[dimension], down))
                cell[dimension] = loops[-1].index.symbol
        nodes = self._neighbours(cell)
        for loop in loops:
            nodes = (For(loop, nodes),)
        return nodes

    def _loop(self, wish: str, start: Integer, count: int, step: int) -> Loop:
        return Loop(self._counter(wish, count, start), start, integer(count), step)

    def _counter(self, wish: str, count: int, start: Integer | None = None) -> Index:
        index = Index(self.lowering.names.allocate(wish), integer(0) if start is None else start, (0, count - 1))
        self.lowering.ranges[index.symbol] = index.range
        return index

    def _neighbours(self, cell: Mapping[int, Integer]) -> tuple[Node, ...]:
        """Neighbours in a row of the tile: together where all are elements of the array, else one by one."""
        scope, along = Scope(), self.cascade.along
        places = tuple(begin + cell.get(dimension, integer(0)) for dimension, begin in enumerate(self.begin))
        tile_cell = tuple(cell[d] for d in self.cascade.kept)
        if self.width == 1:
            self._one(places, tile_cell, scope)
            return tuple(scope.nodes)
        first = self.lowering.define(f"{self.along}_first", places[along], scope)
        narrow = replace(self.source, shape=_with(self.source.shape, along, integer(1)))
        rows, guard, _ = within(self.lowering, self._read(), _with(places, along, integer(0)), narrow, scope)
        extent = self.source.shape[along]
        inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + self.width, "<=", extent)))
        terms = (*(guard.terms if guard else ()), *self.lowering.needed(inside).terms)
        v = self._counter("v", self.width)
        together = self._together(_with(rows, along, first), tile_cell, v)
        if not terms:
            return (*scope.nodes, *together)
        inner = Scope(scope, frozenset((v.name,)), certain=False)
        self.lowering.symbols[v.name] = v.symbol
        single = tuple(cell[d] + (v.symbol if d == along else 0) for d in self.cascade.kept)
        self._one(_with(places, along, first + v.symbol), single, inner)
        one_by_one = For(Loop(v, integer(0), integer(self.width), rolled=True), tuple(inner.nodes))
        return (*scope.nodes, If(Guard(terms), together, (one_by_one,)))

    def _together(self, at: tuple[Integer, ...], cell: tuple[Integer, ...], v: Index) -> tuple[Node, ...]:
        """The results for neighbours in a row, from windows in registers."""
        around = self.lowering
        lowering = WindowLowering(
            Names(around.names), around.arrays, dict(around.symbols), around.ranges, around.limits, around.unroll
        )
        scope = Scope()
        for name, place in zip(self.names, at, strict=True):
            lowering.symbols[name] = place if place.is_Symbol else lowering.define(name, place, scope)
            lowering.places[name] = integer(0)
        origins = dict(lowering.symbols)
        lowering.places[self.along] = v.symbol
        for window in self.cascade.before.values():
            source = lowering.arrays[window.array]
            chunk = self._chunk(window)
            name = self.around.names.allocate(f"{window.array.lower()}_window")
            held = hold(window, source, self.along, {self.along: self.width}, chunk, name)
            self.held.append(held)
            lowering.held.update(dict.fromkeys(window.reads, held))
            scope.nodes += load_window(lowering, held, origins, {self.along: self.width})
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
        return (
            *scope.nodes,
            Let(result, None, mutable=True),
            For(Loop(v, integer(0), integer(self.width), unroll=True), body),
            Store(Access(self.array, cell, "store", self.width), result),
        )

    def _chunk(self, window: Window) -> int:
        scale = window.axes[window.axis_along(self.along)].scale
        source = self.around.arrays[window.array]
        return min(load_width(self.cascade.first, source, window, self.along), scale * self.width)

    def _one(self, places: tuple[Integer, ...], cell: tuple[Integer, ...], scope: Scope) -> None:
        """One cell, with what lies outside."""
        around = self.lowering
        subscripts, guard, otherwise = within(around, self._read(), places, self.source, scope)
        lowering = Lowering(Names(around.names), around.arrays, dict(around.symbols), around.ranges, around.limits)
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
