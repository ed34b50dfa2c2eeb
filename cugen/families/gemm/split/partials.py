"""What blocks that share a tile leave of its sums in the workspace for one of them.

Each thread leaves what it holds for the same thread of another block. Where a block has several slices these are added
up first, and the workspace has the tile row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.sliced_k import PartedResults
from cugen.pieces.grid_sync import shared_by_blocks
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Accumulate, For, Loop, Node, Store
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class Left:
    """Slots of the workspace for the sums of a tile, one for each block that may leave some."""

    shape: Shape
    array: Array

    @staticmethod
    def of(found: Contraction, shape: Shape, slots: Integer) -> Left:
        own = shape.thread_rows * shape.thread_columns
        extents = (slots, integer(own), integer(shape.threads))
        if shape.slices > 1:
            extents = (slots, integer(shape.rows), integer(shape.columns))
        return Left(shape, shared_by_blocks(found.request, "parts", found.sums[0].dtype, extents))

    def leave(self, results: Results, sums: Array, place: Place, slot: Integer) -> tuple[Node, ...]:
        """The block's sums go to its slot, once `beside` has put those of its slices where all threads read them."""
        if isinstance(results, PartedResults):
            return results.left(place, lambda row, column, width: self.at(slot, row, column, width, "store"))
        return (self._each(place, lambda i, j: Store(self._own(slot, i, j, place), _sum(sums, i, j))),)

    def add(self, sums: Array, place: Place, slot: Integer) -> Node:
        """What the same thread of another block left is added to each of the thread's sums."""

        def more(i: Integer, j: Integer) -> Node:
            what = Element.of(self._own(slot, i, j, place, "load"))
            if sums.dtype.is_float:
                return Accumulate(Access(sums, (i, j), "store"), what)
            return Store(Access(sums, (i, j), "store"), combine("sum", _sum(sums, i, j), what))

        return self._each(place, more)

    def take(self, sums: Array, place: Place, slot: Integer) -> Node:
        """What the same thread of another block left becomes the thread's sums."""
        return self._each(
            place,
            lambda i, j: Store(Access(sums, (i, j), "store"), Element.of(self._own(slot, i, j, place, "load"))),
        )

    def at(self, slot: Integer, row: Integer, column: Integer, width: int, kind: str) -> Access:
        """Neighbours of a tile's row, all slices of which are added up."""
        return Access(self.array, (slot, row, column), kind, width)

    def _own(self, slot: Integer, i: Integer, j: Integer, place: Place, kind: str = "store") -> Access:
        return Access(self.array, (slot, i * self.shape.thread_columns + j, place.thread), kind)

    def _each(self, place: Place, node: Callable[[Integer, Integer], Node]) -> Node:
        i, j = place.loop_index("i", self.shape.thread_rows), place.loop_index("j", self.shape.thread_columns)
        one = node(i.symbol, j.symbol)
        inner = For(Loop(j, integer(0), integer(self.shape.thread_columns), unroll=True), (one,))
        return For(Loop(i, integer(0), integer(self.shape.thread_rows), unroll=True), (inner,))


def beside(results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
    """What leaving and adding have in common: slices put their sums where all threads can read them."""
    return results.beside(sums, place) if isinstance(results, PartedResults) else ()


def _sum(sums: Array, i: Integer, j: Integer) -> Element:
    return Element.of(Access(sums, (i, j), "load"))
