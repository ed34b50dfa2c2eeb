"""Products of few outputs and long sums: several blocks share each tile's sum, in one launch.

Each block leaves its part of a tile's sum in the workspace, and counts itself among the tile's. Whichever is the last
one adds them all, in the order of the parts: no timing changes a bit of the result, and no block waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.sliced_k import PartedResults
from cugen.families.gemm.split.partials import Left, beside
from cugen.pieces.blocks import Blocks, define, digits
from cugen.pieces.grid_sync import shared_by_blocks
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import CountArrival, Barrier, Comment, Comparison, Declare, For, Guard, If, Index, Loop, Node, LoadBlockId
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer, symbol
from cugen.spec.types import INT32, UINT32


class SplitKernel(GemmKernel):
    """`shape.split` blocks share each tile; each takes a whole number of steps."""

    def __init__(self, found: Contraction, shape: Shape, why: str = "") -> None:
        super().__init__(found, shape, why)
        self.depth = FloorDiv(self.depth, integer(shape.split))

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        lowering, parts = self.lowering, self.shape.split
        tiles = sympy.Mul(*counts)
        block = symbol("blockIdx.x")
        lowering.ranges[block] = (0, max(bounds(tiles * parts, lowering.ranges)[1] - 1, 0))
        self.tile = define("tile", FloorDiv(block, integer(parts)), lowering)
        self.part = define("part", Mod(block, integer(parts)), lowering)
        arrived = shared_by_blocks(self.request, "arrived", UINT32, (tiles,))
        self.arrived = replace(arrived, zeroed=True, left_zero=True)
        self.left = Left.of(self.found, self.shape, tiles * parts)
        self.workspace = self.arrived, self.left.array
        return Blocks((tiles * parts, integer(1), integer(1)), digits(self.tile.index.symbol, counts))

    def _begin(self, nodes: list[Node]) -> Integer:
        depth = self.found.k.name
        begin = define("begin", self.part.index.symbol * self.depth, self.lowering)
        text = f"{self.shape.split} blocks share a tile, each has its part of {depth}"
        nodes += [Comment(text), self.tile, self.part, begin]
        return begin.index.symbol

    def _results(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        parts, tile = self.shape.split, self.tile.index.symbol
        mine = tile * parts + self.part.index.symbol
        arrival, arrive = self._arrival(place)
        p = place.loop_index("p", parts)
        theirs = tile * parts + p.symbol
        if isinstance(results, PartedResults):
            added = results.joined(
                place,
                Loop(p, integer(0), integer(parts)),
                lambda row, column, width: self.left.at(theirs, row, column, width, "load"),
            )
        else:
            first = self.left.take(sums, place, tile * parts)
            others = For(Loop(p, integer(1), integer(parts), rolled=True), (self.left.add(sums, place, theirs),))
            added = (first, others, *results.nodes(sums, place))
        return (
            *beside(results, sums, place),
            Comment("each block leaves its part of the sums"),
            *self.left.leave(results, sums, place, mine),
            *arrive,
            If(
                Guard((Comparison(arrival, "==", integer(parts - 1)),)),
                (Comment("the last one adds them up, in the order of the parts"), *added),
            ),
        )

    def _arrival(self, place: Place) -> tuple[Integer, tuple[Node, ...]]:
        """The block's number in the order in which those of a tile have left their parts, and how it learns that."""
        lowering = self.lowering
        told = Array("", lowering.names.allocate("arrival_of_block"), INT32, (), (), "shared", flat=False)
        index = Index(lowering.names.allocate("arrival"), self.part.index.symbol, self.part.index.range)
        lowering.ranges[index.symbol] = index.range
        counter = Access(self.arrived, (self.tile.index.symbol,), "atomic")
        is_first_thread = Guard((Comparison(place.thread, "==", integer(0)),))
        return index.symbol, (
            Declare(told),
            Barrier(),
            If(is_first_thread, (CountArrival(Access(told, (), "store"), counter, self.shape.split),)),
            Barrier(),
            LoadBlockId(index, Access(told, (), "load")),
        )

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; {self.shape.split} blocks share the sums of a tile", *others)
