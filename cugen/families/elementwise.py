"""Statements without loops, whose every read is at bare output indices: what `map` and `transpose` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.families.base import Refusal, Request
from cugen.plan.ir import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.plan.symbols import Integer, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.types import INT64


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


def flattened(request: Request) -> tuple[tuple[Statement, ...], Mapping[str, Array]] | None:
    """The statements and their arrays over one index that counts all elements; None where they aren't all dense and
    alike, or where a value depends on where it stands."""
    first = request.group.statements[0]
    if len(first.indices) < 2 or request.schedule.block or request.schedule.thread:
        return None
    context = request.context
    extents = [to_integer(index.extent, context.symbols) for index in first.indices]
    at = {sub.name: extent for sub, extent in zip(map(_index, first.indices), extents, strict=True)}
    total: Expr = first.indices[0].extent
    for index in first.indices[1:]:
        total = Op("mul", (total, index.extent), INT64)
    taken = {index.name for index in first.indices}
    name = "i" if "i" not in taken else "element"
    arrays = dict(context.arrays)
    strides: tuple[Integer, ...] | None = None

    def is_alike(array: Array, subscripts: tuple[Expr, ...]) -> bool:
        nonlocal strides
        if subscripts != first.subscripts or not array.flat or not _is_dense(array):
            return False
        shape = [at[sub.name] for sub in subscripts if isinstance(sub, IndexValue)]
        strides = strides or array.strides
        return _equal(array.strides, strides) and len(shape) == len(array.shape) and _equal(array.shape, shape)

    def on_read(read: Read) -> Expr | None:
        return replace(read, subscripts=(IndexValue(name),)) if read.subscripts else None

    statements = []
    for statement in request.group.statements:
        reads = [node for node in walk(statement.value) if isinstance(node, Read)]
        places = [(statement.target, statement.subscripts), *((r.array, r.subscripts) for r in reads if r.subscripts)]
        if not all(is_alike(context.arrays[array], subscripts) for array, subscripts in places):
            return None
        for array, _ in places:
            count = to_integer(total, context.symbols)
            arrays[array] = replace(context.arrays[array], shape=(count,), strides=(integer(1),))
        value = substitute(statement.value, {}, on_read)
        if free_indices(value) - {name}:
            return None
        indices = (spec.Index(name, total),)
        statements.append(replace(statement, subscripts=(IndexValue(name),), indices=indices, value=value))
    return tuple(statements), arrays


def _is_dense(array: Array) -> bool:
    """Whether the elements lie one after another, in the order of rows or of columns."""
    for order in (tuple(range(len(array.shape))), tuple(reversed(range(len(array.shape))))):
        expected: Integer = integer(1)
        dense = True
        for dimension in reversed(order):
            dense = dense and _equal((array.strides[dimension],), (expected,))
            expected = expected * array.shape[dimension]
        if dense:
            return True
    return False


def _equal(some: tuple[Integer, ...] | list[Integer], others: tuple[Integer, ...] | list[Integer]) -> bool:
    return all((a - b).expand() == 0 for a, b in zip(some, others, strict=True))


def _is_plain(sub: Expr) -> bool:
    """A bare index, or a place that is the same for all."""
    return isinstance(sub, IndexValue | Const | ParamValue) or not free_indices(sub)


def _index(index: spec.Index) -> IndexValue:
    return IndexValue(index.name)


def _bound(node: Reduce | Scan) -> str:
    return node.outer if isinstance(node, Scan) else ", ".join(index.name for index in node.indices)
