"""Skinny GEMM with a K-major B: each warp computes `tile_n` columns, its lanes split K."""

from __future__ import annotations

from cugen.families.gemm.skinny.kernel import SkinnyKernel
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.block_reduce import Accumulator, ThreadGroup, reduce_group
from cugen.pieces.blocks import limit
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import repeated_sections
from cugen.plan.nodes import Comparison, Guard, If, Index, Let, Node, ReturnUnless, Section
from cugen.plan.symbols import Integer, Minimum, integer


class KMajorKernel(SkinnyKernel):
    """The kernel whose warps add their partial sums by shuffles."""

    def _exit(self, n0: Index) -> tuple[Node, ...]:
        if self.is_even:
            return ()
        limit(n0, self.n_extent, self.lowering)
        return (ReturnUnless(Guard((Comparison(self.n0, "<", self.n_extent),))),)

    @property
    def _has_partial_tile(self) -> bool:
        return not divides(self.config.tile_n, self.n_extent, self.request.context)

    def _clamped_column(self) -> Integer:
        column = self.n0 + self.column
        return Minimum(column, self.n_extent - 1) if self._has_partial_tile else column

    def _epilogue(self) -> tuple[Section, ...]:
        """Warp-reduces each accumulator by butterfly shuffles; lane 0 evaluates the statements and stores."""
        group, total = ThreadGroup(WARP_SIZE, self.lane), (Accumulator("sum", self.total),)
        terms = [Comparison(self.lane, "==", integer(0))]
        if self._has_partial_tile:
            terms.append(Comparison(self.n0 + self.column, "<", self.n_extent))
        body = (
            Section("partial_sum", (Let(self.total, self._partial(), mutable=True),)),
            Section("warp_shuffles", reduce_group(group, total, self.lowering, everywhere=True)),
            Section("outputs", (If(Guard(tuple(terms)), self._outputs(self.column)),)),
        )
        return repeated_sections("warp_columns", self.j, repeated_sections("rows", self.i, body))

    def _work(self) -> str:
        config = self.config
        return f"a warp computes {config.tile_n} columns, each lane reads {config.k_width} values of k per load"
