"""Cost model of the reference evaluation: elements of intermediate arrays, and elementary operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.reference.sums.contraction import factors_of, split
from cugen.spec.expressions import (
    Expr,
    IndexValue,
    Read,
    Reduce,
    Scan,
    bound_indices,
    children,
    free_indices,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate as integer

Extents = Mapping[str, int]
_MATMUL_FMA_COST = 1 / 16  # one FMA of a BLAS matmul, in elementwise operations (heuristic)


def elements(names: frozenset[str], extents: Extents, shared_axis: frozenset[str] = frozenset()) -> int:
    """Elements of an array over the named indices; those in `shared_axis` share one axis."""
    independent = math.prod(extents[name] for name in names - shared_axis)
    return independent * (max(extents[name] for name in shared_axis) if names & shared_axis else 1)


def footprint(expr: Expr, extents: Extents, params: Extents, shared_axis: frozenset[str] = frozenset()) -> int:
    """Elements of the largest intermediate array of `expr`, with all its indices over their full extents."""
    inner = {**extents, **_bound_extents(expr, params)}
    if isinstance(expr, Reduce) and (parts := split(expr, inner, shared_axis)) is not None:
        largest = max(footprint(factor, inner, params, shared_axis) for part in parts for factor in part)
        sides = [elements(frozenset().union(*map(free_indices, part)), inner, shared_axis) for part in parts]
        return max(largest, *sides, elements(free_indices(expr), extents, shared_axis))
    names = _iteration_space(expr)
    return max(
        [elements(names, inner, shared_axis), *(footprint(c, inner, params, shared_axis) for c in children(expr))]
    )


def operations(expr: Expr, extents: Extents, params: Extents) -> float:
    """Elementary operations of evaluating `expr`; an FMA of a matmul counts a sixteenth."""
    inner = {**extents, **_bound_extents(expr, params)}
    operands = sum(operations(child, inner, params) for child in children(expr))
    if isinstance(expr, Reduce) and split(expr, inner, frozenset()) is not None:
        factors = factors_of(expr)
        full = frozenset().union(*map(free_indices, factors)) | set(_bound_extents(expr, params))
        return sum(operations(f, inner, params) for f in factors) + _MATMUL_FMA_COST * elements(full, inner)
    return operands + elements(_iteration_space(expr), inner)


def _iteration_space(expr: Expr) -> frozenset[str]:
    """The iteration space of a node: its free indices, and for a reduction or scan those that it binds."""
    match expr:
        case Reduce(indices=indices):
            bound = frozenset(index.name for index in indices)
        case Scan(inner=index):
            bound = frozenset((index.name,))
        case _:
            return free_indices(expr)
    return bound.union(*map(free_indices, children(expr)))


def statement_cost(statement: Statement, params: Extents) -> float:
    """Elementary operations of evaluating one statement, its stores included."""
    extents = {index.name: integer(index.extent, params) for index in statement.indices}
    return operations(statement.value, extents, params) + math.prod(extents.values())


def cost(spec: Spec, params: Mapping[str, int] | None = None) -> float:
    """Estimated elementary operations of evaluating the whole spec; about 10 ns each on a host.

    `params` maps dynamic params to values. KeyError for one that is missing."""
    known = {**{p.name: p.value for p in spec.params if p.value is not None}, **(params or {})}
    return sum(statement_cost(statement, known) for statement in spec.statements)


def _bound_extents(expr: Expr, params: Extents) -> dict[str, int]:
    match expr:
        case Reduce(indices=indices):
            return {index.name: integer(index.extent, params) for index in indices}
        case Scan(inner=index):
            return {index.name: integer(index.extent, params)}
    return {}


@dataclass(frozen=True)
class _Request:
    """Upper bound of the elements of an array that are read: all along the `whole` dimensions, whose extents are given,
    at so many `points` of the others."""

    points: int
    whole: Mapping[int, int] = field(default_factory=dict)

    def and_those(self, more: _Request) -> _Request:
        whole = {dimension: extent for dimension, extent in self.whole.items() if dimension in more.whole}
        return _Request(self._points_of(whole) + more._points_of(whole), whole)

    def _points_of(self, whole: Mapping[int, int]) -> int:
        """The points where no more than these dimensions are whole."""
        return self.points * math.prod(extent for dimension, extent in self.whole.items() if dimension not in whole)


def requested_indices(spec: Spec, points: Mapping[str, int], params: Mapping[str, int]) -> list[dict[str, int]]:
    """For each statement an upper bound of the values of its indices to which so many points of the outputs lead: all
    of those over which other statements reduce; the first other index stands for the points along the rest."""
    requests = {name: _Request(count) for name, count in points.items()}
    requested: list[dict[str, int]] = [{} for _ in spec.statements]
    for number, statement in reversed(tuple(enumerate(spec.statements))):
        request = requests.get(statement.target, _Request(0))
        extents = {index.name: integer(index.extent, params) for index in statement.indices}
        subscripts = [statement.subscripts[dimension] for dimension in request.whole]
        whole = {subscript.name for subscript in subscripts if isinstance(subscript, IndexValue)}
        others = [name for name in extents if name not in whole]
        count = min(request.points, math.prod(extents[name] for name in others))
        requested[number] = {name: extents[name] if name in whole else 1 for name in extents}
        requested[number] |= {others[0]: count} if others else {}
        full = {name: extents[name] for name in whole if name in extents}
        full |= {index.name: integer(index.extent, params) for index in bound_indices(statement.value)}
        for read in (node for node in walk(statement.value) if isinstance(node, Read)):
            over = {
                i: sub.name for i, sub in enumerate(read.subscripts) if isinstance(sub, IndexValue) and sub.name in full
            }
            each = math.prod(full[name] for name in (free_indices(read) & full.keys()) - set(over.values()))
            made = _Request(count * each, {dimension: full[name] for dimension, name in over.items()})
            requests[read.array] = requests[read.array].and_those(made) if read.array in requests else made
    return requested


def cost_at(statement: Statement, requested: Mapping[str, int], params: Mapping[str, int]) -> float:
    """Elementary operations of evaluating a statement at so many values of its indices, its stores included. A
    reduction is evaluated once for those that it depends on."""
    return operations(statement.value, requested, params) + math.prod(requested.values())
