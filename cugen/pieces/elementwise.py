"""Elementwise statements: no loops, every read at bare output indices. Shared by `map` and `transpose`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.pieces.vectors import is_computed, is_fixed
from cugen.plan.memory import ARGUMENTS, Array
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds, symbol
from cugen.spec.expressions import Expr, IndexValue, Op, Read, Reduce, Scan, Select, children, free_indices, walk
from cugen.spec.model import Statement

IN_MEMORY = ARGUMENTS  # spaces whose loads coalesce across a warp; constant memory broadcasts one address


def loop_refusals(request: Request) -> Iterator[Refusal]:
    """Statements that don't compute one value per element without loops."""
    for statement in request.group.statements:
        if not statement.indices:
            yield Refusal(f"{statement.target} is a single element")
        for node in walk(statement.value):
            if isinstance(node, Reduce | Scan):
                article = "an" if node.kind[0] in "aeiou" else "a"
                bound = node.outer if isinstance(node, Scan) else ", ".join(index.name for index in node.indices)
                yield Refusal(f"has no loops, and {statement.target} is {article} {node.kind} over {bound}")
                return


def loaded_reads(statements: tuple[Statement, ...]) -> tuple[Read, ...]:
    """Reads that load from memory, each once: those of elements that no earlier statement of the group wrote."""
    written: dict[tuple[str, tuple[Expr, ...]], None] = {}
    loaded: dict[Read, None] = {}
    for statement in statements:
        reads = [node for node in walk(statement.value) if isinstance(node, Read)]
        if statement.accumulate:
            reads.append(Read(statement.target, statement.subscripts, statement.value.dtype))
        loaded.update({read: None for read in reads if (read.array, read.subscripts) not in written})
        written[statement.target, statement.subscripts] = None
    return tuple(loaded)


def certain_reads(request: Request, arrays: Mapping[str, Array]) -> tuple[Read, ...]:
    """Loaded reads that are safe to execute unconditionally: unconditional ones, and those provably in bounds."""
    statements = request.group.statements
    always = {read: None for s in statements for read in _always_read(s.value)}
    always |= {Read(s.target, s.subscripts, s.value.dtype): None for s in statements if s.accumulate}
    reads = loaded_reads(statements)
    return tuple(read for read in reads if read in always or _is_inside(request, arrays[read.array], read))


def _always_read(expr: Expr) -> Iterator[Read]:
    """The reads that execute under every condition."""
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
    indices = {index.name: index for index in request.group.statements[0].indices}
    for sub, extent in zip(read.subscripts, array.shape, strict=True):
        if not isinstance(sub, IndexValue):
            names = free_indices(sub)
            if is_computed(sub) or not names <= indices.keys():
                return False
            values = {name: symbol(f"index {name}") for name in names}
            ranges = {values[name]: (0, context.max_extent(indices[name]) - 1) for name in names}
            low, high = bounds(to_integer(sub, {**context.symbols, **values}), {**context.ranges, **ranges})
            if low < 0 or high >= bounds(extent, context.ranges)[0]:
                return False
    return True


def is_plain(sub: Expr) -> bool:
    """A bare index, or a subscript that is the same for all elements."""
    return isinstance(sub, IndexValue) or is_fixed(sub)
