"""Tunables without effect for a tile config. Explicit ones are rejected; the heuristic never sets them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import Addressing, Prefetch, TileConfig
from cugen.families.gemm.problem import problem_of
from cugen.pieces.grid import divides
from cugen.plan.request import Refusal
from cugen.plan.symbols import bounds


def without_ineffective(contraction: Contraction, config: TileConfig) -> TileConfig:
    """The config with indexed addressing of swizzled tiles; with an upfront prefetch if copies can't be interleaved, or
    unasked if they aren't asynchronous, as they would wait for each other in the middle of the k steps."""
    if _is_swizzled(contraction):
        config = replace(config, addressing=Addressing.INDEXED)
    if config.prefetch != Prefetch.INTERLEAVED:
        return config
    waits = any(not tile.copies_asynchronously(config) for tile in problem_of(contraction).operands)
    if (waits and "prefetch" not in contraction.tunables) or _why_not_interleaved(contraction, config):
        return replace(config, prefetch=Prefetch.UPFRONT)
    return config


def ineffective_tunable(contraction: Contraction, config: TileConfig) -> Refusal | None:
    """A tunable of the schedule that has no effect for the config."""
    requested = contraction.tunables
    if "reduction" in requested and not config.splits_tiles and not requested.get("stream_k"):
        reason = "`reduction` has no effect, as no partial sums are reduced; remove it, or set `split_k` to 2 or more"
        return Refusal(reason, "schedule.reduction")
    if requested.get("addressing") == Addressing.POINTER and _is_swizzled(contraction):
        reason = "a swizzled tile has no fixed offsets from a pointer; remove `addressing: pointer`"
        return Refusal(reason, "schedule.addressing")
    if "stores" in requested and config.adds_in_shared:
        reason = "partial sums are added in shared memory, and stored from there; remove `stores`"
        return Refusal(reason, "schedule.stores")
    is_interleaved = requested.get("prefetch") == Prefetch.INTERLEAVED
    if is_interleaved and (reason := _why_not_interleaved(contraction, config)):
        return Refusal(f"{reason}; remove `prefetch: interleaved`", "schedule.prefetch")
    return None


def _is_swizzled(contraction: Contraction) -> bool:
    return any(operand.memory.swizzle for operand in contraction.operands)


def _why_not_interleaved(contraction: Contraction, config: TileConfig) -> str:
    """Why copies can't be interleaved with multiply-adds. Interleaved copies have no branch: past the end of K a full
    k-tile is copied again, and the first k-tile isn't full if K has a residue."""
    if not config.is_multistage:
        return "a single stage is copied between two barriers: no copies are left to interleave"
    low, high = _k_bounds(contraction)
    has_residue = _has_residue(contraction, config.block_k)
    min_k_tiles = -(-low // config.block_k) if low == high else low // config.block_k
    max_k_tiles = -(-high // config.block_k)
    if config.split_k > 1:
        min_k_tiles, max_k_tiles = min_k_tiles // config.split_k, -(-max_k_tiles // config.split_k)
    elif config.stream_k:
        min_k_tiles = min(min_k_tiles, 1)
    if contraction.conditions:
        min_k_tiles = 0
    if max_k_tiles < config.stages:
        return f"the prologue of {config.stages} stages copies all of {_k_tiles(max_k_tiles)}"
    if min_k_tiles < 1 + has_residue:
        first = ", the first of them zero-filled" if has_residue else ""
        needed = f"{_k_tiles(1 + has_residue)} or more of {config.block_k}{first}"
        return f"interleaved copies need {needed}; here may be {min_k_tiles}"
    return ""


@lru_cache(maxsize=16)  # a search asks for many configs of one contraction
def _k_bounds(contraction: Contraction) -> tuple[int, int]:
    return bounds(contraction.context.extent(contraction.k), contraction.context.ranges)


@lru_cache(maxsize=256)
def _has_residue(contraction: Contraction, block_k: int) -> bool:
    """Whether K may be no multiple of a k-tile's."""
    return not divides(block_k, contraction.context.extent(contraction.k), contraction.context)


def _k_tiles(count: int) -> str:
    return f"{count} k-tile" if count == 1 else f"{count} k-tiles"
