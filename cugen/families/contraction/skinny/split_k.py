"""Sums of a product with few columns in two launches: parts that fill the device, then the parts of each result."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.skinny.config import choose_shape, wanted_parts
from cugen.families.contraction.skinny.recognition import Skinny, recognise
from cugen.plan.request import Group, Request, Single, Steps
from cugen.plan.substitution import substitute
from cugen.rewrite.align_reductions import rebuilt
from cugen.rewrite.fuse_dimensions import product
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Array
from cugen.spec.types import INT64


def split(single: Single) -> Steps | None:
    """The steps in place of a statement whose columns are too few to fill the device.

    A single row that fills it is one step, which is not for other families to split."""
    schedule, statement = single.schedule, single.statement
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("parts") == 1:
        return None
    request = Request("", Group((statement,)), single.context, schedule, single.target)
    found = recognise(request)
    if not isinstance(found, Skinny):
        return None
    spread = choose_shape(found)
    if spread.resident:
        return Steps((statement,), ())
    parts = wanted_parts(found, spread)
    (reduction,) = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce))
    depth = request.context.static(found.extent(found.depth))
    if parts < 2 or depth is None or len(reduction.indices) > 1:
        return None
    taken = {array.name for array in single.context.spec.arrays} | {index.name for index in statement.indices}
    taken |= {index.name for index in reduction.indices}
    (index,) = reduction.indices
    part, name = _fresh("part", taken), _fresh(f"{statement.target}_parts", taken)
    chunk = Const(depth // parts, INT64)
    place = Op("add", (Op("mul", (IndexValue(part), chunk), INT64), IndexValue(index.name)), INT64)
    own = replace(reduction, body=substitute(reduction.body, {index.name: place}), indices=(Index(index.name, chunk),))
    indices = (Index(part, Const(parts, INT64)), *statement.indices)
    shape = tuple(one.extent for one in indices)
    strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
    subscripts = tuple(IndexValue(one.name) for one in indices)
    text = f"{name}[{', '.join(one.name for one in indices)}] = {depth // parts} terms of: {statement.text}"
    first = replace(
        statement, target=name, subscripts=subscripts, indices=indices, value=own, text=text, accumulate=False
    )
    stored = Read(name, subscripts, reduction.dtype)
    total = replace(reduction, body=stored, indices=(indices[0],))

    def whole(node: Expr) -> Expr | None:
        return total if node == reduction else None

    last = replace(statement, value=rebuilt(statement.value, whole))
    array = Array(name, shape, reduction.dtype, "temporary", strides, is_temporary=True)
    return Steps((first, last), (array,), tuned=(name,), opens_last=True)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
