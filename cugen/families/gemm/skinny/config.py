"""The launch config of a skinny GEMM: elements of N per warp or thread, warps, lanes, split-K."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.gemm.skinny.recognition import MIN_EXTENT, SkinnyGemm
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.vectors import MAX_ACCESS_BYTES
from cugen.plan.alignment import divisor
from cugen.plan.request import Tunable

_MAX_UNEVEN_RATIO = 2  # of factors of which the parts are guarded, to those that divide K (heuristic)
_TARGET_WARPS_PER_SM = 16  # enough loads in flight to saturate memory bandwidth (heuristic)
_TARGET_THREADS_PER_SM = 1024  # with all loads of a GEMV in flight, these fit the register file
_MIN_WARPS = 4  # per block of a GEMV
_MIN_UTILISATION = 0.8  # mean over maximum blocks per multiprocessor that a GEMV accepts (heuristic)
_MAX_ACCUMULATORS = 64  # per thread; half of it for K-major B, where each is spread over a warp
_BYTES_IN_FLIGHT = 128  # of B, per thread of a GEMV (heuristic)
_MIN_CONTIGUOUS_BYTES = 64  # per row of B and block; shorter segments read slower (heuristic)
_UNROLLED_VECTORS = 2  # of a K-major column, per thread (heuristic)
_UNROLLED_ELEMENTS = 16  # of K-major columns that begin anywhere, per thread (heuristic)
_MAX_M_OF_NARROW_BLOCKS = 4  # with more rows, wider blocks share more of the loads of A (heuristic)

TILE_N = Tunable("tile_n", (1, 2, 4, 8), "4", "columns per warp where B is K-major, per thread where it is N-major")
_LANES = (4, 8, 16, WARP_SIZE)
LANES = Tunable("lanes", _LANES, "as fill the device", "lanes along N where B is N-major; the others split K")
WARPS = Tunable("warps", (1, 2, 4, 8, 16, 32), "by rows", "warps per block: along N where B is K-major, else along K")
SPLIT_K = Tunable("split_k", tuple(range(1, 65)), "as fill the device", "blocks along K; a second launch reduces them")
TUNABLES = (TILE_N, LANES, WARPS, SPLIT_K)


@dataclass(frozen=True, slots=True)
class GemvConfig:
    """Work distribution of a block.

    K-major B: each warp computes `tile_n` columns, its lanes split K. N-major B: each of `lanes` threads computes
    `tile_n` consecutive columns, and `k_groups` groups of lanes split K. `k_width` values of k are read per access or
    iteration, `unroll_k` in the unrolled ones; `min_blocks_per_sm` bounds registers, 0 for no bound."""

    tile_n: int
    warps: int
    k_width: int
    lanes: int = WARP_SIZE
    unroll_k: int = 8
    min_blocks_per_sm: int = 0

    @property
    def k_groups(self) -> int:
        return self.warps * WARP_SIZE // self.lanes

    def block_n(self, gemm: SkinnyGemm) -> int:
        return self.tile_n * (self.warps if gemm.is_k_major else self.lanes)


def choose_config(gemm: SkinnyGemm) -> GemvConfig:
    """The schedule's tunables, completed."""
    tunables = dict(gemm.request.schedule.tunables)
    if gemm.is_k_major:
        default_tile_n = next(n for n in (4, 2, 1) if n == 1 or n * gemm.m_extent <= _MAX_ACCUMULATORS // 2)
        tile_n = int(tunables.get("tile_n", default_tile_n))
        warps = int(tunables.get("warps", 16 if gemm.m_extent > _MAX_M_OF_NARROW_BLOCKS else 8))
        k_width = _k_width(gemm, gemm.k_width)
        while k_width > 1 and k_width * WARP_SIZE > gemm.context.planned_extent(gemm.k):  # idle lanes
            k_width //= 2
        unroll_k = _UNROLLED_VECTORS * k_width
        if k_width == 1:  # as many bytes in flight by single elements
            unroll_k = max(unroll_k, _UNROLLED_ELEMENTS // tile_n)
        return GemvConfig(tile_n, warps, k_width, unroll_k=unroll_k)
    vector_width = gemm.vector_width(gemm.b, gemm.n)
    while vector_width * gemm.m_extent > _MAX_ACCUMULATORS:
        vector_width //= 2
    tile_n = int(tunables.get("tile_n", vector_width))
    filling_lanes = _lanes_filling_device(gemm, tile_n)
    if filling_lanes is None or tunables.get("split_k", 1) != 1:
        # Narrow loads need more threads to keep as many bytes in flight (measured on H200).
        is_narrow = tile_n * gemm.array(gemm.b).dtype.bytes < MAX_ACCESS_BYTES
        warps, lanes = int(tunables.get("warps", 16 if is_narrow else 8)), int(tunables.get("lanes", WARP_SIZE))
        return GemvConfig(tile_n, warps, _k_width(gemm, min(gemm.vector_width(gemm.a, gemm.k), 4)), lanes)
    lanes = int(tunables.get("lanes", filling_lanes))
    loads = min(max(_BYTES_IN_FLIGHT // (tile_n * gemm.array(gemm.b).dtype.bytes), 8), 16)
    k_width = _k_width(gemm, math.gcd(divisor(gemm.context.extent(gemm.k), gemm.context), 8))
    threads = PLANNING_DEVICE.sms * _TARGET_THREADS_PER_SM // _blocks(gemm, tile_n * lanes)
    k_threads = lanes * gemm.context.planned_extent(gemm.k) // k_width
    max_threads = min(threads, k_threads, gemm.request.target.threads_per_block)
    filling_warps = max(1 << max(max_threads // WARP_SIZE, 1).bit_length() - 1, _MIN_WARPS)
    warps = int(tunables.get("warps", filling_warps))
    return GemvConfig(tile_n, warps, k_width, lanes, loads, max(_TARGET_THREADS_PER_SM // (warps * WARP_SIZE), 1))


def _k_width(gemm: SkinnyGemm, width: int) -> int:
    """The width, or 1 where a condition may end K inside of a vector."""
    return width if gemm.reduction.where is None else 1


def fills_device(gemm: SkinnyGemm, tile_n: int) -> bool:
    """Whether warps with so many columns of a K-major B each fill the planning device without split-K."""
    return _blocks(gemm, tile_n) >= PLANNING_DEVICE.sms * _TARGET_WARPS_PER_SM


def _lanes_filling_device(gemm: SkinnyGemm, tile_n: int) -> int | None:
    """The lanes along N with which a GEMV's blocks fill the planning device evenly; None if it needs split-K."""
    if gemm.m_extent > 1 or gemm.context.typical_extent(gemm.n) is None:
        return None
    min_lanes = _MIN_CONTIGUOUS_BYTES // (tile_n * gemm.array(gemm.b).dtype.bytes)
    choices = [lanes for lanes in reversed(_LANES) if lanes >= min(min_lanes, WARP_SIZE)]
    blocks, sms = {lanes: _blocks(gemm, tile_n * lanes) for lanes in choices}, PLANNING_DEVICE.sms
    utilisation = {lanes: count / (-(-count // sms) * sms) for lanes, count in blocks.items() if 4 * count >= 3 * sms}
    even = [lanes for lanes in utilisation if utilisation[lanes] >= _MIN_UTILISATION]
    return max(even) if even else max(utilisation, key=utilisation.__getitem__, default=None)


def _blocks(gemm: SkinnyGemm, block_n: int) -> int:
    blocks_n = -(-gemm.context.planned_extent(gemm.n) // block_n)
    return blocks_n * max(math.prod(map(gemm.context.planned_extent, gemm.batch)), 1)


def split_k_of(gemm: SkinnyGemm, config: GemvConfig) -> int:
    """The split-K factor that fills the planning device, of those with enough work each; 1 for none. It divides a
    static K unless the last part, which then is shorter, is one of many more."""
    scheduled = dict(gemm.request.schedule.tunables).get("split_k")
    k, is_static = gemm.context.typical_extent(gemm.k), gemm.context.static_extent(gemm.k) is not None
    if k is None:
        return 1
    factors = list(map(int, SPLIT_K.values))
    even = [factor for factor in factors if k % factor == 0 or not is_static]
    if scheduled is not None:
        return int(scheduled) if scheduled in even else 1
    blocks = _blocks(gemm, config.block_n(gemm))
    target_warps = PLANNING_DEVICE.sms * _TARGET_WARPS_PER_SM
    min_k = max(config.k_width * (2 * WARP_SIZE if gemm.is_k_major else 4 * config.warps), MIN_EXTENT)

    def best_of(factors: list[int]) -> int:
        best = 1
        for factor in factors:
            if k // factor >= min_k and best * blocks * config.warps < target_warps:
                best = factor
        return best

    best, uneven = best_of(even), best_of(factors)
    return uneven if uneven > _MAX_UNEVEN_RATIO * best else best
