"""Rows shorter than a few vectors: each thread takes several, loaded as one contiguous run of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.kernel import KernelParts, ReductionKernel
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.pieces.blocks import define_index
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import index_loop_variable, loop_variable, shared_loop_variable, unrolled
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import gather_stores, load_vectors, vector_of
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import ADDRESSED, Access, Array, Vector
from cugen.plan.nodes import Comparison, For, Guard, If, Let, Loop, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer
from cugen.plan.traversal.usage import mentions
from cugen.spec.expressions import Expr, IndexValue
from cugen.spec.model import Statement

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
    length = problem.context.static(problem.context.extent(stage.fastest))
    if length is None or len(stage.all_indices) != 1 or len(stage.reads) != 1:
        return None
    (read,) = stage.reads
    array = problem.arrays[read.array]
    has_bare_subscripts = read.subscripts == (IndexValue(row.name), IndexValue(stage.fastest.name))
    strides = [problem.context.static(stride) for stride in array.strides]
    if not has_bare_subscripts or array.space not in ADDRESSED or not array.flat or strides != [length, 1]:
        return None
    width = MAX_ACCESS_BYTES // array.dtype.bytes
    rows = width // math.gcd(width, length)
    if rows == 1 and length * array.dtype.bytes > MAX_ACCESS_BYTES:
        return None
    while rows * length * array.dtype.bytes < MIN_BYTES_IN_FLIGHT:
        rows *= 2
    return ShortRowConfig(rows, length, width) if rows * length * array.dtype.bytes <= MAX_REGISTER_BYTES else None


class ShortRowKernel(ReductionKernel):
    """The kernel of one group: vector loads of the thread's rows, then a serial reduction of each."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: ShortRowConfig) -> None:
        super().__init__(problem, lowering, (BLOCK_THREADS, 1, 1))
        self.config = config
        self.stage: Stage = problem.stages[0]
        (self.row,), (self.read,) = problem.output_indices, self.stage.reads
        self.array: Array = problem.arrays[self.read.array]
        self.accumulators = self.new_accumulators(self.stage)

    def kernel_parts(self) -> KernelParts:
        lowering, extent, rows_per_thread = self.lowering, self.problem.context.extent(self.row), self.config.rows
        indices, grid = self.define_results(BLOCK_THREADS, self.x, rows_per_thread, all_stay=False)
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        first = lowering.symbols[self.row.name]
        rows = self._vector_rows(first)
        if not divides(rows_per_thread, extent, self.request.context):
            guard = Guard((Comparison(first + (rows_per_thread - 1), "<", extent),))
            rows = (Section("guarded_rows", (If(guard, rows, self._scalar_rows(first)),)),)
        return (Section("indices", indices), *rows), grid, self.block

    def _vector_rows(self, first: Integer) -> tuple[Section, ...]:
        """All rows of the thread, from vector loads."""
        lowering, config, scope = self.lowering, self.config, Scope()
        loaded = vector_of(self.array, self.read.array, config.width, lowering, config.vectors)
        flat = self.array.flattened(sympy.Mul(*self.array.shape))

        def vector(number: Integer) -> Access:
            return Access(flat, (first * config.length + number * config.width,), "load", config.width)

        element = load_vectors(loaded, vector, lowering, scope)
        thread_row = shared_loop_variable("r", (0, config.rows - 1), lowering)
        extent = self.problem.context.extent(self.row)
        row = define_index(self.row.name, first + thread_row.symbol, extent, lowering)
        *reduction, results = self._row(lambda column: element(thread_row.symbol * config.length + column))
        body, gathered = gather_stores(results.body, self.request, thread_row, lowering, self._fits_vector)
        sections = (*reduction, replace(results, body=tuple(body)))
        sections = (Section("index", (row,) if mentions(sections, row.index.name) else ()), *sections)

        def store(statement: Statement, vector: Vector) -> Store:
            return Store(Access(self.problem.arrays[statement.target], (first,), "store", config.rows), vector)

        return (
            Section("load_vectors", tuple(scope.nodes)),
            Section("declare_results", tuple(Let(vector, None, mutable=True) for vector in gathered.vectors)),
            Section("rows", (unrolled(thread_row, sections),)),
            Section("store", tuple(gathered.stores(lowering, store))),
        )

    def _scalar_rows(self, first: Integer) -> tuple[Node, ...]:
        """The last rows, by scalar loads."""
        lowering, extent = self.lowering, self.problem.context.extent(self.row)
        row = loop_variable(self.row.name, extent, lowering, first)
        lowering.symbols[self.row.name] = row.symbol
        return (For(Loop(row, first, extent, rolled=True), self._row(None)),)

    def _row(self, element: Callable[[Integer], Expr] | None) -> tuple[Section, ...]:
        """One row's reductions and the statements that use them; `element` is a loaded element by its column."""
        lowering, along = self.lowering, self.stage.fastest
        scope = Scope()
        declared = self.declare_accumulators()
        index = index_loop_variable(along.name, (0, self.config.length - 1), lowering)
        lowering.symbols[along.name] = index.symbol
        inner = Scope(scope, frozenset((along.name,)))
        if element is not None:
            named = self.named_element(self.read, element(index.symbol), self.stage, inner)
            inner.remember(self.read, named)
        self.accumulate_element(self.stage, inner)
        elements = unrolled(index, inner.nodes)
        hoisted = tuple(scope.nodes)
        scope.nodes.clear()
        del lowering.symbols[along.name]
        for reduction, value in self.stage.results(self.accumulators).items():
            scope.remember(reduction, value)
        lower_statements(self.request, lowering, scope)
        return (
            Section("accumulators", (*declared, *hoisted)),
            Section("elements", (elements,)),
            Section("results", tuple(scope.nodes)),
        )

    def _fits_vector(self, statement: Statement, array: Array) -> bool:
        """Whether one access stores the results of the thread's rows."""
        rows = self.config.rows
        if statement.subscripts != (IndexValue(self.row.name),):
            return False
        return array.strides == (1,) and 1 < rows and rows * array.dtype.bytes <= MAX_ACCESS_BYTES
