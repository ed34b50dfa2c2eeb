"""Partial sums of an output tile in the global workspace, one slot for each block that may store some.

A thread stores its accumulators for the same thread of another block. With sliced-K the block's slices are reduced
first, and a slot holds the block tile in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.fragments.thread_tile import accumulate
from cugen.families.gemm.shared_epilogue import Partial, SharedEpilogue
from cugen.pieces.grid_sync import workspace_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Node, Section, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Reduce


@dataclass(frozen=True)
class PartialsWorkspace:
    """Workspace `array`: [slot][accumulator][thread], or [slot][BM][BN] where sums are exchanged in shared memory."""

    array: Array

    @staticmethod
    def of(contraction: Contraction, config: TileConfig, slots: Integer) -> PartialsWorkspace:
        sizes = len(contraction.reductions) * config.thread_m * config.thread_n, config.threads
        if config.exchanges_in_shared:
            sizes = config.block_m, config.block_n
        extents = (slots, *(integer(int(size)) for size in sizes))
        array = workspace_array(contraction.request, "partials", contraction.reductions[0].dtype, extents)
        return PartialsWorkspace(replace(array, printed_shape=(slots, *map(integer, sizes))))

    def store(self, epilogue: Epilogue, slot: Integer) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot (after `stage_slices`, with sliced-K)."""
        if isinstance(epilogue, SharedEpilogue):
            return epilogue.store_partials(self.vectors(slot, "store"))

        def store(_: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> Node:
            return Store(replace(partial, kind="store"), Element.of(Access(accumulators, ij, "load")))

        return (Section("store_partials", (self._for_each(epilogue, slot, store),)),)

    def add(self, epilogue: Epilogue, slot: Integer) -> Node:
        """Adds the partial sums of a slot to the accumulators."""

        def add(reduction: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> Node:
            return accumulate(reduction, accumulators, ij, Element.of(partial))

        return self._for_each(epilogue, slot, add)

    def load(self, epilogue: Epilogue, slot: Integer) -> Node:
        """Replaces the accumulators by the partial sums of a slot."""

        def load(_: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> Node:
            return Store(Access(accumulators, ij, "store"), Element.of(partial))

        return self._for_each(epilogue, slot, load)

    def vectors(self, slot: Integer, kind: str) -> Partial:
        """Accesses to consecutive partial sums of a row of the block tile, with sliced-K."""
        return lambda m, n, width: Access(self.array, (slot, m, n), kind, width)

    def _for_each(
        self, epilogue: Epilogue, slot: Integer, body: Callable[[Reduce, Array, tuple[Integer, ...], Access], Node]
    ) -> Node:
        """Loops over the thread tile; `body` takes a reduction, its accumulators, an element, and a load of its partial
        sum."""
        config, thread = epilogue.config, epilogue.thread
        i, j = thread.loop_index("i", config.thread_m), thread.loop_index("j", config.thread_n)
        nodes = []
        arrays = zip(epilogue.contraction.reductions, epilogue.accumulators.arrays, strict=True)
        for number, (reduction, array) in enumerate(arrays):
            first = number * integer(config.thread_m) * integer(config.thread_n)
            element = first + i.symbol * integer(config.thread_n) + j.symbol
            partial = Access(self.array, (slot, element, thread.index), "load")
            nodes.append(body(reduction, array, (i.symbol, j.symbol), partial))
        return unrolled(i, (unrolled(j, nodes, stop=config.thread_n),), stop=config.thread_m)
