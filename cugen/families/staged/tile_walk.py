"""The loop over the tiles of a walk: fill them, accumulate their terms, and take the next ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.families.staged.walk import Walk
from cugen.pieces.blocks import define, define_index, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.loop_variables import index_loop_variable, loop_variable
from cugen.pieces.statements import lower_statements
from cugen.plan.lowering.reductions import accumulate, combine, declare_accumulators
from cugen.plan.nodes import Assign, Barrier, Comparison, Define, For, Guard, If, Index, Loop, Node, Section
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Local, Reduce, walk
from cugen.spec.types import FLOAT32

if TYPE_CHECKING:
    from cugen.families.staged.kernel import StagedBuilder

UNROLL = 4  # steps of a walk: their loads from shared memory are joined to vectors (heuristic)

# A running sum in float32 of more terms has partial sums per tile, so that rounding errors don't add up: of 1024 terms
# they cost at most 10 of the 24 bits.
MAX_PLAIN_TERMS = 1024


class TileWalk:
    """Builds the sections of a kernel that walks."""

    def __init__(self, builder: StagedBuilder, walk: Walk) -> None:
        self.builder, self.walk = builder, walk
        self.lowering, self.config = builder.lowering, builder.config
        self.extent = builder.context.extent(walk.index)

    def sections(self, blocks: Mapping[str, Integer]) -> tuple[Section, ...]:
        """The sections of templates/staged.cu.j2. `blocks`: the block's coordinates, by index."""
        lowering, name = self.lowering, self.walk.index.name
        moving = [t for t in self.config.tiles if any(name in dict(side.steps) for side in t.sides)]
        outer, origins = Scope(), Scope()
        fixed, copies, stored = self.builder.tiles([t for t in self.config.tiles if t not in moving], blocks, origins)
        indices, inside = self._indices(blocks)
        lowering.prepare(tuple(reduction.body for reduction in self.walk.reductions))
        results = {reduction: self._accumulator(reduction) for reduction in self.walk.reductions}
        for reduction, (local, second) in results.items():
            outer.nodes += declare_accumulators(reduction, local, second)
        first = self._first()
        is_certain = bounds(self.extent, lowering.ranges)[0] >= 1
        each = Scope(outer, frozenset((name,)), certain=is_certain, is_loop=True)
        of_step = Scope(origins, frozenset((name,)))
        declared, *filled = self.builder.tiles(moving, {**blocks, name: first.symbol / self.walk.step}, of_step)
        self._accumulate(first.symbol, each, results)
        body = (
            Section("origins", tuple(of_step.nodes)),
            *filled,
            Section("accumulate", tuple(each.nodes)),
            Section("tiles_read", (Barrier(),)),
        )
        accumulators = tuple(outer.nodes)
        outer.nodes.clear()

        for reduction, (local, _) in results.items():
            outer.remember(reduction, local)
        guarded = Scope(outer, certain=False) if inside.terms else outer
        lower_statements(self.builder.request, lowering, guarded)
        compute = (If(inside, tuple(guarded.nodes)),) if inside.terms else tuple(outer.nodes)
        return (
            Section("tiles", (*fixed.body, *declared.body)),
            Section("origins", tuple(origins.nodes)),
            copies,
            stored,
            Section("indices", indices),
            Section("accumulators", accumulators),
            Section("tile_loop", (For(Loop(first, integer(0), self.extent, self.walk.step), body),)),
            Section("compute", compute),
        )

    def _first(self) -> Index:
        """The variable of the loop over tiles: a multiple of the step."""
        first = loop_variable(f"{self.walk.index.name}_first", self.extent, self.lowering)
        values = (0, first.range[1] // self.walk.step * self.walk.step)
        self.lowering.ranges[first.symbol] = values
        return replace(first, range=values)

    def _indices(self, blocks: Mapping[str, Integer]) -> tuple[tuple[Node, ...], Guard]:
        """The thread's output, and the condition under which it has one. Threads without one fill tiles like the
        others; they compute the last output again, and don't store it."""
        nodes: list[Node] = []
        terms: list[Comparison] = []
        lowering = self.lowering
        for axis, (index, extent) in enumerate(zip(self.config.order, self.builder.extents, strict=True)):
            name, span = index.name, self.config.span(index.name)
            lowering.local[name] = thread(AXES[axis], span, lowering) if axis < len(AXES) else integer(0)
            value = blocks[name] * span + lowering.local[name]
            if divides(span, extent, self.builder.context):
                nodes.insert(0, define_index(name, value, extent, lowering))
                continue
            output = define(f"{name}_thread", value, lowering, below=ceil_div(extent, span) * span)
            terms.insert(0, Comparison(output.index.symbol, "<", extent))
            last = define_index(name, Minimum(output.index.symbol, extent - 1), extent, lowering)
            nodes[:0] = [output, last]
            if bounds(extent, lowering.ranges)[1] < span:  # the tile is as wide as the extent, not as the block
                lowering.local[name] = last.index.symbol
        return tuple(nodes), Guard(tuple(terms))

    def _accumulator(self, reduction: Reduce) -> tuple[Local, Local]:
        """The local of the result, and of an argmax or argmin the extreme."""
        names = self.lowering.names
        kind = reduction.kind if reduction.kind != "max" else "largest"
        local = Local(names.allocate(self._name(reduction, kind)), reduction.dtype)
        if not reduction.is_position:
            return local, local
        name = "largest" if reduction.kind == "argmax" else "smallest"
        return local, Local(names.allocate(name), reduction.body.dtype)

    def _name(self, reduction: Reduce, name: str) -> str:
        """The name, after the statement's target where there are several reductions."""
        if len(self.walk.reductions) == 1:
            return name
        statements = self.builder.request.group.statements
        target = next(s.target for s in statements if any(node == reduction for node in walk(s.value)))
        return f"{target.lower()}_{name}"

    def _accumulate(self, first: Integer, each: Scope, results: Mapping[Reduce, tuple[Local, Local]]) -> None:
        """The loop over a tile, in it those over the other indices of the reductions."""
        lowering, step = self.lowering, self.walk.step
        partial = {
            r: Local(lowering.names.allocate(self._name(r, "partial_sum")), r.dtype)
            for r in results
            if self._is_long(r)
        }
        for reduction, local in partial.items():
            each.nodes += declare_accumulators(reduction, local, local)
        is_whole = divides(step, self.extent, self.builder.context)
        stop = integer(step) if is_whole else Minimum(integer(step), self.extent - first)
        counter = loop_variable(f"{self.walk.index.name}_step", step, lowering)
        lowering.local[self.walk.index.name] = counter.symbol
        inner = Scope(each, frozenset((self.walk.index.name,)), is_loop=True)
        value: Define = define_index(self.walk.index.name, first + counter.symbol, self.extent, lowering)
        inner.nodes.append(value)
        unroll_by = UNROLL if step % UNROLL == 0 else 0
        scope = inner
        loops: list[tuple[Scope, Loop, Scope]] = [
            (each, Loop(counter, integer(0), stop, unroll_by=unroll_by), inner),
        ]
        for index in self.walk.reductions[0].indices:
            if index.name == self.walk.index.name:
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
        for reduction, (local, second) in results.items():
            target = partial.get(reduction, local)
            accumulate(lowering, reduction, target, scope, second if reduction.is_position else None)
        for parent, loop, body in reversed(loops):
            parent.nodes.append(For(loop, tuple(body.nodes)))
        for reduction, local in partial.items():
            total, _ = results[reduction]
            each.nodes.append(Assign(total, combine("sum", total, local)))

    def _is_long(self, reduction: Reduce) -> bool:
        if reduction.kind != "sum" or reduction.dtype != FLOAT32:
            return False
        return math.prod(map(self.builder.context.max_extent, reduction.indices)) > MAX_PLAIN_TERMS
