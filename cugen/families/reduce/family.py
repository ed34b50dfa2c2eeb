"""Reductions that read each element for one result: threads share rows, or columns, as memory lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family
from cugen.families.reduce.columns import ColumnShape, build_columns
from cugen.families.reduce.config import TUNABLES, aligned, count, reasons, shape_of
from cugen.families.reduce.recognition import Reduction, recognise
from cugen.families.reduce.rows import RowShape, build_rows
from cugen.families.reduce.short_rows import ShortShape, build_short
from cugen.families.reduce.split import split
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.kernels import assemble, new_lowering
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `threads` and `rows` in place of a block and a step", f"schedule.{key}"))
    recognised = recognise(request)
    if isinstance(recognised, Refusal):
        return (*found, recognised)
    if found:
        return tuple(found)
    return tuple(_size_refusals(request, recognised))


def _size_refusals(request: Request, found: Reduction) -> Iterator[Refusal]:
    asked = dict(request.schedule.tunables)
    if len(found.stages) > 1 and not found.along and request.schedule.family != "reduce":
        yield Refusal("walks along a row once; with a result of it in the terms of another, the row is better kept")
    shape = shape_of(found)
    if int(asked.get("vector", 1)) > shape.width:
        (why,) = reasons(found, shape)[1:]
        yield Refusal(f"a thread loads at most {shape.width} elements at once: {why}", "schedule.vector")
    if isinstance(shape, ShortShape):
        return
    if isinstance(shape, ColumnShape):
        threads = shape.threads * shape.across
        if threads < 32 and count(found, found.kept) > 32 and request.schedule.family != "reduce":
            yield Refusal(f"so few neighbours along {found.along} leave lanes of a warp without work")
    else:
        threads = shape.threads * shape.across * shape.teams
        if shape.threads > 32 and int(asked.get("rows", 1)) > 1:
            yield Refusal("a block has several rows only where a warp or less has each", "schedule.rows")
            return
    if threads > request.target.threads_per_block:
        yield Refusal(f"a block of {threads} threads is too large", "schedule.rows")


def build(request: Request) -> Kernel:
    found = recognise(request)
    assert not isinstance(found, Refusal)
    lowering = new_lowering(request)
    lowering.arrays = found.arrays
    shape = shape_of(found)
    match shape:
        case RowShape():
            built = build_rows(found, lowering, shape)
        case ColumnShape():
            built = build_columns(found, lowering, shape)
        case ShortShape():
            built = build_short(found, lowering, shape)
    kernel = assemble(
        request, lowering, "reduce", built.parts, built.grid, built.block, alignments=aligned(found, shape)
    )
    return replace(kernel, reasons=reasons(found, shape))


FAMILY = Family(
    "reduce",
    rank=15,
    doc="reductions that read each element for one result: threads share rows, or columns, as memory lies",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    split=split,
)
