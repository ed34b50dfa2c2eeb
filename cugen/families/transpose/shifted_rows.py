"""A transposing kernel for outputs whose rows begin inside of sectors: each row is written from where a sector begins.

A sector of memory that two blocks write, or one block in two accesses, costs much more than one that is written at
once. So the part of a row that a block writes begins up to a sector before its tile, and its tile has the rows of the
input that it takes for that."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.transpose.packed_tile import BrickKernel, element_of, moved
from cugen.pieces.blocks import define, limit, reaching
from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.statements import lower_statements
from cugen.pieces.vector_body import Neighbours, depends_on_place, vector_body
from cugen.pieces.vectors import WIDEST, Place, is_contiguous, offset_of
from cugen.plan.memory import Access
from cugen.plan.names import Names
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Loop, Node
from cugen.plan.scopes import Scope
from cugen.plan.symbols import FloorDiv, Integer, Maximum, Minimum, Mod, ceil_div, integer


class ShiftedKernel(BrickKernel):
    """The kernel of one group."""

    def _counts(self) -> list[Integer]:
        """The last row may begin almost a sector before its tile, and must reach its end all the same."""
        across, down = self.extents[:2]
        first = reaching(across, self.brick.own, self.brick.shift, self.lowering.ranges)
        return [first, ceil_div(down, self.brick.down)]

    def _neighbours(self) -> Neighbours:
        """Operands whose rows begin as those of the output are loaded in vectors, others one by one."""
        turn, width, name = self.turn, self.brick.store.width, self.turn.across.name
        wide = {}
        for read in certain_reads(self.request, turn.arrays):
            place, array = (read.array, read.subscripts), turn.arrays[read.array]
            if read in turn.reads or array.space not in IN_MEMORY:
                continue
            if is_contiguous(array, read.subscripts, name) and turn.run_alike(place, self._output(), width):
                wide[read] = min(width, WIDEST // array.dtype.bytes)
        return Neighbours(self.request, turn.arrays, name, self.extents[0], width, wide)

    def _row_inside(self, row: Integer, scope: list[Node]) -> Integer:
        """The tile's first rows lie before the block's own, and before the input's first in the first block."""
        pack, extent = self.brick.pack, self.extents[0]
        place = Minimum(self.first[0] + row * pack - self.brick.shift, extent - pack)
        node = define(f"{self.turn.across.name}_in", Maximum(place, integer(0)), self.lowering)
        limit(node.index, extent, self.lowering)
        scope.append(node)
        return node.index.symbol

    def _elements(self) -> tuple[Node, ...]:
        brick, lowering = self.brick, self.lowering
        nodes = list(self._lay(brick.store, ""))
        step = brick.threads // brick.store.lanes
        r, rows = self._index("r", brick.down, step)
        n = define(self.turn.down.name, self.first[1] + self.ty + r, lowering)
        limit(n.index, self.extents[1], lowering)
        lowering.symbols[self.turn.down.name] = n.index.symbol
        found: list[Node] = []
        column = self._column(self.ty + r, found)
        # Tiles lie a multiple of a sector apart, so that the place inside of the tile says how a row begins.
        inside = {**lowering.symbols, self.turn.down.name: self.ty + r}
        start = offset_of(self.turn.arrays, self._output(), inside, self.turn.across.name)
        back = define("back", Mod(start, integer(brick.shift)), lowering)
        outer = Scope()
        inner = Scope(outer, frozenset((self.turn.down.name,)))
        inner.nodes += [*found, back, *self._row(inner, back, column)]
        row = self._unrolled(rows, brick.down, step, (n, *self._guarded(1, n.index.symbol, tuple(inner.nodes))))
        return (*nodes, *outer.nodes, *row)

    def _output(self) -> Place:
        statement = next(s for s in self.request.group.statements if s.target in self.turn.stored())
        return statement.target, statement.subscripts

    def _row(self, scope: Scope, back: Define, column: Integer) -> tuple[Node, ...]:
        """The block's part of a row of the output."""
        brick, name, width = self.brick, self.turn.across.name, self.brick.store.width
        c, columns = self._index("c", brick.own, brick.store.run)
        along = c + self.tx * width
        own = depends_on_place(self.neighbours.statements, name, (*self.neighbours.wide, *self.turn.reads))
        row = define("row", along + brick.shift - back.index.symbol, self.lowering)
        place = define(f"{name}_first" if own else name, self.first[0] + row.index.symbol - brick.shift, self.lowering)
        first, extent = place.index.symbol, self.extents[0]
        self.lowering.symbols[name] = first
        inside = Guard((Comparison(first, ">=", integer(0)), Comparison(first + (width - 1), "<", extent)))
        names = self.lowering.names
        self.lowering.names = Names(names)
        whole = self._whole(Scope(scope, frozenset((name,)), certain=False), row.index.symbol, column)
        self.lowering.names = Names(names)
        pieces = self._pieces(Scope(scope, frozenset((name,)), certain=False), first, row.index.symbol, column)
        body: tuple[Node, ...] = (row, place, If(inside, whole, pieces))
        if brick.own % brick.store.run:
            body = (If(Guard((Comparison(along, "<", integer(brick.own)),)), body),)
        return self._unrolled(columns, brick.own, brick.store.run, body)

    def _whole(self, scope: Scope, row: Integer, column: Integer) -> tuple[Node, ...]:
        """Vectors that lie inside of the row."""
        pack, staged = self.brick.pack, {}
        known = dict(self.lowering.symbols)
        for read, tile in self.tiles.items():
            if pack == 1:
                staged[read] = element_of(tile, row, column)
            else:
                staged[read] = self._words(tile, FloorDiv(row, integer(pack)), column, scope)
        nodes = vector_body(replace(self.neighbours, staged=staged), self.lowering, scope)
        self.lowering.symbols.update(known)
        return nodes

    def _pieces(self, scope: Scope, first: Integer, row: Integer, column: Integer) -> tuple[Node, ...]:
        """What is left of vectors at both ends of the row, element by element."""
        brick, name, extent = self.brick, self.turn.across.name, self.extents[0]
        number = Index(self.lowering.names.allocate("v"), integer(0), (0, brick.store.width - 1))
        self.lowering.ranges[number.symbol] = number.range
        edge = define("edge", first + number.symbol, self.lowering)
        limit(edge.index, extent, self.lowering)
        self.lowering.symbols[name] = edge.index.symbol
        place, pack = row + number.symbol, integer(brick.pack)
        for read, tile in self.tiles.items():
            access = Access(tile, (FloorDiv(place, pack), column * pack + Mod(place, pack)), "load")
            scope.remember(read, self._named(read, access, scope))
        lower_statements(self.request, self.lowering, scope)
        self.lowering.symbols[name] = first
        at = edge.index.symbol
        guard = Guard((Comparison(at, ">=", integer(0)), Comparison(at, "<", extent)))
        body = (edge, If(guard, tuple(moved(node) for node in scope.nodes)))
        return (For(Loop(number, integer(0), integer(brick.store.width), rolled=True), body),)
