"""Views of arrays with rows in groups, where subscripts are a group and an output index that counts its rows.

    y[r, j] = sum(x[4 * g + r, j], g)       x: [M, N], r < 4
becomes
    y[r, j] = sum(x[g, r, j], g)            x as [M // 4, 4, N]
with the same elements at the same places: r and j may be fused, and vectors go on from one row to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import lru_cache

from cugen.plan.context import Context
from cugen.plan.memory import Array
from cugen.plan.symbols import FloorDiv, integer
from cugen.rewrite.fuse_dimensions import (
    FusedStatements,
    fused,
    joined_name,
    linearised,
    subscripted,
    with_fused_dimensions,
)
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, free_indices, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


def group_of_rows(group: Expr, row: str, rows: int) -> Expr:
    """The subscript of a row in its group, of so many each."""
    return Op("add", (Op("mul", (group, Const(rows, INT64)), INT64), IndexValue(row)), INT64)


@lru_cache(maxsize=16)
def with_fused_row_groups(statements: tuple[Statement, ...], context: Context) -> FusedStatements:
    """As `with_fused_dimensions`, with rows in groups."""
    current = linearised(statements, context)
    views = _with_row_groups(current, context)
    return with_fused_dimensions(statements, context) if views is current else fused(views, context, joined_name)


def _with_row_groups(current: FusedStatements, context: Context) -> FusedStatements:
    """The statements with views of all arrays of which one dimension's subscripts are each `group_of_rows`, but for
    those that conditions or boundaries keep inside."""
    outputs = {index.name: context.static_extent(index) for index in current.statements[0].indices}
    nodes = [node for statement in current.statements for node in walk(statement.value)]
    tested = {name for node in nodes if isinstance(node, Reduce) and node.where for name in free_indices(node.where)}
    dimensions: dict[str, set[tuple[int, int] | None]] = {}
    for name, subscripts in subscripted(current.statements):
        here = {(d, rows) for d, sub in enumerate(subscripts) if (rows := _row_of(sub, outputs, tested))}
        dimensions.setdefault(name, set()).update(here or {None})
    for read in (node for node in nodes if isinstance(node, Read)):
        if read.boundary is not None or read.exact:
            dimensions[read.array].add(None)
    views: dict[str, tuple[int, int]] = {}
    for name, groups in dimensions.items():
        (group, *others), array = groups, current.arrays[name]
        if group is not None and not others and array.flat and array.texture_2d is None:
            views[name] = group

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.array not in views:
            return None
        return replace(node, subscripts=split(node.array, tuple(replaced(sub, change) for sub in node.subscripts)))

    def split(name: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if name not in views:
            return subscripts
        dimension, _ = views[name]
        match subscripts[dimension]:
            case Op(args=(Op(args=(group, _)), row)):
                return (*subscripts[:dimension], group, row, *subscripts[dimension + 1 :])
        return subscripts

    if not views:
        return current
    statements = tuple(
        replace(s, subscripts=split(s.target, s.subscripts), value=replaced(s.value, change))
        for s in current.statements
    )
    arrays = {name: _view(current.arrays[name], *group) for name, group in views.items()}
    return replace(current, statements=statements, arrays={**current.arrays, **arrays})


def _row_of(sub: Expr, outputs: Mapping[str, int | None], tested: Set[str]) -> int | None:
    """The number of rows in a group, if a subscript is that of one of its rows."""
    match sub:
        case Op(name="add", args=(Op(name="mul", args=(group, Const(value=int(rows)))), IndexValue(name=row))):
            is_whole = outputs.get(row) == rows and row not in free_indices(group) | tested
            return rows if is_whole else None
    return None


def _view(array: Array, dimension: int, rows: int) -> Array:
    extent, stride = array.shape[dimension], array.strides[dimension]
    shape = (*array.shape[:dimension], FloorDiv(extent, integer(rows)), integer(rows), *array.shape[dimension + 1 :])
    strides = (*array.strides[:dimension], rows * stride, stride, *array.strides[dimension + 1 :])
    return replace(array, shape=shape, strides=strides)
