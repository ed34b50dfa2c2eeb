"""The accumulation step of reductions: loads, vectorised where elements are contiguous, and accumulator updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cugen.families.reduce.recognition import IN_MEMORY, ReductionProblem, Stage, operand_nodes
from cugen.pieces.block_reduce import Accumulator
from cugen.pieces.blocks import define, limit
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.sections import append_loop, append_section
from cugen.pieces.vectors import MAX_ACCESS_BYTES, Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript
from cugen.plan.lowering.reductions import accumulate, conjuncts, loop_bound
from cugen.plan.memory import Access, Component, Vector
from cugen.plan.nodes import Define, For, Index, Let, Load, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, integer, symbol
from cugen.plan.traversal.usage import free_symbols, values
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.types import BOOL


@dataclass(frozen=True, slots=True)
class LoopRange:
    """The range of one index of a stage outside of which the reductions' common conditions fail."""

    stage: Stage
    accumulators: tuple[Accumulator, ...]
    start: Integer
    stop: Integer
    upper: tuple[Expr, ...]  # the conditions that `stop` implies
    lower: tuple[Expr, ...]  # the conditions that `start` implies


def wide_reads(problem: ReductionProblem, stage: Stage, along: str) -> tuple[Read, ...]:
    """The reads that are contiguous along an index."""
    return tuple(read for read in stage.reads if _stride(problem, read, along) == 1)


def _stride(problem: ReductionProblem, read: Read, along: str) -> Integer | None:
    array = problem.arrays[read.array]
    pairs = zip(read.subscripts, array.strides, strict=True)
    strides = [stride for sub, stride in pairs if along in free_indices(sub)]
    return strides[0] if len(strides) == 1 and array.space in IN_MEMORY else None


def main_read(problem: ReductionProblem, stage: Stage) -> Read:
    """The contiguous read of the most elements, whose alignment the vector loads follow."""
    reads = wide_reads(problem, stage, stage.fastest.name)
    return max(reads, key=lambda read: (len(free_indices(read)), problem.arrays[read.array].dtype.bytes))


def vector_reads(problem: ReductionProblem, stage: Stage, width: int) -> tuple[Read, ...]:
    """The reads that vectors of `width` elements fill from the same indices on, the main one first."""
    along, main = stage.fastest.name, main_read(problem, stage)
    names = {name for read in stage.reads for name in free_indices(read)}
    symbols = {**problem.request.context.symbols, **{name: symbol(name) for name in names}}

    def has_equal_alignment(read: Read) -> bool:
        array = problem.arrays[read.array]
        if array.space == "readonly" or array.dtype.bytes * width > MAX_ACCESS_BYTES:
            return False
        difference = row_offset(problem, read, symbols, along) - row_offset(problem, main, symbols, along)
        return divisor(difference.expand(), problem.request.context) % width == 0

    aligned = [read for read in wide_reads(problem, stage, along) if read != main and has_equal_alignment(read)]
    return (main, *aligned)


def row_offset(problem: ReductionProblem, read: Read, symbols: Mapping[str, Integer], along: str) -> Integer:
    """The offset of the row's first element, in elements; gathered subscripts are opaque symbols."""
    at_start = {**symbols, along: integer(0)}
    array = problem.arrays[read.array]
    total: Integer = integer(0)
    for dimension, (sub, stride) in enumerate(zip(read.subscripts, array.strides, strict=True)):
        gathered = any(isinstance(node, Read) for node in walk(sub))
        total += stride * (symbol(f"{array.name} {dimension}") if gathered else to_integer(sub, at_start))
    return total


def widest_access(problem: ReductionProblem, read: Read, along: str) -> Width:
    """The widest vector access along an index, which starts at multiples of the width."""
    array, context = problem.arrays[read.array], problem.request.context
    max_count = MAX_ACCESS_BYTES // array.dtype.bytes
    if array.space == "readonly":
        return Width(1, f"{array.name} is read through __ldg, one element per access")
    width = Width(max_count, f"{max_count} elements of {array.name} are {MAX_ACCESS_BYTES} bytes, the widest access")
    names = {name for sub in read.subscripts for name in free_indices(sub)}
    symbols = {**context.symbols, **{name: symbol(name) for name in names}}
    for dimension, (sub, stride) in enumerate(zip(read.subscripts, array.strides, strict=True)):
        if any(isinstance(node, Read) for node in walk(sub)):
            position: Integer = symbol("")
        else:
            position = to_integer(sub, symbols) - (symbol(along) if along in free_indices(sub) else 0)
        count = math.gcd(divisor((stride * position).expand(), context), max_count)
        if count < width.count:
            reason = f"the offset of dimension {dimension} in {array.name} is only known to be a multiple of {count}"
            width = Width(count, reason)
    return width


def loop_range_of(
    problem: ReductionProblem,
    stage: Stage,
    accumulators: tuple[Accumulator, ...],
    index: spec.Index,
    lowering: Lowering,
    vector: tuple[str, int] = ("", 1),
) -> LoopRange:
    """The range of `index` by the conditions on indices; outer indices are defined in `lowering`.

    `vector` is an index with its count of consecutive values: the range is then their union, and their conditions
    remain to be tested."""
    loop_symbol, (vector_index, count) = symbol(index.name), vector
    symbols = {**lowering.symbols, index.name: loop_symbol}
    start: Integer = integer(0)
    stop = problem.extent(index)
    upper: list[Expr] = []
    lower: list[Expr] = []
    undefined = {i.name for i in stage.indices} - lowering.symbols.keys() - {index.name}
    for condition in _common_conditions(stage.reductions):
        if free_indices(condition) & undefined or index.name not in free_indices(condition):
            continue
        bound = loop_bound(replace(lowering, symbols=symbols), condition, loop_symbol)
        if bound is None:
            continue
        limit, is_last = bound.right, bound.operator == "<"
        if count > 1 and vector_index in free_indices(condition):
            first = lowering.symbols[vector_index]
            step = limit.coeff(first)
            if not step.is_Integer or first in (limit - step * first).free_symbols:
                continue
            if (step > 0) == is_last:
                limit += step * (count - 1)
        else:
            (upper if is_last else lower).append(condition)
        if is_last:
            stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
        else:
            start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
    return LoopRange(stage, accumulators, start, stop, tuple(upper), tuple(lower))


def _common_conditions(reductions: Sequence[Reduce]) -> tuple[Expr, ...]:
    """The conditions that all of the reductions have."""
    first, *remaining = (conjuncts(reduction.where) for reduction in reductions)
    return tuple(condition for condition in first if all(condition in conditions for conditions in remaining))


ExprT = TypeVar("ExprT", Read, Reduce, Expr)


def with_named_starts(problem: ReductionProblem, lowering: Lowering) -> tuple[ReductionProblem, tuple[Define, ...]]:
    """The problem with a named index for the start of each chunk: `start` for `part * chunk`."""
    starts: dict[Expr, Expr] = {}
    nodes: list[Define] = []
    for read in (read for stage in problem.stages for read in stage.reads):
        for sub in read.subscripts:
            match sub:
                case Op(name="add", args=(Op(name="mul") as first, IndexValue())) if first not in starts:
                    node = define("start", to_integer(first, lowering.symbols), lowering)
                    lowering.symbols[node.index.name] = node.index.symbol
                    starts[first] = IndexValue(node.index.name)
                    nodes.append(node)
    if not starts:
        return problem, ()

    def named(expr: ExprT) -> ExprT:
        result = rebuilt(expr, starts.get)
        assert isinstance(result, type(expr))
        return result

    stages = tuple(
        replace(
            stage,
            reductions=tuple(map(named, stage.reductions)),
            reads=tuple(map(named, stage.reads)),
            extremes=tuple((named(extreme), named(arg)) for extreme, arg in stage.extremes),
        )
        for stage in problem.stages
    )
    statements = tuple(replace(s, value=named(s.value)) for s in problem.request.group.statements)
    request = replace(problem.request, group=replace(problem.request.group, statements=statements))
    return replace(problem, request=request, stages=stages), tuple(nodes)


def with_named_stop(problem: ReductionProblem, loop: LoopRange, lowering: Lowering, scope: Scope) -> LoopRange:
    """The range with a named `stop`, unless that is a function of params alone."""
    if loop.stop.is_Symbol or loop.stop.free_symbols <= problem.request.context.ranges.keys():
        return loop
    return replace(loop, stop=lowering.define("stop", loop.stop, scope))


def invariant_reads(stage: Stage, along: str) -> tuple[Read, ...]:
    """The loop-invariant reads, which are safe to hoist also where the loop has no iteration."""
    if any(reduction.where is not None for reduction in stage.reductions):
        return ()
    moving = {index.name for index in stage.indices} | {along}
    reads = {n: None for r in stage.reductions for n in operand_nodes(r) if isinstance(n, Read)}
    return tuple(
        read
        for read in reads
        if not free_indices(read) & moving
        and not any(isinstance(n, Read) for sub in read.subscripts for n in walk(sub))
    )


def results_of(stage: Stage, accumulators: Sequence[Accumulator]) -> dict[Reduce, Local]:
    """The locals with the results of a stage's reductions."""
    by_reduction = dict(zip(stage.reductions, accumulators, strict=True))
    results = {reduction: accumulator.value for reduction, accumulator in by_reduction.items()}
    results.update({extreme: by_reduction[arg].locals[-1] for extreme, arg in stage.extremes})
    return results


def accumulate_element(loop: LoopRange, lowering: Lowering, scope: Scope, implied: Sequence[Expr] = ()) -> None:
    """Updates the accumulators by the element of the current indices; `implied` conditions need no test."""
    for reduction, accumulator in zip(loop.stage.reductions, loop.accumulators, strict=True):
        tested = [condition for condition in conjuncts(reduction.where) if condition not in implied]
        where = all_of(tested)
        accumulate(lowering, replace(reduction, where=where), accumulator.value, scope, accumulator.extreme)


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The conjunction of the conditions; None for none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = Op("and", (result, condition), BOOL)
    return result


def needs_element_index(stage: Stage, along: str, vectors: Sequence[Read], implied: Sequence[Expr]) -> bool:
    """Whether the code uses the index of each element, not only that of its vector."""

    def depends(expr: Expr) -> bool:
        match expr:
            case Read() if expr in vectors or along not in free_indices(expr):
                return False
            case IndexValue(name=name):
                return name == along
            case Reduce() | Scan():
                return False
        return any(map(depends, spec.children(expr)))

    for reduction in stage.reductions:
        tested = [condition for condition in conjuncts(reduction.where) if condition not in implied]
        if reduction.kind in ("argmax", "argmin") and reduction.indices[0].name == along:
            return True
        if any(map(depends, (reduction.body, *tested))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class ConsecutiveElements:
    """The elements that a thread loads and accumulates at once: `width` of each of the reads, along one index."""

    along: str
    width: int
    reads: tuple[Read, ...]
    vectors: dict[Read, Vector] = field(default_factory=dict)  # shared by successive loops

    def vector(self, read: Read, lowering: Lowering) -> Vector:
        """A register vector, such as `x4` for four elements of x."""
        if read not in self.vectors:
            name = read.array.lower()
            separator = "_" if name[-1].isdigit() else ""
            dtype = lowering.arrays[read.array].dtype
            name = lowering.names.allocate(f"{name}{separator}{self.width}")
            self.vectors[read] = Vector(name, dtype.compute, dtype, self.width)
        return self.vectors[read]


def accumulate_vector(
    loop: LoopRange,
    elements: ConsecutiveElements,
    lowering: Lowering,
    scope: Scope,
    implied: Sequence[Expr],
    accumulators_of: Callable[[Scope, Integer], tuple[Accumulator, ...]],
) -> None:
    """Loads one vector per read, from the index in `lowering` on, and accumulates its elements in order: the sections
    `load` and `elements`.

    `accumulators_of` gives the accumulators of an element, and defines what its scope needs."""
    along, width = elements.along, elements.width
    first = lowering.symbols[along]
    lane = vector_lane(width, lowering)
    inner = Scope(scope, frozenset((along,)))
    for read in elements.reads:
        vector = elements.vector(read, lowering)
        subscripts = tuple(lower_subscript(lowering, sub, scope) for sub in read.subscripts)
        scope.nodes.append(Load(vector, Access(lowering.arrays[read.array], subscripts, "load", width)))
    if needs_element_index(loop.stage, along, elements.reads, implied):
        element = define(along, first + lane.symbol, lowering)
        limit(element.index, lowering.limits[first], lowering)
        lowering.symbols[along] = element.index.symbol
        inner.nodes.append(element)
    for read in elements.reads:
        component = elements.vector(read, lowering).component(lane.symbol)
        inner.remember(read, named_component(read, component, loop.stage, lowering, inner))
    of_element = replace(loop, accumulators=accumulators_of(inner, lane.symbol))
    accumulate_element(of_element, lowering, inner, implied)
    lowering.symbols[along] = first
    append_section(inner, "accumulate")
    each = Loop(lane, integer(0), integer(width), unroll=True)
    append_loop(scope, "load", "elements", For(each, tuple(inner.nodes)))


def vector_lane(width: int, lowering: Lowering) -> Index:
    """The index of an element in its vector; successive loops share the name."""
    return shared_loop_variable("v", (0, width - 1), lowering)


def named_component(read: Read, component: Component, stage: Stage, lowering: Lowering, scope: Scope) -> Local:
    """The component, as a named local where the stage reads it more than once."""
    uses = sum(1 for reduction in stage.reductions for node in walk(reduction) if node == read)
    if uses == 1:
        return component
    local = Local(lowering.name_for(read, lowering.read_names[read], scope), read.dtype)
    scope.nodes.append(Let(local, component))
    return local


def mentions_index(nodes: tuple[Node, ...], index: Index) -> bool:
    """Whether an index occurs in subscripts, or as a value."""
    leaves = (leaf for value in values(nodes) for leaf in walk(value))
    return index.symbol in free_symbols(nodes) or any(isinstance(n, Local) and n.name == index.name for n in leaves)
