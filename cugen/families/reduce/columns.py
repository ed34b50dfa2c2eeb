"""Reductions across rows: each thread takes a vector of columns, and threads along y share each column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cugen.families.reduce.accumulate import (
    ConsecutiveElements,
    LoopRange,
    accumulate_element,
    accumulate_vector,
    invariant_reads,
    loop_range_of,
    mentions_index,
    results_of,
    vector_lane,
    wide_reads,
    widest_access,
    with_named_starts,
    with_named_stop,
)
from cugen.families.reduce.recognition import ReductionProblem, Stage
from cugen.families.reduce.rows import KernelParts, guarded_loops, loop_index, new_accumulator
from cugen.pieces.block_reduce import Accumulator, declare_accumulator, merge, reset_accumulator
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.sections import SectionGroup, append_loop, append_section
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import MAX_ACCESS_BYTES, Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comparison,
    Declare,
    For,
    Guard,
    Let,
    Loop,
    Node,
    ReturnUnless,
    Section,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, Reduce
from cugen.spec.model import Statement
from cugen.spec.types import DType

MAX_COLUMNS_PER_THREAD = MAX_ACCESS_BYTES  # vectors of one-byte elements


@dataclass(frozen=True, slots=True)
class ColumnConfig:
    """A block has `threads` along the columns, with `width` columns each, times `threads_per_column` along y."""

    threads: int
    threads_per_column: int
    width: int
    unroll: int


def column_width(problem: ReductionProblem) -> Width:
    """The vector width along the columns."""
    along = problem.column_index
    (index,) = (index for index in problem.output_indices if index.name == along)
    columns = divisor(problem.extent(index), problem.request.context)
    count = MAX_COLUMNS_PER_THREAD
    while columns % count:
        count //= 2
    widths = [Width(count, f"the number of columns {along} is only known to be a multiple of {count}")]
    for stage in problem.stages:
        widths += [widest_access(problem, read, along) for read in wide_reads(problem, stage, along)]
        if not wide_reads(problem, stage, along):
            widths.append(Width(1, f"consecutive {along} are not contiguous in memory"))
    return min(widths, key=lambda width: width.count)


def build_columns(problem: ReductionProblem, lowering: Lowering, config: ColumnConfig) -> KernelParts:
    return _ColumnKernel(problem, lowering, config).kernel_parts()


class _ColumnKernel:
    """The kernel of one group: each thread accumulates its rows of its columns, then threads along y reduce."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: ColumnConfig) -> None:
        self.request: Request = problem.request
        self.problem, self.lowering, self.config = problem, lowering, config
        self.x = thread("x", config.threads, lowering)
        self.y = thread("y", config.threads_per_column, lowering)
        self.column_terms: tuple[Comparison, ...] = ()  # fail for threads without a column
        self.along = problem.output_indices[0].name
        self.vectors: dict[Read, Vector] = {}
        self.results: dict[Reduce, Local] = {}  # of the stages so far

    def kernel_parts(self) -> KernelParts:
        lowering = self.lowering
        indices, grid = self._indices()
        self.problem, starts = with_named_starts(self.problem, lowering)
        self.request = self.problem.request
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        stages: list[Node] = []
        for position, stage in enumerate(self.problem.stages):
            accumulators = tuple(self._accumulator(reduction) for reduction in stage.reductions)
            sections = self._thread_loops(stage, accumulators)
            if self.config.threads_per_column > 1:
                is_last = position == len(self.problem.stages) - 1
                sections = (*sections, self._reduce_along_y(accumulators, broadcast=not is_last))
            stages.append(SectionGroup("stage", sections))
            self.results |= results_of(stage, accumulators)
        parts = (("indices", (*indices, *starts)), ("stages", tuple(stages)), ("results", self._result()))
        return KernelParts(parts, grid, (self.config.threads, self.config.threads_per_column, 1))

    def _indices(self) -> tuple[tuple[Node, ...], tuple[Integer, Integer, Integer]]:
        lowering, config = self.lowering, self.config
        counts = [self.problem.extent(index) for index in self.problem.output_indices]
        block_columns = config.threads * config.width
        blocks = make_grid([ceil_div(counts[0], block_columns), *counts[1:]], lowering, self.request.target)
        nodes: list[Node] = []
        outer = zip(self.problem.output_indices[1:], counts[1:], blocks.coordinates[1:], strict=True)
        for index, extent, coordinate in outer:
            node = define(index.name, coordinate, lowering)
            lowering.symbols[index.name] = node.index.symbol
            limit(node.index, extent, lowering)
            nodes.insert(0, node)
        name_hint = f"first_{self.along}" if config.width > 1 else self.along
        column = (blocks.coordinates[0] * config.threads + self.x) * config.width
        first = define(name_hint, column, lowering, below=ceil_div(counts[0], block_columns) * block_columns)
        nodes.append(first)
        lowering.symbols[self.along] = first.index.symbol
        if not divides(block_columns, counts[0], self.request.context):
            self.column_terms = (Comparison(first.index.symbol, "<", counts[0]),)
        limit(first.index, counts[0], lowering)
        if self.column_terms and config.threads_per_column == 1:
            nodes.append(ReturnUnless(Guard(self.column_terms)))
            self.column_terms = ()
        return tuple(nodes), blocks.grid

    # A thread's accumulators: a value, or a vector, of its columns

    def _accumulator(self, reduction: Reduce) -> Accumulator:
        scalar = new_accumulator(self.problem, reduction, self.lowering)
        if self.config.width == 1:
            return scalar
        vectors = [self._vector(local.name, local.dtype) for local in scalar.locals]
        return Accumulator(scalar.kind, *vectors)

    def _vector(self, name: str, dtype: DType) -> Vector:
        width = self.config.width
        return Vector(self.lowering.names.allocate(f"{name}{width}"), dtype, dtype, width)

    def _for_each_column(self, body: Callable[[Integer], Iterable[Node]]) -> tuple[Node, ...]:
        """The nodes of `body` for each of the thread's columns."""
        if self.config.width == 1:
            return tuple(body(integer(0)))
        lane = vector_lane(self.config.width, self.lowering)
        nodes = tuple(body(lane.symbol))
        return (For(Loop(lane, integer(0), integer(self.config.width), unroll=True), nodes),)

    def _of_column(self, accumulators: tuple[Accumulator, ...], scope: Scope, lane: Integer) -> tuple[Accumulator, ...]:
        """The accumulators of one column; the results of earlier stages are defined in its scope."""
        for reduction, value in self.results.items():
            scope.remember(reduction, _component(value, lane))
        return tuple(Accumulator(a.kind, *(_component(local, lane) for local in a.locals)) for a in accumulators)

    # The loops of a thread

    def _thread_loops(self, stage: Stage, accumulators: tuple[Accumulator, ...]) -> tuple[Section, ...]:
        """The initialised accumulators, the invariant reads, and the loops over the thread's rows."""
        scope = Scope()
        inner = Scope(scope, certain=False) if self.column_terms else scope
        for read in invariant_reads(stage, self.along):
            self.lowering.lower(read, inner)
        self._row_loops(stage, accumulators, (), inner)
        loops = guarded_loops(self.column_terms, tuple(inner.nodes))
        if self.config.width == 1:
            return (Section("accumulators", tuple(n for a in accumulators for n in declare_accumulator(a))), loops)
        declared = tuple(Let(local, None, mutable=True) for a in accumulators for local in a.locals)
        initialised = self._for_each_column(
            lambda v: (node for a in self._of_column(accumulators, Scope(), v) for node in reset_accumulator(a))
        )
        return (Section("accumulators", (*declared, *initialised)), loops)

    def _row_loops(
        self, stage: Stage, accumulators: tuple[Accumulator, ...], implied: tuple[Expr, ...], scope: Scope
    ) -> None:
        """The loops over the reduced indices; the longest is distributed over threads along y."""
        lowering = self.lowering
        remaining = [index for index in stage.indices if index.name not in lowering.symbols]
        index = remaining[0]
        longest = max(reversed(stage.indices), key=self.problem.max_extent)
        is_distributed = index == longest and self.config.threads_per_column > 1
        loop = loop_range_of(self.problem, stage, accumulators, index, lowering, (self.along, self.config.width))
        implied += (*loop.upper, *loop.lower)
        loop = with_named_stop(self.problem, loop, lowering, scope)
        first, step = (loop.start + self.y, self.config.threads_per_column) if is_distributed else (loop.start, 1)
        variable = loop_index(self.problem, lowering, index, first, loop.stop, step)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        if len(remaining) > 1:
            self._row_loops(stage, accumulators, implied, inner)
        else:
            self._accumulate_row(loop, implied, inner)
        name = "outer" if len(remaining) > 1 else "scalars" if self.config.width == 1 else "vectors"
        unroll = 0 if len(remaining) > 1 else self.config.unroll
        rows = Loop(variable, first, loop.stop, step, unroll_by=unroll)
        append_loop(scope, "bounds", name, For(rows, tuple(inner.nodes)))
        del lowering.symbols[index.name]

    def _accumulate_row(self, loop: LoopRange, implied: tuple[Expr, ...], scope: Scope) -> None:
        """Updates the accumulators by one row's elements of the thread's columns."""
        lowering, width = self.lowering, self.config.width
        if width == 1:
            of_column = replace(loop, accumulators=self._of_column(loop.accumulators, scope, integer(0)))
            accumulate_element(of_column, lowering, scope, implied)
            append_section(scope, "accumulate")
            return
        reads = wide_reads(self.problem, loop.stage, self.along)
        elements = ConsecutiveElements(self.along, width, reads, self.vectors)
        accumulate_vector(
            loop, elements, lowering, scope, implied, lambda inner, v: self._of_column(loop.accumulators, inner, v)
        )

    # The reduction over the threads of a column

    def _reduce_along_y(self, accumulators: tuple[Accumulator, ...], *, broadcast: bool) -> SectionGroup:
        """The reduction through shared memory, in a fixed order; without `broadcast`, threads of y > 0 return."""
        lowering, config = self.lowering, self.config
        arrays_of = [[self._shared_partials(local) for local in a.locals] for a in accumulators]
        locals_ = [
            (local, array)
            for accumulator, arrays in zip(accumulators, arrays_of, strict=True)
            for local, array in zip(accumulator.locals, arrays, strict=True)
        ]
        store_partials = self._for_each_column(
            lambda v: (
                Store(self._partial(array, v, self.y, "store"), _component(local, v)) for local, array in locals_
            )
        )
        if broadcast:
            first_partial = self._for_each_column(
                lambda v: (
                    Assign(_component(local, v), Element.of(self._partial(array, v, integer(0), "load")))
                    for local, array in locals_
                )
            )
        else:
            first_partial = (ReturnUnless(Guard((Comparison(self.y, "==", integer(0)), *self.column_terms))),)
        row = replace(shared_loop_variable("row", (1, config.threads_per_column - 1), lowering), definition=integer(1))
        merge_partials = self._for_each_column(
            lambda v: (
                node
                for accumulator, arrays in zip(accumulators, arrays_of, strict=True)
                for node in self._merge_partial(accumulator, arrays, v, row.symbol)
            )
        )
        rows = For(Loop(row, integer(1), integer(config.threads_per_column)), (Section("merge", merge_partials),))
        return SectionGroup(
            "column_reduction",
            (
                Section("declare_partials", tuple(Declare(array) for _, array in locals_)),
                Section("store_partials", store_partials),
                Section("partials_stored", (Barrier(),)),
                Section("first_partial", first_partial),
                Section("other_partials", (rows,)),
            ),
        )

    def _shared_partials(self, local: Local) -> Array:
        """The shared array of the block's partial results: [columns of a thread][y][x], free of bank conflicts."""
        width = self.config.width
        sizes = (*((width,) if width > 1 else ()), self.config.threads_per_column, self.config.threads)
        strides = tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
        name = self.lowering.names.allocate(f"{local.name.strip('_0123456789')}_partials")
        return Array("", name, local.dtype, tuple(map(integer, sizes)), tuple(map(integer, strides)), "shared", False)

    def _partial(self, array: Array, v: Integer, y: Integer, kind: str) -> Access:
        return Access(array, (v, y, self.x)[-len(array.shape) :], kind)

    def _merge_partial(
        self, accumulator: Accumulator, arrays: Sequence[Array], v: Integer, row: Integer
    ) -> Iterator[Node]:
        of_column = Accumulator(accumulator.kind, *(_component(local, v) for local in accumulator.locals))
        values: list[Local] = [Element.of(self._partial(array, v, row, "load")) for array in arrays]
        if accumulator.extreme is not None:
            for position, (local, value) in enumerate(zip(accumulator.locals, values, strict=True)):
                named = Local(self.lowering.names.allocate(f"other_{local.name.strip('_0123456789')}"), local.dtype)
                yield Let(named, value)
                values[position] = named
        yield from merge(of_column, values)

    # The stores

    def _result(self) -> tuple[Node, ...]:
        """The statements with the results; vector stores follow the loop over the thread's columns."""
        lowering, width = self.lowering, self.config.width
        scope = Scope()
        if width == 1:
            self._of_column((), scope, integer(0))
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        stores: list[Node] = []
        first = lowering.symbols[self.along]

        def column_body(v: Integer) -> Iterator[Node]:
            inner = Scope(scope, frozenset((self.along,)))
            column = define(self.along, first + v, lowering)
            limit(column.index, lowering.limits[first], lowering)
            lowering.symbols[self.along] = column.index.symbol
            self._of_column((), inner, v)
            self._name_positions(inner, v)
            lower_statements(self.request, lowering, inner)
            lowering.symbols[self.along] = first
            stored = iter([s for s in self.request.group.statements if self._is_stored(s)])
            nodes: list[Node] = []
            for node in inner.nodes:
                if isinstance(node, Store) and self._has_vector_store(statement := next(stored)):
                    vector = self._vector(statement.target.lower(), node.access.array.dtype.compute)
                    vector = replace(vector, element=node.access.array.dtype)
                    scope.nodes.append(Let(vector, None, mutable=True))
                    nodes.append(Assign(vector.component(v), node.value))
                    subscripts = tuple(to_integer(sub, lowering.symbols) for sub in statement.subscripts)
                    stores.append(Store(Access(node.access.array, subscripts, "store", width), vector))
                else:
                    nodes.append(node)
            return iter((column, *nodes) if mentions_index(tuple(nodes), column.index) else nodes)

        loop = self._for_each_column(column_body)
        return (*scope.nodes, *loop, *stores)

    def _name_positions(self, scope: Scope, lane: Integer) -> None:
        """Names the results of argmax and argmin, since subscripts must be named."""
        for reduction, value in self.results.items():
            if reduction.kind in ("argmax", "argmin"):
                name_hint = ACCUMULATORS[reduction.kind]
                local = Local(self.lowering.name_for(reduction, name_hint, scope), reduction.dtype)
                scope.nodes.append(Let(local, _component(value, lane)))
                scope.remember(reduction, local)

    def _is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def _has_vector_store(self, statement: Statement) -> bool:
        """Whether one access stores the results of all the thread's columns."""
        target = Read(statement.target, statement.subscripts, statement.value.dtype)
        return widest_access(self.problem, target, self.along).count % self.config.width == 0


def _component(local: Local, lane: Integer) -> Local:
    """A thread's value for one of its columns."""
    return local.component(lane) if isinstance(local, Vector) else local
