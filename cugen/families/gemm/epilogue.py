"""The results of a product: from the sums in a thread's registers to memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.families.gemm.coordinates import Place
from cugen.pieces.blocks import define
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import Neighbours, vector_body, wide_reads
from cugen.pieces.vectors import WIDEST, divisor, widest
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Comment, Comparison, Define, For, Guard, If, Index, Let, Load, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec import expressions as spec
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read
from cugen.spec.types import FLOAT32, UINT32


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

    def _as_element(self) -> Read:
        """What stands for the sum from here on: an element of an array of its own, so that what follows is elementwise
        for all that looks at it."""
        found, lowering = self.found, self.lowering
        name = "total"
        while name in lowering.arrays:
            name += "_"
        (reduction,) = found.sums
        subscripts = (IndexValue(found.m.name), IndexValue(found.n.name))
        read = Read(name, subscripts, reduction.dtype)
        statements = tuple(
            replace(s, value=rebuilt(s.value, lambda node: read if node == reduction else None))
            for s in found.request.group.statements
        )
        self.request = replace(found.request, group=replace(found.request.group, statements=statements))
        extents = tuple(self.extents[index.name] for index in (found.m, found.n))
        symbol = lowering.names.allocate("total_of")
        standing = Array(name, symbol, reduction.dtype, extents, (extents[1], integer(1)), "register")
        self.arrays = {**lowering.arrays, name: standing}
        lowering.arrays = self.arrays
        return read

    def _width(self) -> int:
        """How many neighbours of a row are stored at once."""
        context, column = self.request.context, self.found.n.name
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
        column = self.found.n.name
        wide = wide_reads(self.request, self.arrays, column, self.width, (self.total,)) if self.width > 1 else {}
        return Neighbours(self.request, self.arrays, column, self.extents[column], self.width, wide, staged)

    def declarations(self) -> tuple[Node, ...]:
        return ()

    def nodes(self, sums: Array, place: Place) -> tuple[Node, ...]:
        return (*self._one(), *self._from_registers(sums, place))

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
        if self.total.dtype != FLOAT32 or not (as_they_stand or self.shape.leaves_sums):
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

    def _from_registers(self, sums: Array, place: Place) -> tuple[Node, ...]:
        shape, width = self.shape, self.width
        i, row = self._own_row(place)
        count = shape.thread_columns // width
        g = place.loop_index("g" if width > 1 else "j", count)
        number = g.symbol if count > 1 else integer(0)
        first = number * width
        column = place.origin[self.found.n.name] + self._own_column(place, number, width)

        def total(v: Integer) -> Expr:
            return self._sum(sums, i.symbol, first + v)

        known = dict(self.lowering.symbols)
        down = self._named(self.found.m, place.origin[self.found.m.name] + row)
        across = self._named(self.found.n, column)
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
        for index in (self.found.m, self.found.n):
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

    def _at_place(
        self, place: Place, row: Integer, column: Integer, total: Callable[[Integer], Expr], before: Sequence[Node] = ()
    ) -> tuple[Node, ...]:
        """The statements at a row and column of the tile."""
        known = dict(self.lowering.symbols)
        places = ((self.found.m, row), (self.found.n, column))
        names = [self._named(index, place.origin[index.name] + at) for index, at in places]
        body = (*names, *self._elements(total, before))
        self._forget(known)
        return body
