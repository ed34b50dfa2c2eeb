"""Moves terms that are the same throughout out of sums of products, so that a GEMM can take these.

    y[m, n] = sum(a[m, k] * b[k, n] + c[n] / K, k)
becomes
    y[m, n] = sum(a[m, k] * b[k, n], k) + K * (c[n] / K)
A sum has no more roundings then, and integers wrap alike. A term that may have no value where there is none is
computed for more than none only: `c[n] / K if K > 0 else 0` for a K that is known at launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from cugen.rewrite.sums.factors import with_outer_factors
from cugen.spec.expressions import Const, Expr, Op, ParamValue, Reduce, Select, free_indices, walk
from cugen.spec.model import Spec
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.separate_terms import Term, separate_terms
from cugen.spec.types import BOOL, INT64


def with_invariant_terms(spec: Spec) -> Spec:
    """The spec with such terms outside of the sums; the same object if there are none."""
    dynamic = dynamic_params(spec)
    changed = [(statement, _with_invariant_terms(statement.value, dynamic)) for statement in spec.statements]
    return spec.with_statements([s if value is s.value else replace(s, value=value) for s, value in changed])


def dynamic_params(spec: Spec) -> frozenset[str]:
    """The names of the params that are known at launch, and may be 0."""
    return frozenset(param.name for param in spec.params if param.is_dynamic and param.minimum <= 0)


def _with_invariant_terms(expr: Expr, dynamic: frozenset[str]) -> Expr:
    expr = rebuild(expr, lambda part: _with_invariant_terms(part, dynamic))
    if not isinstance(expr, Reduce) or expr.where is not None:
        return expr
    names = {index.name for index in expr.indices}
    terms = separate_terms(expr)
    invariant = [term for term in terms if not free_indices(term.expr) & names]
    if not invariant:
        return expr
    summed = [term for term in terms if term not in invariant]
    return total_of([sum_of(summed, expr, dynamic), *(sum_of([term], expr, dynamic) for term in invariant)])


def sum_of(terms: Sequence[Term], whole: Reduce, dynamic: frozenset[str]) -> Term:
    """The sum of some terms of another one: a multiple of what is the same throughout, with factors of all outside.
    `dynamic` are the names of params that may be 0."""
    is_negative = all(term.is_negative for term in terms)
    value = total_of([replace(term, is_negative=term.is_negative != is_negative) for term in terms])
    if whole.where is None and not free_indices(value) & {index.name for index in whole.indices}:
        counts = (converted(index.extent, whole.dtype) for index in whole.indices)
        multiple = reduce(lambda a, b: Op("mul", (a, b), whole.dtype), (*counts, value))
        zero = Const(0, whole.dtype)
        for index in whole.indices:
            if _params_of(value) & _params_of(index.extent) & dynamic:
                has_terms = Op("gt", (index.extent, Const(0, INT64)), BOOL)
                multiple = Select(has_terms, multiple, zero, whole.dtype)
        return Term(multiple, is_negative)
    return Term(with_outer_factors(replace(whole, body=value)), is_negative)


def _params_of(expr: Expr) -> frozenset[str]:
    return frozenset(node.name for node in walk(expr) if isinstance(node, ParamValue))


def total_of(terms: Sequence[Term]) -> Expr:
    """The sum of terms, subtracted ones last."""
    first, *others = sorted(terms, key=lambda term: term.is_negative)
    total = Op("neg", (first.expr,), first.expr.dtype) if first.is_negative else first.expr
    for term in others:
        total = Op("sub" if term.is_negative else "add", (total, term.expr), total.dtype)
    return total
