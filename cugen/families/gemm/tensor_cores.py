"""GEMM on tensor cores: float64 `mma.m16n8k4`, `k8` and `k16`. Which GEMMs and tiles they take, and their fragments.

A warp's instruction adds a 16 x `mma_k` fragment of A times an `mma_k` x 8 fragment of B to 16 x 8 accumulators. Lane
4 * g + t holds the accumulators of rows g and g + 8, columns 2 * t and 2 * t + 1: lanes are 8 x 4, each with single
rows and pairs of columns.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import WARP, Cores, TileConfig, with_lane_layout
from cugen.machine import Device
from cugen.machine.features import FLOAT64_MMA
from cugen.spec.expressions import Op, Read
from cugen.spec.types import FLOAT64

LANES_M = 8  # lanes of a warp along M (PTX ISA: layout of the accumulator fragment)
FRAGMENT_WIDTHS = (1, 2)  # consecutive elements of a lane along M and N
MMA_M, MMA_N = 16, 8  # accumulators of one instruction
FIXED_TUNABLES = ("lanes", "order", "addressing", "prefetch")  # by the instruction

# A lane loads single elements: 4 consecutive ones of 4 rows in one request. The rows are in different banks if they
# begin 32 bytes apart (mod 128), as padded ones do whose tiles are multiples of 64 bytes wide.
PAD = 4  # elements
# Rows along K of 4 sectors, or a multiple, need no pad: the sectors of a row are swizzled.
SECTOR_ELEMENTS, SWIZZLED_SECTORS = 4, 4
_MMA_COST_UNKNOWN = 32.0  # float32 FMAs per multiply-add, of a device without a published float64 rate (heuristic)


def why_unsupported(contraction: Contraction) -> str:
    """Why tensor cores can't compute a GEMM; empty if they can."""
    if len(contraction.sums) > 1 or len(contraction.operands) > 2:
        return "tensor cores take one sum over two operands"
    (reduction,) = contraction.sums
    arrays = contraction.request.context.arrays
    body = reduction.body
    is_plain = isinstance(body, Op) and body.name == "mul" and all(isinstance(arg, Read) for arg in body.args)
    if not is_plain or reduction.dtype != FLOAT64:
        return "tensor cores take sums of A[m, k] * B[k, n] of float64"
    if contraction.conditions:
        return "tensor cores multiply whole fragments, of which a condition masks single terms"
    if any(arrays[operand.read.array].dtype != FLOAT64 for operand in contraction.operands):
        return "tensor cores take operands of float64"
    return FLOAT64_MMA.why_not(contraction.request.target)


def are_faster(device: Device) -> bool:
    """Whether a device multiplies float64 faster on tensor cores than on CUDA cores."""
    rates = dict(device.peaks)
    return rates.get("tensor_float64", 0.0) > rates.get("float64", 0.0)


def mma_cost(device: Device) -> float:
    """Issue slots of a float64 multiply-add on tensor cores, relative to float32 on CUDA cores."""
    rates = dict(device.peaks)
    rate = rates.get("tensor_float64", rates.get("float64"))
    return rates["float32"] / rate if rate else _MMA_COST_UNKNOWN


def why_invalid_tile(config: TileConfig) -> str:
    """Why the warp tiles of a config aren't made of tensor-core instructions; empty if they are."""
    if config.thread_m * LANES_M % MMA_M or config.thread_n * (WARP // LANES_M) % MMA_N:
        return f"tensor cores compute {MMA_M} x {MMA_N} accumulators: both sides of a thread tile must be even"
    if config.warp_k % (config.fragment_buffers * config.mma_k):
        size = f"2 x {config.mma_k}: fragments of mma_k, twice" if config.is_multistage else config.mma_k
        return f"a k-tile slice of {config.warp_k} must be a multiple of {size}"
    return ""


def with_mma_layout(config: TileConfig, mma_k: int = 4) -> TileConfig | None:
    """The config with the lane layout and K of tensor-core instructions; None if that doesn't fill warps."""
    return with_lane_layout(replace(config, cores=Cores.TENSOR, mma_k=mma_k), LANES_M)


def is_swizzled(config: TileConfig) -> bool:
    """Whether the rows of a K-major tile without a pad are swizzled."""
    return config.block_k % (SECTOR_ELEMENTS * SWIZZLED_SECTORS) == 0
