"""Conditions of reductions: conjunctions, opposites, and the conditions that terms or factors of terms stand for.

    sum(x[k] if k <= j else 0, k)    any(x[k] > 0 and k <= j, k)
become
    sum(x[k], k, where=k <= j)       any(x[k] > 0, k, where=k <= j)
and, of integers, sum(x[k] * (k <= j), k) the former, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from cugen.plan.lowering.reductions import identity
from cugen.spec.expressions import Cast, Const, Expr, Op, Read, Reduce, Sample, Select, conjunction, conjuncts, walk
from cugen.spec.rewriting import converted
from cugen.spec.types import BOOL

_OPPOSITES = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def both(first: Expr | None, second: Expr) -> Expr:
    """The conjunction of two conditions; a second condition that reads data does so only where the first one holds."""
    if first is None:
        return second
    if any(isinstance(node, Read) for node in walk(second)):
        return Select(first, second, Const(False, BOOL), BOOL)
    return Op("and", (first, second), BOOL)


def negated(condition: Expr) -> Expr:
    """The opposite of a condition: a comparison where it can be one, since these bound loops."""
    match condition:
        case Op(name="not", args=(arg,)):
            return arg
        case Op(name="or", args=args):
            return replace(condition, name="and", args=tuple(map(negated, args)))
        # Both `a < b` and `a >= b` are false of NaN.
        case Op(name=name, args=(left, _)) if name in ("eq", "ne") or (name in _OPPOSITES and not left.dtype.is_float):
            return replace(condition, name=_OPPOSITES[name])
    return Op("not", (condition,), BOOL)


def without_neutral_terms(reduction: Reduce) -> Reduce:
    """The reduction with a condition in place of terms that are its neutral element, and without zeros added to those
    of a sum, which begins at 0.0."""
    body, where = reduction.body, reduction.where
    neutral = identity(reduction.kind, reduction.dtype)
    while True:
        match body:
            case Op(name="add", args=(x, constant)) if reduction.kind == "sum" and _is(constant, neutral):
                body = x
            case Op(name="add", args=(constant, x)) if reduction.kind == "sum" and _is(constant, neutral):
                body = x
            case Select(condition=condition, then=x, orelse=constant) if _is(constant, neutral):
                body, where = x, both(where, condition)
            case Select(condition=condition, then=constant, orelse=x) if _is(constant, neutral):
                body, where = x, both(where, negated(condition))
            case _:
                return replace(reduction, body=body, where=where)


def with_masks_as_conditions(reduction: Reduce) -> Reduce:
    """The reduction without neutral terms, and with the factors of a sum of integers that are 0 unless a condition on
    indices holds, or those conjuncts of `any`, as conditions. Of floats, a mask leaves a NaN of infinite terms."""
    reduction = without_neutral_terms(reduction)
    body, where = reduction.body, reduction.where
    conditions: tuple[Expr, ...] = ()
    if reduction.kind == "sum" and reduction.dtype.is_integer:
        body, conditions = _without_masks(body)
    elif reduction.kind == "any":
        conditions = tuple(part for part in conjuncts(body) if _is_of_indices(part))
        others = (part for part in conjuncts(body) if part not in conditions)
        body = reduce(both, others, None) or Const(True, BOOL)
    return replace(reduction, body=body, where=conjunction((*conditions, *conjuncts(where))))


def _without_masks(factor: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """A factor of a sum's terms without its masks, and their conditions."""
    match factor:
        case Cast(arg=mask) if mask.dtype == BOOL and _is_of_indices(mask):
            return Const(1, factor.dtype), conjuncts(mask)
        case Cast(arg=arg):
            x, conditions = _without_masks(arg)
            return (replace(factor, arg=x) if conditions else factor), conditions
        case Select(condition=condition, then=x, orelse=Const(value=0)) if _is_of_indices(condition):
            return x, conjuncts(condition)
        case Op(name="mul", args=(left, right)):
            (x, of_x), (y, of_y) = _without_masks(left), _without_masks(right)
            factors = [each for each in (x, y) if each != Const(1, factor.dtype)]
            product = replace(factor, args=(x, y)) if len(factors) == 2 else (factors or [x])[0]
            return (converted(product, factor.dtype) if of_x or of_y else factor), (*of_x, *of_y)
    return factor, ()


def _is_of_indices(condition: Expr) -> bool:
    return not any(isinstance(node, Read | Sample | Reduce) for node in walk(condition))


def _is(expr: Expr, neutral: Const) -> bool:
    return isinstance(expr, Const) and (expr.dtype == BOOL) == (neutral.dtype == BOOL) and expr.value == neutral.value
