"""Stores operands of a contraction as matrices, so that a GEMM-like family can take the contraction.

    y[i, j] = sum((x[n, i] - mean[i]) * exp(z[n, j]), n)
becomes
    x_operand[n, i] = x[n, i] - mean[i];  z_operand[n, j] = exp(z[n, j])
    y[i, j] = sum(x_operand[n, i] * z_operand[n, j], n)
An operand is the product of all factors along M or along N. A matrix in memory is left there. A read that isn't one,
as in a convolution, is laid out by im2col:
    y[h, w, o] = sum(x[h + r - 1, w + s - 1, c] * f[r, s, c, o], r, s, c)
becomes
    x_unfolded[h, w, r, s, c] = x[h + r - 1, w + s - 1, c]
    y[h, w, o] = sum(x_unfolded[h, w, r, s, c] * f[r, s, c, o], r, s, c)
whose r, s, c are dense in both operands and are fused into one K dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from itertools import combinations
from math import inf, prod

from cugen.plan.context import Context
from cugen.plan.request import Request, Single, Steps
from cugen.plan.subscripts import type_range
from cugen.plan.symbols import bounds
from cugen.plan.traversal.vanishing import vanishes
from cugen.rewrite.canonical.held_types import held_type
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.rewrite.temporaries import (
    MAX_OPERAND_BYTES,
    MIN_MULTIPLY_ADDS,
    Temporary,
    last_request,
    steps_of,
    temporary,
)
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, Scan, Select, free_indices, walk
from cugen.spec.model import Schedule, Statement
from cugen.spec.rewriting import converted, replaced
from cugen.spec.types import FLOAT16, INT8, INT16, UINT8, UINT16, DType

_NARROW_BITS = 8
_MIN_K = 8  # arithmetic per element of the temporary that outweighs its store and loads (heuristic)
_MIN_N = 16  # the same, along the output dimensions that the stored operand doesn't have


def with_stored_operands(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The statements that store operands and the contraction over them; None where the original `is_taken` by a family
    other than `direct`, or the contraction is not."""
    reduction = _reduction(single)
    operands = None if reduction is None or single.schedule != Schedule() else operands_of(single, reduction)
    if reduction is None or operands is None:
        return None
    stored = _stored(single, reduction, operands)
    if not stored or is_taken(single.request()):
        return None
    # A family may take windows as they are read, and need only functions of elements in memory.
    functions: dict[Expr, tuple[Index, ...]] = {}
    functions |= {value: indices for value, indices in stored.items() if not isinstance(value, Read)}
    for chosen in (functions, stored) if 0 < len(functions) < len(stored) else (stored,):
        steps = _steps(single, reduction, operands, chosen)
        if is_taken(last_request(single, steps)):
            return steps
    return None


def _steps(
    single: Single, reduction: Reduce, operands: tuple[Expr, Expr], stored: Mapping[Expr, tuple[Index, ...]]
) -> Steps:
    """The statements that store some values, and the contraction that reads them."""
    statement, spec = single.statement, single.context.spec
    matrices: list[Temporary] = []
    reads: dict[Expr, Expr] = {}
    indices = {index.name: index for index in _indices(statement, reduction)}
    taken = taken_names(spec, indices.values())
    for value, dimensions in stored.items():
        # Both factors of `x[n, i] * x[n, j]` are one matrix.
        shared = next(filter(None, (matrix.read_of(value, indices) for matrix in matrices)), None)
        if shared is None:
            matrices.append(_matrix(single, value, dimensions, taken))
        reads[value] = converted(shared or matrices[-1].read, value.dtype)
    a, b = (replaced(operand, reads.get) for operand in operands)
    product: dict[Expr, Expr] = {reduction: replace(reduction, body=Op("mul", (a, b), reduction.body.dtype))}
    return steps_of(matrices, replace(statement, value=replaced(statement.value, product.get)), splits_last=True)


def _reduction(single: Single) -> Reduce | None:
    """The only loop of a statement, if it is a sum whose operands may be computed before it."""
    statement = single.statement
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum":
        return None
    reads = [node for node in walk(reduction.body) if isinstance(node, Read)]
    if any(read.array == statement.target for read in reads):
        return None
    if reduction.where is not None or _is_conditional(statement.value, reduction):
        extents = {index.name: index for index in _indices(statement, reduction)}
        if not all(_is_in_bounds(read, extents, single.context) for read in reads):
            return None
    return reduction


def _indices(statement: Statement, reduction: Reduce) -> tuple[Index, ...]:
    return (*statement.indices, *reduction.indices)


def _is_conditional(expr: Expr, reduction: Reduce) -> bool:
    """Whether the reduction is evaluated under a condition, which may be what keeps its reads in bounds."""
    branches = (branch for node in walk(expr) if isinstance(node, Select) for branch in (node.then, node.orelse))
    return any(node == reduction for branch in branches for node in walk(branch))


def _is_in_bounds(read: Read, indices: Mapping[str, Index], context: Context) -> bool:
    """Whether the read is in bounds for all values of the indices."""
    if read.boundary is not None:
        return True
    for sub, extent in zip(read.subscripts, context.arrays[read.array].shape, strict=True):
        if not isinstance(sub, IndexValue) or sub.name not in indices:
            return False
        if bounds(extent - context.extent(indices[sub.name]), dict(context.ranges))[0] < 0:
            return False
    return True


def operands_of(single: Single, reduction: Reduce) -> tuple[Expr, Expr] | None:
    """The two operands whose product is summed: each depends on all contracted indices, and on an output index that
    the other doesn't depend on. Of several choices the one with the fewest elements."""
    factors = tuple(factors_of(reduction.body))
    k_names = {index.name for index in reduction.indices}
    sizes = {i.name: single.context.max_extent(i) for i in _indices(single.statement, reduction)}

    def size(operand: Iterable[Factor]) -> int:
        return prod(sizes[name] for name in frozenset[str]().union(*(factor.indices for factor in operand)))

    choices: list[tuple[list[Factor], list[Factor]]] = []
    for m, n in combinations((index.name for index in single.statement.indices), 2):
        a = [factor for factor in factors if m in factor.indices]
        b = [factor for factor in factors if n in factor.indices]
        if any(factor in b for factor in a) or not all(any(not f.is_divisor for f in operand) for operand in (a, b)):
            continue
        for factor in (factor for factor in factors if not {m, n} & factor.indices):
            # Where both grow as little, the operand that is stored anyway, then the smaller one.
            ranked = sorted((a, b), key=lambda o: (size([*o, factor]) - size(o), _is_matrix(product_of(o)), size(o)))
            ranked[0].append(factor)
        if all(k_names <= frozenset[str]().union(*(f.indices for f in operand)) for operand in (a, b)):
            choices.append((a, b))
    if not choices:
        return None
    a, b = min(choices, key=lambda operands: sum(map(size, operands)))
    return product_of(a), product_of(b)


def _reads(operand: Expr) -> tuple[Read, ...]:
    return tuple(dict.fromkeys(node for node in walk(operand) if isinstance(node, Read)))


def _is_plain(read: Read) -> bool:
    """Whether the subscripts are distinct bare indices, without a boundary."""
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    return read.boundary is None and not read.exact and len(set(names)) == len(read.subscripts)


def _is_matrix(operand: Expr) -> bool:
    """Whether a contraction can take the operand as it is: a matrix, up to a function that keeps zeros."""
    return vanishes(operand) and len(reads := _reads(operand)) == 1 and _is_plain(reads[0])


def _stored(single: Single, reduction: Reduce, operands: tuple[Expr, Expr]) -> dict[Expr, tuple[Index, ...]]:
    """The values to be stored and their dimensions; none where it doesn't pay off."""
    statement, k_names = single.statement, {index.name for index in reduction.indices}
    stored = [operand for operand in operands if not _is_matrix(operand)]
    if not stored and len(k_names) > 1:
        # Their dimensions of K, or of M or N, are apart, or those of K in different orders.
        a, b = (free_indices(operand) for operand in operands)
        stored = [
            operand
            for operand, names in zip(operands, (a - b, b - a), strict=True)
            if not (_are_adjacent(_reads(operand)[0], k_names) and _are_adjacent(_reads(operand)[0], names))
        ]
        stored = stored or [min(operands, key=lambda operand: len(free_indices(operand)))]
    kept = [operand for operand in operands if operand not in stored]
    k_reads = (r for o in (*kept, *operands) for r in _reads(o) if _is_plain(r) and k_names <= free_indices(r))
    order = [sub.name for read in k_reads for sub in read.subscripts if isinstance(sub, IndexValue)]
    k_indices = tuple(sorted(reduction.indices, key=lambda index: order.index(index.name) if order else 0))
    if stored:
        stored += [operand for operand in kept if not _are_adjacent(_reads(operand)[0], k_names)]
    dimensions: dict[Expr, tuple[Index, ...]] = {}
    for operand in stored:
        (partner,) = (o for o in operands if o is not operand)
        reads = _reads(operand)
        # A function of one array is left to the contraction: the array's type may be narrower.
        value = reads[0] if vanishes(operand) and len(reads) == 1 else operand
        is_narrow = _stored_type(value, single).bits <= _NARROW_BITS
        indices = _matrix_indices(statement, k_indices, operand, partner, k_last=is_narrow)
        if not _is_profitable(single, reduction, value, indices):
            return {}
        dimensions[value] = indices
    return dimensions


def _are_adjacent(read: Read, names: Set[str]) -> bool:
    """Whether indices subscript adjacent dimensions of an operand."""
    dimensions = [d for d, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue) and sub.name in names]
    return dimensions == list(range(dimensions[0], dimensions[0] + len(dimensions)))


def _matrix_indices(
    statement: Statement, k_indices: tuple[Index, ...], operand: Expr, partner: Expr, *, k_last: bool
) -> tuple[Index, ...]:
    """The dimensions of the temporary. They have the order of an array that the operand reads, if the indices that are
    fused into M and K are adjacent and in order there. Else M, then the contracted indices, then the output's trailing
    dimensions, those after the last one that only `partner` has; with `k_last`, as all instructions take bytes, the
    contracted indices after these."""
    names, k_names = free_indices(operand), {index.name for index in k_indices}
    m_names = names - free_indices(partner)
    indices = {index.name: index for index in (*statement.indices, *k_indices) if index.name in names}
    for read in _reads(operand):
        order = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
        if not _is_plain(read) or set(order) != names or sorted(order, key=k_names.__contains__) != list(indices):
            continue
        if _are_adjacent(read, k_names) and _are_adjacent(read, m_names):
            return tuple(indices[name] for name in order)
    last = max((n for n, index in enumerate(statement.indices) if index.name not in names), default=-1)
    leading = [index for index in statement.indices[: last + 1] if index.name in names]
    trailing = [index for index in statement.indices[last + 1 :] if index.name in names]
    return (*leading, *trailing, *k_indices) if k_last else (*leading, *k_indices, *trailing)


def _is_profitable(single: Single, reduction: Reduce, value: Expr, indices: tuple[Index, ...]) -> bool:
    """Whether arithmetic outweighs the temporary's traffic and its size is allowed; dynamic extents count as long."""
    context = single.context
    extents = {index.name: context.static_extent(index) for index in _indices(single.statement, reduction)}

    def size(names: Iterable[str], unknown: float) -> float:
        """The product of the extents, with `unknown` for dynamic ones."""
        return prod(extent if (extent := extents[name]) is not None else unknown for name in names)

    n_names = [index.name for index in single.statement.indices if index.name not in free_indices(value)]
    return (
        size(extents, inf) >= MIN_MULTIPLY_ADDS
        and size((index.name for index in reduction.indices), inf) >= _MIN_K
        and size(n_names, inf) >= _MIN_N
        and size((index.name for index in indices), 1) * _stored_type(value, single).bytes <= MAX_OPERAND_BYTES
    )


def _matrix(single: Single, value: Expr, indices: tuple[Index, ...], taken: set[str]) -> Temporary:
    """A value as a dense array over `indices`."""
    statement, reads = single.statement, _reads(value)
    array = reads[0].array if reads else statement.target
    name = fresh(f"{array}_unfolded" if isinstance(value, Read) else f"{array}_operand", taken)
    what = f"{array} as it is read by: {statement.text}" if reads else f"operand of: {statement.text}"
    matrix = temporary(name, indices, value, what, statement, is_stored=True)
    dtype = _stored_type(value, single)
    return replace(matrix, array=replace(matrix.array, dtype=dtype), read=replace(matrix.read, dtype=dtype.compute))


def _stored_type(value: Expr, single: Single) -> DType:
    return _chosen_type(value, single) or _wide_type(held_type(value, single.context.arrays)) or _narrowest_type(value)


def _wide_type(narrow: DType | None) -> DType | None:
    """The type of 16 bits that holds one of floats: those of 8 bits have products that round otherwise."""
    return FLOAT16 if narrow is not None and narrow.bits <= _NARROW_BITS else narrow


def _chosen_type(value: Expr, single: Single) -> DType | None:
    """The type of the array whose elements, or zeros, a value is, as those of a triangular matrix; None for others."""
    match value:
        case Read(array=array):
            return single.context.spec.array(array).dtype
        case Select(then=then, orelse=Const(value=0)) | Select(then=Const(value=0), orelse=then):
            return _chosen_type(then, single)
    return None


def _narrowest_type(value: Expr) -> DType:
    """The first type that holds all values of an expression of integers, as int8 those of a byte less 128."""
    if not value.dtype.is_integer:
        return value.dtype
    low, high = type_range(value)
    types = (dtype for dtype in (INT8, UINT8, INT16, UINT16) if dtype.bits < value.dtype.bits)
    return next((dtype for dtype in types if dtype.lowest <= low and high <= dtype.highest), value.dtype)
