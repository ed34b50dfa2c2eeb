"""Skinny GEMM and GEMV: few rows of A times a large matrix B, which is read once; bound by memory bandwidth."""

from __future__ import annotations

from cugen.families.base import Family
from cugen.families.contraction.skinny.config import LANES, TILE_N, TUNABLES, choose_config
from cugen.families.contraction.skinny.k_major import build_k_major
from cugen.families.contraction.skinny.n_major import build_n_major
from cugen.families.contraction.skinny.recognition import SkinnyGemm, recognise
from cugen.families.contraction.skinny.split_k import split
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.elementwise import placement_refusals
from cugen.pieces.grid import divides
from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, refuse_tunables


def refusals(request: Request) -> tuple[Refusal, ...]:
    reasons = [*refuse_tunables(request, TUNABLES), *placement_refusals(request, {})]
    for key in ("block", "thread", "step"):
        if getattr(request.schedule, key):
            reasons.append(Refusal("has the tunables `tile_n` and `warps` in place of tile sizes", f"schedule.{key}"))
    gemm = recognise(request)
    if isinstance(gemm, Refusal):
        return (*reasons, gemm)
    if gemm.is_k_major and LANES.name in dict(request.schedule.tunables):
        reasons.append(Refusal("splits K over whole warps where B is K-major", f"schedule.{LANES.name}"))
    if not reasons:
        config = choose_config(gemm)
        threads = config.warps * WARP_SIZE
        if threads > request.target.threads_per_block:
            reasons.append(Refusal(f"a block of {threads} threads is too large", "schedule.warps"))
        if not gemm.is_k_major and not divides(config.tile_n, gemm.extent(gemm.n), request.context):
            reason = f"a thread's {config.tile_n} columns don't provably divide the extent of {gemm.n.name}"
            reasons.append(Refusal(reason, f"schedule.{TILE_N.name}"))
    return tuple(reasons)


def build(request: Request) -> Kernel:
    gemm = recognise(request)
    assert isinstance(gemm, SkinnyGemm)
    config = choose_config(gemm)
    return build_k_major(gemm, config) if gemm.is_k_major else build_n_major(gemm, config)


FAMILY = Family(
    "skinny",
    rank=40,
    doc="skinny GEMM and GEMV: M up to 16, each element of B is read once, split-K where N is small",
    refusals=refusals,
    build=build,
    tunables=TUNABLES,
    split=split,
)
