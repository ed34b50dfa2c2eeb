"""Which statements read an array, looked up by position: each statement's expressions are walked once."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from cugen.spec.expressions import Read, walk
from cugen.spec.model import Statement


class Readers:
    """Which statements read an array, and by position the arrays that a statement's value reads: `in_value`."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.in_value = [{read.array for read in array_reads(statement)} for statement in statements]
        self._positions: dict[str, list[int]] = defaultdict(list)
        for position, statement in enumerate(statements):
            in_subscripts = {n.array for sub in statement.subscripts for n in walk(sub) if isinstance(n, Read)}
            for array in self.in_value[position] | in_subscripts:
                self._positions[array].append(position)

    def positions(self, array: str, first: int = 0) -> list[int]:
        """The positions from `first` on of the statements that read an array, in their values or subscripts."""
        positions = self._positions[array]
        return positions[bisect_left(positions, first) :]


def array_reads(statement: Statement) -> list[Read]:
    """The reads of a statement's value, in preorder."""
    return [node for node in walk(statement.value) if isinstance(node, Read)]
