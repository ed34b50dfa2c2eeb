"""Stores all reductions of a statement but one, so that a GEMM can take that one and combine it with the others.

    y[m, n] = silu(sum(a[m, k] * b[k, n], k)) * sum(a[m, k] * c[k, n], k)
becomes
    y_sum[m, n] = sum(a[m, k] * b[k, n], k);  y[m, n] = silu(y_sum[m, n]) * sum(a[m, k] * c[k, n], k)

A sum of several products, as that of complex numbers is, may be such reductions, too:
    y[m, n] = sum(a[m, k, 0] * b[k, n, 0] - a[m, k, 1] * b[k, n, 1], k)
is
    y[m, n] = sum(a[m, k, 0] * b[k, n, 0], k) - sum(a[m, k, 1] * b[k, n, 1], k)
and so are other terms: sum(a[m, k] * b[k, n] + c[k], k) is sum(a[m, k] * b[k, n], k) + sum(c[k], k).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.invariant_terms import dynamic_params, sum_of, total_of
from cugen.rewrite.temporaries import Temporary, last_request, last_single, steps_of, temporary
from cugen.spec.expressions import Expr, Reduce, children, free_indices
from cugen.spec.model import Schedule
from cugen.spec.rewriting import rebuild, replaced
from cugen.spec.separate_terms import Term, is_product, separate_terms

_MIN_MULTIPLY_ADDS = 1 << 26  # of each product, which take longer than a launch and a temporary (heuristic)
_MIN_TERMS = 32  # arithmetic per element of a temporary of the output's size that outweighs its traffic (heuristic)


def separated(
    single: Single, takes: Callable[[Request], bool], stores: Callable[[Single], Steps | None]
) -> Steps | None:
    """The steps; None where no choice of the last reduction gives a statement that a GEMM `takes`, or takes once an
    operand is stored: `stores`."""
    reductions = tuple(dict.fromkeys(_outermost(single.statement.value)))
    if single.schedule != Schedule() or len(reductions) < 2 or single.is_specialised(single.request()):
        return None
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
    separate = replace(statement, value=_of_one_product(statement.value, dynamic_params(single.context.spec)))
    sums = tuple(_outermost(statement.value))
    terms = prod(map(single.context.max_extent, (*statement.indices, *(i for r in sums[:1] for i in r.indices))))
    if separate.value == statement.value or terms < _MIN_MULTIPLY_ADDS:
        return None
    return separated(replace(single, statement=separate), takes, stores)


def _of_one_product(expr: Expr, dynamic: frozenset[str]) -> Expr:
    """The expression with a sum for each product among the terms of its sums, and for others with the same indices."""
    if not isinstance(expr, Reduce):
        return rebuild(expr, lambda part: _of_one_product(part, dynamic))
    names = frozenset(index.name for index in expr.indices)
    sums: dict[object, list[Term]] = {}
    for term in separate_terms(expr):
        sums.setdefault(term if is_product(term.expr, names) else free_indices(term.expr), []).append(term)
    return total_of([sum_of(terms, expr, dynamic) for terms in sums.values()]) if len(sums) > 1 else expr


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
