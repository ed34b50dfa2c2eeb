"""Skinny GEMM and GEMV: few rows of A times a large matrix B, which is read once; bound by memory bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.base import Family, Match, Refusal, Refusals, Request
from cugen.families.gemm.skinny.config import LANES, TILE_N, TUNABLES, GemvConfig, choose_config
from cugen.families.gemm.skinny.k_major import KMajorKernel
from cugen.families.gemm.skinny.n_major import NMajorKernel
from cugen.families.gemm.skinny.recognition import SkinnyGemm, recognise
from cugen.families.gemm.skinny.split_k import split
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.grid import divides
from cugen.pieces.placement import tunables_only
from cugen.spec.expressions import Reduce


def match(request: Request) -> Match | Refusals:
    """The skinny GEMM with its config, or why there is none or its schedule and placements can't be honoured."""
    reasons = tunables_only(request, TUNABLES, "has the tunables `tile_n` and `warps` in place of tile sizes")
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
    return _match(gemm, config)


def _match(gemm: SkinnyGemm, config: GemvConfig) -> Match:
    def smaller() -> Match | None:
        """Half the warps, so that each thread may have twice the registers."""
        return _match(gemm, replace(config, warps=config.warps // 2)) if config.warps > 1 else None

    builder = KMajorKernel if gemm.is_k_major else NMajorKernel
    return Match(lambda: builder(gemm, config).kernel(), smaller=smaller)


def _limit_refusals(gemm: SkinnyGemm, config: GemvConfig) -> Iterator[Refusal]:
    threads = config.warps * WARP_SIZE
    if threads > gemm.request.target.threads_per_block:
        yield Refusal(f"a block of {threads} threads is too large", "schedule.warps")
    if not gemm.is_k_major and not divides(config.tile_n, gemm.context.extent(gemm.n), gemm.context):
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
