"""Blocks that are numbered as they begin, and wait for each other: their tickets, and the memory that they share."""

from __future__ import annotations

from dataclasses import replace

import sympy

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Barrier, Comparison, Declare, Guard, If, Index, Node, TakeTicket, Ticket
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.spec.expressions import Const
from cugen.spec.types import INT32, UINT32, DType


class Tickets:
    """The tickets of so many blocks along x. The first of the `flags` counts those that have begun, each block's own is
    one behind its ticket. With `left_zero` the first wraps, and who awaits another one sets it back to `clear`."""

    def __init__(self, request: Request, lowering: Lowering, blocks: Integer, *, left_zero: bool = False) -> None:
        self.lowering = lowering
        self.left_zero = left_zero
        values = (0, max(bounds(blocks, lowering.ranges)[1] - 1, 0))
        first = symbol("blockIdx.x")
        self.index = Index(lowering.names.allocate("ticket"), first, values)
        lowering.ranges[first] = lowering.ranges[self.index.symbol] = values
        dtype = UINT32 if left_zero else INT32  # as `atomicInc` and `atomicAdd` want it
        flags = shared_by_blocks(request, "flags", dtype, (1 + blocks,))
        self.flags = replace(flags, zeroed=True, left_zero=left_zero)
        self.set = Const(1, dtype)  # what a flag holds once it is published
        self.clear = Const(0, dtype)

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
        counter = self.flag(integer(0), "atomic")
        return (
            Declare(told),
            If(is_first, (TakeTicket(Access(told, (), "store"), counter, wraps=self.left_zero),)),
            Barrier(),
            Ticket(self.index, Access(told, (), "load")),
        )


def shared_by_blocks(request: Request, wish: str, dtype: DType, shape: tuple[Integer, ...]) -> Array:
    """An array of the workspace through which the blocks of one launch hand something to each other."""
    name = request.context.names.allocate(f"{request.group.statements[-1].target}_{wish}")
    strides = tuple(sympy.Mul(*shape[axis + 1 :]) for axis in range(len(shape)))
    return Array(name, name, dtype, shape, strides, "global", writable=True)
