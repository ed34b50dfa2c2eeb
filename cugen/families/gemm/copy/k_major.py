"""Copy pipeline of a K-major operand on tensor cores: its tile is K-major too, [BM][BK] or [BN][BK].

Copies are vectors along K, by threads that are adjacent along K: a transposed tile would need one copy per element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from cugen.families.contraction.recognition import Operand
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.elements import ElementCopies
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.problem import copy_width
from cugen.families.gemm.tensor_cores import SECTOR_ELEMENTS, SWIZZLED_SECTORS
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Define
from cugen.plan.symbols import BitXor, Integer, Mod, integer


@dataclass(frozen=True)
class KMajorPipeline(OperandPipeline):
    """The circular buffer of a K-major tile. Without a pad the sectors of a row are swizzled, by xor with the row
    modulo 4, so that the four rows of one request are in different banks."""

    @property
    def width(self) -> int:
        return math.gcd(copy_width(self.thread.contraction, self.operand, self.thread.contraction.k), self.tile.pad)

    def mma_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        if self._is_swizzled:
            k = BitXor(k, self._load_swizzle.index.symbol)
        return Access(self.tile, self.in_tile(stage, mn, k + self.thread.lane_n), "load")

    def definitions(self) -> tuple[Define, ...]:
        if not self._is_swizzled:
            return super().definitions()
        copy_swizzle = (self._swizzled_copy_k,) if self._has_fixed_copy_swizzle else ()
        return (*super().definitions(), self._load_swizzle, *copy_swizzle)

    @property
    def _is_swizzled(self) -> bool:
        return self.tile.pad == 0

    @cached_property
    def _load_swizzle(self) -> Define:
        """Xor mask of k in a lane's loads: the same for all of them, as its rows are 8 apart."""
        return self._define("swizzle", SECTOR_ELEMENTS * Mod(self.thread.lane_m, integer(SWIZZLED_SECTORS)))

    @cached_property
    def _swizzled_copy_k(self) -> Define:
        return self._define("swizzled_k", self._swizzled(self._first_k.index.symbol, self._first_mn.index.symbol))

    @staticmethod
    def _swizzled(k: Integer, mn: Integer) -> Integer:
        return BitXor(k, SECTOR_ELEMENTS * Mod(mn, integer(SWIZZLED_SECTORS)))

    @property
    def _has_fixed_copy_swizzle(self) -> bool:
        """Whether all copies of a thread have the same k and the same xor mask."""
        mn_per_pass, k_per_pass = self._extents_per_pass
        return mn_per_pass % SWIZZLED_SECTORS == 0 and k_per_pass == self.thread.config.block_k

    @cached_property
    def _threads_along_k(self) -> int:
        return math.gcd(self.thread.config.block_k // self.width, self.thread.config.threads)

    def divides_into(self, parts: int) -> bool:
        mn_per_pass, k_per_pass = self._extents_per_pass
        return k_per_pass == self.thread.config.block_k and self.extent % (parts * mn_per_pass) == 0

    def _part(self, first: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        mn_per_part = int(self.extent // self.thread.config.warp_k)
        return integer(0), self.thread.config.block_k, mn_per_part * first, mn_per_part * count

    def _tile_subscripts(self, stage: Integer, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        if self._is_swizzled:
            k = self._swizzled_copy_k.index.symbol if self._has_fixed_copy_swizzle else self._swizzled(k, mn)
        return self.in_tile(stage, mn, k)


def pipeline_of(thread: ThreadCoordinates, operand: Operand, tile: Array) -> OperandPipeline:
    if thread.config.is_strided:
        return ElementCopies(thread, operand, tile)
    k_major = thread.config.uses_tensor_cores and operand.is_k_major
    return (KMajorPipeline if k_major else OperandPipeline)(thread, operand, tile)
