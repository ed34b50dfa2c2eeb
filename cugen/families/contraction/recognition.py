"""Recognises C[batch, row, column] = f(sum over k of A·B), or of several such sums, and names the parts of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.contraction.k_range import bounds_depth
from cugen.pieces.grid import fastest_first
from cugen.pieces.kernels import new_lowering
from cugen.plan.lowering.reductions import conjuncts
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import bounds, symbol
from cugen.rewrite.align_reductions import NotInStages, collected, with_common_indices
from cugen.rewrite.fuse_dimensions import merged
from cugen.spec import expressions as spec
from cugen.spec.expressions import (
    Cast,
    Const,
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

_MOST = 4  # sums that share a walk along k: their running values fill registers, their tiles shared memory


@dataclass(frozen=True, slots=True)
class Operand:
    """What the terms are made of: `outer` is its row or column, k the index that is summed.

    `slow` and `fast` are the two in the order of memory. All other subscripts are fixed in a block."""

    read: Read
    mn: spec.Index
    slow: str
    fast: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """The column is the index along which the output is contiguous, whatever the user calls it.

    `request` is what was asked for, or the same with neighbours in memory as one index."""

    request: Request
    sums: tuple[Reduce, ...]
    m: spec.Index
    n: spec.Index
    k: spec.Index
    batch: tuple[spec.Index, ...]  # fastest first
    a_operands: tuple[Operand, ...]  # indexed by M and K
    b_operands: tuple[Operand, ...]  # indexed by K and N

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.a_operands, *self.b_operands)

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """What must hold for a term of any of the sums to count; each bounds k from one side."""
        return conjuncts(self.sums[0].where)


def recognise(request: Request) -> Contraction | Refusal:
    """The contraction that the group's first statement holds, or why it holds none.

    Where only one operand moves with a batch index, it and the row or column may be one index of memory, and so may
    the indices of a sum over several."""
    found = _recognise(request)
    if isinstance(found, Contraction) and not _has_own_batch(found):
        return found
    statements = request.group.statements
    try:
        stages = collected(statements)
    except NotInStages:
        return found
    if isinstance(found, Refusal) and all(len(node.indices) == 1 for stage in stages for node in stage):
        return found
    plain = merged(with_common_indices(statements, request.context), request.context)
    kept = {index.name for index in plain.statements[0].indices}
    schedule = request.schedule
    asked = {name for sizes in (schedule.block, schedule.thread, schedule.step) for name, _ in sizes}
    if plain.statements == statements or not asked & {i.name for i in _indices(request)} <= kept:
        return found
    group, context = replace(request.group, statements=plain.statements), replace(request.context, arrays=plain.arrays)
    other = _recognise(replace(request, group=group, context=context))
    return other if isinstance(other, Contraction) else found


def _indices(request: Request) -> tuple[spec.Index, ...]:
    return request.group.statements[0].indices


def _has_own_batch(found: Contraction) -> bool:
    held = [free_indices(operand.read) for operand in found.operands]
    return any(not all(index.name in names for names in held) for index in found.batch)


def _recognise(request: Request) -> Contraction | Refusal:
    statements = request.group.statements
    found = {n: None for s in statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}
    if len(found) > 1 and all(isinstance(n, Reduce) for n in found):
        statements = with_common_indices(statements, request.context)
        request = replace(request, group=replace(request.group, statements=statements))
        found = {n: None for s in statements for n in walk(s.value) if isinstance(n, Reduce)}
    if not any(n in found for n in walk(statements[0].value)):
        return Refusal("takes a sum of products in the first statement, and there is none")
    if len(found) > _MOST:
        return Refusal(f"takes {_MOST} sums of products, not {len(found)}")
    sums = tuple(node for node in found if isinstance(node, Reduce) and node.kind == "sum")
    if len(sums) < len(found):
        return Refusal("takes sums, and nothing else over other indices")
    if any(len(node.indices) != 1 for node in sums):
        return Refusal("takes sums over one index")
    if len({(node.indices, node.where) for node in sums}) > 1:
        return Refusal("takes sums over the same index, under the same condition")
    if not all(_vanishes(node.body) for node in sums):
        return Refusal("takes sums of products of two array elements, or of what else is 0 where these are")
    (depth,) = sums[0].indices
    reads = tuple({node: None for one in sums for node in walk(one.body) if isinstance(node, Read)})
    for read in reads:
        if read.boundary is not None or read.exact:
            return Refusal(f"reads inside its operands only; {read.array} has a boundary")
        if depth.name not in _bare(read):
            return Refusal(f"{read.array} has no subscript that is {depth.name} alone")
    order = fastest_first(request)
    unheld = [i.name for i in order if not any(i.name in free_indices(read) for read in reads)]
    if unheld:
        return Refusal(f"takes output indices that move an operand; {unheld[0]} moves none")
    free = [index for index in order if _is_plain(index.name, reads)]
    column = next((i for i in free if not all(i.name in _bare(read) for read in reads)), None)
    lefts = tuple(read for read in reads if column and column.name not in _bare(read))
    rights = tuple(read for read in reads if read not in lefts)
    row = next((i for i in free if all((i.name in _bare(read)) == (read in lefts) for read in reads)), None)
    if column is None or row is None:
        return Refusal("takes a row index that one operand has alone and a column index that the other has alone")
    if not all(_mentions(one.body, lefts) and _mentions(one.body, rights) for one in sums):
        return Refusal("takes sums of terms that move with rows and with columns")
    batch = tuple(index for index in order if index not in (row, column))
    refusal = _fixed_refusal(request, sums, reads, {index.name for index in batch})
    if refusal is None:
        refusal = bounds_depth(request, sums[0], (row.name, column.name), [index.name for index in batch])
    if refusal is not None:
        return refusal
    return Contraction(
        request,
        sums,
        row,
        column,
        depth,
        batch,
        tuple(_operand(request, read, row, depth.name) for read in lefts),
        tuple(_operand(request, read, column, depth.name) for read in rights),
    )


def _vanishes(term: Expr) -> bool:
    """Whether a term is 0 where all array elements in it are: past the edges of tiles they are."""
    match term:
        case Read():
            return True
        case Cast(arg=arg) | Op(name="neg" | "abs", args=(arg,)):
            return _vanishes(arg)
        case Op(name="add" | "sub", args=args):
            return all(map(_vanishes, args))
        case Op(name="mul", args=(a, b)):
            return (_vanishes(a) and (_vanishes(b) or _is_finite(b))) or (_is_finite(a) and _vanishes(b))
        case Op(name="pow", args=(base, Const(value=2 | 3))):
            return _vanishes(base)
    return False


def _is_finite(term: Expr) -> bool:
    return isinstance(term, Const) and math.isfinite(term.value)


def _mentions(body: Expr, reads: tuple[Read, ...]) -> bool:
    return any(node in reads for node in walk(body) if isinstance(node, Read))


def _bare(read: Read) -> tuple[str, ...]:
    return tuple(sub.name for sub in read.subscripts if isinstance(sub, IndexValue))


def _is_plain(name: str, reads: tuple[Read, ...]) -> bool:
    """Whether the index is at most one subscript of each operand, and in no other place."""
    for read in reads:
        if sum(name in free_indices(sub) for sub in read.subscripts) != _bare(read).count(name):
            return False
        if _bare(read).count(name) > 1:
            return False
    return True


def _fixed_refusal(
    request: Request, sums: tuple[Reduce, ...], reads: tuple[Read, ...], batch: set[str]
) -> Refusal | None:
    """Why subscripts that are expressions can't be fixed for a block: all of its threads read there, also those whose
    sum a condition leaves out."""
    lowering = new_lowering(request)
    for index in _indices(request):
        name = symbol(index.name)
        extent = to_integer(index.extent, lowering.symbols)
        lowering.ranges[name] = (0, max(bounds(extent, lowering.ranges)[1] - 1, 0))
        lowering.limits[name] = extent
        lowering.symbols[index.name] = name
    conditions = [*_conditions_round(request, sums), *conjuncts(sums[0].where)]
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


def _conditions_round(request: Request, sums: tuple[Reduce, ...]) -> Iterator[Expr]:
    """What decides whether a sum is evaluated at all."""
    for statement in request.group.statements:
        for node in walk(statement.value):
            if isinstance(node, Select) and any(n in sums for b in (node.then, node.orelse) for n in walk(b)):
                yield node.condition


def _names(expr: Expr) -> frozenset[str]:
    return frozenset(node.name for node in walk(expr) if isinstance(node, IndexValue | ParamValue))


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
