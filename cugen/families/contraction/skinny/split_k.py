"""Split-K of a skinny GEMM in two launches: partial sums over K chunks, then their reduction."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import choose_config, split_k_of
from cugen.families.contraction.skinny.recognition import SkinnyGemm, recognise
from cugen.plan.request import Group, Request, Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.align_reductions import rebuilt
from cugen.rewrite.fuse_dimensions import product
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Array
from cugen.spec.types import INT64


def split(single: Single) -> Steps | None:
    """The two statements of a split-K skinny GEMM; None if another family may split the statement.

    A GEMV that fills the device stays a single launch."""
    schedule, statement = single.schedule, single.statement
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("split_k") == 1:
        return None
    request = Request("", Group((statement,)), single.context, schedule, single.target)
    gemm = recognise(request)
    if not isinstance(gemm, SkinnyGemm):
        return None
    config = choose_config(gemm)
    if config.min_blocks_per_sm:
        return Steps((statement,), ())
    factor = split_k_of(gemm, config)
    (reduction,) = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce))
    k = request.context.static(gemm.extent(gemm.k))
    if factor < 2 or k is None or len(reduction.indices) > 1:
        return None
    taken = {array.name for array in single.context.spec.arrays} | {index.name for index in statement.indices}
    taken |= {index.name for index in reduction.indices}
    (index,) = reduction.indices
    chunk, name = _fresh("part", taken), _fresh(f"{statement.target}_parts", taken)
    chunk_k = Const(k // factor, INT64)
    k_value = Op("add", (Op("mul", (IndexValue(chunk), chunk_k), INT64), IndexValue(index.name)), INT64)
    body = substitute(reduction.body, {index.name: k_value})
    partial = replace(reduction, body=body, indices=(Index(index.name, chunk_k),))
    indices = (Index(chunk, Const(factor, INT64)), *statement.indices)
    shape = tuple(index.extent for index in indices)
    strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
    subscripts = tuple(IndexValue(index.name) for index in indices)
    text = f"{name}[{', '.join(index.name for index in indices)}] = {k // factor} terms of: {statement.text}"
    first = replace(
        statement, target=name, subscripts=subscripts, indices=indices, value=partial, text=text, accumulate=False
    )
    total = replace(reduction, body=Read(name, subscripts, reduction.dtype), indices=(indices[0],))

    def with_total(node: Expr) -> Expr | None:
        return total if node == reduction else None

    last = replace(statement, value=rebuilt(statement.value, with_total))
    array = Array(name, shape, reduction.dtype, "temporary", strides, is_temporary=True)
    return Steps((first, last), (array,), tuned=(name,), opens_last=True)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
