"""Tables of costly functions of few indices, where they pay, and families compute the statements as they did."""

from __future__ import annotations

from collections import Counter

from cugen.families.registry import families
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.request import Request
from cugen.rewrite.grouping import inlined_statements
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.stored.tables import is_costly, with_tables
from cugen.rewrite.temporaries import Temporary
from cugen.schedule.aliases import with_current_names
from cugen.schedule.runs import group
from cugen.schedule.splitting.prices import pays_for_tables
from cugen.schedule.splitting.single_statements import Target, is_placed, is_taken, target_of
from cugen.spec.expressions import walk
from cugen.spec.model import Spec, Statement


def with_paying_tables(spec: Spec) -> Spec:
    """The spec with tables where they take less time than computing their functions for each output, and no statement
    goes to another launch or to a family that is asked later; the same object if there are none."""
    if not any(is_costly(node) for statement in spec.statements for node in walk(statement.value)):
        return spec
    placed = {target_of(s) for s in spec.statements if s.algorithm or is_placed(s, spec)}
    written = Counter(map(target_of, spec.statements))
    whole = {target_of(s): s for s in inlined_statements(spec) if written[target_of(s)] == 1}

    def pays(statement: Statement, with_reads: Statement, tables: tuple[Temporary, ...]) -> bool:
        if target_of(statement) in placed or is_placed(statement, spec):
            return False
        return pays_for_tables(statement, with_reads, tables, spec)

    def has_operands(statement: Statement) -> bool:
        return is_taken(statement, make_context(spec))

    tabled = with_tables(spec, {s: whole.get(target_of(s), s) for s in spec.statements}, pays, has_operands)
    if tabled is spec:
        return spec
    before, after = _launches(spec), _launches(tabled)
    kept = all(rank <= after.get(targets, rank - 1) for targets, rank in before.items())
    return tabled if kept else spec


def _launches(spec: Spec) -> dict[tuple[Target, ...], int]:
    """The statements of each launch, and the rank of the family that takes them."""
    context = make_context(spec)
    grouping = group(context)
    launches: dict[tuple[Target, ...], int] = {}
    for planned in grouping.groups:
        schedule = with_current_names(schedule_of(spec, planned.statements), families())
        request = Request("", planned, context, schedule, target(spec.target), grouping.stored)
        first = next((family.rank for family in families() if family.takes(request)), 0)
        launches[tuple(map(target_of, planned.statements))] = first
    return launches
