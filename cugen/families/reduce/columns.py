"""Reductions across rows: each thread takes a vector of columns, and threads along y share each column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cugen.families.reduce.kernel import KernelParts, StagedKernel, component, vector_lane
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.pieces.block_reduce import Accumulator, SharedPartials, merge
from cugen.pieces.blocks import define_index, power_of_two
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.pieces.sections import SectionGroup
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import copied_vector, gather_stores
from cugen.pieces.vectors import MAX_ACCESS_BYTES, Width, narrowest
from cugen.plan.alignment import divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Array, Element, IndexLocal, Vector
from cugen.plan.nodes import Assign, Barrier, Comparison, For, Guard, Let, Loop, Node, ReturnUnless, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import Integer, bounds, integer
from cugen.plan.traversal.usage import mentions
from cugen.spec.expressions import Const, Expr, Local, Read
from cugen.spec.model import Statement
from cugen.spec.types import INT64

MAX_COLUMNS_PER_THREAD = MAX_ACCESS_BYTES  # vectors of one-byte elements
MAX_ACCUMULATORS = 48  # of a thread: more limit the occupancy (heuristic)
MAX_BEGUN_BLOCK_THREADS = 256


@dataclass(frozen=True, slots=True)
class ColumnConfig:
    """A block has `threads` along the columns, with `width` columns each, times `threads_per_column` along y, times
    `outer_rows` along the next output index."""

    threads: int
    threads_per_column: int
    width: int
    unroll: int
    outer_rows: int = 1


def column_width(problem: ReductionProblem) -> Width:
    """The vector width along the columns."""
    along = problem.column_index
    (index,) = (index for index in problem.output_indices if index.name == along)
    count = math.gcd(divisor(problem.context.extent(index), problem.context), MAX_COLUMNS_PER_THREAD)
    widths = [Width(count, f"the number of columns {along} is only known to be a multiple of {count}")]
    sums = max(len(stage.reductions) for stage in problem.stages)
    widths.append(Width(max(power_of_two(MAX_ACCUMULATORS // sums + 1) // 2, 1), f"each column has {sums} results"))
    for stage in problem.stages:
        wide = (*problem.wide_reads(stage, along), *problem.guarded_reads(stage, along))
        widths += [problem.widest_access(read, along) for read in wide]
        if not problem.wide_reads(stage, along):
            widths.append(Width(1, f"consecutive {along} are not contiguous in memory"))
        elif shifted := problem.shifted_reads(stage, along):
            widths.append(Width(1, f"{shifted[0].array} is read at shifted {along}"))
    return narrowest(widths)


class ColumnKernel(StagedKernel):
    """The kernel of one group: each thread accumulates its rows of its columns, then threads along y reduce."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: ColumnConfig) -> None:
        super().__init__(problem, lowering, (config.threads, config.threads_per_column, config.outer_rows))
        self.config = config
        self.along = problem.column_index

    def kernel_parts(self) -> KernelParts:
        config = self.config
        all_stay = config.threads_per_column > 1
        results = self.define_results(config.threads, self.x, config.width, config.outer_rows, all_stay=all_stay)
        return self.in_stages(*results)

    # A thread's accumulators: a value, or a vector, of its columns

    def new_accumulators(self, stage: Stage) -> tuple[Accumulator, ...]:
        scalars, width = super().new_accumulators(stage), self.config.width
        if self._begins(stage):
            first = IndexLocal(self.y.name, INT64) if self.y.is_Symbol else Const(0, INT64)
            scalars = tuple(a if a.extreme is None else replace(a, first=first) for a in scalars)
        return scalars if width == 1 else tuple(map(self._of_columns, scalars))

    def _begins(self, stage: Stage) -> bool:
        """Whether each thread has a row, without conditions: the positions of extremes begin with the first. Not in
        large blocks, with whose registers nvcc then loads one row after the other (measured on H100)."""
        min_extent, _ = bounds(self.problem.context.extent(stage.fastest), self.lowering.ranges)
        is_certain = min_extent >= self.config.threads_per_column and all(r.where is None for r in stage.reductions)
        return is_certain and self.config.threads * self.config.threads_per_column <= MAX_BEGUN_BLOCK_THREADS

    def _of_columns(self, scalar: Accumulator) -> Accumulator:
        def vector(local: Local) -> Vector:
            name = self.lowering.names.allocate(f"{local.name}{self.config.width}")
            return Vector(name, local.dtype, local.dtype, self.config.width)

        value = vector(scalar.value)
        return replace(scalar, value=value, extreme=None if scalar.extreme is None else vector(scalar.extreme))

    def declare_accumulators(self) -> tuple[Node, ...]:
        if self.config.width == 1:
            return super().declare_accumulators()
        starts = [pair for a in self.accumulators for pair in zip(a.locals, a.identities, strict=True)]
        declared = (Let(local, start if _is_zero(start) else None, mutable=True) for local, start in starts)
        others = [(local, start) for local, start in starts if not _is_zero(start)]
        initialised = self._for_each_column(lambda v: (Assign(component(local, v), start) for local, start in others))
        return (*declared, *(initialised if others else ()))

    def _for_each_column(self, body: Callable[[Integer], Iterable[Node]]) -> tuple[Node, ...]:
        if self.config.width == 1:
            return tuple(body(integer(0)))
        lane = vector_lane(self.config.width, self.lowering)
        return (unrolled(lane, body(lane.symbol)),)

    def stage_scope(self) -> Scope:
        if self.config.width == 1:
            self.remember_results(self.scope)
        return self.scope

    def loops(self, stage: Stage, scope: Scope) -> None:
        """The longest index is distributed over threads along y; the innermost loop is over rows of the columns."""
        index, config = self.next_index(stage), self.config
        is_innermost = index == stage.fastest
        longest = max(reversed(stage.indices), key=self.problem.planned_extent)
        loop = self.with_named_stop(self.loop_range(stage, index, scope, (self.along, config.width)), scope)
        first, step = (loop.start + self.y, config.threads_per_column) if index == longest else (loop.start, 1)
        unroll = config.unroll if is_innermost else 0
        rows = Loop(self.loop_index(loop, first, step), first, loop.stop, step, unroll_by=unroll)
        name = "outer" if not is_innermost else "scalars" if config.width == 1 else "vectors"
        is_certain = bounds(loop.stop - first, self.lowering.ranges)[0] > 0
        with self.loop(name, index, rows, scope, certain=is_certain) as inner:
            if not is_innermost:
                self.loops(loop.stage, inner)
            elif config.width == 1:
                self.accumulate_terms(loop.stage, inner, {})
            else:
                reads = (*self.problem.wide_reads(stage, self.along), *self.problem.guarded_reads(stage, self.along))
                self.accumulate_vector(loop.stage, self.along, config.width, reads, inner)

    def reduce_over_threads(self, *, is_last: bool) -> tuple[Section, ...]:
        """The reduction through shared memory, in a fixed order; after the last stage threads of y > 0 return."""
        lowering, config = self.lowering, self.config
        if config.threads_per_column == 1:
            return ()
        # [columns of a thread][z][y][x], free of bank conflicts.
        sizes = (
            *((config.width,) if config.width > 1 else ()),
            *((config.outer_rows,) if config.outer_rows > 1 else ()),
            config.threads_per_column,
            config.threads,
        )
        partials = SharedPartials(self.accumulators, lambda local: f"{_base_name(local)}_partials", sizes, lowering)
        arrays = partials.arrays
        store_partials = self._for_each_column(
            lambda v: (Store(self._partial(array, v, self.y, "store"), component(local, v)) for local, array in arrays)
        )
        load_first = self._for_each_column(
            lambda v: (
                Assign(component(local, v), Element.of(self._partial(array, v, integer(0), "load")))
                for local, array in arrays
            )
        )
        returns = ReturnUnless(Guard((Comparison(self.y, "==", integer(0)), *self.terms)))
        row = shared_loop_variable("row", (1, config.threads_per_column - 1), lowering)
        merge_partials = self._for_each_column(
            lambda v: (
                node
                for accumulator, (_, of_accumulator) in zip(self.of_lane(v), partials.pairs, strict=True)
                for node in self._merge_partial(accumulator, of_accumulator, v, row.symbol)
            )
        )
        rows = For(Loop(row, integer(1), integer(config.threads_per_column)), (Section("merge", merge_partials),))
        sections = (
            partials.declare(),
            Section("store_partials", store_partials),
            Section("partials_stored", (Barrier(),)),
            Section("first_partial", (returns,) if is_last else load_first),
            Section("other_partials", (rows,)),
        )
        return (SectionGroup("column_reduction", sections),)

    def _partial(self, array: Array, v: Integer, y: Integer, kind: str) -> Access:
        lane = (v,) if self.config.width > 1 else ()
        outer = (self.z,) if self.config.outer_rows > 1 else ()
        return Access(array, (*lane, *outer, y, self.x), kind)

    def _merge_partial(
        self, accumulator: Accumulator, arrays: Sequence[Array], v: Integer, row: Integer
    ) -> Iterator[Node]:
        values: list[Local] = [Element.of(self._partial(array, v, row, "load")) for array in arrays]
        if accumulator.extreme is not None:
            names = (self.lowering.names.allocate(f"other_{_base_name(local)}") for local in accumulator.locals)
            named = [Local(name, value.dtype) for name, value in zip(names, values, strict=True)]
            yield from map(Let, named, values)
            values = named
        yield from merge(accumulator, values)

    def store(self) -> tuple[Node, ...]:
        """The statements with the results; vector stores follow the loop over the thread's columns."""
        lowering, width, scope = self.lowering, self.config.width, self.stage_scope()
        if width == 1:
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        first = lowering.symbols[self.along]
        lane = vector_lane(width, lowering)
        inner = Scope(scope, frozenset((self.along,)))
        column = define_index(self.along, first + lane.symbol, lowering.limits[first], lowering)
        self.remember_results(inner, lane.symbol)
        self._name_positions(inner, lane.symbol)
        lower_statements(self.request, lowering, inner)
        lowering.symbols[self.along] = first
        nodes, gathered = gather_stores(inner.nodes, self.request, lane, lowering, self._fits_vector)
        source = copied_vector(nodes, lane.symbol)

        def store(statement: Statement, vector: Vector) -> Store:
            access = access_of(lowering.arrays[statement.target], statement, lowering.symbols, "store", width)
            return Store(access, source or vector)

        stores = gathered.stores(lowering, store)
        if source is not None:
            return (*scope.nodes, *stores)
        if mentions(nodes, column.index.name):
            nodes.insert(0, column)
        declared = [Let(vector, None, mutable=True) for vector in gathered.vectors]
        return (*scope.nodes, *declared, unrolled(lane, nodes), *stores)

    def _name_positions(self, scope: Scope, lane: Integer) -> None:
        """Names the results of argmax and argmin, since subscripts must be named."""
        for reduction, value in self.results.items():
            if reduction.is_position:
                name_hint = ACCUMULATORS[reduction.kind]
                local = Local(self.lowering.name_for(reduction, name_hint, scope), reduction.dtype)
                scope.nodes.append(Let(local, component(value, lane)))
                scope.remember(reduction, local)

    def _fits_vector(self, statement: Statement, _: Array) -> bool:
        """Whether one access stores the thread's results."""
        target = Read(statement.target, statement.subscripts, statement.value.dtype)
        return self.problem.widest_access(target, self.along).count % self.config.width == 0


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0


def _base_name(local: Local) -> str:
    return local.name.strip("_0123456789")
