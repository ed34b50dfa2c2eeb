"""The kernel of many small products: tiles filled once, running values in registers, results stored in vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cugen.families.contraction.batched.config import Shape, Side, Tile
from cugen.families.contraction.batched.copy import fill, place_in, tile_array
from cugen.families.contraction.k_range import where_they_hold
from cugen.families.contraction.recognition import Contraction
from cugen.pieces.blocks import define, lay_blocks, limit, thread
from cugen.pieces.grid import divides
from cugen.pieces.kernels import assemble, new_lowering
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import Neighbours, vector_body, wide_reads
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Accumulate,
    Barrier,
    Comparison,
    Declare,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    Loop,
    Node,
    Store,
)
from cugen.plan.request import Request
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.plan.symbols import FloorDiv, Integer, Mod, ceil_div, integer
from cugen.rewrite.align_reductions import rebuilt
from cugen.spec.expressions import Expr, IndexValue, Local, Op, Read, Reduce

_WRITTEN_OUT = 8  # steps of a longer sum that stand side by side


class Builder:
    """The kernel of one contraction, part by part."""

    def __init__(self, found: Contraction, shape: Shape) -> None:
        self.found, self.shape, self.request = found, shape, found.request
        self.lowering = new_lowering(found.request)
        self.arrays = {tile.operand.read: tile_array(found, tile, shape, self.lowering) for tile in shape.tiles}
        self.batch = to_integer(found.batch[0].extent, self.lowering.symbols)
        self.is_even = divides(shape.products, self.batch, self.request.context)
        self.sums: dict[Reduce, Array] = {}
        self.aligned: dict[str, int] = {}

    def kernel(self) -> Kernel:
        found, shape, lowering = self.found, self.shape, self.lowering
        extents = [to_integer(index.extent, lowering.symbols) for index in found.batch]
        blocks = lay_blocks([ceil_div(self.batch, shape.products), *extents[1:]], lowering, self.request.target)
        indices = self._indices(blocks.places, extents)
        own = thread("x", shape.team, lowering) + self.product * shape.team
        filling: list[Node] = []
        for tile in shape.tiles:
            array = self.arrays[tile.operand.read]
            filling += fill(found, tile, shape, array, lowering, self.first, own)
        sums = self._sums()
        walk = self._walk()
        results = self._results()
        parts = (
            ("tiles", tuple(Declare(array) for array in self.arrays.values())),
            ("indices", indices),
            ("filling", (*filling, Barrier())),
            ("sums", sums),
            ("walk", (walk,)),
            ("results", results),
        )
        kernel = assemble(
            self.request,
            lowering,
            "batched",
            parts,
            blocks.grid,
            (shape.team, shape.products, 1),
            alignments=self._alignments(),
        )
        return replace(kernel, reasons=self._reasons())

    # Where the block and the thread stand

    def _indices(self, places: tuple[Integer, ...], extents: list[Integer]) -> tuple[Node, ...]:
        found, shape, lowering = self.found, self.shape, self.lowering
        nodes: list[Node] = []
        own = thread("x", shape.team, lowering)
        self.product = thread("y", shape.products, lowering)
        self.places = {
            found.m.name: self._define("ty", FloorDiv(own, integer(shape.columns.threads)), nodes),
            found.n.name: self._define("tx", Mod(own, integer(shape.columns.threads)), nodes),
        }
        for index, place, extent in zip(found.batch[1:], places[1:], extents[1:], strict=False):
            node = define(index.name, place, lowering, below=extent)
            limit(node.index, extent, lowering)
            lowering.symbols[index.name] = node.index.symbol
            nodes.append(node)
        name = found.batch[0].name
        if shape.products > 1:
            below = ceil_div(self.batch, shape.products) * shape.products
            node = define(f"{name}0", places[0] * shape.products, lowering, below=below)
            nodes.append(node)
            self.first: Integer = node.index.symbol
            node = define(name, self.first + self.product, lowering, below=below)
        else:
            node = define(name, places[0], lowering, below=self.batch)
            self.first = node.index.symbol
        if self.is_even:
            limit(node.index, self.batch, lowering)
        lowering.symbols[name] = node.index.symbol
        return (*nodes, node)

    def _define(self, wish: str, definition: Integer, nodes: list[Node]) -> Integer:
        if definition.is_Integer:
            return definition
        node = define(wish, definition, self.lowering)
        nodes.append(node)
        return node.index.symbol

    # The walk along the sum

    def _sums(self) -> tuple[Node, ...]:
        extents = (integer(self.shape.rows.own), integer(self.shape.columns.own))
        for reduction in self.found.sums:
            name = self.lowering.names.allocate("sum")
            strides = (extents[1], integer(1))
            self.sums[reduction] = Array(name, name, reduction.dtype, extents, strides, "register", flat=False)
        return tuple(Declare(array, zeroed=True) for array in self.sums.values())

    def _walk(self) -> Node:
        """Steps along the sum, each of as many terms as the operands with such neighbours are read for at once."""
        shape, depth = self.shape, self.found.k.name
        wish = f"{depth}0" if shape.step > 1 else depth
        outer = self._loop_index(wish, (0, shape.depth - shape.step))
        inner = self._loop_index("d", (0, shape.step - 1)) if shape.step > 1 else None
        values: dict[Read, Callable[[Index, Integer], Expr]] = {}
        before: list[Node] = []
        body: list[Node] = []
        k = outer.symbol if inner is None else outer.symbol + inner.symbol
        for tile in shape.tiles:
            if tile.is_deep:
                values[tile.operand.read] = self._deep(tile, outer.symbol, inner, before)
            else:
                values[tile.operand.read] = self._upright(tile, k, body)
        body += self._terms(k, values)
        if inner is not None:
            body = [For(Loop(inner, integer(0), integer(shape.step), unroll=True), tuple(body))]
        unrolled = shape.is_unrolled
        together = 0 if unrolled else max(_WRITTEN_OUT // shape.step, 1)
        loop = Loop(outer, integer(0), integer(shape.depth), shape.step, unroll=unrolled, unroll_by=together)
        return For(loop, (*before, *body))

    def _deep(
        self, tile: Tile, first: Integer, inner: Index | None, nodes: list[Node]
    ) -> Callable[[Index, Integer], Expr]:
        """Loads what every row needs of a step: `step` neighbours along the sum."""
        side, read = tile.outer, tile.operand.read
        index = self._own_index(side)
        place = self._element(side, index.symbol)
        access = Access(self.arrays[read], self._in_tile(tile, place, first), "load", tile.read)
        if inner is None:
            return self._loaded(tile, access, index, side.own, nodes)
        vector = self._vector(tile, side.own)
        load = Load(vector.one(index.symbol) if vector.count else vector, access)
        self._repeat(vector, load, index, side.own, nodes)
        return lambda number, _: (vector.one(number.symbol) if vector.count else vector).component(inner.symbol)

    def _upright(self, tile: Tile, k: Integer, nodes: list[Node]) -> Callable[[Index, Integer], Expr]:
        """Loads what a term needs of a tile whose neighbours are rows or columns."""
        side, read = tile.outer, tile.operand.read
        index = self._vector_index(side)
        place = self._vector_place(side, index)
        access = Access(self.arrays[read], self._in_tile(tile, k, place), "load", tile.read)
        if side.width == 1:
            return self._loaded(tile, access, index, side.own, nodes)
        vector = self._vector(tile, side.vectors)
        load = Load(vector.one(index.symbol) if vector.count else vector, access)
        self._repeat(vector, load, index, side.vectors, nodes)
        width = integer(side.width)

        def value(number: Index, _: Integer) -> Expr:
            if not vector.count:
                return vector.component(number.symbol)
            return vector.one(FloorDiv(number.symbol, width)).component(Mod(number.symbol, width))

        return value

    def _loaded(
        self, tile: Tile, access: Access, index: Index, count: int, nodes: list[Node]
    ) -> Callable[[Index, Integer], Expr]:
        """Single elements: a local, or an array of them."""
        name = self.lowering.names.allocate(self._name(tile))
        dtype = tile.operand.read.dtype
        if count == 1:
            local = Local(name, dtype)
            nodes.append(Load(local, access))
            return lambda _, __: local
        array = Array("", name, dtype, (integer(count),), (integer(1),), "register", flat=False)
        store = Store(Access(array, (index.symbol,), "store"), Element.of(access))
        loop = Loop(index, integer(0), integer(count), unroll=True)
        nodes += [Declare(array), For(loop, (store,))]
        return lambda number, _: Element.of(Access(array, (number.symbol,), "load"))

    def _repeat(self, vector: Vector, load: Load, index: Index, count: int, nodes: list[Node]) -> None:
        if vector.count:
            loop = Loop(index, integer(0), integer(count), unroll=True)
            nodes += [Let(vector, None, mutable=True), For(loop, (load,))]
        else:
            nodes.append(load)

    def _vector(self, tile: Tile, count: int) -> Vector:
        name = self._name(tile)
        separator = "_" if name[-1].isdigit() else ""
        source = self.arrays[tile.operand.read].dtype
        name = self.lowering.names.allocate(f"{name}{separator}{tile.read}")
        return Vector(name, source.compute, source, tile.read, count if count > 1 else 0)

    def _name(self, tile: Tile) -> str:
        return tile.operand.read.array.lower()

    def _in_tile(self, tile: Tile, row: Integer, column: Integer) -> tuple[Integer, ...]:
        return place_in(tile, self.shape, self.arrays[tile.operand.read], (self.product, row, column))

    def _terms(self, k: Integer, values: dict[Read, Callable[[Index, Integer], Expr]]) -> tuple[Node, ...]:
        """One term for each of the thread's elements."""
        found, shape, lowering = self.found, self.shape, self.lowering
        i, j = self._own_index(shape.rows), self._own_index(shape.columns)
        lefts = {operand.read for operand in found.a_operands}
        nodes: list[Node] = []

        def on_read(read: Read) -> Expr:
            return values[read](i if read in lefts else j, k)

        for reduction, sums in self.sums.items():
            scope = Scope()
            term = lowering.lower(substitute(reduction.body, {}, on_read), scope)
            nodes += scope.nodes
            at = tuple(
                number.symbol if side.own > 1 else integer(0) for number, side in ((i, shape.rows), (j, shape.columns))
            )
            if sums.dtype.is_float:
                nodes.append(Accumulate(Access(sums, at, "store"), term))
            else:
                old = Element.of(Access(sums, at, "load"))
                nodes.append(Store(Access(sums, at, "store"), Op("add", (old, term), sums.dtype)))
        symbols = {
            **lowering.symbols,
            found.m.name: self._element(shape.rows, i.symbol),
            found.n.name: self._element(shape.columns, j.symbol),
            found.k.name: k,
        }
        body = where_they_hold(lowering, found.conditions, symbols, nodes)
        for number, side in ((j, shape.columns), (i, shape.rows)):
            if side.own > 1:
                body = (For(Loop(number, integer(0), integer(side.own), unroll=True), body),)
        return body

    def _element(self, side: Side, number: Integer) -> Integer:
        """Which row or column one of the thread's own is."""
        first = self.places[side.index.name]
        if side.own == 1:
            return first
        if side.vectors == 1:
            return first * side.width + number
        if side.width == 1:
            return first + number * side.threads
        width = integer(side.width)
        return (first + FloorDiv(number, width) * side.threads) * side.width + Mod(number, width)

    def _vector_place(self, side: Side, index: Index) -> Integer:
        """The first of the neighbours that a vector of the thread holds."""
        first = self.places[side.index.name]
        return (first + index.symbol * side.threads if side.vectors > 1 else first) * side.width

    def _own_index(self, side: Side) -> Index:
        return self._loop_index("i" if side is self.shape.rows else "j", (0, side.own - 1))

    def _vector_index(self, side: Side) -> Index:
        if side.width == 1:
            return self._own_index(side)
        return self._loop_index("r" if side is self.shape.rows else "c", (0, side.vectors - 1))

    def _loop_index(self, wish: str, values: tuple[int, int]) -> Index:
        """The variable of a loop; loops that stand side by side over equal ranges share it."""
        name = self.lowering.loops.get((wish, values)) or self.lowering.names.allocate(wish)
        self.lowering.loops[wish, values] = name
        index = Index(name, integer(0), values)
        self.lowering.ranges[index.symbol] = values
        return index

    # Results

    def _results(self) -> tuple[Node, ...]:
        found, shape, lowering = self.found, self.shape, self.lowering
        rows, columns = shape.rows, shape.columns
        i = self._own_index(rows)
        row = define(found.m.name, self._element(rows, i.symbol), lowering)
        lowering.symbols[found.m.name] = row.index.symbol
        j = self._vector_index(columns)
        column = define(found.n.name, self._vector_place(columns, j), lowering)
        lowering.symbols[found.n.name] = column.index.symbol
        terms: list[Comparison] = []
        if not self.is_even:
            terms.append(Comparison(lowering.symbols[found.batch[0].name], "<", self.batch))
        for node, side in ((row, rows), (column, columns)):
            extent = to_integer(side.index.extent, lowering.symbols)
            if side.covered > side.extent:
                terms.append(Comparison(node.index.symbol, "<", extent))
            limit(node.index, extent, lowering)
        name = lowering.symbols[found.batch[0].name]
        lowering.limits[name] = self.batch
        body = self._stored(i, j)
        guarded = (If(Guard(tuple(terms)), body),) if terms else body
        across: tuple[Node, ...] = (column, *guarded)
        if columns.vectors > 1:
            across = (For(Loop(j, integer(0), integer(columns.vectors), unroll=True), across),)
        if rows.own > 1:
            return (For(Loop(i, integer(0), integer(rows.own), unroll=True), (row, *across)),)
        return (row, *across)

    def _stored(self, i: Index, j: Index) -> tuple[Node, ...]:
        """What the statements make of the sums at one row and a vector of columns."""
        found, shape, lowering = self.found, self.shape, self.lowering
        columns, scope = shape.columns, Scope()
        row = i.symbol if shape.rows.own > 1 else integer(0)
        first = j.symbol * columns.width if columns.vectors > 1 else integer(0)

        def total(sums: Array, ahead: Integer) -> Element:
            return Element.of(Access(sums, (row, first + ahead), "load"))

        if columns.width == 1:
            for reduction, sums in self.sums.items():
                local = Local(lowering.names.allocate("total"), reduction.dtype)
                scope.nodes.append(Load(local, total(sums, integer(0)).access))
                scope.remember(reduction, local)
            lower_statements(self.request, lowering, scope)
            return tuple(scope.nodes)
        names = (IndexValue(found.m.name), IndexValue(found.n.name))
        reads = {reduction: Read(sums.name, names, reduction.dtype) for reduction, sums in self.sums.items()}
        request = self._with(reads)
        arrays = {**self.request.context.arrays, **{sums.name: sums for sums in self.sums.values()}}
        lowering.arrays = arrays
        staged = {
            reads[reduction]: lambda ahead, sums=sums: total(sums, ahead) for reduction, sums in self.sums.items()
        }
        along, width = found.n.name, columns.width
        wide = wide_reads(request, arrays, along, width, tuple(staged))
        extent = to_integer(found.n.extent, lowering.symbols)
        neighbours = Neighbours(request, arrays, along, extent, width, wide, staged)
        self.aligned = dict(neighbours.alignments())
        return vector_body(neighbours, lowering, scope)

    def _with(self, reads: dict[Reduce, Read]) -> Request:
        def change(node: Expr) -> Expr | None:
            return reads.get(node) if isinstance(node, Reduce) else None

        group = self.request.group
        statements = tuple(replace(s, value=rebuilt(s.value, change)) for s in group.statements)
        return replace(self.request, group=replace(group, statements=statements))

    def _alignments(self) -> tuple[tuple[str, int], ...]:
        found = dict(self.aligned)
        for tile in self.shape.tiles:
            name = tile.operand.read.array
            if tile.copied > 1:
                bytes_ = tile.copied * self.request.context.arrays[name].dtype.bytes
                found[name] = max(found.get(name, 0), bytes_)
        arrays = self.request.context.spec.arrays
        return tuple((a.name, found[a.name]) for a in arrays if a.name in found and not a.is_temporary)

    def _reasons(self) -> tuple[str, ...]:
        found, shape = self.found, self.shape
        rows, columns = shape.rows, shape.columns
        what = f"products of {rows.extent} x {shape.depth} by {shape.depth} x {columns.extent}"
        many = f"{shape.products} in each block" if shape.products > 1 else "one in each block"
        threads = f"{shape.team} threads each, {rows.own} x {columns.own} elements in a thread"
        moved = [
            f"{tile.operand.read.array} is read {tile.copied} elements at a time"
            for tile in shape.tiles
            if tile.copied > 1
        ]
        return (f"{what}, {many}: {threads}", *moved[: len(found.operands)])
