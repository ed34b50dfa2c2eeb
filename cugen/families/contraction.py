"""Recognises C[batch, row, column] = f(sum over k of A·B) and names the parts of it."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.base import Refusal, Request
from cugen.families.grid import fastest_first
from cugen.spec import expressions as spec
from cugen.spec.expressions import Cast, Expr, IndexValue, Op, Read, Reduce, Scan, walk


@dataclass(frozen=True, slots=True)
class Operand:
    """A factor of the products: `outer` is its index that the output keeps, k the one that is summed.

    `slow` and `fast` are the two in the order of memory, `dimensions` maps every index to its dimension."""

    read: Read
    outer: spec.Index
    slow: str
    fast: str


@dataclass(frozen=True, slots=True)
class Contraction:
    """The column is the index along which the output is contiguous, whatever the user calls it."""

    reduction: Reduce
    row: spec.Index
    column: spec.Index
    depth: spec.Index
    batch: tuple[spec.Index, ...]  # fastest first
    left: Operand  # holds row and depth
    right: Operand  # holds depth and column


def recognise(request: Request) -> Contraction | Refusal:
    """The contraction that the group's first statement holds, or why it holds none."""
    first = request.group.statements[0]
    reductions = {n: None for s in request.group.statements for n in walk(s.value) if isinstance(n, Reduce | Scan)}
    if len(reductions) != 1 or not any(n in reductions for n in walk(first.value)):
        return Refusal(f"takes one sum of products in the first statement; there are {len(reductions)} reductions")
    (reduction,) = reductions
    if not isinstance(reduction, Reduce) or reduction.kind != "sum":
        return Refusal("takes a sum")
    if reduction.where is not None:
        return Refusal("takes a sum over all of its index, not one with `where`")
    if len(reduction.indices) != 1:
        return Refusal("takes a sum over one index")
    reads = factors(reduction.body)
    if reads is None:
        return Refusal("takes a sum of products of two array elements")
    (depth,) = reduction.indices
    order = fastest_first(request)
    names = {index.name: index for index in order}
    held: list[tuple[str, ...]] = []
    for read in reads:
        subscripts = tuple(sub.name for sub in read.subscripts if isinstance(sub, IndexValue))
        if len(subscripts) != len(read.subscripts) or len(set(subscripts)) != len(subscripts):
            return Refusal(f"takes subscripts that are one index each; those of {read.array} are not")
        if read.boundary is not None:
            return Refusal(f"reads inside its operands only; {read.array} has a boundary")
        if depth.name not in subscripts:
            return Refusal(f"{read.array} has no index {depth.name}")
        held.append(subscripts)
    both = [name for name in names if name in held[0] and name in held[1]]
    outer = [[name for name in names if name in own and name not in both] for own in held]
    if any(len(own) != 1 for own in outer) or len(both) + 2 != len(names):
        return Refusal("takes one row index, one column index and batch indices that both operands share")
    if not all(isinstance(sub, IndexValue) for sub in first.subscripts):
        return Refusal("takes an output whose subscripts are one index each")
    column = next(index.name for index in order if index.name not in both)
    swap = outer[0][0] == column
    left, right = (reads[1], reads[0]) if swap else (reads[0], reads[1])
    row = outer[1][0] if swap else outer[0][0]
    return Contraction(
        reduction,
        names[row],
        names[column],
        depth,
        tuple(index for index in order if index.name in both),
        _operand(request, left, names[row], depth.name),
        _operand(request, right, names[column], depth.name),
    )


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
    ours = sorted((dimension[outer.name], dimension[depth]))
    slow, fast = ours
    if array.strides[slow] == 1 or _is_smaller(request, read.array, slow, fast):
        slow, fast = fast, slow
    named = {d: name for name, d in dimension.items()}
    return Operand(read, outer, named[slow], named[fast])


def _is_smaller(request: Request, name: str, a: int, b: int) -> bool:
    """Whether the stride of dimension a is surely less than that of b."""
    strides = request.context.arrays[name].strides
    first, second = request.context.static(strides[a]), request.context.static(strides[b])
    return first is not None and second is not None and first < second
