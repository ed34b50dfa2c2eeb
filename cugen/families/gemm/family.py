"""The `gemm` family: GEMM with a multistage pipeline in shared memory, on CUDA cores and on tensor cores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.contraction.recognition import Contraction, recognise, request_refusals
from cugen.families.gemm.config import TUNABLES, Cores, TileConfig
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import requested_stages
from cugen.families.gemm.selection.heuristic import candidates, choose_config, reason
from cugen.families.gemm.split.cluster import ClusterSplitKKernel
from cugen.families.gemm.split.split_k import SplitKKernel
from cugen.families.gemm.split.stream_k import StreamKKernel
from cugen.families.gemm.tensor_cores import FIXED_TUNABLES
from cugen.plan.kernel import Kernel
from cugen.spec.expressions import Reduce

_MIN_EXTENT = 16  # of M and N (heuristic): half of the smallest block tile
_MIN_MULTIPLY_ADDS = 1 << 22  # heuristic: fewer are done before the pipeline is full


def match(request: Request) -> Match | Refusals:
    """The GEMM with its tile config, or why it is none of the form, size and placement that this family computes."""
    contraction = recognise(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    contraction = _with_staged_constants(contraction)
    reasons = [*_left_to_tiled(contraction), *_pipeline_refusals(contraction), *refuse_tunables(request, TUNABLES)]
    reasons += request_refusals(contraction)
    if reasons:
        return Refusals(tuple(reasons))
    reasons += _size_refusals(contraction)
    if request.schedule.block and not request.schedule.thread:
        block = Refusal("takes a block tile together with a thread tile (`thread`)", "schedule.block")
        return Refusals((block, *reasons))
    config = choose_config(contraction)
    if isinstance(config, Refusal):
        return Refusals((config, *reasons))
    if reasons:
        return Refusals(tuple(reasons))
    return Match(partial(_kernel, contraction, config), partial(candidates, contraction, config))


def _with_staged_constants(contraction: Contraction) -> Contraction:
    """The contraction with tiles of operands in constant memory: fragments are vectors of the tile."""
    if all(operand.memory.space != "constant" for operand in contraction.operands):
        return contraction
    a, b = (
        tuple(replace(operand, stages_constant=True) for operand in operands)
        for operands in (contraction.a_operands, contraction.b_operands)
    )
    return replace(contraction, a_operands=a, b_operands=b)


def _is_requested(contraction: Contraction) -> bool:
    """Whether the spec requests what only this family has."""
    schedule = contraction.request.schedule
    return requested_stages(contraction) > 1 or schedule.family == "gemm" or bool(schedule.tunables)


def _left_to_tiled(contraction: Contraction) -> Iterator[Refusal]:
    """What `tiled` does unless the spec requests this family, whose cost model wasn't fitted to it."""
    if _is_requested(contraction):
        return
    what = {
        "a single stage": requested_stages(contraction) == 1,
        "sums under a condition": bool(contraction.conditions),
        "several sums": len(contraction.sums) > 1,
        "several operands along one index": len(contraction.operands) > 2,
        contraction.request.target.name: contraction.request.target.shared_rule == "half_warps",  # vectors conflict
    }
    for name in filter(what.__getitem__, what):
        yield Refusal(f"leaves {name} to `tiled`, unless `family: gemm` requests it")


def _pipeline_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """What the pipeline and the tensor cores leave no choice of."""
    stages = {}
    for operand in contraction.operands:
        name = operand.read.array
        if operand.memory.space == "shared":
            stages[name] = operand.memory.stages
        elif not operand.is_staged:
            yield Refusal(f"stages its operands; {name} is kept out of shared memory", f"arrays.{name}.memory")
    if len(set(stages.values())) > 1:
        yield Refusal("takes the same number of stages of both operands", f"arrays.{next(iter(stages))}.memory")
    tunables = contraction.tunables
    if tunables.get("cores") == Cores.TENSOR or "mma_k" in tunables:
        for key in filter(tunables.__contains__, FIXED_TUNABLES):
            yield Refusal(f"{key} is fixed by the tensor-core instruction", f"schedule.{key}")


def _size_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """Small GEMMs don't fill a pipeline; they are refused unless the spec requests this family."""
    if _is_requested(contraction):
        return
    m, n, k, batch = contraction.m, contraction.n, contraction.k, contraction.batch
    if contraction.context.static_extent(k) == 1:
        yield Refusal("takes sums of several terms, and this one has a single term")
    if min(contraction.context.max_extent(m), contraction.context.max_extent(n)) < _MIN_EXTENT:
        yield Refusal(f"takes M and N of {_MIN_EXTENT} or more")
    count = math.prod(map(contraction.context.max_extent, (m, n, k, *batch)))
    if count < _MIN_MULTIPLY_ADDS:
        yield Refusal(f"pays off from {_MIN_MULTIPLY_ADDS:,} multiply-adds on; here are {count:,}")


def _kernel(contraction: Contraction, config: TileConfig) -> Kernel:
    tile_scheduler = GemmKernel
    if config.splits_tiles:
        split = ClusterSplitKKernel if config.uses_cluster else SplitKKernel
        tile_scheduler = StreamKKernel if config.stream_k else split
    kernel = tile_scheduler(contraction, config).kernel()
    return replace(kernel, reasons=(*kernel.reasons, *filter(None, (reason(contraction, config),))))


FAMILY = Family(
    "gemm",
    rank=35,
    needs=Reduce,
    doc="GEMM: multistage pipeline in shared memory, on CUDA or tensor cores",
    match=match,
    tunables=TUNABLES,
)
