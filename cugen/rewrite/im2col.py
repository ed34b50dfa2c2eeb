"""im2col: lays out an operand of a contraction as a matrix, so that a GEMM-like family can take the contraction.

    y[h, w, o] = sum(x[h + r - 1, w + s - 1, c] * f[r, s, c, o], r, s, c)
becomes
    x_unfolded[h, w, r, s, c] = x[h + r - 1, w + s - 1, c]
    y[h, w, o] = sum(x_unfolded[h, w, r, s, c] * f[r, s, c, o], r, s, c)
whose r, s, c are dense in both operands and are fused into one K dimension.
"""

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

_MIN_MULTIPLY_ADDS = 1 << 21  # below, the second launch costs more than it saves (heuristic)
_MIN_K = 32  # arithmetic per element of the temporary that outweighs its store and loads (heuristic)
_MIN_N = 16  # the same, along the output dimensions that the laid-out operand doesn't have
_MAX_TEMPORARY_BYTES = 1 << 29


def im2col(single: Single) -> Steps | None:
    """The layout statements and the contraction over them; None unless only `direct` would take the original."""
    if single.schedule != Schedule():
        return None
    operands = _operands(single.statement)
    if operands is None:
        return None
    reduction, image, weights = operands
    indices = _matrix_indices(single.statement, reduction, image, weights)
    if not _is_profitable(single, reduction, image, indices) or _is_taken(single, single.statement):
        return None
    layouts = [(image, indices)]
    if not _is_k_contiguous(reduction, weights):
        k_indices = [index for index in indices if index in reduction.indices]
        n_indices = [index for index in single.statement.indices if index.name in free_indices(weights)]
        layouts.append((weights, (*n_indices, *k_indices)))
    taken = {array.name for array in single.context.spec.arrays} | {index.name for index in indices}
    layout_statements: list[Statement] = []
    arrays: list[Array] = []
    matrices: dict[Read, Read] = {}
    for read, order in layouts:
        layout, array = _layout(single, read, order, taken)
        layout_statements.append(layout)
        arrays.append(array)
        matrices[read] = Read(array.name, layout.subscripts, read.dtype)

    def with_matrix(node: Expr) -> Expr | None:
        return matrices.get(node) if isinstance(node, Read) else None

    contraction = replace(single.statement, value=rebuilt(single.statement.value, with_matrix))
    names = tuple(array.name for array in arrays)
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *arrays)))
    if not _is_taken(replace(single, context=context), contraction, names):
        return None
    return Steps((*layout_statements, contraction), tuple(arrays), open=names)


def _layout(single: Single, read: Read, indices: tuple[Index, ...], taken: set[str]) -> tuple[Statement, Array]:
    """The statement that stores a read's values as a dense array over `indices`, and that temporary."""
    name = f"{read.array}_unfolded"
    while name in taken:
        name += "_"
    taken.add(name)
    subscripts = tuple(IndexValue(index.name) for index in indices)
    shape = tuple(index.extent for index in indices)
    strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
    dtype = single.context.spec.array(read.array).dtype
    scratch = Memory("scratch")  # else it would be recomputed where it is read, being cheap
    array = Array(name, shape, dtype, "temporary", strides, memory=scratch, is_temporary=True)
    statement = single.statement
    text = f"{name}[{', '.join(index.name for index in indices)}] = {read.array} as it is read by: {statement.text}"
    return Statement(name, subscripts, indices, read, text=text, span=statement.span), array


def _is_k_contiguous(reduction: Reduce, read: Read) -> bool:
    """Whether the contracted indices subscript adjacent dimensions of an operand."""
    k_names = {index.name for index in reduction.indices}
    dimensions = [d for d, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue) and sub.name in k_names]
    return dimensions == list(range(dimensions[0], dimensions[0] + len(dimensions)))


def _operands(statement: Statement) -> tuple[Reduce, Read, Read] | None:
    """The contraction of a statement, its operand to be laid out (`image`), and its other operand (`weights`)."""
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce):
        return None
    reads = tuple(dict.fromkeys(node for node in walk(reduction.body) if isinstance(node, Read)))
    k_names = {index.name for index in reduction.indices}
    if reduction.kind != "sum" or reduction.where is not None or len(k_names) < 2 or len(reads) != 2:
        return None
    if any(node in reads for node in _outside(statement.value, reduction)):
        return None
    for read in reads:
        if not k_names <= free_indices(read) or read.array == statement.target:
            return None
        if any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            return None
    compound = [read for read in reads if not _is_plain(read)]
    if len(compound) > 1:
        return None
    image = compound[0] if compound else min(reads, key=lambda read: len(free_indices(read)))
    (weights,) = (read for read in reads if read != image)
    return reduction, image, weights


def _outside(expr: Expr, reduction: Reduce) -> Iterator[Expr]:
    """The nodes of an expression outside a reduction."""
    inside = {id(node) for node in walk(reduction)}
    return (node for node in walk(expr) if id(node) not in inside)


def _is_plain(read: Read) -> bool:
    """Whether the subscripts are distinct bare indices, without a boundary."""
    names = [sub.name for sub in read.subscripts if isinstance(sub, IndexValue)]
    return read.boundary is None and not read.exact and len(set(names)) == len(read.subscripts)


def _matrix_indices(statement: Statement, reduction: Reduce, image: Read, weights: Read) -> tuple[Index, ...]:
    """The dimensions of the temporary: M, then the contracted indices in the order of `weights`, then the output's
    trailing dimensions, those after the last one that only `weights` has."""
    names = [sub.name for sub in weights.subscripts if isinstance(sub, IndexValue)]
    k_indices = sorted(reduction.indices, key=lambda index: names.index(index.name))
    image_names = free_indices(image)
    n_positions = [n for n, index in enumerate(statement.indices) if index.name not in image_names]
    last = max(n_positions, default=-1)
    leading = [index for index in statement.indices[: last + 1] if index.name in image_names]
    trailing = [index for index in statement.indices[last + 1 :] if index.name in image_names]
    return (*leading, *k_indices, *trailing)


def _is_profitable(single: Single, reduction: Reduce, image: Read, indices: tuple[Index, ...]) -> bool:
    """Whether the arithmetic outweighs the traffic of the temporary, and its size is below the limit."""
    context = single.context
    extents = {
        index.name: context.static(to_integer(index.extent, context.symbols))
        for index in (*single.statement.indices, *reduction.indices)
    }
    known = {name: extent for name, extent in extents.items() if extent is not None}
    if len(known) < len(extents):
        return False
    k = prod(known[index.name] for index in reduction.indices)
    n = prod(known[index.name] for index in single.statement.indices if index.name not in free_indices(image))
    temporary_bytes = prod(known[index.name] for index in indices) * context.arrays[image.array].dtype.bytes
    return (
        prod(known.values()) >= _MIN_MULTIPLY_ADDS
        and k >= _MIN_K
        and n >= _MIN_N
        and temporary_bytes <= _MAX_TEMPORARY_BYTES
    )


def _is_taken(single: Single, statement: Statement, stored: tuple[str, ...] = ()) -> bool:
    """Whether some family other than `direct` takes the statement."""
    request = Request("", Group((statement,)), single.context, single.schedule, single.target, stored)
    return single.is_matched(request)
