"""The packed-tile transpose for outputs whose rows begin inside a 32-byte sector.

A sector that two blocks, or two stores of one block, write in part costs more than one full write. So a block's part
of an output row starts at a sector boundary, up to a sector before its tile, and the tile has that many more rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from cugen.families.transpose.packed_tile import PackedTileKernel
from cugen.pieces.blocks import blocks_to_cover, define, define_index, limit
from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.sections import guarded
from cugen.pieces.vector_body import ConsecutiveElements, row_end_elements
from cugen.pieces.vectors import MAX_ACCESS_BYTES, define_misalignment, is_contiguous
from cugen.plan.nodes import Comparison, Define, Guard, If, Node, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, ceil_div, integer


class ShiftedRowsKernel(PackedTileKernel):
    def counts(self) -> list[Integer]:
        """Enough tiles that a row that starts almost a sector early still reaches its end."""
        across, down = self.extents[:2]
        first = blocks_to_cover(across, self.config.step, self.config.shift, self.lowering.ranges)
        return [first, ceil_div(down, self.config.down)]

    @cached_property
    def output_vector(self) -> ConsecutiveElements:
        """The vector of output elements; operands with the output's alignment are loaded in vectors."""
        transpose, width, name = self.transpose, self.config.store.width, self.transpose.across.name
        wide = {}
        for read in certain_reads(self.request, transpose.arrays):
            reference, array = (read.array, read.subscripts), transpose.arrays[read.array]
            is_operand = read not in transpose.reads and array.space in IN_MEMORY
            is_vector = is_operand and is_contiguous(array, read.subscripts, name)
            if is_vector and transpose.have_equal_alignment(reference, transpose.outputs[0], width):
                wide[read] = min(width, MAX_ACCESS_BYTES // array.dtype.bytes)
        return ConsecutiveElements(self.request, transpose.arrays, name, self.extents[0], width, wide)

    def _source_row(self, row: Integer, count: int, scope: list[Node]) -> Integer:
        """The first `shift` tile rows precede the block's own, clamped to 0 in the first block."""
        extent = self.extents[0]
        row_index = Minimum(self.first[0] + row * count - self.config.shift, extent - count)
        node = define(f"{self.transpose.across.name}_in", Maximum(row_index, integer(0)), self.lowering)
        limit(node.index, extent, self.lowering)
        scope.append(node)
        return node.index.symbol

    def store(self) -> tuple[Section, ...]:
        """Loads tile columns and stores output rows; the loop over rows is the outer one."""
        config, lowering = self.config, self.lowering
        threads = self._thread_in_row(config.store, "")
        step = config.threads // config.store.lanes
        r, rows = self._index("r", config.down, step)
        n = define_index(self.transpose.down.name, self.first[1] + self.ty + r, self.extents[1], lowering)
        outer = Scope()
        inner = Scope(outer, frozenset((self.transpose.down.name,)))
        column = self._column(self.ty + r + config.lead, inner.nodes)
        # Tiles are multiples of a sector apart, so the row within the tile decides its misalignment.
        symbols = {**lowering.symbols, self.transpose.down.name: self.ty + r}
        arrays, output, along = self.transpose.arrays, self.transpose.outputs[0], self.transpose.across.name
        misalignment = define_misalignment(arrays, output, along, config.shift, lowering, symbols)
        inner.nodes.append(misalignment)
        vectors = self._row(inner, misalignment, column)
        in_row = Section("outer_invariants", tuple(inner.nodes)), *vectors
        body = Section("outer_index", (n,)), *self.in_column("outer_in_bounds", self.ty + r, n, in_row)
        return (
            Section("store_threads", threads),
            Section("loop_invariants", tuple(outer.nodes)),
            *self._loop("outer_loop", rows, step, body),
        )

    def _row(self, scope: Scope, misalignment: Define, column: Integer) -> tuple[Section, ...]:
        """The block's part of a row of the output."""
        config, name, width = self.config, self.transpose.across.name, self.config.store.width
        c, columns = self._index("c", config.step, config.store.span)
        along = c + self.tx * width
        row = define("row", along + config.shift - misalignment.index.symbol, self.lowering)
        name_hint = f"{name}_first" if self.needs_index else name
        element = define(name_hint, self.first[0] + row.index.symbol - config.shift, self.lowering)
        first, extent = element.index.symbol, self.extents[0]
        self.lowering.symbols[name] = first
        is_inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + (width - 1), "<", extent)))
        full_scope, ends_scope = (Scope(scope, frozenset((name,)), certain=False) for _ in range(2))
        tile_row = row.index.symbol
        word = FloorDiv(tile_row, integer(config.pack))
        full = self.vector(self.lowering.branch(), full_scope, tile_row, word, column)
        in_tile = replace(self.output_vector, staged=self.elements(tile_row, column))
        scalars = (row_end_elements(in_tile, self.lowering.branch(), ends_scope),)
        body: tuple[Section, ...] = (
            Section("first_element", (row, element)),
            Section("full_vector", (If(is_inside, full, scalars),)),
        )
        if config.step % config.store.span:
            body = guarded("inner_in_bounds", (Comparison(along, "<", integer(config.step)),), body)
        return self._loop("inner_loop", columns, config.store.span, body)
