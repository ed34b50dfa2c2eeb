"""Live ranges of values in straight-line code: the most registers that are live at one point."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

Value = Hashable  # one value of a local, of an element of an array in registers, or of memory


@dataclass
class Timeline:
    """Events in order. A value occupies its registers from its definition to its last use; one that can be computed or
    loaded as late as wanted from its first use, or from the next branch."""

    sizes: dict[Value, int] = field(default_factory=dict)
    first: dict[Value, int] = field(default_factory=dict)
    last: dict[Value, int] = field(default_factory=dict)
    late: dict[Value, None] = field(default_factory=dict)  # not yet in registers
    inside: list[int] = field(default_factory=list)  # by event, registers of what is nested there

    def event(self, inside: int = 0) -> None:
        """Begins the next event, with so many registers for what is nested in it."""
        self.inside.append(inside)

    def define(self, value: Value, size: int, *, late: bool = False) -> None:
        if value in self.sizes:
            return
        self.sizes[value] = size
        if late:
            self.late[value] = None
        else:
            self.first[value] = 2 * len(self.inside) - 1

    def use(self, value: Value) -> None:
        """A use in the present event; of a value that is not known, none."""
        if value in self.sizes:
            now = 2 * len(self.inside) - 2
            self.first.setdefault(value, now)
            self.late.pop(value, None)
            self.last[value] = now

    def branch(self) -> None:
        """Whatever is used from here on must be in registers now."""
        now = 2 * len(self.inside) - 2
        for value in self.late:
            self.first[value] = now
        self.late.clear()

    def peak(self) -> int:
        changes = [0] * (2 * len(self.inside) + 1)
        for value, end in self.last.items():
            changes[max(self.first[value], 0)] += self.sizes[value]
            changes[end + 1] -= self.sizes[value]
        live = peak = 0
        for moment, change in enumerate(changes):
            live += change
            peak = max(peak, live + (self.inside[moment // 2] if moment < 2 * len(self.inside) else 0))
        return peak
