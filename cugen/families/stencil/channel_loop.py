"""Reductions over channels and the like: windows move along them, and every output of a thread has a running value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy

from cugen.families.stencil.footprint import Walk
from cugen.families.stencil.register_window import Held
from cugen.plan.lowering.reductions import ACCUMULATORS, combine, identity
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Accumulate, Declare, For, Index, Let, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds, integer
from cugen.spec.expressions import Expr, Local, Select

if TYPE_CHECKING:
    from cugen.families.stencil.kernel import Builder


_NAMES = {"sum": "sums", "prod": "products"}


class Sums:
    """Running values of a reduction whose windows move: one for each of the thread's outputs, in registers."""

    def __init__(self, builder: Builder, walk: Walk) -> None:
        self.builder, self.found, self.lowering = builder, walk, builder.lowering
        shape = builder.shape
        self.several = [index.name for index in reversed(shape.order) if shape.outputs.get(index.name, 1) > 1]
        counts = [integer(shape.outputs[name]) for name in self.several] or [integer(1)]
        strides = [sympy.Mul(*counts[position + 1 :]) for position in range(len(counts))]
        name = self.lowering.names.allocate(_NAMES.get(walk.reduction.kind, "results"))
        self.array = Array("", name, walk.reduction.dtype, tuple(counts), tuple(strides), "register", flat=False)

    def windows(self, held: list[Held]) -> tuple[Held, ...]:
        """The windows that move."""
        names = [index.name for index in self.found.walked]
        return tuple(one for one in held if any(axis.index in names for axis in one.window.axes))

    def walk(self, moving: tuple[Held, ...], origins: Mapping[str, Integer]) -> tuple[Node, ...]:
        """The loops over the walked indices; in each step all outputs take what the windows hold."""
        lowering = self.lowering
        first = identity(self.found.reduction.kind, self.found.reduction.dtype)
        loops: list[Loop] = []
        places = dict(origins)
        for index in self.found.walked:
            extent = to_integer(index.extent, lowering.symbols)
            last = max(bounds(extent, lowering.ranges)[1] - 1, 0)
            counter = Index(lowering.names.allocate(index.name), integer(0), (0, last))
            lowering.ranges[counter.symbol], lowering.limits[counter.symbol] = counter.range, extent
            lowering.symbols[index.name] = places[index.name] = counter.symbol
            lowering.places[index.name] = integer(0)
            loops.append(Loop(counter, integer(0), extent))
        with lowering.block():
            loads = [node for one in moving for node in self.builder.load(one, places)]
            body = (*loads, *self.builder.each_row(origins, self._add))
        for loop in reversed(loops):
            body = (For(loop, body),)
        if not first.value:
            return (Declare(self.array, zeroed=True), *body)
        return (Declare(self.array), *self.builder.each_row(origins, self._first), *body)

    def _cell(self, kind: str) -> Access:
        places = tuple(self.lowering.places[name] for name in self.several) or (integer(0),)
        return Access(self.array, places, kind)

    def _first(self, scope: Scope, first: Integer) -> None:
        value = identity(self.found.reduction.kind, self.found.reduction.dtype)
        self.builder.each_output(scope, first, lambda inner: inner.nodes.append(Store(self._cell("store"), value)))

    def _add(self, scope: Scope, first: Integer) -> None:
        self.builder.each_output(scope, first, self._add_one, (self._step(),))

    def _step(self) -> Expr:
        """What one step adds: the reduction over what the windows hold."""
        whole = self.found.reduction
        if self.found.rest:
            return replace(whole, indices=self.found.rest)
        return (
            whole.body
            if whole.where is None
            else Select(whole.where, whole.body, identity(whole.kind, whole.dtype), whole.dtype)
        )

    def _add_one(self, scope: Scope) -> None:
        step = self._step()
        self.lowering.prepare((step,))
        value = self.lowering.lower(step, scope)
        old = Element.of(self._cell("load"))
        if self.found.reduction.kind == "sum" and old.dtype.is_float:
            scope.nodes.append(Accumulate(self._cell("store"), value))
        else:
            scope.nodes.append(Store(self._cell("store"), combine(self.found.reduction.kind, old, value)))

    def recall(self, scope: Scope) -> None:
        """The result for the output of this scope, under a name."""
        kind = self.found.reduction.kind
        local = Local(self.lowering.names.allocate({"sum": "total"}.get(kind, ACCUMULATORS[kind])), self.array.dtype)
        scope.nodes.append(Let(local, Element.of(self._cell("load"))))
        scope.remember(self.found.reduction, local)
