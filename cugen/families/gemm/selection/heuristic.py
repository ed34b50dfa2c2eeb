"""Choice of a tile config: the fastest by the cost model among those that the spec leaves open."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import Addressing, Order, Prefetch, Stores, TileConfig
from cugen.families.gemm.problem import Problem, problem_of, registers_with_copies, requested_stages
from cugen.families.gemm.selection.cost_model import predict
from cugen.families.gemm.selection.ineffective_tunables import ineffective_tunable, without_ineffective
from cugen.families.gemm.selection.search_space import static_extents, stream_k_schedule_of, valid_configs, why_empty
from cugen.machine import Target
from cugen.plan.alignment import divisor
from cugen.plan.request import Refusal
from cugen.plan.symbols import bounds
from cugen.spec.model import Precision, Schedule

# Ratios of predicted times. All are fitted to tests/data/gemm_h200.csv, with test_cost_model.py.
_MODEL_TOLERANCE = 1.02  # within it the first config in order of preference is taken
_MIN_STREAM_K_SPEEDUP = 1.02  # over the best config whose tiles have one block each
_MIN_SPLIT_K_SPEEDUP = 1.05  # over the same
# The same on tensor cores: of 34 kernels of stream-K whose machine code had no spills none took more than 1.13 times as
# long as predicted, nor of 5 of split-K (tests/data/mma_h200.csv).
_MIN_TENSOR_WORKSPACE_SPEEDUP = 1.25  # by partial sums in the workspace
_MIN_WAVE_SPEEDUP = 1.0005  # of stream-K, for each further wave
_MIN_K_INTERLEAVED = 2048  # elements of a tile's K from which an interleaved prefetch was faster (measured on an H200)
_UNEVEN_CLUSTER_SIZES = (3, 6)  # blocks; such clusters were distributed unevenly (measured on an H100 and an H200)
_MAX_TENSOR_SLOWDOWN = 2.0  # of tensor cores at planned sizes, where larger ones are possible (heuristic)
_CONFIGS_BEFORE_VARIANTS = 12  # configs that a search times before variants of any (heuristic)
_CONFIGS_WITH_VARIANTS = 8  # configs whose variants are timed (heuristic)


def choose_config(contraction: Contraction, smaller_than: TileConfig | None = None) -> TileConfig | Refusal:
    """The config with everything that the schedule leaves open, or why there is none; with fewer registers than another
    config, which turned out to need too many."""
    ranked = rank(contraction)
    if not ranked:
        return why_empty(contraction)
    if smaller_than is not None:
        problem = problem_of(contraction)
        limit = registers_with_copies(problem, smaller_than)
        ranked = [pair for pair in ranked if registers_with_copies(problem, pair[1]) < limit]
    if not ranked:
        return Refusal("needs more registers than a thread may have")
    config = pick(_for_larger_sizes(contraction, ranked))
    if "prefetch" in contraction.tunables or not _has_long_k(contraction, config):
        return config
    return without_ineffective(contraction, replace(config, prefetch=Prefetch.INTERLEAVED))


def _for_larger_sizes(
    contraction: Contraction, ranked: list[tuple[float, TileConfig]]
) -> list[tuple[float, TileConfig]]:
    """Those on tensor cores where sizes are known at launch and may be larger than the ones that are planned for, which
    CUDA cores would take many times longer for; unless they are much slower at these."""
    if None not in static_extents(contraction):
        return ranked
    on_tensor_cores = [pair for pair in ranked if pair[1].uses_tensor_cores]
    shortest = min(seconds for seconds, _ in ranked)
    is_near = min((seconds for seconds, _ in on_tensor_cores), default=math.inf) <= _MAX_TENSOR_SLOWDOWN * shortest
    return on_tensor_cores if is_near else ranked


def _has_long_k(contraction: Contraction, config: TileConfig) -> bool:
    """Whether blocks of stream-K without slices compute whole tiles of a long K: interleaved prefetches are faster."""
    if not config.stream_k or config.sliced_k > 1 or config.uses_tensor_cores:
        return False
    if not all(operand.copies_asynchronously(config) for operand in problem_of(contraction).operands):
        return False
    schedule = stream_k_schedule_of(contraction, config)
    if schedule is None or not schedule.whole_tiles_per_block:
        return False
    return schedule.k_tiles * config.block_k >= _MIN_K_INTERLEAVED


def pick(ranked: list[tuple[float, TileConfig]]) -> TileConfig:
    """The config to take of pairs (predicted seconds, config) in order of preference. Split-K and stream-K must be
    faster than the best config without them by a margin. On tensor cores clusters are taken where there are some,
    unless the workspace is faster by a margin, too: the model of its partial sums is only an upper bound."""
    unsplit = [pair for pair in ranked if not pair[1].splits_tiles]
    split = [pair for pair in ranked if pair[1].splits_tiles]
    in_clusters = min((seconds for seconds, config in split if config.uses_cluster), default=math.inf)
    if unsplit and in_clusters < math.inf:
        split = [pair for pair in split if _may_replace_clusters(*pair, in_clusters)]
    even = [pair for pair in split if not (pair[1].uses_cluster and pair[1].split_k in _UNEVEN_CLUSTER_SIZES)]
    split = even or split
    if not unsplit or not split:
        return _first_within_tolerance(unsplit or split)[1]
    split_seconds, split_config = _first_within_tolerance(split)
    unsplit_seconds, unsplit_config = _first_within_tolerance(unsplit)
    speedup = _MIN_STREAM_K_SPEEDUP if split_config.stream_k else _MIN_SPLIT_K_SPEEDUP
    if split_config.uses_tensor_cores and not split_config.uses_cluster:
        speedup = _MIN_TENSOR_WORKSPACE_SPEEDUP
    return split_config if split_seconds * speedup < unsplit_seconds else unsplit_config


def _may_replace_clusters(seconds: float, config: TileConfig, in_clusters: float) -> bool:
    is_in_workspace = config.uses_tensor_cores and not config.uses_cluster
    return not is_in_workspace or seconds * _MIN_TENSOR_WORKSPACE_SPEEDUP < in_clusters


def _first_within_tolerance(ranked: list[tuple[float, TileConfig]]) -> tuple[float, TileConfig]:
    """The first config with about the shortest time, with no more waves of stream-K than pay off."""
    shortest = min(seconds for seconds, _ in ranked)
    fastest, first = next(pair for pair in ranked if pair[0] <= shortest * _MODEL_TOLERANCE)
    if not first.stream_k:
        return fastest, first
    wave_variants = [pair for pair in ranked if replace(pair[1], stream_k=first.stream_k) == first]
    shortest = min(seconds for seconds, _ in wave_variants)
    paying = (pair for pair in wave_variants if pair[0] <= shortest * _MIN_WAVE_SPEEDUP)
    return min(paying, key=lambda pair: pair[1].stream_k)


def rank(contraction: Contraction, *, all_stages: bool = False) -> list[tuple[float, TileConfig]]:
    """The valid configs with their predicted seconds, in order of preference."""
    return list(_ranked(_question(contraction, all_stages=all_stages)))


@dataclass(frozen=True, slots=True)
class _Question:
    """All that the order of configs depends on, but for names: equal for the same GEMM in another spec or spelling.

    `sizes` are those of the schedule along M, N, K and others, `types` those of operands and of sums; `k_bounds` and
    `k_divisor` are of an extent that may be known at launch only. `contraction` is the first that has asked."""

    problem: Problem
    target: Target
    sizes: tuple[tuple[str, int], ...]
    tunables: tuple[tuple[str, int | str | bool], ...]
    stages: int
    types: tuple[str, ...]
    precision: Precision
    why_not_tensor: str
    is_conditional: bool
    extents: tuple[int | None, ...]
    k_bounds: tuple[int, int]
    k_divisor: int
    all_stages: bool
    contraction: Contraction = field(compare=False)


def _question(contraction: Contraction, *, all_stages: bool) -> _Question:
    schedule, context = contraction.request.schedule, contraction.context
    roles = {contraction.m.name: "M", contraction.n.name: "N", contraction.k.name: "K"}
    sizes = {"block": schedule.block, "thread": schedule.thread, "step": schedule.step}
    k = context.extent(contraction.k)
    return _Question(
        problem=problem_of(contraction),
        target=contraction.request.target,
        sizes=tuple((f"{kind} {roles.get(name, name)}", n) for kind, given in sizes.items() for name, n in given),
        tunables=schedule.tunables,
        stages=requested_stages(contraction),
        types=tuple(operand.array.dtype.name for operand in contraction.operands)
        + tuple(f"{reduction.kind} {reduction.dtype.name}" for reduction in contraction.reductions),
        precision=context.spec.precision,
        why_not_tensor=tensor_cores.why_unsupported(contraction),
        is_conditional=bool(contraction.conditions),
        extents=static_extents(contraction),
        k_bounds=bounds(k, context.ranges),
        k_divisor=divisor(k, context),
        all_stages=all_stages,
        contraction=contraction,
    )


@lru_cache(maxsize=64)
def _ranked(question: _Question) -> tuple[tuple[float, TileConfig], ...]:
    contraction, problem, target = question.contraction, question.problem, question.target
    ranked = []
    for config in valid_configs(contraction, all_stages=question.all_stages):
        effective = without_ineffective(contraction, config)
        prediction = predict(problem, effective, target)
        if prediction is not None and not ineffective_tunable(contraction, config):
            ranked.append((prediction.seconds, effective))
    return tuple(ranked)


def reason(contraction: Contraction, config: TileConfig) -> str:
    """The prediction for a config; empty if sizes aren't static, or the K of a tile depends on a condition."""
    if contraction.conditions or None in static_extents(contraction):
        return ""
    prediction = predict(problem_of(contraction), config, contraction.request.target)
    return prediction.text if prediction is not None else ""


def candidates(contraction: Contraction, chosen: TileConfig) -> Iterator[Schedule]:
    """Schedules to time: of the `chosen` config, then by predicted time, variants of the best before slower ones."""
    by_time = sorted(rank(contraction, all_stages=True), key=lambda pair: pair[0])
    configs = [config for _, config in by_time]
    varied = (chosen, *configs[:_CONFIGS_WITH_VARIANTS])
    variants = [variant for config in varied for variant in _code_variants(contraction, config)]
    for config in dict.fromkeys((chosen, *configs[:_CONFIGS_BEFORE_VARIANTS], *variants, *configs)):
        yield schedule_of(contraction, config)


def _code_variants(contraction: Contraction, config: TileConfig) -> Iterator[TileConfig]:
    """The config with other tunables of the inner loop, for which ptxas allocates other registers."""
    if config.uses_tensor_cores:
        return
    kinds = {"prefetch": Prefetch, "addressing": Addressing, "order": Order}
    choices = [
        (getattr(config, name),) if name in contraction.tunables else tuple(kind) for name, kind in kinds.items()
    ]
    for prefetch, addressing, order in product(*choices):
        variant = replace(config, prefetch=prefetch, addressing=addressing, order=order)
        yield without_ineffective(contraction, variant)


def schedule_of(contraction: Contraction, config: TileConfig) -> Schedule:
    tunables: dict[str, int | str | bool] = {"stages": config.stages}
    if not config.uses_tensor_cores:
        tunables |= {
            "lanes": config.lanes_m,
            "order": config.order.value,
            "addressing": config.addressing.value,
            "prefetch": config.prefetch.value,
        }
    # Values of 1 keep the order of the sum, and are left out.
    counts = (("sliced_k", config.sliced_k), ("split_k", config.split_k))
    tunables |= {name: count for name, count in counts if count > 1}
    tunables |= {"reduction": config.reduction.value} if config.split_k > 1 else {}
    if config.uses_tensor_cores:
        tunables |= {"cores": config.cores.value}
        if config.mma is not None and config.mma.element_bytes == 8:
            tunables |= {"mma_k": config.mma.k}
    elif not tensor_cores.why_unsupported(contraction):
        tunables["cores"] = config.cores.value
    tunables |= {"stream_k": config.stream_k} if config.stream_k else {}
    tunables |= {"stores": config.stores.value} if config.stores == Stores.SHARED else {}
    if requested_stages(contraction) > 1:
        del tunables["stages"]
    return Schedule(
        "gemm",
        ((contraction.m.name, config.block_m), (contraction.n.name, config.block_n)),
        ((contraction.m.name, config.thread_m), (contraction.n.name, config.thread_n)),
        ((contraction.k.name, config.block_k),),
        tuple({**contraction.tunables, **tunables}.items()),
    )
