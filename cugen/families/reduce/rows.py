"""Reductions along contiguous rows: the threads of a group share each row, with several loads in flight per thread."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.kernel import KernelParts, LoopRange, StagedKernel
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.pieces.block_reduce import WARP, ThreadGroup, group_reduction
from cugen.pieces.loop_variables import repeated_sections, shared_loop_variable, value_of
from cugen.pieces.sections import SectionGroup, append_section
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import MAX_ACCESS_BYTES, Width, is_computed, narrowest, offset_of, to_alignment
from cugen.plan.alignment import divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Define, Guard, If, Index, Loop, Node, ReturnUnless, Section
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, bounds, integer, symbol
from cugen.spec.expressions import Read, conjuncts, uses_indices

MIN_PEELED_ROW_VECTORS = 16  # so that a scalar head and tail cost little; heuristic
MIN_ACCESS_BYTES = 8  # per load; a scalar head allows vectors where alignment allows only narrower loads
MAX_UNROLLED_TRIPS = 4  # of a row loop inside another loop; heuristic
MAX_FIXED_TRIPS = 8  # of straight-line code; heuristic
MAX_UNROLLED_TERMS = 64  # of a vector of packed elements (heuristic)
MAX_EDGE_ELEMENTS = 4  # per thread, before and after the vectors, in straight-line code; heuristic


@dataclass(frozen=True, slots=True)
class RowConfig:
    """`threads` along the row times `outer_threads` along the next slower reduced index share a result.

    `rows` such groups, along the fastest output index, times `outer_rows` along the next one make a block; one of the
    latter where `outer_threads` share a result. A thread has `unroll` loads of `width` elements in flight."""

    threads: int
    outer_threads: int
    rows: int
    width: int
    unroll: int
    outer_rows: int = 1


def row_width(problem: ReductionProblem, stage: Stage) -> Width:
    """The vector width along a row. Vectors may start at any element of the row, after a scalar head, where accesses
    would otherwise be narrower than eight bytes; of the widest elements they have as many as one access moves."""
    along = stage.fastest.name
    reads = problem.wide_reads(stage, along)
    if not reads:
        return Width(1, f"consecutive {along} are not contiguous in memory")
    runs = problem.packed_reads(stage, 1)
    if spread := [read for read in problem.spread_reads(stage, along) if read not in runs]:
        return Width(1, f"consecutive {along} are apart in {spread[0].array}, so that vectors would spread its loads")
    if shifted := problem.shifted_reads(stage, along):
        return Width(1, f"{shifted[0].array} is read at shifted {along}, so that vectors would spread its loads")
    width = narrowest(problem.widest_access(read, along) for read in reads)
    if stage.packed is not None:
        return _packed_width(problem, stage, width)
    main = problem.main_read(stage)
    array = problem.arrays[main.array]
    if any(map(is_computed, main.subscripts)):
        return width
    count = MAX_ACCESS_BYTES // max(problem.arrays[read.array].dtype.bytes for read in reads)
    is_wide = count == width.count or width.count * array.dtype.bytes >= MIN_ACCESS_BYTES or array.space == "texture"
    if is_wide or problem.context.max_extent(stage.fastest) < MIN_PEELED_ROW_VECTORS * count:
        return width
    return Width(count, f"rows of {array.name} are not aligned to {count} elements: a scalar head precedes the vectors")


def _packed_width(problem: ReductionProblem, stage: Stage, width: Width) -> Width:
    """The vector width where a thread unrolls the terms of all elements of a vector, and loads a run for them."""
    count = problem.packed_count(stage)
    width = width.dividing(max(MAX_UNROLLED_TERMS // count, 1), f"{{count}} elements have {MAX_UNROLLED_TERMS} terms")
    for read in problem.packed_reads(stage, 1):
        fitting = max(MAX_ACCESS_BYTES // (count * problem.arrays[read.array].dtype.bytes), 1)
        reason = f"one access moves the elements of {read.array} for {{count}} along {stage.fastest.name}"
        width = width.dividing(fitting, reason)
    return width


def has_scalar_head(problem: ReductionProblem, stage: Stage) -> bool:
    """Whether vectors are wider than the alignment of the rows: they start after a scalar head."""
    along = stage.fastest.name
    widths = [problem.widest_access(read, along).count for read in problem.wide_reads(stage, along)]
    return bool(widths) and row_width(problem, stage).count > min(widths)


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The reads of a row in vectors from its first aligned element on: those that are aligned there, the main one
    first, and those whose aligned vectors are `realigned`. `misalignment`: the offset of the row's start, modulo the
    width. No row has fewer than `min_length` elements."""

    reads: tuple[Read, ...]
    realigned: tuple[Read, ...]
    misalignment: Integer
    width: int
    min_length: int

    @property
    def is_aligned(self) -> bool:
        return self.misalignment.is_zero is True

    @property
    def all_reads(self) -> tuple[Read, ...]:
        return (*self.reads, *self.realigned)

    def count(self, length: Integer) -> Integer:
        """The vectors of so many elements; of a whole row where some are realigned, whose aligned vectors end a vector
        later, or less."""
        count = FloorDiv(length, integer(self.width))
        if not self.realigned:
            return count
        return count - 1 if self.min_length >= self.width else Maximum(count - 1, integer(0))


class RowKernel(StagedKernel):
    """The kernel of one group: each thread accumulates its elements of the row, then the thread group reduces."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, config: RowConfig) -> None:
        shares = config.outer_threads > 1  # threads of two indices share a result: the results are along z
        along_y, along_z = (config.outer_threads, config.rows) if shares else (config.rows, config.outer_rows)
        super().__init__(problem, lowering, (config.threads, along_y, along_z))
        self.config = config
        lane, number = (self.x + self.y * config.threads, self.z) if shares else (self.x, self.y)
        rows = config.rows * config.outer_rows
        self.group = ThreadGroup(config.threads * config.outer_threads, lane, rows, number)
        self.starts: dict[sympy.Symbol, Integer] = {}  # definitions of the named chunk starts

    def kernel_parts(self) -> KernelParts:
        rows, outer_rows = self.config.rows, self.config.outer_rows
        stay = self.group.threads < WARP
        results = self.define_results(rows, self.group.number, outer_groups=outer_rows, all_stay=stay)
        return self.in_stages(*results)

    def name_starts(self) -> tuple[Define, ...]:
        nodes = super().name_starts()
        self.starts = {node.index.symbol: node.index.definition for node in nodes}
        return nodes

    def stage_scope(self) -> Scope:
        self.remember_results(self.scope)
        return self.scope

    def reduce_over_threads(self, *, is_last: bool) -> tuple[Section, ...]:
        return (group_reduction(self.group, self.accumulators, self.lowering, everywhere=not is_last),)

    def store(self) -> tuple[Node, ...]:
        """The statements with the results, for the first thread of each group."""
        lower_statements(self.request, self.lowering, self.stage_scope())
        axes = (self.x, self.config.threads), (self.y, self.config.outer_threads)
        terms = (*self.terms, *(Comparison(axis, "==", integer(0)) for axis, threads in axes if threads > 1))
        returns = (ReturnUnless(Guard(terms)),) if terms else ()
        return (*returns, *self.scope.nodes)

    def loops(self, stage: Stage, scope: Scope) -> None:
        """The last of the slower reduced indices is distributed over threads along y."""
        index, config = self.next_index(stage), self.config
        if index == stage.fastest:
            self._row_loops(stage, scope)
            return
        is_last = index == stage.indices[-2]
        unroll = config.unroll // self._trips(stage) if is_last else 0
        loop = self.loop_range(stage, index, scope)
        is_distributed = is_last and config.outer_threads > 1
        first, step = (loop.start + self.y, config.outer_threads) if is_distributed else (loop.start, 1)
        outer = Loop(self.loop_index(loop, first, step), first, loop.stop, step, unroll_by=unroll)
        with self.loop("outer", index, outer, scope) as inner:
            self.loops(loop.stage, inner)

    def _trips(self, stage: Stage) -> int:
        """The most iterations of a thread along the row."""
        return -(-self.problem.context.max_extent(stage.fastest) // (self.config.threads * self.config.width))

    def _unrolled(self, loop: Loop, stage: Stage) -> Loop:
        """A loop along the row, unrolled for several loads in flight; completely if short and inside another loop."""
        trips = self._trips(stage)
        if len(stage.indices) > 1 and 1 < trips <= MAX_UNROLLED_TRIPS:
            return replace(loop, unroll=True)
        return replace(loop, unroll_by=min(self.config.unroll, trips) if trips > 1 else 0)

    def _row_loops(self, stage: Stage, scope: Scope) -> None:
        """The loops along the row: a scalar head up to the alignment of vectors, the vectors, and a scalar tail."""
        problem, lowering, width, index = self.problem, self.lowering, self.config.width, stage.fastest
        loop = self.loop_range(stage, index, scope)
        reads = problem.vector_reads(stage, width) if width > 1 else []
        if width == 1 or not all(self._is_inside(read, loop) for read in reads):
            self._scalar_loop("scalars", self.with_named_stop(loop, scope), loop.start, scope)
            return
        row_start = {**lowering.symbols, index.name: integer(0)}
        offset = (offset_of(problem.arrays, (reads[0].array, reads[0].subscripts), row_start) + loop.start).expand()
        misalignment = sympy.Add(*(term for term in sympy.Add.make_args(offset) if not self._is_multiple(term)))
        realigned: tuple[Read, ...] = ()
        if misalignment != 0 and loop.start == 0:
            realigned = problem.realigned_reads(loop.stage, width, self.chunk_starts)
        row = _Vectors(tuple(reads), realigned, misalignment, width, bounds(loop.stop, lowering.ranges)[0])
        is_whole = row.is_aligned and self._is_multiple(loop.stop - loop.start)
        if trips := self._fixed_trips(loop, stage, row):
            self._fixed_row(loop, row, trips, scope)
            return
        loop = self.with_named_stop(loop, scope)
        start = loop.start
        if not row.is_aligned:
            start = lowering.define("first", loop.start + to_alignment(misalignment, width), scope)
            self._scalar_loop("head", replace(loop, stop=Minimum(start, loop.stop)), loop.start, scope)
        stop = loop.stop if is_whole else loop.stop - (width - 1)
        if realigned:
            stop = start + row.count(loop.stop) * width
        first, step = start + self.x * width, self.config.threads * width
        name_hint = f"first_{index.name}" if loop.stage.needs_element_index(index.name, row.all_reads) else ""
        vectors = Loop(self.loop_index(loop, first, step, name_hint), first, stop, step)
        before = "bounds" if row.is_aligned else "before_vectors"
        with self.loop("vectors", index, self._unrolled(vectors, stage), scope, before) as inner:
            self.accumulate_vector(loop.stage, index.name, width, reads, inner, realigned, start)
        if not is_whole:
            tail = start + row.count(loop.stop if realigned else loop.stop - start) * width
            if bounds(loop.stop - start, lowering.ranges)[0] < 0:
                tail = Maximum(tail, start)
            self._scalar_loop("tail", loop, tail, scope)

    def _fixed_trips(self, loop: LoopRange, stage: Stage, row: _Vectors) -> tuple[int, int] | None:
        """The iterations along a row of fixed length that all threads have, and that some have. None where it isn't
        fixed, or too long for straight-line code, or has too many elements before and after its vectors, and for
        positions, of which a thread takes the first that it finds."""
        is_alone = len(self.problem.stages) == 1 and len(stage.indices) == 1
        has_position = any(reduction.is_position for reduction in stage.reductions)
        length = self._fixed_length(loop)
        if loop.start != 0 or length is None or not is_alone or has_position:
            return None
        width, threads = self.config.width, self.config.threads
        last_start = 0 if row.is_aligned or row.realigned else width - 1  # of the vectors
        count = int(row.count(integer(length)))
        certain = min(max(length - last_start, 0) // width, count) // threads
        trips = -(-count // threads)
        requested = dict(self.request.schedule.tunables).get("unroll")
        max_trips = max(self.config.unroll, MAX_FIXED_TRIPS) if requested is None else int(requested)
        edges = self._edges_per_thread(length, row)
        if trips > max_trips or edges > MAX_EDGE_ELEMENTS or length < 2 * width:
            return None
        return (0 if certain == 1 < trips else certain), trips

    def _fixed_length(self, loop: LoopRange) -> int | None:
        """The end of a loop, if it is a function of static params alone."""
        context = self.problem.context
        return context.static(loop.stop) if loop.stop.free_symbols <= context.ranges.keys() else None

    def _edges_per_thread(self, length: int, row: _Vectors) -> int:
        """Of a row of fixed length, a thread's elements before and after the vectors."""
        width = self.config.width
        edges = length % width if row.is_aligned else 2 * (width - 1)
        if row.realigned:
            edges = length - width * int(row.count(integer(length)))
        return -(-edges // self.config.threads)

    def _fixed_row(self, loop: LoopRange, row: _Vectors, trips: tuple[int, int], scope: Scope) -> None:
        """A short row of fixed length: no loop ends at another iteration in another thread, so that a compiler turns
        branches into predicates and issues all loads at once. `edges` are the elements around the vectors."""
        lowering, index, (certain, total) = self.lowering, loop.index, trips
        width, threads, length = self.config.width, self.config.threads, loop.stop
        start = integer(0)
        if not row.is_aligned:
            start = lowering.define("first", to_alignment(row.misalignment, width), scope)
        groups: list[Section] = []
        if count := self._edges_per_thread(self._fixed_length(loop) or 0, row):
            number = shared_loop_variable("e", (0, count - 1), lowering)
            nth = self.x + value_of(number) * threads
            nth_after = nth + row.count(length if row.realigned else length - start) * width
            edge = self._element(loop, nth_after if row.is_aligned else Choice(nth, start, nth, nth_after), "edge")
            inner = Scope(scope, frozenset((index.name,)), certain=False)
            self.accumulate_terms(loop.stage, inner, {})
            groups.append(self._guarded_group("edges", edge, 1, length, inner, number))
        name_hint = f"first_{index.name}" if loop.stage.needs_element_index(index.name, row.all_reads) else index.name
        first, step = start + self.x * width, threads * width
        if certain:
            number = shared_loop_variable("u", (0, certain - 1), lowering, "vectors")
            inner = Scope(scope, frozenset((index.name,)))
            inner.nodes.append(Define(self._element(loop, first + value_of(number) * step, name_hint)))
            self.accumulate_vector(loop.stage, index.name, width, row.reads, inner, row.realigned, start)
            sections = tuple(node for node in inner.nodes if isinstance(node, Section))
            groups.append(SectionGroup("all_inside", repeated_sections("loop", number, sections)))
        if total > certain:
            number = shared_loop_variable("u", (certain, total - 1), lowering, "last vectors")
            vector = self._element(loop, first + value_of(number) * step, f"last_{index.name}")
            inner = Scope(scope, frozenset((index.name,)), certain=False)
            self.accumulate_vector(loop.stage, index.name, width, row.reads, inner, row.realigned, start)
            last = start + row.count(length) * width if row.realigned else length
            groups.append(self._guarded_group("some_inside", vector, width, last, inner, number))
        del lowering.symbols[index.name]
        append_section(scope, "bounds")
        scope.nodes.append(SectionGroup("fixed_row", tuple(groups)))

    def _element(self, loop: LoopRange, definition: Integer, name_hint: str) -> Index:
        """An element of a row of fixed length, which may be past its end until a guard holds."""
        last = max(bounds(definition, self.lowering.ranges)[1], 0)
        return replace(self.loop_index(loop, definition, 0, name_hint), range=(0, last))

    def _guarded_group(
        self, name: str, element: Index, width: int, length: Integer, scope: Scope, number: Index
    ) -> SectionGroup:
        """The code of `scope` for all values of `number`, where `width` elements are in the row."""
        sections = tuple(node for node in scope.nodes if isinstance(node, Section))
        inside = Guard((Comparison(element.symbol + (width - 1), "<", length),))
        branch = Section("index", (Define(element),)), Section("inside", (If(inside, sections),))
        return SectionGroup(name, repeated_sections("loop", number, branch))

    def _is_multiple(self, expr: Integer) -> bool:
        """Whether it is known to be a multiple of the vector width."""
        return divisor(expr.xreplace(self.starts).expand(), self.request.context) % self.config.width == 0

    def _is_inside(self, read: Read, loop: LoopRange) -> bool:
        """Whether the range of the loop keeps a read in bounds, and none of the conditions that are left."""
        if not any(uses_indices(part) for reduction in loop.stage.reductions for part in conjuncts(reduction.where)):
            return True
        along, lowering = loop.index.name, self.lowering
        element = symbol(f"{along} of the row")
        ranges = {**lowering.ranges, element: (0, max(self.problem.context.max_extent(loop.index) - 1, 0))}
        symbols = {**lowering.symbols, along: element}
        extents = zip(read.subscripts, self.problem.arrays[read.array].shape, strict=True)
        known = [(to_integer(sub, symbols), extent) for sub, extent in extents if not is_computed(sub)]
        subscripts, shape = zip(*known, strict=True)
        return not replace(lowering, ranges=ranges).inside(subscripts, shape).terms

    def _scalar_loop(self, name: str, loop: LoopRange, start: Integer, scope: Scope) -> None:
        """A loop over single elements, unrolled unless it is a head or tail."""
        first, step, is_whole_row = start + self.x, self.config.threads, name == "scalars"
        node = Loop(self.loop_index(loop, first, step, "" if is_whole_row else name), first, loop.stop, step)
        if is_whole_row:
            node = self._unrolled(node, loop.stage)
        certain = bounds(loop.stop - first, self.lowering.ranges)[0] >= 1
        before = "before_tail" if name == "tail" else "bounds"
        with self.loop(name, loop.index, node, scope, before, certain=certain) as inner:
            runs = self.load_runs(loop.stage, 1, inner) if is_whole_row else {}
            self.accumulate_terms(loop.stage, inner, runs)
