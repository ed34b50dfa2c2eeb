"""Tile configs that a spec's schedule leaves open: tiles, stages, split-K and stream-K; and why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, product
from math import prod

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import (
    CLUSTER_SIZES,
    LAUNCH_SPLIT_K_VALUES,
    MIN_K_TILES_PER_RANGE,
    SPLIT_K_VALUES,
    STREAM_K_VALUES,
    Cores,
    Order,
    Reduction,
    Stores,
    TileConfig,
    with_lane_layout,
    with_stages,
)
from cugen.families.gemm.problem import (
    device_of,
    problem_of,
    registers_with_copies,
    registers_with_prologue,
    requested_stages,
    why_invalid,
    why_invalid_variant,
)
from cugen.families.gemm.selection.candidate_tiles import EVEN_K, stage_counts, tile_configs
from cugen.families.gemm.selection.cost_model import is_loop_cached, resident_blocks_per_sm, store_overhead
from cugen.families.gemm.selection.ineffective_tunables import ineffective_tunable
from cugen.families.gemm.stream_k_schedule import StreamKSchedule, schedule_stream_k
from cugen.machine.features import CLUSTERS, SPIN_WAITS
from cugen.plan.request import Refusal

_MAX_PADDED = 0.95  # of a K that another BK pads, over that of the tile's own (heuristic: their copies are slower)
_MAX_UNROLLED_INSTRUCTIONS = 4096  # of terms in a k-tile, 64 KiB: half of the instruction cache's 128 (heuristic)
_MAX_RANKED_STAGES = 3  # valid stage counts of a tile that are ranked without a search (heuristic)


def valid_configs(contraction: Contraction, *, all_stages: bool = False) -> Iterator[TileConfig]:
    """Configs that the schedule allows and that fit the target, in order of preference."""
    for stage_variants in _requested_configs(contraction):
        valid = (c for c in stage_variants if not why_invalid(contraction, c) and not _why_slow(contraction, c))
        for config in islice(valid, None if all_stages else _MAX_RANKED_STAGES):
            for variant in _with_stores(contraction, config):
                yield from _with_split_k(contraction, variant)
                yield from _with_stream_k(contraction, variant)


def _why_slow(contraction: Contraction, config: TileConfig) -> str:
    """Why a tile that the schedule leaves open is none to choose: its copies exceed a thread's registers, or its terms
    the instruction cache; empty if it may be."""
    problem, target = problem_of(contraction), contraction.request.target
    if contraction.request.schedule.block:
        return ""
    registers = registers_with_copies(problem, config)
    if config.uses_tensor_cores:
        registers = max(registers, registers_with_prologue(problem, config))
    if registers > target.registers_per_thread:
        return f"copies to a tile exceed a thread's registers on {target.name}"
    terms = problem.sums * config.thread_m * config.thread_n * config.warp_k
    if problem.term_instructions > 1 and terms * problem.term_instructions > _MAX_UNROLLED_INSTRUCTIONS:
        return "the instructions of its terms, unrolled over a tile, exceed the instruction cache"
    return ""


def why_empty(contraction: Contraction) -> Refusal:
    """Why no config is valid."""
    for config in valid_configs(contraction):
        if refusal := ineffective_tunable(contraction, config):
            return refusal
    return Refusal(_why_none_fits(contraction), "schedule.block" if contraction.request.schedule.block else "")


def _requested_configs(contraction: Contraction) -> Iterator[Iterator[TileConfig]]:
    """Candidate tiles with everything that the schedule sets, each with its possible numbers of stages."""
    tunables = contraction.tunables
    stages = int(tunables.get("stages", requested_stages(contraction)))
    requested = (_as_requested(contraction, candidate) for candidate in _candidates(contraction))
    for config in dict.fromkeys(config for config in requested if config is not None):
        counts = (stages,) if stages else stage_counts(config)
        yield (with_stages(config, count, tunables) for count in counts)


def _candidates(contraction: Contraction) -> Iterator[TileConfig]:
    """Candidate tiles of the requested cores; by default of tensor cores, too, where these are faster."""
    tunables, device = contraction.tunables, device_of(contraction.request.target)
    cores = tunables.get("cores", Cores.TENSOR if "mma_k" in tunables else "")
    instruction = tensor_cores.instruction_of(contraction, int(tunables.get("mma_k", 4)))
    if instruction is not None:
        is_supported = not tensor_cores.why_unsupported(contraction)
        is_free = not cores and not tunables.keys() & tensor_cores.FIXED_TUNABLES
        prefers_tensor = is_supported and is_free and tensor_cores.are_faster(device, instruction)
        if cores == Cores.TENSOR or prefers_tensor:
            yield from tile_configs(instruction)
    if cores != Cores.TENSOR:
        yield from tile_configs(None)
        yield from _with_small_residue(contraction)


def _with_small_residue(contraction: Contraction) -> Iterator[TileConfig]:
    """Tiles with another BK, where that pads a short K by considerably less: the largest whose loop stays in the
    instruction cache."""
    k = static_extents(contraction)[2]
    if not k or contraction.request.schedule.step:
        return

    def padded(block_k: int) -> int:
        return -(-k // block_k) * block_k

    problem, shortest_k = problem_of(contraction), min(map(padded, EVEN_K))
    for config in tile_configs(None):
        if config.sliced_k == 1 and config.block_k in EVEN_K and shortest_k < _MAX_PADDED * padded(config.block_k):
            smallest, *others = (replace(config, block_k=size) for size in EVEN_K if padded(size) == shortest_k)
            yield max((c for c in others if is_loop_cached(problem, c)), key=lambda c: c.block_k, default=smallest)


def _as_requested(contraction: Contraction, candidate: TileConfig) -> TileConfig | None:
    """The candidate with the sizes and tunables of the schedule; None if these don't divide the tile."""
    schedule = contraction.request.schedule
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    tunables, m, n = contraction.tunables, contraction.m.name, contraction.n.name
    config = replace(
        candidate,
        block_m=block.get(m, candidate.block_m),
        block_n=block.get(n, candidate.block_n),
        thread_m=thread.get(m, candidate.thread_m),
        thread_n=thread.get(n, candidate.thread_n),
        block_k=step.get(contraction.k.name, candidate.block_k),
        sliced_k=int(tunables.get("sliced_k", 1 if block else candidate.sliced_k)),
        order=Order(str(tunables.get("order", candidate.order))),
        raster=int(tunables.get("raster", candidate.raster)),
        blocks_per_sm=int(tunables.get("blocks_per_sm", candidate.blocks_per_sm)),
        stream_k=int(tunables.get("stream_k", 0)),
        stores=Stores(str(tunables.get("stores", candidate.stores))),
    )
    if config.block_m % config.thread_m or config.block_n % config.thread_n:
        return None
    if config.mma is not None:
        return tensor_cores.with_mma_layout(config, config.mma)
    return with_lane_layout(config, int(tunables.get("lanes", 0)))


def _with_stores(contraction: Contraction, config: TileConfig) -> Iterator[TileConfig]:
    """The config, and the same with stores through shared memory where those from registers are not coalesced."""
    yield config
    if config.exchanges_in_shared or "stores" in contraction.tunables:
        return
    if store_overhead(problem_of(contraction), config) > 1:
        through_shared = replace(config, stores=Stores.SHARED)
        if not why_invalid_variant(problem_of(contraction), through_shared, contraction.request.target):
            yield through_shared


def _with_split_k(contraction: Contraction, config: TileConfig) -> Iterator[TileConfig]:
    """The config with each split-K that is valid and fits the target; none where stream-K is requested."""
    if 0 not in _stream_k_values(contraction):
        return
    problem, target = problem_of(contraction), contraction.request.target
    for split_k, reduction in _splits(contraction, config.block_k):
        split = replace(config, split_k=split_k, reduction=reduction) if split_k > 1 else config
        if split.uses_cluster and config.stores == Stores.SHARED and "stores" not in contraction.tunables:
            continue  # a cluster stores from shared memory anyway
        if split_k == 1 or not why_invalid_variant(problem, split, target):
            yield split


def _with_stream_k(contraction: Contraction, config: TileConfig) -> Iterator[TileConfig]:
    """The config with each stream-K that distributes its tiles in another way."""
    values = _stream_k_values(contraction)
    if not any(values) or why_no_stream_k(contraction):
        return
    previous: StreamKSchedule | None = None
    split, target = replace(config, stream_k=1), contraction.request.target
    is_valid = not why_invalid_variant(problem_of(contraction), split, target)
    resident = _resident_blocks(contraction, split)
    for waves in filter(None, values):
        schedule = _stream_k_schedule(contraction, config, resident, waves)
        if schedule is None:
            return
        if not schedule.needs_fix_up:  # whole tiles only, as without stream-K
            if 0 not in values:
                yield replace(config, stream_k=0)
        elif is_valid and schedule != previous:
            yield replace(config, stream_k=waves)
        previous = schedule


@lru_cache(maxsize=256)
def _splits(contraction: Contraction, block_k: int) -> tuple[tuple[int, Reduction], ...]:
    """The divisions of K that are possible whatever the tile's other sizes."""
    pairs = product(_split_k_values(contraction), _reductions(contraction))
    splits = dict.fromkeys((count, reduction if count > 1 else Reduction.WORKSPACE) for count, reduction in pairs)
    return tuple(split for split in splits if not _why_not_split(contraction, block_k, *split))


def _split_k_values(contraction: Contraction) -> tuple[int, ...]:
    requested = contraction.tunables.get("split_k", 1 if contraction.request.schedule.block else 0)
    if requested or not SPIN_WAITS.is_on(contraction.request.target):
        return (int(requested or 1),)
    return LAUNCH_SPLIT_K_VALUES if None in static_extents(contraction) else SPLIT_K_VALUES


def _reductions(contraction: Contraction) -> tuple[Reduction, ...]:
    requested = contraction.tunables.get("reduction")
    return (Reduction(str(requested)),) if requested else tuple(Reduction)


def _stream_k_values(contraction: Contraction) -> tuple[int, ...]:
    requested = contraction.tunables
    if "stream_k" in requested:
        return (int(requested["stream_k"]),)
    return (0,) if contraction.request.schedule.block or "split_k" in requested else STREAM_K_VALUES


def _why_not_split(contraction: Contraction, block_k: int, split_k: int, reduction: Reduction) -> str:
    """Why K can't be split like that, whatever the tile's other sizes; empty if it can."""
    if split_k == 1:
        return ""
    if reason := _why_undivided(contraction):
        return reason
    k = static_extents(contraction)[2]
    if reduction != Reduction.CLUSTER:
        if None in static_extents(contraction):
            return _why_not_split_at_launch(contraction, block_k, split_k)
        if not k or k % (split_k * block_k):
            return f"split-K through the workspace needs a K that {split_k} x {block_k} divides"
        return SPIN_WAITS.why_not(contraction.request.target)
    if reason := CLUSTERS.why_not(contraction.request.target):
        return reason
    if split_k not in CLUSTER_SIZES:
        sizes = f"{', '.join(map(str, CLUSTER_SIZES[:-1]))} or {CLUSTER_SIZES[-1]}"
        return f"split-K in a cluster is over {sizes} blocks, not {split_k}"
    if k is None:
        return "split-K in a cluster needs a static K"
    k_tiles = -(-k // block_k)
    if k_tiles < 2 * split_k:
        return f"each of {split_k} blocks of a cluster needs 2 k-tiles or more; K has {k_tiles} k-tiles of {block_k}"
    return ""


def _why_not_split_at_launch(contraction: Contraction, block_k: int, split_k: int) -> str:
    """Why K can't be split by sizes that are known at launch; empty if it can."""
    if None in map(contraction.context.typical_extent, contraction.indices):
        return "split-K of sizes that are known at launch needs a default of each"
    if problem_of(contraction).k < split_k * MIN_K_TILES_PER_RANGE * block_k:
        return f"each of {split_k} ranges of K needs {MIN_K_TILES_PER_RANGE} k-tiles or more"
    return SPIN_WAITS.why_not(contraction.request.target)


@lru_cache(maxsize=16)
def why_no_stream_k(contraction: Contraction) -> str:
    """Why stream-K is invalid for the GEMM; empty if it is valid."""
    if int(contraction.tunables.get("split_k", 1)) > 1:
        return "`split_k` and `stream_k` exclude each other"
    if contraction.tunables.get("reduction") == Reduction.CLUSTER:
        return "`stream_k` reduces through the workspace, not in a cluster"
    if reason := SPIN_WAITS.why_not(contraction.request.target):
        return reason
    if reason := _why_undivided(contraction):
        return reason
    if not all(static_extents(contraction)):
        return "stream-K needs static sizes"
    return ""


def _why_undivided(contraction: Contraction) -> str:
    """Why neither split-K nor stream-K is possible; empty if they may be."""
    if contraction.conditions:
        return "split-K and stream-K divide all of K between blocks, and a condition bounds that of each tile"
    if len({reduction.dtype for reduction in contraction.reductions}) > 1:
        return "the workspace of split-K and stream-K has partial sums of one type"
    return ""


def stream_k_schedule_of(contraction: Contraction, config: TileConfig) -> StreamKSchedule | None:
    """The stream-K schedule of a config; None if sizes aren't static, or no block fits a multiprocessor."""
    return _stream_k_schedule(contraction, config, _resident_blocks(contraction, config), config.stream_k)


def _resident_blocks(contraction: Contraction, config: TileConfig) -> int:
    """Blocks that the device runs at a time."""
    target = contraction.request.target
    return resident_blocks_per_sm(problem_of(contraction), config, target) * device_of(target).sms


def _stream_k_schedule(
    contraction: Contraction, config: TileConfig, resident: int, waves: int
) -> StreamKSchedule | None:
    extents = static_extents(contraction)
    if not resident or not all(extents):
        return None
    m, n, k, *batch = (extent or 0 for extent in extents)
    tiles = -(-m // config.block_m) * -(-n // config.block_n) * prod(batch)
    return schedule_stream_k(tiles, -(-k // config.block_k), resident, waves, config.threads)


@lru_cache(maxsize=16)
def static_extents(contraction: Contraction) -> tuple[int | None, ...]:
    """M, N, K and the batch's extents; None for those that aren't static."""
    indices = contraction.indices
    return tuple(map(contraction.context.static_extent, indices))


def _why_unfit(contraction: Contraction, config: TileConfig) -> str:
    """Why the device can't run a block of the config; empty if it can."""
    target = contraction.request.target
    if (reason := why_invalid(contraction, config)) or resident_blocks_per_sm(problem_of(contraction), config, target):
        return reason
    return f"{config.threads} threads need more than a block's registers on {target.name}"


def _why_none_fits(contraction: Contraction) -> str:
    tunables = contraction.tunables
    if tunables.get("cores") == Cores.TENSOR and (reason := tensor_cores.why_unsupported(contraction)):
        return reason
    requested = [config for config, *_ in _requested_configs(contraction)]
    invalid = [_why_unfit(contraction, config) for config in requested]
    if invalid and all(invalid):
        return invalid[0]
    if invalid and int(tunables.get("stream_k", 0)):
        return why_no_stream_k(contraction)
    fitting = [config for config, reason in zip(requested, invalid, strict=True) if not reason]
    split_k = int(tunables.get("split_k", 1))
    slow = [_why_slow(contraction, config) for config in fitting]
    if slow and all(slow):
        return slow[0]
    for config in fitting:
        reasons = []
        for reduction in _reductions(contraction) if split_k > 1 else ():
            split = replace(config, split_k=split_k, reduction=reduction)
            reason = _why_not_split(contraction, config.block_k, split_k, reduction)
            reasons.append(reason or why_invalid(contraction, split))
        if any(reasons):
            return "; ".join(dict.fromkeys(filter(None, reasons)))
    if lanes := tunables.get("lanes"):
        return f"the block tile can't be divided into warps of {lanes} lanes along {contraction.m.name}"
    return "the block tile isn't a whole number of warp tiles"
