"""Where the values wait that a thread needs in more than one sweep over its row: registers, or shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Declare, Let, Load, Node, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Kept:
    """One value for each of the thread's elements: `vector` is a row of vectors in registers; `array` lies in registers
    where `threads` is 0, else in shared memory, where each of so many threads has elements of its own."""

    width: int
    vector: Vector | None = None
    array: Array | None = None
    threads: int = 0
    thread: Integer = sympy.S.Zero

    @staticmethod
    def in_registers(name: str, dtype: DType, element: DType, width: int, slots: int) -> Kept:
        """`slots` vectors of `width` elements; single elements are held as they are computed."""
        if width > 1:
            return Kept(width, Vector(name, dtype, element, width, slots))
        return Kept(1, None, Array("", name, dtype, (integer(slots),), (integer(1),), "register", flat=False))

    @property
    def is_shared(self) -> bool:
        return self.threads > 0

    @property
    def element(self) -> DType:
        """The type in which it waits."""
        if self.vector is not None:
            return self.vector.element
        assert self.array is not None
        return self.array.dtype

    def declaration(self) -> Node:
        if self.vector is not None:
            return Let(self.vector, None, mutable=True)
        assert self.array is not None
        return Declare(self.array)

    def access(self, slot: Integer, kind: str) -> Access:
        """The thread's elements of a slot, in memory."""
        assert self.array is not None
        place = (slot * self.threads + self.thread) * self.width if self.is_shared else slot
        return Access(self.array, (place.expand(),), kind, self.width)

    def get(self, slot: Integer, part: Integer) -> Expr:
        """The value where it can be had without a wide load."""
        if self.vector is not None:
            return self.vector.one(slot).component(part)
        return Element.of(self.access(slot, "load"))

    def put(self, slot: Integer, part: Integer, value: Expr) -> Node:
        if self.vector is not None:
            return Assign(self.vector.one(slot).component(part), value)
        return Store(self.access(slot, "store"), value)

    def fill(self, slot: Integer, loaded: Vector, source: Access) -> tuple[Node, ...]:
        """A wide load into it, by way of `loaded` where that is shared memory."""
        if self.vector is not None:
            return (Load(self.vector.one(slot), source),)
        return Load(loaded, source), Store(self.access(slot, "store"), loaded)
