"""Recognises C[batch, row, column] = f(sum over k of A·B) and names the parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.base import Refusal, Request
from cugen.families.depth_range import bounds_depth
from cugen.families.grid import fastest_first
from cugen.families.kernels import new_lowering
from cugen.families.merging import merged
from cugen.families.rebuilding import NotInStages
from cugen.plan.reductions import conjuncts
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import bounds, symbol
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Cast,
    Expr,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Scan,
    Select,
    free_indices,
    walk,
)


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor of the products: `outer` is its row or column, k the index that is summed.

    `slow` and `fast` are the two in the order of memory. All other subscripts are fixed in a block."""

    read: Read
    outer: spec.Index
    slow: str
    fast: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """The column is the index along which the output is contiguous, whatever the user calls it.

    `request` is what was asked for, or the same with neighbours in memory as one index."""

    request: Request
    reduction: Reduce
    row: spec.Index
    column: spec.Index
    depth: spec.Index
    batch: tuple[spec.Index, ...]  # fastest first
    left: Operand  # holds row and depth
    right: Operand  # holds depth and column

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """What must hold for a product to count; each bounds k from one side."""
        return conjuncts(self.reduction.where)


def recognise(request: Request) -> Contraction | Refusal:
    """The contraction that the group's first statement holds, or why it holds none.

    Where only one operand moves with a batch index, it and the row or column may be one index of memory."""
    found = _recognise(request)
    if isinstance(found, Contraction) and not _has_own_batch(found):
        return found
    try:
        plain = merged(request.group.statements, request.context)
    except NotInStages:
        return found
    kept = {index.name for index in plain.statements[0].indices}
    schedule = request.schedule
    asked = {name for sizes in (schedule.block, schedule.thread, schedule.step) for name, _ in sizes}
    if plain.statements == request.group.statements or not asked & {i.name for i in _indices(request)} <= kept:
        return found
    group, context = replace(request.group, statements=plain.statements), replace(request.context, arrays=plain.arrays)
    other = _recognise(replace(request, group=group, context=context))
    return other if isinstance(other, Contraction) else found


def _indices(request: Request) -> tuple[spec.Index, ...]:
    return request.group.statements[0].indices


def _has_own_batch(found: Contraction) -> bool:
    held = [free_indices(operand.read) for operand in (found.left, found.right)]
    return any((index.name in held[0]) != (index.name in held[1]) for index in found.batch)


def _recognise(request: Request) -> Contraction | Refusal:
    first = request.group.statements[0]
    reductions = {n: None for s in request.group.statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}
    if len(reductions) != 1 or not any(n in reductions for n in walk(first.value)):
        return Refusal(f"takes one sum of products in the first statement; there are {len(reductions)} reductions")
    (reduction,) = reductions
    if not isinstance(reduction, Reduce) or reduction.kind != "sum":
        return Refusal("takes a sum")
    if len(reduction.indices) != 1:
        return Refusal("takes a sum over one index")
    reads = factors(reduction.body)
    if reads is None:
        return Refusal("takes a sum of products of two array elements")
    if not all(isinstance(sub, IndexValue) for sub in first.subscripts):
        return Refusal("takes an output whose subscripts are one index each")
    (depth,) = reduction.indices
    for read in reads:
        if read.boundary is not None or read.exact:
            return Refusal(f"reads inside its operands only; {read.array} has a boundary")
        if depth.name not in _bare(read):
            return Refusal(f"{read.array} has no subscript that is {depth.name} alone")
    order = fastest_first(request)
    own = [tuple(index for index in order if _is_own(index.name, read, other)) for read, other in (reads, reads[::-1])]
    if not all(own):
        return Refusal("takes a row index that one operand has alone and a column index that the other has alone")
    swap = order.index(own[0][0]) < order.index(own[1][0])
    (left, right), (rows, columns) = (reads[::-1], own[::-1]) if swap else (reads, own)
    row, column = rows[0], columns[0]
    batch = tuple(index for index in order if index not in (row, column))
    unheld = [i.name for i in batch if i.name not in free_indices(left) | free_indices(right)]
    if unheld:
        return Refusal(f"takes output indices that move an operand; {unheld[0]} moves none")
    refusal = _fixed_refusal(request, reduction, reads, {index.name for index in batch})
    if refusal is None:
        refusal = bounds_depth(request, reduction, (row.name, column.name), [index.name for index in batch])
    if refusal is not None:
        return refusal
    return Contraction(
        request,
        reduction,
        row,
        column,
        depth,
        batch,
        _operand(request, left, row, depth.name),
        _operand(request, right, column, depth.name),
    )


def _bare(read: Read) -> tuple[str, ...]:
    return tuple(sub.name for sub in read.subscripts if isinstance(sub, IndexValue))


def _is_own(name: str, read: Read, other: Read) -> bool:
    """Whether the index is a subscript of this operand, and in no other place of either."""
    if name in free_indices(other) or _bare(read).count(name) != 1:
        return False
    return not any(name in free_indices(sub) for sub in read.subscripts if not isinstance(sub, IndexValue))


def _fixed_refusal(request: Request, reduction: Reduce, reads: tuple[Read, Read], batch: set[str]) -> Refusal | None:
    """Why subscripts that are expressions can't be fixed for a block: all of its threads read there, also those whose
    sum a condition leaves out."""
    lowering = new_lowering(request)
    for index in _indices(request):
        name = symbol(index.name)
        extent = to_integer(index.extent, lowering.symbols)
        lowering.ranges[name] = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
        lowering.limits[name] = extent
        lowering.symbols[index.name] = name
    conditions = [*_conditions_round(request, reduction), *conjuncts(reduction.where)]
    decided = frozenset[str]().union(*map(_names, conditions))
    for read in reads:
        for sub, extent in zip(read.subscripts, request.context.arrays[read.array].shape, strict=True):
            if isinstance(sub, IndexValue):
                continue
            if not free_indices(sub) <= batch or any(isinstance(node, Read) for node in walk(sub)):
                return Refusal(
                    f"takes subscripts that are one index, or fixed in a block; those of {read.array} aren't"
                )
            try:
                place = to_integer(sub, lowering.symbols)
            except NotAnInteger:
                return Refusal(f"takes subscripts of whole numbers; those of {read.array} are not")
            if _names(sub) & decided and lowering.inside((place,), (extent,)).terms:
                return Refusal(f"reads its operands wherever its threads are; {read.array} is read under a condition")
    return None


def _conditions_round(request: Request, reduction: Reduce) -> Iterator[Expr]:
    """What decides whether the sum is evaluated at all."""
    for statement in request.group.statements:
        for node in walk(statement.value):
            if isinstance(node, Select) and any(n == reduction for b in (node.then, node.orelse) for n in walk(b)):
                yield node.condition


def _names(expr: Expr) -> frozenset[str]:
    return frozenset(node.name for node in walk(expr) if isinstance(node, IndexValue | ParamValue))


def factors(body: Expr) -> tuple[Read, Read] | None:
    """The two reads whose product `body` is, conversions aside."""
    if not isinstance(body, Op) or body.name != "mul":
        return None
    left, right = (_unconverted(arg) for arg in body.args)
    return (left, right) if isinstance(left, Read) and isinstance(right, Read) and left != right else None


def _unconverted(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr


def _operand(request: Request, read: Read, outer: spec.Index, depth: str) -> Operand:
    array = request.context.arrays[read.array]
    dimension = {sub.name: d for d, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue)}
    slow, fast = sorted((outer.name, depth), key=lambda name: dimension[name])
    a, b = dimension[slow], dimension[fast]
    if array.strides[a] == 1 or _is_smaller(request, read.array, a, b):
        slow, fast = fast, slow
    return Operand(read, outer, slow, fast)


def _is_smaller(request: Request, name: str, a: int, b: int) -> bool:
    """Whether the stride of dimension a is surely less than that of b."""
    strides = request.context.arrays[name].strides
    first, second = request.context.static(strides[a]), request.context.static(strides[b])
    return first is not None and second is not None and first < second
