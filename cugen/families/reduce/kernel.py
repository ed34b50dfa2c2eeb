"""The base of the reduction kernels: result indices, loop ranges, loads (vectors where contiguous), accumulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeVar

import sympy

from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.pieces.block_reduce import Accumulator, declare_accumulator, new_accumulator
from cugen.pieces.blocks import define, define_index, define_indices, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import index_loop_variable, shared_loop_variable, unrolled
from cugen.pieces.sections import SectionGroup, append_loop, append_section
from cugen.pieces.vector_body import load_inside, load_vectors, vector_of
from cugen.pieces.vectors import is_computed, load_shifted, offset_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript
from cugen.plan.lowering.reductions import ACCUMULATORS, accumulate, loaded_bound, loop_bound, lower_condition
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Let, Loop, Node, ReturnUnless, Section
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import INT32_MAX, Integer, Maximum, Minimum, bounds, ceil_div, integer, slope, symbol
from cugen.plan.traversal.ragged import is_of_key
from cugen.rewrite.fresh_names import constants_of
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Local, Op, Read, Reduce, free_indices, walk
from cugen.spec.rewriting import replaced


@dataclass(frozen=True, slots=True)
class LoopRange:
    """The range of one index outside of which the reductions' common conditions fail; `stage` has the other ones."""

    index: spec.Index
    stage: Stage
    start: Integer
    stop: Integer


ExprT = TypeVar("ExprT", Read, Reduce, Expr)
Grid = tuple[Integer, Integer, Integer]
KernelParts = tuple[tuple[Section, ...], Grid, tuple[int, int, int]]  # the sections, the grid and the block


class ReductionKernel:
    """The kernel of one group, under construction: the indices of a thread's results, and their accumulators."""

    def __init__(self, problem: ReductionProblem, lowering: Lowering, block: tuple[int, int, int]) -> None:
        self.problem, self.lowering, self.block = problem, lowering, block
        self.x, self.y, self.z = (thread(axis, size, lowering) for axis, size in zip("xyz", block, strict=True))
        self.terms: tuple[Comparison, ...] = ()  # fail for threads without a result
        self.accumulators: tuple[Accumulator, ...] = ()  # of the current stage
        self.results: dict[Reduce, Local] = {}  # of the stages so far
        self.vectors: dict[Read, Vector] = {}  # of loads, shared by successive loops
        self.chunk_starts: dict[str, Integer] = {}  # by the names of the indices that stand for them
        self.scope = Scope()  # of all stages and of the statements: what one of them names, the next ones use

    @property
    def request(self) -> Request:
        return self.problem.request

    def define_results(
        self, groups: int, number: Integer, per_group: int = 1, outer_groups: int = 1, *, all_stay: bool
    ) -> tuple[tuple[Node, ...], Grid]:
        """The indices of a thread's first result, and the grid: of `groups` in a block the thread is in the group
        `number`, which has `per_group` consecutive results; `outer_groups` are along the next index. Groups past the
        last return, unless `all_stay`."""
        lowering, indices = self.lowering, self.problem.output_indices
        extents, per_block = list(map(self.problem.context.extent, indices)), (groups * per_group, outer_groups)
        counts = [ceil_div(extent, size) for extent, size in zip(extents[:2], per_block, strict=False)]
        blocks = make_grid([*counts, *extents[2:]], lowering, self.request.target)
        nodes = define_indices(indices[2:], extents[2:], blocks.coordinates[2 : len(extents)], lowering)
        if not indices:
            return (), blocks.grid
        first, *outer = blocks.coordinates[: len(counts)]
        outer_number = self.z if outer_groups > 1 else integer(0)
        values = [(first * groups + number) * per_group, *(block * outer_groups + outer_number for block in outer)]
        terms: list[Comparison] = []
        for axis in reversed(range(len(counts))):
            name, extent, size = indices[axis].name, extents[axis], per_block[axis]
            name_hint = f"first_{name}" if axis == 0 and per_group > 1 else name
            below = counts[axis] * size
            node = define_index(name, values[axis], extent, lowering, below=below, name_hint=name_hint)
            nodes.append(node)
            if not divides(size, extent, self.request.context):
                terms.append(Comparison(node.index.symbol, "<", extent))
        if all_stay:
            self.terms = tuple(terms)
        elif terms:
            nodes.append(ReturnUnless(Guard(tuple(terms))))
        return tuple(nodes), blocks.grid

    def new_accumulators(self, stage: Stage) -> tuple[Accumulator, ...]:
        """Accumulators with names that say what they accumulate."""
        lowering, hints = self.lowering, _name_hints(self.problem)
        return tuple(new_accumulator(lowering.names.allocate(hints[r]), r, lowering) for r in stage.reductions)

    def declare_accumulators(self) -> tuple[Node, ...]:
        """The accumulators of the stage, initialised with their identities."""
        return tuple(node for accumulator in self.accumulators for node in declare_accumulator(accumulator))

    def remember_results(self, scope: Scope, lane: Integer = sympy.S.Zero) -> None:
        """Defines the results of earlier stages, those of element `lane` where a thread has a vector of them."""
        for reduction, value in self.results.items():
            scope.remember(reduction, component(value, lane))

    def of_lane(self, lane: Integer) -> tuple[Accumulator, ...]:
        """The accumulators of element `lane`, where a thread has a vector of them."""
        return tuple(
            replace(
                a,
                value=component(a.value, lane),
                extreme=None if a.extreme is None else component(a.extreme, lane),
            )
            for a in self.accumulators
        )

    def accumulate_element(self, stage: Stage, scope: Scope, lane: Integer = sympy.S.Zero) -> None:
        """Updates the accumulators by the element of the current indices: the section `accumulate`."""
        self.remember_results(scope, lane)
        for reduction, accumulator in zip(stage.reductions, self.of_lane(lane), strict=True):
            begun = accumulator.first is not None
            accumulate(self.lowering, reduction, accumulator.value, scope, accumulator.extreme, begun=begun)
        append_section(scope, "accumulate")

    def accumulate_terms(
        self, stage: Stage, scope: Scope, runs: Mapping[Read, Callable[[Integer], Expr]], lane: Integer = sympy.S.Zero
    ) -> None:
        """As `accumulate_element`, for all values of the stage's packed index in an unrolled loop, the section `terms`.
        `runs` has the elements of what is loaded for several elements, by their numbers."""
        if stage.packed is None:
            self.accumulate_element(stage, scope, lane)
            return
        lowering, name, count = self.lowering, stage.packed.name, self.problem.packed_count(stage)
        variable = index_loop_variable(name, (0, count - 1), lowering)
        lowering.symbols[name] = variable.symbol
        inner = Scope(scope, frozenset((name,)))
        for read, element in runs.items():
            number = lane * count + variable.symbol
            inner.remember(read, self.named_element(read, element(number), stage, inner))
        self.accumulate_element(stage, inner, lane)
        del lowering.symbols[name]
        append_loop(scope, "before_terms", "terms", unrolled(variable, inner.nodes))

    def load_runs(self, stage: Stage, width: int, scope: Scope) -> dict[Read, Callable[[Integer], Expr]]:
        """Loads what `width` elements along the fastest index share with their packed index, from the current one on;
        gives each element of a run by its number."""
        problem, lowering = self.problem, self.lowering
        elements: dict[Read, Callable[[Integer], Expr]] = {}
        for read in problem.packed_reads(stage, width, self.chunk_starts):
            array, length = lowering.arrays[read.array], problem.packed_count(stage) * width
            per_access = problem.run_width(read, length)
            if per_access == 1:
                continue
            last = sympy.Add(*((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)))
            flat = array.flattened((last + 1).expand())
            symbols = {**lowering.symbols, **({} if stage.packed is None else {stage.packed.name: integer(0)})}
            first = offset_of(lowering.arrays, (read.array, read.subscripts), symbols)

            def access(
                number: Integer, flat: Array = flat, first: Integer = first, width: int = per_access, read: Read = read
            ) -> Access:
                return Access(flat, ((first + number * width).expand(),), "load", width, span=read.span)

            if read not in self.vectors:
                vector = vector_of(array, read.array, per_access, lowering, length // per_access)
                self.vectors[read] = vector
            elements[read] = load_vectors(self.vectors[read], access, lowering, scope)
        return elements

    def named_element(self, read: Read, element: Expr, stage: Stage, scope: Scope) -> Expr:
        """The element of a vector, as a named local where the stage reads it more than once or gathers by it."""
        nodes = [node for reduction in stage.reductions for node in walk(reduction)]
        subscripts = (sub for node in nodes if isinstance(node, Read) for sub in node.subscripts)
        if nodes.count(read) == 1 and not any(read in walk(sub) for sub in subscripts):
            return element
        local = Local(self.lowering.name_for(read, self.lowering.read_names[read], scope), read.dtype)
        scope.nodes.append(Let(local, element))
        return local


class StagedKernel(ReductionKernel, ABC):
    """A kernel in stages: a thread accumulates its elements, in loops over the reduced indices, then the threads that
    share a result reduce their accumulators."""

    def in_stages(self, indices: tuple[Node, ...], grid: Grid) -> KernelParts:
        """The kernel of the problem's stages, after the indices of a thread's results."""
        indices += self.name_starts()
        stages: list[Node] = []
        for position, stage in enumerate(self.problem.stages):
            self.accumulators = self.new_accumulators(stage)
            loops = self._guarded_loops(stage, self.stage_scope())
            accumulators = Section("accumulators", self.declare_accumulators())
            reduction = self.reduce_over_threads(is_last=position == len(self.problem.stages) - 1)
            stages.append(SectionGroup("stage", (accumulators, loops, *reduction)))
            self.results |= stage.results(self.accumulators)
        sections = Section("indices", indices), Section("stages", tuple(stages)), Section("results", self.store())
        return sections, grid, self.block

    # What differs between rows and columns

    def stage_scope(self) -> Scope:
        """The scope of a stage's loops, where loop-invariant reads are hoisted."""
        return self.scope

    @abstractmethod
    def loops(self, stage: Stage, scope: Scope) -> None:
        """Appends the loops over the reduced indices that have no loop yet, slowest first."""

    @abstractmethod
    def reduce_over_threads(self, *, is_last: bool) -> tuple[Section, ...]:
        """The reduction over the threads that share a result; all of them need it unless the stage is the last."""

    @abstractmethod
    def store(self) -> tuple[Node, ...]:
        """The statements with the results."""

    def name_starts(self) -> tuple[Define, ...]:
        """Names the start of each chunk, `start` for `part * chunk`, and prepares the lowering of the statements."""
        problem, lowering = self.problem, self.lowering
        starts: dict[Expr, Expr] = {}
        nodes: list[Define] = []
        for sub in (sub for stage in problem.stages for read in stage.reads for sub in read.subscripts):
            match sub:
                case Op(name="add", args=(Op(name="mul") as first, IndexValue())) if first not in starts:
                    node = define("start", to_integer(first, lowering.symbols), lowering)
                    name = f"{node.index.name} of a chunk"  # no index of a spec has such a name
                    lowering.symbols[name] = node.index.symbol
                    self.chunk_starts[name] = node.index.definition
                    starts[first] = IndexValue(name)
                    nodes.append(node)

        def named(expr: ExprT) -> ExprT:
            result = replaced(expr, starts.get)
            assert isinstance(result, type(expr))
            return result

        if starts:
            stages = tuple(
                Stage(
                    stage.indices,
                    tuple(map(named, stage.reductions)),
                    tuple(map(named, stage.reads)),
                    tuple((named(extreme), named(arg)) for extreme, arg in stage.extremes),
                    stage.packed,
                )
                for stage in problem.stages
            )
            statements = tuple(replace(s, value=named(s.value)) for s in self.request.group.statements)
            self.problem = replace(problem, request=self.request.with_statements(statements), stages=stages)
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        return tuple(nodes)

    def _guarded_loops(self, stage: Stage, scope: Scope) -> Section:
        """The invariant reads, and the loops over the thread's elements, in a branch of the threads with a result."""
        inner = Scope(scope, certain=False) if self.terms else scope
        for read in stage.invariant_reads(self.problem.column_index):
            self.lowering.lower(read, inner)
        self.loops(stage, inner)
        loops = tuple(inner.nodes)
        scope.nodes.clear()
        return Section("guard", (If(Guard(self.terms), loops),)) if self.terms else SectionGroup("loops", loops)

    def next_index(self, stage: Stage) -> spec.Index:
        """The slowest reduced index without a loop."""
        return next(index for index in stage.indices if index.name not in self.lowering.symbols)

    def loop_range(self, stage: Stage, index: spec.Index, scope: Scope, vector: tuple[str, int] = ("", 1)) -> LoopRange:
        """The range of `index` by the conditions on indices, and on elements that are loaded in `scope`; outer indices
        are defined in the lowering.

        `vector` is an index with its count of consecutive values: the range is then their union, and their conditions
        remain to be tested."""
        lowering, loop_symbol, (vector_index, count) = self.lowering, symbol(f"{index.name} of the loop"), vector
        bounded = replace(lowering, symbols={**lowering.symbols, index.name: loop_symbol})
        start: Integer = integer(0)
        stop = self.problem.context.extent(index)
        implied: list[Expr] = []
        undefined = {i.name for i in stage.all_indices} - lowering.symbols.keys() - {index.name}
        for condition in stage.common_conditions():
            if free_indices(condition) & undefined or index.name not in free_indices(condition):
                continue
            is_of_vector = count > 1 and vector_index in free_indices(condition)
            bound = loop_bound(bounded, condition, loop_symbol)
            if bound is None and not is_of_vector:
                extent = self.problem.context.extent(index)
                bound = loaded_bound(bounded, condition, loop_symbol, extent, scope, self.problem.evaluated())
            if bound is None:
                continue
            limit, is_last = bound.right, bound.operator == "<"
            if is_of_vector:
                first = lowering.symbols[vector_index]
                growth = slope(limit, first)
                if growth is None:
                    continue
                if (growth > 0) == is_last:
                    limit = limit.subs(first, first + count - 1).expand()
            else:
                implied.append(condition)
            if is_last:
                stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
            else:
                start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
        return LoopRange(index, stage.without_conditions(implied), start, stop)

    def with_named_stop(self, loop: LoopRange, scope: Scope) -> LoopRange:
        """The range with a named `stop`, unless that is a function of params alone."""
        if loop.stop.is_Symbol or loop.stop.free_symbols <= self.problem.context.ranges.keys():
            return loop
        return replace(loop, stop=self.lowering.define("stop", loop.stop, scope))

    def loop_index(self, loop: LoopRange, first: Integer, step: int, name_hint: str = "") -> Index:
        """A loop variable, of 64 bits where the last increment could overflow 32; successive loops share names."""
        lowering = self.lowering
        high = bounds(loop.stop, lowering.ranges)[1]
        last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
        variable = index_loop_variable(loop.index.name, (0, last), lowering, name_hint)
        variable = replace(variable, definition=first)
        lowering.limits[variable.symbol] = self.problem.context.extent(loop.index)
        lowering.symbols[loop.index.name] = variable.symbol
        return variable

    @contextmanager
    def loop(
        self, name: str, index: spec.Index, loop: Loop, scope: Scope, before: str = "bounds", *, certain: bool = False
    ) -> Iterator[Scope]:
        """Appends a loop over an index as the section `name`; gives the scope of its body."""
        inner = Scope(scope, frozenset((index.name,)), certain=certain)
        yield inner
        append_loop(scope, before, name, For(loop, tuple(inner.nodes)))
        del self.lowering.symbols[index.name]

    def accumulate_vector(
        self,
        stage: Stage,
        along: str,
        width: int,
        reads: Sequence[Read],
        scope: Scope,
        realigned: Sequence[Read] = (),
        head: Integer = sympy.S.Zero,
    ) -> None:
        """Loads `width` elements of each read from `along` on, accumulates them in order: `load` and `elements`; where
        conditions choose rows, only of those. The vectors of `realigned` reads are aligned `head` elements before."""
        has_gather = any(map(is_computed, (sub for read in reads for sub in read.subscripts)))
        # In their order: one may be what keeps the elements of the next in bounds.
        chosen = tuple(takewhile(lambda c: along not in free_indices(c), stage.common_conditions()))
        if chosen and (has_gather or any(map(is_of_key, chosen))):
            inner = Scope(scope, certain=False)
            condition = lower_condition(self.lowering, chosen[0], scope)
            self.accumulate_vector(stage.without_conditions(chosen[:1]), along, width, reads, inner)
            append_section(scope, "condition")
            if condition is None:
                scope.nodes += inner.nodes
            else:
                scope.nodes.append(Section("if_chosen", (If(condition, tuple(inner.nodes)),)))
            return
        lowering = self.lowering
        first = lowering.symbols[along]
        lane = vector_lane(width, lowering)
        inner = Scope(scope, frozenset((along,)))
        for read in reads:
            if read not in self.vectors:
                self.vectors[read] = vector_of(lowering.arrays[read.array], read.array, width, lowering)
            subscripts = tuple(lower_subscript(lowering, sub, scope) for sub in read.subscripts)
            access = Access(lowering.arrays[read.array], subscripts, "load", width, span=read.span)
            load_inside(read, self.vectors[read], access, lowering, scope)
        for read in realigned:
            if read not in self.vectors:
                self.vectors[read] = vector_of(lowering.arrays[read.array], read.array, width, lowering)
            load_shifted(read, self.vectors[read], along, head, lowering.symbols, lowering, scope)
        reads = (*reads, *realigned)
        runs = self.load_runs(stage, width, scope) if along == stage.fastest.name else {}
        if stage.needs_element_index(along, (*reads, *runs)):
            inner.nodes.append(define_index(along, first + lane.symbol, lowering.limits[first], lowering))
        for read in reads:
            inner.remember(read, self.named_element(read, self.vectors[read].component(lane.symbol), stage, inner))
        self.accumulate_terms(stage, inner, runs, lane.symbol)
        lowering.symbols[along] = first
        append_loop(scope, "load", "elements", unrolled(lane, inner.nodes))


def component(local: Local, lane: Integer) -> Local:
    """The value of an element, where a thread has a vector of them."""
    return local.component(lane) if isinstance(local, Vector) else local


def vector_lane(width: int, lowering: Lowering) -> Index:
    """The index of an element in its vector; successive loops share the name."""
    return shared_loop_variable("v", (0, width - 1), lowering)


def _name_hints(problem: ReductionProblem) -> dict[Reduce, str]:
    """Names of the reductions: by their kind, and for several of a kind by what they read or where it is stored."""
    hints: dict[Reduce, str] = {}
    for stage in problem.stages:
        for reduction in stage.reductions:
            kind = ACCUMULATORS[reduction.kind]
            detailed = ["sum_of_squares"] if reduction.kind == "sum" and _is_square(reduction.body) else []
            detailed += [f"{kind}_of_{read.array.lower()}" for read in stage.reads if read in walk(reduction)]
            statements = [s for s in problem.request.group.statements if reduction in walk(s.value)]
            numbered = [f"{kind}{constants}" for constants in map(constants_of, statements[:1]) if constants]
            targets = (statement.target.lower() for statement in statements)
            candidates = [*numbered, kind, *detailed, *(f"{kind}_for_{target}" for target in targets)]
            hints[reduction] = next((c for c in candidates if c not in hints.values()), kind)
    return hints


def _is_square(body: Expr) -> bool:
    match body:
        case Op(name="mul", args=(first, second)):
            return first == second
        case Op(name="pow", args=(_, Const(value=2))):
            return True
    return False
