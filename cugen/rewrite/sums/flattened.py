"""Sums of sums as one sum: `sum(a[i] * sum(b[i, j], j), i)` is `sum(a[i] * b[i, j], i, j)`."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.spec.expressions import IndexValue, Reduce, free_indices


def flattened(reduction: Reduce, names: Set[str]) -> Reduce:
    """The sum with the terms of a sum that is a factor of its own, over indices of other names than `names` and its
    own; itself where no factor, or several, are unconditional sums in its type."""
    factors = list(factors_of(reduction.body))
    nested = [factor for factor in factors if not factor.is_divisor and isinstance(factor.expr, Reduce)]
    if reduction.kind != "sum" or len(nested) != 1 or not isinstance(inner := nested[0].expr, Reduce):
        return reduction
    if inner.kind != "sum" or inner.where is not None or not inner.body.dtype == inner.dtype == reduction.dtype:
        return reduction
    inner = _renamed(inner, names | {index.name for index in reduction.indices})
    body = product_of([Factor(inner.body) if factor is nested[0] else factor for factor in factors])
    return flattened(replace(reduction, body=body, indices=(*reduction.indices, *inner.indices)), names)


def _renamed(inner: Reduce, names: Set[str]) -> Reduce:
    """The reduction over indices with none of these names."""
    taken = {*names, *(free_indices(inner.body) - {index.name for index in inner.indices})}
    indices = tuple(replace(index, name=fresh(index.name, taken)) for index in inner.indices)
    renames = {a.name: IndexValue(b.name) for a, b in zip(inner.indices, indices, strict=True)}
    return replace(inner, indices=indices, body=substitute(inner.body, renames))
