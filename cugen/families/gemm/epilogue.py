"""Epilogue of a GEMM: the statements that follow the sum, from a thread's accumulators to global memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.pieces.blocks import define
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import ConsecutiveElements, vector_body, wide_reads
from cugen.pieces.vectors import MAX_ACCESS_BYTES, divisor, widest
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Comment,
    Comparison,
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
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read
from cugen.spec.types import FLOAT32, UINT32


class Epilogue:
    """The group's statements on accumulators in registers, stored as vectors of `width` elements along N where
    alignment allows it. Subclasses add partial sums first."""

    def __init__(
        self,
        contraction: Contraction,
        config: TileConfig,
        lowering: Lowering,
        extents: Mapping[str, Integer],
        exact: Mapping[str, bool],
        fragment_widths: tuple[int, int],
    ) -> None:
        self.contraction, self.config, self.lowering = contraction, config, lowering
        self.extents, self.exact, self.fragment_widths = extents, exact, fragment_widths
        self.accumulated = self._with_elementwise_statements()
        self.width = self._store_width()

    def _with_elementwise_statements(self) -> Read:
        """Replaces the sum by a read of a placeholder array, which makes the statements elementwise; returns it."""
        contraction, lowering = self.contraction, self.lowering
        name = "accumulated"
        while name in lowering.arrays:
            name += "_"
        (reduction,) = contraction.sums
        subscripts = (IndexValue(contraction.m.name), IndexValue(contraction.n.name))
        read = Read(name, subscripts, reduction.dtype)
        statements = tuple(
            replace(s, value=rebuilt(s.value, lambda node: read if node == reduction else None))
            for s in contraction.request.group.statements
        )
        self.request = replace(contraction.request, group=replace(contraction.request.group, statements=statements))
        extents = tuple(self.extents[index.name] for index in (contraction.m, contraction.n))
        symbol = lowering.names.allocate("accumulated")
        placeholder = Array(name, symbol, reduction.dtype, extents, (extents[1], integer(1)), "register")
        self.arrays = {**lowering.arrays, name: placeholder}
        lowering.arrays = self.arrays
        return read

    def _store_width(self) -> int:
        """Vector width of the stores along N, in elements."""
        context, n_name = self.request.context, self.contraction.n.name
        width = self.fragment_widths[1]
        if self.config.reduces_in_shared:
            width = math.gcd(width, MAX_ACCESS_BYTES // self.contraction.sums[0].dtype.bytes)
        for statement in self.request.group.statements:
            declared = context.spec.array(statement.target)
            if declared.role != "temporary" or statement.target in self.request.stored:
                array = context.arrays[statement.target]
                width = math.gcd(width, widest(array, statement.subscripts, n_name, context).count)
        common_divisor = divisor(self.extents[n_name], context)
        return math.gcd(width, common_divisor) if common_divisor else width

    def alignments(self) -> tuple[tuple[str, int], ...]:
        return self._vector_work({}).alignments()

    def _vector_work(self, staged: Mapping[Read, Callable[[Integer], Expr]]) -> ConsecutiveElements:
        n_name = self.contraction.n.name
        wide: Mapping[Read, int] = {}
        if self.width > 1:
            wide = wide_reads(self.request, self.arrays, n_name, self.width, (self.accumulated,))
        return ConsecutiveElements(self.request, self.arrays, n_name, self.extents[n_name], self.width, wide, staged)

    def declarations(self) -> tuple[Node, ...]:
        return ()

    def sections(self, accumulators: Array, thread: ThreadCoordinates) -> tuple[Section, ...]:
        opaque_one = Section("opaque_one", self._define_opaque_one())
        return opaque_one, Section("rows", (self._from_registers(accumulators, thread),))

    @cached_property
    def _opaque_one(self) -> Local | None:
        """A factor of 1.0f that the compiler doesn't know, for accumulators that would be stored unchanged as vectors.

        A vector store needs consecutive registers. Without the factor ptxas gives these to the accumulators themselves,
        and most FMAs read two operands from one register bank."""
        arrays, statements = self.request.context.arrays, self.request.group.statements
        is_stored_unchanged = self.width > 1 and any(
            s.value == self.accumulated and arrays[s.target].dtype == FLOAT32 for s in statements
        )
        if self.accumulated.dtype != FLOAT32 or not (is_stored_unchanged or self.config.reduces_in_shared):
            return None
        return Local(self.lowering.names.allocate("opaque_one"), FLOAT32)

    def _define_opaque_one(self) -> tuple[Node, ...]:
        if self._opaque_one is None:
            return ()
        why = (
            "opaque 1.0f: keeps ptxas from choosing accumulator registers for the vector stores, which causes "
            "register-bank conflicts"
        )
        return Comment(why), Let(self._opaque_one, Local("blockDim.z", UINT32))

    def _accumulator(self, accumulators: Array, i: Integer, j: Integer) -> Expr:
        """The value of one accumulator, for a store."""
        value = Element.of(Access(accumulators, (i, j), "load"))
        return value if self._opaque_one is None else Op("mul", (self._opaque_one, value), accumulators.dtype)

    def _from_registers(self, accumulators: Array, thread: ThreadCoordinates) -> For:
        """The loop over a thread tile's rows, with the statements."""
        config, width = self.config, self.width
        i, m_in_tile = self._row_loop(thread)
        count = config.thread_n // width
        g = thread.loop_index("g" if width > 1 else "j", count)
        vector = g.symbol if count > 1 else integer(0)
        j = vector * width
        contraction, origin = self.contraction, thread.tile_origin
        n = origin[contraction.n.name] + self._n_in_tile(thread, vector, width)

        def value(v: Integer) -> Expr:
            return self._accumulator(accumulators, i.symbol, j + v)

        outer_symbols = dict(self.lowering.symbols)
        define_m = self._define(contraction.m, origin[contraction.m.name] + m_in_tile)
        define_n = self._define(contraction.n, n)
        body = (define_n, *self._statements(value))
        self._restore(outer_symbols)
        if count > 1:
            body = (For(Loop(g, integer(0), integer(count), unroll=True), body),)
        row = Section("coordinate", (define_m,)), Section("statements", body)
        return For(Loop(i, integer(0), integer(config.thread_m), unroll=True), row)

    def _row_loop(self, thread: ThreadCoordinates) -> tuple[Index, Integer]:
        """The loop index over a thread tile's rows, and the row's offset in the block tile."""
        width = self.fragment_widths[0]
        i = thread.loop_index("i", self.config.thread_m)
        if self.config.thread_m == width:
            return i, thread.m_in_tile + i.symbol
        stride = self.config.lanes_m * width
        return i, thread.m_in_tile + FloorDiv(i.symbol, integer(width)) * stride + Mod(i.symbol, integer(width))

    def _n_in_tile(self, thread: ThreadCoordinates, vector: Integer, width: int) -> Integer:
        """The offset in the block tile of a thread tile's vector of `width` columns."""
        per_fragment = integer(self.fragment_widths[1] // width)
        stride = self.config.lanes_n * self.fragment_widths[1]
        return thread.n_in_tile + FloorDiv(vector, per_fragment) * stride + Mod(vector, per_fragment) * width

    def _define(self, index: spec.Index, definition: Integer) -> Define:
        """Defines an output index, which the statements mention by its name."""
        node = define(index.name, definition, self.lowering)
        self.lowering.symbols[index.name] = node.index.symbol
        return node

    def _restore(self, symbols: Mapping[str, Integer]) -> None:
        self.lowering.symbols.clear()
        self.lowering.symbols.update(symbols)

    def _statements(self, value: Callable[[Integer], Expr], before: Sequence[Node] = ()) -> tuple[Node, ...]:
        """The statements for a vector whose indices are defined, guarded by the output's bounds. `value` is its v-th
        accumulated element, after the nodes `before`."""
        lowering = self.lowering
        terms: list[Comparison] = []
        for index in (self.contraction.m, self.contraction.n):
            coordinate = lowering.symbols[index.name]
            if not self.exact[index.name]:
                terms.append(Comparison(coordinate, "<", self.extents[index.name]))
            lowering.limits[coordinate] = self.extents[index.name]
        scope = Scope()
        scope.nodes += before
        if self.width > 1:
            body: tuple[Node, ...] = vector_body(self._vector_work({self.accumulated: value}), lowering, scope)
        else:
            scalar = value(integer(0))
            if isinstance(scalar, Element) or not isinstance(scalar, Local):
                local = Local(lowering.names.allocate("result"), self.accumulated.dtype)
                scope.nodes.append(Load(local, scalar.access) if isinstance(scalar, Element) else Let(local, scalar))
                scalar = local
            scope.remember(self.accumulated, scalar)
            lower_statements(self.request, lowering, scope)
            body = tuple(scope.nodes)
        return (If(Guard(tuple(terms)), body),) if terms else body

    def _statements_at(
        self,
        thread: ThreadCoordinates,
        m_in_tile: Integer,
        n_in_tile: Integer,
        value: Callable[[Integer], Expr],
        before: Sequence[Node] = (),
    ) -> tuple[Node, ...]:
        """The statements at an offset in the block tile."""
        outer_symbols = dict(self.lowering.symbols)
        offsets = ((self.contraction.m, m_in_tile), (self.contraction.n, n_in_tile))
        definitions = [self._define(index, thread.tile_origin[index.name] + offset) for index, offset in offsets]
        body = (*definitions, *self._statements(value, before))
        self._restore(outer_symbols)
        return body
