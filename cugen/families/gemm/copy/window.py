"""Source of an operand that is read at computed subscripts (implicit im2col).

A copy computes the indices of its element from those of the GEMM, which they are fused into: `h = nhw / W % H`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cugen.families.contraction.windows import Window
from cugen.pieces.blocks import digits
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import Comment, Define, Guard, Index
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Maximum, Range, bounds, integer
from cugen.spec.expressions import Expr, IndexValue, free_indices


@dataclass(frozen=True)
class Location:
    """Where a copy reads: definitions of indices, the subscripts of its first element, and whether it is inside."""

    definitions: tuple[Define, ...]
    subscripts: tuple[Integer, ...]
    inside: Guard


@dataclass(frozen=True)
class WindowSource:
    """The elements of a window, by coordinates of the GEMM. All copies use the same names."""

    window: Window
    array: Array
    lowering: Lowering
    context: Context
    k: str
    extents: Mapping[str, Integer]  # of the window's indices and of those that they are fused into
    _names: dict[str, str] = field(default_factory=dict)

    def introduce(self, *coordinates: str) -> tuple[Comment, ...]:
        """Which indices copies compute, by coordinates of the GEMM. They get the spec's names, as loops of the kernel
        are named later."""
        fused, array = [], self.window.read.array
        for name in coordinates:
            parts = [index.name for index, _ in self.window.parts[name]]
            names = [self._name(hint) for hint in (name, *parts)]
            if len(parts) > 1:
                fused.append(f"{', '.join(names[1:])} from {names[0]}")
        return (Comment(f"implicit GEMM: copies of {array} compute {' and '.join(fused)}"),) if fused else ()

    def locate(self, coordinates: Mapping[str, Integer]) -> Location:
        """The element at coordinates of the GEMM, which are below their extents where the copy reads."""
        symbols, definitions = dict(self.lowering.symbols), list[Define]()
        for name, parts in self.window.parts.items():
            if name in coordinates:  # those of a batch are defined before
                definitions.append(self._define(name, coordinates[name], self._below(name)))
                symbols[name] = definitions[-1].index.symbol
            fastest_first = [index for index, _ in reversed(parts)]
            values = digits(symbols[name], [self._divisor(name, index.name) for index in fastest_first])
            for index, value in reversed([*zip(fastest_first, values, strict=True)]) if len(parts) > 1 else ():
                definitions.append(self._define(index.name, value, self._below(index.name)))
                symbols[index.name] = definitions[-1].index.symbol
        subscripts = []
        for sub, extent in zip(self.window.read.subscripts, self.array.shape, strict=True):
            subscript = to_integer(sub, symbols)
            moves = bool(free_indices(sub)) and not isinstance(sub, IndexValue)
            if moves and self._inside((subscript,), (extent,)).terms:
                values = bounds(subscript, self.lowering.ranges)
                moving = self._moving(sub)
                definitions.append(self._define(f"{moving}_in", subscript, values, f"{moving} inside"))
                subscript = definitions[-1].index.symbol
            subscripts.append(subscript)
        return Location(tuple(definitions), tuple(subscripts), self._inside(tuple(subscripts), self.array.shape))

    def _divisor(self, name: str, part: str) -> Integer:
        """The extent of a part; of K not 0, as the first copies are issued for an empty sum, too."""
        extent = self.extents[part]
        if name != self.k or bounds(extent, self.lowering.ranges)[0] >= 1:
            return extent
        # A divisor of the extent keeps vectors provably aligned.
        return Maximum(extent, integer(divisor(extent, self.context) or 1))

    def _inside(self, subscripts: tuple[Integer, ...], shape: tuple[Integer, ...]) -> Guard:
        """The bounds check of a window with a boundary; the spec proves that others are inside."""
        return Guard(()) if self.window.read.boundary is None else self.lowering.inside(subscripts, shape)

    def _below(self, name: str) -> Range:
        return 0, max(bounds(self.extents[name], self.lowering.ranges)[1] - 1, 0)

    def _moving(self, sub: Expr) -> str:
        """The output index in a subscript, by which its name is known; else the first index."""
        names: Iterator[str] = (i.name for parts in self.window.parts.values() for i, _ in parts)
        return next(name for name in names if name in free_indices(sub))

    def _define(self, hint: str, definition: Integer, values: Range, key: str = "") -> Define:
        index = Index(self._name(hint, key), definition, values)
        self.lowering.ranges[index.symbol] = values
        return Define(index)

    def _name(self, hint: str, key: str = "") -> str:
        """The name of what all copies compute alike. `key`: of what is no index, which may have the hint itself."""
        key = key or hint
        if key not in self._names:
            self._names[key] = self.lowering.names.allocate(hint)
        return self._names[key]
