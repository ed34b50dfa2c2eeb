"""Rows shorter than a few vectors: each thread takes several, loaded as one contiguous run of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.accumulate import (
    LoopRange,
    accumulate_element,
    mentions_index,
    named_component,
    results_of,
)
from cugen.families.reduce.recognition import ReductionProblem, Stage
from cugen.families.reduce.rows import KernelParts, Parts, new_accumulator
from cugen.pieces.block_reduce import declare_accumulator
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import MAX_ACCESS_BYTES, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Component, Vector
from cugen.plan.nodes import (
    Assign,
    Comparison,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    ReturnUnless,
    Section,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer
from cugen.plan.traversal.sections import dissolved
from cugen.spec.expressions import IndexValue

# Heuristics, tuned on H200.
MIN_BYTES_IN_FLIGHT = 48  # per thread
MAX_REGISTER_BYTES = 256  # of a thread's rows
BLOCK_THREADS = 256


@dataclass(frozen=True, slots=True)
class ShortRowConfig:
    """A thread takes `rows` rows of `length` elements, loaded by `vectors` accesses of `width` elements."""

    rows: int
    length: int
    width: int

    @property
    def vectors(self) -> int:
        return self.rows * self.length // self.width


def short_row_config(problem: ReductionProblem) -> ShortRowConfig | None:
    """The config for short rows without padding; None for any others."""
    if problem.column_index or len(problem.stages) != 1 or len(problem.output_indices) != 1:
        return None
    (stage,), (row,) = problem.stages, problem.output_indices
    length = problem.request.context.static(problem.extent(stage.fastest))
    if length is None or len(stage.indices) != 1 or len(stage.reads) != 1:
        return None
    (read,) = stage.reads
    array = problem.arrays[read.array]
    has_bare_subscripts = read.subscripts == (IndexValue(row.name), IndexValue(stage.fastest.name))
    strides = [problem.request.context.static(stride) for stride in array.strides]
    if not has_bare_subscripts or array.space != "global" or not array.flat or strides != [length, 1]:
        return None
    width = MAX_ACCESS_BYTES // array.dtype.bytes
    rows = width // math.gcd(width, length)
    if rows == 1 and length * array.dtype.bytes > MAX_ACCESS_BYTES:
        return None
    while rows * length * array.dtype.bytes < MIN_BYTES_IN_FLIGHT:
        rows *= 2
    return ShortRowConfig(rows, length, width) if rows * length * array.dtype.bytes <= MAX_REGISTER_BYTES else None


def build_short_rows(problem: ReductionProblem, lowering: Lowering, config: ShortRowConfig) -> KernelParts:
    return _ShortRowKernel(problem, lowering, config).kernel_parts()


class _ShortRowKernel:
    """The kernel of one group: vector loads of the thread's rows, then a serial reduction of each."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: ShortRowConfig) -> None:
        self.problem, self.lowering, self.config = problem, lowering, config
        self.stage: Stage = problem.stages[0]
        (self.row,), (self.read,) = problem.output_indices, self.stage.reads
        self.array: Array = problem.arrays[self.read.array]
        self.accumulators = tuple(new_accumulator(problem, r, lowering) for r in self.stage.reductions)

    def kernel_parts(self) -> KernelParts:
        lowering, block_rows = self.lowering, BLOCK_THREADS * self.config.rows
        extent = self.problem.extent(self.row)
        count = ceil_div(extent, block_rows)
        blocks = make_grid([count], lowering, self.problem.request.target)
        first_row = (blocks.coordinates[0] * BLOCK_THREADS + thread("x", BLOCK_THREADS, lowering)) * self.config.rows
        first = define(f"first_{self.row.name}", first_row, lowering, below=count * block_rows)
        indices: list[Node] = [first]
        if divisor(extent, self.problem.request.context) % block_rows:
            indices.append(ReturnUnless(Guard((Comparison(first.index.symbol, "<", extent),))))
        limit(first.index, extent, lowering)
        lowering.prepare(tuple(statement.value for statement in self.problem.request.group.statements))
        rows = self._vector_rows(first.index.symbol)
        parts: Parts = (("indices", tuple(indices)), *((section.name, section.body) for section in rows))
        if divisor(extent, self.problem.request.context) % self.config.rows:
            guard = Guard((Comparison(first.index.symbol + (self.config.rows - 1), "<", extent),))
            guarded = If(guard, rows, self._scalar_rows(first.index.symbol))
            parts = (("indices", tuple(indices)), ("guarded_rows", (guarded,)))
        return KernelParts(parts, blocks.grid, (BLOCK_THREADS, 1, 1))

    def _vector_rows(self, first: Integer) -> tuple[Section, ...]:
        """All rows of the thread, from vector loads."""
        lowering, config, name = self.lowering, self.config, self.read.array.lower()
        dtype, width = self.array.dtype, integer(self.config.width)
        name_hint = f"{name}{'_' if name[-1].isdigit() else ''}{config.width}"
        loaded = Vector(lowering.names.allocate(name_hint), dtype.compute, dtype, config.width, config.vectors)
        number = shared_loop_variable("u", (0, config.vectors - 1), lowering)
        flat = replace(self.array, shape=(sympy.Mul(*self.array.shape),), strides=(integer(1),))
        source = Access(flat, (first * config.length + number.symbol * config.width,), "load", config.width)
        load = Load(loaded.indexed(number.symbol), source)
        thread_row = shared_loop_variable("r", (0, config.rows - 1), lowering)
        row = define(self.row.name, first + thread_row.symbol, lowering)
        limit(row.index, self.problem.extent(self.row), lowering)
        lowering.symbols[self.row.name] = row.index.symbol

        def element(column: Integer) -> Component:
            position = thread_row.symbol * config.length + column
            return loaded.indexed(FloorDiv(position, width)).component(Mod(position, width))

        *reduction, results = self._row(element)
        body, vectors, stores = self._with_vector_stores(results.body, first, thread_row.symbol)
        sections = (*reduction, replace(results, body=body))
        has_row_index = mentions_index(dissolved(sections), row.index)
        sections = (Section("index", (row,) if has_row_index else ()), *sections)
        load_vectors = For(Loop(number, integer(0), integer(config.vectors), unroll=True), (Section("load", (load,)),))
        return (
            Section("declare_vectors", (Let(loaded, None, mutable=True),)),
            Section("vectors", (load_vectors,)),
            Section("declare_results", tuple(Let(vector, None, mutable=True) for vector in vectors)),
            Section("rows", (For(Loop(thread_row, integer(0), integer(config.rows), unroll=True), sections),)),
            Section("store", tuple(stores)),
        )

    def _scalar_rows(self, first: Integer) -> tuple[Node, ...]:
        """The last rows, by scalar loads."""
        lowering, extent = self.lowering, self.problem.extent(self.row)
        last = max(bounds(extent, lowering.ranges)[1] - 1, 0)
        row = Index(lowering.names.allocate(self.row.name), first, (0, last))
        lowering.ranges[row.symbol] = row.range
        lowering.limits[row.symbol] = extent
        lowering.symbols[self.row.name] = row.symbol
        return (For(Loop(row, first, extent, rolled=True), self._row(None)),)

    def _row(self, element: Callable[[Integer], Component] | None) -> tuple[Section, ...]:
        """One row's reductions and the statements that use them; `element` is a loaded element by its column."""
        lowering, along = self.lowering, self.stage.fastest
        scope = Scope()
        declared = tuple(node for accumulator in self.accumulators for node in declare_accumulator(accumulator))
        index = shared_loop_variable(along.name, (0, self.config.length - 1), lowering)
        lowering.symbols[along.name] = index.symbol
        inner = Scope(scope, frozenset((along.name,)))
        if element is not None:
            named = named_component(self.read, element(index.symbol), self.stage, lowering, inner)
            inner.remember(self.read, named)
        length = integer(self.config.length)
        accumulate_element(LoopRange(self.stage, self.accumulators, integer(0), length, (), ()), lowering, inner)
        elements = For(Loop(index, integer(0), length, unroll=True), (Section("accumulate", tuple(inner.nodes)),))
        hoisted = tuple(scope.nodes)
        scope.nodes.clear()
        del lowering.symbols[along.name]
        for reduction, value in results_of(self.stage, self.accumulators).items():
            scope.remember(reduction, value)
        lower_statements(self.problem.request, lowering, scope)
        return (
            Section("accumulators", (*declared, *hoisted)),
            Section("elements", (elements,)),
            Section("results", tuple(scope.nodes)),
        )

    def _with_vector_stores(
        self, nodes: tuple[Node, ...], first: Integer, row: Integer
    ) -> tuple[tuple[Node, ...], list[Vector], list[Node]]:
        """The nodes of a row with stores replaced by assignments to vectors where possible; the vectors; their
        stores."""
        vectors: list[Vector] = []
        stores: list[Node] = []
        replaced: list[Node] = []
        for node in nodes:
            if isinstance(node, Store) and has_vector_store(node.access.array, self.config):
                dtype = node.access.array.dtype
                name_hint = f"{node.access.array.symbol}{self.config.rows}"
                vector = Vector(self.lowering.names.allocate(name_hint), dtype.compute, dtype, self.config.rows)
                vectors.append(vector)
                stores.append(Store(Access(node.access.array, (first,), "store", self.config.rows), vector))
                node = Assign(vector.component(row), node.value)
            replaced.append(node)
        return tuple(replaced), vectors, stores


def has_vector_store(array: Array, config: ShortRowConfig) -> bool:
    """Whether one access stores the results of a thread's rows."""
    return array.strides == (1,) and 1 < config.rows and config.rows * array.dtype.bytes <= MAX_ACCESS_BYTES
