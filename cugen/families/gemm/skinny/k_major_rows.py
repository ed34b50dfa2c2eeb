"""Copies the rows of A with K last, where lanes along K of B would read them with a stride.

    y[n, m] = sum(B[n, k] * A[k, m], k)                       few m
becomes
    A_rows[m, k] = A[k, m];  y[n, m] = sum(B[n, k] * A_rows[m, k], k)
"""

from __future__ import annotations

import math
from dataclasses import replace

from cugen.families.gemm.problem import device_of
from cugen.families.gemm.skinny.recognition import SkinnyGemm
from cugen.plan.request import Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import steps_of, storing_seconds, temporary
from cugen.spec.expressions import IndexValue, Read, free_indices, walk
from cugen.spec.model import Schedule, Statement
from cugen.spec.rewriting import replaced

_MIN_GAIN = 2  # of the time that B takes to arrive, to that of the copy (heuristic)


def with_k_major_rows(single: Single, gemm: SkinnyGemm) -> Steps | None:
    """The copy and the product; None where rows are contiguous along K, aren't a plain matrix, or the copy takes about
    as long as the product."""
    statement, a, m = single.statement, gemm.a, gemm.m
    if single.schedule != Schedule() or not gemm.has_strided_rows or m is None:
        return None
    names = [sub.name for sub in a.subscripts if isinstance(sub, IndexValue)]
    is_plain = len(set(names)) == len(a.subscripts) and a.boundary is None and not a.exact
    others = [node for node in walk(gemm.reduction.body) if isinstance(node, Read) and node not in (a, gemm.b)]
    if not is_plain or others or gemm.array(a).space != "global" or gemm.reduction.where is not None:
        return None
    if gemm.reduction not in walk(statement.value) or free_indices(gemm.b) - _names(statement, gemm):
        return None  # its indices are fused ones
    indices = {index.name: index for index in (*statement.indices, *gemm.reduction.indices)}
    batch = [name for name in names if name not in (m.name, gemm.k.name)]
    dimensions = tuple(indices[name] for name in (*batch, m.name, gemm.k.name))
    device, extent = device_of(single.target), gemm.context.planned_extent
    copied = math.prod(map(extent, dimensions)) * gemm.array(a).dtype.bytes
    read = math.prod(extent(indices[name]) for name in free_indices(gemm.b)) * gemm.array(gemm.b).dtype.bytes
    if read / device.bandwidth < _MIN_GAIN * storing_seconds(copied, device):
        return None
    name = fresh(f"{a.array}_rows", taken_names(single.context.spec, indices.values()))
    what = f"{a.array} with {gemm.k.name} last, of: {statement.text}"
    rows = temporary(name, dimensions, a, what, statement, is_stored=True)
    stored = single.context.spec.array(a.array).dtype
    rows = replace(rows, array=replace(rows.array, dtype=stored))
    last = replace(statement, value=replaced(statement.value, lambda node: rows.read if node == a else None))
    return steps_of((rows,), last, splits_last=True)


def _names(statement: Statement, gemm: SkinnyGemm) -> set[str]:
    return {index.name for index in (*statement.indices, *gemm.reduction.indices)}
