"""Split-K in clusters: the blocks of a cluster reduce an output tile through distributed shared memory.

Each block accumulates a range of the k-tiles. Once all have stored their partial sums to shared memory, each reduces a
part of the tile in block order: results don't depend on timing, and nothing goes through global memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.reduction_epilogue import ReductionEpilogue
from cugen.pieces.blocks import Blocks, define, make_grid
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol


class ClusterSplitKKernel(GemmKernel):
    """`split_k` blocks of a cluster divide the `k_tiles` of an output tile as evenly as possible."""

    def __init__(self, contraction: Contraction, config: TileConfig, k_tiles: int, why: str = "") -> None:
        super().__init__(contraction, config, why)
        self.k_tiles = k_tiles

    def kernel(self) -> Kernel:
        return replace(super().kernel(), cluster=self.config.split_k)

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        """The blocks of a cluster are consecutive along x, and have the same tile."""
        size = self.config.split_k
        blocks = make_grid((counts[0] * size, *counts[1:]), self.lowering, self.request.target)
        x, *others = blocks.coordinates
        return Blocks(blocks.grid, (FloorDiv(x, integer(size)), *others))

    def _k_offset(self, nodes: list[Node]) -> Integer:
        size, k_tiles, block_k = self.config.split_k, self.k_tiles, self.config.block_k
        rank = define("rank", Mod(symbol("blockIdx.x"), integer(size)), self.lowering)
        self.rank = rank.index.symbol
        name = self.contraction.k.name
        nodes += [Comment(f"split-K: the {size} blocks of a cluster each take a range of {name}"), rank]
        k_offset = define("k_offset", block_k * self._first_k_tile(self.rank), self.lowering)
        nodes.append(k_offset)
        if k_tiles % size == 0:
            self.k_extent = integer(k_tiles // size * block_k)
        else:
            shortest, longest = k_tiles // size * block_k, -(-k_tiles // size) * block_k
            end = block_k * self._first_k_tile(self.rank + 1)
            k_length = self._define_with_range("k_length", end - k_offset.index.symbol, shortest, longest)
            nodes.append(k_length)
            self.k_extent = k_length.index.symbol
        return k_offset.index.symbol

    def _first_k_tile(self, rank: Integer) -> Integer:
        """The first k-tile of a block's range."""
        size = self.config.split_k
        if self.k_tiles % size == 0:
            return rank * (self.k_tiles // size)
        return FloorDiv(rank * self.k_tiles, integer(size))

    def _k_padded(self, thread: ThreadCoordinates) -> Integer:
        return self.k_extent

    def _epilogue(self, epilogue: Epilogue, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        assert isinstance(epilogue, ReductionEpilogue)
        return epilogue.cluster_sections(accumulators, thread, self.rank)

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; split-K of {self.config.split_k}, reduced in clusters", *others)
