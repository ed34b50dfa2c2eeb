"""Where the values wait that a thread needs in more than one sweep over its row: in rows of registers."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.plan.ir import Access, Array, Assign, Declare, Element, Let, Node, Store, Vector
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Kept:
    """One value for each of the thread's elements: vectors side by side, or where `vector` is None an array."""

    vector: Vector | None
    array: Array | None

    @staticmethod
    def make(name: str, dtype: DType, element: DType, width: int, slots: int) -> Kept:
        """`slots` vectors of `width` elements; single elements are held as they are computed."""
        if width > 1:
            return Kept(Vector(name, dtype, element, width, slots), None)
        return Kept(None, Array("", name, dtype, (integer(slots),), (integer(1),), "register", flat=False))

    def declaration(self) -> Node:
        if self.vector is not None:
            return Let(self.vector, None, mutable=True)
        assert self.array is not None
        return Declare(self.array)

    def get(self, slot: Integer, part: Integer) -> Expr:
        if self.vector is not None:
            return self.vector.one(slot).component(part)
        assert self.array is not None
        return Element.of(Access(self.array, (slot,), "load"))

    def put(self, slot: Integer, part: Integer, value: Expr) -> Node:
        if self.vector is not None:
            return Assign(self.vector.one(slot).component(part), value)
        assert self.array is not None
        return Store(Access(self.array, (slot,), "store"), value)
