"""Reductions as a GEMM accumulates them: unconditional ones of chosen terms, and `any` and `all` as counts.

    d[i, j] = sum(1, k, where=x[i, k] != y[j, k])
becomes
    d[i, j] = sum(1 if x[i, k] != y[j, k] else 0, k)
and
    r[i, j] = any(a[i, k] and b[k, j], k)
becomes
    r[i, j] = sum(a[i, k] * b[k, j], k) > 0
"""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.context import Context
from cugen.plan.lowering.reductions import identity
from cugen.plan.request import Request
from cugen.plan.symbols import INT32_MAX
from cugen.plan.traversal.vanishing import vanishes
from cugen.spec.expressions import Cast, Const, Expr, Op, ParamValue, Read, Reduce, Select, conjunction, conjuncts, walk
from cugen.spec.rewriting import rebuild
from cugen.spec.types import BOOL, INT32


def with_chosen_terms(request: Request) -> Request:
    """The request with the identity of each sum, minimum and maximum in place of terms that data masks, and counts of
    the terms that decide an `any` or `all`; the same object where there are none."""
    statements = request.group.statements
    changed = tuple(replace(s, value=_changed(s.value, request.context)) for s in statements)
    return request if changed == statements else request.with_statements(changed)


def _changed(expr: Expr, context: Context) -> Expr:
    result = rebuild(expr, lambda part: _changed(part, context))
    if not isinstance(result, Reduce):
        return result
    if result.kind in ("any", "all") and all(context.max_extent(index) <= INT32_MAX for index in result.indices):
        is_any = result.kind == "any"
        count = _with_chosen_terms(replace(result, kind="sum", body=_as_number(result.body, is_any), dtype=INT32))
        return Op("gt" if is_any else "eq", (count, Const(0, INT32)), BOOL, result.span)
    match result:
        case Reduce(kind="sum", body=Cast(arg=condition, to=to)) if condition.dtype == BOOL and to == INT32:
            result = replace(result, body=_as_number(condition, True))
    return _with_chosen_terms(result) if result.kind in ("sum", "min", "max") else result


def _with_chosen_terms(reduction: Reduce) -> Reduce:
    conditions = conjuncts(reduction.where)
    on_data = [condition for condition in conditions if any(isinstance(node, Read) for node in walk(condition))]
    chosen = conjunction(on_data)
    if chosen is None:
        return reduction
    term = Select(chosen, reduction.body, identity(reduction.kind, reduction.dtype), reduction.dtype)
    return replace(reduction, body=term, where=conjunction(c for c in conditions if c not in on_data))


def _as_number(condition: Expr, value: bool) -> Expr:
    """1 where a condition has this value, else 0: `a and b` of elements is their product."""
    match condition:
        case Op(name="not", args=(negated,)):
            return _as_number(negated, not value)
        case Select(condition=first, then=second, orelse=Const(value=False)) if value:
            product = Op("mul", (_as_number(first, True), _as_number(second, True)), INT32)
            # A choice by a param may be what keeps a subscript in bounds.
            is_choice = any(isinstance(node, ParamValue) for node in walk(first))
            if vanishes(product) and not is_choice:
                return product
    return Cast(condition if value else Op("not", (condition,), BOOL), INT32)
