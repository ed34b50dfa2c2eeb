"""Lowering of reads to elements of register windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from cugen.families.stencil.footprint import Footprint
from cugen.families.stencil.phases import phase
from cugen.families.stencil.register_window import RegisterWindow, make_window, without_unread_columns
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Element
from cugen.plan.names import Names
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, Read


@dataclass
class WindowLowering(Lowering):
    """Lowers reads of `windows` to registers. `output_offsets`: the current output relative to the thread's first."""

    windows: dict[Read, RegisterWindow] = field(default_factory=dict)
    output_offsets: dict[str, Integer] = field(default_factory=dict)

    def set_offset(self, index: str, offset: Integer) -> None:
        """Sets the current output's offset along an index, which is its phase where the index has a period."""
        self.output_offsets[index] = self.symbols[phase(index)] = offset

    @contextmanager
    def block(self) -> Iterator[None]:
        """A C++ block: names defined inside may be defined again after it."""
        outer, loops, given = self.names, self.loops, self._names_by_value
        self.names, self.loops, self._names_by_value = Names(outer), {}, {}
        yield
        self.names, self.loops, self._names_by_value = outer, loops, given

    def add_window(
        self,
        footprint: Footprint,
        along: str,
        outputs: Mapping[str, int],
        width: int,
        origins: Mapping[str, Integer] | None = None,
        names: Names | None = None,
    ) -> RegisterWindow:
        """The window of a footprint, from which its reads are lowered; loaded by accesses of `width` elements. With the
        `origins` of the thread's outputs it has no columns that nothing reads."""
        name = (names or self.names).allocate(f"{footprint.array.lower()}_window")
        window = make_window(footprint, self.arrays[footprint.array], along, outputs, width, name)
        if origins is not None:
            window = without_unread_columns(self, window, origins)
        self.windows.update(dict.fromkeys(footprint.reads, window))
        return window

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        window = self.windows.get(expr) if isinstance(expr, Read) else None
        if window is None or not isinstance(expr, Read) or scope.recall(expr) is not None:
            return super().lower(expr, scope)
        symbols = {**self.symbols, **self.output_offsets}
        coordinates = tuple(
            to_integer(sub, symbols) - first for sub, first in zip(expr.subscripts, window.origin, strict=True)
        )
        return Element.of(Access(window.array, window.subscripts(coordinates), "load"))
