"""Sums of products whose operands are no matrices as they lie: one of them is laid out as a matrix first.

A convolution over channels that are neighbours in memory is a product of its windows with its weights. The windows
become a temporary, in which every index of the sum stands as it does in the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from cugen.plan.context import make_context
from cugen.plan.request import Group, Request, Single, Steps
from cugen.plan.subscripts import to_integer
from cugen.rewrite.align_reductions import rebuilt
from cugen.rewrite.fuse_dimensions import product
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Array, Memory, Schedule, Statement

_WORTHWHILE = 1 << 21  # products; fewer are over before another launch begins
_DEEP = 32  # terms of a sum that outweigh laying out what they are made of
_MOST_BYTES = 1 << 29  # of the temporary


def split(single: Single) -> Steps | None:
    """The statement after one that lays out an operand, where nothing but a thread for each element would take it."""
    if single.schedule != Schedule():
        return None
    found = _operands(single.statement)
    if found is None:
        return None
    reduction, moved, other = found
    indices = _order(single.statement, reduction, moved, other)
    if not _is_worth_it(single, reduction, moved, indices) or _is_taken(single, single.statement):
        return None
    layouts = [(moved, indices)]
    if not _is_together(reduction, other):
        summed = [index for index in indices if index in reduction.indices]
        rest = [index for index in single.statement.indices if index.name in free_indices(other)]
        layouts.append((other, (*rest, *summed)))
    taken = {array.name for array in single.context.spec.arrays} | {index.name for index in indices}
    steps: list[Statement] = []
    arrays: list[Array] = []
    laid: dict[Read, Read] = {}
    for read, order in layouts:
        step, array = _laid_out(single, read, order, taken)
        steps.append(step)
        arrays.append(array)
        laid[read] = Read(array.name, step.subscripts, read.dtype)

    def in_place(node: Expr) -> Expr | None:
        return laid.get(node) if isinstance(node, Read) else None

    last = replace(single.statement, value=rebuilt(single.statement.value, in_place))
    names = tuple(array.name for array in arrays)
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *arrays)))
    if not _is_taken(replace(single, context=context), last, names):
        return None
    return Steps((*steps, last), tuple(arrays), open=names)


def _laid_out(single: Single, read: Read, indices: tuple[Index, ...], taken: set[str]) -> tuple[Statement, Array]:
    """The statement that stores what a read sees, and its temporary."""
    name = f"{read.array}_unfolded"
    while name in taken:
        name += "_"
    taken.add(name)
    subscripts = tuple(IndexValue(index.name) for index in indices)
    shape = tuple(index.extent for index in indices)
    strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
    dtype = single.context.spec.array(read.array).dtype
    scratch = Memory("scratch")  # as cheap as it is to read again, it is stored
    array = Array(name, shape, dtype, "temporary", strides, memory=scratch, is_temporary=True)
    told = single.statement
    text = f"{name}[{', '.join(index.name for index in indices)}] = {read.array} as it is read by: {told.text}"
    return Statement(name, subscripts, indices, read, text=text, span=told.span), array


def _is_together(reduction: Reduce, other: Read) -> bool:
    """Whether the indices of the sum are neighbours among the dimensions of the other operand."""
    own = {index.name for index in reduction.indices}
    places = [d for d, sub in enumerate(other.subscripts) if isinstance(sub, IndexValue) and sub.name in own]
    return places == list(range(places[0], places[0] + len(places)))


def _operands(statement: Statement) -> tuple[Reduce, Read, Read] | None:
    """The sum, the operand to be laid out, and the other one."""
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce):
        return None
    reads = tuple(dict.fromkeys(node for node in walk(reduction.body) if isinstance(node, Read)))
    own = {index.name for index in reduction.indices}
    if reduction.kind != "sum" or reduction.where is not None or len(own) < 2 or len(reads) != 2:
        return None
    if any(node in reads for node in _outside(statement.value, reduction)):
        return None
    for read in reads:
        if not own <= free_indices(read) or read.array == statement.target:
            return None
        if any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            return None
    odd = [read for read in reads if not _is_plain(read)]
    if len(odd) > 1:
        return None
    moved = odd[0] if odd else min(reads, key=lambda read: len(free_indices(read)))
    (other,) = (read for read in reads if read != moved)
    return reduction, moved, other


def _outside(expr: Expr, reduction: Reduce) -> Iterator[Expr]:
    """The nodes of an expression, those of its sum left out."""
    inside = {id(node) for node in walk(reduction)}
    return (node for node in walk(expr) if id(node) not in inside)


def _is_plain(read: Read) -> bool:
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    return read.boundary is None and not read.exact and len(set(names)) == len(read.subscripts)


def _order(statement: Statement, reduction: Reduce, moved: Read, other: Read) -> tuple[Index, ...]:
    """The temporary's indices: those of the sum as the other operand has them, between those of the output that come
    before and after what the other operand has alone."""
    names = [sub.name for sub in other.subscripts if isinstance(sub, IndexValue)]
    summed = sorted(reduction.indices, key=lambda index: names.index(index.name))
    mine = free_indices(moved)
    alone = [n for n, index in enumerate(statement.indices) if index.name not in mine]
    last = max(alone, default=-1)
    before = [index for index in statement.indices[: last + 1] if index.name in mine]
    after = [index for index in statement.indices[last + 1 :] if index.name in mine]
    return (*before, *summed, *after)


def _is_worth_it(single: Single, reduction: Reduce, moved: Read, indices: tuple[Index, ...]) -> bool:
    """Whether there is so much to compute that laying out costs little, and room for what is laid out."""
    context = single.context
    extents = {
        index.name: context.static(to_integer(index.extent, context.symbols))
        for index in (*single.statement.indices, *reduction.indices)
    }
    known = {name: extent for name, extent in extents.items() if extent is not None}
    if len(known) < len(extents):
        return False
    depth = prod(known[index.name] for index in reduction.indices)
    alone = prod(known[index.name] for index in single.statement.indices if index.name not in free_indices(moved))
    size = prod(known[index.name] for index in indices) * context.arrays[moved.array].dtype.bytes
    return prod(known.values()) >= _WORTHWHILE and depth >= _DEEP and alone >= _DEEP // 2 and size <= _MOST_BYTES


def _is_taken(single: Single, statement: Statement, stored: tuple[str, ...] = ()) -> bool:
    """Whether some family has a better way than a thread for each element."""
    request = Request("", Group((statement,)), single.context, single.schedule, single.target, stored)
    return single.is_matched(request)
