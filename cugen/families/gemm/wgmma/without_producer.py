"""GEMM by wgmma without a producer: one thread of the warpgroups that multiply copies the first k-tiles, and refills a
stage after a barrier of the block that follows its last read. A block has one output tile."""

from __future__ import annotations

from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.wgmma.kernel import CommonNodes, WgmmaKernel
from cugen.families.gemm.wgmma.main_loop import MainLoop
from cugen.pieces.blocks import define
from cugen.plan.nodes import Barrier, Comparison, For, Guard, If, Loop, Node, Section, when
from cugen.plan.symbols import Minimum, bounds, integer


class BarrierMainLoop(MainLoop):
    """The main loop of such a block. In k-tile f, once all warpgroups have read f - 1, its stage is filled with k-tile
    f + STAGES - 1."""

    def first_copies(self) -> Section:
        """The copies of the first k-tiles: of all but one stage, or of all k-tiles where no stage is refilled."""
        stop, others = self.k_range.k_tiles, integer(self.config.stages) - 1
        if self.pipeline.refills:
            is_longer = bounds(stop - others, self.lowering.ranges)[0] >= 0
            stop = others if is_longer else Minimum(stop, others)
        k_tile = self.pipeline.stage
        copies = self._copies(self.pipeline.stage_of(k_tile.symbol), integer(self.config.block_k) * k_tile.symbol)
        return Section("first_k_tiles", (For(Loop(k_tile, integer(0), stop, rolled=True), copies),))

    def _refill(self) -> tuple[Section, ...]:
        if not self.pipeline.refills:
            return ()
        later = integer(self.config.stages) - 1
        prefetch = define("prefetch_k", self.k0.symbol + integer(self.config.block_k) * later, self.lowering)
        stage = define("write_stage", self.pipeline.stage_of(self.filled_stage + later), self.lowering)
        k = prefetch.index.symbol
        is_there = Comparison(self.thread.index, "==", integer(0)), Comparison(k, "<", self.k_range.length)
        refill = If(Guard(is_there), (Section("stage", (stage,)), *self._copies(stage.index.symbol, k)))
        return (
            Section("previous_read", (Barrier(),)),
            Section("prefetch_k", (prefetch,)),
            Section("refill", (refill,)),
        )


class BarrierWgmmaKernel(WgmmaKernel):
    """All threads of the block execute the same: no warp only copies."""

    def _computation(
        self,
        initialisation: tuple[Node, ...],
        tile_definitions: tuple[Node, ...],
        epilogue: Epilogue,
        common: CommonNodes,
    ) -> tuple[Section, ...]:
        main_loop = self._main_loop(BarrierMainLoop)
        first_pixel = main_loop.first_pixel()
        first = Section("initialise", initialisation), main_loop.first_copies()
        return (
            first_pixel,
            Section("first_copies", (when(self.block.thread, "==", integer(0), first),)),
            Section("barriers_initialised", (Barrier(),)),
            *main_loop.consume(epilogue.accumulators),
            *epilogue.sections(),
            *self._drain(epilogue),
        )

    def _described_blocks(self, tiles: int) -> str:
        return f"{self.config.consumers} warpgroups, one thread of which copies, {tiles} tiles"
