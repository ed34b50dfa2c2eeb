"""Sums of a tile that several blocks share: what some leave in the workspace, and what the last one of them adds.

Each thread leaves what it holds for the same thread of another block. Where a block has several slices these are added
up first, and the workspace has the tile row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction import Contraction
from cugen.families.gemm_parts import PartedResults
from cugen.families.gemm_place import Place
from cugen.families.gemm_results import Results
from cugen.families.gemm_shape import Shape
from cugen.families.tickets import Tickets, shared_by_blocks
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Await,
    Barrier,
    Comment,
    Comparison,
    For,
    Guard,
    If,
    Index,
    Loop,
    Node,
    Publish,
    Store,
)
from cugen.plan.reductions import combine
from cugen.plan.symbols import Integer, bounds, integer


@dataclass(frozen=True)
class Joins:
    """`left` has a slot of sums for each block that may leave some, thread by thread; the block's flag says that they
    are there. Blocks have numbers in the order in which they begin. One thread of the grid awaits a flag, and clears it
    for the next launch."""

    shape: Shape
    tickets: Tickets
    left: Array

    @staticmethod
    def of(found: Contraction, shape: Shape, tickets: Tickets, slots: Integer) -> Joins:
        own = shape.thread_rows * shape.thread_columns
        extents = (slots, integer(own), integer(shape.threads))
        if shape.slices > 1:
            extents = (slots, integer(shape.rows), integer(shape.columns))
        return Joins(shape, tickets, shared_by_blocks(found.request, "parts", found.sums[0].dtype, extents))

    @property
    def workspace(self) -> tuple[Array, ...]:
        return self.tickets.flags, self.left

    def before(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        """What leaving and adding have in common: slices put their sums where all threads can read them."""
        return results.beside(sums, place) if isinstance(results, PartedResults) else ()

    def leave(self, results: Results, sums: Array, place: Place, slot: Integer) -> tuple[Node, ...]:
        """The block's sums go to its slot, for another one to add."""
        tell = Publish(self.tickets.flag(1 + self.tickets.number, "atomic"), self.tickets.set)
        is_first_thread = Guard((Comparison(place.thread, "==", integer(0)),))
        if isinstance(results, PartedResults):
            left = results.left(place, lambda row, column, width: self._place(slot, row, column, width, "store"))
        else:
            i, j = self._indices(place)
            own = Element.of(Access(sums, (i.symbol, j.symbol), "load"))
            left = (self._each(i, j, Store(self._at(slot, i, j, place), own)),)
        return *left, Barrier(), If(is_first_thread, (tell,))

    def results(
        self, results: Results, sums: Array, place: Place, first: Integer, count: Integer, slot: Integer
    ) -> tuple[Node, ...]:
        """The block's results, to whose sums those of `count` blocks from number `first` on are added in their order,
        once all are there; those of the first lie in `slot`, those of the others behind it."""
        earlier = place.loop_index("p", bounds(count, place.lowering.ranges)[1])
        walk = Loop(earlier, integer(0), count, rolled=not count.is_Integer or self.shape.slices == 1)
        here = slot + earlier.symbol
        fewest = bounds(count, place.lowering.ranges)[0]
        if isinstance(results, PartedResults):
            return results.joined(
                place,
                self._arrival(place, first, count),
                walk,
                lambda row, column, width: self._place(here, row, column, width, "load"),
            )
        i, j = self._indices(place)
        at = (i.symbol, j.symbol)
        what = Element.of(self._at(here, i, j, place, "load"))
        one: Node = Accumulate(Access(sums, at, "store"), what)
        if not sums.dtype.is_float:
            one = Store(Access(sums, at, "store"), combine("sum", Element.of(Access(sums, at, "load")), what))
        added: tuple[Node, ...] = (*self._arrival(place, first, count), For(walk, (self._each(i, j, one),)))
        if fewest == 0:
            added = (If(Guard((Comparison(count, ">", integer(0)),)), added),)
        return (*added, *results.nodes(sums, place))

    def _arrival(self, place: Place, first: Integer, count: Integer) -> tuple[Node, ...]:
        """What `count` blocks from number `first` on leave is there."""
        number = 1 + first + place.thread
        wait = Await(self.tickets.flag(number, "load"), self.tickets.set)
        clear = Store(self.tickets.flag(number, "store"), self.tickets.clear)
        is_one_each = Guard((Comparison(place.thread, "<", count),))
        return If(is_one_each, (wait, Comment("zero again for the next launch"), clear)), Barrier()

    def _place(self, slot: Integer, row: Integer, column: Integer, width: int, kind: str) -> Access:
        """Neighbours of a tile's row, all slices of which are added up."""
        return Access(self.left, (slot, row, column), kind, width)

    def _indices(self, place: Place) -> tuple[Index, Index]:
        return place.loop_index("i", self.shape.thread_rows), place.loop_index("j", self.shape.thread_columns)

    def _at(self, slot: Integer, i: Index, j: Index, place: Place, kind: str = "store") -> Access:
        return Access(self.left, (slot, i.symbol * self.shape.thread_columns + j.symbol, place.thread), kind)

    def _each(self, i: Index, j: Index, node: Node) -> Node:
        inner = For(Loop(j, integer(0), integer(self.shape.thread_columns), unroll=True), (node,))
        return For(Loop(i, integer(0), integer(self.shape.thread_rows), unroll=True), (inner,))
