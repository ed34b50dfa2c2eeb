"""Products whose sums several blocks share: the last of a tile's blocks adds up what the others leave, in one launch.

Blocks draw tickets. Those of one tile follow each other, each has a part of the sum, and all but the last put their
sums into the workspace and set a flag. The last one, which so waits for blocks that have begun, adds them to its own in
the order of the parts: no timing changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from cugen.families.blocks import Blocks, define, digits
from cugen.families.contraction import Contraction
from cugen.families.gemm_kernel import GemmKernel
from cugen.families.gemm_place import Place
from cugen.families.gemm_results import Results
from cugen.families.gemm_shape import Shape
from cugen.families.tickets import SET, Tickets, shared_by_blocks
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
    Loop,
    Node,
    Publish,
    Store,
)
from cugen.plan.reductions import combine
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


class StreamKernel(GemmKernel):
    """`shape.split` blocks share each tile; each takes a whole number of steps."""

    def __init__(self, found: Contraction, shape: Shape, why: str = "") -> None:
        super().__init__(found, shape, why)
        self.depth = FloorDiv(self.depth, integer(shape.split))

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        lowering, parts = self.lowering, self.shape.split
        tiles = sympy.Mul(*counts)
        self.tickets = Tickets(self.request, lowering, tiles * parts)
        self.tile = define("tile", FloorDiv(self.tickets.number, integer(parts)), lowering)
        self.part = define("part", Mod(self.tickets.number, integer(parts)), lowering)
        self.own = self.shape.thread_rows * self.shape.thread_columns
        left = (tiles * (parts - 1), integer(self.own), integer(self.shape.threads))
        self.left = shared_by_blocks(self.request, "parts", self.found.sums[0].dtype, left)
        self.workspace = (self.tickets.flags, self.left)
        return Blocks((tiles * parts, integer(1), integer(1)), digits(self.tile.index.symbol, counts))

    def _begin(self, nodes: list[Node]) -> Integer:
        depth = self.found.depth.name
        begin = define("begin", self.part.index.symbol * self.depth, self.lowering)
        nodes += [
            *self.tickets.draw(),
            Comment(f"{self.shape.split} blocks share a tile, each has its part of {depth}"),
            self.tile,
            self.part,
            begin,
        ]
        return begin.index.symbol

    def _results(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        parts, part, ticket = self.shape.split, self.part.index.symbol, self.tickets.number
        first = self.tile.index.symbol * (parts - 1)
        i, j = place.loop_index("i", self.shape.thread_rows), place.loop_index("j", self.shape.thread_columns)
        place_of_sum = i.symbol * self.shape.thread_columns + j.symbol

        def each_sum(node: Node) -> Node:
            inner = For(Loop(j, integer(0), integer(self.shape.thread_columns), unroll=True), (node,))
            return For(Loop(i, integer(0), integer(self.shape.thread_rows), unroll=True), (inner,))

        own = Element.of(Access(sums, (i.symbol, j.symbol), "load"))
        leave = Store(Access(self.left, (first + part, place_of_sum, place.thread), "store"), own)
        is_first_thread = Guard((Comparison(place.thread, "==", integer(0)),))
        tell = Publish(self.tickets.flag(1 + ticket, "atomic"), SET)
        leaving = (
            Comment("the tile's last block adds up what the others leave"),
            each_sum(leave),
            Barrier(),
            If(is_first_thread, (tell,)),
        )
        earlier = place.loop_index("p", parts - 1)
        asked = self.tickets.flag(2 + ticket - parts + place.thread, "load")
        sum_at = (i.symbol, j.symbol)
        what = Element.of(Access(self.left, (first + earlier.symbol, place_of_sum, place.thread), "load"))
        add: Node = Accumulate(Access(sums, sum_at, "store"), what)
        if not sums.dtype.is_float:
            total = combine("sum", Element.of(Access(sums, sum_at, "load")), what)
            add = Store(Access(sums, sum_at, "store"), total)
        adding = (
            If(Guard((Comparison(place.thread, "<", integer(parts - 1)),)), (Await(asked, SET),)),
            Barrier(),
            For(Loop(earlier, integer(0), integer(parts - 1), rolled=True), (each_sum(add),)),
            *results.nodes(sums, place),
        )
        return (If(Guard((Comparison(part, "<", integer(parts - 1)),)), leaving, adding),)

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; {self.shape.split} blocks share the sums of a tile", *others)
