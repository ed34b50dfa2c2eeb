"""Short reductions without loops, where a family other than the fallbacks takes the statement only so."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cugen.families.registry import families
from cugen.plan.context import Context, make_context
from cugen.rewrite.grouping import is_single_temporary
from cugen.rewrite.sums.short_reductions import without_loops
from cugen.schedule.splitting.single_statements import is_taken, single_of, steps_of
from cugen.spec.model import Memory, Spec, Statement


def with_unrolled_reductions(spec: Spec) -> Spec:
    """The spec with short reductions unrolled where a family other than the fallbacks takes the statement only then, or
    prefers it so, and none divides it into steps; the same object if there are none."""
    context, statements = make_context(spec), list[Statement]()
    for statement in spec.statements:
        unrolled = without_loops(statement, spec)
        is_better = unrolled and _is_better_unrolled(unrolled, statement, context)
        statements.append(unrolled if unrolled and is_better else statement)
    return spec.with_statements(statements)


def with_unrolled_stored_reductions(spec: Spec) -> Spec:
    """The spec with short reductions unrolled whose results are stored, hoisted ones too, where a family other than the
    fallbacks takes the statement only then: temporaries of them stay in memory. The same object if there are none."""
    context, statements, stored = make_context(spec), list[Statement](), set[str]()
    written = Counter(statement.target for statement in spec.statements)
    for statement in spec.statements:
        array = spec.array(statement.target)
        is_stored = not array.is_temporary or is_single_temporary(statement, spec, written)
        unrolled = without_loops(statement, spec, is_stored=True) if is_stored else None
        is_better = unrolled and _is_taken_only(unrolled, statement, context)
        statements.append(unrolled if unrolled and is_better else statement)
        if is_better and array.is_temporary:
            stored.add(array.name)
    spec = spec.with_statements(statements)
    arrays = tuple(replace(a, memory=Memory("scratch")) if a.name in stored else a for a in spec.arrays)
    return replace(spec, arrays=arrays) if stored else spec


def _is_better_unrolled(unrolled: Statement, statement: Statement, context: Context) -> bool:
    if not is_taken(unrolled, context):
        return False
    request = single_of(statement, context).request()
    first = next((family for family in families() if family.takes(request)), None)
    prefers = first is not None and first.prefers_terms is not None and first.prefers_terms(request)
    return prefers or _is_taken_only(unrolled, statement, context)


def _is_taken_only(unrolled: Statement, statement: Statement, context: Context) -> bool:
    """Whether a family other than the fallbacks takes a statement unrolled only, and none divides it into steps."""
    if is_taken(statement, context) or not is_taken(unrolled, context):
        return False
    return steps_of(single_of(statement, context)) is None
