"""Epilogues that write a warpgroup's rows to the buffers that TMA stores: 64 rows by 16, 32 or 64 columns at a time, a
lane's pairs of columns, or matrices of 8 x 8 elements (stmatrix)."""

from __future__ import annotations

from collections.abc import Callable

from cugen.families.gemm.config import WARP
from cugen.families.gemm.wgmma.config import ACCUMULATOR_LANES_N
from cugen.families.gemm.wgmma.epilogues.tensor_store import PAIR, ROW_DISTANCE, ROW_PAIR, TensorStoreEpilogue
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WGMMA_M
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import repeated, value_of
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import Assign, Define, Node, Store, StoreMatrix
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Mod, integer
from cugen.plan.traversal.sections import dissolved
from cugen.spec.expressions import Expr


class PairEpilogue(TensorStoreEpilogue):
    """A lane writes two adjacent columns at a time."""

    @property
    def _rows_of_swizzle(self) -> int:
        """Rows that have the same swizzle: those of 128 bytes."""
        return SWIZZLED_ROW_BYTES // (self.box[1] * self.output.dtype.bytes)

    def _lane_definitions(self) -> tuple[Define, ...]:
        lane, lanes = self.thread.lane, integer(self._rows_of_swizzle * ACCUMULATOR_LANES_N)
        self.swizzle = define("c_swizzle", self.thread.n_in_tile + 8 * FloorDiv(lane, lanes), self.thread.lowering)
        return (self.swizzle,)

    def _statements_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        vectors = self.wgmma_config.chunk_n // 8

        def store(h: Integer, g: Integer, access: Access, value: Expr) -> Node:
            row = self.thread.m_in_tile + ROW_DISTANCE * h - self._first_row(integer(0))
            subscripts = self.warpgroup, buffer, row, BitXor(8 * g, self.swizzle.index.symbol)
            return Store(Access(self.tile, subscripts, "store", access.width), value)

        return self._pairs(matrix, chunk * vectors, vectors, store)

    def _pairs(
        self,
        matrix: Integer,
        first: Integer,
        vectors: int,
        store: Callable[[Integer, Integer, Access, Expr], Node],
    ) -> tuple[Node, ...]:
        """The statements for a thread's pairs in so many groups of 8 columns from the `first` on, of each of its two
        rows of a matrix. `store` takes the row's number, the group's, and what would be stored to the output."""
        thread = self.thread
        half = thread.loop_index("h", ROW_PAIR)
        vector = thread.loop_index("g", vectors)
        h, g = value_of(half), value_of(vector)
        i = ROW_PAIR * matrix + h
        j = PAIR * (first + g)
        (array,) = self.accumulators.arrays
        row = thread.m_in_tile + ROW_DISTANCE * h
        define_m = self._define(self.contraction.m, row + WGMMA_M * matrix)
        define_n = self._define(self.contraction.n, thread.n_in_tile + 8 * (first + g))
        nodes = dissolved(self._statements([lambda v: self._accumulator(array, i, j + v)]))
        staged = self._staged(nodes, lambda access, value: store(h, g, access, value))
        columns = repeated(vector, (define_n, *staged), vectors)
        return repeated(half, (define_m, *columns), ROW_PAIR)


class MatrixEpilogue(PairEpilogue):
    """A warp writes four matrices of 8 x 8 elements at a time: 16 rows by 16 columns."""

    def _lane_definitions(self) -> tuple[Define, ...]:
        # The row of 16 bytes whose address the lane gives: of matrix lane / 8, below or beside the first.
        warp, lane, rows = FloorDiv(self.thread_of_warpgroup, integer(WARP)), self.thread.lane, self._rows_of_swizzle
        matrices = integer(ROW_PAIR * ROW_DISTANCE)
        self.row = define("c_row", 16 * warp + Mod(lane, matrices), self.thread.lowering)
        chunk = Mod(FloorDiv(lane, integer(rows)), integer(ROW_DISTANCE // rows))
        self.swizzle = define("c_swizzle", BitXor(8 * FloorDiv(lane, matrices), 8 * chunk), self.thread.lowering)
        return self.row, self.swizzle

    def _statements_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        """The words of a lane are those of its two rows of the first 8 columns, then of the others."""
        columns = self.wgmma_config.chunk_n // 16
        of_chunk = self.thread.loop_index("part", columns)
        part = value_of(of_chunk)
        name = self.lowering.names.allocate("c_frag")
        words = Vector(name, self.output.dtype.compute, self.output.dtype, PAIR, ROW_PAIR * 2)

        def store(h: Integer, g: Integer, access: Access, value: Expr) -> Node:
            return Assign(words.indexed(ROW_PAIR * g + h), value)

        pairs = self._pairs(matrix, 2 * (chunk * columns + part), 2, store)
        column = BitXor(16 * part, self.swizzle.index.symbol)
        target = self._matrix_row(buffer, self.row.index.symbol, column)
        return repeated(of_chunk, (self._declared(words, pairs), *pairs, StoreMatrix(target, words)), columns)
