"""Few rows times a matrix whose rows lie along memory: lanes have neighbouring columns, warps share out the sum."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.blocks import define, lay_blocks, limit, thread
from cugen.families.grid import divides
from cugen.families.kernels import assemble, new_lowering
from cugen.families.skinny_form import Skinny
from cugen.families.skinny_shape import WARP, Shape
from cugen.families.skinny_terms import Loaded, add_term, alignments, is_plain, loop_index, number, repeat, running
from cugen.families.statements import lower_statements
from cugen.plan.ir import (
    Access,
    Array,
    Assign,
    Barrier,
    Comparison,
    Declare,
    Element,
    For,
    Guard,
    If,
    Index,
    Kernel,
    Let,
    Loop,
    Node,
    Store,
)
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, Integer, Minimum, bounds, ceil_div, integer
from cugen.spec.expressions import Local, Op

_TOGETHER = 8  # loads of the matrix in flight


def build_columns(found: Skinny, shape: Shape) -> Kernel:
    return _Columns(found, shape).kernel()


class _Columns:
    """The kernel of one product: every thread adds up its share, then the warps of a block."""

    def __init__(self, found: Skinny, shape: Shape) -> None:
        self.found, self.shape, self.request = found, shape, found.request
        self.lowering = new_lowering(found.request)
        self.lowering.arrays = found.arrays
        self.lane, self.warp = thread("x", WARP, self.lowering), thread("y", shape.warps, self.lowering)
        self.extent = found.extent(found.many)
        self.is_even = divides(shape.columns * WARP, self.extent, found.request.context)

    def kernel(self) -> Kernel:
        found, shape, lowering = self.found, self.shape, self.lowering
        span = shape.columns * WARP
        counts = [ceil_div(self.extent, span), *(found.extent(index) for index in found.batch)]
        blocks = lay_blocks(counts, lowering, self.request.target)
        nodes: list[Node] = []
        for index, place in zip(found.batch, blocks.places[1:], strict=False):
            batch = define(index.name, place, lowering, below=found.extent(index))
            limit(batch.index, found.extent(index), lowering)
            lowering.symbols[index.name] = batch.index.symbol
            nodes.append(batch)
        own = define(f"{found.many.name}0", blocks.places[0] * span + self.lane * shape.columns, lowering)
        nodes.append(own)
        self.first = own.index.symbol
        lowering.prepare(tuple(statement.value for statement in self.request.group.statements))
        sums = running(found, shape.columns, lowering)
        walk = self._walk(sums)
        results = self._results(sums)
        parts = (("indices", tuple(nodes)), ("walk", (Declare(sums, zeroed=True), *walk)), ("results", results))
        kernel = assemble(
            self.request,
            lowering,
            "skinny",
            parts,
            blocks.grid,
            (WARP, shape.warps, 1),
            alignments=alignments(found, self.loaded),
        )
        name = found.matrix.array
        rows = f"{found.count} rows at once" if found.count > 1 else "one row"
        many = f"a thread reads {shape.columns} neighbours of {name}, {shape.warps} warps share out the sum"
        return replace(kernel, reasons=(f"{rows}: each element of {name} is read once", many))

    def _walk(self, sums: Array) -> tuple[Node, ...]:
        """Rounds along the sum: a warp takes `width` terms at a time, of every row."""
        found, shape, lowering = self.found, self.shape, self.lowering
        extent, step = found.extent(found.depth), shape.width * shape.warps
        rows = Loaded(found, found.rows, found.depth, 1, shape.width, lowering)
        matrix = Loaded(found, found.matrix, found.many, shape.width, shape.columns, lowering)
        self.loaded = (matrix, rows)
        high = bounds(extent, lowering.ranges)[1]
        last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
        wish = f"{found.depth.name}0" if shape.width > 1 else found.depth.name
        own = Index(lowering.names.allocate(wish), self.warp * shape.width, (0, last))
        lowering.ranges[own.symbol] = own.range
        lowering.limits[own.symbol] = extent
        lowering.symbols[found.depth.name] = own.symbol
        i, j = loop_index("i", found.count, lowering), loop_index("j", shape.columns, lowering)
        d = loop_index("d", shape.width, lowering)
        row, column, term = number(i, found.count), number(j, shape.columns), number(d, shape.width)
        if found.few is not None:
            lowering.symbols[found.few.name] = row
        before: list[Node] = []
        place = self._inside(before)
        each_row = rows.load(i)
        lowering.symbols[found.depth.name] = own.symbol + term
        lowering.symbols[found.many.name] = place
        body = [*matrix.load(d)]
        scope = Scope(Scope(), frozenset((found.depth.name, found.many.name)), certain=False)
        if not is_plain(found):
            lowering.symbols[found.depth.name] = lowering.define(found.depth.name, own.symbol + term, scope)
            lowering.symbols[found.many.name] = lowering.define(found.many.name, place + column, scope)
            if found.few is not None:
                lowering.symbols[found.few.name] = lowering.define(found.few.name, row, scope)
        known = {found.matrix: matrix.value(term, column), found.rows: rows.value(integer(0), term)}
        add_term(found, lowering, scope, sums, (row, column), known)
        products = repeat(d, shape.width, repeat(j, shape.columns, tuple(scope.nodes)))
        body += repeat(i, found.count, (*each_row, *products))
        rounds = -(-high // step)
        together = max(_TOGETHER // shape.width, 1)
        loop = Loop(own, own.definition, extent, step, unroll_by=min(together, rounds) if rounds > 1 else 0)
        return (*before, For(loop, tuple(body)))

    def _inside(self, nodes: list[Node]) -> Integer:
        """The thread's first column; threads beyond the last read the last ones again."""
        if self.is_even:
            return self.first
        node = define(self.found.many.name, Minimum(self.first, self.extent - self.shape.columns), self.lowering)
        nodes.append(node)
        return node.index.symbol

    def _results(self, sums: Array) -> tuple[Node, ...]:
        """The warps' shares of each row's results meet in shared memory, in their order; the first warp stores."""
        found, shape, lowering = self.found, self.shape, self.lowering
        i, j = loop_index("i", found.count, lowering), loop_index("j", shape.columns, lowering)
        row, ahead = number(i, found.count), number(j, shape.columns)
        total = Local(lowering.names.allocate("total"), sums.dtype)
        share = Element.of(Access(sums, (row, ahead), "load"))
        nodes: list[Node] = []
        body: list[Node] = [Let(total, share, mutable=True)]
        if shape.warps > 1:
            extents = (integer(shape.warps), integer(shape.columns), integer(WARP))
            strides = (integer(shape.columns * WARP), integer(WARP), integer(1))
            name = lowering.names.allocate("shares")
            shares = Array("", name, sums.dtype, extents, strides, "shared", flat=False)
            mine = Store(Access(shares, (self.warp, ahead, self.lane), "store"), share)
            nodes = [Declare(shares)]
            filled = (*repeat(j, shape.columns, (mine,)), Barrier())
            other = Index(lowering.names.allocate("warp"), integer(1), (1, shape.warps - 1))
            lowering.ranges[other.symbol] = other.range
            taken = Element.of(Access(shares, (other.symbol, ahead, self.lane), "load"))
            add = Assign(total, Op("add", (total, taken), total.dtype))
            body.append(For(Loop(other, integer(1), integer(shape.warps), unroll=True), (add,)))
        scope = Scope()
        column = define(found.many.name, self.first + ahead, lowering)
        limit(column.index, self.extent, lowering)
        lowering.symbols[found.many.name] = column.index.symbol
        places: list[Node] = [column]
        if found.few is not None:
            node = define(found.few.name, row, lowering)
            lowering.symbols[found.few.name] = node.index.symbol
            places.append(node)
        scope.remember(found.reduction, total)
        lower_statements(self.request, lowering, scope)
        terms = [Comparison(self.warp, "==", integer(0))] if shape.warps > 1 else []
        if not self.is_even:
            terms.append(Comparison(self.first, "<", self.extent))
        stored: tuple[Node, ...] = repeat(j, shape.columns, (*body, *places, *scope.nodes))
        if terms:
            stored = (If(Guard(tuple(terms)), stored),)
        if shape.warps == 1:
            return (*nodes, *repeat(i, found.count, stored))
        closing = (Barrier(),) if found.count > 1 else ()
        return (*nodes, *repeat(i, found.count, (*filled, *stored, *closing)))
