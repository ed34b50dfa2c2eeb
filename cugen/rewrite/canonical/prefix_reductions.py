"""Reductions under a condition that only bounds their index by one of the results are scans.

    y[i, j] = sum(x[i, k], k, where=k <= j)
becomes
    y[i, j] = cumsum(x[i, j], j)
with `reverse` for k >= j and `exclusive` for k < j: each element is read once in place of once for each j.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    Op,
    Reduce,
    Scan,
    conjunction,
    conjuncts,
    free_indices,
    outermost_reductions,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.rewriting import replaced

MIN_EXTENT = 32  # of the index; threads repeat shorter reductions in registers (heuristic)
_KINDS = ("sum", "prod", "max", "min")


def with_prefix_reductions(statement: Statement, spec: Spec) -> Statement:
    """The statement with scans in place of its reductions that are in no other and that scans compute; the same object
    if there are none."""
    results = {sub.name for sub in statement.subscripts if isinstance(sub, IndexValue)}
    known = {index.name: index for index in statement.indices if index.name in results}
    scans: dict[Expr, Expr] = {}
    for reduction in outermost_reductions(statement.value):
        if (scan := _scan(reduction, known, spec)) is not None:
            scans[reduction] = scan
    return replace(statement, value=replaced(statement.value, scans.get)) if scans else statement


def _scan(reduction: Reduce, results: Mapping[str, Index], spec: Spec) -> Scan | None:
    """The scan of a reduction over one index; None where more than one condition depends on the result's index."""
    if reduction.kind not in _KINDS or len(reduction.indices) != 1:
        return None
    (inner,) = reduction.indices
    params = {param.name: param for param in spec.params}
    extent = affine_form(inner.extent, params)
    if extent.is_constant and extent.constant < MIN_EXTENT:
        return None
    for condition in conjuncts(reduction.where):
        for name in free_indices(condition) & results.keys():
            others = [part for part in conjuncts(reduction.where) if part != condition]
            shared = any(name in free_indices(part) for part in (reduction.body, *others))
            direction = _direction(condition, inner.name, name, spec)
            if shared or direction is None or affine_form(results[name].extent, params) != extent:
                continue
            is_reverse, is_exclusive = direction
            kind, body, where = reduction.kind, reduction.body, conjunction(others)
            return Scan(kind, body, inner, name, reduction.dtype, is_exclusive, is_reverse, where)
    return None


def _direction(condition: Expr, inner: str, outer: str, spec: Spec) -> tuple[bool, bool] | None:
    """Whether a condition keeps the elements from the outer index on, and whether without its own; None for others."""
    if not isinstance(condition, Op) or condition.name not in ("le", "lt", "ge", "gt"):
        return None
    params = {param.name: param for param in spec.params}
    left, right = (affine_form(arg, params) for arg in condition.args)
    inner_form, outer_form = (affine_form(IndexValue(name), params) for name in (inner, outer))
    is_at_least = condition.name in ("ge", "gt")
    strict = condition.name in ("lt", "gt")
    distance = left - right
    for sign in (1, -1):
        offset = distance - (inner_form - outer_form).scaled(sign)
        if not offset.is_constant:
            continue
        # sign * (inner - outer) + offset is at least or at most 0.
        is_reverse = is_at_least == (sign == 1)
        margin = (-offset.constant if is_at_least else offset.constant) + strict
        return (is_reverse, margin == 1) if margin in (0, 1) else None
    return None
