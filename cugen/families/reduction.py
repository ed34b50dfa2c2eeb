"""Recognises out[rows] = f(one reduction of elements that lie side by side) and names the parts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sympy

from cugen.families.base import Refusal, Request
from cugen.families.grid import fastest_first
from cugen.families.vectors import is_contiguous
from cugen.plan.ir import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import substitute
from cugen.plan.symbols import Integer, integer
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.types import INT64

_KINDS = ("sum", "prod", "max", "min", "any", "all")
_IN_MEMORY = ("global", "readonly")  # where it matters that lanes read neighbours


@dataclass(frozen=True, slots=True)
class Reduction:
    """`walked` is the one index that threads step along: the body of `whole` and `arrays` are over it, also where the
    spec reduces over several indices that are one range of memory. `rows` are the output's indices, fastest first."""

    request: Request  # its statements hold `whole`
    whole: Reduce
    walked: spec.Index
    arrays: Mapping[str, Array]
    rows: tuple[spec.Index, ...]


def recognise(request: Request) -> Reduction | Refusal:
    """The reduction that the group's statements share, or why it can't be spread over threads."""
    statements = request.group.statements
    found = {n: None for s in statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}
    if len(found) != 1 or not any(node in found for node in walk(statements[0].value)):
        return Refusal(f"takes one reduction, in the first statement; there are {len(found)}")
    (reduction,) = found
    if not isinstance(reduction, Reduce) or reduction.kind not in _KINDS:
        return Refusal(f"takes {', '.join(_KINDS)}, and this is {_article(reduction)}")
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            return Refusal(f"writes {statement.target} at bare indices only")
    written = [statement.target for statement in statements]
    inside = dict.fromkeys(_reads(reduction))
    names = {index.name for index in reduction.indices}
    for read in inside:
        if read.array in written:
            return Refusal(f"{read.array} is read inside the reduction and written: threads would see both")
        if read.boundary is not None or not all(_is_plain(sub) for sub in read.subscripts):
            return Refusal(f"reads at bare indices only; {read.array} is read beside them")
    moving = tuple(read for read in inside if free_indices(read) & names)
    rows = fastest_first(request)
    own = {index.name for index in rows}
    if not any(own <= free_indices(read) for read in moving):
        return Refusal("reads each element for one result; here several results share all that they read")
    outside = [n for s in statements for n in _outside(s.value, reduction) if isinstance(n, Read)]
    if len(reduction.indices) > 1:
        return _flattened(request, reduction, moving, rows, {read.array for read in outside})
    (walked,) = reduction.indices
    for read in moving:
        array = request.context.arrays[read.array]
        if array.space in _IN_MEMORY and not is_contiguous(array, read.subscripts, walked.name):
            return Refusal(f"neighbours along {walked.name} are no neighbours in {read.array}")
    return Reduction(request, reduction, walked, request.context.arrays, rows)


def _flattened(
    request: Request, reduction: Reduce, moving: tuple[Read, ...], rows: tuple[spec.Index, ...], kept: set[str]
) -> Reduction | Refusal:
    """The reduction over one index that counts the elements of all its indices."""
    names = [index.name for index in reduction.indices]
    several = f"walks along one range of memory; {', '.join(names)} are several in"
    taken = {index.name for index in (*rows, *reduction.indices)}
    flat = "element" if "element" not in taken else "element_"
    arrays = dict(request.context.arrays)
    order: list[str] = []
    chains: dict[str, list[int]] = {}
    for read in moving:
        array = request.context.arrays[read.array]
        chain = _dense_dimensions(request, array, read, reduction)
        if chain is None or read.array in kept:
            return Refusal(f"{several} {read.array}")
        ours = [sub.name for sub in (read.subscripts[d] for d in chain) if isinstance(sub, IndexValue)]
        order = order or ours
        if ours != order or chains.setdefault(read.array, chain) != chain:
            return Refusal(f"{several} {read.array}")
        count = sympy.Mul(*(array.shape[d] for d in chain))
        arrays[read.array] = replace(
            array,
            shape=(*_rest(array.shape, chain), count),
            strides=(*_rest(array.strides, chain), integer(1)),
        )

    def on_read(read: Read) -> Expr | None:
        if read not in moving:
            return None
        rest = tuple(sub for sub in read.subscripts if not (isinstance(sub, IndexValue) and sub.name in names))
        return replace(read, subscripts=(*rest, IndexValue(flat)))

    def over_elements(expr: Expr) -> Expr:
        return substitute(expr, {}, on_read)

    body = over_elements(reduction.body)
    where = None if reduction.where is None else over_elements(reduction.where)
    used = free_indices(body) | (free_indices(where) if where is not None else frozenset())
    if used & set(names):
        return Refusal(f"counts elements, and the reduction asks where they are along {', '.join(names)}")
    total: Expr = reduction.indices[0].extent
    for index in reduction.indices[1:]:
        total = Op("mul", (total, index.extent), INT64)
    statements = tuple(replace(s, value=over_elements(s.value)) for s in request.group.statements)
    flat_request = replace(request, group=replace(request.group, statements=statements))
    whole = replace(reduction, body=body, where=where)
    return Reduction(flat_request, whole, spec.Index(flat, total), arrays, rows)


def _dense_dimensions(request: Request, array: Array, read: Read, reduction: Reduce) -> list[int] | None:
    """The dimensions of the reduction's indices, fastest first, where together they are one range of memory."""
    extents = {index.name: to_integer(index.extent, request.context.symbols) for index in reduction.indices}
    found = {
        dimension: extents[sub.name]
        for dimension, sub in enumerate(read.subscripts)
        if isinstance(sub, IndexValue) and sub.name in extents
    }
    if not array.flat or len(found) != len(extents) or not extents.keys() <= free_indices(read):
        return None
    chain: list[int] = []
    expected: Integer = integer(1)
    while len(chain) < len(found):
        fitting = [d for d in found if d not in chain and (array.strides[d] - expected).expand() == 0]
        if not fitting or (array.shape[fitting[0]] - found[fitting[0]]).expand() != 0:
            return None
        chain.append(fitting[0])
        expected = expected * array.shape[fitting[0]]
    return chain


def _rest(items: tuple[Integer, ...], left_out: list[int]) -> tuple[Integer, ...]:
    return tuple(item for position, item in enumerate(items) if position not in left_out)


def _reads(reduction: Reduce) -> Iterator[Read]:
    for expr in (reduction.body, *(() if reduction.where is None else (reduction.where,))):
        yield from (node for node in walk(expr) if isinstance(node, Read))


def _outside(expr: Expr, reduction: Reduce) -> Iterator[Expr]:
    """All nodes but those inside the reduction."""
    if expr == reduction:
        return
    yield expr
    for child in spec.children(expr):
        yield from _outside(child, reduction)


def _is_plain(sub: Expr) -> bool:
    """A bare index, or a place that is the same for all."""
    reads = any(isinstance(node, Read) for node in walk(sub))
    return isinstance(sub, IndexValue) or not (free_indices(sub) or reads)


def _article(node: Reduce | Scan) -> str:
    return "a scan" if isinstance(node, Scan) else f"an {node.kind}"
