"""Copies a block's matrices from global to shared memory, coalesced, with several loads in flight per thread."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.batched.config import BatchConfig, SharedTile
from cugen.families.gemm.tile_layout import tile_name
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import shared_loop_variable, value_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, Index, Loop, Node, when
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Minimum, Mod, Range, integer

_MAX_LOADS_IN_FLIGHT = 16  # per thread: the unroll limit of the copy loop (heuristic)


class MatrixCopies:
    """The tile of an operand: `array` is [matrix][row][column], or [matrix][element] if there is padding between
    matrices; a single matrix has no dimension of its own."""

    def __init__(self, contraction: Contraction, tile: SharedTile, config: BatchConfig, lowering: Lowering) -> None:
        self.contraction, self.tile, self.config, self.lowering = contraction, tile, config, lowering
        self.source = tile.operand.array
        is_dense = tile.matrix_stride == tile.slow_extent * tile.pitch
        self._has_matrices = tile.is_batched and config.batch > 1
        sizes = (config.batch, *((tile.slow_extent, tile.pitch) if is_dense else (tile.matrix_stride,)))
        name, width = lowering.names.allocate(tile_name(self.source.name)), max(tile.load_width, tile.read_width)
        array = dense_array(name, self.source.dtype, sizes if self._has_matrices else sizes[1:], "shared")
        self.array = replace(array, name=self.source.name, align=width * self.source.dtype.bytes if width > 1 else 0)

    def access(self, matrix: Integer, row: Integer, column: Integer, kind: str, width: int) -> Access:
        is_dense = len(self.array.shape) == 2 + self._has_matrices
        element = (row, column) if is_dense else (row * self.tile.pitch + column,)
        return Access(self.array, (matrix, *element) if self._has_matrices else element, kind, width)

    def copies(self, batch0: Integer, thread: Integer) -> tuple[Node, ...]:
        """Copies of the matrices from the batch index `batch0` on; `thread` is the thread rank."""
        threads = self.config.threads
        rounds, left = divmod(self.tile.vectors * (self.config.batch if self._has_matrices else 1), threads)
        nodes: tuple[Node, ...] = ()
        if rounds:
            iteration = shared_loop_variable("u", (0, rounds - 1), self.lowering)
            vector = value_of(iteration) * threads + thread
            nodes = self._copy(vector, (0, rounds * threads - 1), batch0, is_repeated=rounds > 1)
            if rounds > 1:
                is_unrolled = rounds <= _MAX_LOADS_IN_FLIGHT
                unroll_by = 0 if is_unrolled else _MAX_LOADS_IN_FLIGHT
                nodes = (
                    For(Loop(iteration, integer(0), integer(rounds), unroll=is_unrolled, unroll_by=unroll_by), nodes),
                )
        if left:  # apart, so that the others have no branch between their loads
            first = rounds * threads
            last = self._copy(thread + first, (first, first + left - 1), batch0, is_repeated=False)
            nodes += (when(thread, "<", integer(left), last),)
        return nodes

    def _copy(self, vector: Integer, vectors: Range, batch0: Integer, *, is_repeated: bool) -> tuple[Node, ...]:
        """The copy of vector `vector` of the block's matrices, one of `vectors`."""
        tile, lowering = self.tile, self.lowering
        vectors_per_row = tile.fast_extent // tile.load_width
        nodes: list[Node] = []

        def named(name_hint: str, value: Integer, values: Range) -> Integer:
            if value.is_Integer or value.is_Symbol:
                return value
            if is_repeated:
                index = replace(shared_loop_variable(name_hint, values, lowering), definition=value)
            else:
                index = Index(lowering.names.allocate(f"{self.array.symbol.lower()}_{name_hint}"), value, values)
                lowering.ranges[index.symbol] = values
            nodes.append(Define(index))
            return index.symbol

        vector = named("vector", vector, vectors)
        row, matrix = FloorDiv(vector, integer(vectors_per_row)), integer(0)
        if self._has_matrices:
            matrix = named("matrix", FloorDiv(vector, integer(tile.vectors)), (0, self.config.batch - 1))
            row = Mod(row, integer(tile.slow_extent))
        row = named("row", row, (0, tile.slow_extent - 1))
        column = Mod(vector, integer(vectors_per_row)) * tile.load_width
        column = named("column", column, (0, tile.fast_extent - tile.load_width))
        batch, batch_index = batch0 + matrix if tile.is_batched else integer(0), self.contraction.batch[0]
        count = to_integer(batch_index.extent, lowering.symbols)
        if lowering.needed(Guard((Comparison(batch, "<", count),))).terms:
            batch = Minimum(batch, count - 1)  # past the last matrix that one again; a branch would separate the loads
        k, mn = (column, row) if tile.operand.is_k_major else (row, column)
        coordinates = {self.contraction.k.name: k, tile.mn.index.name: mn, batch_index.name: batch}
        subscripts = (to_integer(sub, {**lowering.symbols, **coordinates}) for sub in tile.operand.read.subscripts)
        copy = Copy(
            self.access(matrix, row, column, "store", tile.load_width),
            Access(self.source, tuple(subscripts), "load", tile.load_width),
        )
        return (*nodes, copy)
