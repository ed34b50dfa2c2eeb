"""The loop over the tiles of a walk: fill them, accumulate their terms, and take the next ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sympy

from cugen.families.staged.operands import Operand, register_operands
from cugen.families.staged.slices import Slices
from cugen.families.staged.thread_outputs import ThreadOutputs
from cugen.families.staged.thread_tile import operations_of
from cugen.families.staged.walk import UNROLL, Walk
from cugen.pieces.blocks import define_index
from cugen.pieces.grid import divides
from cugen.pieces.loop_variables import index_loop_variable, loop_variable
from cugen.pieces.statements import lower_statements
from cugen.plan.intervals import fits, interval
from cugen.plan.lowering.reductions import (
    accumulate_together,
    begin_position,
    combine,
    declare_accumulators,
    index_bound,
)
from cugen.plan.nodes import Assign, Barrier, Comparison, For, Guard, If, Index, Loop, Node, Section
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Minimum, bounds, integer
from cugen.spec.expressions import Cast, Expr, Local, Reduce, bound_indices, conjuncts, free_indices, walk
from cugen.spec.types import FLOAT32, INT32, INT64

if TYPE_CHECKING:
    from cugen.families.staged.kernel import StagedBuilder

# Of the steps of a walk, as they are executed: with slow paths of functions their code is twice as long, and fits an
# instruction cache of 32 KB (heuristic).
MAX_UNROLLED_INSTRUCTIONS = 1024
UNROLL_NESTED = 4  # of one with loops in each step (heuristic)

# A running sum in float32 of more terms has partial sums per tile, so that rounding errors don't add up: of 1024 terms
# they cost at most 10 of the 24 bits.
MAX_PLAIN_TERMS = 1024


class TileWalk:
    """Builds the sections of a kernel that walks."""

    def __init__(self, builder: StagedBuilder, walk: Walk) -> None:
        self.builder, self.walk = builder, walk
        self.lowering, self.config = builder.lowering, builder.config
        self.extent = builder.context.extent(walk.index)
        # Of the terms: less than the extent where a condition bounds the index.
        self.end: Integer = self.extent
        self.end_condition: Expr | None = None

    def sections(self, blocks: Mapping[str, Integer]) -> tuple[Section, ...]:
        """The sections of templates/staged.cu.j2. `blocks`: the block's coordinates, by index."""
        lowering, name = self.lowering, self.walk.index.name
        moving = [t for t in self.config.tiles if any(name in dict(side.steps) for side in t.sides)]
        outer, origins = Scope(), Scope()
        fixed, copies, stored = self.builder.tiles([t for t in self.config.tiles if t not in moving], blocks, origins)
        outputs = ThreadOutputs(self.config, lowering, self.builder.context, self.builder.extents, blocks)
        slices = Slices(self.config, lowering, self.walk.step)
        lowering.prepare(tuple(reduction.body for reduction in self.walk.reductions))
        operands = register_operands(self.builder.request, self.walk, tuple(outputs.counters))
        self._bound(outputs)
        results = self._start(outputs, operands, outer)
        counter = None if self._is_whole() else self._first()
        first = integer(0) if counter is None else counter.symbol
        is_certain = bounds(self.extent, lowering.ranges)[0] >= 1
        each = Scope(outer, frozenset((name,)), certain=is_certain, is_loop=True)
        of_step = Scope(origins, frozenset((name,)))
        position = {**blocks, name: first / self.walk.step}
        known = {} if counter is None else {counter.symbol: self.walk.step}
        declared, *filled = self.builder.tiles(moving, position, of_step, known)
        self._accumulate(first, each, results, outputs, slices)
        accumulate = self._accumulated(each.nodes)
        body = (Section("origins", tuple(of_step.nodes)), *filled, *accumulate, Section("tiles_read", (Barrier(),)))
        accumulators = tuple(outer.nodes)
        outer.nodes.clear()

        partials, partials_stored = slices.store(results, outputs)
        self._compute(outer, results, outputs, slices)
        return (
            Section("tiles", (*fixed.body, *declared.body, *slices.declarations)),
            Section("origins", tuple(origins.nodes)),
            copies,
            stored,
            Section("indices", (*outputs.nodes, *slices.definitions)),
            Section("accumulators", accumulators),
            *(
                accumulate
                if counter is None
                else (Section("tile_loop", (For(Loop(counter, integer(0), self.extent, self.walk.step), body),)),)
            ),
            Section("partials", partials),
            Section("partials_stored", partials_stored),
            Section("compute", tuple(outer.nodes)),
        )

    def _start(
        self, outputs: ThreadOutputs, operands: tuple[Operand, ...], outer: Scope
    ) -> Mapping[Reduce, tuple[Local, Local]]:
        """The accumulators of the reductions, initialised, and the operands that registers hold."""
        self.lowering.unroll = max((n for operand in operands for _, n in operand.inner), default=0)
        results = {reduction: self._accumulator(reduction, outputs, outer) for reduction in self.walk.reductions}
        load = outputs.hold(operands, outer)

        def start(scope: Scope) -> None:
            for reduction, (local, second) in results.items():
                declare = begin_position if self._is_begun(reduction) else declare_accumulators
                scope.nodes += outputs.start(declare(reduction, local, second))
            load(scope)

        outputs.each(outer, start)
        if not outputs.counters and any(reduction.where is not None for reduction in self.walk.reductions):
            self._load_before_conditions(outer)
        return results

    def _load_before_conditions(self, outer: Scope) -> None:
        """Loads the operands of the thread's output, which conditions of the terms keep in the loop."""
        request = self.builder.request
        outputs = [index.name for index in request.group.statements[0].indices]
        for operand in register_operands(request, self.walk, outputs):
            if not operand.inner:
                self.lowering.lower(operand.read, outer)

    def _compute(
        self, outer: Scope, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs, slices: Slices
    ) -> None:
        """The statements, for the outputs that the thread has; of several slices the first has them."""

        if slices.count == 1:
            self._store_outputs(outer, results, outputs, slices)
            return
        of_first = Scope(outer, certain=False)
        self._store_outputs(of_first, results, outputs, slices)
        is_first = Guard((Comparison(slices.number, "==", integer(0)),))
        outer.nodes.append(If(is_first, tuple(of_first.nodes)))

    def _store_outputs(
        self, scope: Scope, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs, slices: Slices
    ) -> None:
        """The statements for each output of the thread."""
        outputs.each(scope, lambda inner: self._compute_output(inner, results, outputs, slices), is_guarded=True)

    def _compute_output(
        self, scope: Scope, results: Mapping[Reduce, tuple[Local, Local]], outputs: ThreadOutputs, slices: Slices
    ) -> None:
        """The statements, with the results of the reductions."""
        slices.combine(results, outputs, scope)
        for reduction, (local, _) in results.items():
            scope.remember(reduction, local if local.dtype == reduction.dtype else Cast(local, reduction.dtype))
        lower_statements(self.builder.request, self.lowering, scope)

    def _is_whole(self) -> bool:
        """Whether one tile has all terms, and there is no loop over tiles."""
        return False

    def _first(self) -> Index:
        """The variable of the loop over tiles: a multiple of the step."""
        first = loop_variable(f"{self.walk.index.name}_first", self.extent, self.lowering)
        values = (0, first.range[1] // self.walk.step * self.walk.step)
        self.lowering.ranges[first.symbol] = values
        return replace(first, range=values)

    def _accumulator(self, reduction: Reduce, outputs: ThreadOutputs, scope: Scope) -> tuple[Local, Local]:
        """The local of the result, and of an argmax or argmin the extreme."""
        kind = reduction.kind if reduction.kind != "max" else "largest"
        dtype = INT32 if self._is_begun(reduction) or self._is_narrow(reduction) else reduction.dtype
        local = outputs.result(self._name(reduction, kind), dtype, scope)
        if not reduction.is_position:
            return local, local
        name = "largest" if reduction.kind == "argmax" else "smallest"
        return local, outputs.result(name, reduction.body.dtype, scope)

    def _is_begun(self, reduction: Reduce) -> bool:
        """Whether an argmax or argmin may begin with the position of the first term: there is one, unconditional."""
        return reduction.is_position and self._has_term(reduction)

    def _is_narrow(self, reduction: Reduce) -> bool:
        """Whether 32 bits hold all terms of an extremum of 64, as of indices, of which there is one."""
        if reduction.kind not in ("max", "min") or reduction.dtype != INT64 or not self._has_term(reduction):
            return False
        ranges = {symbol.name: values for symbol, values in self.lowering.ranges.items()}
        indices = (
            *self.builder.request.group.statements[0].indices,
            *reduction.indices,
            *bound_indices(reduction.body),
        )
        extents = (self.builder.context.extent(index) for index in indices)
        ends = (bounds(extent, self.lowering.ranges)[1] for extent in extents)
        ranges |= {index.name: (0, max(end - 1, 0)) for index, end in zip(indices, ends, strict=True)}
        return fits(interval(reduction.body, ranges), INT32)

    def _has_term(self, reduction: Reduce) -> bool:
        """Whether there is a term that no condition leaves out, and the walk's index has 32 bits."""
        low, high = bounds(self.end, self.lowering.ranges)
        others = (self.builder.context.extent(index) for index in reduction.indices if index != self.walk.index)
        is_conditional = any(condition != self.end_condition for condition in conjuncts(reduction.where))
        has_others = all(bounds(extent, self.lowering.ranges)[0] >= 1 for extent in others)
        return not is_conditional and has_others and low >= 1 and high <= INT32.highest

    def _name(self, reduction: Reduce, name: str) -> str:
        """The name, after the statement's target where there are several reductions."""
        if len(self.walk.reductions) == 1:
            return name
        statements = self.builder.request.group.statements
        target = next(s.target for s in statements if any(node == reduction for node in walk(s.value)))
        return f"{target.lower()}_{name}"

    def _accumulate(
        self,
        first: Integer,
        each: Scope,
        results: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
        slices: Slices,
    ) -> None:
        """The loop over a slice of a tile, in it those over the other indices of the reductions and the outputs."""
        long = [reduction for reduction in results if self._is_long(reduction)]
        partial = {r: outputs.result(self._name(r, "partial_sum"), r.dtype, each) for r in long}

        def start(scope: Scope) -> None:
            for reduction, local in partial.items():
                scope.nodes += outputs.start(declare_accumulators(reduction, local, local))

        def total(scope: Scope) -> None:
            for reduction, local in partial.items():
                result, _ = results[reduction]
                scope.nodes.append(Assign(result, combine("sum", result, local)))

        if partial:
            outputs.each(each, start)
        targets = {r: (partial.get(r, local), second) for r, (local, second) in results.items()}
        self._add_terms(first, each, targets, outputs, slices)
        if partial:
            outputs.each(each, total)

    def _accumulated(self, nodes: Sequence[Node]) -> tuple[Section, ...]:
        """The sections that accumulate the terms of a tile."""
        return (Section("accumulate", tuple(nodes)),)

    def _add_terms(
        self,
        first: Integer,
        each: Scope,
        targets: Mapping[Reduce, tuple[Local, Local]],
        outputs: ThreadOutputs,
        slices: Slices,
    ) -> None:
        """The loops over the terms of the slice, which accumulate onto the targets of the reductions, and the extremes
        of an argmax or argmin."""
        lowering, name = self.lowering, self.walk.index.name

        def term(scope: Scope) -> None:
            groups: dict[tuple[Expr, ...], list[tuple[Reduce, Local, Local | None, bool]]] = {}
            for reduction, (target, second) in targets.items():
                extreme = second if reduction.is_position else None
                conditions = tuple(part for part in conjuncts(reduction.where) if part != self.end_condition)
                groups.setdefault(conditions, []).append((reduction, target, extreme, self._is_begun(reduction)))
            for conditions, terms in groups.items():
                accumulate_together(lowering, terms, conditions, scope)

        is_whole = divides(self.walk.step, self.extent, self.builder.context)
        stop = integer(slices.step) if is_whole and self.end == self.extent else slices.stop(self.end - first)
        counter = loop_variable(f"{name}_step", slices.step, lowering)
        lowering.local[name] = slices.position(counter.symbol)
        inner = Scope(each, frozenset((name,)), is_loop=True)
        inner.nodes.append(define_index(name, first + lowering.local[name], self.extent, lowering))
        scope = inner
        is_nested = any(isinstance(node, Reduce) for reduction in targets for node in walk(reduction.body))
        factor = math.gcd(slices.step, UNROLL_NESTED if is_nested else self._unrolled_steps(outputs.width))
        loop = Loop(counter, integer(0), stop, unroll_by=factor if factor > 1 else 0)
        loops: list[tuple[Scope, Loop, Scope]] = [(each, loop, inner)]
        for index in self.walk.reductions[0].indices:
            if index.name == name:
                continue
            extent = to_integer(index.extent, lowering.symbols)
            values = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
            variable = index_loop_variable(index.name, values, lowering)
            lowering.symbols[index.name] = variable.symbol
            lowering.limits[variable.symbol] = extent
            is_certain = bounds(extent, lowering.ranges)[0] >= 1
            below = Scope(scope, frozenset((index.name,)), certain=is_certain, is_loop=True)
            loops.append((scope, Loop(variable, integer(0), extent), below))
            scope = below
        outputs.each(scope, term)
        for parent, loop, body in reversed(loops):
            parent.nodes.append(For(loop, tuple(body.nodes)))

    def _unrolled_steps(self, outputs: int) -> int:
        """The steps of the walk whose instructions for the outputs of a thread stay in the instruction cache."""
        instructions = operations_of(self.builder.request, self.walk.reductions) * outputs
        steps = max(int(MAX_UNROLLED_INSTRUCTIONS / max(instructions, 1)), 1)
        return min(1 << (steps.bit_length() - 1), UNROLL)

    def _bound(self, outputs: ThreadOutputs) -> None:
        """Ends the walk where a condition does that is the same for all reductions, outputs of a thread and terms of a
        step, as that of the last of the parts of a reduction."""
        name, reductions = self.walk.index.name, self.walk.reductions
        several = {index.name for index in reductions[0].indices} - {name} | set(outputs.counters)
        position = sympy.Symbol(name, integer=True)
        symbols = {**self.lowering.symbols, name: position}
        for condition in conjuncts(reductions[0].where):
            is_common = all(condition in conjuncts(reduction.where) for reduction in reductions)
            if is_common and free_indices(condition).isdisjoint(several):
                bound = index_bound(condition, symbols, position)
                if bound is not None and bound.operator == "<":
                    self.end, self.end_condition = Minimum(self.extent, bound.right), condition
                    return

    def _is_long(self, reduction: Reduce) -> bool:
        if reduction.kind != "sum" or reduction.dtype != FLOAT32:
            return False
        return math.prod(map(self.builder.context.max_extent, reduction.indices)) > MAX_PLAIN_TERMS
