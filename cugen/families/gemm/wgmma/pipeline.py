"""The pipeline of a GEMM by wgmma: a circular buffer of stages that one thread fills by TMA and the consumers multiply.
For each stage the mbarrier `full` says that its tiles have been copied. Of a warp-specialised GEMM `empty` says that
every consumer warp has read them; without a producer a barrier of the block does.

All k-tiles of a block, over all its output tiles, are numbered: k-tile `fill` is in stage fill % STAGES, as the
fill // STAGES-th of it, so that its phase of `full` has the parity of that number, and the phase of `empty` before it
the other. Loops over k-tiles count stages and parities, which takes less time than to divide.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.gemm.wgmma.config import BARRIER_BYTES, WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.machine.wgmma import WARPS_OF_WARPGROUP
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Comment, Comparison, Declare, Define, Guard, If, Index, Node
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, FenceBarrierInit, InitBarrier
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Integer, Mod, integer
from cugen.spec.types import UINT64


class Pipeline:
    """The barriers of all stages, `offset` bytes from the start of shared memory. A k-tile's copies are of
    `copied_bytes`. Unless it `refills` stages, none is ever waited to be empty; by mbarriers only of a producer."""

    def __init__(
        self,
        config: WgmmaConfig,
        lowering: Lowering,
        block: BlockCoordinates,
        offset: int,
        copied_bytes: int,
        *,
        refills: bool,
    ) -> None:
        self.block = block
        self.config, self.stages, self.copied_bytes = config, integer(config.stages), copied_bytes
        self.refills = refills
        self.full = _barriers("full", config, lowering, offset)
        self.empty: Array | None = None
        if refills and config.has_producer:
            self.empty = _barriers("empty", config, lowering, offset + config.stages * BARRIER_BYTES)
        self.stage = Index(lowering.names.allocate("stage"), integer(0), (0, int(config.stages) - 1))
        self.full_parity, self.empty_parity = (
            Index(lowering.names.allocate(f"{name}_parity"), integer(0), (0, 1)) for name in ("full", "empty")
        )
        for index in (self.stage, self.full_parity, self.empty_parity):
            lowering.ranges[index.symbol] = index.range

    def declarations(self) -> tuple[Node, ...]:
        text = "mbarriers: full once the tiles of a stage have been copied"
        if self.empty is None:
            return Comment(text), Declare(self.full)
        return Comment(f"{text}, empty once all consumers have read them"), Declare(self.full), Declare(self.empty)

    def initialisation(self) -> tuple[Node, ...]:
        """By one thread, before a barrier of the block."""
        barriers = [InitBarrier(_barrier(self.full, self.stage.symbol), 1)]
        if self.empty is not None:
            arrivals = WARPS_OF_WARPGROUP * self.config.consumers * self.config.sharing_peers
            barriers.append(InitBarrier(_barrier(self.empty, self.stage.symbol), arrivals))
        return unrolled(self.stage, barriers, stop=self.config.stages), FenceBarrierInit()

    def define_stage(self, fill: Integer) -> Define:
        """The stage of k-tile `fill`, which a loop over k-tiles counts where stages are filled again."""
        stage = replace(self.stage, definition=self.stage_of(fill))
        return Define(stage, Mod(stage.symbol + 1, self.stages) if self.refills else None)

    def define_parity(self, parity: Index, fill: Integer) -> Define:
        """The parity of a phase that is awaited for k-tile `fill`, which changes after the last stage: one of `full`,
        or the phase of `empty` before it."""
        before = 1 if parity == self.empty_parity else 0
        definition = Mod(FloorDiv(fill, self.stages) + before, integer(2))
        then = BitXor(parity.symbol, FloorDiv(self.stage.symbol + 1, self.stages))
        return Define(replace(parity, definition=definition), then)

    def stage_of(self, fill: Integer) -> Integer:
        return Mod(fill, self.stages)

    def await_empty(self, stage: Integer) -> tuple[Node, ...]:
        """Before a copy; it doesn't wait for the first use of a stage."""
        if self.empty is None:
            return ()
        return (AwaitBarrier(_barrier(self.empty, stage), self.empty_parity.symbol),)

    def expect(self, stage: Integer) -> ArriveBarrier:
        return ArriveBarrier(_barrier(self.full, stage), integer(self.copied_bytes))

    def full_barrier(self, stage: Integer) -> Access:
        """What the copies of a stage count at."""
        return _barrier(self.full, stage)

    def await_full(self, stage: Integer) -> AwaitBarrier:
        return AwaitBarrier(_barrier(self.full, stage), self.full_parity.symbol if self.refills else integer(0))

    def release(self, stage: Integer, lane: Integer, *conditions: Comparison) -> tuple[Node, ...]:
        """By one lane of each consumer warp, once its warpgroup has read the stage; one for each block that copies to
        it."""
        if self.empty is None:
            return ()
        blocks, rows = self.config.sharing_peers, self.config.multicast
        arrive, lanes = ArriveBarrier(_barrier(self.empty, stage)), Comparison(lane, "==", integer(0))
        if blocks > 1:
            rank = lane
            if self.config.shares_both:  # those that share tiles of B, then those that share tiles of A
                of_a = self.block.rank_m + rows * (lane - rows)
                rank = Choice(lane, integer(rows), rows * self.block.rank_n + lane, of_a)
            arrive, lanes = replace(arrive, rank=rank), Comparison(lane, "<", integer(blocks))
        return (If(Guard((*conditions, lanes)), (arrive,)),)


def _barriers(name: str, config: WgmmaConfig, lowering: Lowering, offset: int) -> Array:
    array = dense_array(lowering.names.allocate(name), UINT64, (config.stages,), "shared")
    return replace(array, dynamic=True, dynamic_offset=offset)


def _barrier(barriers: Array, stage: Integer) -> Access:
    return Access(barriers, (stage,), "barrier")
