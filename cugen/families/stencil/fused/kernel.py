"""Two fused stencils: a block computes a tile of the intermediate array in shared memory, then the outputs from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.stencil.config import StencilConfig, access_width
from cugen.families.stencil.footprint import Axis, Footprint, Footprints
from cugen.families.stencil.kernel import StencilBuilder
from cugen.families.stencil.register_window import project, replace_item
from cugen.families.stencil.window_loads import join_ranges, load_window
from cugen.families.stencil.window_values import WindowLowering
from cugen.pieces.blocks import Blocks, define, thread
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.sections import SectionGroup, guarded
from cugen.pieces.vector_body import vector_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import within
from cugen.plan.memory import Access, row_major
from cugen.plan.names import Names
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.rewrite.dense_indices import index_values
from cugen.spec.expressions import Const, Expr, IndexValue


@dataclass(frozen=True, slots=True)
class Parts:
    """The two statements as requests. `footprint` is that of the second in the intermediate array, one of its
    `footprints` along its contiguous index `along`; the first has the index `first_along` in this dimension."""

    first: Request
    second: Request
    footprint: Footprint
    footprints: Footprints
    along: str
    first_along: str


@dataclass(frozen=True, slots=True)
class FusedStencil:
    """Two stencils with the footprints of the first, by array; `config` is that of the second."""

    parts: Parts
    first_footprints: Mapping[str, Footprint]
    config: StencilConfig

    @property
    def footprint(self) -> Footprint:
        """The footprint of the second stencil in the output of the first, the intermediate array."""
        return self.parts.footprint

    @property
    def along(self) -> int:
        """The contiguous dimension of the intermediate array."""
        return self.footprint.axis_along(self.config.along)

    @property
    def counts(self) -> tuple[int, ...]:
        """The tile's extent in each dimension of the intermediate array; rows are whole vectors."""
        counts = []
        for axis in self.footprint.axes:
            count, size = axis.high - self.tile_offset(axis) + self.config.per_block(axis.index or ""), self._step(axis)
            counts.append(-(-count // size) * size)
        return tuple(counts)

    def tile_offset(self, axis: Axis) -> int:
        """The tile's first element relative to the block's first output."""
        return axis.low // self._step(axis) * self._step(axis)

    def _step(self, axis: Axis) -> int:
        """The elements of a vector along an axis."""
        return self.config.width if axis.index == self.config.along else 1

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimensions of the intermediate array that the tile has."""
        return tuple(d for d, count in enumerate(self.counts) if count > 1 or d == self.along)

    @property
    def tile_bytes(self) -> int:
        return math.prod(self.counts) * self.parts.first.context.arrays[self.footprint.array].dtype.bytes

    @property
    def redundancy(self) -> float:
        """Intermediate elements that a block computes per output."""
        outputs = (self.config.per_block(axis.index or "") for axis in self.footprint.axes)
        return math.prod(count / per_block for count, per_block in zip(self.counts, outputs, strict=True))


class FusedStencilBuilder(StencilBuilder):
    """Builds the kernel of one group of statements: that of the second, after the tile that it reads."""

    family = "fused_stencil"

    def __init__(self, request: Request, fused: FusedStencil) -> None:
        footprints = fused.parts.footprints.by_array.items()
        from_memory = {name: footprint for name, footprint in footprints if name != fused.footprint.array}
        super().__init__(fused.parts.second, from_memory, fused.config)
        self.whole, self.fused = request, fused
        self.tile = IntermediateTile(fused, self.lowering)

    def producer(self, blocks: Blocks) -> tuple[Section, ...]:
        names = (index.name for index in self.config.order)
        origin = self.tile.define_origin(dict(zip(names, blocks.coordinates, strict=True)))
        tile = Section("tile", (Declare(self.tile.array), *origin))
        return (tile, *self.tile.fill(), Section("tile_stored", (Barrier(),)))

    def widen_ranges(self, sections: tuple[Section, ...]) -> None:
        join_ranges(self.lowering.ranges, self.tile.lowering.ranges)
        super().widen_ranges(sections)

    def tile_loads(self) -> tuple[Section, ...]:
        footprint, config, lowering = self.fused.footprint, self.config, self.lowering
        window = lowering.add_window(footprint, config.along, config.outputs, config.width)
        origins: dict[str, Integer] = {}
        for index, direction in zip(config.order[:2], "xy", strict=False):
            output = thread(direction, config.threads[index.name], lowering) * config.outputs[index.name]
            origins[index.name] = output - self.fused.tile_offset(footprint.axes[footprint.axis_along(index.name)])
        window = project(window, self.fused.dimensions, self.tile.array)
        return (load_window(lowering, window, origins),)

    def reasons(self) -> tuple[str, ...]:
        size = " x ".join(str(int(extent)) for extent in self.tile.array.shape)
        computed = f"a block computes {self.fused.redundancy:.2f} elements of it per output"
        return (f"{self.fused.footprint.array} stays in a shared-memory tile of {size}: {computed}",)


@dataclass(frozen=True, slots=True)
class Position:
    """An element of the intermediate array: its subscripts there, and those in the tile, by dimension."""

    subscripts: tuple[Integer, ...]
    in_tile: Mapping[int, Integer]

    def moved(self, dimension: int, offset: Integer) -> Position:
        """The element at an offset along a dimension."""
        subscripts = replace_item(self.subscripts, dimension, self.subscripts[dimension] + offset)
        return Position(subscripts, {**self.in_tile, dimension: self.in_tile[dimension] + offset})


class IntermediateTile:
    """Builds the nodes that compute the tile."""

    def __init__(self, fused: FusedStencil, outer: Lowering) -> None:
        self.fused, self.config, self.width = fused, fused.config, fused.config.width
        self.outer = outer
        self.source = outer.arrays[fused.footprint.array]
        symbol = outer.names.allocate(f"{self.source.name}_tile")
        shape = tuple(integer(fused.counts[d]) for d in fused.dimensions)
        align = self.width * self.source.dtype.bytes if self.width > 1 else 0
        tile = replace(self.source, symbol=symbol, shape=shape, strides=row_major(shape))
        self.array = replace(tile, space="shared", flat=False, align=align)
        self.producer = fused.parts.first.group.statements[0]
        self.names = tuple(sub.name for sub in self.producer.subscripts if isinstance(sub, IndexValue))
        self.along = self.names[fused.along]

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
        outer, threads, per_thread = self.outer, self.config.threads, self.rows_per_thread
        rows = next((d for d in self.fused.dimensions if d != self.fused.along), None)
        threads_y = threads[self.config.order[1].name] if rows is not None else 1
        is_loop = rows is not None and self.fused.counts[rows] > threads_y * per_thread
        # A loop body is a C++ block, names end with it.
        names = Names(outer.names) if is_loop else outer.names
        symbols, ranges, limits = dict(outer.symbols), dict(outer.ranges), dict(outer.limits)
        self.lowering = WindowLowering(names, outer.arrays, symbols, ranges, limits, outer.unroll, filled=outer.filled)
        self.row_loop: dict[int, Index] = {}  # over the rows of a thread, if several, by its dimension
        if rows is not None and per_thread > 1:
            self.row_loop = {rows: loop_variable("r", per_thread, self.lowering)}
        element = {self.fused.along: thread("x", threads[self.config.along], self.lowering) * self.width}
        if rows is None:
            return self._vector(element)
        element[rows] = thread("y", threads_y, self.lowering) * per_thread
        if not is_loop:
            return self._vector(element)
        count = self.fused.counts[rows]
        row = loop_variable("row", count, self.lowering, element[rows])
        loop = Loop(row, element[rows], integer(count), threads_y * per_thread)
        return (Section("tile_loop", (For(loop, self._vector({**element, rows: row.symbol})),)),)

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

    def _vector(self, in_tile: Mapping[int, Integer]) -> tuple[Section, ...]:
        """One vector of a row of the tile: from a register window where it is in bounds, else element by element."""
        scope, along, lowering = Scope(), self.fused.along, self.lowering
        subscripts = tuple(first + in_tile.get(dimension, integer(0)) for dimension, first in enumerate(self.origin))
        if self.width == 1:
            self._scalar(Position(subscripts, in_tile), scope)
            return (Section("compute_vector", tuple(scope.nodes)),)
        first = lowering.define(f"{self.along}_first", subscripts[along], scope)
        narrow = replace(self.source, shape=replace_item(self.source.shape, along, integer(1)))
        rows, guard = replace_item(subscripts, along, integer(0)), None
        if not self.row_loop:
            rows, guard, _ = within(lowering, self.fused.footprint.read, rows, narrow, scope)
        extent = self.source.shape[along]
        inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + self.width, "<=", extent)))
        terms = (*(guard.terms if guard else ()), *lowering.needed(inside).terms)
        v = loop_variable("v", self.width, lowering)
        from_window = self._from_window(Position(replace_item(rows, along, first), in_tile), v)
        if not terms:
            return (Section("vector_index", tuple(scope.nodes)), *from_window)
        scalars = self._scalars(Position(replace_item(subscripts, along, first), in_tile), v, scope)
        choice = If(Guard(terms), from_window, scalars)
        return (Section("vector_index", tuple(scope.nodes)), Section("if_vector_in_bounds", (choice,)))

    def _scalars(self, position: Position, v: Index, scope: Scope) -> tuple[Node, ...]:
        """The elements of one or several vectors, each by itself."""
        loops = {self.fused.along: v, **self.row_loop}
        for dimension, index in loops.items():
            position = position.moved(dimension, index.symbol)
            self.lowering.symbols[index.name] = index.symbol
        inner = Scope(scope, frozenset(index.name for index in loops.values()), certain=False)
        self._scalar(position, inner)
        nodes = tuple(inner.nodes)
        for index in loops.values():
            nodes = (For(Loop(index, integer(0), integer(index.range[1] + 1), rolled=True), nodes),)
        return nodes

    def _scalar(self, position: Position, scope: Scope) -> None:
        """Computes one element, or its boundary value where it is out of bounds."""
        outer, source = self.lowering, self.source
        subscripts, guard, otherwise = within(outer, self.fused.footprint.read, position.subscripts, source, scope)
        in_block = guard is not None or scope.parent is not None  # of C++, with names of its own
        names = Names(outer.names) if in_block else outer.names
        symbols = dict(outer.symbols)
        lowering = Lowering(names, outer.arrays, symbols, outer.ranges, outer.limits, filled=outer.filled)
        if any(array.space == "register" for array in outer.arrays.values()):
            lowering.unroll = outer.unroll
        body = Scope()
        self._define_indices(subscripts, lowering, body)
        value = self._value(lowering, body)
        body.nodes.append(self._store(position, value))
        if guard is None or otherwise is None:
            scope.nodes += body.nodes
            return
        scope.nodes.append(If(guard, tuple(body.nodes), (self._store(position, otherwise),)))

    def _from_window(self, position: Position, v: Index) -> tuple[Section, ...]:
        """A vector of one or several rows, from register windows; all its elements are in bounds."""
        outer, first = self.lowering, position.subscripts[self.fused.along]
        limits = {**outer.limits, first: self.source.shape[self.fused.along] - self.width + 1}
        ranges = {**outer.ranges, first: (max(outer.ranges[first][0], 0), outer.ranges[first][1])}
        names, symbols = Names(outer.names), dict(outer.symbols)
        lowering = WindowLowering(names, outer.arrays, symbols, ranges, limits, outer.unroll, filled=outer.filled)
        nodes = self._rows(lowering, position, v)
        del ranges[first]
        join_ranges(outer.ranges, ranges)
        return nodes

    def _rows(self, lowering: WindowLowering, position: Position, v: Index) -> tuple[Section, ...]:
        """The register windows, and a vector of each row that a thread computes from them."""
        scope, outputs = Scope(), {self.along: self.width}
        self._define_indices(position.subscripts, lowering, scope)
        origins = dict(lowering.symbols)
        lowering.output_offsets |= {**dict.fromkeys(self.names, integer(0)), self.along: v.symbol}
        for dimension, row in self.row_loop.items():
            outputs[self.names[dimension]] = self.rows_per_thread
            lowering.output_offsets[self.names[dimension]] = row.symbol
        windows: list[SectionGroup] = []
        for footprint in self.fused.first_footprints.values():
            source = self.outer.arrays[footprint.array]
            width = access_width(self.fused.parts.first, source, footprint, self.along, self.width)
            window = lowering.add_window(footprint, self.along, outputs, width, origins, self.outer.names)
            windows.append(load_window(lowering, window, origins))
        sections = (Section("window_origin", tuple(scope.nodes)), Section("source_windows", tuple(windows)))
        scope.nodes.clear()
        if not self.row_loop:
            return (*sections, *self._row(lowering, position, v, scope))
        ((dimension, row),) = self.row_loop.items()
        name, extent = self.names[dimension], self.source.shape[dimension]
        inner = Scope(scope, frozenset((name,)), certain=False)
        index = lowering.define(name, origins[name] + row.symbol, inner)
        definition = Section("row_index", tuple(inner.nodes))
        inner.nodes.clear()
        lowering.symbols[name], lowering.limits[index] = index, extent
        # Outputs past the last row read theirs, too, but aren't stored.
        zeros, computed, stored = self._row(lowering, position.moved(dimension, row.symbol), v, inner, is_zeroed=True)
        inside = guarded("if_row_in_bounds", (Comparison(index, "<", extent),), (computed,))
        return (*sections, Section("row_loop", (unrolled(row, (definition, zeros, *inside, stored)),)))

    def _row(
        self, lowering: WindowLowering, position: Position, v: Index, scope: Scope, *, is_zeroed: bool = False
    ) -> tuple[Section, Section, Section]:
        """Declares the vector of one row, with zeros or none, computes it and stores it to the tile."""
        inner, first = Scope(scope, frozenset((self.along,))), position.subscripts[self.fused.along]
        if self.along in index_values(self.producer.value):
            lowering.symbols[self.along] = lowering.define(self.along, first + v.symbol, inner)
        value = self._value(lowering, inner)
        result = vector_of(self.source, self.source.name, self.width, lowering)
        loop = unrolled(v, (*inner.nodes, Assign(result.component(v.symbol), value)))
        start = Const(0, result.dtype) if is_zeroed else None
        return (
            Section("declare_vector", (Let(result, start, mutable=True),)),
            Section("compute_vector", (*scope.nodes, loop)),
            Section("store_vector", (self._store(position, result, self.width),)),
        )

    def _define_indices(self, subscripts: tuple[Integer, ...], lowering: Lowering, scope: Scope) -> None:
        """Defines the producer's indices at an element."""
        for name, subscript in zip(self.names, subscripts, strict=True):
            lowering.symbols[name] = subscript if subscript.is_Symbol else lowering.define(name, subscript, scope)

    def _value(self, lowering: Lowering, scope: Scope) -> Expr:
        lowering.prepare((self.producer.value,))
        return lowering.lower(self.producer.value, scope)

    def _store(self, position: Position, value: Expr, width: int = 1) -> Store:
        subscripts = tuple(position.in_tile[dimension] for dimension in self.fused.dimensions)
        return Store(Access(self.array, subscripts, "store", width), value)
