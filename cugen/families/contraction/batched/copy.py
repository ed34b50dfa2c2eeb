"""How a block fills the tiles of its products: all threads side by side along memory, several loads in flight."""

from __future__ import annotations

import math
from dataclasses import replace

from cugen.families.contraction.batched.config import Shape, Tile
from cugen.families.contraction.recognition import Contraction
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Index, Loop, Node
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, Range, integer

_IN_FLIGHT = 16  # loads of a thread


def tile_array(found: Contraction, tile: Tile, shape: Shape, lowering: Lowering) -> Array:
    """The tile's array: matrices, rows and columns, or all of a matrix in one dimension where gaps follow it."""
    source = found.request.context.arrays[tile.operand.read.array]
    matrix: tuple[int, ...] = (tile.height, tile.pitch) if tile.span == tile.height * tile.pitch else (tile.span,)
    sizes = (shape.products, *matrix) if _is_one_of_several(tile, shape) else matrix
    widest = max(tile.copied, tile.read)
    return Array(
        source.name,
        lowering.names.allocate(f"{source.symbol}s"),
        source.dtype,
        tuple(map(integer, sizes)),
        tuple(integer(math.prod(sizes[dimension + 1 :])) for dimension in range(len(sizes))),
        "shared",
        flat=False,
        align=widest * source.dtype.bytes if widest > 1 else 0,
    )


def place_in(tile: Tile, shape: Shape, array: Array, place: tuple[Integer, Integer, Integer]) -> tuple[Integer, ...]:
    """The subscripts of a product's row and column in the tile."""
    product, row, column = place
    several = _is_one_of_several(tile, shape)
    matrix = (row, column) if len(array.shape) == 2 + several else (row * tile.pitch + column,)
    return (product, *matrix) if several else matrix


def fill(
    found: Contraction, tile: Tile, shape: Shape, target: Array, around: Lowering, first: Integer, thread: Integer
) -> tuple[Node, ...]:
    """The nodes that fill a tile; `first` is the block's first product, `thread` the number of the thread in it."""
    several = _is_one_of_several(tile, shape)
    row = tile.fast // tile.copied
    count = tile.slow * row * (shape.products if several else 1)
    trips = -(-count // shape.threads)
    turn = shared_loop_variable("u", (0, trips - 1), around)
    nodes: list[Define] = []

    def named(wish: str, value: Integer, values: Range) -> Integer:
        if value.is_Integer or value.is_Symbol:
            return value
        if trips > 1:
            index = replace(shared_loop_variable(wish, values, around), definition=value)
        else:
            index = Index(around.names.allocate(f"{target.symbol.lower()}_{wish}"), value, values)
            around.ranges[index.symbol] = values
        nodes.append(Define(index))
        return index.symbol

    last = trips * shape.threads - 1
    number = named("part", (turn.symbol * shape.threads if trips > 1 else 0) + thread, (0, last))
    first_nodes, nodes = tuple(nodes), []
    line = FloorDiv(number, integer(row))
    product: Integer = integer(0)
    if several:
        product = named("product", FloorDiv(number, integer(tile.slow * row)), (0, shape.products - 1))
        line = Mod(line, integer(tile.slow))
    slow = named("line", line, (0, tile.slow - 1))
    fast = named("place", Mod(number, integer(row)) * tile.copied, (0, tile.fast - tile.copied))
    own = first + product if tile.is_batched else integer(0)
    extent = to_integer(found.batch[0].extent, around.symbols)
    copy = Copy(
        Access(target, place_in(tile, shape, target, (product, slow, fast)), "store", tile.copied),
        _source(found, tile, around, {tile.operand.slow: slow, tile.operand.fast: fast}, own),
    )
    # Products beyond the last are computed from whatever is there, and not stored.
    exists = around.needed(Guard((Comparison(own, "<", extent),)))
    body: tuple[Node, ...] = (*nodes, If(exists, (copy,)) if exists.terms else copy)
    if count % shape.threads:
        body = (If(Guard((Comparison(number, "<", integer(count)),)), body),)
    if trips == 1:
        return (*first_nodes, *body)
    unrolled = trips <= _IN_FLIGHT
    loop = Loop(turn, integer(0), integer(trips), unroll=unrolled, unroll_by=0 if unrolled else _IN_FLIGHT)
    return (For(loop, (*first_nodes, *body)),)


def _source(found: Contraction, tile: Tile, lowering: Lowering, at: dict[str, Integer], own: Integer) -> Access:
    source = found.request.context.arrays[tile.operand.read.array]
    symbols = {**lowering.symbols, **at, found.batch[0].name: own}
    subscripts = tuple(to_integer(sub, symbols) for sub in tile.operand.read.subscripts)
    return Access(source, subscripts, "load", tile.copied)


def _is_one_of_several(tile: Tile, shape: Shape) -> bool:
    return tile.is_batched and shape.products > 1
