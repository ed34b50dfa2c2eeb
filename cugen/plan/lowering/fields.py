"""Fields of a structure that one vector load serves: `p[j, 0]` … `p[j, 3]` of an array [N, 4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cugen.plan.memory import Access, Array, Component, Vector
from cugen.plan.nodes import Load
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Expr, Read

if TYPE_CHECKING:
    from cugen.plan.lowering.expressions import Lowering
    from cugen.plan.scopes import Scope


@dataclass(frozen=True, slots=True, eq=False)
class FieldVector:
    """A vector of `width` consecutive fields, `first` the first, and the field that each read gets of it."""

    source: Array  # as the reads subscript it
    array: Array  # its last dimension has the fields of a structure
    subscripts: tuple[Expr, ...]  # of the structure
    first: int
    width: int
    fields: Mapping[Read, int]

    def load(
        self, read: Read, subscripts: tuple[Integer, ...], name_hint: str, lowering: Lowering, home: Scope
    ) -> Component:
        """Loads the vector in a scope, and records there what all reads give; returns what this one gives."""
        name = lowering.name_for(next(iter(self.fields)), f"{name_hint}{self.width}", home)
        vector = Vector(name, self.array.dtype.compute, self.array.dtype, self.width)
        home.nodes.append(Load(vector, Access(self.array, (*subscripts, integer(self.first)), "load", self.width)))
        components = {served: vector.component(integer(field - self.first)) for served, field in self.fields.items()}
        for served, component in components.items():
            home.remember(served, component)
        return components[read]


FindVectors = Callable[[tuple[Read, ...], Mapping[str, Array]], Mapping[Read, FieldVector]]
