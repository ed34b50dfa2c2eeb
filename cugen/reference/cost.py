"""How large evaluations get: elements of intermediate arrays, and elementary operations."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cugen.reference.contraction import factors_of, split
from cugen.spec.expressions import Expr, Reduce, Scan, children, free_indices
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate as integer

Extents = Mapping[str, int]
_CONTRACTION = 1 / 16  # a multiply-add of a matrix product, in elementwise operations


def elements(names: frozenset[str], extents: Extents, joined: frozenset[str] = frozenset()) -> int:
    """Elements of an array over the named indices; those in `joined` share one axis."""
    apart = math.prod(extents[name] for name in names - joined)
    return apart * (max(extents[name] for name in joined) if names & joined else 1)


def footprint(expr: Expr, extents: Extents, params: Extents, joined: frozenset[str] = frozenset()) -> int:
    """Elements of the largest array that evaluating `expr` makes, when all its indices run over their extents."""
    inner = {**extents, **_bound_extents(expr, params)}
    if isinstance(expr, Reduce) and (parts := split(expr, inner, joined)) is not None:
        largest = max(footprint(factor, inner, params, joined) for part in parts for factor in part)
        sides = [elements(frozenset().union(*map(free_indices, part)), inner, joined) for part in parts]
        return max(largest, *sides, elements(free_indices(expr), extents, joined))
    names = _span(expr)
    return max([elements(names, inner, joined), *(footprint(c, inner, params, joined) for c in children(expr))])


def operations(expr: Expr, extents: Extents, params: Extents) -> float:
    """Elementary operations of evaluating `expr`; a matrix product's multiply-adds count a sixteenth."""
    inner = {**extents, **_bound_extents(expr, params)}
    below = sum(operations(child, inner, params) for child in children(expr))
    if isinstance(expr, Reduce) and split(expr, inner, frozenset()) is not None:
        factors = factors_of(expr)
        full = frozenset().union(*map(free_indices, factors)) | set(_bound_extents(expr, params))
        return sum(operations(f, inner, params) for f in factors) + _CONTRACTION * elements(full, inner)
    return below + elements(_span(expr), inner)


def _span(expr: Expr) -> frozenset[str]:
    """The indices over which an expression's own work runs: a reduction's or scan's are those of its terms."""
    match expr:
        case Reduce(indices=indices):
            own = frozenset(index.name for index in indices)
        case Scan(inner=index):
            own = frozenset((index.name,))
        case _:
            return free_indices(expr)
    return own.union(*map(free_indices, children(expr)))


def statement_cost(statement: Statement, params: Extents) -> float:
    extents = {index.name: integer(index.extent, params) for index in statement.indices}
    return operations(statement.value, extents, params) + math.prod(extents.values())


def cost(spec: Spec, params: Mapping[str, int] | None = None) -> float:
    """Elementary operations that evaluating the whole spec takes, roughly; some 10 ns each.

    `params` gives the dynamic ones. KeyError for one that is missing."""
    known = {**{p.name: p.value for p in spec.params if p.value is not None}, **(params or {})}
    return sum(statement_cost(statement, known) for statement in spec.statements)


def _bound_extents(expr: Expr, params: Extents) -> dict[str, int]:
    match expr:
        case Reduce(indices=indices):
            return {index.name: integer(index.extent, params) for index in indices}
        case Scan(inner=index):
            return {index.name: integer(index.extent, params)}
    return {}
