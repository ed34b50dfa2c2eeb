"""The epilogue of swapped operands: the rows of accumulators are columns of the output, and become rows of the buffers
that TMA stores by transposed matrices of 8 x 8 elements (stmatrix.trans)."""

from __future__ import annotations

from cugen.families.gemm.config import WARP
from cugen.families.gemm.wgmma.epilogues.tensor_store import PAIR, ROW_DISTANCE, ROW_PAIR, TensorStoreEpilogue
from cugen.machine.wgmma import SWIZZLE_PERIOD_ROWS, WGMMA_M
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import repeated, value_of
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import Assign, Comparison, Define, Guard, Node, StoreMatrix
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Mod, integer
from cugen.plan.traversal.sections import dissolved
from cugen.spec.expressions import Expr, Index


class TransposedEpilogue(TensorStoreEpilogue):
    """A buffer has 64 columns of the output, those of a matrix, by `chunk_n` rows. A warp writes 16 columns by 16 rows
    at a time, or by 8 where an odd number of 8 rows are stored at once."""

    @property
    def row_index(self) -> Index:
        return self.contraction.n

    @property
    def box(self) -> tuple[int, int]:
        return self.wgmma_config.chunk_n, WGMMA_M

    @property
    def _groups(self) -> int:
        """Groups of 8 rows that a warp writes at a time."""
        return 1 if self.wgmma_config.chunk_n // ROW_DISTANCE % 2 else 2

    def _lane_definitions(self) -> tuple[Define, ...]:
        # The row of 16 bytes whose address the lane gives: of matrix lane / 8, beside or below the first.
        warp, lane = FloorDiv(self.thread_of_warpgroup, integer(WARP)), self.thread.lane
        row = Mod(lane, integer(SWIZZLE_PERIOD_ROWS))
        in_matrices = row if self._groups == 1 else row + ROW_DISTANCE * FloorDiv(lane, integer(2 * ROW_DISTANCE))
        self.row = define("c_row", in_matrices, self.lowering)
        column = 16 * warp + 8 * Mod(FloorDiv(lane, integer(ROW_DISTANCE)), integer(ROW_PAIR))
        self.column = define("c_column", BitXor(column, 8 * row), self.lowering)
        return self.row, self.column

    def _statements_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        """The words of a lane are those of its two columns of the first 8 rows, then of the others."""
        groups, dtype = self._groups, self.output.dtype
        parts = self.wgmma_config.chunk_n // (groups * ROW_DISTANCE)
        of_chunk = self.thread.loop_index("part", parts)
        part = value_of(of_chunk)
        name = self.lowering.names.allocate("c_frag")
        words = Vector(name, dtype.compute, dtype, PAIR, ROW_PAIR * groups)
        elements = self._elements(matrix, groups * (chunk * parts + part), words)
        row = self.row.index.symbol + groups * ROW_DISTANCE * part
        target = self._matrix_row(buffer, row, self.column.index.symbol)
        lanes = integer(words.count * ROW_DISTANCE)
        guard = None if words.count == 4 else Guard((Comparison(self.thread.lane, "<", lanes),))
        store = StoreMatrix(target, words, transposed=True, guard=guard)
        return repeated(of_chunk, (self._declared(words, elements), *elements, store), parts)

    def _elements(self, matrix: Integer, first: Integer, words: Vector) -> tuple[Node, ...]:
        """The statements for a thread's elements of its two columns, in groups of 8 rows from the `first` on."""
        thread = self.thread
        of_columns, of_groups = thread.loop_index("h", ROW_PAIR), thread.loop_index("g", self._groups)
        of_rows = thread.loop_index("v", PAIR)
        h, g, v = value_of(of_columns), value_of(of_groups), value_of(of_rows)
        (array,) = self.accumulators.arrays
        column = thread.m_in_tile + ROW_DISTANCE * h + WGMMA_M * matrix
        define_column = self._define(self.contraction.m, column)
        define_row = self._define(self.contraction.n, thread.n_in_tile + v + ROW_DISTANCE * (first + g))
        i, j = ROW_PAIR * matrix + h, PAIR * (first + g) + v
        nodes = dissolved(self._statements([lambda _: self._accumulator(array, i, j)]))
        component = words.indexed(ROW_PAIR * g + h).component(v)

        def store(access: Access, value: Expr) -> Node:
            return Assign(component, value)

        rows = repeated(of_rows, (define_row, *self._staged(nodes, store)), PAIR)
        return repeated(of_columns, (define_column, *repeated(of_groups, rows, self._groups)), ROW_PAIR)
