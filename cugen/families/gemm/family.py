"""The `gemm` family: GEMM with a multistage pipeline in shared memory, on CUDA cores and on tensor cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

from cugen.families.base import Family, Match, Refusal, Refusals, Request, Single, Steps, refuse_tunables
from cugen.families.contraction.channels_last import with_channels_last
from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise, request_refusals
from cugen.families.contraction.unfolded_windows import with_unfolded_windows
from cugen.families.gemm.config import MIN_EXTENT_FOR_REGISTER_TILES, TILE, TUNABLES, Cores, TileConfig
from cugen.families.gemm.kernel import GemmKernel
from cugen.families.gemm.problem import device_of, problem_of, requested_stages
from cugen.families.gemm.selection.cost_model import predict
from cugen.families.gemm.selection.heuristic import candidates, choose_config, reason
from cugen.families.gemm.selection.search_space import static_extents, valid_configs
from cugen.families.gemm.split.cluster import ClusterSplitKKernel
from cugen.families.gemm.split.launch_split_k import LaunchSplitKKernel
from cugen.families.gemm.split.split_k import SplitKKernel
from cugen.families.gemm.split.stream_k import StreamKKernel
from cugen.families.gemm.tensor_cores import FIXED_TUNABLES, are_faster, describe, instruction_of, why_unsupported
from cugen.families.stencil import family as stencil
from cugen.plan.kernel import IdleUnit, Kernel
from cugen.spec.expressions import Reduce

_MIN_EXTENT = 3  # of M and N; fewer rows or columns are no tile (heuristic)
_MIN_OPERAND_ELEMENTS = 40  # caches hold fewer of the smaller operand (measured on an H100: 32 are faster, not 64)
_MIN_ELEMENTS_SHARE = Fraction(1, 8)  # of a tile, not padding; else others take less time by the model (heuristic)
_MIN_MULTIPLY_ADDS = 1 << 22  # heuristic: fewer may be done before the pipeline is full
# Of `tiled` with one accumulator per thread: its launch, and each k-tile, which waits for memory (fitted to 11 GEMMs of
# few rows or columns, cold, on an H200).
_SINGLE_STAGE_LAUNCH_SECONDS = 2.6e-6
_SINGLE_STAGE_K_TILE_SECONDS = 0.74e-6
_MAX_PLACED_K_TILES = 6  # of a small GEMM whose operands the spec places in shared memory: it asks for no pipeline


def match(request: Request) -> Match | Refusals:
    """The GEMM with its tile config, or why it is none of the form, size and placement that this family computes."""
    contraction = recognise(request, masks_padding=True, takes_windows=True)
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
    reasons += [*_latency_refusals(contraction, config), *_padding_refusals(contraction, config)]
    reasons += _window_refusals(request, contraction, config)
    if reasons:
        return Refusals(tuple(reasons))
    return _match_of(contraction, config)


def _match_of(contraction: Contraction, config: TileConfig) -> Match:
    """The kernel of a config, or of one with fewer registers where it needs too many."""

    def smaller() -> Match | None:
        following = choose_config(contraction, smaller_than=config)
        return None if isinstance(following, Refusal) else _match_of(contraction, following)

    return Match(partial(_kernel, contraction, config), partial(candidates, contraction, config), smaller)


def split(single: Single) -> Steps | None:
    """Copies of a convolution's operands in the order of a GEMM, and the GEMM of these."""
    return with_unfolded_windows(single, FAMILY.takes) or with_channels_last(single, FAMILY.takes)


def uses_tensor_cores(request: Request) -> bool:
    """Whether the request is a GEMM on tensor cores; not in parts where the spec allows tf32, which takes one
    instruction."""
    allows_tf32 = request.context.spec.precision.tf32

    def is_meant(config: TileConfig) -> bool:
        return config.mma is not None and not (allows_tf32 and config.mma.split)

    return predicted_seconds(request, is_meant) is not None


def uses_undivided_operands(request: Request) -> bool:
    """Whether the request is a GEMM on tensor cores whose operands aren't divided into parts."""
    return predicted_seconds(request, lambda config: config.mma is not None and not config.mma.split) is not None


def tensor_core_seconds(request: Request) -> float | None:
    """The predicted time of a GEMM on tensor cores; None where the request is none."""
    return predicted_seconds(request, lambda config: config.uses_tensor_cores)


def predicted_seconds(request: Request, is_meant: Callable[[TileConfig], bool] = lambda _: True) -> float | None:
    """The predicted time of a GEMM; None where the request is none, or its tile config isn't one that `is_meant`."""
    contraction = recognise(request, masks_padding=True, takes_windows=True)
    config = contraction if isinstance(contraction, Refusal) else choose_config(contraction)
    if isinstance(contraction, Refusal) or isinstance(config, Refusal) or not is_meant(config):
        return None
    predicted = predict(problem_of(contraction), config, request.target)
    return None if predicted is None else predicted.seconds


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
    """What `tiled` does unless the spec requests this family, whose cost model wasn't fitted to it. Where zeros aren't
    neutral or an operand is a window, `staged` has the single stage, and all else would have no tiles."""
    if _is_requested(contraction):
        return
    is_neutral = contraction.has_neutral_padding
    is_taken = is_neutral and not _has_window(contraction)
    what = {
        "a single stage": requested_stages(contraction) == 1,
        "several sums": is_taken and len(contraction.reductions) > 1,
        "several operands along one index": is_neutral and len(contraction.operands) > 2,
        contraction.request.target.name: contraction.request.target.shared_rule == "half_warps",  # vectors conflict
    }
    for name in filter(what.__getitem__, what):
        yield Refusal(f"leaves {name} to `{'tiled' if is_taken else 'staged'}`, unless `family: gemm` requests it")


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
    if contraction.context.static_extent(contraction.k) == 1:
        yield Refusal("takes sums of several terms, and this one has a single term")
    if _min_extent(contraction) < _MIN_EXTENT:
        yield Refusal(f"takes M and N of {_MIN_EXTENT} or more")
    k = contraction.context.static_extent(contraction.k)
    if k is not None and _min_extent(contraction) * k < _MIN_OPERAND_ELEMENTS:
        yield Refusal(f"takes operands of {_MIN_OPERAND_ELEMENTS} elements or more; caches serve fewer")


def _latency_refusals(contraction: Contraction, config: TileConfig) -> Iterator[Refusal]:
    """Small GEMMs whose k-tiles a single stage waits for in less time than the pipeline takes. Register tiles of a
    single stage are slower: they have fewer warps that wait."""
    if _is_requested(contraction) or _multiply_adds(contraction) >= _MIN_MULTIPLY_ADDS:
        return
    k = contraction.context.static_extent(contraction.k)
    if k is None:
        yield Refusal(f"pays off from {_MIN_MULTIPLY_ADDS:,} multiply-adds on, if K is known at launch only")
    elif -(-k // TILE) <= _MAX_PLACED_K_TILES and all(o.memory.space == "shared" for o in contraction.operands):
        yield Refusal("leaves a short K of operands in `memory: shared` to a single stage, unless they have `stages`")
    elif _min_extent(contraction) < MIN_EXTENT_FOR_REGISTER_TILES:
        predicted = predict(problem_of(contraction), config, contraction.request.target)
        waits = _SINGLE_STAGE_LAUNCH_SECONDS + -(-k // TILE) * _SINGLE_STAGE_K_TILE_SECONDS
        if predicted is None or predicted.seconds > waits:
            yield Refusal("takes longer than a single stage, whose k-tiles are few, waits for memory")


def _padding_refusals(contraction: Contraction, config: TileConfig) -> Iterator[Refusal]:
    """Batches of matrices so small that tiles of this family are mostly padding, where `tiled` has smaller ones,
    or a thread for each output takes less time."""
    is_taken = contraction.has_neutral_padding and not _has_window(contraction) and not config.uses_tensor_cores
    if _is_requested(contraction) or not is_taken or config.splits_tiles:
        return
    share = Fraction(1)
    for index, size in ((contraction.m, config.block_m), (contraction.n, config.block_n)):
        share *= Fraction(min(contraction.context.max_extent(index), size), size)
    if share < _MIN_ELEMENTS_SHARE:
        tile = f"{config.block_m} x {config.block_n}"
        yield Refusal(f"would spend {float(1 - share):.0%} of the multiply-adds of {tile} tiles on padding")


def _window_refusals(request: Request, contraction: Contraction, config: TileConfig) -> Iterator[Refusal]:
    """Convolutions of which register windows are faster: those with few features, and many outputs of each."""
    if _is_requested(contraction) or not _has_window(contraction):
        return
    problem = problem_of(contraction)
    predicted = predict(problem, config, contraction.request.target)
    windows = stencil.predict(request, problem.m * problem.n * problem.batch)
    if windows is not None and (predicted is None or windows < predicted.seconds):
        yield Refusal("takes longer than register windows by the cost models")


def _has_window(contraction: Contraction) -> bool:
    return any(operand.window is not None for operand in contraction.operands)


def _min_extent(contraction: Contraction) -> int:
    return min(map(contraction.context.max_extent, (contraction.m, contraction.n)))


def _multiply_adds(contraction: Contraction) -> int:
    indices = contraction.indices
    return math.prod(map(contraction.context.max_extent, indices))


def _kernel(contraction: Contraction, config: TileConfig) -> Kernel:
    tile_scheduler = GemmKernel
    if config.splits_tiles:
        is_static = None not in static_extents(contraction)
        through_workspace = SplitKKernel if is_static else LaunchSplitKKernel
        split = ClusterSplitKKernel if config.uses_cluster else through_workspace
        tile_scheduler = StreamKKernel if config.stream_k else split
    kernel = tile_scheduler(contraction, config).kernel()
    unit = describe(config.mma, device_of(contraction.request.target)) if config.mma is not None else ""
    reasons = (*kernel.reasons, *filter(None, (unit, reason(contraction, config))))
    return replace(kernel, reasons=reasons, idle_unit=_idle_unit(contraction, config))


def _idle_unit(contraction: Contraction, config: TileConfig) -> IdleUnit | None:
    """Tensor cores for the types of the sums, where a config leaves them idle."""
    instruction = instruction_of(contraction)
    if config.uses_tensor_cores or instruction is None:
        return None
    tunables = contraction.tunables
    fixed = [key for key in FIXED_TUNABLES if key in tunables]
    reason = why_unsupported(contraction)
    if not reason and tunables.get("cores") == Cores.CUDA:
        reason = "`cores: cuda` requests CUDA cores"
    elif not reason and fixed:
        reason = f"`{fixed[0]}` is a tunable of CUDA cores"
    elif not reason and not are_faster(device_of(contraction.request.target), instruction):
        reason = "CUDA cores are as fast or faster by their peaks"
    elif not reason:
        fits = any(valid.uses_tensor_cores for valid in valid_configs(contraction))
        reason = "CUDA cores are faster by the cost model" if fits else "none of their tiles fits the schedule"
    return IdleUnit(instruction.peak, reason)


FAMILY = Family(
    "gemm",
    rank=35,
    needs=Reduce,
    doc="GEMM: multistage pipeline in shared memory, on CUDA or tensor cores",
    match=match,
    tunables=TUNABLES,
    split=split,
    predicted_seconds=predicted_seconds,
)
