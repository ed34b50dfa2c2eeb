"""The transpose with an explicit layout: a square tile in shared memory, one element per access."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.families.transpose.config import RowMapping, Transpose, TransposeConfig
from cugen.families.transpose.packed_tile import PackedTileKernel
from cugen.machine.requests.banks import BANK_BYTES
from cugen.pieces.kernels import dense_array, tile_bytes
from cugen.plan.memory import Array
from cugen.spec.expressions import Read
from cugen.spec.model import Memory

BLOCK_ROWS = 8  # of threads (heuristic)
MIN_EXTENT_FOR_LARGE_TILES = 1024  # so that enough tiles remain (heuristic)


@dataclass(frozen=True, slots=True)
class SquareTileConfig:
    """A tile of `size` × `size` elements; each thread has `rows` elements of a column."""

    size: int
    rows: int


def choose_square_config(transpose: Transpose) -> SquareTileConfig:
    """The schedule's tile, or 64 × 64; 32 × 32 for elements wider than 4 bytes or small matrices of 4-byte ones."""
    sides = (transpose.across, transpose.down)
    names = [index.name for index in sides]
    schedule, context = transpose.request.schedule, transpose.request.context
    sizes = [size for name, size in schedule.block if name in names]
    if sizes:
        size = sizes[0]
    else:
        bits = max(transpose.arrays[read.array].dtype.bits for read in transpose.reads)
        is_small = min(map(context.max_extent, sides)) < MIN_EXTENT_FOR_LARGE_TILES
        size = 32 if bits > 32 or (bits == 32 and is_small) else 64
    if schedule.thread:
        return SquareTileConfig(size, max([count for name, count in schedule.thread if name in names], default=1))
    return SquareTileConfig(size, size // BLOCK_ROWS if size % BLOCK_ROWS == 0 else 1)


class SquareTileKernel(PackedTileKernel):
    clamps = False

    def __init__(self, transpose: Transpose, config: SquareTileConfig) -> None:
        size, row = config.size, RowMapping(1, config.size)
        threads = size * (size // config.rows)
        super().__init__(transpose, TransposeConfig(size, size, threads, 1, row, row, period=size, gap=0, pitch=size))
        self.dynamic_bytes = 0

    def tile(self, read: Read, name: str) -> Array:
        memory, size = self._memory(read), self.config.down
        dtype = self.transpose.arrays[read.array].dtype
        tile = replace(
            dense_array(name, dtype, (size, size), "shared", memory.pad),
            name=read.array,
            swizzle=size if memory.swizzle else 0,
            dynamic=memory.dynamic,
            dynamic_offset=self.dynamic_bytes if memory.dynamic else 0,
        )
        if memory.dynamic:
            self.dynamic_bytes += -(-tile_bytes(tile, self.lowering.ranges) // 16) * 16
        return tile

    def _memory(self, read: Read) -> Memory:
        """The spec's placement; by default rows of an odd number of banks, so that a column hits all of them."""
        declared = self.context.spec.array(read.array)
        if declared.memory.space == "shared":
            return declared.memory
        return Memory("shared", pad=max(1, BANK_BYTES // declared.dtype.bytes))

    def reasons(self) -> tuple[str, ...]:
        reasons = [self.tile_reason()]
        for tile in self.tiles.values():
            if tile.swizzle:
                reasons.append(f"{tile.symbol}: an xor swizzle spreads a column over the banks")
            elif tile.pad:
                reasons.append(f"{tile.symbol}: rows are padded by {tile.pad}, so that a column spreads over the banks")
        return tuple(reasons)
