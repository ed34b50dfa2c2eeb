"""The outputs of a thread in a walk: loops over them, and registers that hold their operands and results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import sympy

from cugen.families.staged.config import StagedConfig
from cugen.families.staged.lowering import StagedLowering
from cugen.families.staged.operands import Operand
from cugen.pieces.blocks import define, limit, power_of_two, thread
from cugen.pieces.grid import AXES, divides
from cugen.pieces.loop_variables import shared_loop_variable, unrolled
from cugen.plan.context import Context
from cugen.plan.memory import Component, Element, Vector
from cugen.plan.nodes import Assign, Comparison, Define, For, Guard, If, Index, Let, Load, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Local
from cugen.spec.types import DType


class ThreadOutputs:
    """Defines the thread's output along each index, or the first of several. Threads without one fill tiles like the
    others; they compute the last output again, and don't store it."""

    def __init__(
        self,
        config: StagedConfig,
        lowering: StagedLowering,
        context: Context,
        extents: Sequence[Integer],
        blocks: Mapping[str, Integer],
    ) -> None:
        self.lowering, self.config = lowering, config
        self.nodes: list[Node] = []  # the definitions of single outputs, and of the first of several
        self.terms: list[Comparison] = []  # under which the thread has the single ones
        self.counters: dict[str, Index] = {}  # of the loops over several, the slowest index outermost
        self.firsts: dict[str, Integer] = {}  # the first of several outputs
        self.coordinates: dict[str, Integer] = {}  # of the thread's outputs in the partial results of a slice
        self._several: dict[str, tuple[tuple[Define, ...], tuple[Comparison, ...]]] = {}
        for axis, (index, extent) in enumerate(zip(config.order, extents, strict=True)):
            self._define(index.name, axis, extent, blocks[index.name] * config.span(index.name), context)
        self.counters = dict(reversed(self.counters.items()))

    @property
    def width(self) -> int:
        """The outputs of a thread."""
        return math.prod(self.config.outputs.get(name, 1) for name in self.counters)

    def _define(self, name: str, axis: int, extent: Integer, block: Integer, context: Context) -> None:
        lowering, count = self.lowering, self.config.outputs.get(name, 1)
        size, span = self.config.threads.get(name, 1), self.config.span(name)
        local = thread(AXES[axis], size, lowering) if axis < len(AXES) else integer(0)
        coordinate, value, covered = local, block + local, ceil_div(extent, span) * span
        if count > 1:
            counter = shared_loop_variable("u", (0, count - 1), lowering, f"output {name}")
            is_consecutive = self.config.is_consecutive and axis == 0
            distance, position = (1, count * local) if is_consecutive else (size, local)
            first = define(f"first_{name}", block + position, lowering)
            self.nodes.insert(0, first)
            self.firsts[name] = first.index.symbol
            coordinate, value = local + size * counter.symbol, first.index.symbol + distance * counter.symbol
            local = position + distance * counter.symbol
            self.counters[name] = counter
        defined: list[Define] = []
        term: tuple[Comparison, ...] = ()
        if divides(span, extent, context):
            defined.append(define(name, value, lowering, below=extent))
        elif count > 1:
            term = (Comparison(value, "<", extent),)
            defined.append(define(name, Minimum(value, extent - 1), lowering, below=extent))
        else:
            defined.append(define(f"{name}_thread", value, lowering, below=covered))
            output = defined[0].index.symbol
            term = (Comparison(output, "<", extent),)
            defined.append(define(name, Minimum(output, extent - 1), lowering, below=extent))
        symbol = defined[-1].index.symbol
        lowering.symbols[name] = symbol
        limit(defined[-1].index, extent, lowering)
        self.coordinates[name] = coordinate
        # Where the tile is as wide as the extent, not as the block, only clamped outputs are inside.
        is_narrow = bool(term) and bounds(extent, lowering.ranges)[1] < span
        lowering.local[name] = symbol if is_narrow else local
        if count > 1:
            self._several[name] = (tuple(defined), term)
        else:
            self.nodes[:0] = defined
            self.terms[:0] = term

    def definitions(self, name: str) -> tuple[Define, ...]:
        """The definitions of one of several outputs along an index, by the counter."""
        return self._several[name][0]

    def each(self, scope: Scope, fill: Callable[[Scope], None], *, is_guarded: bool = False) -> None:
        """Runs `fill` for each of the thread's outputs; `is_guarded` under the condition that there is one."""
        scopes = [scope]
        for name in self.counters:
            inner = Scope(scopes[-1], frozenset((name,)))
            inner.nodes += self._several[name][0]
            scopes.append(inner)
        terms = tuple(term for name in self.counters for term in self._several[name][1]) if is_guarded else ()
        if is_guarded:
            terms = (*self.terms, *terms)
        last = Scope(scopes[-1], certain=False) if terms else scopes[-1]
        fill(last)
        if terms:
            scopes[-1].nodes.append(If(Guard(terms), tuple(last.nodes)))
        for outer, inner, counter in reversed(list(zip(scopes[:-1], scopes[1:], self.counters.values(), strict=True))):
            outer.nodes.append(unrolled(counter, inner.nodes))

    def number(self, names: Sequence[str]) -> Integer:
        """The number of an output among those of the thread along these indices."""
        value = integer(0)
        for name in names:
            value = value * self.config.outputs.get(name, 1) + self.counters[name].symbol
        return value

    def result(self, name_hint: str, dtype: DType, scope: Scope) -> Local:
        """A mutable local for each output, declared in `scope` where there are several."""
        if not self.counters:
            return Local(self.lowering.names.allocate(name_hint), dtype)
        width = power_of_two(self.width)
        vector = Vector(self.lowering.names.allocate(f"{name_hint}{width}"), dtype, dtype, width)
        scope.nodes.append(Let(vector, None, mutable=True))
        return vector.component(self.number(tuple(self.counters)))

    def start(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The declarations of results with their first values, or the assignments of these to several."""
        return tuple(
            Assign(n.local, n.value)
            if isinstance(n, Let) and isinstance(n.local, Component) and n.value is not None
            else n
            for n in nodes
        )

    def hold(self, operands: Sequence[Operand], scope: Scope) -> Callable[[Scope], None]:
        """Declares vectors for operands of the outputs; the loads of one output's, for `each`.

        Until they are loaded, `lowering` doesn't know them: see `StagedLowering.in_registers`."""
        lowering = self.lowering
        vectors: list[tuple[Operand, Vector, tuple[str, ...]]] = []
        for operand in operands:
            names = tuple(name for name in self.counters if name in operand.outputs)
            width = power_of_two(math.prod(self.config.outputs[name] for name in names))
            hint = lowering.read_names.get(operand.read, operand.read.array.lower())
            dtype = operand.read.dtype
            name = lowering.names.allocate(hint if hint[-1].isdigit() else f"{hint}{width}")
            count = operand.elements if operand.inner else 0
            vector = Vector(name, dtype, dtype, width, count)
            scope.nodes.append(Let(vector, None, mutable=True))
            vectors.append((operand, vector, names))

        def load(inner: Scope) -> None:
            for operand, vector, names in vectors:
                self._load(operand, vector, names, inner)
            for operand, vector, names in vectors:
                lowering.in_registers[operand.read] = self._component(operand, vector, names)

        return load

    def _component(self, operand: Operand, vector: Vector, names: tuple[str, ...]) -> Callable[[], Component]:
        def component() -> Component:
            element = integer(0)
            for name, extent in operand.inner:
                element = sympy.expand(element * extent + self.lowering.symbols[name])
            row = vector.indexed(element) if operand.inner else vector
            return row.component(self.number(names))

        return component

    def _load(self, operand: Operand, vector: Vector, names: tuple[str, ...], scope: Scope) -> None:
        lowering = self.lowering
        outer = {name: lowering.symbols.get(name) for name, _ in operand.inner}
        scopes, loops = [scope.home(frozenset(names))], []
        for name, extent in operand.inner:
            counter = shared_loop_variable(name, (0, extent - 1), lowering, f"operand {name}")
            lowering.symbols[name] = counter.symbol
            loops.append(Loop(counter, integer(0), integer(extent), unroll=True))
            scopes.append(Scope(scopes[-1], frozenset((name,))))
        value = lowering.lower(operand.read, scopes[-1])
        target = self._component(operand, vector, names)()
        nodes = scopes[-1].nodes
        match nodes[-1:]:
            case [Load(local=local, access=access, guard=None)] if local == value:
                nodes[-1] = Assign(target, Element.of(access))
            case _:
                nodes.append(Assign(target, value))
        for parent, inner, loop in reversed(list(zip(scopes[:-1], scopes[1:], loops, strict=True))):
            parent.nodes.append(For(loop, tuple(inner.nodes)))
        for name, symbol in outer.items():
            if symbol is None:
                del lowering.symbols[name]
            else:
                lowering.symbols[name] = symbol
