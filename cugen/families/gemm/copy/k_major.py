"""The stages of an operand that lies along k, for lanes that read single elements: its tile lies as memory does.

So copies move neighbours along k, and threads side by side the whole of a row's step; where k is slow instead, each
thread would copy single elements, of as many rows as lie in different banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from cugen.families.contraction.recognition import Operand
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.pipeline import Ring
from cugen.families.gemm.problem import along_width, lies_along
from cugen.families.gemm.tensor_cores import SECTOR, SECTORS
from cugen.pieces.blocks import define
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Define
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Mod, integer


@dataclass(frozen=True)
class AlongRing(Ring):
    """A tile of rows, or of columns, along which k is fast. Without a pad the sectors of a row change places, by its
    number modulo 4: so four rows that are read at once lie in different banks."""

    @property
    def extent(self) -> int:
        return int(self.tile.shape[-2])

    @property
    def width(self) -> int:
        return along_width(self.place.found, self.operand)

    def lane_read(self, stage: Integer, k: Integer, place: Integer) -> Access:
        if self._is_swizzled:
            k = self._turn.index.symbol if k == 0 else BitXor(k, self._turn.index.symbol)
        return Access(self.tile, (stage, place, k + self.place.lane_column), "load")

    def places(self) -> tuple[Define, ...]:
        swizzled = (self._turn, *((self._target_k,) if self._keeps_turn else ())) if self._is_swizzled else ()
        return (*super().places(), *swizzled)

    @property
    def _is_swizzled(self) -> bool:
        return self.tile.pad == 0

    @cached_property
    def _turn(self) -> Define:
        """What moves the sectors of all rows that a lane reads: they lie 8 apart."""
        return self._named("turn", SECTOR * Mod(self.place.lane_row, integer(SECTORS)))

    @cached_property
    def _target_k(self) -> Define:
        """Where the neighbours that a thread copies lie in a row."""
        row, k = self._first_column.index.symbol, self._first_k.index.symbol
        return self._named("at", BitXor(k, SECTOR * Mod(row, integer(SECTORS))))

    @property
    def _keeps_turn(self) -> bool:
        """Whether a thread's sectors change places alike in all rows that it copies."""
        return self._paces[0] % SECTORS == 0 and self._paces[1] == self.place.shape.step

    @cached_property
    def _along(self) -> int:
        """Threads that copy neighbours along k."""
        return math.gcd(self.place.shape.step // self.width, self.place.shape.threads)

    @cached_property
    def _paces(self) -> tuple[int, int]:
        return self.place.shape.threads // self._along, self._along * self.width

    @cached_property
    def _first_k(self) -> Define:
        k = Mod(self.place.thread, integer(self._along)) * self.width
        return self._named(self.place.found.k.name, k)

    @cached_property
    def _first_column(self) -> Define:
        return self._named(self.operand.mn.name, FloorDiv(self.place.thread, integer(self._along)))

    def _named(self, what: str, definition: Integer) -> Define:
        return define(f"{self.operand.read.array.lower()}_{what}", definition, self.place.lowering)

    def is_spread_by(self, parts: int) -> bool:
        across, down = self._paces
        return down == self.place.shape.step and self.extent % (parts * across) == 0

    def _share(self, done: Integer, count: int) -> tuple[Integer, int, Integer, int]:
        each = self.extent // self.place.shape.own_step
        return integer(0), self.place.shape.step, each * done, each * count

    def _at(self, stage: Integer, k: Integer, column: Integer) -> tuple[Integer, ...]:
        if self._is_swizzled:
            moved = BitXor(k, SECTOR * Mod(column, integer(SECTORS)))
            k = self._target_k.index.symbol if self._keeps_turn else moved
        return stage, column, k


def ring_of(place: Place, operand: Operand, tile: Array) -> Ring:
    """The stages of an operand, as the cores read them."""
    along = place.shape.is_on_tensor_cores and lies_along(place.found, operand)
    return (AlongRing if along else Ring)(place, operand, tile)
