"""Copy pipeline of a K-major operand on tensor cores: its tile is K-major too, [BM][BK] or [BN][BK].

Copies are vectors along K, by threads that are adjacent along K: a transposed tile would need one copy per element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from cugen.families.contraction.contraction import Operand
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.elements import ElementCopies
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.problem import copy_width
from cugen.families.gemm.tensor_cores import MATRIX_ROW_BYTES, MATRIX_ROWS, shift_unit, swizzle_of
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Define, Node
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Mod, integer


@dataclass(frozen=True)
class KMajorPipeline(OperandPipeline):
    """The circular buffer of a K-major tile. Without a pad the units of a row are swizzled, by xor with the row, so
    that the rows of one request are in different banks. An operand that isn't K-major is copied by elements."""

    @property
    def width(self) -> int:
        return math.gcd(copy_width(self.thread.contraction, self.operand, self.thread.contraction.k), self.tile.pad)

    @property
    def is_tile_k_major(self) -> bool:
        return True

    def tile_element(self, stage: Integer, k: Integer, mn: Integer, mn_in_matrix: Integer) -> Access:
        # Rows that are 8 apart have the same permutation.
        k = self._swizzled(k, mn_in_matrix) if self._is_swizzled else k
        return Access(self.tile, self.in_tile(stage, mn, k), "load")

    def mma_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        if self._is_swizzled:
            k = BitXor(k, self._load_swizzle.index.symbol)
        return Access(self.tile, self.in_tile(stage, mn, k + self.lane_k), "load", self.lane_elements)

    def matrix_load(self, stage: Integer, k: Integer, mn: Integer) -> Access:
        row_k, row_mn = (node.index.symbol for node in self._matrix_row)
        k = BitXor(k, self._load_swizzle.index.symbol) if self._is_swizzled else k + row_k
        width = MATRIX_ROW_BYTES // self.tile.dtype.bytes
        return Access(self.tile, self.in_tile(stage, row_mn + mn, k), "matrix_load", width)

    def definitions(self) -> tuple[Node, ...]:
        if not self._is_swizzled:
            return super().definitions()
        copy_swizzle = (self._swizzled_copy_k,) if self._has_fixed_copy_swizzle else ()
        return (*super().definitions(), self._load_swizzle, *copy_swizzle)

    @cached_property
    def _swizzle(self) -> tuple[int, int, int]:
        """Elements of a unit, units that are permuted, and rows with the same permutation; no units: not swizzled."""
        config = self.thread.config
        assert config.mma is not None
        if self.tile.pad:
            return 1, 0, 1
        is_a = self.operand.is_along_m
        return (shift_unit(config.mma, is_a=is_a, is_k_major=True), *swizzle_of(config, is_a=is_a))

    @property
    def _is_swizzled(self) -> bool:
        return self._swizzle[1] > 0

    @cached_property
    def _load_swizzle(self) -> Define:
        """Xor mask of k in a lane's loads: the same for all of them, as its rows are 8 apart."""
        unit, units, rows = self._swizzle
        if not self.loads_matrices:
            return self._define("swizzle", unit * Mod(self.thread.lane_m, integer(units)))
        row = Mod(self.thread.lane, integer(MATRIX_ROWS))
        mask = unit * (FloorDiv(row, integer(rows)) if rows > 1 else row)
        return self._define("swizzle", BitXor(self._matrix_row[0].index.symbol, mask))

    @cached_property
    def _swizzled_copy_k(self) -> Define:
        return self._define("swizzled_k", self._swizzled(self._first_k.index.symbol, self._first_mn.index.symbol))

    def _swizzled(self, k: Integer, mn: Integer) -> Integer:
        unit, units, rows = self._swizzle
        return BitXor(k, unit * Mod(FloorDiv(mn, integer(rows)) if rows > 1 else mn, integer(units)))

    @property
    def _has_fixed_copy_swizzle(self) -> bool:
        """Whether all copies of a thread have the same k and the same xor mask."""
        mn_per_pass, k_per_pass = self._extents_per_pass
        _, units, rows = self._swizzle
        return mn_per_pass % (units * rows) == 0 and k_per_pass == self.thread.config.block_k

    @cached_property
    def _threads_along_k(self) -> int:
        if not self.operand.is_k_major:
            return 1
        return math.gcd(self.thread.config.block_k // self.width, self.thread.config.threads)

    def divides_into(self, parts: int) -> bool:
        if not self.operand.is_k_major:
            return super().divides_into(parts)
        mn_per_pass, k_per_pass = self._extents_per_pass
        is_whole = self.extent % (parts * mn_per_pass) == 0 and self.extent % self.thread.config.warp_k == 0
        return k_per_pass == self.thread.config.block_k and is_whole

    def _part(self, first: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        if not self.operand.is_k_major:
            return super()._part(first, count)
        mn_per_part = int(self.extent // self.thread.config.warp_k)
        return integer(0), self.thread.config.block_k, mn_per_part * first, mn_per_part * count

    def _tile_subscripts(self, stage: Integer, k: Integer, mn: Integer) -> tuple[Integer, ...]:
        if self._is_swizzled:
            k = self._swizzled_copy_k.index.symbol if self._has_fixed_copy_swizzle else self._swizzled(k, mn)
        return self.in_tile(stage, mn, k)


def pipeline_of(thread: ThreadCoordinates, operand: Operand, tile: Array) -> OperandPipeline:
    if thread.config.is_strided:
        return ElementCopies(thread, operand, tile)
    is_eight_bit = operand.array.dtype.bytes == 1
    k_major = thread.config.uses_tensor_cores and (operand.is_k_major or is_eight_bit)
    return (KMajorPipeline if k_major else OperandPipeline)(thread, operand, tile)
