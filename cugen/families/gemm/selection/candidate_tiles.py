"""Candidate tiles of the GEMM heuristic, in order of preference, and values of its other tunables."""

from __future__ import annotations

from functools import cache

from cugen.families.gemm.config import Cores, TileConfig, with_lane_layout
from cugen.families.gemm.tensor_cores import with_mma_layout

# BM, BN, TM, TN, BK, sliced_k. First those that were fastest for one of the GEMMs of tests/data/gemm_h200.csv, then
# others that NVIDIA's libraries have, and sizes between them.
_TILES = (
    (128, 256, 16, 8, 8, (1,)),
    (128, 256, 8, 16, 8, (1,)),
    (64, 128, 16, 8, 16, (4,)),
    (64, 128, 8, 16, 16, (4,)),
    (64, 128, 16, 8, 32, (4,)),
    (64, 128, 8, 16, 32, (4,)),
    (64, 64, 16, 8, 64, (8,)),
    (32, 64, 8, 8, 64, (8,)),
    (32, 64, 8, 8, 32, (4,)),
    (32, 96, 8, 12, 64, (8,)),
    (32, 32, 8, 4, 64, (8,)),
    (32, 64, 4, 8, 32, (4,)),
    (64, 64, 16, 8, 32, (4,)),
    (64, 128, 8, 8, 16, (1, 2)),
    (128, 128, 8, 8, 8, (1,)),
    (64, 256, 8, 8, 8, (1,)),
    (256, 128, 16, 8, 8, (1,)),
    (256, 128, 8, 16, 8, (1,)),
    (128, 64, 16, 8, 32, (4,)),
    (128, 64, 16, 8, 16, (4, 2)),
    (128, 64, 8, 8, 16, (1, 2)),
    (128, 64, 8, 8, 8, (1,)),
    (64, 128, 8, 8, 8, (1,)),
    (256, 64, 8, 8, 8, (1,)),
    (128, 128, 8, 8, 16, (1,)),
    (128, 128, 16, 8, 8, (1, 2)),
    (64, 128, 16, 8, 16, (2,)),
    (64, 128, 8, 16, 16, (2,)),
    (64, 64, 8, 8, 16, (4, 2, 1)),
    (32, 128, 8, 8, 16, (4, 2, 1)),
    (128, 32, 8, 8, 16, (4, 2, 1)),
    (64, 32, 8, 4, 32, (4, 2)),
    (32, 64, 4, 8, 32, (2,)),
    (32, 64, 4, 8, 16, (2, 1)),
    (32, 32, 4, 4, 32, (4, 2, 1)),
    (64, 256, 16, 8, 16, (2,)),
    (64, 192, 8, 12, 16, (2,)),
    (64, 96, 8, 12, 16, (2,)),
    (96, 64, 12, 8, 16, (2,)),
    (64, 96, 8, 12, 32, (4,)),
    (96, 64, 12, 8, 32, (4,)),
    (64, 48, 8, 12, 64, (8,)),
    (64, 48, 8, 12, 32, (4,)),
    (32, 96, 8, 12, 32, (4,)),
    (64, 64, 8, 8, 64, (8,)),
    (64, 64, 8, 8, 32, (4,)),
    (64, 32, 8, 8, 64, (8,)),
    (32, 128, 8, 8, 32, (4,)),
    # Sizes that aren't powers of two, for GEMMs that would fill the last wave badly.
    (80, 80, 10, 10, 16, (4,)),
    (80, 80, 10, 10, 32, (4,)),
    (96, 96, 12, 12, 32, (4,)),
)
_TENSOR_TILES = (
    (128, 128, 8, 8, 16, (1,)),
    (128, 128, 4, 16, 16, (1,)),
    (128, 64, 8, 8, 16, (1,)),
    (64, 128, 8, 8, 16, (1,)),
    (64, 128, 4, 8, 16, (1,)),
    (128, 64, 4, 8, 16, (1,)),
    (64, 64, 4, 8, 16, (1,)),
    (64, 64, 8, 8, 32, (2,)),
    (64, 64, 4, 8, 32, (2,)),
    (32, 64, 4, 8, 32, (2,)),
    (64, 32, 4, 8, 32, (2,)),
    (32, 32, 4, 8, 32, (2,)),
)
# Stages, in order of preference: fewer take fewer instructions and less shared memory (measured on an H200).
_STAGES = (2, 3, 4, 5)
_SLICED_K_STAGES = (3, 4, 2, 5)  # a slice has fewer k steps to hide the latency of a copy
_TENSOR_STAGES = (4, 3, 2, 5)  # tensor cores multiply faster, and leave shared memory for it


@cache
def tile_configs(cores: Cores) -> tuple[TileConfig, ...]:
    """Candidate tiles of some cores; stages, split-K and stream-K keep their defaults."""
    tiles, with_layout = (_TENSOR_TILES, with_mma_layout) if cores == Cores.TENSOR else (_TILES, with_lane_layout)
    configs = [
        with_layout(TileConfig(block_m, block_n, thread_m, thread_n, block_k, sliced_k=sliced_k))
        for block_m, block_n, thread_m, thread_n, block_k, slice_counts in tiles
        for sliced_k in slice_counts
    ]
    return tuple(config for config in configs if config is not None)


def stage_counts(config: TileConfig) -> tuple[int, ...]:
    """The numbers of stages that a pipeline of the tile may have, the preferred one first."""
    if config.uses_tensor_cores:
        return _TENSOR_STAGES
    return _SLICED_K_STAGES if config.sliced_k > 1 else _STAGES
