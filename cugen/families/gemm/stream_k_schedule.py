"""Stream-K schedule: which work units each resident block computes. A work unit is a range of k-tiles of one tile.

Every block computes whole tiles first (data-parallel); the k-tiles of the remaining tiles are distributed evenly.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIN_K_TILES_PER_BLOCK = 4  # heuristic: fewer don't pay for a prologue


@dataclass(frozen=True, slots=True)
class StreamKSchedule:
    """Each of `blocks` computes `whole_tiles_per_block` tiles of `k_tiles` each. The k-tiles of all other tiles, tile
    after tile, are divided into consecutive ranges of `k_tiles_per_block`, one for each block."""

    tiles: int
    k_tiles: int
    blocks: int
    whole_tiles_per_block: int
    k_tiles_per_block: int

    @property
    def whole_tiles(self) -> int:
        """Tiles that one block computes alone."""
        return self.whole_tiles_per_block * self.blocks

    @property
    def distributed_k_tiles(self) -> int:
        return (self.tiles - self.whole_tiles) * self.k_tiles

    @property
    def text(self) -> str:
        count, whole = self.tiles - self.whole_tiles, self.whole_tiles_per_block
        tiles = f"the k-tiles of {count} tile{'s' if count > 1 else ''}"
        if not whole:
            return f"stream-K: {self.blocks} blocks divide {tiles}"
        each = "a whole tile" if whole == 1 else f"{whole} whole tiles"
        return f"stream-K: {self.blocks} blocks compute {each} each, then divide {tiles}"

    @property
    def units_per_range(self) -> tuple[int, int]:
        """Work units of a block's range, (minimum, maximum)."""
        counts = []
        for block in range(self.blocks):
            first = min(self.k_tiles_per_block * block, self.distributed_k_tiles)
            last = min(first + self.k_tiles_per_block, self.distributed_k_tiles)
            counts.append(-(-last // self.k_tiles) - first // self.k_tiles if first < last else 0)
        return min(counts), max(counts)

    @property
    def max_units_per_range(self) -> int:
        """An upper bound of the work units of any range of its length."""
        return -(-(self.k_tiles_per_block - 1) // self.k_tiles) + 1

    @property
    def max_k_tiles_per_unit(self) -> int:
        return self.k_tiles if self.whole_tiles_per_block else min(self.k_tiles, self.k_tiles_per_block)

    @property
    def max_peers(self) -> int:
        """Maximum number of blocks that compute a tile before the block that finishes it."""
        return -(-(self.k_tiles - 1) // self.k_tiles_per_block)

    @property
    def needs_fix_up(self) -> bool:
        """Whether any tile is computed by several blocks."""
        return self.k_tiles_per_block % self.k_tiles != 0


def schedule_stream_k(tiles: int, k_tiles: int, resident_blocks: int, waves: int, threads: int) -> StreamKSchedule:
    """The schedule that distributes the last `waves` of tiles, a partial wave included, over the resident blocks.

    No tile has more peers than a block has threads, each of which waits for one peer's flag."""
    whole_tiles_per_block = max(-(-tiles // resident_blocks) - waves, 0)
    distributed = (tiles - whole_tiles_per_block * resident_blocks) * k_tiles
    k_tiles_per_block = max(
        -(-distributed // resident_blocks), min(_MIN_K_TILES_PER_BLOCK, distributed), -(-(k_tiles - 1) // threads)
    )
    blocks = resident_blocks if whole_tiles_per_block else -(-distributed // k_tiles_per_block)
    return StreamKSchedule(tiles, k_tiles, blocks, whole_tiles_per_block, k_tiles_per_block)
