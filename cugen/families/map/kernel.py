"""The kernel of elementwise statements: vectors of neighbours, several in each thread, and what is left of them."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.map.config import Shape, choose_shape
from cugen.families.map.work import Work
from cugen.pieces.blocks import Blocks, define, lay_blocks, limit, reaching, thread
from cugen.pieces.elementwise import certain_reads
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import Neighbours, vector_body, wide_reads
from cugen.pieces.vectors import divisor, offset_of
from cugen.plan.kernel import Kernel
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.names import Names
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Loop, Node, ReturnUnless
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Mod, bounds, ceil_div, integer


class MapKernel:
    """The kernel of one group."""

    def __init__(self, work: Work) -> None:
        self.work, self.lowering = work, new_lowering(work.request)
        self.lowering.arrays = work.arrays
        self.context = work.request.context
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in work.order]
        self.shape: Shape = choose_shape(work, self.extents)
        self.width = self.shape.width
        wide = wide_reads(work.request, work.arrays, work.along, self.width)
        if self.shape.shift:
            places = dict.fromkeys(work.places())
            reads = certain_reads(work.request, work.arrays)
            wide = {read: self.width for read in reads if (read.array, read.subscripts) in places}
        self.neighbours = Neighbours(work.request, work.arrays, work.along, self.extents[0], self.width, wide)

    def kernel(self) -> Kernel:
        counts = [ceil_div(extent, self.shape.span(axis)) for axis, extent in enumerate(self.extents)]
        if self.shape.shift:
            counts[0] = reaching(self.extents[0], self.shape.span(0), self.shape.shift, self.lowering.ranges)
        blocks = lay_blocks(counts, self.lowering, self.work.request.target)
        parts = (("indices", self._indices(blocks)), ("elements", self._elements()))
        kernel = assemble(
            self.work.request,
            self.lowering,
            "map",
            parts,
            blocks.grid,
            (*self.shape.threads, 1),
            alignments=self.neighbours.alignments(),
        )
        return replace(kernel, reasons=self._reasons())

    def _indices(self, blocks: Blocks) -> tuple[Node, ...]:
        """The thread's first element; along the axis of its steps that is only where its loop begins."""
        lowering, shape = self.lowering, self.shape
        nodes: list[Define] = []
        terms: list[Comparison] = []
        for axis, (index, extent, place) in enumerate(zip(self.work.order, self.extents, blocks.places, strict=True)):
            steps = shape.vectors > 1 and axis == shape.axis
            own = thread("xy"[axis], shape.threads[axis], lowering) if axis < 2 else integer(0)
            definition = place * shape.span(axis) + own * shape.unit(axis)
            if axis == 0 and shape.shift:
                first = definition
                continue
            wish = f"{index.name}0" if axis == 0 and self.neighbours.needs_own_index() else index.name
            wish = (f"{index.name}0" if axis else "first") if steps else wish
            node = define(wish, definition, lowering)
            nodes.append(node)
            lowering.symbols[index.name] = node.index.symbol
            if steps or (axis == 0 and self._has_tail()):
                continue
            if divisor(extent, self.context) % shape.span(axis):
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        guard = (ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()
        return (*reversed(nodes), *guard, *(self._shifted(first) if shape.shift else ()))

    def _shifted(self, first: Integer) -> tuple[Node, ...]:
        """The thread's place in a row, as far back as the row's first sector begins before the row."""
        work, lowering = self.work, self.lowering
        # Blocks lie a multiple of a sector apart, so that the place inside of the block says how a row begins.
        inside = {**lowering.symbols, work.order[1].name: thread("y", self.shape.threads[1], lowering)}
        start = offset_of(work.arrays, work.places()[0], inside, work.along)
        back = define("back", Mod(start, integer(self.shape.shift)), lowering)
        wish = f"{work.along}0" if self.neighbours.needs_own_index() else work.along
        place = define(wish, first - back.index.symbol, lowering)
        lowering.symbols[work.along] = place.index.symbol
        return back, place

    def _has_tail(self) -> bool:
        """Whether the last elements may fill no vector."""
        return divisor(self.extents[0], self.context) % self.width != 0

    # What a thread does

    def _elements(self) -> tuple[Node, ...]:
        shape = self.shape
        if shape.vectors == 1:
            return self._piece(self.lowering, Scope(), ragged=self._has_tail() or shape.shift > 0)
        first = self.lowering.symbols[self.work.order[shape.axis].name]
        extent = self.extents[shape.axis]
        full = self._steps(first, first + shape.span(shape.axis), certain=True)
        if divisor(extent, self.context) % shape.span(shape.axis) == 0:
            return full
        last = first + (shape.span(shape.axis) - shape.step + shape.unit(shape.axis) - 1)
        guard = Guard((Comparison(last, "<", extent),))
        return (If(guard, full, self._steps(first, extent, certain=False)),)

    def _steps(self, first: Integer, stop: Integer, *, certain: bool) -> tuple[Node, ...]:
        """The thread's vectors, all of them side by side where they are certain to be inside."""
        lowering, axis = self._branch(), self.shape.axis
        name, extent = self.work.order[axis].name, self.extents[axis]
        wish = f"{name}0" if axis == 0 and self.neighbours.needs_own_index() else name
        last = max(bounds(extent, lowering.ranges)[1] - 1, 0)
        index = Index(lowering.names.allocate(wish), first, (0, last))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = extent
        lowering.symbols[name] = index.symbol
        outer = Scope()
        inner = Scope(outer, frozenset((name,)), certain=certain)
        body = self._piece(lowering, inner, ragged=axis == 0 and not certain and self._has_tail())
        loop = Loop(index, first, stop, self.shape.step, unroll=certain, rolled=not certain)
        return (*outer.nodes, For(loop, body))

    def _piece(self, lowering: Lowering, scope: Scope, *, ragged: bool) -> tuple[Node, ...]:
        """One vector of each array, or one element."""
        if self.width == 1:
            lower_statements(self.work.request, lowering, scope)
            return tuple(scope.nodes)
        if not ragged:
            return vector_body(self.neighbours, lowering, scope)
        first = lowering.symbols[self.work.along]
        inside = (Comparison(first + (self.width - 1), "<", self.extents[0]),)
        guard = Guard((Comparison(first, ">=", integer(0)), *inside) if self.shape.shift else inside)
        whole = vector_body(self.neighbours, self._branch(lowering), Scope(scope, certain=False))
        rest = self._ends if self.shape.shift else self._tail
        return (If(guard, whole, rest(self._branch(lowering), Scope(scope, certain=False))),)

    def _branch(self, parent: Lowering | None = None) -> Lowering:
        """A lowering whose names end with its branch."""
        outer = parent or self.lowering
        return Lowering(Names(outer.names), outer.arrays, dict(outer.symbols), outer.ranges, outer.limits)

    def _tail(self, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
        """What is left of the last vector, element by element."""
        first, extent = lowering.symbols[self.work.along], self.extents[0]
        index = Index(lowering.names.allocate("tail"), first, (0, max(bounds(extent, lowering.ranges)[1] - 1, 0)))
        lowering.ranges[index.symbol] = index.range
        lowering.limits[index.symbol] = extent
        lowering.symbols[self.work.along] = index.symbol
        inner = Scope(scope, frozenset((self.work.along,)), certain=False)
        lower_statements(self.work.request, lowering, inner)
        return (*scope.nodes, For(Loop(index, first, extent, rolled=True), tuple(inner.nodes)))

    def _ends(self, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
        """What is left of the first and the last vector of a row that begins anywhere."""
        number = Index(lowering.names.allocate("v"), integer(0), (0, self.width - 1))
        lowering.ranges[number.symbol] = number.range
        element = define("edge", lowering.symbols[self.work.along] + number.symbol, lowering)
        place, extent = element.index.symbol, self.extents[0]
        limit(element.index, extent, lowering)
        lowering.symbols[self.work.along] = place
        inner = Scope(scope, frozenset((self.work.along,)), certain=False)
        lower_statements(self.work.request, lowering, inner)
        guard = Guard((Comparison(place, ">=", integer(0)), Comparison(place, "<", extent)))
        loop = Loop(number, integer(0), integer(self.width), rolled=True)
        return (*scope.nodes, For(loop, (element, If(guard, tuple(inner.nodes)))))

    def _reasons(self) -> tuple[str, ...]:
        work, shape = self.work, self.shape
        what = f"{shape.width} neighbours along {work.along}" if shape.width > 1 else "one element"
        reasons = [f"elementwise, {what} in each access", work.most.reason]
        return (*reasons, *([shape.reason] if shape.reason else []))
