"""Walks over tiles: reductions too long for shared memory, computed one tile after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.plan.request import Request
from cugen.spec.expressions import Expr, Index, Read, Reduce, children, free_indices, walk

UNROLL = 8  # steps of a walk: their loads from shared memory are joined to vectors (heuristic)


@dataclass(frozen=True, slots=True)
class Walk:
    """An index of the `reductions`, which a block takes in steps: the tiles of one are in shared memory at a time."""

    index: Index
    step: int
    reductions: tuple[Reduce, ...]


def walks(request: Request) -> Iterator[tuple[Index, tuple[Reduce, ...]]]:
    """The indices along which the statements' reductions can be walked: each has all of them, under one nest of loops,
    and none needs the result of another."""
    reductions = outermost_reductions(request)
    if not reductions or any(reduction.indices != reductions[0].indices for reduction in reductions):
        return
    outputs = {index.name for index in request.group.statements[0].indices}
    targets = {statement.target for statement in request.group.statements}
    for reduction in reductions:
        if free_indices(reduction) - outputs or any(
            isinstance(n, Read) and n.array in targets for n in walk(reduction)
        ):
            return
    for index in reductions[0].indices:
        yield index, reductions


def outermost_reductions(request: Request) -> tuple[Reduce, ...]:
    """The reductions that are in no other, each once."""
    found: dict[Reduce, None] = {}

    def collect(expr: Expr) -> None:
        if isinstance(expr, Reduce):
            found[expr] = None
            return
        for part in children(expr):
            collect(part)

    for statement in request.group.statements:
        collect(statement.value)
    return tuple(found)
