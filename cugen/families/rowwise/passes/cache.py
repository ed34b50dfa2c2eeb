"""Buffers for values that a thread needs in several passes over its row, in registers or in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Declare, Let, Load, Node, Store
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class CachedValue:
    """The buffer of one value for all of the thread's elements.

    `vector` is an array of register vectors. `array` is in registers where `threads` is 0, else in shared memory with
    the elements of `threads` threads interleaved, vector by vector."""

    width: int
    vector: Vector | None = None
    array: Array | None = None
    threads: int = 0
    thread: Integer = sympy.S.Zero

    @staticmethod
    def in_registers(name: str, dtype: DType, element: DType, width: int, slots: int) -> CachedValue:
        """`slots` vectors of `width` elements; with width 1 an array of the compute type."""
        if width > 1:
            return CachedValue(width, Vector(name, dtype, element, width, slots))
        return CachedValue(1, None, Array("", name, dtype, (integer(slots),), (integer(1),), "register", flat=False))

    @property
    def is_shared(self) -> bool:
        return self.threads > 0

    @property
    def element(self) -> DType:
        """The element type of the buffer."""
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
        """The access to the thread's elements of a slot."""
        assert self.array is not None
        offset = (slot * self.threads + self.thread) * self.width if self.is_shared else slot
        return Access(self.array, (offset.expand(),), kind, self.width)

    def get(self, slot: Integer, lane: Integer) -> Expr:
        """Element `lane` of a slot, without a vector load."""
        if self.vector is not None:
            return self.vector.indexed(slot).component(lane)
        return Element.of(self.access(slot, "load"))

    def put(self, slot: Integer, lane: Integer, value: Expr) -> Node:
        if self.vector is not None:
            return Assign(self.vector.indexed(slot).component(lane), value)
        return Store(self.access(slot, "store"), value)

    def fill(self, slot: Integer, loaded: Vector, source: Access) -> tuple[Node, ...]:
        """A vector load into the slot; shared memory is written through the register vector `loaded`."""
        if self.vector is not None:
            return (Load(self.vector.indexed(slot), source),)
        return Load(loaded, source), Store(self.access(slot, "store"), loaded)
