"""Reductions along contiguous rows: the threads of a group share each row, with several loads in flight per thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.accumulate import (
    ConsecutiveElements,
    LoopRange,
    accumulate_element,
    accumulate_vector,
    invariant_reads,
    loop_range_of,
    main_read,
    needs_element_index,
    results_of,
    row_offset,
    vector_reads,
    wide_reads,
    widest_access,
    with_named_starts,
    with_named_stop,
)
from cugen.families.reduce.recognition import ReductionProblem, Stage
from cugen.pieces.block_reduce import WARP, Accumulator, ThreadGroup, declare_accumulator, group_reduction
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.sections import SectionGroup, append_loop, append_section
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import MAX_ACCESS_BYTES, Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Vector
from cugen.plan.nodes import Comparison, For, Guard, If, Index, Loop, Node, ReturnUnless, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Maximum, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, Local, Op, Read, Reduce, walk

Parts = tuple[tuple[str, tuple[Node, ...]], ...]

MIN_PEELED_ROW_ELEMENTS = 256  # so that a scalar head and tail cost little; heuristic
MIN_ACCESS_BYTES = 4  # per load; a scalar head allows vectors where alignment allows only narrower loads
MAX_UNROLLED_TRIPS = 4  # of a row loop inside another loop; heuristic


@dataclass(frozen=True, slots=True)
class RowConfig:
    """`threads` along the row times `outer_threads` along the next slower reduced index share a result.

    `rows` such groups make a block. A thread has `unroll` loads of `width` elements in flight."""

    threads: int
    outer_threads: int
    rows: int
    width: int
    unroll: int


@dataclass(frozen=True, slots=True)
class KernelParts:
    """The named node lists of a kernel, with its launch."""

    parts: Parts
    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]


def row_width(problem: ReductionProblem, stage: Stage) -> Width:
    """The vector width along a row. Vectors may start at any element of the row, after a scalar head, where accesses
    would otherwise be narrower than four bytes."""
    along = stage.fastest.name
    reads = wide_reads(problem, stage, along)
    if not reads:
        return Width(1, f"consecutive {along} are not contiguous in memory")
    width = min((widest_access(problem, read, along) for read in reads), key=lambda width: width.count)
    main = main_read(problem, stage)
    array = problem.arrays[main.array]
    if any(isinstance(node, Read) for sub in main.subscripts for node in walk(sub)):
        return width
    is_wide = width.count * array.dtype.bytes >= MIN_ACCESS_BYTES or array.space == "readonly"
    if is_wide or problem.max_extent(stage.fastest) < MIN_PEELED_ROW_ELEMENTS:
        return width
    count = MAX_ACCESS_BYTES // array.dtype.bytes
    return Width(count, f"rows of {array.name} are not aligned to {count} elements: a scalar head precedes the vectors")


def build_rows(problem: ReductionProblem, lowering: Lowering, config: RowConfig) -> KernelParts:
    return _RowKernel(problem, lowering, config).kernel_parts()


class _RowKernel:
    """The kernel of one group: each thread accumulates its elements of the row, then the thread group reduces."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: RowConfig) -> None:
        self.request: Request = problem.request
        self.problem, self.lowering, self.config = problem, lowering, config
        self.x = thread("x", config.threads, lowering)
        self.y = thread("y", config.outer_threads * config.rows, lowering)
        lane = self.x + self.y * config.threads if config.outer_threads > 1 else self.x
        number = self.y if config.outer_threads == 1 else integer(0)
        self.group = ThreadGroup(config.threads * config.outer_threads, lane, config.rows, number)
        self.starts: dict[sympy.Symbol, Integer] = {}  # definitions of the named chunk starts
        self.vectors: dict[Read, Vector] = {}
        self.row_terms: tuple[Comparison, ...] = ()  # fail for thread groups without a row

    def kernel_parts(self) -> KernelParts:
        lowering, config = self.lowering, self.config
        counts = [self.problem.extent(index) for index in self.problem.output_indices]
        blocks = make_grid(
            [ceil_div(count, config.rows if axis == 0 else 1) for axis, count in enumerate(counts)],
            lowering,
            self.request.target,
        )
        indices: list[Node] = []
        axes = zip(self.problem.output_indices, counts, blocks.coordinates, strict=False)
        for axis, (row, extent, coordinate) in enumerate(axes):
            rows = config.rows if axis == 0 else 1
            row_in_block = self.group.number if axis == 0 else integer(0)
            node = define(row.name, coordinate * rows + row_in_block, lowering, below=ceil_div(extent, rows) * rows)
            lowering.symbols[row.name] = node.index.symbol
            if not divides(rows, extent, self.request.context):
                self.row_terms = (Comparison(node.index.symbol, "<", extent),)
            limit(node.index, extent, lowering)
            indices.insert(0, node)
        if self.row_terms and self.group.threads >= WARP:
            indices.append(ReturnUnless(Guard(self.row_terms)))
            self.row_terms = ()
        self.problem, starts = with_named_starts(self.problem, lowering)
        self.starts = {node.index.symbol: node.index.definition for node in starts}
        self.request = self.problem.request
        indices += starts
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        scope = Scope()
        stages: list[Node] = []
        for position, stage in enumerate(self.problem.stages):
            is_last = position == len(self.problem.stages) - 1
            accumulators = tuple(new_accumulator(self.problem, r, lowering) for r in stage.reductions)
            loops = self._thread_loops(stage, accumulators, scope)
            reduction = group_reduction(self.group, accumulators, lowering, everywhere=not is_last)
            stages.append(SectionGroup("stage", (*loops, reduction)))
            for reduced, value in results_of(stage, accumulators).items():
                scope.remember(reduced, value)
        lower_statements(self.request, lowering, scope)
        is_first_thread = [*self.row_terms]
        if config.threads > 1:
            is_first_thread.append(Comparison(self.x, "==", integer(0)))
        if config.outer_threads > 1:
            is_first_thread.append(Comparison(self.y, "==", integer(0)))
        returns = (ReturnUnless(Guard(tuple(is_first_thread))),) if is_first_thread else ()
        parts = (("indices", tuple(indices)), ("stages", tuple(stages)), ("results", (*returns, *scope.nodes)))
        block = (config.threads, config.outer_threads * config.rows, 1)
        return KernelParts(parts, blocks.grid, block)

    # The loops of a thread

    def _thread_loops(self, stage: Stage, accumulators: Sequence[Accumulator], scope: Scope) -> tuple[Section, ...]:
        """The initialised accumulators, the invariant reads, and the loops over the thread's elements."""
        inner = Scope(scope, certain=False) if self.row_terms else scope
        for read in invariant_reads(stage, ""):
            self.lowering.lower(read, inner)
        self._outer_loops(stage, tuple(accumulators), (), inner)
        loops = guarded_loops(self.row_terms, tuple(inner.nodes))
        scope.nodes.clear()
        return (Section("accumulators", tuple(node for a in accumulators for node in declare_accumulator(a))), loops)

    def _outer_loops(
        self, stage: Stage, accumulators: tuple[Accumulator, ...], implied: tuple[Expr, ...], scope: Scope
    ) -> None:
        """The loops over the slower reduced indices, the last of which is distributed over threads along y."""
        lowering = self.lowering
        index = next(index for index in stage.indices if index.name not in lowering.symbols)
        if index == stage.fastest:
            self._row_loops(stage, accumulators, implied, scope)
            return
        is_distributed = index == stage.indices[-2] and self.config.outer_threads > 1
        loop = loop_range_of(self.problem, stage, accumulators, index, lowering)
        first, step = (loop.start + self.y, self.config.outer_threads) if is_distributed else (loop.start, 1)
        variable = loop_index(self.problem, lowering, index, first, loop.stop, step)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        self._outer_loops(stage, accumulators, (*implied, *loop.upper, *loop.lower), inner)
        unroll = self.config.unroll // self._trips(stage) if index == stage.indices[-2] else 0
        outer = Loop(variable, first, loop.stop, step, unroll_by=unroll)
        append_loop(scope, "bounds", "outer", For(outer, tuple(inner.nodes)))
        del lowering.symbols[index.name]

    def _trips(self, stage: Stage) -> int:
        """The most iterations of a thread along the row."""
        return -(-self.problem.max_extent(stage.fastest) // (self.config.threads * self.config.width))

    def _loop(self, stage: Stage, variable: Index, first: Integer, stop: Integer, step: int) -> Loop:
        """A loop along the row, unrolled for several loads in flight; completely if short and inside another loop."""
        trips = self._trips(stage)
        if len(stage.indices) > 1 and 1 < trips <= MAX_UNROLLED_TRIPS:
            return Loop(variable, first, stop, step, unroll=True)
        return Loop(variable, first, stop, step, unroll_by=min(self.config.unroll, trips) if trips > 1 else 0)

    def _row_loops(
        self, stage: Stage, accumulators: tuple[Accumulator, ...], implied: tuple[Expr, ...], scope: Scope
    ) -> None:
        """The loops along the row: a scalar head up to the alignment of vectors, the vectors, and a scalar tail."""
        problem, lowering, width = self.problem, self.lowering, self.config.width
        index = stage.fastest
        loop = loop_range_of(problem, stage, accumulators, index, lowering)
        implied += (*loop.upper, *loop.lower)
        reads = vector_reads(problem, stage, width) if width > 1 else ()
        if not reads:
            self._scalar_loop(with_named_stop(problem, loop, lowering, scope), loop.start, implied, scope)
            return
        offset = (row_offset(problem, reads[0], lowering.symbols, index.name) + loop.start).expand()
        misalignment = sympy.Add(*(term for term in sympy.Add.make_args(offset) if not self._is_multiple(term)))
        is_aligned = misalignment == 0
        is_whole = is_aligned and self._is_multiple(loop.stop - loop.start)
        loop = with_named_stop(problem, loop, lowering, scope)
        start = loop.start
        if not is_aligned:
            head = Mod(width - Mod(misalignment, integer(width)), integer(width))
            start = lowering.define("first", loop.start + head, scope)
            head_range = replace(loop, stop=Minimum(start, loop.stop))
            self._scalar_loop(head_range, loop.start, implied, scope, name_hint="head")
        stop = loop.stop if is_whole else loop.stop - (width - 1)
        first, step = start + self.x * width, self.config.threads * width
        has_element_index = needs_element_index(stage, index.name, reads, implied)
        name_hint = f"first_{index.name}" if has_element_index else ""
        variable = loop_index(problem, lowering, index, first, loop.stop, step, name_hint)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        elements = ConsecutiveElements(index.name, width, reads, self.vectors)
        accumulate_vector(loop, elements, lowering, inner, implied, lambda _, __: accumulators)
        vectors = For(self._loop(stage, variable, first, stop, step), tuple(inner.nodes))
        append_loop(scope, "bounds" if is_aligned else "before_vectors", "vectors", vectors)
        del lowering.symbols[index.name]
        if not is_whole:
            tail = start + FloorDiv(loop.stop - start, integer(width)) * width
            if bounds(loop.stop - start, lowering.ranges)[0] < 0:
                tail = Maximum(tail, start)
            self._scalar_loop(loop, tail, implied, scope, name_hint="tail")

    def _is_multiple(self, expr: Integer) -> bool:
        """Whether it is known to be a multiple of the vector width."""
        return divisor(expr.xreplace(self.starts).expand(), self.request.context) % self.config.width == 0

    def _scalar_loop(
        self, loop: LoopRange, start: Integer, implied: tuple[Expr, ...], scope: Scope, *, name_hint: str = ""
    ) -> None:
        """A loop over single elements; a head or tail, which have a `name_hint`, is not unrolled."""
        lowering, threads, index = self.lowering, self.config.threads, loop.stage.fastest
        first = start + self.x
        variable = loop_index(self.problem, lowering, index, first, loop.stop, threads, name_hint)
        min_trips = bounds(loop.stop - first, lowering.ranges)[0]
        inner = Scope(scope, frozenset((index.name,)), certain=min_trips >= 1)
        accumulate_element(loop, lowering, inner, implied)
        node = self._loop(loop.stage, variable, first, loop.stop, threads)
        if name_hint:
            node = Loop(variable, first, loop.stop, threads)
        append_section(inner, "accumulate")
        before = "before_tail" if name_hint == "tail" else "bounds"
        append_loop(scope, before, name_hint or "scalars", For(node, tuple(inner.nodes)))
        del lowering.symbols[index.name]


def guarded_loops(terms: tuple[Comparison, ...], loops: tuple[Node, ...]) -> Section:
    """The loops of a stage, in a branch of the threads for which the terms hold where there are any."""
    return Section("guard", (If(Guard(terms), loops),)) if terms else SectionGroup("loops", loops)


def loop_index(
    problem: ReductionProblem,
    lowering: Lowering,
    index: spec.Index,
    first: Integer,
    stop: Integer,
    step: int,
    name_hint: str = "",
) -> Index:
    """A loop variable, of 64 bits where the increment past the end could overflow 32; successive loops share names."""
    high = bounds(stop, lowering.ranges)[1]
    last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
    variable = replace(shared_loop_variable(name_hint or index.name, (0, last), lowering), definition=first)
    lowering.limits[variable.symbol] = problem.extent(index)
    lowering.symbols[index.name] = variable.symbol
    return variable


def new_accumulator(problem: ReductionProblem, reduction: Reduce, lowering: Lowering) -> Accumulator:
    """An accumulator with a name that says what it accumulates."""
    value = Local(lowering.names.allocate(_name_hints(problem)[reduction]), reduction.dtype)
    if reduction.kind not in ("argmax", "argmin"):
        return Accumulator(reduction.kind, value)
    name = "largest" if reduction.kind == "argmax" else "smallest"
    return Accumulator(reduction.kind, value, Local(lowering.names.allocate(name), reduction.body.dtype))


def _name_hints(problem: ReductionProblem) -> dict[Reduce, str]:
    """Names of the reductions: by their kind, and for several of a kind by what they read or where it is stored."""
    hints: dict[Reduce, str] = {}
    for stage in problem.stages:
        for reduction in stage.reductions:
            kind = ACCUMULATORS[reduction.kind]
            detailed = ["sum_of_squares"] if reduction.kind == "sum" and _is_square(reduction.body) else []
            detailed += [f"{kind}_of_{read.array.lower()}" for read in stage.reads if read in walk(reduction)]
            targets = [s.target.lower() for s in problem.request.group.statements if reduction in walk(s.value)]
            candidates = [kind, *detailed, *(f"{kind}_for_{target}" for target in targets)]
            hints[reduction] = next((c for c in candidates if c not in hints.values()), kind)
    return hints


def _is_square(body: Expr) -> bool:
    match body:
        case Op(name="mul", args=(first, second)):
            return first == second
        case Op(name="pow", args=(_, Const(value=2))):
            return True
    return False
