"""The kernel of a correlation: the block fills tiles, along which the register windows of its threads slide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import sympy

from cugen.families.staged.correlation.conditions import guard_of_all
from cugen.families.staged.correlation.config import CorrelationConfig
from cugen.families.staged.correlation.products import products
from cugen.families.staged.correlation.recognition import Correlation
from cugen.families.staged.correlation.stores import RowStores
from cugen.families.staged.correlation.tile import SlidingTile, Windows, fill_sliding_tile, make_sliding_tile
from cugen.families.staged.kernel import StagedBuilder
from cugen.families.staged.slices import Slices
from cugen.families.staged.thread_outputs import ThreadOutputs
from cugen.families.staged.tile import Tile
from cugen.families.staged.tile_walk import TileWalk
from cugen.families.staged.walk import Walk
from cugen.pieces.blocks import define, define_index, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import index_loop_variable, loop_variable, shared_loop_variable, unrolled
from cugen.plan.lowering.reductions import accumulate
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Assign,
    Barrier,
    Declare,
    For,
    Guard,
    If,
    Index,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_guard, to_integer
from cugen.plan.symbols import Integer, Maximum, Minimum, bounds, ceil_div, integer
from cugen.plan.traversal.sections import has_sections
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read, Reduce, conjunction, conjuncts
from cugen.spec.types import BOOL, INT32


class CorrelationBuilder(StagedBuilder):
    """Builds the kernel of one group of statements."""

    family = "correlation"

    def __init__(self, request: Request, correlation: Correlation, config: CorrelationConfig) -> None:
        super().__init__(request, config.staged)
        self.correlation, self.windows = correlation, config
        self.sliding: dict[Read, SlidingTile] = {}

    def walk_sections(self, walk: Walk, blocks: Mapping[str, Integer]) -> tuple[Section, ...]:
        return CorrelationWalk(self, walk, self.windows).sections(blocks)

    def tiles(
        self,
        tiles: Sequence[Tile],
        blocks: Mapping[str, Integer],
        origins: Scope,
        known: Mapping[sympy.Symbol, int] | None = None,
    ) -> tuple[Section, ...]:
        """As of all staged kernels, and those along which windows slide."""
        dimensions = self.windows.dimensions
        sliding = [tile for tile in tiles if self.windows.slides_along(tile)]
        plain = [tile for tile in tiles if tile not in sliding]
        declared, copies, _ = super().tiles(plain, blocks, origins, known)
        made: list[SlidingTile] = []
        for tile in sliding:
            thread_stride = self.windows.thread_stride(tile.array)
            memory, along = self.context.spec.array(tile.array).memory, dimensions[tile.array]
            made.append(make_sliding_tile(self.lowering, tile, memory, along, thread_stride, blocks, origins))
            self.sliding |= dict.fromkeys(tile.reads, made[-1])
            self.lowering.staged |= dict.fromkeys(tile.reads, made[-1])
        declarations = (*declared.body, *(Declare(tile.array) for tile in made))
        filled = (
            *copies.body,
            *(fill_sliding_tile(self.lowering, tile, self.block, self.context) for tile in made),
        )
        return (
            Section("tiles", declarations),
            Section("copies", filled),
            Section("tiles_stored", (Barrier(),) if tiles else ()),
        )

    def reason(self) -> str:
        elements = ", ".join(f"{w.count} of {w.array}" for w in self.windows.windows)
        outputs, taps = self.windows.outputs, self.windows.taps
        return f"register windows of {elements} for {outputs} outputs and {taps} terms; {super().reason()}"


@dataclass(frozen=True, slots=True)
class _Window:
    """A window with its registers."""

    windows: Windows
    array: Array


class CorrelationWalk(TileWalk):
    """Accumulates the terms of a tile, those of a window at a time."""

    def __init__(self, builder: CorrelationBuilder, walk: Walk, config: CorrelationConfig) -> None:
        super().__init__(builder, walk)
        self.sliding, self.taps, self.per_thread = builder.sliding, config.taps, config.outputs
        self.term, self.others = builder.correlation.term, builder.correlation.indices[:-1]
        self.windows = [_Window(windows, self._registers(windows)) for windows in config.windows]

    def _registers(self, windows: Windows) -> Array:
        source = self.lowering.arrays[windows.array]
        symbol = self.lowering.names.allocate(f"{windows.array.lower()}_window")
        # Narrow integers are converted once, not for each of their terms.
        is_narrow = source.dtype.is_integer and source.dtype.bits < INT32.bits
        dtype = INT32 if is_narrow else source.dtype.compute
        registers = dense_array(symbol, dtype, [windows.count], "register")
        return replace(registers, name=windows.array)

    def _is_whole(self) -> bool:
        extent = self.builder.context.static(self.extent)
        return extent is not None and extent <= self.walk.step

    def _add_terms(
        self,
        first: Integer,
        each: Scope,
        targets: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
        slices: Slices,
    ) -> None:
        loops: list[tuple[Scope, Loop, Scope]] = []
        scope = each
        for index in self.others:
            scope = self._loop_over(index, first, scope, loops)
        start = self._each_window(first, slices, scope, loops)
        self._window(*start, loops[-1][2] if loops else scope, targets, outputs)
        for parent, loop, body in reversed(loops):
            parent.nodes.append(For(loop, tuple(body.nodes)))

    def _accumulated(self, nodes: Sequence[Node]) -> tuple[Section, ...]:
        """A loop, or the loads of windows and their terms, and what is before and after these."""
        parts: list[Section] = []
        for is_part, run in groupby(nodes, has_sections):
            if not is_part:
                parts.append(Section("total" if parts else "start", tuple(run)))
                continue
            for node in run:
                match node:
                    case For():
                        parts.append(Section("loop", (replace(node, body=self._accumulated(node.body)),)))
                    case Section():
                        parts.append(node)
        return tuple(parts)

    def _loop_over(
        self, index: spec.Index, first: Integer, scope: Scope, loops: list[tuple[Scope, Loop, Scope]]
    ) -> Scope:
        """A loop over all values of another index of the reductions, or over those in the tile."""
        lowering, extent = self.lowering, to_integer(index.extent, self.lowering.symbols)
        if index.name != self.walk.index.name:
            values = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
            variable = index_loop_variable(index.name, values, lowering)
            lowering.symbols[index.name] = variable.symbol
            lowering.limits[variable.symbol] = extent
            is_certain = bounds(extent, lowering.ranges)[0] >= 1
            inner = Scope(scope, frozenset((index.name,)), certain=is_certain, is_loop=True)
            loops.append((scope, Loop(variable, integer(0), extent), inner))
            return inner
        is_whole = divides(self.walk.step, self.extent, self.builder.context)
        stop = integer(self.walk.step) if is_whole else Minimum(integer(self.walk.step), self.extent - first)
        variable = loop_variable(f"{index.name}_step", self.walk.step, lowering)
        inner = Scope(scope, frozenset((index.name,)), is_loop=True)
        lowering.local[index.name] = variable.symbol
        inner.nodes.append(define_index(index.name, first + variable.symbol, self.extent, lowering))
        loops.append((scope, Loop(variable, integer(0), stop), inner))
        return inner

    def _each_window(
        self, first: Integer, slices: Slices, scope: Scope, loops: list[tuple[Scope, Loop, Scope]]
    ) -> tuple[Integer, Integer]:
        """A loop over the windows of a tile, unless it has one; the first term of a window in the tile, and of all."""
        taps, lowering = self.taps, self.lowering
        extent = self.builder.context.extent(self.term)
        is_walked = self.walk.index.name == self.term.name
        base = slices.number * slices.step if is_walked else integer(0)
        origin = first + base if is_walked else integer(0)
        longest = slices.step if is_walked else bounds(extent, lowering.ranges)[1]
        count = -(-longest // taps)
        if count == 1:
            return base, origin
        remaining = extent - origin
        is_whole = self.builder.context.static(extent) is not None and (
            not is_walked or divides(self.walk.step, extent, self.builder.context)
        )
        if bounds(remaining, lowering.ranges)[0] < 0:  # of slices beyond the last term
            remaining = Maximum(remaining, integer(0))
        stop = integer(count) if is_whole else Minimum(integer(count), ceil_div(remaining, taps))
        variable = loop_variable(f"{self.term.name}_window", count, lowering)
        inner = Scope(scope, frozenset((self.term.name,)), is_loop=True)
        loops.append((scope, Loop(variable, integer(0), stop), inner))
        return base + taps * variable.symbol, origin + taps * variable.symbol

    def _window(
        self,
        in_tile: Integer,
        first: Integer,
        scope: Scope,
        targets: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
    ) -> None:
        """Loads the windows of the thread and accumulates their terms; without a test where all conditions hold for all
        of them. `in_tile`, `first`: the window's first term, in the tile and of all."""
        tap = shared_loop_variable("tap", (0, self.taps - 1), self.lowering)
        start = len(scope.nodes)
        for window in self.windows:
            self._load(window, in_tile, scope)
            self._hold(window, tap.symbol, outputs)
        end = len(scope.nodes)
        self._add_window(tap, in_tile, first, scope, targets, outputs)
        loads, adds = scope.nodes[start:end], scope.nodes[end:]
        scope.nodes[start:] = [Section("load_windows", tuple(loads)), Section("add_windows", tuple(adds))]

    def _add_window(
        self,
        tap: Index,
        in_tile: Integer,
        first: Integer,
        scope: Scope,
        targets: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
    ) -> None:
        """Accumulates the terms of the windows that are loaded."""
        taps = self.taps
        is_whole = divides(taps, self.builder.context.extent(self.term), self.builder.context)
        is_term = Op("lt", (IndexValue(self.term.name), self.term.extent), BOOL)
        conditions = {r: (*conjuncts(r.where), *(() if is_whole else (is_term,))) for r in targets}
        everywhere = self._everywhere(conditions, first + tap.symbol, tap.symbol, outputs)

        def add(where: Mapping[Reduce, Sequence[Expr]], branch: Scope) -> tuple[Node, ...]:
            self._accumulate_taps(tap, in_tile, first, where, targets, outputs, branch)
            return tuple(branch.nodes)

        if everywhere is None:
            add(conditions, scope)
            return
        others = {
            r: [c for c in where if self._guard(c, first + tap.symbol, outputs) is None]
            for r, where in conditions.items()
        }
        if not everywhere.terms:
            add(others, scope)
            return
        each = add(conditions, Scope(scope, certain=False))
        scope.nodes.append(If(everywhere, add(others, Scope(scope, certain=False)), each))

    def _guard(self, condition: Expr, term: Integer, outputs: ThreadOutputs) -> Guard | None:
        """The condition for an output of the thread and a term; None if it depends on data."""
        along = self.config.order[0].name
        output = self.lowering.symbols[along]
        if along in outputs.counters:
            output = outputs.firsts[along] + outputs.counters[along].symbol
        return to_guard(condition, {**self.lowering.symbols, along: output, self.term.name: term})

    def _everywhere(
        self,
        conditions: Mapping[Reduce, Sequence[Expr]],
        term: Integer,
        tap: sympy.Symbol,
        outputs: ThreadOutputs,
    ) -> Guard | None:
        """The guard under which all conditions over indices hold for all terms of a window and outputs of a thread;
        None where there is no such condition, or no such guard."""
        guards = [self._guard(c, term, outputs) for c in dict.fromkeys(c for cs in conditions.values() for c in cs)]
        terms = tuple(term for guard in guards if guard is not None for term in guard.terms)
        along = self.config.order[0].name
        counts = {tap: self.taps}
        if along in outputs.counters:
            counts[outputs.counters[along].symbol] = self.per_thread
        guard = guard_of_all(Guard(terms), counts) if terms else None
        return None if guard is None else self.lowering.needed(guard)

    def _accumulate_taps(
        self,
        tap: Index,
        in_tile: Integer,
        first: Integer,
        where: Mapping[Reduce, Sequence[Expr]],
        targets: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
        scope: Scope,
    ) -> None:
        """The unrolled loop over the terms of a window, in it that over the outputs of the thread."""
        lowering, name = self.lowering, self.term.name
        inner = Scope(scope, frozenset((name,)))
        index = define(name, first + tap.symbol, lowering)
        inner.nodes.append(index)
        lowering.symbols[name] = index.index.symbol
        lowering.local[name] = in_tile + tap.symbol

        def term(each: Scope) -> None:
            for reduction, (target, _) in targets.items():
                condition = conjunction(where[reduction])
                addends = products(reduction) if condition is None else ()
                for operation, product in addends:
                    value = lowering.lower(product, each)
                    each.nodes.append(Assign(target, Op(operation, (target, value), target.dtype)))
                if not addends:
                    accumulate(lowering, replace(reduction, where=condition), target, each)

        outputs.each(inner, term)
        scope.nodes.append(unrolled(tap, inner.nodes))

    def _load(self, window: _Window, in_tile: Integer, scope: Scope) -> None:
        """Loads a window from the tile."""
        lowering, (along, *_) = self.lowering, self.config.order
        first, low = window.windows.first, window.windows.low
        tile = self.sliding[first.read]
        column = shared_loop_variable("column", (0, window.windows.count - 1), lowering)
        threads = thread(AXES[0], self.config.threads.get(along.name, 1), lowering)
        start = low - tile.tile.sides[first.dimension].low
        position = first.scale * self.per_thread * threads + first.step * in_tile + start + column.symbol
        element = Element.of(tile.element(first.read, position, {**lowering.symbols, **lowering.local}))
        store = Store(Access(window.array, (column.symbol,), "store"), element)
        scope.nodes += [Declare(window.array), unrolled(column, (store,))]

    def _hold(self, window: _Window, tap: sympy.Symbol, outputs: ThreadOutputs) -> None:
        """Lets the reads of a window be lowered to its registers."""
        along = self.config.order[0].name
        output = outputs.counters[along].symbol if along in outputs.counters else integer(0)
        for read in window.windows.reads:
            element = read.scale * output + read.step * tap + read.offset - window.windows.low

            def value(element: Integer = element) -> Element:
                return Element.of(Access(window.array, (element,), "load"))

            self.lowering.in_registers[read.read] = value

    def _store_outputs(
        self, scope: Scope, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs, slices: Slices
    ) -> None:
        """As of all walks, but consecutive outputs are stored as vectors."""
        stores = RowStores(self.builder.request, self.config, self.lowering, outputs)
        stores.store(scope, lambda inner: self._compute_output(inner, results, outputs, slices))
