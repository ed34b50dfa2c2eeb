"""Skinny GEMM and GEMV: few rows of A times a large matrix B, which is read once; bound by memory bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.skinny.config import LANES, TILE_N, TUNABLES, GemvConfig, choose_config
from cugen.families.contraction.skinny.k_major import build_k_major
from cugen.families.contraction.skinny.n_major import build_n_major
from cugen.families.contraction.skinny.recognition import SkinnyGemm, recognise
from cugen.families.contraction.skinny.split_k import split
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.grid import divides
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    """The skinny GEMM with its config, or why there is none or its schedule and placements can't be honoured."""
    reasons = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            reasons.append(Refusal("has the tunables `tile_n` and `warps` in place of tile sizes", f"schedule.{key}"))
    gemm = recognise(request)
    if isinstance(gemm, Refusal):
        return Refusals((*reasons, gemm))
    if gemm.is_k_major and LANES.name in dict(request.schedule.tunables):
        reasons.append(Refusal("splits K over whole warps where B is K-major", f"schedule.{LANES.name}"))
    if reasons:
        return Refusals(tuple(reasons))
    config = choose_config(gemm)
    if reasons := list(_limit_refusals(gemm, config)):
        return Refusals(tuple(reasons))
    return Match(partial(build_k_major if gemm.is_k_major else build_n_major, gemm, config))


def _limit_refusals(gemm: SkinnyGemm, config: GemvConfig) -> Iterator[Refusal]:
    threads = config.warps * WARP_SIZE
    if threads > gemm.request.target.threads_per_block:
        yield Refusal(f"a block of {threads} threads is too large", "schedule.warps")
    if not gemm.is_k_major and not divides(config.tile_n, gemm.extent(gemm.n), gemm.request.context):
        reason = f"a thread's {config.tile_n} columns don't provably divide the extent of {gemm.n.name}"
        yield Refusal(reason, f"schedule.{TILE_N.name}")


FAMILY = Family(
    "skinny",
    rank=40,
    needs=Reduce,
    doc="skinny GEMM and GEMV: M up to 16, each element of B is read once, split-K where N is small",
    match=match,
    tunables=TUNABLES,
    split=split,
)
