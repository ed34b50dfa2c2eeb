"""Long rows in one pass: each block scans a segment, tells what it combines to, and learns what all before it do.

Blocks draw tickets and take the segments of a row in that order, so that a block waits for others that have begun. As
many segments as a block has threads are a group. Every block awaits those before it in its group, a thread each, and
what the last block of the group before tells: what all segments up to there combine to. What the threads learned is
combined as in any other reduction. So the association is fixed: no timing changes a bit of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from cugen.families.scan.recognition import Work
from cugen.families.scan.rows import RowScan, Team
from cugen.pieces import block_reduce as collective
from cugen.pieces.block_reduce import Running, combine_team, first_values
from cugen.pieces.block_scan import Names, joined
from cugen.pieces.blocks import Blocks, define, digits, thread
from cugen.pieces.grid_sync import Tickets, shared_by_blocks
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Assign, Await, Comment, Comparison, Guard, If, Node, Publish, Store
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Mod, bounds, integer, symbol
from cugen.spec.expressions import Expr, Local


@dataclass(frozen=True, slots=True)
class _Handed:
    """What blocks hand to each other of one scan: what each segment combines to, the last of a group and all before."""

    names: Names
    earlier: Local  # what the thread learned, then what all segments before the block's combine to
    results: Array


class LookBackScan(RowScan):
    """`work` is in segments of one step of the team."""

    def __init__(self, work: Work, lowering: Lowering, team: Team) -> None:
        self.counts = [to_integer(index.extent, lowering.symbols) for index in work.rest]
        super().__init__(work, lowering, team)
        longest = bounds(self.steps.extent, lowering.ranges)[1]
        self.elements.most = -(-longest // team.step) * team.step
        # Forward the last segment alone may be short, and nobody asks for what it combines to.
        self.elements.all_count = work.walk.reverse
        self.handed = tuple(self._handed(names) for names in self.elements.names)

    @property
    def reason(self) -> str:
        team, along = self.team, self.work.along.name
        return f"one pass along {along}: {team.threads} threads scan {team.step} neighbours and await what comes before"

    @property
    def workspace(self) -> tuple[Array, ...]:
        return (self.tickets.flags, *(h.results for h in self.handed))

    def _blocks(self) -> Blocks:
        """A block for each segment, by its ticket: the segments of a row in the direction of the scan, then the next
        row's."""
        lowering = self.lowering
        count = sympy.Mul(*self.counts)
        self.tickets = Tickets(self.work.request, lowering, count)
        self.turn: Integer = self.tickets.number
        self.turns: list[Node] = []
        several = [axis for axis, n in enumerate(self.counts) if axis == 0 or bounds(n, lowering.ranges) != (1, 1)]
        places = [integer(0)] * len(self.counts)
        places[0] = self.turn
        if len(several) > 1 or self.work.walk.reverse:
            segments = define("segments", self.counts[0], lowering)
            self.turns.append(segments)
            sizes = (segments.index.symbol, *(self.counts[axis] for axis in several[1:]))
            for axis, place in zip(several, digits(self.tickets.number, sizes), strict=True):
                places[axis] = place
            if self.work.walk.reverse:
                self._turn_round(places, segments.index.symbol)
        return Blocks((count, integer(1), integer(1)), tuple(places))

    def _turn_round(self, places: list[Integer], segments: Integer) -> None:
        """The last segment of a row has the first turn."""
        if places[0] != self.turn:
            turn = define("turn", places[0], self.lowering)
            self.turns.append(turn)
            self.turn = turn.index.symbol
        places[0] = segments - 1 - self.turn

    def _indices(self) -> tuple[Node, ...]:
        self.thread = thread("x", self.team.threads, self.lowering)
        self.has_groups = bounds(self.counts[0], self.lowering.ranges)[1] > self.team.threads
        nodes = super()._indices()
        if self.turns and not self.work.walk.reverse and self.work.segments is not None:
            self.turn = self.lowering.symbols[self.work.segments.index]
        return (
            *self.tickets.draw(),
            *self.turns,
            *nodes,
        )

    def _warp_results(self, names: Names, buffers: int) -> Array:
        """Neighbours of it are read at once, though the ticket lies before it."""
        return replace(super()._warp_results(names, buffers), align=16)

    def _handed(self, names: Names) -> _Handed:
        base, dtype = ACCUMULATORS[names.scan.kind], names.scan.dtype
        earlier = Local(self.lowering.names.allocate(f"earlier_{base}"), dtype)
        if (known := self.lowering.ranges.get(symbol(names.running.name))) is not None:
            self.lowering.ranges[symbol(earlier.name)] = known
        return _Handed(
            names, earlier, shared_by_blocks(self.work.request, f"{base}s", dtype, (1 + self.blocks.grid[0],))
        )

    def _across(self, shared: dict[str, Array]) -> tuple[Node, ...]:
        """What the warps in front and all blocks before combine to."""
        lowering, threads = self.lowering, self.team.threads
        ticket, place, members = self.tickets.number, self.turn, list[Node]()
        if self.has_groups:
            member = define("member", Mod(self.turn, integer(threads)), lowering)
            place, members = member.index.symbol, [member]
        earlier = define("earlier", ticket - place + self.thread, lowering, below=self.blocks.grid[0])
        is_teller = Comparison(self.thread, "==", integer(threads - 1))
        in_group = Comparison(place, "<", integer(threads - 1))
        is_before = Comparison(self.thread, "<=", place)
        of_row = self.turn - place + self.thread if self.has_groups else self.thread
        is_in_row = Comparison(of_row, ">", integer(0))
        runs = tuple(Running(h.names.scan.kind, h.earlier) for h in self.handed)
        ask: tuple[Node, ...] = (
            earlier,
            Await(self.tickets.flag(earlier.index.symbol, "load"), self.tickets.set),
            *(Assign(h.earlier, Element.of(Access(h.results, (earlier.index.symbol,), "load"))) for h in self.handed),
        )
        tell = self._tell(tuple(h.names.so_far for h in self.handed))
        nodes: list[Node] = [
            *super()._across(shared),
            Comment("The block tells what its segment combines to, and awaits what those before it do."),
            *members,
            If(Guard((is_teller, in_group) if self.has_groups else (is_teller,)), tell),
            *(node for run in runs for node in first_values(run)),
            If(Guard((is_in_row, is_before)), ask),
            *combine_team(collective.Team(threads, self.thread), runs, lowering, everywhere=True),
        ]
        if self.has_groups:
            all_so_far = tuple(joined(h.names, h.earlier, h.names.so_far) for h in self.handed)
            is_end = Comparison(place, "==", integer(threads - 1))
            nodes.append(If(Guard((is_teller, is_end)), self._tell(all_so_far)))
        nodes += [Assign(h.names.in_front, joined(h.names, h.earlier, h.names.in_front)) for h in self.handed]
        return tuple(nodes)

    def _tell(self, values: tuple[Expr, ...]) -> tuple[Node, ...]:
        own = 1 + self.tickets.number
        stored = [
            Store(Access(h.results, (own,), "store"), value) for h, value in zip(self.handed, values, strict=True)
        ]
        return (*stored, Publish(self.tickets.flag(own, "atomic"), self.tickets.set))
