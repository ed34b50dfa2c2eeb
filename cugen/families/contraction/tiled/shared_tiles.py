"""The operand tiles of a tiled contraction in shared memory: extents, padding, swizzle, dynamic offsets."""

from __future__ import annotations

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.contraction.tiled.config import TileConfig, staged_operands, tile_extent
from cugen.pieces.kernels import tile_bytes
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.symbols import integer
from cugen.spec.expressions import Read


def declare_tiles(contraction: Contraction, config: TileConfig, lowering: Lowering) -> dict[Read, Array]:
    """A tile for each staged_operands operand, its dimensions in the order of the operand's memory layout."""
    context = contraction.request.context
    tiles: dict[Read, Array] = {}
    offset = 0
    for operand in staged_operands(contraction):
        source = context.arrays[operand.read.array]
        memory = context.spec.array(operand.read.array).memory
        height = tile_extent(operand, config, operand.slow, contraction)
        width = tile_extent(operand, config, operand.fast, contraction)
        pad = memory.pad if memory.space == "shared" else _default_pad(operand, width, contraction)
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


def _default_pad(operand: Operand, width: int, contraction: Contraction) -> int:
    """The padding in elements of a tile that the spec doesn't place.

    An N-slow tile is read along its columns by adjacent threads: a pitch of an odd number of 32-bit words avoids bank
    conflicts."""
    if operand.slow != contraction.n.name:
        return 0
    element = contraction.request.context.arrays[operand.read.array].dtype.bytes
    words = -(-width * element // 4)
    return ((words | 1) * 4 - width * element) // element if element <= 4 else 1
