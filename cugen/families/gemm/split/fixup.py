"""Sums of a tile that several blocks share by ranges: what some leave, and what the one that ends the tile adds."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.sliced_k import PartedResults
from cugen.families.gemm.split.partials import Left
from cugen.pieces.grid_sync import Tickets
from cugen.plan.memory import Array
from cugen.plan.nodes import Await, Barrier, Comment, Comparison, For, Guard, If, Loop, Node, Publish, Store
from cugen.plan.symbols import Integer, bounds, integer


@dataclass(frozen=True)
class Joins:
    """A block's flag says that what it leaves is there. Blocks have numbers in the order in which they begin. One
    thread of the grid awaits a flag, and clears it for the next launch."""

    tickets: Tickets
    left: Left

    @property
    def workspace(self) -> tuple[Array, ...]:
        return self.tickets.flags, self.left.array

    def leave(self, results: Results, sums: Array, place: Place, slot: Integer) -> tuple[Node, ...]:
        """The block's sums go to its slot, for another one to add."""
        tell = Publish(self.tickets.flag(1 + self.tickets.number, "atomic"), self.tickets.set)
        is_first_thread = Guard((Comparison(place.thread, "==", integer(0)),))
        return *self.left.leave(results, sums, place, slot), Barrier(), If(is_first_thread, (tell,))

    def results(
        self, results: Results, sums: Array, place: Place, first: Integer, count: Integer, slot: Integer
    ) -> tuple[Node, ...]:
        """The block's results, to whose sums those of `count` blocks from number `first` on are added in their order,
        once all are there; those of the first lie in `slot`, those of the others behind it."""
        earlier = place.loop_index("p", bounds(count, place.lowering.ranges)[1])
        is_parted = isinstance(results, PartedResults)
        walk = Loop(earlier, integer(0), count, rolled=not count.is_Integer or not is_parted)
        here = slot + earlier.symbol
        arrival = self._arrival(place, first, count)
        if isinstance(results, PartedResults):
            return results.joined(
                place, walk, lambda row, column, width: self.left.at(here, row, column, width, "load"), arrival
            )
        added: tuple[Node, ...] = (*arrival, For(walk, (self.left.add(sums, place, here),)))
        if bounds(count, place.lowering.ranges)[0] == 0:
            added = (If(Guard((Comparison(count, ">", integer(0)),)), added),)
        return (*added, *results.nodes(sums, place))

    def _arrival(self, place: Place, first: Integer, count: Integer) -> tuple[Node, ...]:
        """What `count` blocks from number `first` on leave is there."""
        number = 1 + first + place.thread
        wait = Await(self.tickets.flag(number, "load"), self.tickets.set)
        clear = Store(self.tickets.flag(number, "store"), self.tickets.clear)
        is_one_each = Guard((Comparison(place.thread, "<", count),))
        return If(is_one_each, (wait, Comment("zero again for the next launch"), clear)), Barrier()
