"""Moves terms that are the same throughout out of sums of products, so that a GEMM can take these.

    y[m, n] = sum(a[m, k] * b[k, n] + c[n] / K, k)
becomes
    y[m, n] = sum(a[m, k] * b[k, n], k) + K * (c[n] / K)
A sum has no more roundings then, and integers wrap alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from cugen.rewrite.sums.factors import with_outer_factors
from cugen.spec.expressions import Expr, Op, Reduce, free_indices
from cugen.spec.model import Spec
from cugen.spec.rewriting import converted, rebuild
from cugen.spec.separate_terms import Term, separate_terms


def with_invariant_terms(spec: Spec) -> Spec:
    """The spec with such terms outside of the sums; the same object if there are none."""
    changed = [(statement, _with_invariant_terms(statement.value)) for statement in spec.statements]
    return spec.with_statements([s if value is s.value else replace(s, value=value) for s, value in changed])


def _with_invariant_terms(expr: Expr) -> Expr:
    expr = rebuild(expr, _with_invariant_terms)
    if not isinstance(expr, Reduce) or expr.where is not None:
        return expr
    names = {index.name for index in expr.indices}
    terms = separate_terms(expr)
    invariant = [term for term in terms if not free_indices(term.expr) & names]
    if not invariant:
        return expr
    summed = [term for term in terms if term not in invariant]
    return total_of([sum_of(summed, expr), *(sum_of([term], expr) for term in invariant)])


def sum_of(terms: Sequence[Term], whole: Reduce) -> Term:
    """The sum of some terms of another one: a multiple of what is the same throughout, with factors of all outside."""
    is_negative = all(term.is_negative for term in terms)
    value = total_of([replace(term, is_negative=term.is_negative != is_negative) for term in terms])
    if whole.where is None and not free_indices(value) & {index.name for index in whole.indices}:
        counts = (converted(index.extent, whole.dtype) for index in whole.indices)
        return Term(reduce(lambda a, b: Op("mul", (a, b), whole.dtype), (*counts, value)), is_negative)
    return Term(with_outer_factors(replace(whole, body=value)), is_negative)


def total_of(terms: Sequence[Term]) -> Expr:
    """The sum of terms, subtracted ones last."""
    first, *others = sorted(terms, key=lambda term: term.is_negative)
    total = Op("neg", (first.expr,), first.expr.dtype) if first.is_negative else first.expr
    for term in others:
        total = Op("sub" if term.is_negative else "add", (total, term.expr), total.dtype)
    return total
