"""Epilogue that stores results by TMA: accumulators become elements of the output in shared memory, 64 rows by 16, 32
or 64 columns at a time, which one thread of a warpgroup copies while the next ones are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.tensor_cores import MATRIX_ROW_BYTES
from cugen.families.gemm.wgmma.config import ACCUMULATOR_LANES_N, WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.families.gemm.wgmma.operands import matrix_box, tensor_array, tensor_refusals, tensor_subscripts
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WARPGROUP, WGMMA_M
from cugen.pieces.blocks import define
from cugen.pieces.grid import divides
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, repeated_sections, value_of
from cugen.pieces.vectors import stored_width
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import (
    Assign,
    Comparison,
    Declare,
    Define,
    For,
    If,
    Let,
    NamedBarrier,
    Node,
    Section,
    Store,
    StoreMatrix,
    when,
)
from cugen.plan.pipeline_nodes import AwaitTensorStores, CommitTensorStores, FenceProxy, TensorStore
from cugen.plan.symbols import INT32_MAX, BitXor, FloorDiv, Integer, Mod, bounds, integer
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Const, Expr, IndexValue, Read, free_indices, walk

_STORED_BYTES = 2  # of elements: registers store wider ones in whole sectors (measured on an H200)
_PAIR = 2  # adjacent columns of a lane
_ROW_PAIR, _ROW_DISTANCE = 2, 8  # rows of a lane in a matrix of 64 (PTX ISA, wgmma: layout of D)


@lru_cache(maxsize=16)
def stores_by_tma(contraction: Contraction) -> bool:
    """Whether the results are elements of 16 bits that a tensor map describes, in pairs as a lane has them, and are
    stored once."""
    request = contraction.request
    stored = request.stored_statements()
    if len(stored) != 1 or any(statement.accumulate for statement in request.group.statements):
        return False
    (statement,) = stored
    array = request.context.arrays[statement.target]
    is_read = any(read.array == statement.target for read in request.reads())
    refused = any(tensor_refusals(array, statement.subscripts, contraction.n.name, request.context))
    refused = refused or stored_width(request, contraction.n, _PAIR) < _PAIR
    return array.dtype.bytes == _STORED_BYTES and not is_read and not refused


def has_wide_offsets(contraction: Contraction) -> bool:
    """Whether threads store to an output whose offsets may exceed 32 bits."""
    context, target = contraction.context, contraction.request.group.statements[-1].target
    elements = bounds(context.elements(context.spec.array(target)), context.ranges)[1]
    return not stores_by_tma(contraction) and elements > INT32_MAX


class TensorStoreEpilogue(Epilogue):
    """Each warpgroup has `store_buffers` buffers, `offset` bytes from the start of shared memory, which a block uses
    again for its next output tile. `wave` is the number of its tile; None if it has one only."""

    def __init__(
        self,
        thread: ThreadCoordinates,
        block: BlockCoordinates,
        offset: int,
        *,
        wave: Integer | None,
    ) -> None:
        super().__init__(thread)
        assert isinstance(thread.config, WgmmaConfig)
        self.wgmma_config = thread.config
        self.warpgroup, self.thread_of_warpgroup = block.warpgroup, block.thread_of_warpgroup
        self.wave = wave
        (statement,) = self.request.stored_statements()
        self.statement = statement
        context = self.request.context
        self.output = context.arrays[statement.target]
        config, names = thread.config, thread.lowering.names
        row_bytes = config.chunk_n * self.output.dtype.bytes
        m = self.contraction.m.name
        box = matrix_box(self.output, statement.subscripts, m, (WGMMA_M, config.chunk_n), context)
        name = names.allocate(f"{self.output.symbol}_map")
        self.target = tensor_array(self.output, box, row_bytes, name, context)
        shape = (config.consumers, config.store_buffers, WGMMA_M, config.chunk_n)
        tile = dense_array(names.allocate("c_tile"), self.output.dtype, shape, "shared")
        self.tile = replace(tile, name=self.output.name, dynamic=True, dynamic_offset=offset)
        # The swizzle of TMA: 16-byte chunk c of row r is at c ^ (r % 8), in rows of 64 bytes at c ^ (r / 2 % 4), of 32
        # bytes at c ^ (r / 4 % 2).
        rows = SWIZZLED_ROW_BYTES // row_bytes
        self.row: tuple[Define, ...] = ()
        if config.stores_matrices:
            # The row of 16 bytes whose address the lane gives: of matrix lane / 8, below or beside the first.
            warp, lane = FloorDiv(self.thread_of_warpgroup, integer(WARP)), thread.lane
            in_matrices = 16 * warp + Mod(lane, integer(_ROW_PAIR * _ROW_DISTANCE))
            self.row = (define("c_row", in_matrices, thread.lowering),)
            chunk = Mod(FloorDiv(lane, integer(rows)), integer(_ROW_DISTANCE // rows))
            swizzle = BitXor(8 * FloorDiv(lane, integer(_ROW_PAIR * _ROW_DISTANCE)), 8 * chunk)
        else:
            swizzle = thread.n_in_tile + 8 * FloorDiv(thread.lane, integer(rows * ACCUMULATOR_LANES_N))
        self.swizzle = define("c_swizzle", swizzle, thread.lowering)
        # Results beyond the output are left out by TMA: only where arrays are read must indices be inside.
        reads = (e for e in walk(statement.value) if isinstance(e, Read) and e not in self.accumulated)
        self.read_at = frozenset[str]().union(*map(free_indices, reads))
        n = self.contraction.n.name
        is_checked = n in self.read_at and not thread.exact[n]
        self.checks_chunks = is_checked and divides(config.chunk_n, self.extents[n], context)

    @property
    def bytes(self) -> int:
        """Of all buffers in shared memory."""
        config = self.wgmma_config
        return config.consumers * config.store_buffers * WGMMA_M * config.chunk_n * self.output.dtype.bytes

    def declarations(self) -> tuple[Node, ...]:
        return (Declare(self.tile),)

    def sections(self) -> tuple[Section, ...]:
        """The loops over the parts of the warpgroup's tile."""
        thread, config = self.thread, self.wgmma_config
        chunks = int(config.block_n) // config.chunk_n
        matrix = thread.loop_index("matrix", config.matrices_m)
        chunk = thread.loop_index("chunk", chunks)
        i, c = value_of(matrix), value_of(chunk)
        buffer = Mod(self._first_chunk() + i * chunks + c, integer(config.store_buffers))
        m = thread.tile_origin[self.contraction.m.name] + self._first_row(i)
        n = thread.tile_origin[self.contraction.n.name] + config.chunk_n * c
        batch = {index.name: self.lowering.symbols[index.name] for index in self.contraction.batch}
        coordinates = {self.contraction.m.name: m, self.contraction.n.name: n, **batch}
        read = (coordinates[sub.name] for sub in self.statement.subscripts if isinstance(sub, IndexValue))
        target = tensor_subscripts(self.output, tuple(read), self.request.context)
        store = TensorStore(
            Access(self.target, target, "tensor_store"),
            Access(self.tile, (self.warpgroup, buffer, integer(0), integer(0)), "tensor_load"),
        )
        statements = Section("statements", self._checked(c, self._statements_of_chunk(i, c, buffer)))
        swizzle = Section("swizzle", (*self.row, self.swizzle))
        if config.stores_at_once:
            parts = repeated_sections("chunks", chunk, (statements,), chunks)
            written = repeated_sections("matrices", matrix, parts, config.matrices_m)
            stores = repeated(matrix, repeated(chunk, (store,), chunks), config.matrices_m)
            awaited = self._awaited("tile_", self.wave is not None, 0)
            return swizzle, *awaited, *written, *self._stored("tile_", *stores)
        waits = self.wave is not None or config.chunks > config.store_buffers
        body = (*self._awaited("", waits, config.store_buffers - 1), statements, *self._stored("", store))
        parts = repeated_sections("chunks", chunk, body, chunks)
        return swizzle, *repeated_sections("matrices", matrix, parts, config.matrices_m)

    def _awaited(self, prefix: str, waits: bool, pending: int) -> tuple[Section, ...]:
        """Where a buffer `waits` for an earlier store: until all but so many have read theirs. `prefix` tells sections
        of the tile from those of a chunk: of a single chunk both are at one level of the template."""
        awaited = self._by_first_thread(AwaitTensorStores(pending)) if waits else ()
        barrier = (NamedBarrier(self.warpgroup, WARPGROUP),) if waits else ()
        return Section(f"{prefix}await_buffer", awaited), Section(f"{prefix}buffer_read", barrier)

    def _stored(self, prefix: str, *stores: Node) -> tuple[Section, ...]:
        """The stores of buffers that all threads of the warpgroup have written."""
        return (
            Section(f"{prefix}fence_proxy", (FenceProxy(),)),
            Section(f"{prefix}buffer_written", (NamedBarrier(self.warpgroup, WARPGROUP),)),
            Section(f"{prefix}store", self._by_first_thread(*stores, CommitTensorStores())),
        )

    def _by_first_thread(self, *nodes: Node) -> tuple[Node, ...]:
        return (when(self.thread_of_warpgroup, "==", integer(0), nodes),)

    def drain(self) -> tuple[Node, ...]:
        """After the last tile: no block may leave while its shared memory is read."""
        return self._by_first_thread(AwaitTensorStores(0))

    def _first_chunk(self) -> Integer:
        """The number of the tile's first chunk among those of the block, where tiles begin with different buffers."""
        config = self.wgmma_config
        if self.wave is None or config.chunks % config.store_buffers == 0:
            return integer(0)
        return self.wave * config.chunks

    def _first_row(self, matrix: Integer) -> Integer:
        """The first row of a matrix of the warpgroup, in the block tile."""
        return self.warpgroup * integer(WGMMA_M * self.wgmma_config.matrices_m) + WGMMA_M * matrix

    def _bounds_check(self) -> Iterator[Comparison]:
        """The bounds of the indices at which the statement reads arrays."""
        for index in (*self.contraction.batch, self.contraction.m, self.contraction.n):
            is_exact = self.thread.exact.get(index.name, True)
            if not is_exact and index.name not in self.read_at:
                continue
            coordinate = self.lowering.symbols[index.name]
            if not is_exact and not (index == self.contraction.n and self.checks_chunks):
                yield Comparison(coordinate, "<", self.extents[index.name])
            self.lowering.limits[coordinate] = self.extents[index.name]

    def _checked(self, chunk: Integer, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The statements of a chunk, under a condition where it is wholly inside of the output or outside."""
        if not self.checks_chunks:
            return nodes
        n = self.contraction.n.name
        first = self.thread.tile_origin[n] + self.wgmma_config.chunk_n * chunk
        return (when(first, "<", self.extents[n], nodes),)

    def _statements_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        """The statements for a thread's elements of a chunk, stored to its buffer."""
        vectors = self.wgmma_config.chunk_n // 8
        if self.wgmma_config.stores_matrices:
            return self._matrices_of_chunk(matrix, chunk, buffer)

        def store(h: Integer, g: Integer, access: Access, value: Expr) -> Node:
            row = self.thread.m_in_tile + _ROW_DISTANCE * h - self._first_row(integer(0))
            subscripts = self.warpgroup, buffer, row, BitXor(8 * g, self.swizzle.index.symbol)
            return Store(Access(self.tile, subscripts, "store", access.width), value)

        return self._pairs(matrix, chunk * vectors, vectors, store)

    def _matrices_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        """As `_statements_of_chunk`, with a store of four matrices for 16 rows by 16 columns of a warp. The words of a
        lane are those of its two rows of the first 8 columns, then of the others."""
        columns = self.wgmma_config.chunk_n // 16
        of_chunk = self.thread.loop_index("part", columns)
        part = value_of(of_chunk)
        name = self.lowering.names.allocate("c_frag")
        words = Vector(name, self.output.dtype.compute, self.output.dtype, _PAIR, _ROW_PAIR * 2)

        def store(h: Integer, g: Integer, access: Access, value: Expr) -> Node:
            return Assign(words.indexed(_ROW_PAIR * g + h), value)

        pairs = self._pairs(matrix, 2 * (chunk * columns + part), 2, store)
        (row,) = (node.index.symbol for node in self.row)
        subscripts = self.warpgroup, buffer, row, BitXor(16 * part, self.swizzle.index.symbol)
        target = Access(self.tile, subscripts, "matrix_store", MATRIX_ROW_BYTES // self.output.dtype.bytes)
        # Of elements outside the output there may be no value, and TMA leaves them out.
        is_guarded = any(isinstance(node, If) for node in walk_nodes(pairs))
        declared = Let(words, Const(0, self.output.dtype.compute) if is_guarded else None)
        return repeated(of_chunk, (declared, *pairs, StoreMatrix(target, words)), columns)

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
        half = thread.loop_index("h", _ROW_PAIR)
        vector = thread.loop_index("g", vectors)
        h, g = value_of(half), value_of(vector)
        i = _ROW_PAIR * matrix + h
        j = 2 * (first + g)
        (array,) = self.accumulators.arrays
        row = thread.m_in_tile + _ROW_DISTANCE * h
        define_m = self._define(self.contraction.m, row + WGMMA_M * matrix)
        define_n = self._define(self.contraction.n, thread.n_in_tile + 8 * (first + g))
        nodes = dissolved(self._statements([lambda v: self._accumulator(array, i, j + v)]))
        staged = self._staged(nodes, partial(store, h, g))
        columns = repeated(vector, (define_n, *staged), vectors)
        return repeated(half, (define_m, *columns), _ROW_PAIR)

    def _staged(self, nodes: tuple[Node, ...], store: Callable[[Access, Expr], Node]) -> tuple[Node, ...]:
        """The nodes with what is to be stored instead of to the output."""
        return tuple(self._staged_node(node, store) for node in nodes)

    def _staged_node(self, node: Node, store: Callable[[Access, Expr], Node]) -> Node:
        match node:
            case Store() if node.access.array == self.output:
                return store(node.access, node.value)
            case For():
                return replace(node, body=self._staged(node.body, store))
            case If():
                return replace(node, then=self._staged(node.then, store))
        return node
