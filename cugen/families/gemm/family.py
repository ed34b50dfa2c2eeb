"""The `gemm` family: GEMM with a multistage pipeline in shared memory, on CUDA cores and on tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cugen.families.base import Family
from cugen.families.contraction.recognition import Contraction, recognise
from cugen.families.gemm.config import TUNABLES, Cores, TileConfig
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import max_extent
from cugen.families.gemm.selection.heuristic import candidates, choose_config, reason
from cugen.families.gemm.selection.search_space import k_tiles_of, stream_k_schedule_of
from cugen.families.gemm.split.cluster import ClusterSplitKKernel
from cugen.families.gemm.split.split_k import SplitKKernel
from cugen.families.gemm.split.stream_k import StreamKKernel
from cugen.plan.kernel import Kernel
from cugen.plan.request import Match, Refusal, Refusals, Request, refuse_tunables
from cugen.spec.expressions import Reduce

_MIN_EXTENT = 16  # of M and N (heuristic): half of the smallest block tile
_MIN_MULTIPLY_ADDS = 1 << 22  # heuristic: fewer are done before the pipeline is full


def match(request: Request) -> Match | Refusals:
    """The GEMM with its tile config, or why it is none of the form, size and placement that this family computes."""
    contraction = recognise(request)
    if isinstance(contraction, Refusal):
        return Refusals((contraction,))
    reasons = [*_form_refusals(contraction), *_placement_refusals(contraction), *refuse_tunables(request, TUNABLES)]
    if reasons:
        return Refusals(tuple(reasons))
    reasons += _schedule_refusals(contraction)
    if request.schedule.block and not request.schedule.thread:
        reasons.append(Refusal("takes a block tile together with a thread tile (`thread`)", "schedule.block"))
        return Refusals((*reasons, *_size_refusals(contraction)))
    config = choose_config(contraction)
    if isinstance(config, Refusal):
        return Refusals((*reasons, config, *_size_refusals(contraction)))
    reasons += _size_refusals(contraction)
    if reasons:
        return Refusals(tuple(reasons))
    return Match(partial(_kernel, contraction, config), partial(candidates, contraction, config))


def _form_refusals(contraction: Contraction) -> Iterator[Refusal]:
    if len(contraction.sums) > 1 or len(contraction.operands) > 2:
        yield Refusal("takes one sum over two operands")
    if contraction.conditions:
        yield Refusal("takes sums over all of K, without a condition")


def _placement_refusals(contraction: Contraction) -> Iterator[Refusal]:
    request = contraction.request
    operands = {operand.read.array for operand in contraction.operands}
    stages = {}
    for array in request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name not in operands:
            if memory.space == "shared" or (memory.space == "register" and array.role != "temporary"):
                yield Refusal(f"stages its operands only; {array.name} is none", key)
        elif memory.space == "shared":
            if memory.stages < 2:
                yield Refusal(f"takes 2 or more stages of {array.name}, not one", key)
            if memory.swizzle:
                yield Refusal(f"loads {array.name} as vectors, which a swizzle would break", key)
            stages[array.name] = memory.stages
        elif memory.space not in (None, "scratch"):
            yield Refusal(f"stages its operands; {array.name} is kept out of shared memory", key)
    if len(set(stages.values())) > 1:
        yield Refusal("takes the same number of stages of both operands", f"arrays.{next(iter(stages))}.memory")


def _schedule_refusals(contraction: Contraction) -> Iterator[Refusal]:
    schedule = contraction.request.schedule
    mn_names = {contraction.m.name, contraction.n.name}
    for key, sizes, allowed in (
        ("block", schedule.block, mn_names),
        ("thread", schedule.thread, mn_names),
        ("step", schedule.step, {contraction.k.name}),
    ):
        for name, size in sizes:
            if name not in allowed and size != 1:
                expected = " and ".join(sorted(allowed))
                yield Refusal(f"{key} sizes are for {expected}, not for {name}", f"schedule.{key}.{name}")
    tunables = dict(schedule.tunables)
    if tunables.get("cores") == Cores.TENSOR or "mma_k" in tunables:
        for key in ("lanes", "order", "addressing", "prefetch"):
            if key in tunables:
                yield Refusal(f"{key} is fixed by the tensor-core instruction", f"schedule.{key}")


def _size_refusals(contraction: Contraction) -> Iterator[Refusal]:
    """Small GEMMs don't fill a pipeline; they are refused unless the spec requests what only this family has."""
    request = contraction.request
    spec, schedule = request.context.spec, request.schedule
    has_stages = any(spec.array(operand.read.array).memory.stages > 1 for operand in contraction.operands)
    if has_stages or schedule.family == "gemm" or schedule.tunables:
        return
    m, n, k, batch = contraction.m, contraction.n, contraction.k, contraction.batch
    if min(max_extent(contraction, m.name), max_extent(contraction, n.name)) < _MIN_EXTENT:
        yield Refusal(f"takes M and N of {_MIN_EXTENT} or more")
    count = 1
    for index in (m, n, k, *batch):
        count *= max_extent(contraction, index.name)
    if count < _MIN_MULTIPLY_ADDS:
        yield Refusal(f"pays off from {_MIN_MULTIPLY_ADDS:,} multiply-adds on; here are {count:,}")


def _kernel(contraction: Contraction, config: TileConfig) -> Kernel:
    why = reason(contraction, config)
    if config.stream_k:
        schedule = stream_k_schedule_of(contraction, config)
        assert schedule is not None
        return StreamKKernel(contraction, config, schedule, why).kernel()
    if config.uses_cluster:
        k_tiles = k_tiles_of(contraction, config)
        assert k_tiles is not None
        return ClusterSplitKKernel(contraction, config, k_tiles, why).kernel()
    return (GemmKernel if config.split_k == 1 else SplitKKernel)(contraction, config, why).kernel()


FAMILY = Family(
    "gemm",
    rank=35,
    needs=Reduce,
    doc="GEMM: multistage pipeline in shared memory, on CUDA cores; on tensor cores for float64",
    match=match,
    tunables=TUNABLES,
)
