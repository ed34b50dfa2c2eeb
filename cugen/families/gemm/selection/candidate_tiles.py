"""Candidate tiles of the GEMM heuristic, in order of preference, and values of its other tunables."""

from __future__ import annotations

from functools import cache

from cugen.families.gemm.config import TileConfig, with_lane_layout
from cugen.families.gemm.tensor_cores import with_mma_layout
from cugen.machine.mma import MmaInstruction

_Tile = tuple[int, int, int, int, int, tuple[int, ...]]  # BM, BN, TM, TN, BK, sliced_k

# First those that were fastest for one of the GEMMs of tests/data/gemm_h200.csv, then
# others that NVIDIA's libraries have, and sizes between them.
_TILES: tuple[_Tile, ...] = (
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
    (64, 256, 16, 8, 16, (2,)),
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
# The same on tensor cores, for fragments of words; BK in bytes. A warp tile is 8 * TM x 4 * TN.
_WORD_TILES: tuple[_Tile, ...] = (
    (128, 256, 8, 16, 64, (1,)),
    (256, 128, 8, 16, 64, (1,)),
    (128, 128, 8, 8, 64, (1,)),
    (128, 128, 8, 16, 64, (1,)),
    (128, 64, 8, 8, 64, (1,)),
    (64, 128, 8, 8, 64, (1,)),
    (64, 128, 4, 8, 128, (1,)),
    (64, 64, 4, 8, 64, (1,)),
    (64, 64, 4, 8, 128, (1,)),
    (32, 128, 4, 8, 128, (1,)),
    (128, 32, 8, 4, 128, (1,)),
    (32, 64, 2, 8, 128, (1,)),
    (64, 32, 4, 4, 128, (1,)),
    (32, 32, 2, 4, 128, (1,)),
    (16, 64, 2, 4, 128, (1,)),
    (16, 128, 2, 8, 128, (1,)),
    # For N of three quarters of these.
    (128, 96, 8, 12, 64, (1,)),
    (128, 48, 4, 12, 64, (1,)),
)
_TENSOR_TILES: tuple[_Tile, ...] = (
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
# BK of tiles for a K that leaves a large residue otherwise: about those of the tiles (heuristic).
EVEN_K = (6, 8, 10, 12, 14, 16, 18)
# Stages, in order of preference: fewer take fewer instructions and less shared memory (measured on an H200).
_STAGES = (2, 3, 4, 5)
_SLICED_K_STAGES = (3, 4, 2, 5)  # a slice has fewer k steps to hide the latency of a copy
_TENSOR_STAGES = (4, 3, 2, 5)  # tensor cores multiply faster, and leave shared memory for it


@cache
def tile_configs(instruction: MmaInstruction | None) -> tuple[TileConfig, ...]:
    """Candidate tiles of tensor cores with an instruction, or of CUDA cores; stages, split-K and stream-K keep their
    defaults."""
    configs: list[TileConfig | None] = []
    unit = instruction.element_bytes if instruction is not None and instruction.has_words else 1
    tiles = _TILES if instruction is None else _WORD_TILES if instruction.has_words else _TENSOR_TILES
    for block_m, block_n, thread_m, thread_n, block_k, slice_counts in tiles:
        for sliced_k in slice_counts:
            config = TileConfig(block_m, block_n, thread_m, thread_n, block_k // unit, sliced_k=sliced_k)
            configs.append(with_lane_layout(config) if instruction is None else with_mma_layout(config, instruction))
    return tuple(config for config in configs if config is not None)


def stage_counts(config: TileConfig) -> tuple[int, ...]:
    """The numbers of stages that a pipeline of the tile may have, the preferred one first."""
    if config.uses_tensor_cores:
        return _TENSOR_STAGES
    return _SLICED_K_STAGES if config.sliced_k > 1 else _STAGES
