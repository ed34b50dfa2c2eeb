"""Reductions under a condition that only bounds their index by one of the results are scans.

    y[i, j] = sum(x[i, k], k, where=k <= j)
becomes
    y[i, j] = cumsum(x[i, j], j)
with `reverse` for k >= j and `exclusive` for k < j: each element is read once in place of once for each j. At a
distance from the result's index the elements are shifted, and those that all results have are combined with each:
    sum(x[i, k], k, where=k <= j - 3)    cumsum(x[i, j - 3], j, where=j >= 3)
    sum(x[i, k], k, where=k <= j + 2)    x[i, 0] + x[i, 1] + cumsum(x[i, j + 2], j, where=j + 2 < N)
`any` is the maximum of 0 and 1, and `all` the opposite of `any`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from cugen.plan.lowering.reductions import combine, identity
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.canonical.conditions import both, negated, with_masks_as_conditions
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Reduce,
    Scan,
    Select,
    bound_indices,
    conjunction,
    conjuncts,
    free_indices,
    outermost_reductions,
)
from cugen.spec.model import Param, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.prove.nonnegative import is_provably_nonnegative
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT32, INT64

MIN_EXTENT = 32  # of the indices; threads repeat shorter reductions in registers (heuristic)
_MAX_TERMS = 8  # of all results that aren't a reduction of their own (heuristic)
_KINDS = ("sum", "prod", "max", "min")


def with_prefix_reductions(statement: Statement, spec: Spec) -> Statement:
    """The statement with scans in place of its reductions that are in no other and that scans compute; the same object
    if there are none."""
    results = {sub.name for sub in statement.subscripts if isinstance(sub, IndexValue)}
    known = {index.name: index for index in statement.indices if index.name in results}
    names = {index.name for index in (*statement.indices, *bound_indices(statement.value))}
    prefixes = _Prefixes(known, {param.name: param for param in spec.params}, names)
    scans: dict[Expr, Expr] = {}
    for reduction in outermost_reductions(statement.value):
        if (scan := prefixes.scanned(reduction)) is not None:
            scans[reduction] = scan
    return replace(statement, value=replaced(statement.value, scans.get)) if scans else statement


@dataclass(frozen=True, slots=True)
class _Limit:
    """A condition that the index is at most the result's index plus `shift`, or with `reverse` at least that."""

    shift: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """The results' indices that a scan may be along, the params, and the names of the statement's indices."""

    results: Mapping[str, Index]
    params: Mapping[str, Param]
    names: set[str]

    def scanned(self, reduction: Reduce) -> Expr | None:
        """The reduction by a scan; None where more than one condition depends on the result's index."""
        masked = with_masks_as_conditions(reduction)
        match masked.kind:
            case "all":
                opposite = self.scanned(replace(masked, kind="any", body=negated(masked.body)))
                return None if opposite is None else negated(opposite)
            case "any":
                largest = self.scanned(replace(masked, kind="max", body=Cast(masked.body, INT32), dtype=INT32))
                return None if largest is None else Op("gt", (largest, Const(0, INT32)), BOOL)
        if masked.kind not in _KINDS or len(masked.indices) != 1 or self._is_short(masked.indices[0]):
            return None
        conditions = conjuncts(masked.where)
        for position, condition in enumerate(conditions):
            others = (*conditions[:position], *conditions[position + 1 :])
            remaining = replace(masked, where=conjunction(others))
            for name in free_indices(condition) & self.results.keys() - free_indices(remaining):
                limit = self._limit(condition, masked.indices[0].name, name)
                if limit is not None and not self._is_short(self.results[name]):
                    return self._along(self.results[name], limit, remaining)
        return None

    def _is_short(self, index: Index) -> bool:
        extent = affine_form(index.extent, self.params)
        return extent.is_constant and extent.constant < MIN_EXTENT

    def _limit(self, condition: Expr, inner: str, outer: str) -> _Limit | None:
        if not isinstance(condition, Op) or condition.name not in ("le", "lt", "ge", "gt"):
            return None
        low, high = condition.args if condition.name in ("le", "lt") else reversed(condition.args)
        excess = affine_form(low, self.params) - affine_form(high, self.params) + int(condition.name in ("lt", "gt"))
        distance = affine_form(IndexValue(inner), self.params) - affine_form(IndexValue(outer), self.params)
        for sign in (1, -1):
            offset = excess - distance.scaled(sign)
            if offset.is_constant:  # sign * (inner - outer) + offset is at most 0
                return _Limit(-sign * offset.constant, reverse=sign == -1)
        return None

    def _along(self, outer: Index, limit: _Limit, reduction: Reduce) -> Expr:
        """The scan of a reduction's shifted terms, combined with the terms of all results."""
        (inner,) = reduction.indices
        is_exclusive = limit.shift == (1 if limit.reverse else -1)
        shift = 0 if is_exclusive else limit.shift
        name = inner.name if inner.extent == outer.extent else fresh(inner.name, self.names)
        current: Expr = IndexValue(name)
        is_within = self._is_at_least(inner.extent, _shifted(outer.extent, shift))
        where: Expr | None = None
        if shift < 0:
            where = Op("ge", (current, Const(-shift, INT64)), BOOL)
        if not is_within:
            where = both(where, Op("lt", (_shifted(current, shift), inner.extent), BOOL))
        # A bare subscript is inside of its dimension.
        is_bare = shift == 0 and is_within
        term = current if is_bare else Op("sub" if shift < 0 else "add", (current, Const(abs(shift), INT64)), INT64)
        body = substitute(reduction.body, {inner.name: term})
        for condition in conjuncts(reduction.where):
            where = both(where, substitute(condition, {inner.name: term}))
        index, kind, dtype = Index(name, outer.extent), reduction.kind, reduction.dtype
        scan = Scan(kind, body, index, outer.name, dtype, is_exclusive, limit.reverse, where)
        common = self._common(outer, shift, limit, reduction)
        return scan if common is None else combine(kind, common, scan)

    def _common(self, outer: Index, shift: int, limit: _Limit, reduction: Reduce) -> Expr | None:
        """The reduction of the terms before those that are scanned, or with `reverse` after them; None if none are."""
        (inner,) = reduction.indices
        value = IndexValue(inner.name)
        start: Expr = Const(0, INT64)
        end: Expr = Const(shift, INT64)
        outside = Op("lt", (value, end), BOOL)
        if limit.reverse:
            start, end = _shifted(outer.extent, shift), inner.extent
            outside = Op("ge", (value, start), BOOL)
        if self._is_at_least(start, end):
            return None
        count = affine_form(end, self.params) - affine_form(start, self.params)
        is_inside = self._is_at_least(inner.extent, end) and self._is_at_least(start, Const(0, INT64))
        if count.is_constant and count.constant <= _MAX_TERMS and is_inside:
            positions = (_shifted(start, number) for number in range(count.constant))
            terms = _terms(reduction, positions)
            return reduce(lambda first, second: combine(reduction.kind, first, second), terms)
        return replace(reduction, where=both(outside, reduction.where) if reduction.where else outside)

    def _is_at_least(self, extent: Expr, bound: Expr) -> bool:
        difference = affine_form(extent, self.params) - affine_form(bound, self.params)
        return is_provably_nonnegative(difference, (), self.params)


def _terms(reduction: Reduce, positions: Iterator[Expr]) -> Iterator[Expr]:
    """The terms of a reduction at positions of its index, neutral where its condition doesn't hold."""
    (inner,) = reduction.indices
    for position in positions:
        term = substitute(reduction.body, {inner.name: position})
        if reduction.where is not None:
            condition = substitute(reduction.where, {inner.name: position})
            term = Select(condition, term, identity(reduction.kind, reduction.dtype), reduction.dtype)
        yield term


def _shifted(value: Expr, shift: int) -> Expr:
    if isinstance(value, Const):
        return Const(int(value.value) + shift, INT64)
    if shift == 0:
        return value
    return Op("sub" if shift < 0 else "add", (value, Const(abs(shift), INT64)), INT64)
