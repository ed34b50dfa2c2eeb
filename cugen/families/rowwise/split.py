"""Few long rows, and those of single elements, as several launches: one statement per reduction, each of which can use
the whole device."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.rowwise.config import choose_config, has_too_few_rows, reloads_single_elements
from cugen.families.rowwise.passes.schedule import reduction_levels
from cugen.families.rowwise.statements.recognition import NotRowwise, match_rows
from cugen.families.rowwise.statements.views import fuse_columns
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, steps_of, temporary
from cugen.spec.expressions import Expr
from cugen.spec.rewriting import rebuild


def split(single: Single) -> Steps | None:
    """One statement per reduction, then the map. None where one launch is as fast."""
    statement = single.statement
    try:
        problem = match_rows(single.request())
        fused = fuse_columns(problem)
    except NotRowwise:
        return None
    names = {index.name for index in statement.indices}
    domain_names = {index.name for index in (*problem.domain.rows, *problem.domain.columns)}
    if len(problem.outputs) != 1 or not problem.outputs[0].is_per_element:
        return None
    config = choose_config(fused)
    if domain_names != names or not (has_too_few_rows(fused, config) or reloads_single_elements(fused, config)):
        return None
    taken = taken_names(single.context.spec, statement.indices)
    stored: dict[Expr, Expr] = {}

    def with_results(expr: Expr) -> Expr:
        return stored.get(expr) or rebuild(expr, with_results)

    temporaries: list[Temporary] = []
    for reduction in (reduction for level in reduction_levels(problem.outputs) for reduction in level):
        along = ", ".join(index.name for index in reduction.indices)
        name = fresh(f"{statement.target}_{ACCUMULATORS[reduction.kind]}", taken)
        what = f"{reduction.kind} over {along}, of: {statement.text}"
        result = temporary(name, problem.domain.rows, rebuild(reduction, with_results), what, statement)
        temporaries.append(result)
        stored[reduction] = result.read
    last = replace(statement, value=with_results(problem.outputs[0].value), accumulate=False)
    return steps_of(temporaries, last, again=True)
