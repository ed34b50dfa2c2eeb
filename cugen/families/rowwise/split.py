"""Few long rows as several launches: one statement per reduction, each of which can use the whole device."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.rowwise.config import choose_config, has_too_few_rows
from cugen.families.rowwise.passes.schedule import reduction_levels
from cugen.families.rowwise.statements.recognition import NotRowwise, match_rows
from cugen.families.rowwise.statements.views import fuse_columns
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Group, Request, Single, Steps
from cugen.plan.traversal.substitution import rebuilt
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce
from cugen.spec.model import Array, Statement
from cugen.spec.types import INT64


def split(single: Single) -> Steps | None:
    """One statement per reduction, then the map. None unless the statement has few long rows."""
    statement = single.statement
    request = Request("", Group((statement,)), single.context, single.schedule, single.target)
    try:
        problem = match_rows(request)
        fused = fuse_columns(problem, single.context.symbols)
    except NotRowwise:
        return None
    names = {index.name for index in statement.indices}
    domain_names = {index.name for index in (*problem.domain.rows, *problem.domain.columns)}
    if len(problem.outputs) != 1 or not problem.outputs[0].is_per_element:
        return None
    if domain_names != names or not has_too_few_rows(request, fused, choose_config(request, fused)):
        return None
    taken = {array.name for array in single.context.spec.arrays} | names
    stored: dict[Expr, Expr] = {}

    def with_results(expr: Expr) -> Expr:
        return stored.get(expr) or rebuilt(expr, with_results)

    steps: list[Statement] = []
    temporaries: list[Array] = []
    rows = tuple(IndexValue(index.name) for index in problem.domain.rows)
    shape = tuple(index.extent for index in problem.domain.rows)
    for reduction in (reduction for level in reduction_levels(problem.outputs) for reduction in level):
        name = _fresh(f"{statement.target}_{ACCUMULATORS[reduction.kind]}", taken)
        value = rebuilt(reduction, with_results)
        text = f"{name}{_subscripted(rows)} = {reduction.kind} over {_along(reduction)}, of: {statement.text}"
        steps.append(Statement(name, rows, problem.domain.rows, value, text=text, span=statement.span))
        temporaries.append(Array(name, shape, reduction.dtype, "temporary", _row_major(shape), is_temporary=True))
        stored[reduction] = Read(name, rows, reduction.dtype)
    last = replace(statement, value=with_results(problem.outputs[0].value), accumulate=False)
    names_of_steps = tuple(array.name for array in temporaries)
    return Steps((*steps, last), tuple(temporaries), names_of_steps, again=names_of_steps)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _along(reduction: Reduce) -> str:
    return ", ".join(index.name for index in reduction.indices)


def _subscripted(rows: tuple[IndexValue, ...]) -> str:
    return f"[{', '.join(row.name for row in rows)}]" if rows else ""


def _row_major(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a dense row-major array."""
    strides: list[Expr] = []
    stride: Expr = Const(1, INT64)
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = extent if stride == Const(1, INT64) else Op("mul", (extent, stride), INT64)
    return tuple(strides)
