"""What windows in registers give to the expressions that read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cugen.families.stencil.register_window import Held
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Element
from cugen.plan.names import Names
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, IndexValue, Read, children


@dataclass
class WindowLowering(Lowering):
    """Takes what windows hold from registers. `places` are the thread's outputs as offsets from its first, by index."""

    held: dict[Read, Held] = field(default_factory=dict)
    places: dict[str, Integer] = field(default_factory=dict)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Names that are given inside end with a block of the source, and may be given again after it."""
        outer, loops, given = self.names, self.loops, self._given
        self.names, self.loops, self._given = Names(outer), {}, {}
        yield
        self.names, self.loops, self._given = outer, loops, given

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        held = self.held.get(expr) if isinstance(expr, Read) else None
        if held is None or not isinstance(expr, Read) or scope.recall(expr) is not None:
            return super().lower(expr, scope)
        symbols = {**self.symbols, **self.places}
        places = tuple(to_integer(sub, symbols) - first for sub, first in zip(expr.subscripts, held.first, strict=True))
        return Element.of(Access(held.array, held.cell(places), "load"))


def index_values(expr: Expr) -> frozenset[str]:
    """The indices whose value `expr` uses other than in subscripts."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(index_values, children(expr)))
