"""What the threads of a reduction do at each step: elements loaded, several at once where they can be, and taken in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cugen.families.reduce.recognition import IN_MEMORY, Reduction, Stage, own_nodes
from cugen.pieces.block_reduce import Running
from cugen.pieces.blocks import define, limit
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.vectors import WIDEST, Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript
from cugen.plan.lowering.reductions import accumulate, conjuncts, loop_bound
from cugen.plan.memory import Access, Component, Vector
from cugen.plan.nodes import Define, For, Index, Let, Load, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, integer, symbol
from cugen.plan.usage import free_symbols, values
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.types import BOOL


@dataclass(frozen=True, slots=True)
class Terms:
    """A stage's reductions, and the range of one of their indices within which all their conditions may hold."""

    stage: Stage
    runs: tuple[Running, ...]
    start: Integer
    stop: Integer
    upper: tuple[Expr, ...]  # the conditions that end the range, and need no test within
    lower: tuple[Expr, ...]  # those that begin it


def wide_reads(found: Reduction, stage: Stage, along: str) -> tuple[Read, ...]:
    """The reads of which neighbours along an index are neighbours in memory."""
    return tuple(read for read in stage.reads if _stride(found, read, along) == 1)


def _stride(found: Reduction, read: Read, along: str) -> Integer | None:
    array = found.arrays[read.array]
    steps = [stride for sub, stride in zip(read.subscripts, array.strides, strict=True) if along in free_indices(sub)]
    return steps[0] if len(steps) == 1 and array.space in IN_MEMORY else None


def main_read(found: Reduction, stage: Stage) -> Read:
    """The read that goes through most of memory, of those whose neighbours are loaded together."""
    reads = wide_reads(found, stage, stage.fastest.name)
    return max(reads, key=lambda read: (len(free_indices(read)), found.arrays[read.array].dtype.bytes))


def together(found: Reduction, stage: Stage, width: int) -> tuple[Read, ...]:
    """The reads that vectors of so many elements fill at the same places along the row, the main one first."""
    along, main = stage.fastest.name, main_read(found, stage)
    names = {name for read in stage.reads for name in free_indices(read)}
    symbols = {**found.request.context.symbols, **{name: symbol(name) for name in names}}

    def is_alike(read: Read) -> bool:
        array = found.arrays[read.array]
        if array.space == "readonly" or array.dtype.bytes * width > WIDEST:
            return False
        apart = offset(found, read, symbols, along) - offset(found, main, symbols, along)
        return divisor(apart.expand(), found.request.context) % width == 0

    others = [read for read in wide_reads(found, stage, along) if read != main and is_alike(read)]
    return (main, *others)


def offset(found: Reduction, read: Read, symbols: Mapping[str, Integer], along: str) -> Integer:
    """The place in memory, in elements, of the row's first element; what other elements say has a name of its own."""
    there = {**symbols, along: integer(0)}
    array = found.arrays[read.array]
    total: Integer = integer(0)
    for dimension, (sub, stride) in enumerate(zip(read.subscripts, array.strides, strict=True)):
        gathered = any(isinstance(node, Read) for node in walk(sub))
        total += stride * (symbol(f"{array.name} {dimension}") if gathered else to_integer(sub, there))
    return total


def widest(found: Reduction, read: Read, along: str) -> Width:
    """The widest access to neighbours along an index, the first of them at a multiple of the width."""
    array, context = found.arrays[read.array], found.request.context
    most = WIDEST // array.dtype.bytes
    if array.space == "readonly":
        return Width(1, f"{array.name} is read through __ldg, element by element")
    width = Width(most, f"{most} elements of {array.name} are {WIDEST} bytes, the most that one access moves")
    names = {name for sub in read.subscripts for name in free_indices(sub)}
    symbols = {**context.symbols, **{name: symbol(name) for name in names}}
    for dimension, (sub, stride) in enumerate(zip(read.subscripts, array.strides, strict=True)):
        if any(isinstance(node, Read) for node in walk(sub)):
            place: Integer = symbol("")
        else:
            place = to_integer(sub, symbols) - (symbol(along) if along in free_indices(sub) else 0)
        count = math.gcd(divisor((stride * place).expand(), context), most)
        if count < width.count:
            sure = f"the offset of dimension {dimension} in {array.name} is surely a multiple of {count}, not of more"
            width = Width(count, sure)
    return width


def ranged(
    found: Reduction,
    stage: Stage,
    runs: tuple[Running, ...],
    index: spec.Index,
    lowering: Lowering,
    beside: tuple[str, int] = ("", 1),
) -> Terms:
    """The range of `index` that conditions on places leave; those on the indices round it are known to `lowering`.

    `beside` is an index that has so many values at once, from the one that `lowering` knows: the range is then that of
    all of them, and their conditions are left to be tested."""
    own, (other, count) = symbol(index.name), beside
    symbols = {**lowering.symbols, index.name: own}
    start: Integer = integer(0)
    stop = found.extent(index)
    upper: list[Expr] = []
    lower: list[Expr] = []
    hidden = {i.name for i in stage.indices} - lowering.symbols.keys() - {index.name}
    for condition in _common(stage.reductions):
        if free_indices(condition) & hidden or index.name not in free_indices(condition):
            continue
        bound = loop_bound(replace(lowering, symbols=symbols), condition, own)
        if bound is None:
            continue
        limit, is_last = bound.right, bound.operator == "<"
        if count > 1 and other in free_indices(condition):
            step = limit.coeff(lowering.symbols[other])
            if not step.is_Integer or lowering.symbols[other] in (limit - step * lowering.symbols[other]).free_symbols:
                continue
            if (step > 0) == is_last:
                limit += step * (count - 1)
        else:
            (upper if is_last else lower).append(condition)
        if is_last:
            stop = limit if lowering.is_below(limit, stop + 1) else Minimum(stop, limit)
        else:
            start = limit if lowering.is_below(start, limit + 1) else Maximum(start, limit)
    return Terms(stage, runs, start, stop, tuple(upper), tuple(lower))


def _common(reductions: Sequence[Reduce]) -> tuple[Expr, ...]:
    """The conditions that all of the reductions have."""
    first, *rest = (conjuncts(reduction.where) for reduction in reductions)
    return tuple(condition for condition in first if all(condition in other for other in rest))


ExprT = TypeVar("ExprT", Read, Reduce, Expr)


def with_starts(found: Reduction, lowering: Lowering) -> tuple[Reduction, tuple[Define, ...]]:
    """The reduction with a name for where each stretch begins, and what that is: `start` for `part * chunk`."""
    starts: dict[Expr, Expr] = {}
    nodes: list[Define] = []
    for read in (read for stage in found.stages for read in stage.reads):
        for sub in read.subscripts:
            match sub:
                case Op(name="add", args=(Op(name="mul") as first, IndexValue())) if first not in starts:
                    node = define("start", to_integer(first, lowering.symbols), lowering)
                    lowering.symbols[node.index.name] = node.index.symbol
                    starts[first] = IndexValue(node.index.name)
                    nodes.append(node)
    if not starts:
        return found, ()

    def named(expr: ExprT) -> ExprT:
        result = rebuilt(expr, starts.get)
        assert isinstance(result, type(expr))
        return result

    stages = tuple(
        replace(
            stage,
            reductions=tuple(map(named, stage.reductions)),
            reads=tuple(map(named, stage.reads)),
            extremes=tuple((named(extreme), named(place)) for extreme, place in stage.extremes),
        )
        for stage in found.stages
    )
    statements = tuple(replace(s, value=named(s.value)) for s in found.request.group.statements)
    request = replace(found.request, group=replace(found.request.group, statements=statements))
    return replace(found, request=request, stages=stages), tuple(nodes)


def named_stop(found: Reduction, terms: Terms, lowering: Lowering, scope: Scope) -> Terms:
    """The terms with a name for the end of their range, where that is more than params say."""
    if terms.stop.is_Symbol or terms.stop.free_symbols <= found.request.context.ranges.keys():
        return terms
    return replace(terms, stop=lowering.define("stop", terms.stop, scope))


def kept_reads(stage: Stage, along: str) -> tuple[Read, ...]:
    """The reads that are the same for all terms of a result, and safe also where there are none."""
    if any(reduction.where is not None for reduction in stage.reductions):
        return ()
    moving = {index.name for index in stage.indices} | {along}
    found = {n: None for r in stage.reductions for n in own_nodes(r) if isinstance(n, Read)}
    return tuple(
        read
        for read in found
        if not free_indices(read) & moving
        and not any(isinstance(n, Read) for sub in read.subscripts for n in walk(sub))
    )


def results_of(stage: Stage, runs: Sequence[Running]) -> dict[Reduce, Local]:
    """What each reduction of a stage yields, from the running values of those that are taken."""
    own = dict(zip(stage.reductions, runs, strict=True))
    results = {reduction: run.value for reduction, run in own.items()}
    results.update({extreme: own[place].locals[-1] for extreme, place in stage.extremes})
    return results


def take(terms: Terms, lowering: Lowering, scope: Scope, dropped: Sequence[Expr] = ()) -> None:
    """Takes the terms at the place that `scope` stands for into the running values; `dropped` conditions hold there."""
    for reduction, run in zip(terms.stage.reductions, terms.runs, strict=True):
        left = [condition for condition in conjuncts(reduction.where) if condition not in dropped]
        where = all_of(left)
        accumulate(lowering, replace(reduction, where=where), run.value, scope, run.extreme)


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The conditions as one; None for none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = Op("and", (result, condition), BOOL)
    return result


def needs_place(stage: Stage, along: str, wide: Sequence[Read], dropped: Sequence[Expr]) -> bool:
    """Whether a term depends on its own place along the index, other than through what was loaded for it."""

    def depends(expr: Expr) -> bool:
        match expr:
            case Read() if expr in wide or along not in free_indices(expr):
                return False
            case IndexValue(name=name):
                return name == along
            case Reduce() | Scan():
                return False
        return any(map(depends, spec.children(expr)))

    for reduction in stage.reductions:
        left = [condition for condition in conjuncts(reduction.where) if condition not in dropped]
        if reduction.kind in ("argmax", "argmin") and reduction.indices[0].name == along:
            return True
        if any(map(depends, (reduction.body, *left))):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a thread loads and takes at once: `width` elements of each wide read, which lie along one index."""

    along: str
    width: int
    wide: tuple[Read, ...]
    vectors: dict[Read, Vector] = field(default_factory=dict)  # by what they hold, for loops side by side

    def vector(self, read: Read, lowering: Lowering) -> Vector:
        """`x4` for four elements of x."""
        if read not in self.vectors:
            name = read.array.lower()
            separator = "_" if name[-1].isdigit() else ""
            dtype = lowering.arrays[read.array].dtype
            name = lowering.names.allocate(f"{name}{separator}{self.width}")
            self.vectors[read] = Vector(name, dtype.compute, dtype, self.width)
        return self.vectors[read]


def take_neighbours(
    terms: Terms,
    neighbours: Neighbours,
    lowering: Lowering,
    scope: Scope,
    dropped: Sequence[Expr],
    enter: Callable[[Scope, Integer], tuple[Running, ...]],
) -> None:
    """Loads one vector for each wide read, the first element where `lowering` has the index, and takes the terms of its
    elements one after another. `enter` says what is known in the scope of one element, and what takes its terms."""
    along, width = neighbours.along, neighbours.width
    first = lowering.symbols[along]
    number = element_index(width, lowering)
    inner = Scope(scope, frozenset((along,)))
    for read in neighbours.wide:
        vector = neighbours.vector(read, lowering)
        subscripts = tuple(lower_subscript(lowering, sub, scope) for sub in read.subscripts)
        scope.nodes.append(Load(vector, Access(lowering.arrays[read.array], subscripts, "load", width)))
    if needs_place(terms.stage, along, neighbours.wide, dropped):
        own = define(along, first + number.symbol, lowering)
        limit(own.index, lowering.limits[first], lowering)
        lowering.symbols[along] = own.index.symbol
        inner.nodes.append(own)
    for read in neighbours.wide:
        component = neighbours.vector(read, lowering).component(number.symbol)
        inner.remember(read, named(read, component, terms.stage, lowering, inner))
    take(replace(terms, runs=enter(inner, number.symbol)), lowering, inner, dropped)
    lowering.symbols[along] = first
    scope.nodes.append(For(Loop(number, integer(0), integer(width), unroll=True), tuple(inner.nodes)))


def element_index(width: int, lowering: Lowering) -> Index:
    """The number of an element in its vector; loops side by side share the name."""
    return shared_loop_variable("v", (0, width - 1), lowering)


def named(read: Read, component: Component, stage: Stage, lowering: Lowering, scope: Scope) -> Local:
    """A component that several terms mention gets a name of its own."""
    mentions = sum(1 for reduction in stage.reductions for node in walk(reduction) if node == read)
    if mentions == 1:
        return component
    local = Local(lowering.name_for(read, lowering.read_names[read], scope), read.dtype)
    scope.nodes.append(Let(local, component))
    return local


def mentions(nodes: tuple[Node, ...], index: Index) -> bool:
    """Whether an index occurs in subscripts, or as a value."""
    leaves = (leaf for value in values(nodes) for leaf in walk(value))
    return index.symbol in free_symbols(nodes) or any(isinstance(n, Local) and n.name == index.name for n in leaves)
