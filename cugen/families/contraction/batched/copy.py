"""Copies a block's matrices from global to shared memory, coalesced, with several loads in flight per thread."""

from __future__ import annotations

import math
from dataclasses import replace

from cugen.families.contraction.batched.config import BatchConfig, SharedTile
from cugen.families.contraction.recognition import Contraction
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, Range, integer

_MAX_LOADS_IN_FLIGHT = 16  # per thread: the unroll limit of the copy loop (heuristic)


def tile_array(contraction: Contraction, tile: SharedTile, config: BatchConfig, lowering: Lowering) -> Array:
    """The tile's array [matrix, row, column]; [matrix, element] if there is padding between matrices."""
    source = contraction.request.context.arrays[tile.operand.read.array]
    is_dense = tile.matrix_stride == tile.rows * tile.pitch
    matrix: tuple[int, ...] = (tile.rows, tile.pitch) if is_dense else (tile.matrix_stride,)
    sizes = (config.batch, *matrix) if _has_matrix_dimension(tile, config) else matrix
    width = max(tile.load_width, tile.read_width)
    return Array(
        source.name,
        lowering.names.allocate(f"{source.symbol}s"),
        source.dtype,
        tuple(map(integer, sizes)),
        tuple(integer(math.prod(sizes[dimension + 1 :])) for dimension in range(len(sizes))),
        "shared",
        flat=False,
        align=width * source.dtype.bytes if width > 1 else 0,
    )


def tile_subscripts(
    tile: SharedTile, config: BatchConfig, array: Array, coordinates: tuple[Integer, Integer, Integer]
) -> tuple[Integer, ...]:
    """The subscripts of (matrix, row, column) in the tile's array."""
    matrix, row, column = coordinates
    is_batched = _has_matrix_dimension(tile, config)
    element = (row, column) if len(array.shape) == 2 + is_batched else (row * tile.pitch + column,)
    return (matrix, *element) if is_batched else element


def load_tile(
    contraction: Contraction,
    tile: SharedTile,
    config: BatchConfig,
    target: Array,
    lowering: Lowering,
    batch0: Integer,
    thread: Integer,
) -> tuple[Node, ...]:
    """The nodes that copy a tile; `batch0` is the batch index of the block's first matrix, `thread` the thread rank."""
    is_batched = _has_matrix_dimension(tile, config)
    vectors_per_row = tile.fast_extent // tile.load_width
    vectors = tile.slow_extent * vectors_per_row * (config.batch if is_batched else 1)
    iterations = -(-vectors // config.threads)
    iteration = shared_loop_variable("u", (0, iterations - 1), lowering)
    nodes: list[Define] = []

    def define_index(name_hint: str, value: Integer, values: Range) -> Integer:
        if value.is_Integer or value.is_Symbol:
            return value
        if iterations > 1:
            index = replace(shared_loop_variable(name_hint, values, lowering), definition=value)
        else:
            index = Index(lowering.names.allocate(f"{target.symbol.lower()}_{name_hint}"), value, values)
            lowering.ranges[index.symbol] = values
        nodes.append(Define(index))
        return index.symbol

    last = iterations * config.threads - 1
    vector = define_index("vector", (iteration.symbol * config.threads if iterations > 1 else 0) + thread, (0, last))
    vector_nodes, nodes = tuple(nodes), []
    row = FloorDiv(vector, integer(vectors_per_row))
    matrix: Integer = integer(0)
    if is_batched:
        matrix_vectors = integer(tile.slow_extent * vectors_per_row)
        matrix = define_index("matrix", FloorDiv(vector, matrix_vectors), (0, config.batch - 1))
        row = Mod(row, integer(tile.slow_extent))
    slow = define_index("row", row, (0, tile.slow_extent - 1))
    column = Mod(vector, integer(vectors_per_row)) * tile.load_width
    fast = define_index("column", column, (0, tile.fast_extent - tile.load_width))
    batch = batch0 + matrix if tile.is_batched else integer(0)
    extent = to_integer(contraction.batch[0].extent, lowering.symbols)
    copy = Copy(
        Access(target, tile_subscripts(tile, config, target, (matrix, slow, fast)), "store", tile.load_width),
        _source(contraction, tile, lowering, {tile.operand.slow: slow, tile.operand.fast: fast}, batch),
    )
    # The tiles of matrices past the last stay uninitialised; their results are not stored.
    exists = lowering.needed(Guard((Comparison(batch, "<", extent),)))
    body: tuple[Node, ...] = (*nodes, If(exists, (copy,)) if exists.terms else copy)
    if vectors % config.threads:
        body = (If(Guard((Comparison(vector, "<", integer(vectors)),)), body),)
    if iterations == 1:
        return (*vector_nodes, *body)
    is_unrolled = iterations <= _MAX_LOADS_IN_FLIGHT
    unroll_by = 0 if is_unrolled else _MAX_LOADS_IN_FLIGHT
    loop = Loop(iteration, integer(0), integer(iterations), unroll=is_unrolled, unroll_by=unroll_by)
    return (For(loop, (*vector_nodes, *body)),)


def _source(
    contraction: Contraction, tile: SharedTile, lowering: Lowering, coordinates: dict[str, Integer], batch: Integer
) -> Access:
    source = contraction.request.context.arrays[tile.operand.read.array]
    symbols = {**lowering.symbols, **coordinates, contraction.batch[0].name: batch}
    subscripts = tuple(to_integer(sub, symbols) for sub in tile.operand.read.subscripts)
    return Access(source, subscripts, "load", tile.load_width)


def _has_matrix_dimension(tile: SharedTile, config: BatchConfig) -> bool:
    """Whether the tile has several matrices."""
    return tile.is_batched and config.batch > 1
