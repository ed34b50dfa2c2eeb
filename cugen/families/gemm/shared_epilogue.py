"""Epilogue through shared memory, where the stores of a warp are consecutive, and partial sums are added in one order.

Partial sums are those of the block's sliced-K groups; of the blocks of a cluster, each of which stores a part of the
tile; or of other blocks, in the workspace. They reuse the memory of the pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, reduce

from cugen.families.gemm.config import WARP
from cugen.families.gemm.epilogue import Epilogue, Value
from cugen.families.gemm.fragments.thread_tile import accumulate, declare_accumulators
from cugen.families.gemm.problem import partials_pad, problem_of
from cugen.pieces.blocks import define
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, shared_loop_variable, unrolled, value_of
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Assign,
    Barrier,
    ClusterBarrier,
    Comment,
    Comparison,
    Declare,
    Define,
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
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, integer
from cugen.spec.expressions import Expr, Local

# Unrolled vectors of a thread in the final reduction (measured on an H200: more cost instruction-cache misses).
_MAX_UNROLLED_VECTORS = 4
# Of partial sums that a thread loads at once: with more, ptxas 13.0 spills beside what the main loop keeps.
_MAX_LOADED_BYTES = 128


Partial = Callable[[Integer, Integer, int], Access]  # partial sums at (m, n) of the block tile, so many of them


class SharedEpilogue(Epilogue):
    """Threads store their accumulators to `staged` in shared memory; then all threads of the block go over the tile,
    or the block's part of it, add the partial sums and compute the statements."""

    def declarations(self) -> tuple[Node, ...]:
        return (Declare(self.staged),)

    def sections(self) -> tuple[Section, ...]:
        return *self.stage_slices(), *self.output_sections()

    def output_sections(self) -> tuple[Section, ...]:
        return Section("slices_stored", (Barrier(),)), Section("statements", self._reduce_and_store())

    def cluster_sections(self, rank: Integer) -> tuple[Section, ...]:
        """The epilogue of a cluster's blocks: each reduces and stores a part of the tile."""
        staged = self.stage_slices()
        if self.config.sliced_k > 1:
            # Sums over the slices replace the partials of slice 0; each is written by the thread that read it.
            reduced = self._reduce_slices(lambda m, n, width: Access(self.staged, (integer(0), m, n), "store", width))
            staged = (*staged, Section("slices_stored", (Barrier(),)), Section("reduce_slices", reduced))
        return (
            *staged,
            Section("cluster_stored", (ClusterBarrier(),)),
            Section("statements", self._reduce_and_store(rank)),
            Section("cluster_read", (ClusterBarrier(),)),
        )

    def stage_slices(self) -> tuple[Section, ...]:
        """Stores the accumulators of all sliced-K groups to shared memory."""
        return Section("opaque_one", self._define_opaque_one()), *self._store_accumulators()

    def store_partials(self, target: Partial) -> tuple[Section, ...]:
        """Stores the block's sums over all slices to `target`, an access for (m, n, width) in the block tile."""
        return Section("slices_stored", (Barrier(),)), Section("store_partials", self._reduce_slices(target))

    def fix_up(self, loop: Loop, partial: Partial, *, begins_with_slices: bool = False) -> tuple[Section, ...]:
        """The epilogue of a block that adds partial sums of the workspace, in a `loop` over `partial`, an access for
        (m, n, width) in the block tile. With `begins_with_slices` the sums over the block's slices come first. Each
        trip loads all vectors of a thread, or of a part of the tile, so that it waits for memory once; trips with few
        vectors are unrolled."""
        thread, config, width = self.thread, self.config, self.width
        vectors, at_once = self._vectors_of_thread(width), self._vectors_at_once(width)
        if loop.rolled and (trips := at_once // vectors) > 1:
            loop = replace(loop, rolled=False, unroll_by=trips)
        part = thread.loop_index("part", -(-vectors // at_once))
        vector_id, m, n, over_tile = self._distribute(width, part=part)
        first = thread.index + value_of(part) * integer(at_once * config.threads)
        vector_of_thread = FloorDiv(vector_id - first, integer(config.threads))
        extents = min(vectors, at_once), width
        dimensions = 2 if width > 1 else 1
        sums = dense_array(self.lowering.names.allocate("sums"), self.dtype, extents[:dimensions], "register")
        v = thread.loop_index("w", width)

        def element(v: Integer) -> tuple[Integer, ...]:
            return (vector_of_thread, v)[:dimensions]

        def for_each_element(node: Node) -> Node:
            return unrolled(v, (node,), stop=width) if width > 1 else node

        load = partial(m, n, width)
        add_partial: tuple[Node, ...] = (accumulate(self.reduction, sums, element(v.symbol), Element.of(load)),)
        if width > 1:
            vector = self._vector("partial", width)
            add_element = accumulate(self.reduction, sums, element(v.symbol), vector.component(v.symbol))
            add_partial = Load(vector, load), for_each_element(add_element)
        start = declare_accumulators(thread, self.reduction, sums, {"u": extents[0], "w": width})
        if begins_with_slices:
            loads, total = self._sum_of_slices(m, n, width)
            store = for_each_element(Store(Access(sums, element(v.symbol), "store"), total(v.symbol)))
            start = (Declare(sums), *over_tile((*loads, store)))
        add_partials = For(loop, (Section("add", over_tile(add_partial)),))
        statements = over_tile(self._statements_at(m, n, lambda v: Element.of(Access(sums, element(v), "load"))))
        first_partials, others = Section("first_partials", start), Section("add_partials", (add_partials,))
        sections = first_partials, others, Section("statements", statements)
        if part.range[1] == 0:
            return sections
        return (Section("parts", (For(Loop(part, integer(0), integer(part.range[1] + 1), rolled=True), sections),)),)

    @cached_property
    def staged(self) -> Array:
        """[slice][BM][BN + pad] in the memory of the pipeline: partial sums, or the tile of C before the statements."""
        config = self.config
        has_partials = config.adds_in_shared or config.splits_tiles
        name = self.lowering.names.allocate("partials" if has_partials else "c_tile")
        slices = (config.sliced_k,) if config.sliced_k > 1 else ()
        pad = partials_pad(problem_of(self.contraction), config)
        array = dense_array(name, self.dtype, (*slices, config.block_m, config.block_n), "shared", pad)
        return replace(array, name=name, dynamic=True)

    def _store_accumulators(self) -> tuple[Section, ...]:
        (accumulator,) = self.accumulators.arrays
        thread, config, width = self.thread, self.config, self._accumulator_width
        i = thread.loop_index("i", config.thread_m)
        count = config.thread_n // width
        g = thread.loop_index("g", count)
        vector_id = value_of(g)
        m, n = thread.row(i.symbol), thread.column(vector_id, width)
        target = Access(self.staged, (*self._slice_subscript(thread.k_slice), m, n), "store", width)
        body = self._store_vector(
            "acc_vector", lambda v: self._accumulator(accumulator, i.symbol, vector_id * width + v), target
        )
        columns = repeated(g, body, count)
        rows = unrolled(i, columns, stop=config.thread_m)
        what = "partial sums of the k slices" if config.sliced_k > 1 else "the block's sums"
        where = Comment(f"{what}, in the memory of the pipeline after its last read")
        return Section("pipeline_read", (where, Barrier())), Section("store_accumulators", (rows,))

    @property
    def _accumulator_width(self) -> int:
        """Accumulators that a thread stores at once."""
        return math.gcd(self.thread.fragment_widths[1], MAX_ACCESS_BYTES // self.dtype.bytes)

    def _slice_subscript(self, k_slice: Integer) -> tuple[Integer, ...]:
        return (k_slice,) if self.config.sliced_k > 1 else ()

    def _reduce_slices(self, target: Partial) -> tuple[Node, ...]:
        width = self._accumulator_width
        is_long = self._vectors_of_thread(width) > self._vectors_at_once(width)
        _, m, n, over_tile = self._distribute(width, unroll_by=_MAX_UNROLLED_VECTORS if is_long else 0)
        loads, total = self._sum_of_slices(m, n, width)
        return over_tile((*loads, *self._store_vector("slice_total", total, target(m, n, width))))

    def _vectors_of_thread(self, width: int) -> int:
        """Vectors of a tile that a thread has."""
        return -(-self.config.block_m * self.config.block_n // (width * self.config.threads))

    def _vectors_at_once(self, width: int) -> int:
        """Of these, as many as a thread loads before it adds any."""
        return _MAX_LOADED_BYTES // (width * self.dtype.bytes)

    def _reduce_and_store(self, rank: Integer | None = None) -> tuple[Node, ...]:
        """Adds the partials of all slices, or of a cluster's blocks if there is a `rank`; computes the statements."""
        width = self.width
        _, m, n, over_tile = self._distribute(width, rank, _MAX_UNROLLED_VECTORS if width > 1 else 0)
        if rank is None:
            loads, total = self._sum_of_slices(m, n, width)
        else:
            block = Access(self.staged, (*self._slice_subscript(integer(0)), m, n), "load", width)
            loads, total = self._sum_of("block_sums", "p", self.config.split_k, lambda p: replace(block, rank=p))
        return over_tile(self._statements_at(m, n, total, loads))

    def _distribute(
        self, width: int, rank: Integer | None = None, unroll_by: int = 0, part: Index | None = None
    ) -> tuple[Integer, Integer, Integer, Callable[[tuple[Node, ...]], tuple[Node, ...]]]:
        """Distributes the vectors of a tile, or those of a `part` of several, over the threads of the block, or of the
        cluster in which the block has the `rank`. Returns the vector's number, row and column, and what puts a body
        into a thread's loop over them."""
        thread, threads, vectors_n = self.thread, self.config.threads, self.config.block_n // width
        per_block = count = self.config.block_m * vectors_n
        if rank is not None:
            # A multiple of a warp, so that no request begins inside a sector.
            per_block = -(-count // (self.config.split_k * WARP)) * WARP
        per_part, first = per_block, thread.index
        if part is not None and part.range[1] > 0:
            per_part = self._vectors_at_once(width) * threads
            first += per_part * part.symbol
        e = thread.loop_index("e", per_part)
        vector_of_block = first + e.symbol if per_part > threads else first
        is_cut = per_block % (per_part if per_part < per_block else threads) > 0
        terms = [Comparison(vector_of_block, "<", integer(per_block))] if is_cut else []
        definitions: list[Node] = []
        vector_id = vector_of_block
        if rank is not None:
            node = define("vector_id", rank * per_block + vector_of_block, self.lowering)
            vector_id = node.index.symbol
            definitions.append(node)
            if count < per_block * self.config.split_k:
                terms.append(Comparison(vector_id, "<", integer(count)))
        m, n = FloorDiv(vector_id, integer(vectors_n)), Mod(vector_id, integer(vectors_n)) * width
        if per_block > threads:
            coordinates = self._coordinate("tile_m", m), self._coordinate("tile_n", n)
            definitions += map(Define, coordinates)
            m, n = (index.symbol for index in coordinates)

        def over_tile(body: tuple[Node, ...]) -> tuple[Node, ...]:
            if terms:
                body = (If(Guard(tuple(terms)), body),)
            body = (*definitions, *body)
            if per_block <= threads:
                return body
            is_partial = 0 < unroll_by < -(-per_part // threads)
            loop = Loop(e, integer(0), integer(per_part), threads, unroll=not is_partial)
            return (For(replace(loop, unroll_by=unroll_by) if is_partial else loop, body),)

        return vector_id, m, n, over_tile

    def _coordinate(self, name_hint: str, value: Integer) -> Index:
        """A coordinate in the tile, defined in a loop over it; other loops may have it as well."""
        values = bounds(value, self.lowering.ranges)
        return replace(shared_loop_variable(name_hint, values, self.lowering), definition=value)

    def _sum_of_slices(self, m: Integer, n: Integer, width: int) -> tuple[list[Node], Value]:
        def partial(k_slice: Integer) -> Access:
            return Access(self.staged, (*self._slice_subscript(k_slice), m, n), "load", width)

        return self._sum_of("slice_sums", "s", self.config.sliced_k, partial)

    def _sum_of(
        self, name_hint: str, index_hint: str, count: int, partial: Callable[[Integer], Access]
    ) -> tuple[list[Node], Value]:
        """Loads of `count` partial vectors, and the sum of their v-th elements in order."""
        if count == 1:
            return self._loaded(partial(integer(0)))
        index = self.thread.loop_index(index_hint, count)
        load_at = partial(index.symbol)
        width = load_at.width
        if width == 1:
            total = Local(self.lowering.names.allocate("total"), self.dtype)
            add = Assign(total, combine(self.reduction.kind, total, Element.of(load_at)))
            others = For(Loop(index, integer(1), integer(count), unroll=True), (add,))
            return [Let(total, Element.of(partial(integer(0))), mutable=True), others], lambda v: total
        vector = self._vector(name_hint, width, count)
        load = Load(vector.indexed(index.symbol), load_at)
        loads: list[Node] = [Let(vector, None, mutable=True), unrolled(index, (load,), stop=count)]

        def total_of(v: Integer) -> Expr:
            components: Iterator[Expr] = (vector.indexed(integer(p)).component(v) for p in range(count))
            return reduce(lambda total, component: combine(self.reduction.kind, total, component), components)

        return loads, total_of
