"""Output rows shorter than a tile: the fastest indices become one, over which the outputs are dense.

    y[k, j, i] = x[i, j, k]                 12 elements along i
becomes
    y[k, ji] = x[ji % 12, ji // 12, k]      rows of 12 * J elements
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.transpose.config import Transpose, choose_config
from cugen.plan.memory import Array
from cugen.plan.symbols import integer
from cugen.rewrite.dense_indices import index_values
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.fuse_dimensions import delinearised, fused_array, product, subscripted
from cugen.spec.expressions import Expr, Index, IndexValue, Read
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced

MIN_USED_FRACTION = 0.75  # of tiles by a row, below which rows are fused; heuristic


def with_fused_rows(transpose: Transpose) -> Transpose:
    """The transposition with the fewest indices fused that fill tiles; itself if rows do, or can't be fused."""
    best, used = transpose, _used_fraction(transpose)
    for run in _runs(transpose) if used < MIN_USED_FRACTION else ():
        candidate = _fused(transpose, run)
        if (of_candidate := _used_fraction(candidate)) > used:
            best, used = candidate, of_candidate
        if used >= MIN_USED_FRACTION:
            break
    return best


def _used_fraction(transpose: Transpose) -> float:
    """The elements of an output row, relative to those of the tiles across it."""
    step = choose_config(transpose).step
    length = max(transpose.request.context.max_extent(transpose.across), 1)
    return length / (step * math.ceil(length / step))


def _runs(transpose: Transpose) -> Iterator[tuple[Index, ...]]:
    """Indices, slowest first and `across` last, over which all targets are dense; the shortest run first."""
    context, statements = transpose.request.context, transpose.request.group.statements
    values = frozenset[str]().union(*(index_values(s.value) for s in statements))
    run: tuple[Index, ...] = (transpose.across,)
    while slower := _slower(transpose, run):
        run = (slower, *run)
        extents = [context.static_extent(index) for index in run[1:]]
        if None in extents or any(index.name in values for index in run):
            return
        yield run


def _slower(transpose: Transpose, run: tuple[Index, ...]) -> Index | None:
    """The index that continues a run, or None."""
    length = math.prod(transpose.request.context.extent(index) for index in run)
    for index in transpose.order[2:]:
        if all(_stride(transpose.arrays[s.target], s, index) == length for s in transpose.request.group.statements):
            return index
    return None


def _stride(array: Array, statement: Statement, index: Index) -> object:
    """The stride of a target along an index, None where it isn't dense."""
    dimensions = [d for d, sub in enumerate(statement.subscripts) if sub == IndexValue(index.name)]
    return array.strides[dimensions[0]].expand() if array.flat and len(dimensions) == 1 else None


def _fused(transpose: Transpose, run: tuple[Index, ...]) -> Transpose:
    request, names = transpose.request, [index.name for index in run]
    taken = {index.name for index in transpose.order} | request.context.symbols.keys()
    across = Index(fresh("".join(names), taken), product(tuple(index.extent for index in run)))
    coordinates = delinearised(IndexValue(across.name), tuple(index.extent for index in run))
    coordinate_of = dict(zip(names, coordinates, strict=True))
    dimensions = _fused_dimensions(transpose, tuple(map(IndexValue, names)))

    def subscripts(array: str, old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if array not in dimensions:
            return tuple(replaced(sub, change) for sub in old)
        *removed, last = dimensions[array]
        new = {d: sub for d, sub in enumerate(old) if d not in removed}
        new[last] = IndexValue(across.name)
        return tuple(new.values())

    def change(node: Expr) -> Expr | None:
        match node:
            case IndexValue(name=name):
                return coordinate_of.get(name, node)
            case Read():
                return replace(node, subscripts=subscripts(node.array, node.subscripts))
        return None

    statements = tuple(
        replace(
            s,
            indices=(*(index for index in s.indices if index not in run), across),
            subscripts=subscripts(s.target, s.subscripts),
            value=replaced(s.value, change),
        )
        for s in request.group.statements
    )
    reads = (replaced(read, change) for read in transpose.reads)
    return Transpose(
        request.with_statements(statements),
        {**transpose.arrays, **{name: fused_array(transpose.arrays[name], d) for name, d in dimensions.items()}},
        across,
        transpose.down,
        (across, transpose.down, *(index for index in transpose.order[2:] if index not in run)),
        tuple(read for read in reads if isinstance(read, Read)),
    )


def _fused_dimensions(transpose: Transpose, run: tuple[IndexValue, ...]) -> dict[str, tuple[int, ...]]:
    """The dimensions of the run's indices in each array that is dense over them in all of its accesses."""
    dimensions: dict[str, set[tuple[int, ...]]] = {}
    for name, subscripts in subscripted(transpose.request.group.statements):
        dimensions.setdefault(name, set()).add(_dense_dimensions(transpose.arrays[name], subscripts, run))
    return {name: runs.pop() for name, runs in dimensions.items() if len(runs) == 1 and () not in runs}


def _dense_dimensions(array: Array, subscripts: tuple[Expr, ...], run: tuple[IndexValue, ...]) -> tuple[int, ...]:
    """The dimensions subscripted by the run's indices, if the array is dense over them; else none."""
    stride = integer(1)
    dimensions: list[int] = []
    for index in reversed(run):
        if subscripts.count(index) != 1 or not array.flat or array.texture_2d is not None:
            return ()
        dimensions.insert(0, subscripts.index(index))
        if (array.strides[dimensions[0]] - stride).expand() != 0:
            return ()
        stride = stride * array.shape[dimensions[0]]
    return tuple(dimensions)
