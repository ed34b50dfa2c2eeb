"""The xor swizzle of a tile in shared memory: columns permuted by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import power_of_two
from cugen.plan.memory import Array, row_major


def swizzle_of(counts: Sequence[int]) -> tuple[int, int]:
    """The rows after which the xor swizzle of a tile repeats, and the padding of its rows to a multiple of them. A
    single row stays as it is: its columns are permuted by 0."""
    *slow, columns = counts or (1,)
    if math.prod(slow) <= 1:
        return 0, 0
    rows = min(power_of_two(columns), WARP_SIZE)
    return rows, -columns % rows


def swizzled(tile: Array, counts: Sequence[int]) -> Array:
    """The tile of so many elements per dimension with its columns permuted by row, padded to a whole number of them."""
    rows, padding = swizzle_of(counts)
    tile = replace(tile, pad=padding, swizzle=rows)
    return replace(tile, strides=row_major(tile.padded_shape))
