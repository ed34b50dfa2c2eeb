"""Sums over several indices as a GEMM for each value of one of them, whose results are added.

    c[m, n] = sum(a[b, m, k] * d[b, n, k], b, k)
becomes
    c_parts[b, m, n] = sum(a[b, m, k] * d[b, n, k], k);  c[m, n] = sum(c_parts[b, m, n], b)
so that no operand is copied, as its K is one index. A sum has no more roundings then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, prod

from cugen.plan.context import make_context
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import factors_of
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, MIN_MULTIPLY_ADDS, Temporary, steps_of, temporary
from cugen.spec.expressions import Expr, Index, Reduce, Scan, free_indices, walk
from cugen.spec.model import Array, Schedule, Statement
from cugen.spec.rewriting import replaced

_MIN_TERMS = 32  # of a part, whose arithmetic outweighs its store and load (heuristic)


def with_batched_parts(single: Single, takes: Callable[[Request], bool], stored: Steps | None) -> Steps | None:
    """The launch of the GEMMs, and that of their sum; None where a special family takes the sum as it is, where none
    `takes` the first, and where the parts move as many bytes as the operands that `stored` copies."""
    statement, extent = single.statement, single.context.planned_extent
    loops = list(dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    if len(reduction.indices) < 2 or single.schedule != Schedule():
        return None
    outputs = tuple(index for index in statement.indices if index.name in free_indices(reduction))
    if prod(map(extent, (*outputs, *reduction.indices))) < MIN_MULTIPLY_ADDS:
        return None
    if takes(single.request()) or single.is_specialised(single.request()):
        return None
    limit = min(MAX_TEMPORARY_BYTES, inf if stored is None else sum(_bytes(a, single) for a in stored.temporaries))
    for batch in sorted(reduction.indices, key=extent):
        others = tuple(index for index in reduction.indices if index is not batch)
        size = prod(map(extent, (batch, *outputs))) * reduction.dtype.bytes
        if _has_factor_of_parts(reduction, batch, others):
            continue
        if extent(batch) > 1 and size < limit and prod(map(extent, others)) >= _MIN_TERMS:
            steps = _steps(single, reduction, batch.name)
            if takes(_first_request(single, steps)):
                return steps
    return None


def _has_factor_of_parts(reduction: Reduce, batch: Index, others: Sequence[Index]) -> bool:
    """Whether a factor is the same for all terms of a part, each of which would be multiplied by it."""
    names = {index.name for index in others}
    return any(batch.name in factor.indices and not factor.indices & names for factor in factors_of(reduction.body))


def _steps(single: Single, reduction: Reduce, name: str) -> Steps:
    """The steps with parts for each value of the summed index of a name."""
    (batch,) = (index for index in reduction.indices if index.name == name)
    parts, total = stored_parts(single.statement, reduction, batch, taken_names(single.context.spec))
    return steps_of((parts,), total, again=True)


def stored_parts(statement: Statement, reduction: Reduce, batch: Index, taken: set[str]) -> tuple[Temporary, Statement]:
    """The parts of a statement's sum for each value of one of its indices, and the statement with their sum. The name
    of the parts is none of those `taken`, and becomes one."""
    part = replace(reduction, indices=tuple(index for index in reduction.indices if index != batch))
    outputs = (index for index in statement.indices if index.name in free_indices(reduction))
    what = f"sum over {', '.join(index.name for index in part.indices)}, of: {statement.text}"
    name = fresh(f"{statement.target}_parts", taken)
    parts = temporary(name, (batch, *outputs), part, what, statement, is_stored=True)
    total: dict[Expr, Expr] = {reduction: replace(reduction, body=parts.read, indices=(batch,))}
    return parts, replace(statement, value=replaced(statement.value, total.get))


def _first_request(single: Single, steps: Steps) -> Request:
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    return replace(single, context=context, statement=steps.statements[0]).request(steps.open)


def _bytes(array: Array, single: Single) -> int:
    context = make_context(replace(single.context.spec, arrays=(*single.context.spec.arrays, array)))
    return prod(map(context.planned, context.arrays[array.name].shape)) * array.dtype.bytes
