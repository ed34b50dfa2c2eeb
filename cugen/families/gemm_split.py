"""Products of few outputs and long sums: several blocks share each tile's sum, in one launch.

The parts of a tile's sum are taken by blocks in the order in which these begin; all but the last one leave their sums
in the workspace and set a flag. The last one, which so waits for blocks that have begun, adds them to its own in the
order of the parts: no timing changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from cugen.families.blocks import Blocks, define, digits
from cugen.families.contraction import Contraction
from cugen.families.gemm_joins import Joins
from cugen.families.gemm_kernel import GemmKernel
from cugen.families.gemm_place import Place
from cugen.families.gemm_results import Results
from cugen.families.gemm_shape import Shape
from cugen.families.tickets import Tickets
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Comparison, Guard, If, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer


class SplitKernel(GemmKernel):
    """`shape.split` blocks share each tile; each takes a whole number of steps."""

    def __init__(self, found: Contraction, shape: Shape, why: str = "") -> None:
        super().__init__(found, shape, why)
        self.depth = FloorDiv(self.depth, integer(shape.split))

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        lowering, parts = self.lowering, self.shape.split
        tiles = sympy.Mul(*counts)
        self.tickets = Tickets(self.request, lowering, tiles * parts, left_zero=True)
        self.tile = define("tile", FloorDiv(self.tickets.number, integer(parts)), lowering)
        self.part = define("part", Mod(self.tickets.number, integer(parts)), lowering)
        self.joins = Joins.of(self.found, self.shape, self.tickets, tiles * (parts - 1))
        self.workspace = self.joins.workspace
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
        parts, part = self.shape.split, self.part.index.symbol
        slot, first = self.tile.index.symbol * (parts - 1), self.tickets.number - (parts - 1)
        leaving = (
            Comment("the tile's last block adds up what the others leave"),
            *self.joins.leave(results, sums, place, slot + part),
        )
        adding = self.joins.results(results, sums, place, first, integer(parts - 1), slot)
        is_earlier = Guard((Comparison(part, "<", integer(parts - 1)),))
        return *self.joins.before(results, sums, place), If(is_earlier, leaving, adding)

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; {self.shape.split} blocks share the sums of a tile", *others)
