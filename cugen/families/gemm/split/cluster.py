"""Split-K in clusters: the blocks of a cluster reduce an output tile through distributed shared memory.

Each block accumulates a range of the k-tiles. Once all have stored their partial sums to shared memory, each reduces a
part of the tile in block order: results don't depend on timing, and nothing goes through global memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.reduction_epilogue import ReductionEpilogue
from cugen.pieces.blocks import Blocks, make_grid
from cugen.plan.nodes import Comment, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol


class ClusterSplitKKernel(GemmKernel):
    """`split_k` blocks of a cluster divide the k-tiles of an output tile as evenly as possible."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        self.k_tiles = -(-contraction.context.max_extent(contraction.k) // config.block_k)

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        """The blocks of a cluster are consecutive along x, and have the same tile."""
        size = self.config.split_k
        blocks = make_grid((counts[0] * size, *counts[1:]), self.lowering, self.request.target)
        x, *others = blocks.coordinates
        return Blocks(blocks.grid, (FloorDiv(x, integer(size)), *others))

    def _k_offset(self, nodes: list[Node]) -> Integer:
        size, k_tiles, block_k = self.config.split_k, self.k_tiles, integer(self.config.block_k)
        name = self.contraction.k.name
        nodes.append(Comment(f"split-K: the {size} blocks of a cluster each take a range of {name}"))
        self.rank = self._named("rank", Mod(symbol("blockIdx.x"), integer(size)), nodes)
        k_offset = self._named("k_offset", block_k * self._first_k_tile(self.rank), nodes)
        self.k_extent = k_tiles // size * block_k
        if k_tiles % size:
            lengths = k_tiles // size * int(self.config.block_k), -(-k_tiles // size) * int(self.config.block_k)
            end = block_k * self._first_k_tile(self.rank + 1)
            self.k_extent = self._named("k_length", end - k_offset, nodes, lengths)
        return k_offset

    def _first_k_tile(self, rank: Integer) -> Integer:
        size = self.config.split_k
        if self.k_tiles % size == 0:
            return rank * (self.k_tiles // size)
        return FloorDiv(rank * self.k_tiles, integer(size))

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        assert isinstance(epilogue, ReductionEpilogue)
        return epilogue.cluster_sections(self.rank)

    def _reason(self) -> str:
        return f"{super()._reason()}; split-K of {self.config.split_k}, reduced in clusters"
