"""Reductions over channels: a loop that reloads the register windows, with an accumulator per output of a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.families.stencil.footprint import ChannelReduction
from cugen.families.stencil.register_window import RegisterWindow
from cugen.families.stencil.window_loads import load_window
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.vector_body import mentions_of
from cugen.plan.lowering.reductions import ACCUMULATORS, combine, identity, reduce_onto
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import Accumulate, Declare, For, Let, Loop, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, Local, Read, Reduce, Select, free_indices, walk

if TYPE_CHECKING:
    from cugen.families.stencil.kernel import StencilBuilder


ARRAY_NAMES = {"sum": "sums", "prod": "products"}


class ChannelAccumulators:
    """The accumulators of a channel reduction in registers, one per output of the thread."""

    def __init__(self, builder: StencilBuilder, channels: ChannelReduction) -> None:
        self.builder, self.channels, self.lowering = builder, channels, builder.lowering
        config = builder.config
        self.names = [index.name for index in reversed(config.order) if config.outputs.get(index.name, 1) > 1]
        name = self.lowering.names.allocate(ARRAY_NAMES.get(channels.reduction.kind, "results"))
        counts = [config.outputs[name] for name in self.names] or [1]
        self.array = dense_array(name, channels.reduction.dtype, counts, "register")
        self.initial = identity(channels.reduction.kind, channels.reduction.dtype)

    def reloaded(self, windows: list[RegisterWindow]) -> tuple[RegisterWindow, ...]:
        """The windows that depend on a channel."""
        names = [index.name for index in self.channels.channels]
        return tuple(w for w in windows if any(axis.index in names for axis in w.footprint.axes))

    def loop(
        self, reloaded: tuple[RegisterWindow, ...], origins: Mapping[str, Integer]
    ) -> tuple[tuple[Node, ...], tuple[For]]:
        """The initial accumulators, and the loop over the channels: it reloads windows and accumulates all outputs."""
        lowering = self.lowering
        loops: list[Loop] = []
        channel_origins = dict(origins)
        for index in self.channels.channels:
            extent = self.builder.context.extent(index)
            counter = loop_variable(index.name, extent, lowering)
            lowering.symbols[index.name] = channel_origins[index.name] = counter.symbol
            lowering.set_offset(index.name, integer(0))
            loops.append(Loop(counter, integer(0), extent))
        with lowering.block():
            loads = tuple(load_window(lowering, w, channel_origins) for w in reloaded)
            unchecked = self._unchecked(reloaded)
            body = (Section("windows", loads), *self.builder.each_row(origins, self._accumulate_row, unchecked))
        for loop in reversed(loops[1:]):
            body = (Section("inner_loop", (For(loop, body),)),)
        channel_loop = (For(loops[0], body),)
        if not self.initial.value:
            return (Declare(self.array, zeroed=True),), channel_loop
        return (Declare(self.array), *self.builder.each_row(origins, self._initialise_row)), channel_loop

    def _unchecked(self, reloaded: tuple[RegisterWindow, ...]) -> frozenset[str]:
        """The indices of outputs out of bounds whose terms are computed, too, since that reads registers alone."""
        windowed = {read for window in reloaded for read in window.footprint.reads}
        reads = (node for node in walk(self._term()) if isinstance(node, Read) and node not in windowed)
        used = frozenset[str]().union(*map(free_indices, reads))
        return frozenset(index.name for index in self.builder.config.order if index.name not in used)

    def _accumulator(self, kind: str) -> Access:
        subscripts = tuple(self.lowering.output_offsets[name] for name in self.names) or (integer(0),)
        return Access(self.array, subscripts, kind)

    def _initialise_row(self, scope: Scope, first: Integer) -> None:
        self.builder.each_output(
            scope, first, lambda inner: inner.nodes.append(Store(self._accumulator("store"), self.initial))
        )

    def _accumulate_row(self, scope: Scope, first: Integer) -> None:
        self.builder.each_output(scope, first, self._accumulate_output, (self._term(),))

    def _term(self) -> Expr:
        """The term of one channel: the reduction over its taps."""
        reduction = self.channels.reduction
        if self.channels.taps:
            return replace(reduction, indices=self.channels.taps)
        if reduction.where is None:
            return reduction.body
        return Select(reduction.where, reduction.body, self.initial, reduction.dtype)

    def _accumulate_output(self, scope: Scope) -> None:
        term = self._term()
        self.lowering.prepare((term,))
        old = Element.of(self._accumulator("load"))
        if isinstance(term, Reduce) and term.dtype.is_float:  # an integer's range is that of the terms of a channel
            result = reduce_onto(self.lowering, term, old, scope)
            scope.nodes.append(Store(self._accumulator("store"), result))
            return
        value = self.lowering.lower(term, scope)
        if self.channels.reduction.kind == "sum" and old.dtype.is_float:
            scope.nodes.append(Accumulate(self._accumulator("store"), value))
        else:
            scope.nodes.append(Store(self._accumulator("store"), combine(self.channels.reduction.kind, old, value)))

    def load_result(self, scope: Scope) -> None:
        """The result of the scope's output, under a name if it is used more than once."""
        kind, result = self.channels.reduction.kind, Element.of(self._accumulator("load"))
        if mentions_of(self.channels.reduction, [s.value for s in self.builder.request.group.statements]) == 1:
            scope.remember(self.channels.reduction, result)
            return
        local = Local(self.lowering.names.allocate({"sum": "total"}.get(kind, ACCUMULATORS[kind])), self.array.dtype)
        scope.nodes.append(Let(local, result))
        scope.remember(self.channels.reduction, local)
