"""Few rows times a large matrix, which is read once: what decoding does, and what memory alone makes slow."""

from __future__ import annotations

from cugen.families.base import Family
from cugen.families.contraction.skinny.config import TUNABLES, WARP, choose_shape
from cugen.families.contraction.skinny.k_major import build_rows
from cugen.families.contraction.skinny.n_major import build_columns
from cugen.families.contraction.skinny.recognition import Skinny, recognise
from cugen.families.contraction.skinny.split_k import split
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.grid import divides
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables


def refusals(request: Request) -> tuple[Refusal, ...]:
    found = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            found.append(Refusal("has `columns` and `warps` in place of a block and a step", f"schedule.{key}"))
    recognised = recognise(request)
    if isinstance(recognised, Refusal):
        return (*found, recognised)
    if recognised.is_deep and "lanes" in dict(request.schedule.tunables):
        found.append(Refusal("has whole warps side by side where the sum runs along memory", "schedule.lanes"))
    if not found:
        shape = choose_shape(recognised)
        if shape.warps * WARP > request.target.threads_per_block:
            found.append(Refusal(f"a block of {shape.warps * WARP} threads is too large", "schedule.warps"))
        extent = recognised.extent(recognised.many)
        if not recognised.is_deep and not divides(shape.columns, extent, request.context):
            reason = f"a thread's {shape.columns} columns don't surely divide all of them"
            found.append(Refusal(reason, "schedule.columns"))
    return tuple(found)


def build(request: Request) -> Kernel:
    found = recognise(request)
    assert isinstance(found, Skinny)
    shape = choose_shape(found)
    return build_rows(found, shape) if found.is_deep else build_columns(found, shape)


FAMILY = Family(
    "skinny",
    rank=40,
    doc="few rows times a large matrix, each element of which is read once",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    split=split,
)
