"""Results whose sums have several parts: the threads of a block leave these in shared memory, and add them up in order.

The parts are those of the block's slices; of the blocks of a cluster, each of which stores a share of the tile; or of
blocks that left theirs in the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP, Shape
from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.epilogue import Results
from cugen.families.gemm.problem import parts_pad, problem_of
from cugen.pieces.blocks import define
from cugen.pieces.vectors import WIDEST
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import combine
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    ClusterBarrier,
    Comment,
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
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, Local, Op
from cugen.spec.types import DType

# Neighbours of a tile whose parts a thread loads at once: code for more of them takes longer to come than it saves.
_TOGETHER = 4


class PartedResults(Results):
    """All threads of a block walk over its tile, or its share of one, and add up what the `parts` hold."""

    def __init__(
        self,
        found: Contraction,
        shape: Shape,
        lowering: Lowering,
        extents: Mapping[str, Integer],
        exact: Mapping[str, bool],
        groups: tuple[int, int],
    ) -> None:
        super().__init__(found, shape, lowering, extents, exact, groups)
        self.parts = self._declare_parts()

    def declarations(self) -> tuple[Node, ...]:
        return (Declare(self.parts),)

    def nodes(self, sums: Array, place: Place) -> tuple[Node, ...]:
        return (*self.beside(sums, place), Barrier(), *self._collect(self.parts, place))

    def _declare_parts(self) -> Array:
        """Where threads leave their sums, in the memory of the ring."""
        shape, dtype = self.shape, self.found.sums[0].dtype
        pad = parts_pad(problem_of(self.found), shape)
        extents = (integer(shape.slices), integer(shape.rows), integer(shape.columns))
        strides = (integer(shape.rows * (shape.columns + pad)), integer(shape.columns + pad), integer(1))
        several = slice(0 if shape.slices > 1 else 1, None)
        name = self.lowering.names.allocate("parts")
        return Array(name, name, dtype, extents[several], strides[several], "shared", flat=False, pad=pad, dynamic=True)

    def nodes_in_cluster(self, sums: Array, place: Place, rank: Integer) -> tuple[Node, ...]:
        """The blocks of a cluster have parts of the sums each, and store a share of the tile each."""
        left = self.beside(sums, place)
        if self.shape.slices > 1:
            left = (*left, Barrier(), *self._join_slices(self.parts, place))
        ended = (Comment("no block ends while another one reads its sums"), ClusterBarrier())
        how = Comment("each block adds up a share of the tile, in the order of the blocks")
        return (*left, ClusterBarrier(), how, *self._collect(self.parts, place, rank), *ended)

    def beside(self, sums: Array, place: Place) -> tuple[Node, ...]:
        """The sums of all slices, where `left` or `joined` finds them."""
        return (*self._one(), *self._leave(self.parts, sums, place))

    def left(self, place: Place, at: Callable[[Integer, Integer, int], Access]) -> tuple[Node, ...]:
        """The sums of all slices are added up and go to where `at` says of a row and so many columns from one on."""
        return Barrier(), *self._add_slices(self.parts, place, at)

    def joined(
        self,
        place: Place,
        walk: Loop,
        at: Callable[[Integer, Integer, int], Access],
        arrival: tuple[Node, ...] | None = None,
    ) -> tuple[Node, ...]:
        """The results where blocks have left sums, which are added in a `walk` over what `at` says: of each of them all
        that a thread takes, so that it waits for memory but once. After the `arrival` of others, this block's own
        sums, which it has not left, come first."""
        shape, width, parts = self.shape, self.width, self.parts
        across = shape.columns // width
        number, walked = self._shared_out(shape.rows * across, place)
        row, column = FloorDiv(number, integer(across)), Mod(number, integer(across)) * width
        which = FloorDiv(number - place.thread, integer(shape.threads))
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
            vector = Vector(self.lowering.names.allocate(f"left{width}"), held.dtype.compute, held.dtype, width)
            earlier = (Load(vector, left), each(more(vector.component(v.symbol))))
        begun: tuple[Node, ...] = (Declare(held, zeroed=True),)
        if arrival is not None:
            slices, added = self._added(
                "part",
                parts.dtype,
                width,
                shape.slices,
                lambda s: Access(parts, (s, row, column), "load", width),
                place.loop_index("s", shape.slices),
            )
            begun = (*arrival, Declare(held), *walked((*slices, each(Store(own(v.symbol, "store"), added(v.symbol))))))
        return (
            *begun,
            For(walk, walked(earlier)),
            *walked(self._at_place(place, row, column, lambda v: Element.of(own(v, "load")))),
        )

    def _totals(self, count: int) -> Array:
        """A thread's sums on their way to memory."""
        extents = (integer(count), integer(self.width))[: 2 if self.width > 1 else 1]
        strides = (*extents[1:], integer(1))
        name = self.lowering.names.allocate("totals")
        return Array("", name, self.total.dtype, extents, strides, "register", flat=False)

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
        number, walked = self._shared_out(shape.rows * across, place, rank, together=_TOGETHER if width > 1 else 0)
        row, column = FloorDiv(number, integer(across)), Mod(number, integer(across)) * width

        def part(p: Integer) -> Access:
            if rank is None:
                return Access(parts, (p, row, column), "load", width)
            return Access(parts, (*self._slice(integer(0)), row, column), "load", width, rank=p)

        of = shape.slices if rank is None else shape.split
        p, wish = (place.loop_index("s", of), "part") if rank is None else (place.loop_index("p", of), "block")
        before, total = self._added(wish, parts.dtype, width, of, part, p)
        return walked(self._at_place(place, row, column, total, before))

    def _shared_out(
        self, count: int, place: Place, rank: Integer | None = None, together: int = 0
    ) -> tuple[Integer, Callable[[tuple[Node, ...]], tuple[Node, ...]]]:
        """One of `count` places of a tile that the thread takes, and how it comes to all of these, or to so many
        `together`: by itself, or where the block has a `rank`, those of its share."""
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
            if share <= threads:
                return body
            few = 0 < together < -(-share // threads)
            loop = Loop(e, integer(0), integer(share), threads, unroll=not few, unroll_by=together if few else 0)
            return (For(loop, body),)

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
