"""Reductions across neighbours in memory: each thread takes a vector of columns, and a column of threads combines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cugen.families.reduce.accumulate import (
    Neighbours,
    Terms,
    element_index,
    kept_reads,
    mentions,
    named_stop,
    ranged,
    results_of,
    take,
    take_neighbours,
    wide_reads,
    widest,
    with_starts,
)
from cugen.families.reduce.recognition import Reduction, Stage
from cugen.families.reduce.rows import Built, loop_index, running
from cugen.pieces.block_reduce import Running, first_values, merge, start_again
from cugen.pieces.blocks import define, lay_blocks, limit, thread
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import Width, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Comment,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Let,
    Loop,
    Node,
    ReturnUnless,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Read, Reduce
from cugen.spec.model import Statement
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """`threads` of a block lie along the columns, `width` of which each has, and `across` share each column."""

    threads: int
    across: int
    width: int
    unroll: int


def column_width(found: Reduction) -> Width:
    """How many neighbouring columns one access may move."""
    (index,) = (index for index in found.kept if index.name == found.along)
    columns = divisor(found.extent(index), found.request.context)
    most = 16
    while columns % most:
        most //= 2
    widths = [Width(most, f"{found.along} has surely a multiple of {most} values, not of more")]
    for stage in found.stages:
        widths += [widest(found, read, found.along) for read in wide_reads(found, stage, found.along)]
        if not wide_reads(found, stage, found.along):
            widths.append(Width(1, f"neighbours along {found.along} are no neighbours in memory"))
    return min(widths, key=lambda width: width.count)


def build_columns(found: Reduction, lowering: Lowering, shape: ColumnShape) -> Built:
    return _Columns(found, lowering, shape).built()


class _Columns:
    """The kernel of one group: every thread reduces its share of its columns, then the threads above each other
    combine theirs in shared memory."""

    def __init__(self, found: Reduction, lowering: Lowering, shape: ColumnShape) -> None:
        self.request: Request = found.request
        self.found, self.lowering, self.shape = found, lowering, shape
        self.x = thread("x", shape.threads, lowering)
        self.y = thread("y", shape.across, lowering)
        self.inside: tuple[Comparison, ...] = ()  # fails for threads without a column
        self.along = found.kept[0].name
        self.vectors: dict[Read, Vector] = {}
        self.results: dict[Reduce, Local] = {}  # of the stages so far

    def built(self) -> Built:
        lowering = self.lowering
        indices, grid = self._indices()
        self.found, starts = with_starts(self.found, lowering)
        self.request = self.found.request
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        parts: list[tuple[str, tuple[Node, ...]]] = [("indices", (*indices, *starts))]
        for position, stage in enumerate(self.found.stages):
            runs = tuple(self._running(reduction) for reduction in stage.reductions)
            parts.append((f"walk {position}", self._walk(stage, runs)))
            if self.shape.across > 1:
                is_last = position == len(self.found.stages) - 1
                parts.append((f"across {position}", tuple(self._combine(runs, everywhere=not is_last))))
            self.results |= results_of(stage, runs)
        parts.append(("result", self._result()))
        return Built(tuple(parts), grid, (self.shape.threads, self.shape.across, 1))

    def _indices(self) -> tuple[tuple[Node, ...], tuple[Integer, Integer, Integer]]:
        lowering, shape = self.lowering, self.shape
        counts = [self.found.extent(index) for index in self.found.kept]
        owned = shape.threads * shape.width
        blocks = lay_blocks([ceil_div(counts[0], owned), *counts[1:]], lowering, self.request.target)
        nodes: list[Node] = []
        for index, extent, place in zip(self.found.kept[1:], counts[1:], blocks.places[1:], strict=True):
            node = define(index.name, place, lowering)
            lowering.symbols[index.name] = node.index.symbol
            limit(node.index, extent, lowering)
            nodes.insert(0, node)
        wish = f"first_{self.along}" if shape.width > 1 else self.along
        place = (blocks.places[0] * shape.threads + self.x) * shape.width
        first = define(wish, place, lowering, below=ceil_div(counts[0], owned) * owned)
        nodes.append(first)
        lowering.symbols[self.along] = first.index.symbol
        if not divides(owned, counts[0], self.request.context):
            self.inside = (Comparison(first.index.symbol, "<", counts[0]),)
        limit(first.index, counts[0], lowering)
        if self.inside and shape.across == 1:
            nodes.append(ReturnUnless(Guard(self.inside)))
            self.inside = ()
        return tuple(nodes), blocks.grid

    # What a thread has of its columns: one value, or a vector of them

    def _running(self, reduction: Reduce) -> Running:
        plain = running(self.found, reduction, self.lowering)
        if self.shape.width == 1:
            return plain
        vectors = [self._vector(local.name, local.dtype) for local in plain.locals]
        return Running(plain.kind, *vectors)

    def _vector(self, name: str, dtype: DType) -> Vector:
        width = self.shape.width
        return Vector(self.lowering.names.allocate(f"{name}{width}"), dtype, dtype, width)

    def _each(self, fill: Callable[[Integer], Iterable[Node]]) -> tuple[Node, ...]:
        """Nodes for each of the thread's columns."""
        if self.shape.width == 1:
            return tuple(fill(integer(0)))
        number = element_index(self.shape.width, self.lowering)
        body = tuple(fill(number.symbol))
        return (For(Loop(number, integer(0), integer(self.shape.width), unroll=True), body),)

    def _enter(self, runs: tuple[Running, ...], scope: Scope, number: Integer) -> tuple[Running, ...]:
        """What is known of one column, and what takes its terms."""
        for reduction, value in self.results.items():
            scope.remember(reduction, _at(value, number))
        return tuple(Running(run.kind, *(_at(local, number) for local in run.locals)) for run in runs)

    # The walk down the columns

    def _walk(self, stage: Stage, runs: tuple[Running, ...]) -> tuple[Node, ...]:
        scope = Scope()
        inner = Scope(scope, certain=False) if self.inside else scope
        for read in kept_reads(stage, self.along):
            self.lowering.lower(read, inner)
        self._down(stage, runs, (), inner)
        if self.inside:
            scope.nodes.append(If(Guard(self.inside), tuple(inner.nodes)))
        if self.shape.width == 1:
            return (*(node for run in runs for node in first_values(run)), *scope.nodes)
        declared = tuple(Let(local, None, mutable=True) for run in runs for local in run.locals)
        first = self._each(lambda v: (node for run in self._enter(runs, Scope(), v) for node in start_again(run)))
        return (*declared, *first, *scope.nodes)

    def _down(self, stage: Stage, runs: tuple[Running, ...], dropped: tuple[Expr, ...], scope: Scope) -> None:
        """The loops over the reduced indices; the threads above each other share the longest."""
        lowering = self.lowering
        left = [index for index in stage.indices if index.name not in lowering.symbols]
        index = left[0]
        shared = index == max(reversed(stage.indices), key=self.found.most) and self.shape.across > 1
        terms = ranged(self.found, stage, runs, index, lowering, (self.along, self.shape.width))
        dropped += (*terms.upper, *terms.lower)
        terms = named_stop(self.found, terms, lowering, scope)
        first, step = (terms.start + self.y, self.shape.across) if shared else (terms.start, 1)
        own = loop_index(self.found, lowering, index, first, terms.stop, step)
        inner = Scope(scope, frozenset((index.name,)), certain=False)
        if len(left) > 1:
            self._down(stage, runs, dropped, inner)
        else:
            self._take(terms, dropped, inner)
        unroll = 0 if len(left) > 1 else self.shape.unroll
        scope.nodes.append(For(Loop(own, first, terms.stop, step, unroll_by=unroll), tuple(inner.nodes)))
        del lowering.symbols[index.name]

    def _take(self, terms: Terms, dropped: tuple[Expr, ...], scope: Scope) -> None:
        """The terms of one row, for each of the thread's columns."""
        lowering, width = self.lowering, self.shape.width
        if width == 1:
            take(replace(terms, runs=self._enter(terms.runs, scope, integer(0))), lowering, scope, dropped)
            return
        wide = wide_reads(self.found, terms.stage, self.along)
        neighbours = Neighbours(self.along, width, wide, self.vectors)
        take_neighbours(terms, neighbours, lowering, scope, dropped, lambda inner, v: self._enter(terms.runs, inner, v))

    # The threads of a column

    def _combine(self, runs: tuple[Running, ...], *, everywhere: bool) -> Iterator[Node]:
        lowering, shape = self.lowering, self.shape
        held = [[self._shared(local) for local in run.locals] for run in runs]
        yield Comment("The threads of a column meet in shared memory; their results are combined in order.")
        yield from (Declare(array) for arrays in held for array in arrays)
        yield from self._each(
            lambda v: (
                Store(self._access(array, v, self.y, "store"), _at(local, v))
                for run, arrays in zip(runs, held, strict=True)
                for local, array in zip(run.locals, arrays, strict=True)
            )
        )
        yield Barrier()
        if everywhere:
            yield from self._each(
                lambda v: (
                    Assign(_at(local, v), Element.of(self._access(array, v, integer(0), "load")))
                    for run, arrays in zip(runs, held, strict=True)
                    for local, array in zip(run.locals, arrays, strict=True)
                )
            )
        else:
            yield ReturnUnless(Guard((Comparison(self.y, "==", integer(0)), *self.inside)))
        other = replace(shared_loop_variable("row", (1, shape.across - 1), lowering), definition=integer(1))
        body = self._each(
            lambda v: (
                node
                for run, arrays in zip(runs, held, strict=True)
                for node in self._merge(run, arrays, v, other.symbol)
            )
        )
        yield For(Loop(other, integer(1), integer(shape.across)), body)

    def _shared(self, local: Local) -> Array:
        sizes = (self.shape.width, self.shape.across, self.shape.threads)[0 if self.shape.width > 1 else 1 :]
        strides = tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
        name = self.lowering.names.allocate(f"{local.name.strip('_0123456789')}_shares")
        return Array("", name, local.dtype, tuple(map(integer, sizes)), tuple(map(integer, strides)), "shared", False)

    def _access(self, array: Array, v: Integer, y: Integer, kind: str) -> Access:
        return Access(array, (v, y, self.x)[-len(array.shape) :], kind)

    def _merge(self, run: Running, arrays: Sequence[Array], v: Integer, other: Integer) -> Iterator[Node]:
        own = Running(run.kind, *(_at(local, v) for local in run.locals))
        values: list[Local] = [Element.of(self._access(array, v, other, "load")) for array in arrays]
        if run.extreme is not None:
            for position, (local, value) in enumerate(zip(run.locals, values, strict=True)):
                named = Local(self.lowering.names.allocate(f"other_{local.name.strip('_0123456789')}"), local.dtype)
                yield Let(named, value)
                values[position] = named
        yield from merge(own, values)

    # What is stored

    def _result(self) -> tuple[Node, ...]:
        lowering, width = self.lowering, self.shape.width
        scope = Scope()
        if width == 1:
            self._enter((), scope, integer(0))
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        stores: list[Node] = []
        first = lowering.symbols[self.along]

        def fill(v: Integer) -> Iterator[Node]:
            inner = Scope(scope, frozenset((self.along,)))
            own = define(self.along, first + v, lowering)
            limit(own.index, lowering.limits[first], lowering)
            lowering.symbols[self.along] = own.index.symbol
            self._enter((), inner, v)
            self._name_places(inner, v)
            lower_statements(self.request, lowering, inner)
            lowering.symbols[self.along] = first
            stored = iter([s for s in self.request.group.statements if self._is_stored(s)])
            nodes: list[Node] = []
            for node in inner.nodes:
                if isinstance(node, Store) and self._is_wide(statement := next(stored)):
                    vector = self._vector(statement.target.lower(), node.access.array.dtype.compute)
                    vector = replace(vector, element=node.access.array.dtype)
                    scope.nodes.append(Let(vector, None, mutable=True))
                    nodes.append(Assign(vector.component(v), node.value))
                    subscripts = tuple(to_integer(sub, lowering.symbols) for sub in statement.subscripts)
                    stores.append(Store(Access(node.access.array, subscripts, "store", width), vector))
                else:
                    nodes.append(node)
            return iter((own, *nodes) if mentions(tuple(nodes), own.index) else nodes)

        loop = self._each(fill)
        return (*scope.nodes, *loop, *stores)

    def _name_places(self, scope: Scope, number: Integer) -> None:
        """A place may be a subscript, which has to have a name."""
        for reduction, value in self.results.items():
            if reduction.kind in ("argmax", "argmin"):
                wish = ACCUMULATORS[reduction.kind]
                local = Local(self.lowering.name_for(reduction, wish, scope), reduction.dtype)
                scope.nodes.append(Let(local, _at(value, number)))
                scope.remember(reduction, local)

    def _is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def _is_wide(self, statement: Statement) -> bool:
        """Whether one access stores the results of all the thread's columns."""
        target = Read(statement.target, statement.subscripts, statement.value.dtype)
        return widest(self.found, target, self.along).count % self.shape.width == 0


def _at(local: Local, number: Integer) -> Local:
    """A thread's value for one of its columns."""
    return local.component(number) if isinstance(local, Vector) else local
