"""Register fragments of one operand in vectors: rows of consecutive elements, from shared or from global memory."""

from __future__ import annotations

from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, value_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Declare, Index, Let, Load, Node, Store
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, Local, Read

SINGLE = Index("", integer(0), (0, 0))  # in place of the variable of a loop


class VectorFragment:
    """A fragment of `read`: for each value of `row` as many vectors of `width` elements of `array` as `vector` has.

    Both are variables of loops from 0. Vectors of one element are scalars."""

    def __init__(self, read: Read, array: Array, row: Index, vector: Index, width: int, lowering: Lowering) -> None:
        self.row, self.vector, self.width = row, vector, width
        self.vectors_per_row = vector.range[1] + 1
        count = (row.range[1] + 1) * self.vectors_per_row
        name = lowering.names.allocate(f"{read.array.lower()}_frag")
        self.scalar = Local(name, read.dtype) if count == width == 1 else None
        self.scalars = dense_array(name, read.dtype, (count,), "register")
        self.vectors = Vector(name, array.dtype.compute, array.dtype, width, count if count > 1 else 0)

    def load(self, access: Access, address_nodes: tuple[Node, ...] = ()) -> tuple[Node, ...]:
        """Loads the fragment; `access` and the nodes that it needs are over the variables of both loops."""
        position = value_of(self.row) * self.vectors_per_row + value_of(self.vector)
        declaration: tuple[Node, ...] = ()
        if self.scalar is not None:
            load: Node = Load(self.scalar, access)
        elif self.width == 1:
            declaration = (Declare(self.scalars),)
            load = Store(Access(self.scalars, (position,), "store"), Element.of(access))
        elif self.vectors.count:
            declaration = (Let(self.vectors, None, mutable=True),)
            load = Load(self.vectors.indexed(position), access)
        else:
            load = Load(self.vectors, access)
        return (*declaration, *repeated(self.row, (*address_nodes, *repeated(self.vector, (load,)))))

    def element(self, row: Integer, column: Integer) -> Expr:
        """One element of a row."""
        position = row * self.vectors_per_row
        if self.scalar is not None:
            return self.scalar
        if self.width == 1:
            return Element.of(Access(self.scalars, (position + column,), "load"))
        if self.vectors_per_row > 1:
            width = integer(self.width)
            position, column = position + FloorDiv(column, width), Mod(column, width)
        return (self.vectors.indexed(position) if self.vectors.count else self.vectors).component(column)
