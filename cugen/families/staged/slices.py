"""Slices of a walk: rows of threads that take a part of each tile, and the combination of their partial results."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.families.staged.config import StagedConfig, has_slices_in_warps
from cugen.families.staged.lowering import StagedLowering
from cugen.families.staged.thread_outputs import ThreadOutputs
from cugen.pieces.blocks import define, thread
from cugen.pieces.grid import AXES
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element, row_major
from cugen.plan.nodes import Assign, Barrier, Declare, For, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, Minimum, ceil_div, integer
from cugen.spec.expressions import Local, Reduce


class Slices:
    """The thread's slice of a tile: its `step` values of the walk's index from `first` on, `stride` apart.

    Slices are contiguous where each has whole warps. Those of one warp alternate: its lanes then read consecutive
    elements, in different banks, in place of elements that are a slice apart."""

    def __init__(self, config: StagedConfig, lowering: StagedLowering, step: int) -> None:
        self.config, self.lowering, self.count = config, lowering, config.slices
        self.step = step // self.count
        self.stride = self.count if has_slices_in_warps(config) else 1
        self.number = thread(AXES[config.slice_axis], self.count, lowering) if self.count > 1 else integer(0)
        self.first: Integer = integer(0)
        self.definitions: tuple[Node, ...] = ()
        if self.count > 1:  # by name: sums with threadIdx are unsigned, and no displacements of a load
            first = define("slice_first", self.number * (self.step if self.stride == 1 else 1), lowering)
            self.first, self.definitions = first.index.symbol, (first,)
        self.declarations: tuple[Node, ...] = ()
        self._partials: dict[Reduce, Array] = {}

    def position(self, counter: Integer) -> Integer:
        """The value of the walk's index in the tile, by the step of the slice."""
        return self.first + self.stride * counter

    def stop(self, remaining: Integer) -> Integer:
        """The steps of the slice in a tile with `remaining` values of the index from its first one on."""
        return Minimum(integer(self.step), ceil_div(remaining - self.first, self.stride))

    def store(
        self, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs
    ) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The stores of all partial results to shared memory, and the barrier after them."""
        if self.count == 1:
            return (), ()
        shape = tuple(map(integer, (self.count, *(self.config.span(index.name) for index in self.config.order))))
        for reduction, (local, _) in results.items():
            symbol = self.lowering.names.allocate(f"slices_of_{local.name}")
            self._partials[reduction] = Array(
                symbol, symbol, local.dtype, shape, row_major(shape), "shared", flat=False
            )
        self.declarations = tuple(Declare(array) for array in self._partials.values())
        scope = Scope()

        def store(inner: Scope) -> None:
            for reduction, (local, _) in results.items():
                inner.nodes.append(Store(self._access(reduction, self.number, outputs, "store"), local))

        outputs.each(scope, store)
        return tuple(scope.nodes), (Barrier(),)

    def combine(self, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs, scope: Scope) -> None:
        """Combines the partial results of the other slices into those of the first."""
        if self.count == 1:
            return
        number = shared_loop_variable("slice", (1, self.count - 1), self.lowering)
        nodes: list[Node] = []
        for reduction, (local, _) in results.items():
            partial = Element.of(self._access(reduction, number.symbol, outputs, "load"))
            nodes.append(Assign(local, combine(reduction.kind, local, partial)))
        scope.nodes.append(For(Loop(number, integer(1), integer(self.count), unroll=True), tuple(nodes)))

    def _access(self, reduction: Reduce, number: Integer, outputs: ThreadOutputs, kind: str) -> Access:
        output = (outputs.coordinates[index.name] for index in self.config.order)
        return Access(self._partials[reduction], (number, *output), kind)
