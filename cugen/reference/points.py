"""What statements evaluate where only some elements of the outputs are asked for, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from cugen.reference.cost import operations
from cugen.spec.expressions import IndexValue, Read, bound_indices, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate as integer


@dataclass(frozen=True)
class _Request:
    """Upper bound of the elements of an array that are read: `points` of all along the `whole` dimensions."""

    points: int
    whole: Set[int] = frozenset()

    def and_those(self, other: _Request) -> _Request:
        return _Request(self.points + other.points, self.whole & other.whole)


def requested_indices(spec: Spec, points: Mapping[str, int], params: Mapping[str, int]) -> list[dict[str, int]]:
    """For each statement an upper bound of the values of its indices to which so many points of the outputs lead: all
    of those over which other statements reduce; the first other index stands for the points along the rest."""
    requests = {name: _Request(count) for name, count in points.items()}
    requested: list[dict[str, int]] = [{} for _ in spec.statements]
    for number, statement in reversed(tuple(enumerate(spec.statements))):
        request = requests.get(statement.target, _Request(0))
        extents = {index.name: integer(index.extent, params) for index in statement.indices}
        subscripts = [statement.subscripts[dimension] for dimension in request.whole]
        whole = {subscript.name for subscript in subscripts if isinstance(subscript, IndexValue)}
        others = [name for name in extents if name not in whole]
        count = min(request.points, math.prod(extents[name] for name in others))
        requested[number] = {name: extents[name] if name in whole else 1 for name in extents}
        requested[number] |= {others[0]: count} if others else {}
        full = {name: extents[name] for name in whole if name in extents}
        full |= {index.name: integer(index.extent, params) for index in bound_indices(statement.value)}
        for read in (node for node in walk(statement.value) if isinstance(node, Read)):
            over = {
                i: sub.name for i, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue) and sub.name in full
            }
            each = math.prod(full[name] for name in (free_indices(read) & full.keys()) - set(over.values()))
            made = _Request(count * each, over.keys())
            requests[read.array] = requests[read.array].and_those(made) if read.array in requests else made
    return requested


def cost_at(statement: Statement, requested: Mapping[str, int], params: Mapping[str, int]) -> float:
    """Elementary operations of evaluating a statement at so many values of its indices, its stores included. A
    reduction is evaluated once for those that it depends on."""
    return operations(statement.value, requested, params) + math.prod(requested.values())
