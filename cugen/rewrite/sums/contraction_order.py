"""Sums a product of several arrays in the order that takes the fewest multiply-adds, one group of indices at a time.

    y[m, n] = sum(a[m, k] * b[k, l] * c[l, n], k, l)
becomes
    y[m, n] = sum(sum(a[m, k] * b[k, l], k) * c[l, n], l)
and an index that few of the arrays have is summed over first:
    y[m] = sum(a[m, k] * b[l, k], k, l)
becomes
    y[m] = sum(a[m, k] * sum(b[l, k], l), k)
A sum has no more roundings then: K + L of them instead of K * L.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import prod

from cugen.plan.context import Context
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.spec.expressions import (
    Expr,
    Index,
    Reduce,
    Scan,
    bound_indices,
    free_indices,
    outermost_reductions,
    walk,
)
from cugen.spec.model import Statement
from cugen.spec.rewriting import replaced

_MIN_FACTORS = 2  # of which one may lack an index that is summed
_MAX_FACTORS = 6  # the orders of more are too many to try


@dataclass(frozen=True, slots=True)
class OrderedSums:
    """A statement with nested sums, and how many multiply-adds it takes, of those of the original."""

    statement: Statement
    multiply_adds: int
    original_multiply_adds: int


@dataclass(frozen=True, slots=True)
class _Order:
    """A sum, or nested ones of the same value, and its multiply-adds."""

    value: Reduce
    multiply_adds: int


def with_contraction_order(statement: Statement, context: Context) -> OrderedSums | None:
    """The statement with each sum of a product nested in the best order; None if no sum can be nested, or if the inner
    sums might be rounded to tf32, as operands of the others."""
    if context.spec.precision.tf32:
        return None
    extents = {i.name: context.max_extent(i) for i in (*statement.indices, *bound_indices(statement.value))}
    sums: dict[Expr, Expr] = {}
    before = after = 0
    for reduction in dict.fromkeys(_outermost_sums(statement.value)):
        orders = list(_nested(reduction, extents))
        if orders:
            best = min(orders, key=lambda order: order.multiply_adds)
            sums[reduction] = best.value
            before += _flat(reduction, extents).multiply_adds
            after += best.multiply_adds
    if not sums:
        return None
    return OrderedSums(replace(statement, value=replaced(statement.value, sums.get)), after, before)


def multiply_adds(statements: Iterable[Statement], context: Context) -> int:
    """Terms of all reductions of the statements, where nested ones are computed once for the indices they depend on."""
    total = 0
    for statement in statements:
        extents = {i.name: context.max_extent(i) for i in (*statement.indices, *bound_indices(statement.value))}
        reductions = {node for node in walk(statement.value) if isinstance(node, Reduce)}
        total += sum(_flat(reduction, extents).multiply_adds for reduction in reductions)
    return total


def _outermost_sums(expr: Expr) -> Iterator[Reduce]:
    """The unconditional sums of a product that are in no other reduction or scan, and have none in their terms."""
    for reduction in outermost_reductions(expr):
        is_nested = any(isinstance(node, Reduce | Scan) for node in walk(reduction.body))
        is_plain = reduction.kind == "sum" and reduction.where is None and reduction.body.dtype == reduction.dtype
        if is_plain and not is_nested:
            yield reduction


def _flat(reduction: Reduce, extents: dict[str, int]) -> _Order:
    names = free_indices(reduction) | {index.name for index in reduction.indices}
    return _Order(reduction, prod(extents[name] for name in names))


def _nested(reduction: Reduce, extents: dict[str, int]) -> Iterator[_Order]:
    """The ways to sum over some of the indices first: those that subscript the same factors together."""
    factors = list(factors_of(reduction.body))
    if not _MIN_FACTORS <= len(factors) <= _MAX_FACTORS:
        return
    for indices in _groups(reduction.indices, factors):
        names = {index.name for index in indices}
        inside = [factor for factor in factors if factor.indices & names]
        outside = [factor for factor in factors if factor not in inside]
        remaining = tuple(index for index in reduction.indices if index not in indices)
        if not remaining or not outside or all(factor.is_divisor for factor in inside):
            continue
        inner = _flat(replace(reduction, body=product_of(inside), indices=indices), extents)
        body = product_of([Factor(inner.value), *outside])
        outer = replace(reduction, body=body, indices=remaining)
        for order in (_flat(outer, extents), *_nested(outer, extents)):
            yield _Order(order.value, inner.multiply_adds + order.multiply_adds)


def _groups(indices: tuple[Index, ...], factors: Iterable[Factor]) -> Iterator[tuple[Index, ...]]:
    """The indices by the factors that depend on them."""
    groups: dict[tuple[bool, ...], list[Index]] = {}
    for index in indices:
        groups.setdefault(tuple(index.name in factor.indices for factor in factors), []).append(index)
    return map(tuple, groups.values())
