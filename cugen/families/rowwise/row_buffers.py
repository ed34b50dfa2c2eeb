"""Room for the values of a row that wait between sweeps: which of them have it, in which type, and under what name."""

from __future__ import annotations

from dataclasses import dataclass, field

from cugen.families.rowwise.config import Shape, reads_vector, stored_type
from cugen.families.rowwise.passes.cache import Kept
from cugen.families.rowwise.passes.schedule import successors
from cugen.families.rowwise.passes.storage_levels import REGISTERS, Tier
from cugen.families.rowwise.statements.names import RowNames, wish
from cugen.families.rowwise.statements.recognition import RowWork
from cugen.families.rowwise.thread_group import RowTeam
from cugen.plan.memory import Array
from cugen.plan.nodes import Node
from cugen.plan.symbols import integer
from cugen.spec.expressions import Expr
from cugen.spec.types import DType


@dataclass
class Room:
    """What waits in each place, by its expression with the results of reductions; `shared_bytes` are taken so far."""

    work: RowWork
    shape: Shape
    team: RowTeam
    names: RowNames
    kept: dict[tuple[str, Expr], Kept] = field(default_factory=dict)
    shared_bytes: int = 0

    def holds(self, expr: Expr) -> bool:
        return any(expr == known for _, known in self.kept)

    def keep(self, tier: Tier, expr: Expr) -> tuple[Node, ...]:
        """Room for a value of each of the thread's elements, declared where no other value leaves its own to it."""
        settled, width = self.names.results.settled, self.shape.width.count
        heirs = successors(tier.sweeps, lambda kept: self._waiting_type(kept, tier)) or {}
        if tier.place != REGISTERS and expr in heirs:
            self.kept[tier.place, settled(expr)] = self.kept[tier.place, settled(heirs[expr])]
            return ()
        element = self._waiting_type(expr, tier)
        if tier.place == REGISTERS:
            name = self.names.give(expr, wish(expr), str(width) if width > 1 else "_row")
            kept = Kept.in_registers(name, expr.dtype, element, width, tier.slots)
        else:
            kept = self._in_shared_memory(self.names.give(expr, wish(expr), "_rest"), element, tier)
        self.kept[tier.place, settled(expr)] = kept
        return (kept.declaration(),)

    def _waiting_type(self, expr: Expr, tier: Tier) -> DType:
        """The type in which a value waits: where it's only read as it is stored, if that spares a conversion."""
        is_raw = reads_vector(expr, self.work, self.shape.width.count) or tier.place != REGISTERS
        return stored_type(expr, self.work) if is_raw and not tier.as_computed else expr.dtype

    def _in_shared_memory(self, name: str, element: DType, tier: Tier) -> Kept:
        width, team = self.shape.width.count, self.team
        threads = team.threads * team.rows
        count = tier.slots * threads * width
        array = Array(
            "",
            name,
            element,
            (integer(count),),
            (integer(1),),
            "shared",
            dynamic=True,
            dynamic_offset=self.shared_bytes,
        )
        self.shared_bytes += -(-count * element.bytes // 16) * 16
        return Kept(width, None, array, threads, team.thread)
