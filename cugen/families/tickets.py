"""Blocks that are numbered as they begin, and wait for each other: their tickets, and the memory that they share."""

from __future__ import annotations

import sympy

from cugen.families.base import Request
from cugen.plan.ir import Access, Array, Barrier, Comparison, Declare, Guard, If, Index, Node, TakeTicket, Ticket
from cugen.plan.lowering import Lowering
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.spec.expressions import Const
from cugen.spec.types import INT32, DType

SET = Const(1, INT32)  # what a flag holds once it is published


class Tickets:
    """The tickets of so many blocks along x. The first of the `flags` counts those that have begun, each block's own is
    one behind its ticket."""

    def __init__(self, request: Request, lowering: Lowering, blocks: Integer) -> None:
        self.lowering = lowering
        values = (0, max(bounds(blocks, lowering.ranges)[1] - 1, 0))
        first = symbol("blockIdx.x")
        self.index = Index(lowering.names.allocate("ticket"), first, values)
        lowering.ranges[first] = lowering.ranges[self.index.symbol] = values
        self.flags = shared_by_blocks(request, "flags", INT32, (1 + blocks,), zeroed=True)

    @property
    def number(self) -> Integer:
        return self.index.symbol

    def flag(self, place: Integer, kind: str) -> Access:
        return Access(self.flags, (place,), kind)

    def draw(self) -> tuple[Node, ...]:
        """The block's ticket: its first thread takes it, all learn it."""
        name = self.lowering.names.allocate("ticket_of_block")
        told = Array("", name, INT32, (), (), "shared", flat=False)
        is_first = Guard((Comparison(symbol("threadIdx.x"), "==", integer(0)),))
        return (
            Declare(told),
            If(is_first, (TakeTicket(Access(told, (), "store"), self.flag(integer(0), "atomic")),)),
            Barrier(),
            Ticket(self.index, Access(told, (), "load")),
        )


def shared_by_blocks(
    request: Request, wish: str, dtype: DType, shape: tuple[Integer, ...], *, zeroed: bool = False
) -> Array:
    """An array of the workspace through which the blocks of one launch hand something to each other."""
    name = request.context.names.allocate(f"{request.group.statements[-1].target}_{wish}")
    strides = tuple(sympy.Mul(*shape[axis + 1 :]) for axis in range(len(shape)))
    return Array(name, name, dtype, shape, strides, "global", writable=True, zeroed=zeroed)
