"""Layout of an operand's tile in shared memory: extents, padding, swizzle."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import WARP, TileConfig
from cugen.machine.requests.banks import WAVEFRONT_BYTES
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES

ASYNC_COPY_BYTES = (4, 8, 16)  # sizes of one cp.async (PTX ISA)


def tile_name(array: str) -> str:
    """What the tiles of an operand are called: `As`, but `weights_tiles` and `B_copy_tiles`, which take no s."""
    return f"{array}_tiles" if array.endswith("s") or array[1:].endswith("y") else f"{array}s"


@dataclass(frozen=True, slots=True)
class OperandTile:
    """The tile of an operand along M or N, as far as the tile config doesn't decide it.

    `copy_width` is the vector width of copies along its contiguous dimension, in elements. `pad` is the padding of its
    rows that the spec requests, in elements; None if it doesn't place the operand. `is_k_major`: K is the operand's
    contiguous dimension. `is_swizzled`: the spec requests an xor swizzle. `window_indices`: those that each copy
    computes, of an operand read at computed subscripts; `elements`: those of the array, which several taps of a window
    read, or several matrices of a batch; 0 if unknown. `has_async_copies`: target and memory space have them.
    """

    is_along_m: bool
    is_k_major: bool
    element_bytes: int = 4
    copy_width: int = 1
    pad: int | None = None
    is_swizzled: bool = False
    window_indices: int = 0
    elements: int = 0
    has_async_copies: bool = True

    def of(self, m: int, n: int) -> int:
        """The number that belongs to the operand, of two along M and N."""
        return m if self.is_along_m else n

    def extents(self, config: TileConfig) -> tuple[int, int]:
        """(rows, row length) of a stage: [BK][BM] or [BK][BN]; [BM][BK] or [BN][BK] of a K-major operand on tensor
        cores, and in the strided layout."""
        extent = self.of(config.block_m, config.block_n)
        return (extent, config.block_k) if self.is_tile_k_major(config) else (config.block_k, extent)

    def is_tile_k_major(self, config: TileConfig) -> bool:
        """Whether K is the contiguous dimension of the tile: in the layout of the operand on tensor cores and in the
        strided layout; of 8-bit operands on tensor cores always, since `ldmatrix` transposes 16-bit elements only."""
        if config.uses_tensor_cores:
            return self.is_k_major or self.element_bytes == 1
        return self.is_k_major and config.is_strided

    def copy_width_for(self, config: TileConfig) -> int:
        """Elements of one copy: a tile in another layout than the operand is copied by single ones."""
        return self.copy_width if self.is_tile_k_major(config) == self.is_k_major else 1

    def copies_asynchronously(self, config: TileConfig) -> bool:
        """Whether its copies bypass registers."""
        size = self.copy_width_for(config) * self.element_bytes
        return self.has_async_copies and size >= ASYNC_COPY_BYTES[0]

    def threads_along_k(self, config: TileConfig) -> int:
        """Threads that copy consecutive k. Of a K-major operand a few lanes copy one sector along K and the others
        adjacent rows: few global sectors, and few shared-memory bank conflicts of the transposed stores."""
        return math.gcd(config.copy_group_k, max(SECTOR_BYTES // self.element_bytes, 1)) if self.is_k_major else 1

    def copied_lines(self, config: TileConfig) -> float:
        """Lines of 128 bytes that a warp's copy reads, wherever they begin."""
        if self.copy_width_for(config) < self.copy_width or self.is_k_major:
            return WARP / self.threads_along_k(config)
        return max(WARP * self.copy_width * self.element_bytes / WAVEFRONT_BYTES, 1.0)

    def pad_for(self, config: TileConfig) -> int:
        """Padding of the rows, in elements."""
        if config.is_strided:
            return self._pad_of_odd_pitch(config.block_k) if self.pad is None else self.pad
        if self.pad or self.is_swizzled:
            return self.pad or 0
        if config.uses_tensor_cores:
            is_k_major = self.is_tile_k_major(config)
            return (
                0
                if not is_k_major and self.swizzle_for(config)[0]
                else tensor_cores.pad_of(config, is_a=self.is_along_m, is_k_major=is_k_major)
            )
        # The copies of a K-major operand transpose: they store down columns, whose rows must be in different banks.
        return self._unit(config) if self.is_k_major else 0

    def _unit(self, config: TileConfig) -> int:
        """Elements by which rows are shifted against each other: vector loads stay aligned, and a request that stores
        down columns of a sector's elements is free of bank conflicts."""
        if config.mma is not None:
            return tensor_cores.shift_unit(config.mma, is_a=self.is_along_m, is_k_major=self.is_tile_k_major(config))
        return 4 if self.element_bytes >= 4 else MAX_ACCESS_BYTES // self.element_bytes

    def swizzle_for(self, config: TileConfig) -> tuple[int, int]:
        """(rows after which the xor swizzle repeats, elements that it keeps together); no rows where it has none.

        Tensor cores swizzle K-major tiles themselves, in `copy.k_major`."""
        _, length = self.extents(config)
        # Rows of words that fill all banks are swizzled unless the spec pads them: copies to padded ones straddle
        # lines of 128 bytes. Not those of which every other one is accessed, as the swizzle repeats too soon.
        fills_banks = length * self.element_bytes % WAVEFRONT_BYTES == 0
        has_words = config.mma is not None and config.mma.has_words and not config.mma.splits(is_a=self.is_along_m)
        is_of_words = has_words and fills_banks and not self.pad
        if not (self.is_swizzled or is_of_words) or (config.uses_tensor_cores and self.is_tile_k_major(config)):
            return 0, 1
        if config.is_strided:
            return length, 1
        unit = self._unit(config)
        if length <= unit:  # a row that stays together: the identity
            return 0, 1
        return math.gcd(length, WAVEFRONT_BYTES // self.element_bytes) // unit, unit

    def why_not_swizzled(self, config: TileConfig) -> str:
        """Why the requested xor swizzle is impossible; empty if it is possible."""
        _, length = self.extents(config)
        rows, unit = self.swizzle_for(config)
        if not self.is_swizzled:
            return ""
        if config.is_strided:
            reason = f"the XOR swizzle needs tile rows of a power of two, not of {length}"
            return reason if length & (length - 1) else ""
        if length <= self._unit(config):
            return ""
        if config.uses_tensor_cores and self.is_tile_k_major(config):
            reason = f"tensor cores don't swizzle K-major tiles with a k-tile of {config.block_k}"
            return "" if tensor_cores.swizzle_of(config, is_a=self.is_along_m)[0] else reason
        return f"the XOR swizzle permutes {unit} elements at a time, and a tile row has {length}" if rows < 2 else ""

    def _pad_of_odd_pitch(self, width: int) -> int:
        """Threads read a K-major tile along N down its columns: a pitch of odd 32-bit words avoids bank conflicts."""
        if self.is_along_m or not self.is_k_major:
            return 0
        words = -(-width * self.element_bytes // 4)
        return ((words | 1) * 4 - width * self.element_bytes) // self.element_bytes if self.element_bytes <= 4 else 1

    def bytes_for(self, config: TileConfig) -> int:
        """Bytes of all stages, a multiple of 16."""
        rows, length = self.extents(config)
        size = config.stages * rows * (length + self.pad_for(config)) * self.element_bytes
        return size + -size % 16
