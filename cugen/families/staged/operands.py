"""Operands of a thread's outputs that all terms of a walk read: they are loaded once, and held in registers."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from cugen.families.staged.walk import Walk
from cugen.pieces.elementwise import certain_reads
from cugen.plan.request import Request
from cugen.spec.expressions import Read, Reduce, free_indices, walk


@dataclass(frozen=True, slots=True)
class Operand:
    """A read that depends on the outputs along the indices `outputs`, and on the `inner` indices of nested reductions,
    with their extents."""

    read: Read
    outputs: frozenset[str]
    inner: tuple[tuple[str, int], ...] = ()

    @property
    def elements(self) -> int:
        """The elements for one output."""
        return math.prod(extent for _, extent in self.inner)


def register_operands(request: Request, walked: Walk, along: Collection[str]) -> tuple[Operand, ...]:
    """The operands of the reductions that depend on the outputs along these indices and on no term of the walk."""
    context = request.context
    terms = {index.name for reduction in walked.reductions for index in reduction.indices}
    outputs = {index.name for index in request.group.statements[0].indices}
    extents: dict[str, int] = {}
    operands: dict[Read, Operand] = {}
    certain = frozenset(certain_reads(request, context.arrays))
    for node in (node for reduction in walked.reductions for node in walk(reduction.body)):
        if isinstance(node, Reduce):
            for index in node.indices:
                extent = context.static(context.extent(index))
                extents[index.name] = 0 if extent is None or index.name in extents else extent
    for read in (node for reduction in walked.reductions for node in walk(reduction.body)):
        if not isinstance(read, Read) or read not in certain:
            continue
        free = free_indices(read)
        inner = tuple((name, extents.get(name, 0)) for name in sorted(free - outputs))
        if free & frozenset(along) and not free & terms and all(extent for _, extent in inner):
            operands[read] = Operand(read, free & outputs, inner)
    return tuple(operands.values())
