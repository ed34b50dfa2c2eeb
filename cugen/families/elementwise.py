"""Statements without loops, whose every read is at bare output indices: what `map` and `transpose` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.families.base import Refusal, Request
from cugen.spec.expressions import Const, Expr, IndexValue, ParamValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Statement


def form_refusals(request: Request) -> Iterator[Refusal]:
    """What in the statements is more than elementwise or broadcast."""
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
        if any(not isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            yield Refusal(f"writes {statement.target} at bare indices only")
        for node in walk(statement.value):
            if isinstance(node, Reduce | Scan):
                article = "an" if node.kind[0] in "aeiou" else "a"
                yield Refusal(f"has no loops, and {statement.target} is {article} {node.kind} over {_bound(node)}")
                return
    elsewhere: dict[str, None] = {}
    for read in request.reads():
        if any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            elsewhere[f"{read.array} is read where other elements say"] = None
        elif read.boundary is not None or not all(_is_plain(sub) for sub in read.subscripts):
            elsewhere[f"{read.array} is read beside them"] = None
    yield from (Refusal(f"reads at bare indices only; {what}") for what in elsewhere)


def placement_refusals(request: Request, staged: Mapping[str, object]) -> Iterator[Refusal]:
    """Placements that neither the context's arrays nor the tiles of `staged` inputs honour."""
    for array in request.touched():
        key, space = f"arrays.{array.name}.memory", array.memory.space
        if space == "shared" and array.name not in staged:
            yield Refusal(f"has no use for {array.name} in shared memory: a thread reads an element of it once", key)
        elif space == "register" and array.role != "temporary":
            yield Refusal(f"has no use for all of {array.name} in registers: a thread reads an element of it once", key)


def loaded_reads(statements: tuple[Statement, ...]) -> tuple[Read, ...]:
    """The reads that see memory, each once: those of elements that no statement before has written."""
    written: dict[tuple[str, tuple[Expr, ...]], None] = {}
    found: dict[Read, None] = {}
    for statement in statements:
        reads = [node for node in walk(statement.value) if isinstance(node, Read)]
        if statement.accumulate:
            reads.append(Read(statement.target, statement.subscripts, statement.value.dtype))
        found.update({read: None for read in reads if (read.array, read.subscripts) not in written})
        written[statement.target, statement.subscripts] = None
    return tuple(found)


def _is_plain(sub: Expr) -> bool:
    """A bare index, or a place that is the same for all."""
    return isinstance(sub, IndexValue | Const | ParamValue) or not free_indices(sub)


def _bound(node: Reduce | Scan) -> str:
    return node.outer if isinstance(node, Scan) else ", ".join(index.name for index in node.indices)
