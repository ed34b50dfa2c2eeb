"""Split-K of sizes that are known at launch only: how many blocks share a tile is a function of the sizes.

At the typical sizes it is the config's `split_k`. At other sizes there are as many blocks in all or fewer, each with a
few k-tiles or more, until every tile has one block, which then stores its results directly: the workspace has the size
that the typical sizes need, whatever the sizes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import MIN_K_TILES_PER_RANGE, TileConfig
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.families.gemm.split.split_k import SplitKKernel
from cugen.pieces.blocks import Blocks, define, digits
from cugen.pieces.grid_sync import workspace_array
from cugen.plan.nodes import Comment, Define, Node, Section, when
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, bounds, ceil_div, integer, symbol
from cugen.spec.types import UINT32


class LaunchSplitKKernel(SplitKKernel):
    """Up to `split_k` blocks share an output tile; each takes a range of k-tiles, all of about the same length."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        GemmKernel.__init__(self, contraction, config)
        problem = problem_of(contraction)
        tiles = -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch
        self.max_slots = tiles * config.split_k  # of partial sums

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        lowering, split_k, slots = self.lowering, self.config.split_k, integer(self.max_slots)
        tiles = self.sizes.unnamed(sympy.Mul(*counts))
        k_tiles = ceil_div(self.extents[self.contraction.k.name], self.config.block_k)
        self.k_tiles = define("k_tiles", k_tiles, lowering)
        per_tile = FloorDiv(slots, Maximum(tiles, integer(1)))

        def ranges(k_tiles: Integer) -> Integer:
            fewest = Minimum(Minimum(per_tile, integer(split_k)), FloorDiv(k_tiles, integer(MIN_K_TILES_PER_RANGE)))
            return Maximum(fewest, integer(1))

        self.k_ranges = self._within(define("k_ranges", ranges(self.k_tiles.index.symbol), lowering), 1, split_k)
        count, block = self.k_ranges.index.symbol, symbol("blockIdx.x")
        self.blocks_per_tile = count
        max_tiles = max(bounds(tiles, lowering.ranges)[1], 1)
        lowering.ranges[block] = (0, max_tiles * split_k - 1)
        self.tile = self._within(define("tile", FloorDiv(block, count), lowering), 0, max_tiles - 1)
        self.k_range = self._within(define("k_range", Mod(block, count), lowering), 0, split_k - 1)
        arrivals = workspace_array(self.request, "arrivals", UINT32, (slots,))
        self.arrivals = replace(arrivals, zeroed=True, left_zero=True)
        self.partials = PartialsWorkspace.of(self.contraction, self.config, slots)
        self.workspace = self.arrivals, self.partials.array
        blocks = tiles * ranges(self.sizes.unnamed(k_tiles))
        return Blocks((blocks, integer(1), integer(1)), digits(self.tile.index.symbol, counts))

    def _within(self, node: Define, low: int, high: int) -> Define:
        """The definition with a range that is narrower than its expression shows."""
        index = replace(node.index, range=(low, high))
        self.lowering.ranges[index.symbol] = index.range
        return replace(node, index=index)

    def _k_offset(self, nodes: list[Node]) -> Integer:
        k, block_k = self.contraction.k, integer(self.config.block_k)
        k_tiles, ranges, number = (node.index.symbol for node in (self.k_tiles, self.k_ranges, self.k_range))
        max_k = bounds(self.k_tiles.index.symbol, self.lowering.ranges)[1] * int(self.config.block_k)
        shortest = int(self.config.block_k) if self.request.context.min_extent(k) > 0 else 0
        text = f"split-K: as many blocks of a tile as the sizes leave idle, up to {self.config.split_k}, each take a"
        nodes += [Comment(f"{text} range of {k.name}"), self.k_tiles, self.k_ranges, self.tile, self.k_range]
        first = FloorDiv(number * k_tiles, ranges)
        end = FloorDiv((number + 1) * k_tiles, ranges)
        k_offset = self._named("k_offset", first * block_k, nodes, (0, max_k))
        self.k_extent = self._named("k_length", end * block_k - k_offset, nodes, (shortest, max_k))
        return k_offset

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        several = when(self.blocks_per_tile, ">", integer(1), self._reduction(epilogue), epilogue.output_sections())
        return *epilogue.stage_slices(), Section("if_several", (several,))

    def _reason(self) -> str:
        text = f"split-K of up to {self.config.split_k} by the sizes, reduced through the workspace"
        return f"{GemmKernel._reason(self)}; {text}"
