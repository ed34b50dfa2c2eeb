"""Split-K of a skinny GEMM in two launches: partial sums over K chunks, then their reduction."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.gemm.skinny.config import choose_config, split_k_of
from cugen.families.gemm.skinny.recognition import SkinnyGemm, recognise
from cugen.plan.request import Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.temporaries import fresh, steps_of, temporary
from cugen.spec.expressions import Const, Index, IndexValue, Op, Reduce, walk
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64


def split(single: Single) -> Steps | None:
    """The two statements of a split-K skinny GEMM; None if another family may split the statement.

    A GEMV that fills the device stays a single launch."""
    schedule, statement = single.schedule, single.statement
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    gemm = recognise(single.request())
    if not isinstance(gemm, SkinnyGemm):
        return None
    config = choose_config(gemm)
    if config.min_blocks_per_sm:
        return Steps((statement,), ())
    factor, k = split_k_of(gemm, config), gemm.context.static_extent(gemm.k)
    (reduction,) = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce))
    if factor < 2 or k is None or len(reduction.indices) > 1:
        return None
    (index,) = reduction.indices
    taken = {array.name for array in single.context.spec.arrays} | {i.name for i in (*statement.indices, index)}
    chunk, chunk_k = Index(fresh("part", taken), Const(factor, INT64)), Const(k // factor, INT64)
    k_value = Op("add", (Op("mul", (IndexValue(chunk.name), chunk_k), INT64), IndexValue(index.name)), INT64)
    body = substitute(reduction.body, {index.name: k_value})
    partial = replace(reduction, body=body, indices=(Index(index.name, chunk_k),))
    what = f"{k // factor} terms of: {statement.text}"
    parts = temporary(fresh(f"{statement.target}_parts", taken), (chunk, *statement.indices), partial, what, statement)
    total = replace(reduction, body=parts.read, indices=(chunk,))
    last = replace(statement, value=replaced(statement.value, lambda node: total if node == reduction else None))
    return replace(steps_of((parts,), last, tuned=(parts.array.name,)), opens_last=True)
