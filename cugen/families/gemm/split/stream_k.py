"""Products whose tiles fill no whole waves of blocks: as many blocks as run at once share out the last of them.

Each block computes whole tiles, one after another; then it takes a range of the steps of all tiles that are left. Where
ranges meet inside of a tile, all blocks but the last one leave their sums in the workspace and set a flag. The last one
waits for blocks that began before it, and adds what they left in the order of the ranges. These are fixed, so that no
timing changes a bit of the result; and no block waits for one that may not have begun.
"""

from __future__ import annotations

from collections.abc import Sequence

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.pipeline import Ring
from cugen.families.gemm.cost_model import resident
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import problem_of
from cugen.families.gemm.split.fixup import Joins
from cugen.families.gemm.split.partials import Left, beside
from cugen.families.gemm.stream_k_schedule import Shares
from cugen.pieces.blocks import Blocks, digits
from cugen.pieces.grid_sync import Tickets
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, Comment, Comparison, For, Guard, If, Index, Loop, Node
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, ceil_div, integer


class StreamKernel(GemmKernel):
    """`shares` says what each block takes; `depth` is how much of a tile's sum it walks at a time."""

    def __init__(self, found: Contraction, shape: Shape, shares: Shares, why: str = "") -> None:
        super().__init__(found, shape, why)
        self.shares = shares
        together = resident(problem_of(found), shape, found.request.target)
        if not shape.blocks and together > 1:
            self.blocks = together  # so that the compiler doesn't take the registers of those that run beside
        # What two blocks stored of one output would be sums in different orders.
        self.exact.update({name: False for name, shifted in self.shifted.items() if shifted})
        self.shifted = {}

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        lowering, shares = self.lowering, self.shares
        blocks = integer(shares.blocks)
        self.tickets = Tickets(self.request, lowering, blocks, left_zero=True)
        self.joins = Joins(self.tickets, Left.of(self.found, self.shape, blocks))
        self.workspace = self.joins.workspace
        self.of_block = self._range()
        self.segment = Index(lowering.names.allocate("segment"), integer(0), (0, self._segments - 1))
        lowering.ranges[self.segment.symbol] = self.segment.range
        self.of_segment = self._segment()
        return Blocks((blocks, integer(1), integer(1)), digits(self.tile, counts))

    @property
    def _segments(self) -> int:
        return self.shares.rounds + self.shares.segments[1]

    def _range(self) -> tuple[Node, ...]:
        """The block's range, counted in the steps of all tiles in a row."""
        shares, ticket = self.shares, self.tickets.number
        begun, end = shares.whole * shares.steps, shares.tiles * shares.steps
        beginning = begun + shares.share * ticket
        if begun + shares.share * (shares.blocks - 1) > end:
            beginning = Minimum(beginning, integer(end))
        first = self._known("first", beginning, begun, end)
        self.first = first.index.symbol
        ending = self.first + shares.share
        if begun + shares.share * shares.blocks > end:
            ending = Minimum(ending, integer(end))
        last = self._known("last", ending, begun, end)
        self.last = last.index.symbol
        last_tile = self._known("last_tile", FloorDiv(self.last - 1, integer(shares.steps)), 0, shares.tiles - 1)
        self.last_tile = last_tile.index.symbol
        text = f"{shares.text}: {shares.steps} of each, {shares.share} to a block"
        return Comment(text), Comment("the block's range, in a row of all tiles' steps"), first, last, last_tile

    def _segment(self) -> tuple[Node, ...]:
        """A tile, and which of its steps the block takes."""
        shares, number, rounds = self.shares, self.segment.symbol, integer(self.shares.rounds)
        steps = integer(shares.steps)
        turn = self.tickets.number + shares.blocks * number
        tile = self._known("tile", self._by_round(turn, self.last_tile + rounds - number), 0, shares.tiles - 1)
        self.tile = tile.index.symbol
        first = self._by_round(integer(0), Maximum(self.first - steps * self.tile, integer(0)))
        last = self._by_round(steps, Minimum(self.last - steps * self.tile, steps))
        first_step = self._known("first_step", first, 0, shares.steps)
        last_step = self._known("last_step", last, 0, shares.steps)
        self.first_step, self.last_step = first_step.index.symbol, last_step.index.symbol
        text = "first what others wait for: the range is walked from its end, tile by tile"
        return Comment(text), tile, first_step, last_step

    def _by_round(self, whole: Integer, shared: Integer) -> Integer:
        rounds = self.shares.rounds
        return Choice(self.segment.symbol, integer(rounds), whole, shared) if rounds else shared

    def _indices(self, blocks: Blocks) -> tuple[tuple[Node, ...], Place]:
        step = self.shape.step
        most = self.shares.steps * step
        begin = self._known("begin", step * self.first_step, 0, most - step)
        length = self._known("length", step * (self.last_step - self.first_step), step, most)
        self.depth = length.index.symbol
        nodes: list[Node] = [begin, length]
        origin, lead = self._origin(blocks, nodes)
        self.of_walk = tuple(nodes)
        of_thread, place = self._thread_indices(origin, lead, begin.index.symbol)
        return (*self.tickets.draw(), *of_thread), place

    def _length(self, place: Place) -> Integer:
        return self.depth

    def _work(self, place: Place, rings: list[Ring], results: Results) -> tuple[tuple[str, tuple[Node, ...]], ...]:
        """A loop over the block's segments, which has all parts of a tile's work in its body."""
        (_, sums), (_, first), (_, walk), (_, ending) = super()._work(place, rings, results)
        segment: tuple[Node, ...] = (
            Comment("all have read what the ring held before"),
            Barrier(),
            *self.of_walk,
            *sums,
            *first,
            *walk,
            *ending,
        )
        if self.shares.segments[0] < self.shares.segments[1]:
            segment = (If(Guard((Comparison(self.first_step, "<", self.last_step),)), segment),)
        loop = For(Loop(self.segment, integer(0), integer(self._segments), rolled=True), (*self.of_segment, *segment))
        return ("sums", ()), ("first", ()), ("walk", self.of_block), ("results", (loop,))

    def _results(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        shares, ticket = self.shares, self.tickets.number
        count = self._known("earlier", ceil_div(self.first_step, shares.share), 0, shares.earlier)
        first = self._known("first_of_tile", ticket - count.index.symbol, 0, shares.blocks - 1)
        leaving = (
            Comment("the block that has the tile's end adds up what the others leave"),
            *self.joins.leave(results, sums, place, ticket),
        )
        start = first.index.symbol
        ending = (count, first, *self.joins.results(results, sums, place, start, count.index.symbol, start))
        is_begun = Guard((Comparison(self.last_step, "<", integer(shares.steps)),))
        return *beside(results, sums, place), If(is_begun, leaving, ending)

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; {self.shares.text}", *others)
