"""The `map` kernel: vectors of consecutive elements, several per thread, and scalar tails."""

from __future__ import annotations

from itertools import takewhile

from cugen.families.map.config import VectorConfig, choose_config
from cugen.families.map.work import Work
from cugen.pieces.blocks import Blocks, blocks_to_cover, define, limit, make_grid, thread
from cugen.pieces.elementwise import certain_reads
from cugen.pieces.grid import AXES
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.pieces.sections import guarded
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import ConsecutiveElements, row_end_elements, vector_body, wide_reads, with_copies
from cugen.pieces.vectors import define_misalignment
from cugen.plan.alignment import divisor
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Comparison, Copy, Define, For, Guard, If, Loop, Node, ReturnUnless, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer, bounds, ceil_div, integer

MIN_BLOCKS_WITH_ROLLED_CUTS = 8  # along an axis, of which the extent cuts one (heuristic)


class MapKernel:
    def __init__(self, work: Work) -> None:
        self.work, self.lowering = work, new_lowering(work.request, work.arrays)
        self.context = work.request.context
        self.extents = list(map(self.context.extent, work.order))
        self.config: VectorConfig = choose_config(work, self.extents)
        self.width = self.config.width
        wide = wide_reads(work.request, work.arrays, work.along, self.width)
        if self.config.shift:
            streamed = dict.fromkeys(work.streamed())
            reads = certain_reads(work.request, work.arrays)
            wide = {read: self.width for read in reads if (read.array, read.subscripts) in streamed}
        loaded, stored = work.runs(work.loaded, self.width), work.runs(work.stored, self.width)
        self.elements = ConsecutiveElements(
            work.request, work.arrays, work.along, self.extents[0], self.width, wide, loaded=loaded, stored=stored
        )

    def kernel(self) -> Kernel:
        counts = [ceil_div(extent, self.config.span(axis)) for axis, extent in enumerate(self.extents)]
        if self.config.shift:
            counts[0] = blocks_to_cover(self.extents[0], self.config.span(0), self.config.shift, self.lowering.ranges)
        blocks = make_grid(counts, self.lowering, self.work.request.target)
        sections = Section("coordinates", self._coordinates(blocks)), *self._body()
        request, threads = self.work.request, self.config.threads
        return assemble(request, self.lowering, "map", sections, blocks.grid, threads, reasons=self._reasons())

    def _coordinates(self, blocks: Blocks) -> tuple[Node, ...]:
        """The thread's first element; along the axis of its vectors, the start of its loop."""
        lowering, config = self.lowering, self.config
        nodes: list[Define] = []
        terms: list[Comparison] = []
        for axis, (index, extent, block) in enumerate(
            zip(self.work.order, self.extents, blocks.coordinates, strict=True)
        ):
            is_loop_axis = config.vectors > 1 and axis == config.axis
            offset = thread(AXES[axis], config.threads[axis], lowering) if axis < len(AXES) else integer(0)
            definition = block * config.span(axis) + offset * config.per_thread(axis)
            if axis == 0 and config.shift:
                first = definition
                continue
            name_hint = f"{index.name}0" if axis == 0 and self.elements.needs_element_index() else index.name
            if is_loop_axis:
                name_hint = f"{index.name}0" if axis else "first"
            node = define(name_hint, definition, lowering)
            nodes.append(node)
            lowering.symbols[index.name] = node.index.symbol
            if is_loop_axis or (axis == 0 and self._has_tail()):
                continue
            if divisor(extent, self.context) % config.span(axis):
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        guard = (ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()
        return (*reversed(nodes), *guard, *(self._shifted(first) if config.shift else ()))

    def _shifted(self, first: Integer) -> tuple[Node, ...]:
        """The thread's first element in a row, moved back to the sector boundary before the row's start."""
        work, lowering = self.work, self.lowering
        # Blocks start at multiples of a sector, so the row within the block decides its misalignment.
        symbols = {**lowering.symbols, work.order[1].name: thread("y", self.config.threads[1], lowering)}
        reference, shift = work.streamed()[0], self.config.shift
        misalignment = define_misalignment(work.arrays, reference, work.along, shift, lowering, symbols)
        name_hint = f"{work.along}0" if self.elements.needs_element_index() else work.along
        element = define(name_hint, first - misalignment.index.symbol, lowering)
        lowering.symbols[work.along] = element.index.symbol
        return misalignment, element

    def _has_tail(self) -> bool:
        """Whether the last vector of a row may be partial."""
        return divisor(self.extents[0], self.context) % self.width != 0

    def _body(self) -> tuple[Section, ...]:
        """The thread's vectors: one, an unrolled loop of full ones, or a loop with a bound."""
        config = self.config
        if config.vectors == 1:
            return self._vector(self.lowering, Scope(), partial=self._has_tail() or config.shift > 0)
        first = self.lowering.symbols[self.work.order[config.axis].name]
        extent = self.extents[config.axis]
        if bounds(extent, self.context.ranges)[1] < config.span(config.axis):
            return self._partial(first, extent)
        full = self._vector_loop(first, first + config.span(config.axis), certain=True)
        if divisor(extent, self.context) % config.span(config.axis) == 0:
            return full
        last = first + (config.span(config.axis) - config.step + config.per_thread(config.axis) - 1)
        guard = Guard((Comparison(last, "<", extent),))
        return (Section("full_block", (If(guard, full, self._partial(first, extent)),)),)

    def _partial(self, first: Integer, extent: Integer) -> tuple[Section, ...]:
        """The vectors of a block that the extent cuts: one after the other, or, where many blocks are cut, with a guard
        each, so that their loads overlap."""
        span, has_tail = self.config.span(self.config.axis), self.config.axis == 0 and self._has_tail()
        is_frequent = bounds(extent, self.context.ranges)[1] < MIN_BLOCKS_WITH_ROLLED_CUTS * span
        if is_frequent and (not has_tail or self.width == 1):
            return self._vector_loop(first, first + span, certain=False, below=extent)
        return self._vector_loop(first, extent, certain=False)

    def _vector_loop(
        self, first: Integer, stop: Integer, *, certain: bool, below: Integer | None = None
    ) -> tuple[Section, ...]:
        """The loop over the thread's vectors, unrolled where all are in bounds, or each of them is guarded: `below`."""
        lowering, axis = self.lowering.branch(), self.config.axis
        name = self.work.order[axis].name
        extent = self.extents[axis] + (0 if below is None else self.config.span(axis))
        name_hint = f"{name}0" if axis == 0 and self.elements.needs_element_index() else name
        index = loop_variable(name_hint, extent, lowering, first)
        lowering.symbols[name] = index.symbol
        lowering.limits[index.symbol] = self.extents[axis]
        outer = Scope()
        inner = Scope(outer, frozenset((name,)), certain=certain)
        body = self._vector(lowering, inner, partial=axis == 0 and not certain and self._has_tail())
        if below is not None:
            body = guarded("in_row", (Comparison(index.symbol, "<", below),), body)
        is_unrolled = certain or below is not None
        loop = Loop(index, first, stop, self.config.step, unroll=is_unrolled, rolled=not is_unrolled)
        return Section("loop_invariants", tuple(outer.nodes)), Section("vectors", (For(loop, body),))

    def _vector(self, lowering: Lowering, scope: Scope, *, partial: bool) -> tuple[Section, ...]:
        """One vector of each array, or one element; `partial` ones are guarded."""
        if self.width == 1 and not (self.elements.loaded or self.elements.stored):
            lower_statements(self.work.request, lowering, scope)
            nodes = with_copies(scope.nodes)
            values = tuple(takewhile(lambda node: not isinstance(node, Store | Copy), nodes))
            return Section("values", values), Section("elements", tuple(nodes[len(values) :]))
        if not partial:
            return vector_body(self.elements, lowering, scope)
        first = lowering.symbols[self.work.along]
        ends_inside = (Comparison(first + (self.width - 1), "<", self.extents[0]),)
        guard = Guard((Comparison(first, ">=", integer(0)), *ends_inside) if self.config.shift else ends_inside)
        full = vector_body(self.elements, lowering.branch(), Scope(scope, certain=False))
        in_row = Scope(scope, frozenset((self.work.along,)), certain=False)
        scalar = row_end_elements if self.config.shift else _tail
        return (Section("full_vector", (If(guard, full, (scalar(self.elements, lowering.branch(), in_row),)),)),)

    def _reasons(self) -> tuple[str, ...]:
        work, config = self.work, self.config
        what = f"{config.width} consecutive elements along {work.along}" if config.width > 1 else "one element"
        return (f"elementwise, {what} per access", work.max_width.reason, *filter(None, [config.reason]))


def _tail(work: ConsecutiveElements, lowering: Lowering, scope: Scope) -> For:
    """The elements of a partial last vector, one by one."""
    first = lowering.symbols[work.along]
    index = loop_variable("tail", work.extent, lowering, first)
    lowering.symbols[work.along] = index.symbol
    lower_statements(work.request, lowering, scope)
    return For(Loop(index, first, work.extent, rolled=True), tuple(with_copies(scope.nodes)))
