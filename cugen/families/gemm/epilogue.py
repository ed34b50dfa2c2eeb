"""Epilogue of a contraction: the statements that follow the sums, from a thread's accumulators to global memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import repeated, repeated_sections, unrolled, value_of
from cugen.pieces.sections import guarded_nodes
from cugen.pieces.statements import lower_statements, read_of_sum
from cugen.pieces.vector_body import ConsecutiveElements, mentions_of, vector_body, wide_reads
from cugen.pieces.vectors import MAX_ACCESS_BYTES, stored_width
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Assign,
    Comment,
    Comparison,
    Define,
    Guard,
    Let,
    Load,
    Node,
    ReturnUnless,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, Index, Local, Op, Read, Reduce
from cugen.spec.rewriting import replaced
from cugen.spec.types import FLOAT32, UINT32

Value = Callable[[Integer], Expr]  # the v-th element of an accumulated vector


class Epilogue:
    """The accumulators of a thread, and the group's statements on them, stored as vectors of `width` elements along N
    where alignment allows it. Subclasses add partial sums first."""

    def __init__(self, thread: ThreadCoordinates) -> None:
        contraction = thread.contraction
        self.thread, self.contraction = thread, contraction
        self.accumulators = Accumulators(thread)
        self.config, self.lowering, self.extents = thread.config, thread.lowering, thread.extents
        self.reduction = contraction.reductions[0]  # of an epilogue that takes a single one
        self.dtype = self.reduction.dtype
        self.accumulated = tuple(map(self._placeholder, contraction.reductions))
        reads = dict(zip(contraction.reductions, self.accumulated, strict=True))
        statements = tuple(
            replace(s, value=replaced(s.value, lambda node: reads.get(node) if isinstance(node, Reduce) else None))
            for s in contraction.request.group.statements
        )
        self.request = contraction.request.with_statements(statements)
        width = thread.fragment_widths[1]
        if self.config.exchanges_in_shared:
            width = math.gcd(int(self.config.block_n), MAX_ACCESS_BYTES // self.dtype.bytes)
        self.width = stored_width(self.request, contraction.n, width)  # of the stores along N, in elements

    def _placeholder(self, reduction: Reduce) -> Read:
        """A read of an array that stands for a sum, which makes the statements elementwise."""
        m, n = self.contraction.m, self.contraction.n
        extents = self.extents[m.name], self.extents[n.name]
        read = read_of_sum(m, n, extents, reduction.dtype, self.lowering)
        self.arrays = self.lowering.arrays
        return read

    def declarations(self) -> tuple[Node, ...]:
        return ()

    def stage_slices(self) -> tuple[Section, ...]:
        """With sliced-K, stores the slices' partial sums to shared memory, before other blocks' are added."""
        return ()

    def output_sections(self) -> tuple[Section, ...]:
        """The statements on the block's sums, after `stage_slices`."""
        return self.sections()

    def sections(self) -> tuple[Section, ...]:
        if self.config.is_scalar:
            return self._of_element()
        return Section("opaque_one", self._define_opaque_one()), *self._from_registers()

    @cached_property
    def _opaque_one(self) -> Local | None:
        """A factor of 1.0f that the compiler doesn't know, for accumulators that would be stored unchanged as vectors.

        A vector store needs consecutive registers. Without the factor ptxas gives these to the accumulators themselves,
        and most FMAs read two operands from one register bank."""
        arrays, statements = self.request.context.arrays, self.request.group.statements
        is_stored_as_vector = self.config.exchanges_in_shared or (
            self.width > 1
            and not self.config.is_strided
            and any(s.value in self.accumulated and arrays[s.target].dtype == FLOAT32 for s in statements)
        )
        is_multiplied_by_fma = not self.config.uses_tensor_cores and any(r.dtype == FLOAT32 for r in self.accumulated)
        is_needed = is_stored_as_vector and is_multiplied_by_fma
        return Local(self.lowering.names.allocate("opaque_one"), FLOAT32) if is_needed else None

    def _define_opaque_one(self) -> tuple[Node, ...]:
        if self._opaque_one is None:
            return ()
        why = (
            "opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which causes "
            "register-bank conflicts"
        )
        return Comment(why), Let(self._opaque_one, Local("blockDim.z", UINT32))

    def _accumulator(self, array: Array, i: Integer, j: Integer) -> Expr:
        value = Element.of(Access(array, (i, j), "load"))
        if self._opaque_one is None or array.dtype != FLOAT32:
            return value
        return Op("mul", (self._opaque_one, value), array.dtype)

    def _of_element(self) -> tuple[Section, ...]:
        """The statements on a thread's single accumulators, after a bounds check."""
        outside = Guard(tuple(self._bounds_check()))
        values = [lambda v, local=local: local for local in self.accumulators.values]
        bounds_check = Section("bounds_check", (ReturnUnless(outside),) if outside.terms else ())
        return bounds_check, Section("outputs", self._unguarded(values))

    def _from_registers(self) -> tuple[Section, ...]:
        """The loop over a thread tile's rows, with the statements; without a loop for a single row."""
        thread, config, width = self.thread, self.config, self.width
        i = thread.loop_index("i", config.thread_m)
        row = value_of(i)
        count = config.thread_n // width
        g = thread.loop_index("g" if width > 1 else "j", count)
        vector = value_of(g)
        j = vector * width
        values = [lambda v, array=array: self._accumulator(array, row, j + v) for array in self.accumulators.arrays]
        define_m = self._define(self.contraction.m, thread.row(row))
        define_n = self._define(self.contraction.n, thread.column(vector, width))
        body = repeated(g, (define_n, *self._statements(values)), count)
        sections = Section("coordinate", (define_m,)), Section("statements", body)
        return repeated_sections("rows", i, sections, config.thread_m)

    def _define(self, index: Index, offset: Integer) -> Define:
        """Defines an output index, which the statements mention by its name, at an offset in the block tile."""
        node = define(index.name, self.thread.tile_origin[index.name] + offset, self.lowering)
        self.lowering.symbols[index.name] = node.index.symbol
        return node

    def _statements(self, values: Sequence[Value], before: Sequence[Node] = ()) -> tuple[Node, ...]:
        """The statements for a vector whose indices are defined, guarded by the output's bounds. `values` are its v-th
        accumulated elements, one of each sum, after the nodes `before`."""
        return guarded_nodes(Guard(tuple(self._bounds_check())), self._unguarded(values, before))

    def _bounds_check(self) -> Iterator[Comparison]:
        """The output's bounds that the block's tiles exceed; records all of them as limits."""
        for index in (*self.contraction.batch, self.contraction.m, self.contraction.n):
            coordinate = self.lowering.symbols[index.name]
            if not self.thread.exact.get(index.name, True):
                yield Comparison(coordinate, "<", self.extents[index.name])
            self.lowering.limits[coordinate] = self.extents[index.name]

    def _unguarded(self, values: Sequence[Value], before: Sequence[Node] = ()) -> tuple[Node, ...]:
        lowering = self.lowering
        scope = Scope()
        scope.nodes += before
        if self.width > 1:
            staged = dict(zip(self.accumulated, values, strict=True))
            n = self.contraction.n.name
            wide = wide_reads(self.request, self.arrays, n, self.width, self.accumulated)
            work = ConsecutiveElements(self.request, self.arrays, n, self.extents[n], self.width, wide, staged)
            return vector_body(work, lowering, scope)
        for read, value in zip(self.accumulated, values, strict=True):
            scalar = value(integer(0))
            is_named = isinstance(scalar, Local) and not isinstance(scalar, Element)
            if not is_named and mentions_of(read, [s.value for s in self.request.group.statements]) > 1:
                local = Local(lowering.names.allocate("total"), read.dtype)
                scope.nodes.append(Load(local, scalar.access) if isinstance(scalar, Element) else Let(local, scalar))
                scalar = local
            scope.remember(read, scalar)
        lower_statements(self.request, lowering, scope)
        return tuple(scope.nodes)

    def _statements_at(
        self, m_in_tile: Integer, n_in_tile: Integer, value: Value, before: Sequence[Node] = ()
    ) -> tuple[Node, ...]:
        """The statements of a single sum at an offset in the block tile."""
        definitions = self._define(self.contraction.m, m_in_tile), self._define(self.contraction.n, n_in_tile)
        return *definitions, *self._statements((value,), before)

    def _vector(self, name_hint: str, width: int, count: int = 0) -> Vector:
        return Vector(self.lowering.names.allocate(name_hint), self.dtype.compute, self.dtype, width, count)

    def _store_vector(self, name_hint: str, value: Value, target: Access) -> tuple[Node, ...]:
        width = target.width
        if width == 1:
            return (Store(target, value(integer(0))),)
        v = self.thread.loop_index("w", width)
        vector = self._vector(name_hint, width)
        assign = Assign(vector.component(v.symbol), value(v.symbol))
        return Let(vector, None, mutable=True), unrolled(v, (assign,), stop=width), Store(target, vector)

    def _loaded(self, load: Access) -> tuple[list[Node], Value]:
        """The load of a vector of sums, and its v-th element."""
        if load.width == 1:
            total = Local(self.lowering.names.allocate("total"), self.dtype)
            return [Load(total, load)], lambda v: total
        vector = self._vector("sums", load.width)
        return [Load(vector, load)], vector.component
