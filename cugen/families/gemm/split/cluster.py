"""Split-K in clusters: the blocks of a cluster reduce an output tile through distributed shared memory.

Each block accumulates a range of the k-tiles. Once all have stored their partial sums to shared memory, each reduces a
part of the tile in block order: results don't depend on timing, and nothing goes through global memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.pieces.blocks import Blocks, make_grid
from cugen.plan.nodes import Comment, Node, Section
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol


class ClusterSplitKKernel(GemmKernel):
    """`split_k` blocks of a cluster divide the k-tiles of an output tile as evenly as possible."""

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        """The blocks of a cluster are consecutive along x, and have the same tile."""
        size = self.config.split_k
        blocks = make_grid((counts[0] * size, *counts[1:]), self.lowering, self.request.target)
        x, *others = blocks.coordinates
        return Blocks(blocks.grid, (FloorDiv(x, integer(size)), *others))

    def _k_offset(self, nodes: list[Node]) -> Integer:
        size, block_k = self.config.split_k, integer(self.config.block_k)
        k_tiles = -(-self.request.context.max_extent(self.contraction.k) // int(self.config.block_k))

        def first_k_tile(rank: Integer) -> Integer:
            return FloorDiv(rank * k_tiles, integer(size)) if k_tiles % size else rank * (k_tiles // size)

        name = self.contraction.k.name
        nodes.append(Comment(f"split-K: the {size} blocks of a cluster each take a range of {name}"))
        self.rank = self._named("rank", Mod(symbol("blockIdx.x"), integer(size)), nodes)
        k_offset = self._named("k_offset", block_k * first_k_tile(self.rank), nodes)
        self.k_extent = k_tiles // size * block_k
        if k_tiles % size:
            lengths = k_tiles // size * int(self.config.block_k), -(-k_tiles // size) * int(self.config.block_k)
            end = block_k * first_k_tile(self.rank + 1)
            self.k_extent = self._named("k_length", end - k_offset, nodes, lengths)
        return k_offset

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        assert isinstance(epilogue, SharedEpilogue)
        return epilogue.cluster_sections(self.rank)

    def _reason(self) -> str:
        return f"{super()._reason()}; split-K of {self.config.split_k}, reduced in clusters"
