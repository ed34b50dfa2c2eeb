"""Partial sums of an output tile in the global workspace, one slot for each block that may store some.

A thread stores its accumulators for the same thread of another block. With sliced-K the block's slices are reduced
first, and a slot holds the block tile in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.reduction_epilogue import ReductionEpilogue
from cugen.pieces.grid_sync import workspace_array
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Accumulate, For, Loop, Node, Section, Store
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class PartialsWorkspace:
    """Workspace `array`: [slot][accumulator][thread], or [slot][BM][BN] with sliced-K."""

    config: TileConfig
    array: Array

    @staticmethod
    def of(contraction: Contraction, config: TileConfig, slots: Integer) -> PartialsWorkspace:
        accumulators = config.thread_m * config.thread_n
        extents = (slots, integer(accumulators), integer(config.threads))
        if config.sliced_k > 1:
            extents = (slots, integer(config.block_m), integer(config.block_n))
        dtype = contraction.sums[0].dtype
        return PartialsWorkspace(config, workspace_array(contraction.request, "partials", dtype, extents))

    def store(
        self, epilogue: Epilogue, accumulators: Array, thread: ThreadCoordinates, slot: Integer
    ) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot (after `stage_slices`, with sliced-K)."""
        if isinstance(epilogue, ReductionEpilogue):
            return epilogue.store_partials(thread, lambda m, n, width: self.vector(slot, m, n, width, "store"))

        def store(i: Integer, j: Integer) -> Node:
            return Store(self._element(slot, i, j, thread, "store"), _accumulator(accumulators, i, j))

        return (Section("store_partials", (self._for_each_accumulator(thread, store),)),)

    def add(self, accumulators: Array, thread: ThreadCoordinates, slot: Integer) -> Node:
        """Adds the partial sums of a slot to the accumulators."""

        def add(i: Integer, j: Integer) -> Node:
            partial = Element.of(self._element(slot, i, j, thread, "load"))
            target = Access(accumulators, (i, j), "store")
            if accumulators.dtype.is_float:
                return Accumulate(target, partial)
            return Store(target, combine("sum", _accumulator(accumulators, i, j), partial))

        return self._for_each_accumulator(thread, add)

    def load(self, accumulators: Array, thread: ThreadCoordinates, slot: Integer) -> Node:
        """Replaces the accumulators by the partial sums of a slot."""

        def load(i: Integer, j: Integer) -> Node:
            partial = Element.of(self._element(slot, i, j, thread, "load"))
            return Store(Access(accumulators, (i, j), "store"), partial)

        return self._for_each_accumulator(thread, load)

    def vector(self, slot: Integer, m: Integer, n: Integer, width: int, kind: str) -> Access:
        """Consecutive partial sums of a row of the block tile, with sliced-K."""
        return Access(self.array, (slot, m, n), kind, width)

    def _element(self, slot: Integer, i: Integer, j: Integer, thread: ThreadCoordinates, kind: str) -> Access:
        return Access(self.array, (slot, i * self.config.thread_n + j, thread.index), kind)

    def _for_each_accumulator(self, thread: ThreadCoordinates, body: Callable[[Integer, Integer], Node]) -> Node:
        config = self.config
        i, j = thread.loop_index("i", config.thread_m), thread.loop_index("j", config.thread_n)
        inner = For(Loop(j, integer(0), integer(config.thread_n), unroll=True), (body(i.symbol, j.symbol),))
        return For(Loop(i, integer(0), integer(config.thread_m), unroll=True), (inner,))


def stage_slices(epilogue: Epilogue, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
    """With sliced-K, stores the slices' partial sums to shared memory; precedes `store` and the fix-up."""
    return epilogue.stage_slices(accumulators, thread) if isinstance(epilogue, ReductionEpilogue) else ()


def _accumulator(accumulators: Array, i: Integer, j: Integer) -> Element:
    return Element.of(Access(accumulators, (i, j), "load"))
