"""Reductions of the one term at an index that an element holds are gathers.

    e[b, d] = sum(w[v, d], v, where=t[b] == v)
becomes
    e[b, d] = w[t[b], d] if 0 <= t[b] < V else 0
and of integers sum(w[v, d] * (t[b] == v), v) too. Of floats, a factor of 0 leaves a NaN of infinite elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from cugen.plan.lowering.reductions import identity
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.canonical.conditions import both
from cugen.rewrite.dense_indices import index_values
from cugen.rewrite.schedules import schedule_of
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Sample,
    Select,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Schedule, Spec
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.types import BOOL, INT32, INT64

_KINDS = ("sum", "prod", "max", "min", "any", "all")


def with_chosen_elements(spec: Spec) -> Spec:
    """The spec with gathers in place of these reductions, unless the spec says where arrays are or how a statement is
    computed; the same object if there are none."""
    placed = {array.name for array in spec.arrays if array.memory.space is not None}
    statements = tuple(
        replace(s, value=_with_gathers(s.value, placed)) if schedule_of(spec, (s,)) == Schedule() else s
        for s in spec.statements
    )
    return spec if statements == spec.statements else replace(spec, statements=statements)


def _with_gathers(expr: Expr, placed: set[str]) -> Expr:
    expr = rebuild(expr, lambda part: _with_gathers(part, placed))
    return _gather(expr, placed) if isinstance(expr, Reduce) else expr


def _gather(reduction: Reduce, placed: set[str]) -> Expr:
    """The one term of a reduction, or its identity; the reduction where it may have several."""
    if reduction.kind not in _KINDS or len(reduction.indices) != 1:
        return reduction
    (index,) = reduction.indices
    body, masks = _without_masks(reduction, index)
    conditions = (*conjuncts(reduction.where), *masks)
    position = next(filter(None, (_position(condition, index, placed) for condition in conditions)), None)
    others = [condition for condition in conditions if _position(condition, index, placed) != position]
    if position is None or not all(_is_gatherable(part, index, placed) for part in (body, *others)):
        return reduction
    at_position: dict[str, Expr] = {index.name: position}
    inside: list[Expr] = [
        Op("le", (Const(0, position.dtype), position), BOOL),
        Op("lt", (converted(position, INT64), index.extent), BOOL),
    ]
    condition = reduce(both, [*inside, *(substitute(second, at_position) for second in others)], None)
    assert condition is not None
    term = converted(substitute(body, at_position), reduction.dtype)
    start = identity(reduction.kind, reduction.dtype)
    if reduction.kind == "sum" and reduction.dtype.is_float:
        term = Op("add", (term, start), reduction.dtype)  # 0.0 of -0.0, as a sum that begins at 0.0
    return Select(condition, term, start, reduction.dtype, reduction.span)


def _without_masks(reduction: Reduce, index: Index) -> tuple[Expr, Sequence[Expr]]:
    """The body of a sum of integers without a factor that is 1 where an element is the index, else 0, and that mask."""
    product = reduction.body
    if reduction.kind == "sum" and reduction.dtype.is_integer and isinstance(product, Op) and product.name == "mul":
        for x, mask in (product.args, product.args[::-1]):
            if isinstance(mask, Cast) and _position(mask.arg, index, set()) is not None:
                return x, (mask.arg,)
    return reduction.body, ()


def _position(condition: Expr, index: Index, placed: set[str]) -> Read | None:
    """The element that a condition equates with an index."""
    match condition:
        case Op(name="eq", args=(element, IndexValue(name=index.name))):
            pass
        case Op(name="eq", args=(IndexValue(name=index.name), element)):
            pass
        case _:
            return None
    if isinstance(element, Cast) and element.to == INT64 and element.arg.dtype == INT32:
        element = element.arg
    if not isinstance(element, Read) or element.dtype not in (INT32, INT64) or element.array in placed:
        return None
    is_plain = element.boundary is None and not element.exact and index.name not in free_indices(element)
    return element if is_plain else None


def _is_gatherable(expr: Expr, index: Index, placed: set[str]) -> bool:
    """Whether an expression uses an index as a whole subscript of elements in global memory alone."""
    if index.name in index_values(expr):
        return False
    for node in walk(expr):
        if isinstance(node, Sample | Reduce):
            return False
        if isinstance(node, Read) and index.name in free_indices(node):
            names = [sub for sub in node.subscripts if index.name in free_indices(sub)]
            is_whole = all(sub == IndexValue(index.name) for sub in names)
            if not is_whole or node.boundary is not None or node.exact or node.array in placed:
                return False
    return True
