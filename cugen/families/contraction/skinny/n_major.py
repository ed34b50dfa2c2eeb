"""Few rows times a matrix whose rows lie along memory: lanes have neighbouring columns, groups share out the sum."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import WARP, Shape
from cugen.families.contraction.skinny.multiply import (
    Loaded,
    add_term,
    alignments,
    is_plain,
    loop_index,
    number,
    repeat,
    running,
)
from cugen.families.contraction.skinny.recognition import Skinny
from cugen.pieces.blocks import define, limit, make_grid, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element, Shuffled
from cugen.plan.nodes import Assign, Barrier, Comparison, Declare, For, Guard, If, Index, Let, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.symbols import INT32_MAX, FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer
from cugen.spec.expressions import Expr, Local, Op


def build_columns(found: Skinny, shape: Shape) -> Kernel:
    return _Columns(found, shape).kernel()


class _Columns:
    """The kernel of one product: every thread adds up its share, then the groups of lanes of a block."""

    def __init__(self, found: Skinny, shape: Shape) -> None:
        self.found, self.shape, self.request = found, shape, found.request
        self.lowering = new_lowering(found.request)
        self.lowering.arrays = found.arrays
        self.lane, self.group = thread("x", shape.lanes, self.lowering), thread("y", shape.groups, self.lowering)
        self.extent = found.extent(found.many)
        self.is_even = divides(shape.columns * shape.lanes, self.extent, found.request.context)

    def kernel(self) -> Kernel:
        found, shape, lowering = self.found, self.shape, self.lowering
        span = shape.columns * shape.lanes
        counts = [ceil_div(self.extent, span), *(found.extent(index) for index in found.batch)]
        blocks = make_grid(counts, lowering, self.request.target)
        nodes: list[Node] = []
        for index, place in zip(found.batch, blocks.coordinates[1:], strict=False):
            batch = define(index.name, place, lowering, below=found.extent(index))
            limit(batch.index, found.extent(index), lowering)
            lowering.symbols[index.name] = batch.index.symbol
            nodes.append(batch)
        own = define(f"{found.many.name}0", blocks.coordinates[0] * span + self.lane * shape.columns, lowering)
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
            (shape.lanes, shape.groups, 1),
            alignments=alignments(found, self.loaded),
            minimum_blocks=shape.resident,
        )
        name = found.matrix.array
        rows = f"{found.count} rows at once" if found.count > 1 else "one row"
        sharing = f"{shape.warps} warps" if shape.lanes == WARP else f"{shape.groups} groups of {shape.lanes} lanes"
        many = f"a thread reads {shape.columns} neighbours of {name}, {sharing} share out the sum"
        return replace(kernel, reasons=(f"{rows}: each element of {name} is read once", many))

    def _walk(self, sums: Array) -> tuple[Node, ...]:
        """Rounds along the sum: a group takes `width` terms at a time, of every row."""
        found, shape, lowering = self.found, self.shape, self.lowering
        extent, step = found.extent(found.depth), shape.width * shape.groups
        rows = Loaded(found, found.rows, found.depth, 1, shape.width, lowering)
        matrix = Loaded(found, found.matrix, found.many, shape.width, shape.columns, lowering)
        self.loaded = (matrix, rows)
        high = bounds(extent, lowering.ranges)[1]
        last = max(high - 1, 0) if high + step <= INT32_MAX else high + step
        wish = f"{found.depth.name}0" if shape.width > 1 else found.depth.name
        own = Index(lowering.names.allocate(wish), self.group * shape.width, (0, last))
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
        together = min(shape.loads // shape.width, rounds)
        loop = Loop(own, own.definition, extent, step, unroll_by=together if together > 1 else 0)
        return (*before, For(loop, tuple(body)))

    def _inside(self, nodes: list[Node]) -> Integer:
        """The thread's first column; threads beyond the last read the last ones again."""
        if self.is_even:
            return self.first
        node = define(self.found.many.name, Minimum(self.first, self.extent - self.shape.columns), self.lowering)
        nodes.append(node)
        return node.index.symbol

    def _results(self, sums: Array) -> tuple[Node, ...]:
        """The shares of each row's results: groups of a warp add theirs up by shuffles, warps in shared memory."""
        found, shape, lowering = self.found, self.shape, self.lowering
        i, j = loop_index("i", found.count, lowering), loop_index("j", shape.columns, lowering)
        row, ahead = number(i, found.count), number(j, shape.columns)
        total = Local(lowering.names.allocate("total"), sums.dtype)
        share = Element.of(Access(sums, (row, ahead), "load"))
        if shape.groups == 1:
            stored = self._stored(j, shape.columns, row, ahead, (Let(total, share, mutable=True),), total)
            return repeat(i, found.count, stored)
        shares = self._shares(sums)
        mine = repeat(j, shape.columns, self._shared(shares, ahead, share))
        own = max(shape.columns // shape.groups, 1)
        v = loop_index("v", own, lowering)
        column = self.group * own + number(v, own)
        first = Element.of(Access(shares, (integer(0), column, self.lane), "load"))
        body: list[Node] = [Let(total, first, mutable=True)]
        if shape.warps > 1:
            other = Index(lowering.names.allocate("warp"), integer(1), (1, shape.warps - 1))
            lowering.ranges[other.symbol] = other.range
            taken = Element.of(Access(shares, (other.symbol, column, self.lane), "load"))
            add = Assign(total, Op("add", (total, taken), total.dtype))
            body.append(For(Loop(other, integer(1), integer(shape.warps), unroll=True), (add,)))
        stored = self._stored(v, own, row, column, tuple(body), total)
        closing = (Barrier(),) if found.count > 1 else ()
        return (Declare(shares), *repeat(i, found.count, (*mine, Barrier(), *stored, *closing)))

    def _shares(self, sums: Array) -> Array:
        """Each warp's share of every column."""
        shape = self.shape
        extents = (integer(shape.warps), integer(shape.columns), integer(shape.lanes))
        strides = (extents[1] * extents[2], extents[2], integer(1))
        return Array("", self.lowering.names.allocate("shares"), sums.dtype, extents, strides, "shared", flat=False)

    def _shared(self, shares: Array, column: Integer, value: Expr) -> tuple[Node, ...]:
        """Stores the warp's share of a column, once its groups have added up theirs."""
        shape, lowering = self.shape, self.lowering
        groups = shape.groups // shape.warps
        if groups == 1:
            return (Store(Access(shares, (self.group, column, self.lane), "store"), value),)
        share = Local(lowering.names.allocate("share"), shares.dtype)
        distance = Index(lowering.names.allocate("distance"), integer(0), (0, WARP - 1))
        lowering.ranges[distance.symbol] = distance.range
        other = Shuffled(share.name, share.dtype, distance.symbol)
        loop = Loop(distance, integer(0), integer(groups.bit_length() - 1), unroll=True, doubles=shape.lanes)
        added = For(loop, (Assign(share, Op("add", (share, other), share.dtype)),))
        place = Access(shares, (FloorDiv(self.group, integer(groups)), column, self.lane), "store")
        is_first = Guard((Comparison(Mod(self.group, integer(groups)), "==", integer(0)),))
        return (Let(share, value, mutable=True), added, If(is_first, (Store(place, share),)))

    def _stored(
        self, loop: Index, count: int, row: Integer, ahead: Integer, body: tuple[Node, ...], total: Local
    ) -> tuple[Node, ...]:
        """Results of the thread's columns, once the body has their totals."""
        found, shape, lowering = self.found, self.shape, self.lowering
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
        storing = shape.columns // count
        terms = [Comparison(self.group, "<", integer(storing))] if storing < shape.groups else []
        if not self.is_even:
            terms.append(Comparison(self.first, "<", self.extent))
        stored = repeat(loop, count, (*body, *places, *scope.nodes))
        return (If(Guard(tuple(terms)), stored),) if terms else stored
