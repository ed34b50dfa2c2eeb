"""Sums of a tile that several blocks share: what some leave in the workspace, and what the last one of them adds."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction import Contraction
from cugen.families.gemm_place import Place
from cugen.families.gemm_shape import Shape
from cugen.families.tickets import Tickets, shared_by_blocks
from cugen.plan.ir import (
    Access,
    Accumulate,
    Array,
    Await,
    Barrier,
    Comment,
    Comparison,
    Element,
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
        return Joins(shape, tickets, shared_by_blocks(found.request, "parts", found.sums[0].dtype, extents))

    @property
    def workspace(self) -> tuple[Array, ...]:
        return self.tickets.flags, self.left

    def leave(self, sums: Array, place: Place, slot: Integer) -> tuple[Node, ...]:
        """The block's sums go to its slot, for another one to add."""
        i, j = self._indices(place)
        own = Element.of(Access(sums, (i.symbol, j.symbol), "load"))
        store = Store(self._at(slot, i, j, place), own)
        tell = Publish(self.tickets.flag(1 + self.tickets.number, "atomic"), self.tickets.set)
        is_first_thread = Guard((Comparison(place.thread, "==", integer(0)),))
        return self._each(i, j, store), Barrier(), If(is_first_thread, (tell,))

    def add(self, sums: Array, place: Place, first: Integer, count: Integer, slot: Integer) -> tuple[Node, ...]:
        """The sums of `count` blocks from number `first` on are added in their order, once all are there; those of the
        first lie in `slot`, those of the others behind it."""
        i, j = self._indices(place)
        number = 1 + first + place.thread
        wait = Await(self.tickets.flag(number, "load"), self.tickets.set)
        clear = Store(self.tickets.flag(number, "store"), self.tickets.clear)
        earlier = place.loop_index("p", bounds(count, place.lowering.ranges)[1])
        at = (i.symbol, j.symbol)
        what = Element.of(self._at(slot + earlier.symbol, i, j, place, "load"))
        one: Node = Accumulate(Access(sums, at, "store"), what)
        if not sums.dtype.is_float:
            one = Store(Access(sums, at, "store"), combine("sum", Element.of(Access(sums, at, "load")), what))
        return (
            If(
                Guard((Comparison(place.thread, "<", count),)), (wait, Comment("zero again for the next launch"), clear)
            ),
            Barrier(),
            For(Loop(earlier, integer(0), count, rolled=True), (self._each(i, j, one),)),
        )

    def _indices(self, place: Place) -> tuple[Index, Index]:
        return place.loop_index("i", self.shape.thread_rows), place.loop_index("j", self.shape.thread_columns)

    def _at(self, slot: Integer, i: Index, j: Index, place: Place, kind: str = "store") -> Access:
        return Access(self.left, (slot, i.symbol * self.shape.thread_columns + j.symbol, place.thread), kind)

    def _each(self, i: Index, j: Index, node: Node) -> Node:
        inner = For(Loop(j, integer(0), integer(self.shape.thread_columns), unroll=True), (node,))
        return For(Loop(i, integer(0), integer(self.shape.thread_rows), unroll=True), (inner,))
