"""What both kinds of skinny products do at each step: neighbours loaded, and every term added to its running value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cugen.families.contraction.skinny.recognition import Skinny
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Accumulate, Declare, For, Index, Let, Load, Loop, Node, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, IndexValue, Op, Read, children
from cugen.spec.expressions import Index as SpecIndex


def loop_index(wish: str, count: int, lowering: Lowering) -> Index:
    """The variable of an unrolled loop; loops side by side over equal ranges share it."""
    values = (0, max(count - 1, 0))
    name = lowering.loops.get((wish, values)) or lowering.names.allocate(wish)
    lowering.loops[wish, values] = name
    index = Index(name, integer(0), values)
    lowering.ranges[index.symbol] = values
    return index


def repeat(index: Index, count: int, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes so many times; once without a loop."""
    return body if count == 1 else (For(Loop(index, integer(0), integer(count), unroll=True), body),)


def number(index: Index, count: int) -> Integer:
    return index.symbol if count > 1 else integer(0)


def running(found: Skinny, columns: int, lowering: Lowering) -> Array:
    """A thread's running values: of each row, for each of its columns."""
    name = lowering.names.allocate("sum")
    extents = (integer(found.count), integer(columns))
    strides = (extents[1], integer(1))
    return Array(name, name, found.reduction.dtype, extents, strides, "register", flat=False)


class Loaded:
    """`count` rows of `width` neighbours each, in vectors as wide as alignment allows: where each of them is."""

    def __init__(self, found: Skinny, read: Read, along: SpecIndex, count: int, width: int, lowering: Lowering) -> None:
        array = found.array(read)
        self.array, self.read, self.count, self.width, self.along = array, read, count, width, along.name
        self.piece = math.gcd(width, found.width(read, along))
        self.pieces = width // self.piece
        self.lowering = lowering
        self.streams = read == found.matrix and found.streams
        total = count * self.pieces
        name = read.array.lower()
        separator = "_" if name[-1].isdigit() else ""
        wish = f"{name}{separator}{self.piece}" if self.piece > 1 else f"{name}_values"
        name = lowering.names.allocate(wish)
        self.vector = Vector(name, array.dtype.compute, array.dtype, self.piece, total if total > 1 else 0)
        self.values = Array("", name, read.dtype, (integer(total),), (integer(1),), "register", flat=False)

    def load(self, index: Index, before: tuple[Node, ...] = ()) -> tuple[Node, ...]:
        """The nodes that load all; the lowering knows where, the rows by the loop's variable."""
        lowering = self.lowering
        piece = loop_index("u", self.pieces, lowering)
        ahead = number(piece, self.pieces) * self.piece
        symbols = {**lowering.symbols, self.along: lowering.symbols[self.along] + ahead}
        subscripts = tuple(to_integer(sub, symbols) for sub in self.read.subscripts)
        streaming = self.streams and self.piece * self.array.dtype.bytes == MAX_ACCESS_BYTES
        access = Access(self.array, subscripts, "load", self.piece, streaming=streaming)
        at = number(index, self.count) * self.pieces + number(piece, self.pieces)
        if self.piece == 1:
            first: tuple[Node, ...] = (Declare(self.values),)
            load: Node = Store(Access(self.values, (at,), "store"), Element.of(access))
        elif self.vector.count:
            first = (Let(self.vector, None, mutable=True),)
            load = Load(self.vector.indexed(at), access)
        else:
            first, load = (), Load(self.vector, access)
        return (*first, *repeat(index, self.count, (*before, *repeat(piece, self.pieces, (load,)))))

    def value(self, row: Integer, place: Integer) -> Expr:
        """One neighbour of a row."""
        at = row * self.pieces
        if self.piece == 1:
            return Element.of(Access(self.values, (at + place,), "load"))
        if self.pieces > 1:
            width = integer(self.piece)
            at, place = at + FloorDiv(place, width), Mod(place, width)
        return (self.vector.indexed(at) if self.vector.count else self.vector).component(place)

    @property
    def alignment(self) -> int:
        """The bytes by which the array must be aligned."""
        return self.piece * self.array.dtype.bytes if self.piece > 1 else 0


def add_term(
    found: Skinny, lowering: Lowering, scope: Scope, sums: Array, at: tuple[Integer, Integer], known: dict[Read, Expr]
) -> None:
    """The nodes that add the term at the place that `scope` stands for to a running value."""
    for read, value in known.items():
        scope.remember(read, value)
    term = lowering.lower(found.reduction.body, scope)
    if sums.dtype.is_float:
        scope.nodes.append(Accumulate(Access(sums, at, "store"), term))
    else:
        old = Element.of(Access(sums, at, "load"))
        scope.nodes.append(Store(Access(sums, at, "store"), Op("add", (old, term), sums.dtype)))


def is_plain(found: Skinny) -> bool:
    """Whether terms are made of nothing but what is loaded for them."""

    def plain(expr: Expr) -> bool:
        if isinstance(expr, IndexValue | Read):
            return expr in (found.matrix, found.rows)
        return all(map(plain, children(expr)))

    return plain(found.reduction.body)


def alignments(found: Skinny, loaded: Sequence[Loaded]) -> tuple[tuple[str, int], ...]:
    asked = {one.read.array: one.alignment for one in loaded if one.alignment}
    arrays = found.request.context.spec.arrays
    return tuple((a.name, asked[a.name]) for a in arrays if a.name in asked and not a.is_temporary)
