"""The packed-tile transpose for narrow elements whose input rows begin anywhere.

Vectors of a row start at multiples of their width in the array, the first one up to so many elements before the block's
part of the row; shared memory moves each element to its place in the tile:

    const int start = row * N + n0;
    const auto x8 = load<8>(&x[8 * (start / 8 + tx_in)]);
    tile[row][8 * tx_in - start % 8 + 8 + v] = x8.data[v];
"""

from __future__ import annotations

from cugen.families.transpose.packed_tile import PackedTileKernel
from cugen.families.transpose.shifted_rows import ShiftedRowsKernel
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import loop_variable, unrolled
from cugen.pieces.vector_body import vector_of, which_of
from cugen.pieces.vectors import offset_of
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comment, Load, Node, Section, Store
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, integer
from cugen.spec.expressions import Read


class UnalignedRowsKernel(PackedTileKernel):
    def load(self) -> tuple[Section, ...]:
        """Copies input rows to the tile, one row of elements by each thread."""
        config = self.config
        threads, step = self._thread_in_row(config.load, "_in"), config.threads // config.load.lanes
        threads = (*threads, Comment("beyond the edges the last elements are loaded again, and not stored"))
        c, columns = self._index("c", config.down + config.lead, config.load.span)
        r, rows = self._index("r", config.across, step)
        row = self.ty + r
        inner: list[Node] = []
        m_in = self._source_row(row, 1, inner)
        elements: list[Node] = []
        for read, tile in self.tiles.items():
            elements += self._fill_row(read, tile, m_in, row, c)
        filled: tuple[Section, ...] = (Section("fill_tile", tuple(elements)),)
        load_rows = self._loop("load_rows", rows, step, (Section("load_row", tuple(inner)), *filled))
        return (Section("load_threads", threads), *self._loop("load_columns", columns, config.load.span, load_rows))

    def _fill_row(self, read: Read, tile: Array, m_in: Integer, row: Integer, c: Integer) -> tuple[Node, ...]:
        """A vector of the row, or the array's last one again."""
        transpose, lowering, width = self.transpose, self.lowering, self.config.load.width
        array, reference = transpose.arrays[read.array], (read.array, read.subscripts)
        symbols = {**lowering.symbols, transpose.across.name: m_in, transpose.down.name: self.first[1]}
        start = define("start", offset_of(transpose.arrays, reference, symbols), lowering)
        first = start.index.symbol
        misalignment = define("misalignment_in", Mod(first, integer(width)), lowering)
        elements = self.context.elements_of(array)
        number = FloorDiv(first, integer(width)) + self.tx + FloorDiv(c, integer(width))
        vector = define("vector", Minimum(number, FloorDiv(elements, integer(width)) - 1), lowering)
        shifted = c + self.tx * width + self.config.lead - misalignment.index.symbol
        column = define("column", shifted, lowering)
        flat, pack = array.flattened(elements), integer(self.config.pack)
        loaded = vector_of(array, read.array, width, lowering, which=which_of(read, self.tiles))
        v = loop_variable("v", width, lowering)
        element = (column.index.symbol + v.symbol) * pack + Mod(row, pack)
        store = Store(Access(tile, (FloorDiv(row, pack), element), "store"), loaded.component(v.symbol))
        load = Load(loaded, Access(flat, (vector.index.symbol * width,), "load", width))
        return start, misalignment, vector, column, load, unrolled(v, (store,))


class UnalignedShiftedRowsKernel(UnalignedRowsKernel, ShiftedRowsKernel):
    """For output rows that begin inside sectors, too."""
