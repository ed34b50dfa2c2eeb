"""Single results after the statements that don't need them, which then share a launch with those before.

    l[b] = sum(exp(z[b, v]), v);  loss = mean(l[b], b);  d[b, v] = z[b, v] / l[b]
becomes
    l[b] = sum(exp(z[b, v]), v);  d[b, v] = z[b, v] / l[b];  loss = mean(l[b], b)
"""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.expressions import Read, Reduce, walk
from cugen.spec.model import Spec, Statement


def with_late_totals(spec: Spec) -> Spec:
    """The spec with reductions to a single element as late as dependences allow; the same object if they are."""
    ordered: list[Statement] = []
    for statement in reversed(spec.statements):
        position = 0
        if not statement.indices and any(isinstance(node, Reduce) for node in walk(statement.value)):
            position = next((n for n, s in enumerate(ordered) if _depends(s, statement)), len(ordered))
            position = next((n for n, s in enumerate(ordered[:position]) if not s.indices), position)
        ordered.insert(position, statement)
    return spec if tuple(ordered) == spec.statements else replace(spec, statements=tuple(ordered))


def _depends(later: Statement, earlier: Statement) -> bool:
    """Whether a statement reads or overwrites what one before it writes, or overwrites what that reads."""
    read, read_before = _read(later), _read(earlier)
    return earlier.target in read or later.target in {earlier.target, *read_before}


def _read(statement: Statement) -> set[str]:
    return {node.array for node in walk(statement.value) if isinstance(node, Read)}
