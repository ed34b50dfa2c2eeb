"""Stores of a thread's consecutive outputs: vectors of a row, or of the structures that they are fields of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cugen.families.staged.config import StagedConfig
from cugen.families.staged.thread_outputs import ThreadOutputs
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.pieces.structures.recognition import stored_structures
from cugen.pieces.structures.runs import Run, run_of
from cugen.pieces.vector_body import RunVectors, gather_stores, with_assigned_fields
from cugen.pieces.vectors import widest_at
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Vector
from cugen.plan.nodes import Define, Guard, If, Index, Let, Node, Store, when
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import access_of
from cugen.plan.symbols import Integer
from cugen.spec.model import Statement


@dataclass(frozen=True)
class RowStores:
    """Stores the outputs of a thread along rows, where it has several."""

    request: Request
    config: StagedConfig
    lowering: Lowering
    outputs: ThreadOutputs

    def store(self, scope: Scope, compute: Callable[[Scope], None]) -> None:
        """Runs `compute` for each output, and stores what it stores: in vectors where they are aligned."""
        if self.index not in self.outputs.counters:
            self.outputs.each(scope, compute, is_guarded=True)
            return
        widths = [self.count >> n for n in range(self.count.bit_length() - 1)]
        runs: tuple[Run, ...] = ()
        width = self._width()
        if width == 1:
            width, runs = next(((n, runs) for n in widths if (runs := self._runs(n))), (1, ()))
        if width == 1:
            self.outputs.each(scope, compute, is_guarded=True)
            return
        guarded = Scope(scope, certain=False) if self.outputs.terms else scope
        self._store(guarded, width, runs, compute)
        if guarded is not scope:
            scope.nodes.append(If(Guard(tuple(self.outputs.terms)), tuple(guarded.nodes)))

    @property
    def index(self) -> str:
        return self.config.order[0].name

    @property
    def count(self) -> int:
        return self.config.outputs[self.index]

    @property
    def extent(self) -> Integer:
        return self.request.context.extent(self.config.order[0])

    def _width(self) -> int:
        """The outputs that one access stores."""
        context = self.request.context
        stores = ((context.arrays[s.target], s.subscripts) for s in self.request.stored_statements())
        widths = (widest_at(array, subscripts, self.index, context).count for array, subscripts in stores)
        return math.gcd(self.count, *widths)

    def _runs(self, width: int) -> tuple[Run, ...]:
        """The structures of `width` outputs, whose fields are all results; none where others are stored, too."""
        context, (index, *_) = self.request.context, self.config.order
        structures = stored_structures(self.request, context.arrays, index)
        fields = {field for structure in structures for field in structure.fields}
        if any((s.target, s.subscripts) not in fields for s in self.request.stored_statements()):
            return ()
        runs = [run_of(structure, self.index, width, context) for structure in structures]
        return tuple(run for run in runs if run is not None and run.is_whole) if all(runs) else ()

    def _store(self, scope: Scope, width: int, runs: tuple[Run, ...], compute: Callable[[Scope], None]) -> None:
        """The outputs and their stores, `width` at a time."""
        counter, first = self.outputs.counters[self.index], self.outputs.firsts[self.index]
        is_part = width < self.count
        part = shared_loop_variable("part", (0, self.count // width - 1), self.lowering)
        lane = shared_loop_variable("v", (0, width - 1), self.lowering) if is_part else counter
        outer = Scope(scope, frozenset((self.index,))) if is_part else scope
        inner = Scope(outer, frozenset((self.index,)))
        if is_part:
            first += width * part.symbol
            inner.nodes.append(Define(replace(counter, definition=width * part.symbol + lane.symbol)))
        inner.nodes += self.outputs.definitions(self.index)
        compute(inner)
        moved = self._structures(inner.nodes, runs, lane, first) if runs else self._vectors(inner.nodes, lane, first)
        outer.nodes += moved
        if is_part:
            scope.nodes.append(unrolled(part, outer.nodes))

    def _vectors(self, nodes: Sequence[Node], lane: Index, first: Integer) -> list[Node]:
        """The nodes of an output in a loop over those of a vector, and the stores: of single elements where the vector
        is partly out of bounds."""
        width = lane.range[1] + 1
        body, gathered = gather_stores(nodes, self.request, lane, self.lowering)

        def store(statement: Statement, vector: Vector) -> Node:
            element = Store(self._target(statement, first + lane.symbol, 1), vector.component(lane.symbol))
            whole = Store(self._target(statement, first, width), vector)
            return self._inside((whole,), (element,), first, lane)[0]

        declared = [Let(vector, None, mutable=True) for vector in gathered.vectors]
        return [*declared, unrolled(lane, body), *gathered.stores(self.lowering, store)]

    def _structures(self, nodes: Sequence[Node], runs: Sequence[Run], lane: Index, first: Integer) -> list[Node]:
        """The same of structures of which all fields are stored."""
        statements = self.request.stored_statements()
        vectors = [RunVectors.of(run, run.structure.array.name, self.lowering) for run in runs]
        components = {
            field: moved.component(lane.symbol, number)
            for moved in vectors
            for field, number in moved.run.structure.fields.items()
        }
        declared = [node for moved in vectors for node in moved.declarations()]
        body = with_assigned_fields(nodes, statements, components)
        symbols = {**self.lowering.symbols, self.index: first}
        whole = tuple(node for moved in vectors for node in moved.store(symbols, {}, self.lowering))
        single = tuple(
            Store(self._target(s, first + lane.symbol, 1), components[s.target, s.subscripts]) for s in statements
        )
        return [*declared, unrolled(lane, body), *self._inside(whole, single, first, lane)]

    def _inside(
        self, whole: tuple[Node, ...], single: tuple[Node, ...], first: Integer, lane: Index
    ) -> tuple[Node, ...]:
        """The stores of a vector's outputs where all are in bounds, else of each `single` one that is."""
        context, extent, width = self.request.context, self.extent, lane.range[1] + 1
        if divides(self.config.span(self.index), extent, context):
            return whole
        if divides(width, extent, context):
            return (when(first, "<", extent, whole),)
        each = unrolled(lane, (when(first + lane.symbol, "<", extent, single),))
        return (when(first + width, "<=", extent, whole, (each,)),)

    def _target(self, statement: Statement, output: Integer, count: int) -> Access:
        symbols = {**self.lowering.symbols, self.index: output}
        return access_of(self.lowering.arrays[statement.target], statement, symbols, "store", count)
