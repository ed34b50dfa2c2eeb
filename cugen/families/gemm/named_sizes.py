"""Sizes of a kernel that its body mentions by names in C, as BM, and its launch by their values."""

from __future__ import annotations

import sympy

from cugen.families.contraction.contraction import Contraction
from cugen.pieces.blocks import define_size
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Define, Section
from cugen.plan.symbols import Integer, Size
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols


class NamedSizes:
    """The sizes of one kernel, in the order in which they are named."""

    def __init__(self, contraction: Contraction, lowering: Lowering) -> None:
        self.indices, self.lowering = contraction.indices, lowering
        self._definitions: dict[sympy.Symbol, Define] = {}

    def named(self, name_hint: str, value: int) -> Size:
        node = define_size(name_hint, value, self.indices, self.lowering)
        self._definitions[node.index.symbol] = node
        return Size(value, node.index.symbol)

    def unnamed(self, expr: Integer) -> Integer:
        """The expression without names of sizes, for the launch."""
        return expr.xreplace({name: node.index.definition for name, node in self._definitions.items()})

    def section(self, sections: tuple[Section, ...]) -> Section:
        """The definitions of the sizes that the sections mention."""
        used = free_symbols(dissolved(sections))
        return Section("sizes", tuple(node for name, node in self._definitions.items() if name in used))
