"""The packed-tile transpose for outputs whose rows begin inside a 32-byte sector.

A sector that two blocks, or two stores of one block, write in part costs more than one full write. So a block's part
of an output row starts at a sector boundary, up to a sector before its tile, and the tile has that many more rows."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.transpose.packed_tile import PackedTileKernel, as_copy, element_of
from cugen.pieces.blocks import blocks_to_cover, define, limit
from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import ConsecutiveElements, depends_on_index, vector_body
from cugen.pieces.vectors import MAX_ACCESS_BYTES, ElementRef, is_contiguous, offset_of
from cugen.plan.memory import Access
from cugen.plan.names import Names
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Loop, Node, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, ceil_div, integer


class ShiftedRowsKernel(PackedTileKernel):
    """The kernel of one group."""

    def _counts(self) -> list[Integer]:
        """Enough tiles that a row that starts almost a sector early still reaches its end."""
        across, down = self.extents[:2]
        first = blocks_to_cover(across, self.config.step, self.config.shift, self.lowering.ranges)
        return [first, ceil_div(down, self.config.down)]

    def _output_vector(self) -> ConsecutiveElements:
        """The vector of output elements; operands with the output's alignment are loaded in vectors."""
        transpose, width, name = self.transpose, self.config.store.width, self.transpose.across.name
        wide = {}
        for read in certain_reads(self.request, transpose.arrays):
            reference, array = (read.array, read.subscripts), transpose.arrays[read.array]
            if read in transpose.reads or array.space not in IN_MEMORY:
                continue
            is_aligned = transpose.have_equal_alignment(reference, self._output(), width)
            if is_contiguous(array, read.subscripts, name) and is_aligned:
                wide[read] = min(width, MAX_ACCESS_BYTES // array.dtype.bytes)
        return ConsecutiveElements(self.request, transpose.arrays, name, self.extents[0], width, wide)

    def _clamped_row(self, row: Integer, scope: list[Node]) -> Integer:
        """The first `shift` tile rows precede the block's own, clamped to 0 in the first block."""
        pack, extent = self.config.pack, self.extents[0]
        row_index = Minimum(self.first[0] + row * pack - self.config.shift, extent - pack)
        node = define(f"{self.transpose.across.name}_in", Maximum(row_index, integer(0)), self.lowering)
        limit(node.index, extent, self.lowering)
        scope.append(node)
        return node.index.symbol

    def _store(self) -> tuple[Section, ...]:
        """Loads tile columns and stores output rows; the loop over rows is the outer one."""
        config, lowering = self.config, self.lowering
        threads = self._thread_coordinates(config.store, "")
        step = config.threads // config.store.lanes
        r, rows = self._index("r", config.down, step)
        n = define(self.transpose.down.name, self.first[1] + self.ty + r, lowering)
        limit(n.index, self.extents[1], lowering)
        lowering.symbols[self.transpose.down.name] = n.index.symbol
        column_index: list[Node] = []
        column = self._column(self.ty + r, column_index)
        # Tiles are multiples of a sector apart, so the row within the tile decides its misalignment.
        symbols = {**lowering.symbols, self.transpose.down.name: self.ty + r}
        start = offset_of(self.transpose.arrays, self._output(), symbols, self.transpose.across.name)
        misalignment = define("misalignment", Mod(start, integer(config.shift)), lowering)
        outer = Scope()
        inner = Scope(outer, frozenset((self.transpose.down.name,)))
        inner.nodes += [*column_index, misalignment]
        vectors = self._row(inner, misalignment, column)
        in_row = Section("outer_invariants", tuple(inner.nodes)), *vectors
        body = Section("outer_index", (n,)), *self._guarded("outer_in_bounds", 1, n.index.symbol, in_row)
        return (
            Section("store_threads", threads),
            Section("loop_invariants", tuple(outer.nodes)),
            *self._loop("outer_loop", rows, config.down, step, body),
        )

    def _output(self) -> ElementRef:
        statement = next(s for s in self.request.group.statements if s.target in self.transpose.stored())
        return statement.target, statement.subscripts

    def _row(self, scope: Scope, misalignment: Define, column: Integer) -> tuple[Section, ...]:
        """The block's part of a row of the output."""
        config, name, width = self.config, self.transpose.across.name, self.config.store.width
        c, columns = self._index("c", config.step, config.store.span)
        along = c + self.tx * width
        needs_index = depends_on_index(
            self.output_vector.statements, name, (*self.output_vector.wide, *self.transpose.reads)
        )
        row = define("row", along + config.shift - misalignment.index.symbol, self.lowering)
        element = define(
            f"{name}_first" if needs_index else name, self.first[0] + row.index.symbol - config.shift, self.lowering
        )
        first, extent = element.index.symbol, self.extents[0]
        self.lowering.symbols[name] = first
        is_inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + (width - 1), "<", extent)))
        names = self.lowering.names
        self.lowering.names = Names(names)
        full = self._full_vector(Scope(scope, frozenset((name,)), certain=False), row.index.symbol, column)
        self.lowering.names = Names(names)
        scalars = self._scalars(Scope(scope, frozenset((name,)), certain=False), first, row.index.symbol, column)
        body: tuple[Section, ...] = (
            Section("first_element", (row, element)),
            Section("full_vector", (If(is_inside, full, scalars),)),
        )
        if config.step % config.store.span:
            body = (Section("inner_in_bounds", (If(Guard((Comparison(along, "<", integer(config.step)),)), body),)),)
        return self._loop("inner_loop", columns, config.step, config.store.span, body)

    def _full_vector(self, scope: Scope, row: Integer, column: Integer) -> tuple[Section, ...]:
        """A vector within the row."""
        pack, staged = self.config.pack, {}
        symbols = dict(self.lowering.symbols)
        for read, tile in self.tiles.items():
            if pack == 1:
                staged[read] = element_of(tile, row, column)
            else:
                staged[read] = self._words(tile, FloorDiv(row, integer(pack)), column, scope)
        vector = vector_body(replace(self.output_vector, staged=staged), self.lowering, scope)
        self.lowering.symbols.update(symbols)
        return vector

    def _scalars(self, scope: Scope, first: Integer, row: Integer, column: Integer) -> tuple[Node, ...]:
        """The elements of a partial vector at either end of the row, one by one."""
        config, name, extent = self.config, self.transpose.across.name, self.extents[0]
        number = Index(self.lowering.names.allocate("v"), integer(0), (0, config.store.width - 1))
        self.lowering.ranges[number.symbol] = number.range
        edge = define("edge", first + number.symbol, self.lowering)
        limit(edge.index, extent, self.lowering)
        self.lowering.symbols[name] = edge.index.symbol
        tile_row, pack = row + number.symbol, integer(config.pack)
        for read, tile in self.tiles.items():
            access = Access(tile, (FloorDiv(tile_row, pack), column * pack + Mod(tile_row, pack)), "load")
            scope.remember(read, self._named(read, access, scope))
        lower_statements(self.request, self.lowering, scope)
        self.lowering.symbols[name] = first
        position = edge.index.symbol
        guard = Guard((Comparison(position, ">=", integer(0)), Comparison(position, "<", extent)))
        body = (edge, If(guard, tuple(as_copy(node) for node in scope.nodes)))
        return (For(Loop(number, integer(0), integer(config.store.width), rolled=True), body),)
