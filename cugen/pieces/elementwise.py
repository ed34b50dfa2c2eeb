"""Statements without loops, whose every read is at bare output indices: what `map` and `transpose` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.pieces.vectors import is_fixed
from cugen.plan.memory import Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, Select, children, walk
from cugen.spec.model import Statement

IN_MEMORY = ("global", "readonly")  # what threads of a warp load side by side; constants are loaded one by one


def loop_refusals(request: Request) -> Iterator[Refusal]:
    """What in the statements is more than one value for each element, whatever it is made of."""
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
        for node in walk(statement.value):
            if isinstance(node, Reduce | Scan):
                article = "an" if node.kind[0] in "aeiou" else "a"
                yield Refusal(f"has no loops, and {statement.target} is {article} {node.kind} over {_bound(node)}")
                return


def form_refusals(request: Request) -> Iterator[Refusal]:
    """What in the statements is more than elementwise or broadcast."""
    loops = tuple(loop_refusals(request))
    yield from loops
    for statement in request.group.statements:
        if any(not isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            yield Refusal(f"writes {statement.target} at bare indices only")
    if any(isinstance(n, Reduce | Scan) for s in request.group.statements for n in walk(s.value)):
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


def certain_reads(request: Request, arrays: Mapping[str, Array]) -> tuple[Read, ...]:
    """The loaded reads of elements that surely exist, also where a condition keeps them from being read."""
    statements = request.group.statements
    always = {read: None for s in statements for read in _always_read(s.value)}
    always |= {Read(s.target, s.subscripts, s.value.dtype): None for s in statements if s.accumulate}
    reads = loaded_reads(statements)
    return tuple(read for read in reads if read in always or _is_inside(request, arrays[read.array], read))


def _always_read(expr: Expr) -> Iterator[Read]:
    """The reads that no condition keeps from being made."""
    match expr:
        case Read():
            yield expr
        case Select(condition=condition):
            yield from _always_read(condition)
        case Op(name="and" | "or", args=(first, *_)):
            yield from _always_read(first)
        case _:
            for child in children(expr):
                yield from _always_read(child)


def _is_inside(request: Request, array: Array, read: Read) -> bool:
    context = request.context
    for sub, extent in zip(read.subscripts, array.shape, strict=True):
        if not isinstance(sub, IndexValue):
            if not is_fixed(sub):
                return False
            low, high = bounds(to_integer(sub, context.symbols), context.ranges)
            if low < 0 or high >= bounds(extent, context.ranges)[0]:
                return False
    return True


def _is_plain(sub: Expr) -> bool:
    """A bare index, or a place that is the same for all."""
    return isinstance(sub, IndexValue) or is_fixed(sub)


def _bound(node: Reduce | Scan) -> str:
    return node.outer if isinstance(node, Scan) else ", ".join(index.name for index in node.indices)
