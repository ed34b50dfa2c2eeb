"""Where a thread's accumulators are in the output tile of a warp-specialised GEMM."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import WARP
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.wgmma.config import ACCUMULATOR_LANES_N, WgmmaConfig
from cugen.machine.target import MAX_BLOCKS
from cugen.machine.wgmma import WARPGROUP, WGMMA_M
from cugen.pieces.blocks import append_definition
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comment, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol

_ROWS_OF_LANE = 2  # of a matrix of 64 rows (PTX ISA, wgmma: layout of D)
_ROW_DISTANCE = 8


@dataclass(frozen=True)
class WarpgroupCoordinates(ThreadCoordinates):
    """A thread's accumulators in the matrices of its warpgroup."""

    def row(self, i: Integer) -> Integer:
        if self.config.thread_m == _ROWS_OF_LANE:
            return self.m_in_tile + _ROW_DISTANCE * i
        matrix, half = FloorDiv(i, integer(_ROWS_OF_LANE)), Mod(i, integer(_ROWS_OF_LANE))
        return self.m_in_tile + WGMMA_M * matrix + _ROW_DISTANCE * half


class BlockCoordinates:
    """A thread's coordinates in its block, and the block's in the launch: `thread`, `lane`, its `warpgroup` and its
    number there, `m_in_tile` and `n_in_tile` of its first accumulator, and `rank` in the cluster: `rank_m` of blocks
    that share tiles of B, `rank_n` of those that share tiles of A. Threads of the producer warp use only the first two
    and the ranks."""

    def __init__(self, contraction: Contraction, config: WgmmaConfig, lowering: Lowering) -> None:
        self._nodes: list[Node] = []
        self._lowering = lowering
        lowering.ranges[symbol("threadIdx.x")] = (0, config.block_threads - 1)
        self.thread = self._define("thread", symbol("threadIdx.x"))
        self.lane = self._define("lane", Mod(self.thread, integer(WARP)))
        self.warpgroup: Integer = integer(0)
        self.thread_of_warpgroup = self.thread
        if config.consumers > 1:
            self.warpgroup = self._define("warpgroup", FloorDiv(self.thread, integer(WARPGROUP)))
            lowering.ranges[self.warpgroup] = (0, config.consumers - 1)
            self.thread_of_warpgroup = self._define("thread_of_warpgroup", Mod(self.thread, integer(WARPGROUP)))
        lowering.ranges[symbol("blockIdx.x")] = (0, MAX_BLOCKS - 1)
        self.cluster_index, self.rank = FloorDiv(symbol("blockIdx.x"), integer(config.cluster)), integer(0)
        if config.cluster > 1:
            self.rank = self._define("rank", Mod(symbol("blockIdx.x"), integer(config.cluster)))
        self.rank_m = self.rank if config.multicast > 1 else integer(0)
        self.rank_n = self.rank if config.multicast_n > 1 else integer(0)
        if config.shares_both:
            m, n = (f"rank_{side.lower()}" for side in (contraction.side_m, contraction.side_n))
            self.rank_m = self._define(m, Mod(self.rank, integer(config.multicast)))
            self.rank_n = self._define(n, FloorDiv(self.rank, integer(config.multicast)))
        rows, warp = WGMMA_M * config.matrices_m, FloorDiv(self.thread_of_warpgroup, integer(WARP))
        self.lane_m = FloorDiv(self.lane, integer(ACCUMULATOR_LANES_N))
        self.lane_n = Mod(self.lane, integer(ACCUMULATOR_LANES_N))
        if contraction.is_swapped:
            self._nodes.append(Comment("swapped operands: rows of an instruction are columns of C"))
        m, n = (f"thread_{side.lower()}" for side in (contraction.side_m, contraction.side_n))
        self.m_in_tile = self._define(m, self.warpgroup * rows + 16 * warp + self.lane_m)
        self.n_in_tile = self._define(n, 2 * self.lane_n)
        lowering.ranges[self.m_in_tile] = (0, int(config.block_m) - 1)

    def _define(self, name_hint: str, definition: Integer) -> Integer:
        return append_definition(name_hint, definition, self._nodes, self._lowering)

    @property
    def definitions(self) -> tuple[Node, ...]:
        return tuple(self._nodes)
