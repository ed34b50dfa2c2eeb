"""Split-K through the workspace: several blocks accumulate an output tile, in one launch.

Each block stores its partial sums and increments the tile's arrival counter. The last block to arrive adds them all in
the order of the k ranges: results don't depend on timing, and no block waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.pieces.blocks import Blocks, define, digits
from cugen.pieces.grid_sync import workspace_array
from cugen.pieces.kernels import dense_array
from cugen.plan.memory import Access
from cugen.plan.nodes import Barrier, Comment, CountArrival, Declare, For, LoadBlockId, Loop, Node, Section, when
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer, symbol
from cugen.spec.types import INT32, UINT32


class SplitKKernel(GemmKernel):
    """`split_k` blocks share an output tile; each takes a range of k of the same length, a multiple of BK."""

    def __init__(self, contraction: Contraction, config: TileConfig) -> None:
        super().__init__(contraction, config)
        self.k_extent = FloorDiv(self.k_extent, integer(config.split_k))
        self.blocks_per_tile = integer(config.split_k)

    def _make_grid(self, counts: Sequence[Integer]) -> Blocks:
        lowering, split_k = self.lowering, self.config.split_k
        tiles = self.sizes.unnamed(sympy.Mul(*counts))
        block = symbol("blockIdx.x")
        lowering.ranges[block] = (0, max(bounds(tiles * split_k, lowering.ranges)[1] - 1, 0))
        self.tile = define("tile", FloorDiv(block, integer(split_k)), lowering)
        self.k_range = define("k_range", Mod(block, integer(split_k)), lowering)
        arrivals = workspace_array(self.request, "arrivals", UINT32, (tiles,))
        self.arrivals = replace(arrivals, zeroed=True, left_zero=True)
        self.partials = PartialsWorkspace.of(self.contraction, self.config, tiles * split_k)
        self.workspace = self.arrivals, self.partials.array
        return Blocks((tiles * split_k, integer(1), integer(1)), digits(self.tile.index.symbol, counts))

    def _k_offset(self, nodes: list[Node]) -> Integer:
        k_offset = define("k_offset", self.k_range.index.symbol * self.k_extent, self.lowering)
        text = f"split-K: {self.config.split_k} blocks of a tile each take a range of {self.contraction.k.name}"
        nodes += [Comment(text), self.tile, self.k_range, k_offset]
        return k_offset.index.symbol

    def _epilogue(self, epilogue: Epilogue) -> tuple[Section, ...]:
        return *epilogue.stage_slices(), *self._reduction(epilogue)

    def _reduction(self, epilogue: Epilogue) -> tuple[Section, ...]:
        """Stores the block's partial sums; the last block of the tile adds all of them and stores the results."""
        thread, count, tile = epilogue.thread, self.blocks_per_tile, self.tile.index.symbol
        slot = tile * count + self.k_range.index.symbol
        arrival, count_arrival = self._arrival(thread)
        p = thread.loop_index("p", self.config.split_k)
        slot_of_p = tile * count + p.symbol
        if isinstance(epilogue, SharedEpilogue):
            loop = Loop(p, integer(0), count, rolled=not count.is_Integer)
            reduction = epilogue.fix_up(loop, self.partials.vectors(slot_of_p, "load"))
        else:
            first = Section("first_partials", (self.partials.load(epilogue, tile * count),))
            add = Section("add", (self.partials.add(epilogue, slot_of_p),))
            others = For(Loop(p, integer(1), count, rolled=True), (add,))
            reduction = (first, Section("add_partials", (others,)), *epilogue.sections())
        return (
            *self.partials.store(epilogue, slot),
            *count_arrival,
            Section("last_block", (when(arrival, "==", count - 1, reduction),)),
        )

    def _arrival(self, thread: ThreadCoordinates) -> tuple[Integer, tuple[Section, ...]]:
        """The number of blocks of the tile that arrived before this one, and the sections that define it."""
        lowering = self.lowering
        broadcast = dense_array(lowering.names.allocate("arrival_of_block"), INT32, (), "shared")
        index = define("arrival", self.k_range.index.symbol, lowering).index
        counter = Access(self.arrivals, (self.tile.index.symbol,), "atomic")
        count = CountArrival(Access(broadcast, (), "store"), counter, self.blocks_per_tile)
        count_arrival = Section("count_arrival", (count,))
        return index.symbol, (
            Section("declare_arrival", (Declare(broadcast),)),
            Section("partials_stored", (Barrier(),)),
            Section("first_thread", (when(thread.index, "==", integer(0), (count_arrival,)),)),
            Section("arrival_counted", (Barrier(),)),
            Section("arrival", (LoadBlockId(index, Access(broadcast, (), "load")),)),
        )

    def _reason(self) -> str:
        return f"{super()._reason()}; split-K of {self.config.split_k}, reduced through the workspace"
