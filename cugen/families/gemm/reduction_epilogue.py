"""Epilogue that adds partial sums through shared memory, always in the same order.

Partial sums are those of the block's sliced-K groups; of the blocks of a cluster, each of which stores a part of the
tile; or of other blocks, in the workspace. They reuse the memory of the pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP, TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.problem import partials_pad, problem_of
from cugen.pieces.blocks import define
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    ClusterBarrier,
    Comment,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, Local, Op
from cugen.spec.types import DType

# Unrolled vectors of a thread in the final reduction (measured on an H200: more cost instruction-cache misses).
_MAX_UNROLLED_VECTORS = 4


class ReductionEpilogue(Epilogue):
    """Threads store their accumulators to `partials` in shared memory; then all threads of the block go over the tile,
    or the block's part of it, add the partial sums and compute the statements."""

    def __init__(
        self,
        contraction: Contraction,
        config: TileConfig,
        lowering: Lowering,
        extents: Mapping[str, Integer],
        exact: Mapping[str, bool],
        fragment_widths: tuple[int, int],
    ) -> None:
        super().__init__(contraction, config, lowering, extents, exact, fragment_widths)
        self.partials = self._declare_partials()

    def declarations(self) -> tuple[Node, ...]:
        return (Declare(self.partials),)

    def sections(self, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        return (
            *self.stage_slices(accumulators, thread),
            Section("slices_stored", (Barrier(),)),
            Section("statements", self._reduce_and_store(thread)),
        )

    def cluster_sections(self, accumulators: Array, thread: ThreadCoordinates, rank: Integer) -> tuple[Section, ...]:
        """The epilogue of a cluster's blocks: each reduces and stores a part of the tile."""
        staged = self.stage_slices(accumulators, thread)
        if self.config.sliced_k > 1:
            # Sums over the slices replace the partials of slice 0; each is written by the thread that read it.
            reduced = self._reduce_slices(
                thread, lambda m, n, width: Access(self.partials, (integer(0), m, n), "store", width)
            )
            staged = (*staged, Section("slices_stored", (Barrier(),)), Section("reduce_slices", reduced))
        return (
            *staged,
            Section("cluster_stored", (ClusterBarrier(),)),
            Section("statements", self._reduce_and_store(thread, rank)),
            Section("cluster_read", (ClusterBarrier(),)),
        )

    def stage_slices(self, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        """Stores the accumulators of all sliced-K groups to shared memory."""
        opaque_one = Section("opaque_one", self._define_opaque_one())
        return opaque_one, *self._store_accumulators(accumulators, thread)

    def store_partials(
        self, thread: ThreadCoordinates, target: Callable[[Integer, Integer, int], Access]
    ) -> tuple[Section, ...]:
        """Stores the block's sums over all slices to `target`, an access for (m, n, width) in the block tile."""
        return (
            Section("slices_stored", (Barrier(),)),
            Section("store_partials", self._reduce_slices(thread, target)),
        )

    def fix_up(
        self,
        thread: ThreadCoordinates,
        loop: Loop,
        partial: Callable[[Integer, Integer, int], Access],
        *,
        begins_with_slices: bool = False,
    ) -> tuple[Section, ...]:
        """The epilogue of a block that adds partial sums of the workspace, in a `loop` over `partial`, an access for
        (m, n, width) in the block tile. With `begins_with_slices` the sums over the block's slices come first. Each
        trip loads all vectors of a thread, so that it waits for memory once."""
        config, width, partials = self.config, self.width, self.partials
        vectors_n = config.block_n // width
        vector_id, over_tile = self._distribute(config.block_m * vectors_n, thread)
        m, n = FloorDiv(vector_id, integer(vectors_n)), Mod(vector_id, integer(vectors_n)) * width
        vector_of_thread = FloorDiv(vector_id - thread.index, integer(config.threads))
        sums = self._declare_sums(-(-config.block_m * vectors_n // config.threads))
        v = thread.loop_index("w", width)

        def sum_at(v: Integer, kind: str) -> Access:
            return Access(sums, (vector_of_thread, v) if width > 1 else (vector_of_thread,), kind)

        def for_each_element(node: Node) -> Node:
            return For(Loop(v, integer(0), integer(width), unroll=True), (node,)) if width > 1 else node

        def add_to_sum(value: Expr) -> Node:
            if sums.dtype.is_float:
                return Accumulate(sum_at(v.symbol, "store"), value)
            return Store(sum_at(v.symbol, "store"), combine("sum", Element.of(sum_at(v.symbol, "load")), value))

        load = partial(m, n, width)
        add_partial: tuple[Node, ...] = (add_to_sum(Element.of(load)),)
        if width > 1:
            vector = Vector(self.lowering.names.allocate("partial"), sums.dtype.compute, sums.dtype, width)
            add_partial = (Load(vector, load), for_each_element(add_to_sum(vector.component(v.symbol))))
        start: tuple[Node, ...] = (Declare(sums, zeroed=True),)
        if begins_with_slices:
            loads, total = self._sum_of(
                "slice_sums",
                partials.dtype,
                width,
                config.sliced_k,
                lambda s: Access(partials, (s, m, n), "load", width),
                thread.loop_index("s", config.sliced_k),
            )
            store = for_each_element(Store(sum_at(v.symbol, "store"), total(v.symbol)))
            start = (Declare(sums), *over_tile((*loads, store)))
        add = Section("add", over_tile(add_partial))
        statements = over_tile(self._statements_at(thread, m, n, lambda v: Element.of(sum_at(v, "load"))))
        return (
            Section("first_partials", start),
            Section("add_partials", (For(loop, (add,)),)),
            Section("statements", statements),
        )

    def _declare_partials(self) -> Array:
        """[slice][BM][BN + pad] in the memory of the pipeline."""
        config, dtype = self.config, self.contraction.sums[0].dtype
        pad = partials_pad(problem_of(self.contraction), config)
        extents = (integer(config.sliced_k), integer(config.block_m), integer(config.block_n))
        pitch = config.block_n + pad
        strides = (integer(config.block_m * pitch), integer(pitch), integer(1))
        dimensions = slice(0 if config.sliced_k > 1 else 1, None)
        name = self.lowering.names.allocate("partials")
        return Array(
            name, name, dtype, extents[dimensions], strides[dimensions], "shared", flat=False, pad=pad, dynamic=True
        )

    def _declare_sums(self, count: int) -> Array:
        """A thread's reduced vectors, in registers."""
        extents = (integer(count), integer(self.width))[: 2 if self.width > 1 else 1]
        strides = (*extents[1:], integer(1))
        name = self.lowering.names.allocate("sums")
        return Array("", name, self.accumulated.dtype, extents, strides, "register", flat=False)

    def _store_accumulators(self, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        config, dtype = self.config, accumulators.dtype
        width = math.gcd(self.fragment_widths[1], MAX_ACCESS_BYTES // dtype.bytes)
        i, m = self._row_loop(thread)
        count = config.thread_n // width
        g = thread.loop_index("g", count)
        vector_id = g.symbol if count > 1 else integer(0)
        v = thread.loop_index("w", width)
        n = self._n_in_tile(thread, vector_id, width)
        vector = Vector(self.lowering.names.allocate("acc_vector"), dtype.compute, dtype, width)
        value = self._accumulator(accumulators, i.symbol, vector_id * width + v.symbol)
        target = Access(self.partials, (*self._slice_subscript(thread.k_slice), m, n), "store", width)
        body: tuple[Node, ...] = (
            Let(vector, None, mutable=True),
            For(Loop(v, integer(0), integer(width), unroll=True), (Assign(vector.component(v.symbol), value),)),
            Store(target, vector),
        )
        if count > 1:
            body = (For(Loop(g, integer(0), integer(count), unroll=True), body),)
        rows = For(Loop(i, integer(0), integer(config.thread_m), unroll=True), body)
        whose = "partial sums of the k slices" if config.sliced_k > 1 else "the block's partial sums"
        where = Comment(f"{whose}, in the memory of the pipeline after its last read")
        return Section("pipeline_read", (where, Barrier())), Section("store_accumulators", (rows,))

    def _slice_subscript(self, k_slice: Integer) -> tuple[Integer, ...]:
        return (k_slice,) if self.config.sliced_k > 1 else ()

    def _reduce_slices(
        self, thread: ThreadCoordinates, target: Callable[[Integer, Integer, int], Access]
    ) -> tuple[Node, ...]:
        config, partials = self.config, self.partials
        width = math.gcd(self.fragment_widths[1], MAX_ACCESS_BYTES // partials.dtype.bytes)
        vectors_n = config.block_n // width
        vector_id, over_tile = self._distribute(config.block_m * vectors_n, thread)
        m, n = FloorDiv(vector_id, integer(vectors_n)), Mod(vector_id, integer(vectors_n)) * width

        def slice_partial(s: Integer) -> Access:
            return Access(partials, (s, m, n), "load", width)

        s = thread.loop_index("s", config.sliced_k)
        loads, total = self._sum_of("slice_sums", partials.dtype, width, config.sliced_k, slice_partial, s)
        name = self.lowering.names.allocate("slice_total")
        vector = Vector(name, partials.dtype.compute, partials.dtype, width)
        v = thread.loop_index("w", width)
        body: tuple[Node, ...] = (
            *loads,
            Let(vector, None, mutable=True),
            For(
                Loop(v, integer(0), integer(width), unroll=True),
                (Assign(vector.component(v.symbol), total(v.symbol)),),
            ),
            Store(target(m, n, width), vector),
        )
        return over_tile(body)

    def _reduce_and_store(self, thread: ThreadCoordinates, rank: Integer | None = None) -> tuple[Node, ...]:
        """Adds the partials of all slices, or of all blocks of the cluster in which this one has the `rank`, and
        computes the statements."""
        config, width, partials = self.config, self.width, self.partials
        vectors_n = config.block_n // width
        unroll_by = _MAX_UNROLLED_VECTORS if width > 1 else 0
        vector_id, over_tile = self._distribute(config.block_m * vectors_n, thread, rank, unroll_by)
        m, n = FloorDiv(vector_id, integer(vectors_n)), Mod(vector_id, integer(vectors_n)) * width

        def partial(p: Integer) -> Access:
            if rank is None:
                return Access(partials, (p, m, n), "load", width)
            return Access(partials, (*self._slice_subscript(integer(0)), m, n), "load", width, rank=p)

        if rank is None:
            count, name_hint, p = config.sliced_k, "slice_sums", thread.loop_index("s", config.sliced_k)
        else:
            count, name_hint, p = config.split_k, "block_sums", thread.loop_index("p", config.split_k)
        loads, total = self._sum_of(name_hint, partials.dtype, width, count, partial, p)
        return over_tile(self._statements_at(thread, m, n, total, loads))

    def _distribute(
        self, count: int, thread: ThreadCoordinates, rank: Integer | None = None, unroll_by: int = 0
    ) -> tuple[Integer, Callable[[tuple[Node, ...]], tuple[Node, ...]]]:
        """Distributes `count` vectors of a tile over the threads of the block, or of the cluster in which the block has
        the `rank`. Returns the vector's number, and what puts a body into the loop over a thread's vectors."""
        threads, per_block = self.config.threads, count
        if rank is not None:
            # A multiple of a warp, so that no request begins inside a sector.
            per_block = -(-count // (self.config.split_k * WARP)) * WARP
        e = thread.loop_index("e", per_block)
        vector_of_block = thread.index + e.symbol if per_block > threads else thread.index
        terms = [Comparison(vector_of_block, "<", integer(per_block))] if per_block % threads else []
        definitions: list[Node] = []
        vector_id = vector_of_block
        if rank is not None:
            node = define("vector_id", rank * per_block + vector_of_block, self.lowering)
            vector_id = node.index.symbol
            definitions.append(node)
            if count < per_block * self.config.split_k:
                terms.append(Comparison(vector_id, "<", integer(count)))

        def over_tile(body: tuple[Node, ...]) -> tuple[Node, ...]:
            if terms:
                body = (If(Guard(tuple(terms)), body),)
            body = (*definitions, *body)
            if per_block <= threads:
                return body
            is_partial = 0 < unroll_by < -(-per_block // threads)
            loop = Loop(e, integer(0), integer(per_block), threads, unroll=not is_partial)
            return (For(replace(loop, unroll_by=unroll_by) if is_partial else loop, body),)

        return vector_id, over_tile

    def _sum_of(
        self,
        name_hint: str,
        dtype: DType,
        width: int,
        count: int,
        partial: Callable[[Integer], Access],
        index: Index,
    ) -> tuple[list[Node], Callable[[Integer], Expr]]:
        """Loads of `count` partial vectors, and the sum of their v-th elements in order."""
        if width == 1:
            total = Local(self.lowering.names.allocate("total"), self.accumulated.dtype)
            add = Assign(total, Op("add", (total, Element.of(partial(index.symbol))), total.dtype))
            return [
                Let(total, Element.of(partial(integer(0))), mutable=True),
                For(Loop(index, integer(1), integer(count), unroll=True), (add,)),
            ], lambda v: total
        vector = Vector(self.lowering.names.allocate(name_hint), dtype.compute, dtype, width, count)
        load = Load(vector.indexed(index.symbol), partial(index.symbol))
        loads: list[Node] = [
            Let(vector, None, mutable=True),
            For(Loop(index, integer(0), integer(count), unroll=True), (load,)),
        ]

        def total_of(v: Integer) -> Expr:
            first, *following = (vector.indexed(integer(p)).component(v) for p in range(count))
            value: Expr = first
            for component in following:
                value = Op("add", (value, component), self.accumulated.dtype)
            return value

        return loads, total_of
