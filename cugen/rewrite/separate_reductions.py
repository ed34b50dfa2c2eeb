"""Stores all reductions of a statement but one, so that a GEMM can take that one and combine it with the others.

    y[m, n] = silu(sum(a[m, k] * b[k, n], k)) * sum(a[m, k] * c[k, n], k)
becomes
    y_sum[m, n] = sum(a[m, k] * b[k, n], k);  y[m, n] = silu(y_sum[m, n]) * sum(a[m, k] * c[k, n], k)

A sum of several products, as that of complex numbers is, may be such reductions, too:
    y[m, n] = sum(a[m, k, 0] * b[k, n, 0] - a[m, k, 1] * b[k, n, 1], k)
is
    y[m, n] = sum(a[m, k, 0] * b[k, n, 0], k) - sum(a[m, k, 1] * b[k, n, 1], k)
and sum(a[m, k] * b[k, n] + c[n], k) is sum(a[m, k] * b[k, n], k) + K * c[n].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from math import prod

from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import with_outer_factors
from cugen.rewrite.temporaries import Temporary, last_request, last_single, steps_of, temporary
from cugen.spec.expressions import Expr, Op, Reduce, children, free_indices
from cugen.spec.model import Schedule
from cugen.spec.rewriting import converted, rebuild, replaced
from cugen.spec.separate_terms import Term, is_product, separate_terms

_MIN_MULTIPLY_ADDS = 1 << 26  # of each product, which take longer than a launch and a temporary (heuristic)
_MIN_TERMS = 32  # arithmetic per element of a temporary of the output's size that outweighs its traffic (heuristic)


def separated(
    single: Single, takes: Callable[[Request], bool], stores: Callable[[Single], Steps | None]
) -> Steps | None:
    """The steps; None where no choice of the last reduction gives a statement that a GEMM `takes`, or takes once an
    operand is stored: `stores`."""
    reductions = tuple(dict.fromkeys(_outermost(single.statement.value)))
    is_left = single.schedule == Schedule() and not single.is_specialised(single.request())
    return _steps_of_each(reductions, single, takes, stores) if is_left and len(reductions) > 1 else None


def _steps_of_each(
    reductions: tuple[Reduce, ...],
    single: Single,
    takes: Callable[[Request], bool],
    stores: Callable[[Single], Steps | None],
) -> Steps | None:
    names = {index.name for index in single.statement.indices}
    for last in reductions:
        stored = [reduction for reduction in reductions if reduction != last]
        is_long = _terms(last, single) >= _MIN_TERMS
        if names <= free_indices(last) and (is_long or all(_is_profitable(r, names, single) for r in stored)):
            steps = _steps(single, stored)
            if takes(last_request(single, steps)):
                return steps
            if of_last := stores(last_single(single, steps)):
                return _followed_by(steps, of_last)
    return None


def with_separate_products(
    single: Single, takes: Callable[[Request], bool], stores: Callable[[Single], Steps | None]
) -> Steps | None:
    """The steps of sums with one product each, and of other terms; None where no sum has several, where they take less
    time than launches, and where a GEMM doesn't take the last."""
    statement = single.statement
    separate = replace(statement, value=_of_one_product(statement.value))
    sums = tuple(_outermost(statement.value))
    terms = prod(map(single.context.max_extent, (*statement.indices, *(i for r in sums[:1] for i in r.indices))))
    if separate.value == statement.value or terms < _MIN_MULTIPLY_ADDS:
        return None
    separate_single = replace(single, statement=separate)
    match tuple(dict.fromkeys(_outermost(separate.value))):
        case (product,) if single.schedule == Schedule():
            return _steps_of_each((product,), separate_single, takes, stores)
    return separated(separate_single, takes, stores)


def _of_one_product(expr: Expr) -> Expr:
    """The expression with a sum for each product among the terms of its sums, and for others with the same indices."""
    if not isinstance(expr, Reduce):
        return rebuild(expr, _of_one_product)
    names = frozenset(index.name for index in expr.indices)
    together: dict[frozenset[str], list[Term]] = {}
    total: Expr | None = None
    for term in separate_terms(expr):
        if is_product(term.expr, names):
            total = _plus(total, replace(term, expr=_sum_of(term.expr, expr)))
        else:
            together.setdefault(free_indices(term.expr), []).append(term)
    for terms in together.values():
        first, *others = sorted(terms, key=lambda term: term.is_negative)
        value = reduce(_plus, (replace(o, is_negative=o.is_negative != first.is_negative) for o in others), first.expr)
        total = _plus(total, replace(first, expr=_sum_of(value, expr)))
    return expr if total is None else total


def _plus(total: Expr | None, term: Term) -> Expr:
    if total is None:
        return Op("neg", (term.expr,), term.expr.dtype) if term.is_negative else term.expr
    return Op("sub" if term.is_negative else "add", (total, term.expr), total.dtype)


def _sum_of(term: Expr, whole: Reduce) -> Expr:
    """The sum of a term of another: a multiple of one that is the same throughout."""
    if whole.where is None and not free_indices(term) & {index.name for index in whole.indices}:
        count = reduce(_times, (converted(index.extent, whole.dtype) for index in whole.indices))
        return _times(count, term)
    return with_outer_factors(replace(whole, body=term))


def _times(a: Expr, b: Expr) -> Expr:
    return Op("mul", (a, b), a.dtype)


def _outermost(expr: Expr) -> Iterator[Reduce]:
    """The reductions that are in no other one."""
    if isinstance(expr, Reduce):
        yield expr
    else:
        for part in children(expr):
            yield from _outermost(part)


def _followed_by(steps: Steps, of_last: Steps) -> Steps:
    """The steps, with others in place of the last."""
    return replace(
        steps,
        statements=(*steps.statements[:-1], *of_last.statements),
        temporaries=(*steps.temporaries, *of_last.temporaries),
        open=(*steps.open, *of_last.open),
    )


def _is_profitable(reduction: Reduce, names: set[str], single: Single) -> bool:
    """Whether each result serves several outputs, or is worth its store and load."""
    return not names <= free_indices(reduction) or _terms(reduction, single) >= _MIN_TERMS


def _terms(reduction: Reduce, single: Single) -> int:
    return prod(map(single.context.max_extent, reduction.indices))


def _steps(single: Single, stored: list[Reduce]) -> Steps:
    statement, taken = single.statement, taken_names(single.context.spec)
    temporaries: dict[Expr, Temporary] = {}
    for reduction in stored:
        indices = tuple(index for index in statement.indices if index.name in free_indices(reduction))
        name = fresh(f"{statement.target}_{ACCUMULATORS[reduction.kind]}", taken)
        over = ", ".join(index.name for index in reduction.indices)
        what = f"{reduction.kind} over {over}, of: {statement.text}"
        temporaries[reduction] = temporary(name, indices, reduction, what, statement, is_stored=True)
    reads: dict[Expr, Expr] = {reduction: stored.read for reduction, stored in temporaries.items()}
    last = replace(statement, value=replaced(statement.value, reads.get))
    return replace(steps_of(tuple(temporaries.values()), last, again=True), opens_last=True)
