"""Stores all reductions of a statement but one, so that a GEMM can take that one and combine it with the others.

    y[m, n] = silu(sum(a[m, k] * b[k, n], k)) * sum(a[m, k] * c[k, n], k)
becomes
    y_sum[m, n] = sum(a[m, k] * b[k, n], k);  y[m, n] = silu(y_sum[m, n]) * sum(a[m, k] * c[k, n], k)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.temporaries import Temporary, fresh, last_request, steps_of, temporary
from cugen.spec.expressions import Expr, Reduce, children, free_indices
from cugen.spec.model import Schedule
from cugen.spec.rewriting import replaced

_MIN_TERMS = 32  # arithmetic per element of a temporary of the output's size that outweighs its traffic (heuristic)


def separated(single: Single, takes: Callable[[Request], bool]) -> Steps | None:
    """The steps; None where no choice of the last reduction gives a statement that a GEMM `takes`."""
    reductions = tuple(dict.fromkeys(_outermost(single.statement.value)))
    if single.schedule != Schedule() or len(reductions) < 2 or single.is_specialised(single.request()):
        return None
    names = {index.name for index in single.statement.indices}
    for last in reductions:
        stored = [reduction for reduction in reductions if reduction != last]
        if names <= free_indices(last) and all(_is_profitable(r, names, single) for r in stored):
            steps = _steps(single, stored)
            if takes(last_request(single, steps)):
                return steps
    return None


def _outermost(expr: Expr) -> Iterator[Reduce]:
    """The reductions that are in no other one."""
    if isinstance(expr, Reduce):
        yield expr
    else:
        for part in children(expr):
            yield from _outermost(part)


def _is_profitable(reduction: Reduce, names: set[str], single: Single) -> bool:
    """Whether each result serves several outputs, or is worth its store and load."""
    return not names <= free_indices(reduction) or prod(map(single.context.max_extent, reduction.indices)) >= _MIN_TERMS


def _steps(single: Single, stored: list[Reduce]) -> Steps:
    statement, taken = single.statement, {array.name for array in single.context.spec.arrays}
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
