"""Where a thread's accumulators are in the output tile of a warp-specialised GEMM."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.machine.wgmma import WGMMA_M
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer

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
