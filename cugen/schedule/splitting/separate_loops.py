"""Stores reductions and scans of a statement that other families compute each better than one computes all, or what a
fallback alone computes together with a single one.

    y[m, n] = sum(a[m, k] * b[k, n], k) + sum(w[r] * x[m, n + r - 2], r)
becomes
    y_loop[m, n] = sum(w[r] * x[m, n + r - 2], r);  y[m, n] = sum(a[m, k] * b[k, n], k) + y_loop[m, n]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.registry import first_family
from cugen.plan.context import make_context
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds, at_typical_sizes, elements
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.schedule.runs import is_as_fast, reduced_arrays
from cugen.schedule.splitting.single_statements import is_placed, single_of, steps_of, term_count
from cugen.spec.expressions import Expr, Index, Reduce, Scan, children, free_indices
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced

_MIN_TERMS = 1 << 22  # of a loop that takes longer than a launch (heuristic)
_MIN_TERMS_OF_A_RESULT = 32  # of the longest loop, which outweigh the store and load of results (heuristic)


def with_separate_loops(spec: Spec) -> Spec:
    """The spec with all such loops but one in temporaries, all where no family takes one with the others read; the same
    object if there are none."""
    arrays, statements = spec.arrays, list[Statement]()
    for statement in spec.statements:
        stored = _stored_loops(statement, replace(spec, arrays=arrays))
        reads: dict[Expr, Expr] = {temporary.statement.value: temporary.read for temporary in stored}
        arrays += tuple(temporary.array for temporary in stored)
        statements += (temporary.statement for temporary in stored)
        statements.append(replace(statement, value=replaced(statement.value, reads.get)) if stored else statement)
    return spec if arrays == spec.arrays else replace(spec, arrays=arrays, statements=tuple(statements))


def _stored_loops(statement: Statement, spec: Spec) -> tuple[Temporary, ...]:
    """The loops of all indices that are stored."""
    names = {index.name for index in statement.indices}
    loops = [loop for loop in dict.fromkeys(_outermost(statement.value)) if _indices_of(loop) >= names]
    if not loops or loops == [statement.value] or is_placed(statement, spec):
        return ()
    typical, taken = at_typical_sizes(spec), taken_names(spec, statement.indices)
    stages = [_stage(loop, statement, taken) for loop in loops]
    is_large = any(term_count(stage.statement, typical) >= _MIN_TERMS for stage in stages)
    if not is_large or not all(are_in_bounds(loop, statement.indices, spec) for loop in loops):
        return ()
    single = single_of(statement, make_context(spec))
    is_single, family = len(loops) == 1, first_family(single.request())
    has_family = family is not None and not family.fallback
    longest = max(elements(_bound(loop), typical) or 0 for loop in loops)
    if (has_family and is_single) or ((has_family or is_single) and longest < _MIN_TERMS_OF_A_RESULT):
        return ()
    if (family is None or family.fallback) and (split := steps_of(single)) is not None and not split[0].fallback:
        return ()
    context = make_context(replace(spec, arrays=(*spec.arrays, *(stage.array for stage in stages))))
    alone = [first_family(single_of(stage.statement, context).request()) for stage in stages]
    suitable = [part for part in alone if part is not None and not part.fallback]
    if len(suitable) < len(stages):
        return ()

    def shares_passes(number: int) -> bool:
        others = tuple(stage.statement for n, stage in enumerate(stages) if n != number)
        return bool(reduced_arrays((stages[number].statement,)) & reduced_arrays(others))

    if all(is_as_fast(family, part, is_related=True, share_passes=shares_passes(n)) for n, part in enumerate(suitable)):
        return ()
    for last in sorted(range(len(loops)), key=lambda n: -suitable[n].rank):
        stored = tuple(stage for n, stage in enumerate(stages) if n != last)
        reads: dict[Expr, Expr] = {stage.statement.value: stage.read for stage in stored}
        remaining = replace(statement, value=replaced(statement.value, reads.get))
        if first_family(single_of(remaining, context).request()) is suitable[last]:
            return stored
    return tuple(stages)


def _stage(loop: Reduce | Scan, statement: Statement, taken: set[str]) -> Temporary:
    kind = loop.kind if isinstance(loop, Reduce) else "scan"
    what = f"{kind} of: {statement.text}"
    name = fresh(f"{statement.target}_{kind}", taken)
    return temporary(name, statement.indices, loop, what, statement, is_stored=True)


def _outermost(expr: Expr) -> Iterator[Reduce | Scan]:
    """The reductions and scans that are in no other one."""
    if isinstance(expr, Reduce | Scan):
        yield expr
    else:
        for part in children(expr):
            yield from _outermost(part)


def _bound(loop: Reduce | Scan) -> tuple[Index, ...]:
    return loop.indices if isinstance(loop, Reduce) else (loop.inner,)


def _indices_of(loop: Reduce | Scan) -> frozenset[str]:
    return free_indices(loop) | ({loop.outer} if isinstance(loop, Scan) else frozenset())
