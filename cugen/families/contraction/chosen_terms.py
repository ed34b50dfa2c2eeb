"""Makes conditions on data choices of the terms that are reduced, so that the loop itself is unconditional.

    d[i, j] = sum(1, k, where=x[i, k] != y[j, k])
becomes
    d[i, j] = sum(1 if x[i, k] != y[j, k] else 0, k)
"""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.lowering.reductions import identity
from cugen.spec.expressions import Expr, Read, Reduce, Select, conjunction, conjuncts, walk
from cugen.spec.model import Statement
from cugen.spec.rewriting import rebuild


def with_chosen_terms(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements with the identity of each sum, minimum and maximum in place of terms that data masks."""
    return tuple(replace(statement, value=_changed(statement.value)) for statement in statements)


def _changed(expr: Expr) -> Expr:
    result = rebuild(expr, _changed)
    if not isinstance(result, Reduce) or result.kind not in ("sum", "min", "max"):
        return result
    conditions = conjuncts(result.where)
    on_data = [condition for condition in conditions if any(isinstance(node, Read) for node in walk(condition))]
    if not on_data:
        return result
    chosen = conjunction(on_data)
    assert chosen is not None
    term = Select(chosen, result.body, identity(result.kind, result.dtype), result.dtype)
    return replace(result, body=term, where=conjunction(c for c in conditions if c not in on_data))
