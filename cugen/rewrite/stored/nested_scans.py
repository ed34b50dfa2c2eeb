"""Stores scans that are nested in scans or reductions: each would be repeated for each term.

    y[i, j] = cumsum(cumsum(x[i, j], j), i)
becomes
    y_scan[i, j] = cumsum(x[i, j], j);  y[i, j] = cumsum(y_scan[i, j], i)
and so are scans beside each other, where no launch computes all of them:
    y[i, j] = cumsum(x[i, j], j) + cumsum(z[i, j], j, reverse=true)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.temporaries import temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Reduce, Scan, children, walk
from cugen.spec.model import Array, Schedule, Spec, Statement
from cugen.spec.rewriting import replaced


def with_stored_scans(
    spec: Spec, needs_stages: Callable[[Statement, Spec], bool] = lambda statement, spec: False
) -> Spec:
    """The spec with nested scans in temporaries, and all but one of those of `needs_stages`; the same object if none is
    hoisted. Statements with a schedule stay as they are, and so do scans that a guard may keep in bounds."""
    statements: list[Statement] = []
    temporaries: list[Array] = []
    taken = taken_names(spec)
    for statement in spec.statements:
        current = statement
        while schedule_of(spec, (statement,)) == Schedule():
            known = {index.name: index for index in current.indices}
            here = replace(spec, arrays=(*spec.arrays, *temporaries))
            scans = _nested(current.value, known, is_inside=False)
            chosen = next(((scan, free) for scan, free in scans if are_in_bounds(scan, free, here)), None)
            if chosen is None and len(several := dict(_nested(current.value, known, is_inside=True))) > 1:
                first, free = next(iter(several.items()))
                is_stage = needs_stages(current, here) and are_in_bounds(first, free, here)
                chosen = (first, free) if is_stage else None
            if chosen is None:
                break
            scan, free = chosen
            what = f"scan of: {current.text}"
            stored = temporary(fresh(f"{current.target}_scan", taken), free, scan, what, current)
            statements.append(stored.statement)
            temporaries.append(stored.array)
            reads: dict[Expr, Expr] = {scan: stored.read}
            current = replace(current, value=replaced(current.value, reads.get))
        statements.append(current)
    if not temporaries:
        return spec
    return replace(spec, statements=tuple(statements), arrays=(*spec.arrays, *temporaries))


def _nested(expr: Expr, known: Mapping[str, Index], *, is_inside: bool) -> Iterator[tuple[Scan, tuple[Index, ...]]]:
    """The scans in scans and reductions, inner ones first, with their indices in the order of their use."""
    inside = dict(known)
    if isinstance(expr, Reduce | Scan):
        inside |= {index.name: index for index in (expr.indices if isinstance(expr, Reduce) else (expr.inner,))}
    for part in children(expr):
        yield from _nested(part, inside, is_inside=is_inside or isinstance(expr, Reduce | Scan))
    if is_inside and isinstance(expr, Scan):
        used = (node.name for node in walk(expr) if isinstance(node, IndexValue))
        names = dict.fromkeys([*(expr.outer if name == expr.inner.name else name for name in used), expr.outer])
        yield expr, tuple(known[name] for name in names if name in known)
