"""Epilogue that stores rows that begin anywhere, which TMA can't: accumulators pass through shared memory, a part
of the tile at a time, so that a warp stores consecutive elements of one row.

From registers it would store to 8 rows at once, and L2 merges elements of a sector that are written one by one: a whole
product of 5177 x 4505 x 43 in bfloat16 took 125 us so on an H200, and 34 by rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import WARP
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.families.gemm.wgmma.epilogues.tensor_store import PAIR, ROW_DISTANCE, ROW_PAIR, stores_by_tma
from cugen.machine.mma import WORD_BYTES
from cugen.machine.wgmma import WARPGROUP, WGMMA_M
from cugen.pieces.blocks import define
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, repeated_sections, value_of
from cugen.pieces.vectors import SECTOR_BYTES, stored_width
from cugen.plan.alignment import divisor
from cugen.plan.memory import Access
from cugen.plan.nodes import Declare, For, Loop, NamedBarrier, Node, Section, Store
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import IndexValue

_FRAGMENT_N = 8  # columns of a fragment of accumulators (PTX ISA, wgmma: layout of D)
_MAX_UNROLLED = 4  # elements of a thread: the offsets of more would spill beside the accumulators (ptxas 13.0)


def stores_rows(contraction: Contraction, config: WgmmaConfig) -> bool:
    """Whether a config's epilogue is this one."""
    return config.split_k == 1 and has_unaligned_rows(contraction)


@lru_cache(maxsize=16)
def has_unaligned_rows(contraction: Contraction) -> bool:
    """Whether TMA can't store the results, nor registers in whole sectors: of words in rows that begin anywhere, of
    smaller elements unless a lane stores them in pairs."""
    if stores_by_tma(contraction):
        return False
    request, context = contraction.request, contraction.context
    for statement in request.stored_statements():
        array = context.arrays[statement.target]
        along = [sub for sub, stride in zip(statement.subscripts, array.strides, strict=True) if stride == 1]
        if array.dtype.bytes > WORD_BYTES or along != [IndexValue(contraction.contiguous.name)]:
            return False
        pitches = [divisor(stride, context) * array.dtype.bytes for stride in array.strides if stride != 1]
        if array.dtype.bytes == WORD_BYTES and not any(pitch % SECTOR_BYTES for pitch in pitches):
            return False
    has_words = all(context.arrays[s.target].dtype.bytes == WORD_BYTES for s in request.stored_statements())
    return has_words or contraction.is_swapped or stored_width(request, contraction.n, PAIR) < PAIR


def row_buffer_bytes(contraction: Contraction, config: WgmmaConfig) -> int:
    """Of the buffers of all warpgroups."""
    rows, columns = row_buffer_shape(config)
    pad = _pad(config)
    return config.consumers * rows * (columns + pad) * contraction.reductions[0].dtype.bytes


def row_buffer_shape(config: WgmmaConfig) -> tuple[int, int]:
    """Rows and columns of the output that a warpgroup stores at once."""
    part = math.gcd(int(config.block_n), WARP)
    return (part, WGMMA_M) if config.swaps_ab else (WGMMA_M, part)


def _pad(config: WgmmaConfig) -> int:
    """Elements behind each row, so that the fragments of a warp are in different banks: a half-warp stores pairs to 4
    rows, or a warp elements to 4 pairs of rows. Loads of rows of 16 columns, two by a warp, have conflicts."""
    return ROW_DISTANCE // PAIR if config.swaps_ab else ROW_DISTANCE


class RowEpilogue(Epilogue):
    """A warpgroup writes a part of its accumulators to its buffer, `offset` bytes from the start of shared memory, and
    then computes the statements on rows of it. `wave` is the number of the block's tile; None if it has one only."""

    def __init__(
        self, thread: ThreadCoordinates, block: BlockCoordinates, offset: int | Integer, *, wave: Integer | None
    ) -> None:
        super().__init__(thread)
        self.width = 1  # of the stores of a lane: those of a warp are consecutive
        assert isinstance(thread.config, WgmmaConfig)
        self.wgmma_config = config = thread.config
        self.warpgroup, self.thread_of_warpgroup, self.is_reused = block.warpgroup, block.thread_of_warpgroup, wave
        self.rows, self.columns = row_buffer_shape(config)
        name = thread.lowering.names.allocate("c_rows")
        shape = config.consumers, self.rows, self.columns
        tile = dense_array(name, self.dtype, shape, "shared", _pad(config))
        self.tile = replace(tile, name=name, dynamic=True, dynamic_offset=offset)

    def declarations(self) -> tuple[Node, ...]:
        return (Declare(self.tile),)

    def sections(self) -> tuple[Section, ...]:
        """The loops over the parts of the warpgroup's tile."""
        thread, config, columns = self.thread, self.wgmma_config, integer(self.columns)
        row = define("c_row", FloorDiv(self.thread_of_warpgroup, columns), self.lowering)
        column = define("c_column", Mod(self.thread_of_warpgroup, columns), self.lowering)
        part = self.rows if config.swaps_ab else self.columns
        chunks = int(config.block_n) // part
        matrix, chunk = thread.loop_index("matrix", config.matrices_m), thread.loop_index("chunk", chunks)
        i, c = value_of(matrix), value_of(chunk)
        waits = self.is_reused is not None or config.matrices_m * chunks > 1
        barrier = (NamedBarrier(self.warpgroup, WARPGROUP),)
        body = (
            Section("buffer_read", barrier if waits else ()),
            Section("store_accumulators", self._store_accumulators(i, c * (part // _FRAGMENT_N))),
            Section("buffer_written", barrier),
            Section("statements", self._of_rows(i, part * c, row.index.symbol, column.index.symbol)),
        )
        parts = repeated_sections("chunks", chunk, body, chunks)
        return Section("buffer_row", (row, column)), *repeated_sections("matrices", matrix, parts, config.matrices_m)

    def _store_accumulators(self, matrix: Integer, first: Integer) -> tuple[Node, ...]:
        """Stores the fragments of 8 columns from the `first` on, of a thread's two rows of a matrix."""
        thread, config = self.thread, self.wgmma_config
        (array,) = self.accumulators.arrays
        count = (self.rows if config.swaps_ab else self.columns) // _FRAGMENT_N
        half, vector, pair = (
            thread.loop_index("h", ROW_PAIR),
            thread.loop_index("g", count),
            thread.loop_index("v", PAIR),
        )
        h, g, v = map(value_of, (half, vector, pair))
        m, n = thread.m_in_tile - self._first_row(integer(0)) + ROW_DISTANCE * h, thread.n_in_tile + _FRAGMENT_N * g
        i, j = ROW_PAIR * matrix + h, PAIR * (first + g)
        if config.swaps_ab:
            target = Access(self.tile, (self.warpgroup, n + v, m), "store")
            body = repeated(pair, (Store(target, self._accumulator(array, i, j + v)),), PAIR)
        else:
            target = Access(self.tile, (self.warpgroup, m, n), "store", PAIR)
            body = self._store_vector("acc_vector", lambda v: self._accumulator(array, i, j + v), target)
        return repeated(half, repeated(vector, body, count), ROW_PAIR)

    def _of_rows(self, matrix: Integer, first: Integer, row: Integer, column: Integer) -> tuple[Node, ...]:
        """The statements on a thread's elements of the buffer, whose rows or columns are the tile's from the `first`
        on."""
        config, rows = self.wgmma_config, WARPGROUP // self.columns
        passes = self.thread.loop_index("e", self.rows // rows)
        row = row + rows * value_of(passes)
        m, n = (column, row + first) if config.swaps_ab else (row, column + first)
        total = Access(self.tile, (self.warpgroup, row, column), "load")
        loads, value = self._loaded(total)
        statements = self._statements_at(m + self._first_row(matrix), n, value, loads)
        if passes.range[1] < _MAX_UNROLLED:
            return repeated(passes, statements, self.rows // rows)
        loop = Loop(passes, integer(0), integer(self.rows // rows), unroll_by=_MAX_UNROLLED)
        return (For(loop, statements),)

    def _first_row(self, matrix: Integer) -> Integer:
        """The first row of a matrix of the warpgroup, in the block tile."""
        return self.warpgroup * integer(WGMMA_M * self.wgmma_config.matrices_m) + WGMMA_M * matrix
