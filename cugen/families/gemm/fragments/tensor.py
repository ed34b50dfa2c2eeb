"""What a lane of a product on tensor cores holds of both tiles, for one instruction after another and the next.

The fragments of the next products are read while those of these are multiplied, as in `gemm_fragments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.pipeline import Ring
from cugen.families.gemm.tensor_cores import COLUMNS, ROWS
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Declare, For, Index, Loop, MultiplyTiles, Node, Store
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class TensorFragment:
    """A lane's part of one operand, twice: of tiles that lie `span` apart in a stage, from `start` on. Of each it has
    `halves` that lie 8 apart, at every fourth k. `which` is the loop's index over the tiles."""

    ring: Ring
    start: Integer
    span: int
    halves: int
    held: Array
    which: Index

    @property
    def count(self) -> int:
        return int(self.held.shape[1])

    @property
    def elements(self) -> int:
        """Those of one tile."""
        return int(self.held.shape[2])


class TensorFragments:
    """Those of both operands. `turn`, 0 or 1, says which of the two."""

    what = "fragments of tiles, of some k and of the next"

    def __init__(self, place: Place, rings: list[Ring], sums: Array) -> None:
        shape = place.shape
        self.place, self.shape, self.sums = place, shape, sums
        left, right = rings
        rows, columns = shape.thread_rows // 2, shape.thread_columns // 2
        self._left = self._fragment(left, place.row, ROWS, 2, place.loop_index("i", rows), rows)
        self._right = self._fragment(right, place.read_column, COLUMNS, 1, place.loop_index("j", columns), columns)

    def _fragment(self, ring: Ring, start: Integer, span: int, halves: int, which: Index, count: int) -> TensorFragment:
        elements = self.shape.depth // 4 * halves
        name = self.place.lowering.names.allocate(ring.operand.read.array.lower())
        extents = (integer(2), integer(count), integer(elements))
        strides = (integer(count * elements), integer(elements), integer(1))
        held = Array("", name, ring.tile.dtype, extents, strides, "register", flat=False)
        return TensorFragment(ring, start, span, halves, held, which)

    def declarations(self) -> tuple[Node, ...]:
        return Declare(self._left.held), Declare(self._right.held)

    def read(self, stage: Integer, k: Integer, turn: Integer) -> Iterator[Node]:
        """The loads of `depth` products of a stage, from `k` on."""
        for fragment in (self._left, self._right):
            loops = [(fragment.which, fragment.count)]
            element, column = integer(0), fragment.start + fragment.which.symbol * fragment.span
            row = k
            if self.shape.depth > 4:
                u = self.place.loop_index("u", self.shape.depth // 4)
                loops.append((u, self.shape.depth // 4))
                element, row = u.symbol * fragment.halves, row + 4 * u.symbol
            if fragment.halves > 1:
                h = self.place.loop_index("h", fragment.halves)
                loops.append((h, fragment.halves))
                element, column = element + h.symbol, column + 8 * h.symbol
            held = Access(fragment.held, (turn, fragment.which.symbol, element), "store")
            node: Node = Store(held, Element.of(fragment.ring.lane_read(stage, row, column)))
            for index, count in reversed(loops):
                node = For(Loop(index, integer(0), integer(count), unroll=True), (node,))
            yield node

    def multiply(self, turn: Integer) -> tuple[Node, ...]:
        """The products of all tiles of the one with all of the other are added to the sums."""
        left, right, depth = self._left, self._right, self.shape.depth
        i, j = left.which.symbol, right.which.symbol
        node: Node = MultiplyTiles(
            Access(self.sums, (2 * i, 2 * j), "store", 2),
            Access(self.sums, (2 * i + 1, 2 * j), "store", 2),
            Access(left.held, (turn, i, integer(0)), "load", left.elements),
            Access(right.held, (turn, j, integer(0)), "load", right.elements),
            depth,
        )
        for fragment in (right, left):
            node = For(Loop(fragment.which, integer(0), integer(fragment.count), unroll=True), (node,))
        return (node,)
