"""Few long rows in steps: each reduction a statement of its own, over which the whole device can spread."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.rowwise.config import is_few
from cugen.families.rowwise.passes.schedule import reduction_levels
from cugen.families.rowwise.statements.recognition import NotRows, find_row_work
from cugen.families.rowwise.statements.views import merge_columns
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Group, Request, Single, Steps
from cugen.plan.substitution import rebuilt
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce
from cugen.spec.model import Array, Statement
from cugen.spec.types import INT64


def split(single: Single) -> Steps | None:
    """The statement after those of its reductions, where it has few and long rows."""
    statement = single.statement
    request = Request("", Group((statement,)), single.context, single.schedule, single.target)
    try:
        work = find_row_work(request)
        merged = merge_columns(work, single.context.symbols)
    except NotRows:
        return None
    names = {index.name for index in statement.indices}
    own = {index.name for index in (*work.domain.rows, *work.domain.columns)}
    if len(work.outputs) != 1 or not work.outputs[0].wide or own != names or not is_few(request, merged):
        return None
    taken = {array.name for array in single.context.spec.arrays} | names
    found: dict[Expr, Expr] = {}

    def known(expr: Expr) -> Expr:
        return found.get(expr) or rebuilt(expr, known)

    steps: list[Statement] = []
    temporaries: list[Array] = []
    rows = tuple(IndexValue(index.name) for index in work.domain.rows)
    shape = tuple(index.extent for index in work.domain.rows)
    for reduction in (reduction for level in reduction_levels(work.outputs) for reduction in level):
        name = _fresh(f"{statement.target}_{ACCUMULATORS[reduction.kind]}", taken)
        value = rebuilt(reduction, known)
        text = f"{name}{_subscripted(rows)} = {reduction.kind} over {_along(reduction)}, of: {statement.text}"
        steps.append(Statement(name, rows, work.domain.rows, value, text=text, span=statement.span))
        temporaries.append(Array(name, shape, reduction.dtype, "temporary", _dense(shape), is_temporary=True))
        found[reduction] = Read(name, rows, reduction.dtype)
    last = replace(statement, value=known(work.outputs[0].value), accumulate=False)
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


def _dense(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of rows one after another."""
    strides: list[Expr] = []
    stride: Expr = Const(1, INT64)
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = extent if stride == Const(1, INT64) else Op("mul", (extent, stride), INT64)
    return tuple(strides)
