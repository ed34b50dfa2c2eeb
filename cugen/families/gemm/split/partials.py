"""Partial sums of an output tile in the global workspace, one slot for each block that may store some.

A thread stores its accumulators for the same thread of another block. With sliced-K the block's slices are reduced
first, and a slot holds the block tile in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.fragments.thread_tile import accumulate
from cugen.families.gemm.shared_epilogue import Partial, SharedEpilogue
from cugen.pieces.grid_sync import workspace_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Index, Let, Load, Node, Section, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Reduce


@dataclass(frozen=True)
class PartialsWorkspace:
    """Workspace `array`: [slot][vector][thread] of vectors of `width` accumulators of a row, or [slot][BM][BN] where
    sums are exchanged in shared memory."""

    array: Array
    width: int = 1

    @staticmethod
    def of(contraction: Contraction, config: TileConfig, slots: Integer, width: int = 1) -> PartialsWorkspace:
        sizes = len(contraction.reductions) * config.thread_m * config.thread_n // width, config.threads * width
        if config.exchanges_in_shared:
            sizes = config.block_m, config.block_n
        extents = (slots, *(integer(int(size)) for size in sizes))
        array = workspace_array(contraction.request, "partials", contraction.reductions[0].dtype, extents)
        return PartialsWorkspace(replace(array, printed_shape=(slots, *map(integer, sizes))), width)

    def store(self, epilogue: Epilogue, slot: Integer) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot (after `stage_slices`, with sliced-K)."""
        if isinstance(epilogue, SharedEpilogue):
            return epilogue.store_partials(self.vectors(slot, "store"))

        def store(_: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> tuple[Node, ...]:
            return (Store(replace(partial, kind="store"), Element.of(Access(accumulators, ij, "load"))),)

        def store_vector(_: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> tuple[Node, ...]:
            vector = self._vector(epilogue, "sums")
            element, v = self._elements(epilogue, ij)
            assign = Assign(vector.component(v.symbol), Element.of(Access(accumulators, element, "load")))
            fill = unrolled(v, (assign,), stop=self.width)
            return Let(vector, None, mutable=True), fill, Store(replace(partial, kind="store"), vector)

        body = store if self.width == 1 else store_vector
        return (Section("store_partials", (self._for_each(epilogue, slot, body),)),)

    def add(self, epilogue: Epilogue, slot: Integer) -> Node:
        """Adds the partial sums of a slot to the accumulators."""

        def add(reduction: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> tuple[Node, ...]:
            return (accumulate(reduction, accumulators, ij, Element.of(partial)),)

        def add_vector(
            reduction: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access
        ) -> tuple[Node, ...]:
            vector = self._vector(epilogue, "partial")
            element, v = self._elements(epilogue, ij)
            add_element = accumulate(reduction, accumulators, element, vector.component(v.symbol))
            return Load(vector, partial), unrolled(v, (add_element,), stop=self.width)

        return self._for_each(epilogue, slot, add if self.width == 1 else add_vector)

    def load(self, epilogue: Epilogue, slot: Integer) -> Node:
        """Replaces the accumulators by the partial sums of a slot."""

        def load(_: Reduce, accumulators: Array, ij: tuple[Integer, ...], partial: Access) -> tuple[Node, ...]:
            return (Store(Access(accumulators, ij, "store"), Element.of(partial)),)

        return self._for_each(epilogue, slot, load)

    def vectors(self, slot: Integer, kind: str) -> Partial:
        """Accesses to consecutive partial sums of a row of the block tile, with sliced-K."""
        return lambda m, n, width: Access(self.array, (slot, m, n), kind, width)

    def _vector(self, epilogue: Epilogue, name_hint: str) -> Vector:
        dtype = self.array.dtype
        return Vector(epilogue.lowering.names.allocate(name_hint), dtype.compute, dtype, self.width)

    def _elements(self, epilogue: Epilogue, ij: tuple[Integer, ...]) -> tuple[tuple[Integer, Integer], Index]:
        """The accumulators of a vector, and the loop over them; `ij` is the first."""
        v = epilogue.thread.loop_index("w", self.width)
        return (ij[0], ij[1] + v.symbol), v

    def _for_each(
        self,
        epilogue: Epilogue,
        slot: Integer,
        body: Callable[[Reduce, Array, tuple[Integer, ...], Access], tuple[Node, ...]],
    ) -> Node:
        """Loops over the thread tile; `body` takes a reduction, its accumulators, the first of a vector, and a load of
        their partial sums."""
        config, thread, width = epilogue.config, epilogue.thread, self.width
        vectors = config.thread_n // width
        i, j = thread.loop_index("i", config.thread_m), thread.loop_index("j" if width == 1 else "g", vectors)
        nodes: list[Node] = []
        arrays = zip(epilogue.contraction.reductions, epilogue.accumulators.arrays, strict=True)
        for number, (reduction, array) in enumerate(arrays):
            first = number * integer(config.thread_m) * integer(vectors)
            vector = first + i.symbol * integer(vectors) + j.symbol
            partial = Access(self.array, (slot, vector, width * thread.index), "load", width)
            nodes += body(reduction, array, (i.symbol, width * j.symbol), partial)
        return unrolled(i, (unrolled(j, nodes, stop=vectors),), stop=config.thread_m)
