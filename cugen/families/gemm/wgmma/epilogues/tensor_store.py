"""Epilogue that stores results by TMA: accumulators become elements of the output in shared memory, a part of the tile
at a time, which one thread of a warpgroup copies while the next ones are computed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.tensor_cores import MATRIX_ROW_BYTES
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.families.gemm.wgmma.operands.tiles import (
    matrix_box,
    store_refusals,
    tensor_array,
    tensor_subscripts,
    within_indices,
)
from cugen.machine.wgmma import WARPGROUP, WGMMA_M
from cugen.pieces.grid import divides
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, repeated_sections, value_of
from cugen.pieces.vectors import stored_width
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import (
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
    when,
)
from cugen.plan.pipeline_nodes import AwaitTensorStores, CommitTensorStores, FenceProxy, TensorStore
from cugen.plan.symbols import INT32_MAX, Integer, Mod, bounds, integer
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Const, Expr, Index, Read, free_indices, walk

_STORED_BYTES = 2  # of elements: registers store wider ones in whole sectors (measured on an H200)
PAIR = 2  # adjacent columns of a lane
ROW_PAIR, ROW_DISTANCE = 2, 8  # rows of a lane in a matrix of 64 (PTX ISA, wgmma: layout of D)


@lru_cache(maxsize=16)
def stores_by_tma(contraction: Contraction) -> bool:
    """Whether the results are elements of 16 bits that a tensor map describes, in pairs where a lane has two of a row,
    and are stored once."""
    request = contraction.request
    stored = request.stored_statements()
    if len(stored) != 1 or any(statement.accumulate for statement in request.group.statements):
        return False
    (statement,) = stored
    array = request.context.arrays[statement.target]
    is_read = any(read.array == statement.target for read in request.reads())
    refused = any(store_refusals(contraction, array, statement.subscripts))
    refused = refused or (not contraction.is_swapped and stored_width(request, contraction.n, PAIR) < PAIR)
    return array.dtype.bytes == _STORED_BYTES and not is_read and not refused


def has_wide_offsets(contraction: Contraction) -> bool:
    """Whether threads store to an output whose offsets may exceed 32 bits."""
    context, target = contraction.context, contraction.request.group.statements[-1].target
    elements = bounds(context.elements(context.spec.array(target)), context.ranges)[1]
    return not stores_by_tma(contraction) and elements > INT32_MAX


class TensorStoreEpilogue(Epilogue):
    """A warpgroup writes its tile to shared memory in parts, which are boxes of the output. It has `store_buffers`
    buffers for them, `offset` bytes from the start of shared memory, which a block uses again for its next output tile.
    `wave` is the number of its tile; None if it has one only."""

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
        names, (rows, columns) = thread.lowering.names, self.box
        box = matrix_box(self.output, statement.subscripts, self.row_index.name, self.box, context)
        name = names.allocate(f"{self.output.symbol}_map")
        extents = {index.name: context.extent(index) for index in (self.contraction.m, self.contraction.n)}
        stored = within_indices(self.output, statement.subscripts, extents)
        self.target = tensor_array(stored, box, columns * self.output.dtype.bytes, name, context)
        shape = (self.wgmma_config.consumers, self.wgmma_config.store_buffers, rows, columns)
        tile = dense_array(names.allocate("c_tile"), self.output.dtype, shape, "shared")
        self.tile = replace(tile, name=self.output.name, dynamic=True, dynamic_offset=offset)
        self.lane_definitions = self._lane_definitions()
        # Results beyond the output are left out by TMA: only where arrays are read must indices be inside.
        reads = (e for e in walk(statement.value) if isinstance(e, Read) and e not in self.accumulated)
        self.read_at = frozenset[str]().union(*map(free_indices, reads))
        n = self.contraction.n.name
        is_checked = n in self.read_at and not thread.exact[n]
        self.checks_chunks = is_checked and divides(self.wgmma_config.chunk_n, self.extents[n], context)

    @property
    def bytes(self) -> int:
        """Of all buffers in shared memory."""
        return self.wgmma_config.store_bytes(self.output.dtype.bytes)

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
        target = tensor_subscripts(self.output, self.statement.subscripts, coordinates, self.request.context)
        store = TensorStore(
            Access(self.target, target, "tensor_store"),
            Access(self.tile, (self.warpgroup, buffer, integer(0), integer(0)), "tensor_load"),
        )
        statements = Section("statements", self._checked(c, self._statements_of_chunk(i, c, buffer)))
        swizzle = Section("swizzle", self.lane_definitions)
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
            Section(f"{prefix}store", self._by_first_thread(*stores, CommitTensorStores(), *self._awaited_at_once())),
        )

    def _awaited_at_once(self) -> tuple[Node, ...]:
        """What waits for the only store of a block, which nothing follows."""
        config = self.wgmma_config
        is_only = self.wave is None and (config.stores_at_once or config.chunks == 1)
        return (AwaitTensorStores(0),) if is_only else ()

    def _by_first_thread(self, *nodes: Node) -> tuple[Node, ...]:
        return (when(self.thread_of_warpgroup, "==", integer(0), nodes),)

    def drain(self) -> tuple[Node, ...]:
        """After the last tile: no block may leave while its shared memory is read."""
        return () if self._awaited_at_once() else self._by_first_thread(AwaitTensorStores(0))

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

    def _matrix_row(self, buffer: Integer, row: Integer, column: Integer) -> Access:
        """The row of 16 bytes of a matrix that a lane addresses in a buffer."""
        width = MATRIX_ROW_BYTES // self.output.dtype.bytes
        return Access(self.tile, (self.warpgroup, buffer, row, column), "matrix_store", width)

    def _declared(self, words: Vector, nodes: tuple[Node, ...]) -> Let:
        """A lane's words of matrices, which the nodes compute. Of elements outside the output there may be no value,
        and TMA leaves them out."""
        is_guarded = any(isinstance(node, If) for node in walk_nodes(nodes))
        return Let(words, Const(0, self.output.dtype.compute) if is_guarded else None)

    # Overridden by what writes the parts in other ways

    @property
    def row_index(self) -> Index:
        """That of the output's rows."""
        return self.contraction.m

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the output that are stored at once."""
        return WGMMA_M, self.wgmma_config.chunk_n

    @abstractmethod
    def _lane_definitions(self) -> tuple[Define, ...]:
        """Where a lane writes: the swizzle of TMA has 16-byte chunk c of row r at c ^ (r % 8), in rows of 64 bytes at
        c ^ (r / 2 % 4), of 32 bytes at c ^ (r / 4 % 2)."""

    @abstractmethod
    def _statements_of_chunk(self, matrix: Integer, chunk: Integer, buffer: Integer) -> tuple[Node, ...]:
        """The statements for a thread's elements of a chunk, stored to its buffer."""

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
