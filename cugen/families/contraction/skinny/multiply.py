"""Fragment loads and multiply-accumulates of the skinny GEMM kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cugen.families.contraction.skinny.recognition import SkinnyGemm
from cugen.pieces.loop_variables import shared_loop_variable
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Accumulate, Declare, For, Index, Let, Load, Loop, Node, Section, Store
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, IndexValue, Op, Read, children
from cugen.spec.expressions import Index as SpecIndex


def loop_index(name_hint: str, count: int, lowering: Lowering) -> Index:
    """The variable of an unrolled loop of `count` iterations; successive loops over equal ranges share its name."""
    return shared_loop_variable(name_hint, (0, max(count - 1, 0)), lowering)


def repeat(index: Index, count: int, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes in an unrolled loop; without a loop for a count of 1."""
    return body if count == 1 else (For(Loop(index, integer(0), integer(count), unroll=True), body),)


def repeat_sections(name: str, index: Index, count: int, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The sections in an unrolled loop, which is the section `name`; without a loop for a count of 1."""
    return sections if count == 1 else (Section(name, repeat(index, count, sections)),)


def iteration(index: Index, count: int) -> Integer:
    """The value of the variable of `repeat`'s loop: 0 without a loop."""
    return index.symbol if count > 1 else integer(0)


def accumulators(gemm: SkinnyGemm, tile_n: int, lowering: Lowering) -> Array:
    """A thread's accumulators [m, n]."""
    name = lowering.names.allocate("acc")
    extents = (integer(gemm.m_extent), integer(tile_n))
    strides = (extents[1], integer(1))
    return Array(name, name, gemm.reduction.dtype, extents, strides, "register", flat=False)


class Fragment:
    """An operand's register fragment: `count` rows of `width` consecutive elements, in vectors as wide as possible."""

    def __init__(
        self, gemm: SkinnyGemm, read: Read, along: SpecIndex, count: int, width: int, lowering: Lowering
    ) -> None:
        array = gemm.array(read)
        self.array, self.read, self.count, self.width, self.along = array, read, count, width, along.name
        self.vector_width = math.gcd(width, gemm.vector_width(read, along))
        self.vectors_per_row = width // self.vector_width
        self.lowering = lowering
        self.is_streamed = read == gemm.b and gemm.streams_b
        vectors = count * self.vectors_per_row
        name = lowering.names.allocate(f"{read.array.lower()}_frag")
        self.vector = Vector(name, array.dtype.compute, array.dtype, self.vector_width, vectors if vectors > 1 else 0)
        self.scalars = Array("", name, read.dtype, (integer(vectors),), (integer(1),), "register", flat=False)

    def load(self, row: Index, address_nodes: tuple[Node, ...] = ()) -> tuple[Node, ...]:
        """The nodes that load the fragment at the lowering's coordinates; `row` is the loop variable over its rows."""
        lowering = self.lowering
        vector = loop_index("u", self.vectors_per_row, lowering)
        offset = iteration(vector, self.vectors_per_row) * self.vector_width
        symbols = {**lowering.symbols, self.along: lowering.symbols[self.along] + offset}
        subscripts = tuple(to_integer(sub, symbols) for sub in self.read.subscripts)
        streaming = self.is_streamed and self.vector_width * self.array.dtype.bytes == MAX_ACCESS_BYTES
        access = Access(self.array, subscripts, "load", self.vector_width, streaming=streaming)
        position = iteration(row, self.count) * self.vectors_per_row + iteration(vector, self.vectors_per_row)
        if self.vector_width == 1:
            declaration: tuple[Node, ...] = (Declare(self.scalars),)
            load: Node = Store(Access(self.scalars, (position,), "store"), Element.of(access))
        elif self.vector.count:
            declaration = (Let(self.vector, None, mutable=True),)
            load = Load(self.vector.indexed(position), access)
        else:
            declaration, load = (), Load(self.vector, access)
        loads = repeat(vector, self.vectors_per_row, (load,))
        return (*declaration, *repeat(row, self.count, (*address_nodes, *loads)))

    def element(self, row: Integer, column: Integer) -> Expr:
        position = row * self.vectors_per_row
        if self.vector_width == 1:
            return Element.of(Access(self.scalars, (position + column,), "load"))
        if self.vectors_per_row > 1:
            width = integer(self.vector_width)
            position, column = position + FloorDiv(column, width), Mod(column, width)
        return (self.vector.indexed(position) if self.vector.count else self.vector).component(column)

    @property
    def alignment(self) -> int:
        """The alignment in bytes that the vector loads need; 0 for scalar loads."""
        return self.vector_width * self.array.dtype.bytes if self.vector_width > 1 else 0


def multiply_accumulate(
    gemm: SkinnyGemm,
    lowering: Lowering,
    scope: Scope,
    accumulator: Array,
    position: tuple[Integer, Integer],
    operands: dict[Read, Expr],
) -> None:
    """Appends the nodes that add the term at the scope's coordinates to the accumulator at a position."""
    for read, value in operands.items():
        scope.remember(read, value)
    term = lowering.lower(gemm.reduction.body, scope)
    if accumulator.dtype.is_float:
        scope.nodes.append(Accumulate(Access(accumulator, position, "store"), term))
    else:
        old = Element.of(Access(accumulator, position, "load"))
        scope.nodes.append(Store(Access(accumulator, position, "store"), Op("add", (old, term), accumulator.dtype)))


def uses_operands_only(gemm: SkinnyGemm) -> bool:
    """Whether the term is an expression of A, B and constants: no other array, no index value."""

    def is_operand_expression(expr: Expr) -> bool:
        if isinstance(expr, IndexValue | Read):
            return expr in (gemm.b, gemm.a)
        return all(map(is_operand_expression, children(expr)))

    return is_operand_expression(gemm.reduction.body)


def problem(gemm: SkinnyGemm) -> str:
    """The kind of problem, for people."""
    return f"skinny GEMM of {gemm.m_extent} rows" if gemm.m_extent > 1 else "GEMV"


def alignments(gemm: SkinnyGemm, fragments: Sequence[Fragment]) -> tuple[tuple[str, int], ...]:
    """The alignment in bytes that vector loads need, by array."""
    required = {fragment.read.array: fragment.alignment for fragment in fragments if fragment.alignment}
    arrays = gemm.request.context.spec.arrays
    return tuple((a.name, required[a.name]) for a in arrays if a.name in required and not a.is_temporary)
