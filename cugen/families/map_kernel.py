"""The kernel of elementwise statements: vectors of neighbours, several in each thread, and what is left of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cugen.families.blocks import Blocks, define, lay_blocks, limit, thread
from cugen.families.canonical import index_values
from cugen.families.elementwise import loaded_reads
from cugen.families.kernels import assemble, new_lowering
from cugen.families.map_shape import Shape, choose_shape
from cugen.families.map_work import Work
from cugen.families.statements import lower_statements
from cugen.families.vectors import divisor
from cugen.plan.ir import (
    Access,
    Assign,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Node,
    ReturnUnless,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.names import Names
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, IndexValue, Local, Read, free_indices, walk


class MapKernel:
    """The kernel of one group."""

    def __init__(self, work: Work) -> None:
        self.work, self.lowering = work, new_lowering(work.request)
        self.lowering.arrays = work.arrays
        self.context = work.request.context
        self.extents = [to_integer(index.extent, self.lowering.symbols) for index in work.order]
        self.shape: Shape = choose_shape(work, self.extents)
        self.width = self.shape.width

    def kernel(self) -> Kernel:
        counts = [ceil_div(extent, self.shape.span(axis)) for axis, extent in enumerate(self.extents)]
        blocks = lay_blocks(counts, self.lowering, self.work.request.target)
        parts = (("indices", self._indices(blocks)), ("elements", self._elements()))
        kernel = assemble(
            self.work.request,
            self.lowering,
            "map",
            parts,
            blocks.grid,
            (*self.shape.threads, 1),
            alignments=self._alignments(),
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
            wish = f"{index.name}0" if axis == 0 and self._needs_own_index() else index.name
            wish = (f"{index.name}0" if axis else "first") if steps else wish
            node = define(wish, place * shape.span(axis) + own * shape.unit(axis), lowering)
            nodes.append(node)
            lowering.symbols[index.name] = node.index.symbol
            if steps or (axis == 0 and self._has_tail()):
                continue
            if divisor(extent, self.context) % shape.span(axis):
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        guard = (ReturnUnless(Guard(tuple(reversed(terms)))),) if terms else ()
        return (*reversed(nodes), *guard)

    def _has_tail(self) -> bool:
        """Whether the last elements may fill no vector."""
        return divisor(self.extents[0], self.context) % self.width != 0

    def _needs_own_index(self) -> bool:
        """Whether an element's value depends on its own place, not only on the vector's."""
        if self.width == 1:
            return False
        wide = self.work.wide_reads
        narrow = [read for read in loaded_reads(self.work.statements) if read not in wide]
        if any(IndexValue(self.work.along) in read.subscripts for read in narrow):
            return True
        return any(self.work.along in index_values(statement.value) for statement in self.work.statements)

    # What a thread does

    def _elements(self) -> tuple[Node, ...]:
        shape = self.shape
        if shape.vectors == 1:
            return self._piece(self.lowering, Scope(), ragged=self._has_tail())
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
        wish = f"{name}0" if axis == 0 and self._needs_own_index() else name
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
            return self._whole(lowering, scope)
        first = lowering.symbols[self.work.along]
        guard = Guard((Comparison(first + (self.width - 1), "<", self.extents[0]),))
        whole = self._whole(self._branch(lowering), Scope(scope, certain=False))
        return (If(guard, whole, self._tail(self._branch(lowering), Scope(scope, certain=False))),)

    def _branch(self, parent: Lowering | None = None) -> Lowering:
        """A lowering whose names end with its branch."""
        outer = parent or self.lowering
        return Lowering(Names(outer.names), outer.arrays, dict(outer.symbols), outer.ranges, outer.limits)

    def _whole(self, lowering: Lowering, scope: Scope) -> tuple[Node, ...]:
        """Wide loads, the statements for each component, wide stores."""
        work, first = self.work, lowering.symbols[self.work.along]
        places = dict(lowering.symbols)
        number = Index(lowering.names.allocate("v"), integer(0), (0, self.width - 1))
        lowering.ranges[number.symbol] = number.range
        inner = Scope(scope, frozenset((work.along,)))
        if self._needs_own_index():
            own = define(work.along, first + number.symbol, lowering)
            limit(own.index, self.extents[0], lowering)
            lowering.symbols[work.along] = own.index.symbol
            inner.nodes.append(own)
        for read in work.wide_reads:
            written = any(statement.target == read.array for statement in work.statements)
            vector = self._vector(read.array, f"{read.array}_old" if written else read.array, lowering)
            home = scope.home(free_indices(read))
            home.nodes.append(Load(vector, self._access(read.array, read.subscripts, places, "load")))
            self._remember(read, vector.component(number.symbol), inner, lowering)
        lower_statements(work.request, lowering, inner)
        results: list[Node] = []
        body: list[Node] = []
        stored = iter([statement for statement in work.statements if work.is_stored(statement)])
        for node in inner.nodes:
            if isinstance(node, Store):
                statement = next(stored)
                vector = self._vector(statement.target, statement.target, lowering)
                scope.nodes.append(Let(vector, None, mutable=True))
                body.append(Assign(vector.component(number.symbol), node.value))
                results.append(Store(self._access(statement.target, statement.subscripts, places, "store"), vector))
            else:
                body.append(node)
        loop = For(Loop(number, integer(0), integer(self.width), unroll=True), tuple(body))
        return (*scope.nodes, loop, *results)

    def _remember(self, read: Read, component: Expr, scope: Scope, lowering: Lowering) -> None:
        """A component that several places mention gets a name of its own."""
        mentions = sum(1 for s in self.work.statements for node in walk(s.value) if node == read)
        if mentions > 1:
            name = read.array.lower()
            is_taken = name == lowering.arrays[read.array].symbol
            local = Local(lowering.names.allocate(f"{name}_value" if is_taken else name), read.dtype)
            scope.nodes.append(Let(local, component))
            component = local
        scope.remember(read, component)

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

    def _vector(self, array: str, wish: str, lowering: Lowering) -> Vector:
        """`x4` for four elements of x."""
        name = wish.lower()
        separator = "_" if name[-1].isdigit() else ""
        dtype = lowering.arrays[array].dtype
        return Vector(lowering.names.allocate(f"{name}{separator}{self.width}"), dtype.compute, dtype, self.width)

    def _access(self, array: str, subs: tuple[Expr, ...], places: Mapping[str, Integer], kind: str) -> Access:
        return Access(self.work.arrays[array], tuple(to_integer(s, places) for s in subs), kind, self.width)

    # What the caller must know

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        if self.width == 1:
            return ()
        wide = {read.array for read in self.work.wide_reads}
        wide |= {s.target for s in self.work.statements if self.work.is_stored(s)}
        arrays = self.context.spec.arrays
        return tuple((a.name, self.width * a.dtype.bytes) for a in arrays if a.name in wide and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        work, shape = self.work, self.shape
        what = f"{shape.width} neighbours along {work.along}" if shape.width > 1 else "one element"
        reasons = [f"elementwise, {what} in each access", work.most.reason]
        return (*reasons, *([shape.reason] if shape.reason else []))
