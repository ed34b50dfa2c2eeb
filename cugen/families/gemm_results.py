"""The results of a product: from the sums in registers, or from those of several slices or blocks, to memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from cugen.families.blocks import define
from cugen.families.contraction import Contraction
from cugen.families.gemm_place import Place
from cugen.families.gemm_problem import parts_pad
from cugen.families.gemm_shape import WARP, Shape
from cugen.families.rebuilding import rebuilt
from cugen.families.statements import lower_statements
from cugen.families.vector_body import Neighbours, vector_body, wide_reads
from cugen.families.vectors import WIDEST, divisor, widest
from cugen.plan.ir import (
    Access,
    Accumulate,
    Array,
    Assign,
    Barrier,
    ClusterBarrier,
    Comment,
    Comparison,
    Declare,
    Define,
    Element,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Store,
    Vector,
)
from cugen.plan.lowering import Lowering
from cugen.plan.reductions import combine
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read
from cugen.spec.types import FLOAT32, UINT32, DType


class Results:
    """What follows the sum: the group's statements, several neighbours at once where alignment allows it."""

    def __init__(
        self,
        found: Contraction,
        shape: Shape,
        lowering: Lowering,
        extents: Mapping[str, Integer],
        exact: Mapping[str, bool],
        groups: tuple[int, int],
    ) -> None:
        self.found, self.shape, self.lowering = found, shape, lowering
        self.extents, self.exact, self.groups = extents, exact, groups
        self.total = self._as_element()
        self.width = self._width()
        self.parts = self._declare_parts() if shape.leaves_sums else None

    def _as_element(self) -> Read:
        """What stands for the sum from here on: an element of an array of its own, so that what follows is elementwise
        for all that looks at it."""
        found, lowering = self.found, self.lowering
        name = "total"
        while name in lowering.arrays:
            name += "_"
        (reduction,) = found.sums
        subscripts = (IndexValue(found.row.name), IndexValue(found.column.name))
        read = Read(name, subscripts, reduction.dtype)
        statements = tuple(
            replace(s, value=rebuilt(s.value, lambda node: read if node == reduction else None))
            for s in found.request.group.statements
        )
        self.request = replace(found.request, group=replace(found.request.group, statements=statements))
        extents = tuple(self.extents[index.name] for index in (found.row, found.column))
        symbol = lowering.names.allocate("total_of")
        standing = Array(name, symbol, reduction.dtype, extents, (extents[1], integer(1)), "register")
        self.arrays = {**lowering.arrays, name: standing}
        lowering.arrays = self.arrays
        return read

    def _width(self) -> int:
        """How many neighbours of a row are stored at once."""
        context, column = self.request.context, self.found.column.name
        width = self.groups[1]
        if self.shape.leaves_sums:
            width = math.gcd(width, WIDEST // self.found.sums[0].dtype.bytes)
        for statement in self.request.group.statements:
            declared = context.spec.array(statement.target)
            if declared.role != "temporary" or statement.target in self.request.stored:
                array = context.arrays[statement.target]
                width = math.gcd(width, widest(array, statement.subscripts, column, context).count)
        whole = divisor(self.extents[column], context)
        return math.gcd(width, whole) if whole else width

    def alignments(self) -> tuple[tuple[str, int], ...]:
        return self._neighbours({}).alignments()

    def _neighbours(self, staged: Mapping[Read, Callable[[Integer], Expr]]) -> Neighbours:
        column = self.found.column.name
        wide = wide_reads(self.request, self.arrays, column, self.width, (self.total,)) if self.width > 1 else {}
        return Neighbours(self.request, self.arrays, column, self.extents[column], self.width, wide, staged)

    def declarations(self) -> tuple[Node, ...]:
        return () if self.parts is None else (Declare(self.parts),)

    def _declare_parts(self) -> Array:
        """Where threads leave their sums, in the memory of the ring."""
        shape, dtype = self.shape, self.found.sums[0].dtype
        pad = parts_pad(dtype.bytes)
        extents = (integer(shape.slices), integer(shape.rows), integer(shape.columns))
        strides = (integer(shape.rows * (shape.columns + pad)), integer(shape.columns + pad), integer(1))
        several = slice(0 if shape.slices > 1 else 1, None)
        name = self.lowering.names.allocate("parts")
        return Array(name, name, dtype, extents[several], strides[several], "shared", flat=False, pad=pad, dynamic=True)

    def nodes(self, sums: Array, place: Place) -> tuple[Node, ...]:
        if self.parts is None:
            return (*self._one(), *self._from_registers(sums, place))
        return (*self.beside(sums, place), Barrier(), *self._collect(self.parts, place))

    def nodes_in_cluster(self, sums: Array, place: Place, rank: Integer) -> tuple[Node, ...]:
        """The blocks of a cluster have parts of the sums each, and store a share of the tile each."""
        assert self.parts is not None
        left = self.beside(sums, place)
        if self.shape.slices > 1:
            left = (*left, Barrier(), *self._join_slices(self.parts, place))
        ended = (Comment("no block ends while another one reads its sums"), ClusterBarrier())
        how = Comment("each block adds up a share of the tile, in the order of the blocks")
        return (*left, ClusterBarrier(), how, *self._collect(self.parts, place, rank), *ended)

    def beside(self, sums: Array, place: Place) -> tuple[Node, ...]:
        """The sums of all slices, where `left` or `joined` finds them."""
        assert self.parts is not None
        return (*self._one(), *self._leave(self.parts, sums, place))

    def left(self, place: Place, at: Callable[[Integer, Integer, int], Access]) -> tuple[Node, ...]:
        """The sums of all slices are added up and go to where `at` says of a row and so many columns from one on."""
        assert self.parts is not None
        return Barrier(), *self._add_slices(self.parts, place, at)

    def joined(
        self,
        place: Place,
        arrival: tuple[Node, ...],
        walk: Loop,
        at: Callable[[Integer, Integer, int], Access],
    ) -> tuple[Node, ...]:
        """The results where other blocks have left sums, which are added in a `walk` over what `at` says, after their
        `arrival`: of each of them all that a thread takes, so that it waits for memory but once."""
        assert self.parts is not None
        shape, width, parts = self.shape, self.width, self.parts
        across = shape.columns // width
        number, walked = self._shared_out(shape.rows * across, place)
        row, column = FloorDiv(number, integer(across)), Mod(number, integer(across)) * width
        which = FloorDiv(number - place.thread, integer(shape.threads))
        slices, added = self._added(
            "part",
            parts.dtype,
            width,
            shape.slices,
            lambda s: Access(parts, (s, row, column), "load", width),
            place.loop_index("s", shape.slices),
        )
        held = self._totals(-(-shape.rows * across // shape.threads))
        v = place.loop_index("w", width)

        def own(v: Integer, kind: str) -> Access:
            return Access(held, (which, v) if width > 1 else (which,), kind)

        def each(node: Node) -> Node:
            return For(Loop(v, integer(0), integer(width), unroll=True), (node,)) if width > 1 else node

        def more(value: Expr) -> Node:
            if held.dtype.is_float:
                return Accumulate(own(v.symbol, "store"), value)
            return Store(own(v.symbol, "store"), combine("sum", Element.of(own(v.symbol, "load")), value))

        left = at(row, column, width)
        earlier: tuple[Node, ...] = (more(Element.of(left)),)
        if width > 1:
            vector = Vector(self.lowering.names.allocate(f"earlier{width}"), held.dtype.compute, held.dtype, width)
            earlier = (Load(vector, left), each(more(vector.component(v.symbol))))
        return (
            *arrival,
            Declare(held),
            *walked((*slices, each(Store(own(v.symbol, "store"), added(v.symbol))))),
            For(walk, walked(earlier)),
            *walked(self._at_place(place, row, column, lambda v: Element.of(own(v, "load")))),
        )

    def _totals(self, count: int) -> Array:
        """A thread's sums on their way to memory."""
        extents = (integer(count), integer(self.width))[: 2 if self.width > 1 else 1]
        strides = (*extents[1:], integer(1))
        name = self.lowering.names.allocate("totals")
        return Array("", name, self.total.dtype, extents, strides, "register", flat=False)

    @cached_property
    def _unit(self) -> Local | None:
        """What sums are multiplied with that would be stored as they stand, several at once: one, unknown to the
        compiler. A wide store wants neighbours in neighbouring registers; so each sum would have to lie in the register
        bank of the column's value that it is added a multiple of, and most multiply-adds would wait for their operands.
        """
        arrays, statements = self.request.context.arrays, self.request.group.statements
        as_they_stand = self.width > 1 and any(
            s.value == self.total and arrays[s.target].dtype == FLOAT32 for s in statements
        )
        if self.total.dtype != FLOAT32 or not (as_they_stand or self.parts is not None):
            return None
        return Local(self.lowering.names.allocate("one"), FLOAT32)

    def _one(self) -> tuple[Node, ...]:
        if self._unit is None:
            return ()
        why = "unknown to the compiler: else the stores, not the sums, would decide in which registers these lie"
        return Comment(why), Let(self._unit, Local("blockDim.z", UINT32))

    def _sum(self, sums: Array, i: Integer, j: Integer) -> Expr:
        """One of a thread's sums, on its way to memory."""
        value = Element.of(Access(sums, (i, j), "load"))
        return value if self._unit is None else Op("mul", (self._unit, value), sums.dtype)

    # Without slices: each thread stores what it has

    def _from_registers(self, sums: Array, place: Place) -> tuple[Node, ...]:
        shape, width = self.shape, self.width
        i, row = self._own_row(place)
        count = shape.thread_columns // width
        g = place.loop_index("g" if width > 1 else "j", count)
        number = g.symbol if count > 1 else integer(0)
        first = number * width
        column = place.origin[self.found.column.name] + self._own_column(place, number, width)

        def total(v: Integer) -> Expr:
            return self._sum(sums, i.symbol, first + v)

        known = dict(self.lowering.symbols)
        down = self._named(self.found.row, place.origin[self.found.row.name] + row)
        across = self._named(self.found.column, column)
        body = (across, *self._elements(total))
        self._forget(known)
        if count > 1:
            body = (For(Loop(g, integer(0), integer(count), unroll=True), body),)
        return (For(Loop(i, integer(0), integer(shape.thread_rows), unroll=True), (down, *body)),)

    def _own_row(self, place: Place) -> tuple[Index, Integer]:
        """A loop's index over a thread's rows, and the row in the tile."""
        width = self.groups[0]
        i = place.loop_index("i", self.shape.thread_rows)
        if self.shape.thread_rows == width:
            return i, place.row + i.symbol
        span = self.shape.lanes * width
        return i, place.row + FloorDiv(i.symbol, integer(width)) * span + Mod(i.symbol, integer(width))

    def _own_column(self, place: Place, number: Integer, width: int) -> Integer:
        """The first of `width` neighbours of a thread, in the tile."""
        per_group = integer(self.groups[1] // width)
        span = self.shape.lane_columns * self.groups[1]
        return place.column + FloorDiv(number, per_group) * span + Mod(number, per_group) * width

    def _named(self, index: spec.Index, definition: Integer) -> Define:
        """The index of an output, which the statements mention by its name from here on."""
        node = define(index.name, definition, self.lowering)
        self.lowering.symbols[index.name] = node.index.symbol
        return node

    def _forget(self, known: Mapping[str, Integer]) -> None:
        self.lowering.symbols.clear()
        self.lowering.symbols.update(known)

    def _elements(self, total: Callable[[Integer], Expr], before: Sequence[Node] = ()) -> tuple[Node, ...]:
        """The statements for neighbours whose indices are named, where they are inside of the output."""
        lowering = self.lowering
        terms: list[Comparison] = []
        for index in (self.found.row, self.found.column):
            place = lowering.symbols[index.name]
            if not self.exact[index.name]:
                terms.append(Comparison(place, "<", self.extents[index.name]))
            lowering.limits[place] = self.extents[index.name]
        scope = Scope()
        scope.nodes += before
        if self.width > 1:
            body = vector_body(self._neighbours({self.total: total}), lowering, scope)
        else:
            value = total(integer(0))
            if isinstance(value, Element) or not isinstance(value, Local):
                local = Local(lowering.names.allocate("total"), self.total.dtype)
                scope.nodes.append(Load(local, value.access) if isinstance(value, Element) else Let(local, value))
                value = local
            scope.remember(self.total, value)
            lower_statements(self.request, lowering, scope)
            body = tuple(scope.nodes)
        return (If(Guard(tuple(terms)), body),) if terms else body

    # With slices or in a cluster: each leaves its sums, then all threads walk over the tile and add them in their order

    def _leave(self, parts: Array, sums: Array, place: Place) -> tuple[Node, ...]:
        shape = self.shape
        width = math.gcd(self.groups[1], WIDEST // sums.dtype.bytes)
        i, row = self._own_row(place)
        count = shape.thread_columns // width
        g = place.loop_index("g", count)
        number = g.symbol if count > 1 else integer(0)
        v = place.loop_index("w", width)
        column = self._own_column(place, number, width)
        name = self.lowering.names.allocate("part")
        vector = Vector(name, sums.dtype.compute, sums.dtype, width)
        value = self._sum(sums, i.symbol, number * width + v.symbol)
        body: tuple[Node, ...] = (
            Let(vector, None, mutable=True),
            For(
                Loop(v, integer(0), integer(width), unroll=True),
                (Assign(vector.component(v.symbol), value),),
            ),
            Store(Access(parts, (*self._slice(place.slice), row, column), "store", width), vector),
        )
        if count > 1:
            body = (For(Loop(g, integer(0), integer(count), unroll=True), body),)
        rows = For(Loop(i, integer(0), integer(shape.thread_rows), unroll=True), body)
        whose = "the slices' sums" if shape.slices > 1 else "the block's sums"
        return Comment(f"{whose}, in the memory of the ring, which all have read"), Barrier(), rows

    def _slice(self, number: Integer) -> tuple[Integer, ...]:
        """The subscript that says whose sums are meant, where a block has several slices."""
        return (number,) if self.shape.slices > 1 else ()

    def _join_slices(self, parts: Array, place: Place) -> tuple[Node, ...]:
        """The sums of all slices go where the first one's were, which only the thread that has read them writes to."""
        why = Comment("what the slices have is added up where the first one's is")
        first = integer(0)
        return why, *self._add_slices(parts, place, lambda r, c, width: Access(parts, (first, r, c), "store", width))

    def _add_slices(
        self, parts: Array, place: Place, at: Callable[[Integer, Integer, int], Access]
    ) -> tuple[Node, ...]:
        shape = self.shape
        width = math.gcd(self.groups[1], WIDEST // parts.dtype.bytes)
        across = shape.columns // width
        number, walked = self._shared_out(shape.rows * across, place)
        row, column = FloorDiv(number, integer(across)), Mod(number, integer(across)) * width

        def part(s: Integer) -> Access:
            return Access(parts, (s, row, column), "load", width)

        loads, total = self._added("part", parts.dtype, width, shape.slices, part, place.loop_index("s", shape.slices))
        vector = Vector(self.lowering.names.allocate(f"joined{width}"), parts.dtype.compute, parts.dtype, width)
        v = place.loop_index("w", width)
        body: tuple[Node, ...] = (
            *loads,
            Let(vector, None, mutable=True),
            For(
                Loop(v, integer(0), integer(width), unroll=True),
                (Assign(vector.component(v.symbol), total(v.symbol)),),
            ),
            Store(at(row, column, width), vector),
        )
        return walked(body)

    def _collect(self, parts: Array, place: Place, rank: Integer | None = None) -> tuple[Node, ...]:
        """The sums of all slices, or of all blocks of the cluster in which this one has the `rank`, become results."""
        shape, width = self.shape, self.width
        across = shape.columns // width
        number, walked = self._shared_out(shape.rows * across, place, rank)
        row, column = FloorDiv(number, integer(across)), Mod(number, integer(across)) * width

        def part(p: Integer) -> Access:
            if rank is None:
                return Access(parts, (p, row, column), "load", width)
            return Access(parts, (*self._slice(integer(0)), row, column), "load", width, rank=p)

        of = shape.slices if rank is None else shape.split
        p, wish = (place.loop_index("s", of), "part") if rank is None else (place.loop_index("p", of), "block")
        before, total = self._added(wish, parts.dtype, width, of, part, p)
        return walked(self._at_place(place, row, column, total, before))

    def _at_place(
        self, place: Place, row: Integer, column: Integer, total: Callable[[Integer], Expr], before: Sequence[Node] = ()
    ) -> tuple[Node, ...]:
        """The statements at a row and column of the tile."""
        known = dict(self.lowering.symbols)
        places = ((self.found.row, row), (self.found.column, column))
        names = [self._named(index, place.origin[index.name] + at) for index, at in places]
        body = (*names, *self._elements(total, before))
        self._forget(known)
        return body

    def _shared_out(
        self, count: int, place: Place, rank: Integer | None = None
    ) -> tuple[Integer, Callable[[tuple[Node, ...]], tuple[Node, ...]]]:
        """One of `count` places of a tile that the thread takes, and how it comes to all of these: by itself, or where
        the block has a `rank`, those of its share."""
        threads, share = self.shape.threads, count
        if rank is not None:
            share = -(-count // (self.shape.split * WARP)) * WARP  # so that no warp's access begins between two sectors
        e = place.loop_index("e", share)
        own = place.thread + e.symbol if share > threads else place.thread
        terms = [Comparison(own, "<", integer(share))] if share % threads else []
        names: list[Node] = []
        number = own
        if rank is not None:
            node = define("number", rank * share + own, self.lowering)
            number = node.index.symbol
            names.append(node)
            if count < share * self.shape.split:
                terms.append(Comparison(number, "<", integer(count)))

        def walked(body: tuple[Node, ...]) -> tuple[Node, ...]:
            if terms:
                body = (If(Guard(tuple(terms)), body),)
            body = (*names, *body)
            return (For(Loop(e, integer(0), integer(share), threads, unroll=True), body),) if share > threads else body

        return number, walked

    def _added(
        self, wish: str, dtype: DType, width: int, count: int, part: Callable[[Integer], Access], index: Index
    ) -> tuple[list[Node], Callable[[Integer], Expr]]:
        """Neighbours of which `count` parts lie in shared memory: what loads them, and each one's sum in order."""
        if width == 1:
            one = Local(self.lowering.names.allocate("total"), self.total.dtype)
            more = Assign(one, Op("add", (one, Element.of(part(index.symbol))), one.dtype))
            return [
                Let(one, Element.of(part(integer(0))), mutable=True),
                For(Loop(index, integer(1), integer(count), unroll=True), (more,)),
            ], lambda v: one
        label = self.lowering.names.allocate(f"{wish}{width}")
        vector = Vector(label, dtype.compute, dtype, width, count)
        load = Load(vector.one(index.symbol), part(index.symbol))
        loads: list[Node] = [
            Let(vector, None, mutable=True),
            For(Loop(index, integer(0), integer(count), unroll=True), (load,)),
        ]

        def total(v: Integer) -> Expr:
            first, *others = (vector.one(integer(p)).component(v) for p in range(count))
            value: Expr = first
            for other in others:
                value = Op("add", (value, other), self.total.dtype)
            return value

        return loads, total
