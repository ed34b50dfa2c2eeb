"""Stores the products of a transposed convolution's inputs and weights, summed over channels, before taps are added.

    y[b, i, k] = sum(x[b, i // 2 - r, c] * w[i % 2 + 2 * r, c, k], r, c)                    x: [B, H, C], w: [R, C, K]
becomes
    y_products[b, h, s, k] = sum(x[b, h, c] * w[s, c, k], c)
    y[b, i, k] = sum(y_products[b, i // 2 - r, i % 2 + 2 * r, k], r)
The first is a GEMM of the matrices as they are in memory. It has as many terms as the transposed convolution, in which
each input meets each tap once. Where an output has one tap, `y[b, i, k] = sum(x[b, i // 2, c] * w[i % 2, c, k], c)`,
or an image is enlarged by its nearest pixels before a 1 x 1 convolution, the second reads its product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from cugen.plan.context import make_context
from cugen.plan.request import Request, Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, steps_of, temporary
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    factors_of_product,
    free_indices,
    walk,
)
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

_MIN_CHANNELS = 32  # arithmetic per product that outweighs its store and load (heuristic)
_MAX_TERMS = 1.5  # of the GEMM for each term of the statement: taps at the edges are computed, too (heuristic)
_MIN_TERMS = 1 << 21  # below, the second launch costs more than it saves (heuristic)
_MAX_WRITTEN_OUT = 16  # terms of a sum (heuristic)


def with_stored_products(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The statement that stores the products and the one that adds them; None where no family that `is_taken` asks
    takes the first, or it doesn't pay off."""
    reduction = _reduction(single)
    reads = () if reduction is None else factors_of_product(reduction.body, reduction.dtype)
    if reduction is None or len(reads) != 2 or single.schedule != Schedule():
        return None
    x, w = reads if _is_divided(reads[0]) else reads[::-1]
    if not _is_divided(x) or _is_divided(w) or x.exact or w.exact or w.boundary is not None:
        return None
    if x.boundary is not None and x.boundary.mode != "zero":
        return None
    channels = tuple(index for index in reduction.indices if _is_channel(index, reduction, reads))
    taps = tuple(index for index in reduction.indices if index not in channels)
    if not channels:
        return None
    statement, spec = single.statement, single.context.spec
    taken = taken_names(spec, (*statement.indices, *reduction.indices))
    known = {index.name: index for index in (*statement.indices, *channels)}
    dimensions = {read: tuple(_dimensions(read, known, single, taken)) for read in reads}
    factors: dict[Expr, Expr] = {
        read: replace(read, subscripts=tuple(IndexValue(i.name) for i, _ in dimensions[read]), boundary=None)
        for read in reads
    }
    products = replace(reduction, body=replaced(reduction.body, factors.get), indices=channels, where=None)
    subscripts = {index: sub for read in reads for index, sub in dimensions[read] if index not in channels}
    indices = tuple(sorted(subscripts, key=_order(single, x, w)))
    if not _is_profitable(single, reduction, products, indices):
        return None
    name = fresh(f"{statement.target}_products", taken)
    what = f"the products over {', '.join(i.name for i in channels)} of: {statement.text}"
    stored = temporary(name, indices, products, what, statement, is_stored=True)
    body = replace(stored.read, subscripts=tuple(subscripts[index] for index in indices), boundary=x.boundary)
    total: dict[Expr, Expr] = {reduction: _written_out(replace(reduction, body=body, indices=taps), single)}
    steps = steps_of((stored,), replace(statement, value=replaced(statement.value, total.get)))
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    request = replace(single, statement=stored.statement, context=context).request()
    return replace(steps, opens_last=True) if is_taken(request) else None


def _reduction(single: Single) -> Reduce | None:
    """The only loop of a statement, if it is a sum that doesn't read the statement's results or gathered elements."""
    loops = {node: None for node in walk(single.statement.value) if isinstance(node, Reduce | Scan)}
    reduction = next(iter(loops), None)
    if len(loops) != 1 or not isinstance(reduction, Reduce) or reduction.kind != "sum":
        return None
    reads = [node for node in walk(reduction) if isinstance(node, Read)]
    is_gathered = any(isinstance(node, Read) for read in reads for sub in read.subscripts for node in walk(sub))
    return None if is_gathered or any(read.array == single.statement.target for read in reads) else reduction


def _written_out(total: Reduce, single: Single) -> Expr:
    """A short sum as additions, which families without loops take."""
    extents = [single.context.static_extent(index) for index in total.indices]
    counts = [extent for extent in extents if extent is not None]
    if len(counts) < len(extents) or not 0 < prod(counts) <= _MAX_WRITTEN_OUT:
        return total
    result: Expr | None = None
    for values in product(*map(range, counts)):
        taps = {index.name: Const(value, INT64) for index, value in zip(total.indices, values, strict=True)}
        term = substitute(total.body, taps)
        if total.where is not None:
            term = Select(substitute(total.where, taps), term, Const(0, total.dtype), total.dtype)
        result = term if result is None else Op("add", (result, term), total.dtype)
    return result or total


def _is_divided(read: Read) -> bool:
    """Whether a subscript has a quotient, as those of the inputs of a transposed convolution."""
    return any(isinstance(node, Op) and node.name == "floordiv" for sub in read.subscripts for node in walk(sub))


def _is_channel(index: Index, reduction: Reduce, reads: Iterable[Read]) -> bool:
    """Whether an index is one bare subscript of both reads, and in nothing else."""
    for read in reads:
        used = [sub for sub in read.subscripts if index.name in free_indices(sub)]
        if used != [IndexValue(index.name)]:
            return False
    return reduction.where is None or index.name not in free_indices(reduction.where)


def _dimensions(
    read: Read, known: Mapping[str, Index], single: Single, taken: set[str]
) -> Iterator[tuple[Index, Expr]]:
    """An index for each dimension of a read, and what the statement reads there."""
    shape = single.context.spec.array(read.array).shape
    for dimension, (sub, extent) in enumerate(zip(read.subscripts, shape, strict=True)):
        if isinstance(sub, IndexValue) and sub.name in known:
            yield known[sub.name], sub
        else:
            yield Index(fresh(f"{read.array}_{dimension}", taken), extent), sub


def _order(single: Single, x: Read, w: Read) -> Callable[[Index], int]:
    """The order of the dimensions of the products: the output's own, then those of the inputs and the weights, of which
    the last have the output's contiguous index."""
    statement, array = single.statement, single.context.arrays[single.statement.target]
    pairs = zip(statement.subscripts, array.strides, strict=True)
    contiguous = next((sub for sub, stride in pairs if stride == 1), None)
    outer = [sub for sub in x.subscripts if isinstance(sub, IndexValue)]
    of_weights = [sub for sub in w.subscripts if isinstance(sub, IndexValue)]

    def group(index: Index) -> int:
        if IndexValue(index.name) in outer:
            return 0
        is_weight = IndexValue(index.name) in of_weights or index.name.startswith(f"{w.array}_")
        return 2 if is_weight == (contiguous in of_weights) else 1

    return group


def _is_profitable(single: Single, reduction: Reduce, products: Reduce, indices: tuple[Index, ...]) -> bool:
    """Whether arithmetic outweighs the traffic of the products, whose number is known and allowed, at least that of
    typical sizes."""
    context = single.context
    extents = [context.typical_extent(index) for index in (*indices, *products.indices)]
    if None in extents:
        return False
    channels = prod(map(context.planned_extent, products.indices))
    count = prod(map(context.planned_extent, indices))
    terms = prod(map(context.planned_extent, (*single.statement.indices, *reduction.indices)))
    return (
        channels >= _MIN_CHANNELS
        and terms >= _MIN_TERMS
        and count * channels <= _MAX_TERMS * terms
        and count * products.dtype.bytes <= MAX_TEMPORARY_BYTES
    )
