"""The canonical form of a statement, so that how it is spelt decides nothing about how it is planned.

    y[i] = sum(sum(x[i, 0 + p, q * 1] * 1 + 0, q), p)
becomes
    y[i] = sum(x[i, p, q], p, q)
Neutral elements are left out where no bit of a result changes, subscripts that equal an index, as those of windows of
one element do, become that index unless it may be longer than the dimension, and nested reductions of one kind are one.
The quotient of an index by more than it reaches is 0, as the group `k // (K // G)` of a channel is where G is 1.
Terms of a sum that are 0 unless a condition holds, `x[i] if i < j else 0`, are terms under that condition (`where`).
Conditions `k <= minimum(i, j)` and `abs(i - k) < 2` of a reduction are those bounds of k that they stand for, without
those that hold for all values of the indices. Choices are without these, too, as `inside(x[n, i + r])` has some of n.
Conditions on other indices are a choice round a sum.
Factors that all terms of a sum have are multiplied once, and tanh(softplus(x)) is a quotient. All of it is exact but
the order of sums, which a spec doesn't fix, these factors and this quotient, which have no more roundings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import copysign

from cugen.rewrite.canonical.conditions import both, negated, without_neutral_terms
from cugen.rewrite.canonical.mish import gate
from cugen.rewrite.sums.factors import with_outer_factors
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    conjuncts,
    free_indices,
    walk,
)
from cugen.spec.model import Array, Param, Spec, Statement
from cugen.spec.prove.affine import AffineForm, Atom, Variable, affine_form, atom_form
from cugen.spec.prove.nonnegative import is_provably_nonnegative
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.types import BOOL, INT64

_ASSOCIATIVE = ("sum", "prod", "max", "min", "any", "all")
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def with_canonical_expressions(spec: Spec) -> Spec:
    """The spec with the canonical form of its statements; the same object if they have it."""
    scope = _Scope({param.name: param for param in spec.params}, {array.name: array for array in spec.arrays}, {}, ())
    statements = tuple(_statement(statement, scope.of_results(statement.indices)) for statement in spec.statements)
    return spec if statements == spec.statements else replace(spec, statements=statements)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The params, the arrays, the extents of the indices in scope, and those of them that are the statement's."""

    params: Mapping[str, Param]
    arrays: Mapping[str, Array]
    extents: Mapping[str, Expr]
    results: tuple[str, ...]

    def of_results(self, indices: tuple[Index, ...]) -> _Scope:
        return replace(self.binding(indices), results=tuple(index.name for index in indices))

    def binding(self, indices: Iterable[Index]) -> _Scope:
        return replace(self, extents={**self.extents, **{index.name: index.extent for index in indices}})

    def is_zero(self, atom: Atom) -> bool:
        """Whether it is an index of a single value."""
        extent = self.extents.get(atom.name) if isinstance(atom, Variable) else None
        return extent is not None and affine_form(extent, self.params) == AffineForm((), 1)

    def is_inside(self, name: str, extent: Expr) -> bool:
        """Whether an index is provably no longer than a dimension, as bare subscripts are. `i + 0` may be guarded."""
        longer = affine_form(extent, self.params) - affine_form(self.extents[name], self.params)
        return is_provably_nonnegative(longer, (), self.params)

    def always_holds(self, condition: Expr) -> bool:
        """Whether an inequality of integers is proved for all values of the indices in scope."""
        match condition:
            case Op(name="lt" | "le", args=(low, high)) | Op(name="gt" | "ge", args=(high, low)):
                pass
            case _:
                return False
        if any(node.dtype != INT64 or isinstance(node, Read) for side in (low, high) for node in walk(side)):
            return False
        difference = affine_form(high, self.params) - affine_form(low, self.params)
        return self._is_nonnegative(difference - int(condition.name in ("lt", "gt")))

    def is_remainder(self, dividend: Expr, divisor: Expr) -> bool:
        """Whether an integer is proved to be at least 0 and less than another one for all values of the indices. Those
        of a single value alone are left, as loops over them are."""
        if any(node.dtype != INT64 or isinstance(node, Read) for side in (dividend, divisor) for node in walk(side)):
            return False
        form = affine_form(dividend, self.params)
        if form.terms and all(self.is_zero(atom) for atom, _ in form.terms):
            return False
        return self._is_nonnegative(form) and self._is_nonnegative(affine_form(divisor, self.params) - form - 1)

    def _is_nonnegative(self, form: AffineForm) -> bool:
        facts = []
        for index, extent in self.extents.items():
            value = atom_form(Variable(index))
            facts += [value, affine_form(extent, self.params) - value - 1]
        return is_provably_nonnegative(form, facts, self.params)


def _statement(statement: Statement, scope: _Scope) -> Statement:
    shape = scope.arrays[statement.target].shape
    return replace(
        statement,
        subscripts=_subscripts(statement.subscripts, shape, scope),
        value=_with_outer_factors(_value(statement.value, scope)),
    )


def _with_outer_factors(expr: Expr) -> Expr:
    """The expression with the factors of all terms outside of its sums, which nested sums have become."""
    expr = rebuild(expr, _with_outer_factors)
    return with_outer_factors(expr) if isinstance(expr, Reduce) else expr


def _subscripts(subscripts: tuple[Expr, ...], shape: tuple[Expr, ...], scope: _Scope) -> tuple[Expr, ...]:
    return tuple(_subscript(sub, extent, scope) for sub, extent in zip(subscripts, shape, strict=True))


def _value(expr: Expr, scope: _Scope) -> Expr:
    match expr:
        case Read():
            return replace(expr, subscripts=_subscripts(expr.subscripts, scope.arrays[expr.array].shape, scope))
        case Reduce(indices=indices):
            scope = scope.binding(indices)
        case Scan(inner=index):
            scope = scope.binding((index,))
    expr = rebuild(expr, lambda part: _value(part, scope))
    match expr:
        case Op(name=name, args=(x, neutral)) if _is_neutral(name, neutral):
            return x
        case Op(name="mul" | "add" as name, args=(neutral, x)) if _is_neutral(name, neutral):
            return x
        case Op(name="floordiv", args=(a, b)) if expr.dtype == INT64 and scope.is_remainder(a, b):
            return Const(0, INT64)
        case Op(name="mod", args=(a, b)) if expr.dtype == INT64 and scope.is_remainder(a, b):
            return a
        case Op(name="mul", args=args) if Const(0, INT64) in args and not any(isinstance(n, Read) for n in walk(expr)):
            return Const(0, INT64)
        case Op(name="neg", args=(Op(name="neg", args=(x,)),)) if x.dtype == expr.dtype:
            return x
        case Op(name="not", args=(condition,)):
            return negated(condition)
        case Cast(arg=Cast(to=to) as inner, to=outer) if to == outer:
            return inner
        case Select(condition=condition, then=then):
            needed = _without_certain(condition, scope)
            return converted(then, expr.dtype) if needed is None else replace(expr, condition=needed)
        case Op(name="tanh") if (quotient := gate(expr)) is not None:
            return quotient
        case Reduce():
            return _under_common_condition(_reduction(expr, scope))
    return expr


def _is(expr: Expr, number: int) -> bool:
    return isinstance(expr, Const) and expr.dtype != BOOL and expr.value == number


def _is_neutral(name: str, operand: Expr) -> bool:
    """Whether an operator with this operand changes no bit of the other one: x + -0.0 is x, but -0.0 + 0.0 is 0.0."""
    if name in ("mul", "div", "pow"):
        return _is(operand, 1)
    if name not in ("add", "sub") or not isinstance(operand, Const) or not _is(operand, 0):
        return False
    return not operand.dtype.is_float or (copysign(1.0, float(operand.value)) < 0) == (name == "add")


def _reduction(reduction: Reduce, scope: _Scope) -> Reduce:
    """The reduction without zeros among the terms of a sum, which begins at 0.0, and one with a nested one."""
    if reduction.kind == "sum":
        reduction = without_neutral_terms(reduction)
    if reduction.where is not None:
        reduction = replace(reduction, where=_without_certain(_with_bounds(reduction.where), scope))
    body = reduction.body
    if not isinstance(body, Reduce) or (body.kind, body.dtype) != (reduction.kind, reduction.dtype):
        return reduction
    if reduction.kind not in _ASSOCIATIVE or {i.name for i in body.indices} & {i.name for i in reduction.indices}:
        return reduction
    where = reduction.where if body.where is None else both(reduction.where, body.where)
    return replace(reduction, body=body.body, indices=(*reduction.indices, *body.indices), where=where)


def _under_common_condition(reduction: Reduce) -> Expr:
    """A sum in a choice, if conditions on other indices than its own leave out all terms or none."""
    names = {index.name for index in reduction.indices}
    parts = conjuncts(reduction.where)
    common = [
        part for part in parts if not (free_indices(part) & names or any(isinstance(n, Read) for n in walk(part)))
    ]
    if reduction.kind != "sum" or not common:
        return reduction
    condition, where = reduce(both, common, None), reduce(both, [part for part in parts if part not in common], None)
    assert condition is not None
    return Select(condition, replace(reduction, where=where), Const(0, reduction.dtype), reduction.dtype)


def _with_bounds(condition: Expr) -> Expr:
    """The condition with two comparisons for one with a minimum, maximum or absolute value of indices."""
    match condition:
        case Op(name="and", args=args):
            return replace(condition, args=tuple(map(_with_bounds, args)))
        case Op(name="lt" | "le", args=(low, high)):
            name = condition.name
        case Op(name="gt" | "ge", args=(high, low)):
            name = _MIRRORED[condition.name]
        case _:
            return condition
    if any(node.dtype != INT64 or isinstance(node, Read) for side in (low, high) for node in walk(side)):
        return condition
    match low, high:
        case Op(name="maximum", args=lows), _:
            pairs = [(each, high) for each in lows]
        case Op(name="abs", args=(x,)), _:
            pairs = [(x, high), (Op("neg", (x,), INT64), high)]
        case _, Op(name="minimum", args=highs):
            pairs = [(low, each) for each in highs]
        case _:
            return condition
    first, second = (_with_bounds(Op(name, pair, BOOL)) for pair in pairs)
    return both(first, second)


def _without_certain(condition: Expr, scope: _Scope) -> Expr | None:
    """The condition without conjuncts that always hold; None if all of them do."""
    parts = conjuncts(condition)
    needed = [part for part in parts if not scope.always_holds(part)]
    return condition if len(needed) == len(parts) else reduce(both, needed, None)


def _subscript(sub: Expr, extent: Expr, scope: _Scope) -> Expr:
    """The index that a subscript equals, if that is no longer than the dimension; else one with canonical parts.

    A window at a single position stays one: its taps and channels are one index of an implicit GEMM."""
    if not isinstance(sub, Op):
        return rebuild(sub, lambda part: _value(part, scope))
    parts = rebuild(sub, lambda part: _value(part, scope))
    canonical = _value(parts, scope)
    form = affine_form(sub, scope.params)
    terms = [term for term in form.terms if not scope.is_zero(term[0])]
    if sub.dtype == INT64 and form.constant == 0 and len(terms) == 1:
        ((atom, coefficient),) = terms
        names = scope.extents if len(form.terms) == 1 else scope.results
        if coefficient == 1 and isinstance(atom, Variable) and atom.name in names:
            canonical = IndexValue(atom.name)
    if isinstance(canonical, IndexValue) and not scope.is_inside(canonical.name, extent):
        return Op("add", (canonical, Const(0, INT64)), INT64)
    return canonical
