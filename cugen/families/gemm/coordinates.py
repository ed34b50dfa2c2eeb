"""Where a thread of a product stands: what its copies, its sums and its results have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import Shape
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Index
from cugen.plan.symbols import Integer, integer


@dataclass(frozen=True)
class Place:
    """`origin` is the block's first row and column, `row` and `column` the thread's first ones in the tile; `extents`
    say how far each index goes, and `exact` whether tiles lie inside of that. The block's part of the sum starts at
    `begin`, its first step `lead` before that. The thread is the `member`-th of those that fill a stage together.

    On tensor cores a lane reads other columns of the right operand than it has sums in, from `read_column` on, and its
    part of k from `lane_column` on."""

    found: Contraction
    shape: Shape
    lowering: Lowering
    extents: Mapping[str, Integer]
    exact: Mapping[str, bool]
    lead: Integer
    begin: Integer
    thread: Integer
    slice: Integer
    member: Integer
    origin: Mapping[str, Integer]
    row: Integer
    column: Integer
    lane_row: Integer
    lane_column: Integer
    read_column: Integer
    _loops: dict[str, Index] = field(default_factory=dict)

    def loop_index(self, wish: str, count: int) -> Index:
        """The variable of a loop over so many; loops that stand side by side share it."""
        known = self._loops.get(wish)
        name = known.name if known else self.lowering.names.allocate(wish)
        index = Index(name, integer(0), (0, max(count - 1, known.range[1] if known else 0)))
        self._loops[wish] = index
        self.lowering.ranges[index.symbol] = index.range
        return index
