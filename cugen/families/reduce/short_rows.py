"""Rows shorter than a few vectors: a thread has several of them, which it loads as one stretch of memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from cugen.families.reduce.accumulate import Terms, mentions, named, results_of, take
from cugen.families.reduce.recognition import Reduction, Stage
from cugen.families.reduce.rows import Built, running
from cugen.pieces.block_reduce import first_values
from cugen.pieces.blocks import define, lay_blocks, limit, thread
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.statements import lower_statements
from cugen.pieces.vectors import WIDEST, divisor
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Component, Vector
from cugen.plan.nodes import Assign, Comparison, For, Guard, If, Index, Let, Load, Loop, Node, ReturnUnless, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import IndexValue

_LEAST_BYTES = 48  # that a thread has in flight
_MOST_BYTES = 256  # that it holds in registers
_THREADS = 256


@dataclass(frozen=True, slots=True)
class ShortShape:
    """A thread has `rows` rows of `length` elements, which `vectors` accesses of `width` elements load."""

    rows: int
    length: int
    width: int

    @property
    def vectors(self) -> int:
        return self.rows * self.length // self.width


def short_shape(found: Reduction) -> ShortShape | None:
    """The shape where rows are short and lie one after another; None where they don't."""
    if found.along or len(found.stages) != 1 or len(found.kept) != 1:
        return None
    (stage,), (row,) = found.stages, found.kept
    length = found.request.context.static(found.extent(stage.fastest))
    if length is None or len(stage.indices) != 1 or len(stage.reads) != 1:
        return None
    (read,) = stage.reads
    array = found.arrays[read.array]
    bare = read.subscripts == (IndexValue(row.name), IndexValue(stage.fastest.name))
    steps = [found.request.context.static(stride) for stride in array.strides]
    if not bare or array.space != "global" or not array.flat or steps != [length, 1]:
        return None
    width = WIDEST // array.dtype.bytes
    rows = width // math.gcd(width, length)
    if rows == 1 and length * array.dtype.bytes > WIDEST:
        return None
    while rows * length * array.dtype.bytes < _LEAST_BYTES:
        rows *= 2
    return ShortShape(rows, length, width) if rows * length * array.dtype.bytes <= _MOST_BYTES else None


def build_short(found: Reduction, lowering: Lowering, shape: ShortShape) -> Built:
    return _Short(found, lowering, shape).built()


class _Short:
    """The kernel of one group: vectors fill the thread's rows, then each is reduced by itself."""

    def __init__(self, found: Reduction, lowering: Lowering, shape: ShortShape) -> None:
        self.found, self.lowering, self.shape = found, lowering, shape
        self.stage: Stage = found.stages[0]
        (self.row,), (self.read,) = found.kept, self.stage.reads
        self.array: Array = found.arrays[self.read.array]
        self.runs = tuple(running(found, reduction, lowering) for reduction in self.stage.reductions)

    def built(self) -> Built:
        lowering, owned = self.lowering, _THREADS * self.shape.rows
        extent = self.found.extent(self.row)
        count = ceil_div(extent, owned)
        blocks = lay_blocks([count], lowering, self.found.request.target)
        place = (blocks.places[0] * _THREADS + thread("x", _THREADS, lowering)) * self.shape.rows
        first = define(f"first_{self.row.name}", place, lowering, below=count * owned)
        indices: list[Node] = [first]
        if divisor(extent, self.found.request.context) % owned:
            indices.append(ReturnUnless(Guard((Comparison(first.index.symbol, "<", extent),))))
        limit(first.index, extent, lowering)
        lowering.prepare(tuple(statement.value for statement in self.found.request.group.statements))
        rows = self._whole(first.index.symbol)
        if divisor(extent, self.found.request.context) % self.shape.rows:
            guard = Guard((Comparison(first.index.symbol + (self.shape.rows - 1), "<", extent),))
            rows = (If(guard, rows, self._rest(first.index.symbol)),)
        return Built((("indices", tuple(indices)), ("rows", rows)), blocks.grid, (_THREADS, 1, 1))

    def _whole(self, first: Integer) -> tuple[Node, ...]:
        """All rows of the thread, from vectors."""
        lowering, shape, name = self.lowering, self.shape, self.read.array.lower()
        dtype, width = self.array.dtype, integer(self.shape.width)
        wish = f"{name}{'_' if name[-1].isdigit() else ''}{shape.width}"
        held = Vector(lowering.names.allocate(wish), dtype.compute, dtype, shape.width, shape.vectors)
        number = shared_loop_variable("u", (0, shape.vectors - 1), lowering)
        flat = replace(self.array, shape=(sympy.Mul(*self.array.shape),), strides=(integer(1),))
        there = Access(flat, (first * shape.length + number.symbol * shape.width,), "load", shape.width)
        load = Load(held.one(number.symbol), there)
        own = shared_loop_variable("r", (0, shape.rows - 1), lowering)
        row = define(self.row.name, first + own.symbol, lowering)
        limit(row.index, self.found.extent(self.row), lowering)
        lowering.symbols[self.row.name] = row.index.symbol

        def element(along: Integer) -> Component:
            place = own.symbol * shape.length + along
            return held.one(FloorDiv(place, width)).component(Mod(place, width))

        body, vectors, stores = self._wide(self._row(element), first, own.symbol)
        rows = (row, *body) if mentions(body, row.index) else body
        return (
            Let(held, None, mutable=True),
            For(Loop(number, integer(0), integer(shape.vectors), unroll=True), (load,)),
            *(Let(vector, None, mutable=True) for vector in vectors),
            For(Loop(own, integer(0), integer(shape.rows), unroll=True), rows),
            *stores,
        )

    def _rest(self, first: Integer) -> tuple[Node, ...]:
        """The last rows, element by element."""
        lowering, extent = self.lowering, self.found.extent(self.row)
        last = max(bounds(extent, lowering.ranges)[1] - 1, 0)
        row = Index(lowering.names.allocate(self.row.name), first, (0, last))
        lowering.ranges[row.symbol] = row.range
        lowering.limits[row.symbol] = extent
        lowering.symbols[self.row.name] = row.symbol
        return (For(Loop(row, first, extent, rolled=True), self._row(None)),)

    def _row(self, element: Callable[[Integer], Component] | None) -> tuple[Node, ...]:
        """One row's reductions, and what follows from them."""
        lowering, along = self.lowering, self.stage.fastest
        scope = Scope()
        scope.nodes += [node for run in self.runs for node in first_values(run)]
        index = shared_loop_variable(along.name, (0, self.shape.length - 1), lowering)
        lowering.symbols[along.name] = index.symbol
        inner = Scope(scope, frozenset((along.name,)))
        if element is not None:
            inner.remember(self.read, named(self.read, element(index.symbol), self.stage, lowering, inner))
        length = integer(self.shape.length)
        take(Terms(self.stage, self.runs, integer(0), length, (), ()), lowering, inner)
        scope.nodes.append(For(Loop(index, integer(0), length, unroll=True), tuple(inner.nodes)))
        del lowering.symbols[along.name]
        for reduction, value in results_of(self.stage, self.runs).items():
            scope.remember(reduction, value)
        lower_statements(self.found.request, lowering, scope)
        return tuple(scope.nodes)

    def _wide(
        self, nodes: tuple[Node, ...], first: Integer, row: Integer
    ) -> tuple[tuple[Node, ...], list[Vector], list[Node]]:
        """The nodes, with results kept in vectors where one access can store those of all rows; these; their stores."""
        vectors: list[Vector] = []
        stores: list[Node] = []
        kept: list[Node] = []
        for node in nodes:
            if isinstance(node, Store) and is_stored_wide(node.access.array, self.shape):
                dtype = node.access.array.dtype
                wish = f"{node.access.array.symbol}{self.shape.rows}"
                vector = Vector(self.lowering.names.allocate(wish), dtype.compute, dtype, self.shape.rows)
                vectors.append(vector)
                stores.append(Store(Access(node.access.array, (first,), "store", self.shape.rows), vector))
                node = Assign(vector.component(row), node.value)
            kept.append(node)
        return tuple(kept), vectors, stores


def is_stored_wide(array: Array, shape: ShortShape) -> bool:
    """Whether one access stores the results of a thread's rows."""
    return array.strides == (1,) and 1 < shape.rows and shape.rows * array.dtype.bytes <= WIDEST
