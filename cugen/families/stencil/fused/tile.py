"""The shared-memory tile of fused stencils: its position in the intermediate array, and how a block computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.stencil.config import StencilConfig, load_width
from cugen.families.stencil.footprint import Axis, Footprint
from cugen.families.stencil.register_window import RegisterWindow, join_ranges, load_window, make_window
from cugen.families.stencil.window_values import WindowLowering, index_values
from cugen.pieces.blocks import define, thread
from cugen.pieces.sections import SectionGroup
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.names import Names
from cugen.plan.nodes import Assign, Comparison, For, Guard, If, Index, Let, Loop, Node, Section, Store
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Boundary, IndexValue, Read


@dataclass(frozen=True, slots=True)
class FusedStencil:
    """Two stencils; `footprint` is that of the second in the output of the first, the intermediate array.

    `first_footprints` and `second_footprints` are those of each, by array; `config` is that of the second.
    """

    first: Request
    second: Request
    footprint: Footprint
    first_footprints: Mapping[str, Footprint]
    second_footprints: Mapping[str, Footprint]
    config: StencilConfig

    @property
    def along(self) -> int:
        """The contiguous dimension of the intermediate array."""
        return self.footprint.axis_along(self.config.along)

    @property
    def counts(self) -> tuple[int, ...]:
        """The tile's extent in each dimension of the intermediate array; rows are whole vectors."""
        counts = []
        for axis in self.footprint.axes:
            size = self.config.width if axis.index == self.config.along else 1
            counts.append(
                -(-(axis.high - self.tile_offset(axis) + self.config.per_block(axis.index or "")) // size) * size
            )
        return tuple(counts)

    def tile_offset(self, axis: Axis) -> int:
        """The tile's first element relative to the block's first output."""
        size = self.config.width if axis.index == self.config.along else 1
        return axis.low // size * size

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the intermediate array that the tile has."""
        return tuple(d for d, count in enumerate(self.counts) if count > 1 or d == self.along)

    @property
    def tile_bytes(self) -> int:
        size = self.first.context.arrays[self.footprint.array].dtype.bytes
        for count in self.counts:
            size *= count
        return size

    @property
    def redundancy(self) -> float:
        """Intermediate elements that a block computes per output."""
        ratio = 1.0
        for axis, count in zip(self.footprint.axes, self.counts, strict=True):
            ratio *= count / self.config.per_block(axis.index or "")
        return ratio


class IntermediateTile:
    """Builds the nodes that compute the tile."""

    def __init__(self, fused: FusedStencil, outer: Lowering) -> None:
        self.fused, self.config, self.width = fused, fused.config, fused.config.width
        self.outer = outer
        self.source = outer.arrays[fused.footprint.array]
        self.array = self._array()
        self.producer = fused.first.group.statements[0]
        self.names = tuple(sub.name for sub in self.producer.subscripts if isinstance(sub, IndexValue))
        self.along = self.names[fused.along]
        self.windows: list[RegisterWindow] = []

    def _array(self) -> Array:
        shape = tuple(integer(self.fused.counts[d]) for d in self.fused.dimensions)
        strides = (shape[-1], integer(1)) if len(shape) == 2 else (integer(1),)
        return replace(
            self.source,
            symbol=self.outer.names.allocate(f"{self.source.symbol}_tile"),
            shape=shape,
            strides=strides,
            space="shared",
            flat=False,
            align=self.width * self.source.dtype.bytes if self.width > 1 else 0,
        )

    def define_origin(self, blocks: Mapping[str, Integer]) -> tuple[Node, ...]:
        """The tile's first element in each dimension of the array, possibly out of bounds."""
        self.origin: list[Integer] = []
        nodes: list[Node] = []
        for dimension, axis in enumerate(self.fused.footprint.axes):
            position = blocks[axis.index or ""] * self.config.per_block(axis.index or "") + self.fused.tile_offset(axis)
            hint = f"{axis.index}_tile" if dimension in self.fused.dimensions else f"{axis.index}_block"
            node = define(hint, position, self.outer)
            self.origin.append(node.index.symbol)
            nodes.append(node)
        return tuple(nodes)

    def fill(self) -> tuple[Section, ...]:
        """Computes all elements, one vector per thread and row: the block loops over the rows of the tile.

        The sections are those of templates/fused_stencil.cu.j2."""
        outer, counts, along = self.outer, self.fused.counts, self.fused.along
        rows = next((d for d in self.fused.dimensions if d != along), None)
        step = self.config.threads[self.config.order[1].name] * self.rows_per_thread if rows is not None else 1
        is_loop = rows is not None and counts[rows] > step
        # A loop body is a C++ block, names end with it.
        names = Names(outer.names) if is_loop else outer.names
        symbols, ranges, limits = dict(outer.symbols), dict(outer.ranges), dict(outer.limits)
        self.lowering = WindowLowering(names, outer.arrays, symbols, ranges, limits, outer.unroll)
        # The dimension of the rows per thread and the loop variable over them, if several.
        self.row_loop = (
            None if rows is None or self.rows_per_thread == 1 else (rows, self._counter("r", self.rows_per_thread))
        )
        element = {along: thread("x", self.config.threads[self.config.along], self.lowering) * self.width}
        if rows is None:
            return self._vector(element)
        element[rows] = thread("y", step // self.rows_per_thread, self.lowering) * self.rows_per_thread
        if not is_loop:
            return self._vector(element)
        loop = Loop(self._counter("row", counts[rows], element[rows]), element[rows], integer(counts[rows]), step)
        return (Section("tile_loop", (For(loop, self._vector({**element, rows: loop.index.symbol})),)),)

    @property
    def rows_per_thread(self) -> int:
        """Rows that a thread computes from one window: those of its outputs where their footprints overlap and the tile
        has no halo rows; else 1."""
        order, footprint = self.config.order, self.fused.footprint
        if self.width == 1 or len(order) < 2:
            return 1
        dimension = footprint.axis_along(order[1].name)
        name = self.names[dimension]
        overlap = any(a.index == name and a.low < a.high for w in self.fused.first_footprints.values() for a in w.axes)
        extent = to_integer(order[1].extent, self.outer.symbols)
        is_same_extent = (extent - self.source.shape[dimension]).expand() == 0
        has_no_halo = self.fused.counts[dimension] == self.config.per_block(order[1].name)
        has_no_halo = has_no_halo and footprint.axes[dimension].low == 0
        return self.config.outputs[order[1].name] if overlap and is_same_extent and has_no_halo else 1

    def _counter(self, hint: str, count: int, start: Integer | None = None) -> Index:
        index = Index(self.lowering.names.allocate(hint), integer(0) if start is None else start, (0, count - 1))
        self.lowering.ranges[index.symbol] = index.range
        return index

    def _vector(self, element: Mapping[int, Integer]) -> tuple[Section, ...]:
        """One vector of a row of the tile: from a register window where it is in bounds, else element by element."""
        scope, along = Scope(), self.fused.along
        subscripts = tuple(begin + element.get(dimension, integer(0)) for dimension, begin in enumerate(self.origin))
        if self.width == 1:
            self._scalar(subscripts, self._tile_subscripts(element), scope)
            return (Section("compute_vector", tuple(scope.nodes)),)
        first = self.lowering.define(f"{self.along}_first", subscripts[along], scope)
        narrow = replace(self.source, shape=_with(self.source.shape, along, integer(1)))
        rows, guard = _with(subscripts, along, integer(0)), None
        if self.rows_per_thread == 1:
            rows, guard, _ = within(self.lowering, self._read(), rows, narrow, scope)
        extent = self.source.shape[along]
        inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + self.width, "<=", extent)))
        terms = (*(guard.terms if guard else ()), *self.lowering.needed(inside).terms)
        v = self._counter("v", self.width)
        from_window = self._from_window(_with(rows, along, first), element, v)
        if not terms:
            return (Section("vector_index", tuple(scope.nodes)), *from_window)
        scalars = self._scalars(_with(subscripts, along, first), element, v, scope)
        choice = If(Guard(terms), from_window, scalars)
        return (Section("vector_index", tuple(scope.nodes)), Section("if_vector_in_bounds", (choice,)))

    def _tile_subscripts(self, element: Mapping[int, Integer]) -> tuple[Integer, ...]:
        return tuple(element[d] for d in self.fused.dimensions)

    def _scalars(
        self, subscripts: tuple[Integer, ...], element: Mapping[int, Integer], v: Index, scope: Scope
    ) -> tuple[Node, ...]:
        along, loops, element = self.fused.along, [v], dict(element)
        subscripts, element[along] = _with(subscripts, along, subscripts[along] + v.symbol), element[along] + v.symbol
        if self.row_loop is not None:
            dimension, row = self.row_loop
            loops.append(row)
            subscripts = _with(subscripts, dimension, subscripts[dimension] + row.symbol)
            element[dimension] = element[dimension] + row.symbol
        for index in loops:
            self.lowering.symbols[index.name] = index.symbol
        inner = Scope(scope, frozenset(index.name for index in loops), certain=False)
        self._scalar(subscripts, self._tile_subscripts(element), inner)
        nodes = tuple(inner.nodes)
        for index in loops:
            nodes = (For(Loop(index, integer(0), integer(index.range[1] + 1), rolled=True), nodes),)
        return nodes

    def _from_window(
        self, origin: tuple[Integer, ...], element: Mapping[int, Integer], v: Index
    ) -> tuple[Section, ...]:
        """A vector of one or several rows, from register windows; all its elements are in bounds."""
        outer, first, scope = self.lowering, origin[self.fused.along], Scope()
        ranges, last = dict(outer.ranges), self.source.shape[self.fused.along] - self.width
        limits = {**outer.limits, first: last + 1}
        ranges[first] = max(ranges[first][0], 0), ranges[first][1]
        lowering = WindowLowering(Names(outer.names), outer.arrays, dict(outer.symbols), ranges, limits, outer.unroll)
        nodes = self._compute(lowering, origin, element, v, scope)
        del ranges[first]
        join_ranges(outer.ranges, ranges)
        return nodes

    def _compute(
        self,
        lowering: WindowLowering,
        origin: tuple[Integer, ...],
        element: Mapping[int, Integer],
        v: Index,
        scope: Scope,
    ) -> tuple[Section, ...]:
        for name, subscript in zip(self.names, origin, strict=True):
            lowering.symbols[name] = subscript if subscript.is_Symbol else lowering.define(name, subscript, scope)
            lowering.output_offsets[name] = integer(0)
        origins, outputs, element = dict(lowering.symbols), {self.along: self.width}, dict(element)
        lowering.output_offsets[self.along] = v.symbol
        row_loop = self.row_loop
        if row_loop is not None:
            name = self.names[row_loop[0]]
            outputs[name], lowering.output_offsets[name] = self.rows_per_thread, row_loop[1].symbol
        windows: list[SectionGroup] = []
        for footprint in self.fused.first_footprints.values():
            source = lowering.arrays[footprint.array]
            symbol = self.outer.names.allocate(f"{footprint.array.lower()}_window")
            window = make_window(footprint, source, self.along, outputs, self._access_width(footprint), symbol)
            self.windows.append(window)
            lowering.windows.update(dict.fromkeys(footprint.reads, window))
            windows.append(load_window(lowering, window, origins, outputs))
        sections = (Section("window_origin", tuple(scope.nodes)), Section("source_windows", tuple(windows)))
        scope.nodes.clear()
        if row_loop is None:
            return (*sections, *self._row(lowering, origins, self._tile_subscripts(element), v, scope))
        dimension, row = row_loop
        inner = Scope(scope, frozenset((self.names[dimension],)), certain=False)
        name, extent = self.names[dimension], self.source.shape[dimension]
        index = lowering.define(name, origins[name] + row.symbol, inner)
        (definition,) = inner.nodes
        inner.nodes.clear()
        lowering.symbols[name], lowering.limits[index] = index, extent
        element[dimension] = element[dimension] + row.symbol
        vector = self._row(lowering, origins, self._tile_subscripts(element), v, inner)
        inside = Section("if_row_in_bounds", (If(Guard((Comparison(index, "<", extent),)), vector),))
        loop = Loop(row, integer(0), integer(self.rows_per_thread), unroll=True)
        return (*sections, Section("row_loop", (For(loop, (Section("row_index", (definition,)), inside)),)))

    def _row(
        self,
        lowering: WindowLowering,
        origins: Mapping[str, Integer],
        element: tuple[Integer, ...],
        v: Index,
        scope: Scope,
    ) -> tuple[Section, ...]:
        """Computes the vector of one row and stores it to the tile."""
        inner = Scope(scope, frozenset((self.along,)))
        if self.along in index_values(self.producer.value):
            lowering.symbols[self.along] = lowering.define(self.along, origins[self.along] + v.symbol, inner)
        lowering.prepare((self.producer.value,))
        value = lowering.lower(self.producer.value, inner)
        name = self.source.name.lower()
        hint = f"{name}_{self.width}" if name[-1].isdigit() else f"{name}{self.width}"
        dtype = self.source.dtype
        result = Vector(lowering.names.allocate(hint), dtype.compute, dtype, self.width)
        body = (*inner.nodes, Assign(result.component(v.symbol), value))
        loop = For(Loop(v, integer(0), integer(self.width), unroll=True), body)
        return (
            Section("compute_vector", (*scope.nodes, Let(result, None, mutable=True), loop)),
            Section("store_vector", (Store(Access(self.array, element, "store", self.width), result),)),
        )

    def _access_width(self, footprint: Footprint) -> int:
        scale = footprint.axes[footprint.axis_along(self.along)].scale
        source = self.outer.arrays[footprint.array]
        return min(load_width(self.fused.first, source, footprint, self.along), scale * self.width)

    def _scalar(self, position: tuple[Integer, ...], element: tuple[Integer, ...], scope: Scope) -> None:
        """Computes one element, or its boundary value where it is out of bounds."""
        outer = self.lowering
        subscripts, guard, otherwise = within(outer, self._read(), position, self.source, scope)
        in_block = guard is not None or scope.parent is not None  # of C++, with names of its own
        names = Names(outer.names) if in_block else outer.names
        lowering = Lowering(names, outer.arrays, dict(outer.symbols), outer.ranges, outer.limits)
        if any(array.space == "register" for array in outer.arrays.values()):
            lowering.unroll = outer.unroll
        body = Scope()
        for name, subscript in zip(self.names, subscripts, strict=True):
            lowering.symbols[name] = subscript if subscript.is_Symbol else lowering.define(name, subscript, body)
        lowering.prepare((self.producer.value,))
        value = lowering.lower(self.producer.value, body)
        body.nodes.append(Store(Access(self.array, element, "store"), value))
        if guard is None or otherwise is None:
            scope.nodes += body.nodes
            return
        outside = Store(Access(self.array, element, "store"), otherwise)
        scope.nodes.append(If(guard, tuple(body.nodes), (outside,)))

    def _read(self) -> Read:
        """A read of the tile; elements out of bounds are zero where it has no boundary mode, and then unused."""
        footprint = self.fused.footprint
        return replace(footprint.reads[0], boundary=footprint.boundary or Boundary("zero"))


def _with(values: tuple[Integer, ...], position: int, value: Integer) -> tuple[Integer, ...]:
    return (*values[:position], value, *values[position + 1 :])
