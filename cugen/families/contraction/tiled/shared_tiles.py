"""The tiles of a contraction's operands in shared memory: their sides, their padding and where they lie."""

from __future__ import annotations

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.contraction.tiled.config import Shape, staged, tile_extent
from cugen.pieces.kernels import tile_bytes
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.symbols import integer
from cugen.spec.expressions import Read


def declare_tiles(found: Contraction, shape: Shape, lowering: Lowering) -> dict[Read, Array]:
    """A tile for each operand that is staged, in the order of its memory."""
    context = found.request.context
    tiles: dict[Read, Array] = {}
    offset = 0
    for operand in staged(found):
        source = context.arrays[operand.read.array]
        memory = context.spec.array(operand.read.array).memory
        height = tile_extent(operand, shape, operand.slow, found)
        width = tile_extent(operand, shape, operand.fast, found)
        pad = memory.pad if memory.space == "shared" else _own_pad(operand, width, found)
        tile = Array(
            operand.read.array,
            lowering.names.allocate(f"{source.symbol}s"),
            source.dtype,
            (integer(height), integer(width)),
            (integer(width + pad), integer(1)),
            "shared",
            flat=False,
            pad=pad,
            swizzle=width if memory.swizzle else 0,
            dynamic=memory.dynamic,
            dynamic_offset=offset if memory.dynamic else 0,
        )
        if memory.dynamic:
            offset += (tile_bytes(tile, lowering.ranges) + 15) // 16 * 16
        tiles[operand.read] = tile
    return tiles


def _own_pad(operand: Operand, width: int, found: Contraction) -> int:
    """The padding of a tile of which the spec says nothing.

    Where neighbouring threads read down a column of it, rows of an odd number of 32-bit words put them into different
    banks."""
    if operand.slow != found.n.name:
        return 0
    element = found.request.context.arrays[operand.read.array].dtype.bytes
    words = -(-width * element // 4)
    return ((words | 1) * 4 - width * element) // element if element <= 4 else 1
