"""Products of few outputs and long sums: the blocks of a cluster share each tile's sum, and join it in shared memory.

Each block takes a range of the sum's steps. When all have left their sums in shared memory, each adds up a share of the
tile in the order of the blocks: no timing changes a bit of the result, and nothing goes through the workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.sliced_k import PartedResults
from cugen.pieces.blocks import Blocks, define, lay_blocks
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol


class ClusterKernel(GemmKernel):
    """`shape.split` blocks share each of the `steps` of a tile's sum as evenly as whole ones can be."""

    def __init__(self, found: Contraction, shape: Shape, steps: int, why: str = "") -> None:
        super().__init__(found, shape, why)
        self.steps = steps

    def kernel(self) -> Kernel:
        return replace(super().kernel(), cluster=self.shape.split)

    def _lay(self, counts: Sequence[Integer]) -> Blocks:
        """The blocks of a cluster lie side by side along x, and all have the same tile."""
        size = self.shape.split
        blocks = lay_blocks((counts[0] * size, *counts[1:]), self.lowering, self.request.target)
        first, *others = blocks.places
        return Blocks(blocks.grid, (FloorDiv(first, integer(size)), *others))

    def _begin(self, nodes: list[Node]) -> Integer:
        size, steps, step = self.shape.split, self.steps, self.shape.step
        name = self.found.k.name
        rank = define("rank", Mod(symbol("blockIdx.x"), integer(size)), self.lowering)
        self.rank = rank.index.symbol
        nodes += [Comment(f"{size} blocks, a cluster, share a tile: each has its part of {name}"), rank]
        begin = define("begin", step * self._first_step(self.rank), self.lowering)
        nodes.append(begin)
        if steps % size == 0:
            self.depth = integer(steps // size * step)
        else:
            least, most = steps // size * step, -(-steps // size) * step
            end = step * self._first_step(self.rank + 1)
            length = self._known("length", end - begin.index.symbol, least, most)
            nodes.append(length)
            self.depth = length.index.symbol
        return begin.index.symbol

    def _first_step(self, rank: Integer) -> Integer:
        """Where the part of a block begins."""
        size = self.shape.split
        if self.steps % size == 0:
            return rank * (self.steps // size)
        return FloorDiv(rank * self.steps, integer(size))

    def _length(self, place: Place) -> Integer:
        return self.depth

    def _results(self, results: Results, sums: Array, place: Place) -> tuple[Node, ...]:
        assert isinstance(results, PartedResults)
        return results.nodes_in_cluster(sums, place, self.rank)

    def _reasons(self) -> tuple[str, ...]:
        first, *others = super()._reasons()
        return (f"{first}; clusters of {self.shape.split} blocks share the sums of a tile", *others)
