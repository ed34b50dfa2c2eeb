"""GEMM problem size and data types, and what a tile config needs of a block: tiles, shared memory, registers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import TileConfig
from cugen.machine import Device, Target, default_device
from cugen.machine.devices import PLANNING_DEVICE
from cugen.pieces.vectors import MAX_ACCESS_BYTES, divisor, widest
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.types import DType, Kind

# Registers of a thread besides accumulators and fragments, as ptxas allocates them for sm_90.
_ADDRESS_REGISTERS = 40
_ADDRESS_REGISTERS_TENSOR = 30
_ASSUMED_EXTENT = 4096  # elements, of an index whose extent is unknown until the call
_MAX_PLANNED_EXTENT = 1 << 20  # elements; a larger upper bound is taken for no bound at all
_MAX_TILE_EXTENT = 256  # elements; the M and N of every block tile divide it or are a part of it
# Cost of one multiply-add in issue slots of a float32 FMA (heuristic: no device table has these rates).
_FLOAT64_COST = 32.0
_INT32_COST, _INT64_COST = 2.0, 6.0


@dataclass(frozen=True, slots=True)
class Problem:
    """GEMM problem: C[m, n] += A[m, k] * B[k, n], `batch` times. Pairs are of A and B.

    `element_bytes` are those of A, B and C; `tile_pads` and `copy_widths` count elements. Costs are in issue slots of
    one float32 FMA: `fma_cost` of a multiply-add, `mma_cost` of one on tensor cores, `conversion_cost` of each operand
    element that is converted. `k_major` says whether K is the contiguous dimension of an operand."""

    m: int
    n: int
    k: int
    batch: int = 1
    element_bytes: tuple[int, int, int] = (4, 4, 4)
    tile_pads: tuple[int, int] = (4, 0)
    copy_widths: tuple[int, int] = (1, 4)
    accumulator_bytes: int = 4
    fma_cost: float = 1.0
    conversion_cost: float = 0.0
    mma_cost: float = 1.0
    requested_pads: tuple[int, int] = (0, 0)
    k_major: tuple[bool, bool] = (True, False)

    def pads_for(self, config: TileConfig) -> tuple[int, int]:
        """Padding of the rows of A's and B's tiles, in elements."""
        if not config.uses_tensor_cores:
            return self.tile_pads
        pad_a, pad_b = (
            tensor_cores.tile_pad(config, requested, is_k_major=is_k_major)
            for requested, is_k_major in zip(self.requested_pads, self.k_major, strict=True)
        )
        return pad_a, pad_b


@lru_cache(maxsize=16)
def problem_of(contraction: Contraction) -> Problem:
    """The problem at the largest sizes that its params allow; at assumed sizes where these are unbounded."""
    sizes = [max_extent(contraction, index.name) for index in (contraction.m, contraction.n, contraction.k)]
    m, n, k = (size if size < _MAX_PLANNED_EXTENT else _ASSUMED_EXTENT for size in sizes)
    a, b = contraction.operands
    (reduction,) = contraction.sums
    output = contraction.request.group.statements[-1].target
    is_converted = any(dtype_of(contraction, operand).bytes < reduction.dtype.bytes for operand in (a, b))
    return Problem(
        m=m,
        n=n,
        k=k,
        batch=math.prod(min(max_extent(contraction, index.name), _ASSUMED_EXTENT) for index in contraction.batch),
        element_bytes=(
            dtype_of(contraction, a).bytes,
            dtype_of(contraction, b).bytes,
            contraction.request.context.arrays[output].dtype.bytes,
        ),
        tile_pads=(tile_pad(contraction, a), tile_pad(contraction, b)),
        copy_widths=(copy_width(contraction, a, _MAX_TILE_EXTENT), copy_width(contraction, b, _MAX_TILE_EXTENT)),
        accumulator_bytes=reduction.dtype.bytes,
        fma_cost=_fma_cost(reduction.dtype, contraction.request.target),
        conversion_cost=1.0 if is_converted else 0.0,
        mma_cost=tensor_cores.mma_cost(device_of(contraction.request.target)),
        requested_pads=tensor_cores.requested_pads(contraction),
        k_major=(is_k_major(contraction, a), is_k_major(contraction, b)),
    )


@cache
def device_of(target: Target) -> Device:
    """The device meant where a spec names a target."""
    return default_device(target.name) or PLANNING_DEVICE


def _fma_cost(dtype: DType, target: Target) -> float:
    """Issue slots of a multiply-add on CUDA cores, relative to float32."""
    if dtype.kind is Kind.FLOAT and dtype.bytes == 8:
        rates = dict(device_of(target).peaks)
        return rates["float32"] / rates["float64"] if "float64" in rates else _FLOAT64_COST
    if dtype.kind is Kind.FLOAT:
        return 1.0
    return _INT32_COST if dtype.bytes <= 4 else _INT64_COST


def dtype_of(contraction: Contraction, operand: Operand) -> DType:
    return contraction.request.context.arrays[operand.read.array].dtype


def fragment_width(element_bytes: int, per_thread: int) -> int:
    """Vector width of a thread's shared-memory loads: elements of its `per_thread` that one access can move."""
    return math.gcd(per_thread, MAX_ACCESS_BYTES // element_bytes)


def fragment_widths(contraction: Contraction, config: TileConfig) -> tuple[int, int]:
    """Consecutive elements of a thread along M and along N."""
    if config.uses_tensor_cores:
        return tensor_cores.FRAGMENT_WIDTHS
    bytes_a, bytes_b = (dtype_of(contraction, operand).bytes for operand in contraction.operands)
    return fragment_width(bytes_a, config.thread_m), fragment_width(bytes_b, config.thread_n)


def copy_width(contraction: Contraction, operand: Operand, extent: int) -> int:
    """Vector width of an operand's copies along M or N, for a tile of that extent; 1 if the operand is K-major."""
    context = contraction.request.context
    array, name = context.arrays[operand.read.array], operand.mn.name
    if operand.fast != name:
        return 1
    width = math.gcd(widest(array, operand.read.subscripts, name, context).count, extent)
    common_divisor = divisor(to_integer(operand.mn.extent, context.symbols), context)
    return math.gcd(width, common_divisor) if common_divisor else width


def is_k_major(contraction: Contraction, operand: Operand) -> bool:
    """Whether K is the contiguous dimension of an operand."""
    return operand.fast == contraction.k.name


def k_major_copy_width(contraction: Contraction, operand: Operand) -> int:
    """Vector width of a K-major operand's copies along K."""
    context = contraction.request.context
    array, name = context.arrays[operand.read.array], contraction.k.name
    width = widest(array, operand.read.subscripts, name, context).count
    common_divisor = divisor(to_integer(contraction.k.extent, context.symbols), context)
    return math.gcd(width, common_divisor) if common_divisor else width


def tile_pad(contraction: Contraction, operand: Operand) -> int:
    """Padding of the tile's rows, in elements: an operand that is transposed by its copy is stored down columns, whose
    rows must be in different banks. The pad keeps rows aligned for vector loads."""
    memory = contraction.request.context.spec.array(operand.read.array).memory
    if memory.space is not None and memory.pad:
        return memory.pad
    if operand.fast == operand.mn.name:
        return 0
    size = dtype_of(contraction, operand).bytes
    return 4 if size >= 4 else MAX_ACCESS_BYTES // size


def tile_extents(problem: Problem, config: TileConfig) -> tuple[tuple[int, int], tuple[int, int]]:
    """(rows, row length) of A's and B's tiles: [BK][BM] and [BK][BN]; on tensor cores [BM][BK] and [BN][BK] of K-major
    operands."""
    tile_a, tile_b = (
        (extent, config.block_k) if is_k_major and config.uses_tensor_cores else (config.block_k, extent)
        for extent, is_k_major in zip((config.block_m, config.block_n), problem.k_major, strict=True)
    )
    return tile_a, tile_b


def pipeline_bytes(problem: Problem, config: TileConfig) -> tuple[int, int]:
    """Bytes of all stages of A's and of B's tiles, each a multiple of 16."""
    bytes_a, bytes_b = (
        -(-config.stages * rows * (length + pad) * size // 16) * 16
        for (rows, length), pad, size in zip(
            tile_extents(problem, config), problem.pads_for(config), problem.element_bytes[:2], strict=True
        )
    )
    return bytes_a, bytes_b


def partials_pad(problem: Problem, config: TileConfig) -> int:
    """Padding of the partial sums' rows in shared memory, in elements, so that the rows that a quarter-warp stores to
    are in different banks. Rows of 8-byte elements get a larger one where it needs no more memory than the pipeline."""
    default = MAX_ACCESS_BYTES // problem.accumulator_bytes
    if problem.element_bytes[:2] != (8, 8):
        return default
    # A request of 8 lanes stores 16 bytes each: that many lanes to a row, then to a row that many rows further.
    lanes_per_row = 2 if config.lanes_m > config.lanes_n and not config.uses_tensor_cores else 4
    row_distance = 1 if config.uses_tensor_cores else 2
    pad = (2 * lanes_per_row // row_distance - config.block_n) % (16 // row_distance)
    return pad if _partials_bytes(problem, config, pad) <= sum(pipeline_bytes(problem, config)) else default


def _partials_bytes(problem: Problem, config: TileConfig, pad: int) -> int:
    return config.sliced_k * config.block_m * (config.block_n + pad) * problem.accumulator_bytes


def shared_bytes(problem: Problem, config: TileConfig) -> int:
    """Shared memory of a block: the pipeline's, or that of the partial sums which reuse it, whichever is larger."""
    pipeline = sum(pipeline_bytes(problem, config))
    if not config.reduces_in_shared:
        return pipeline
    return max(pipeline, _partials_bytes(problem, config, partials_pad(problem, config)))


def registers_per_thread(problem: Problem, config: TileConfig) -> int:
    """Estimated registers of a thread: accumulators, fragments and addresses."""
    size = max(problem.accumulator_bytes // 4, 1)
    thread_m, thread_n = config.thread_m, config.thread_n
    if config.uses_tensor_cores:
        fragments = sum(tensor_cores.fragment_elements(config))
        return (thread_m * thread_n + fragments) * size + _ADDRESS_REGISTERS_TENSOR
    return (thread_m * thread_n + thread_m + thread_n) * size + _ADDRESS_REGISTERS


def why_invalid(contraction: Contraction, problem: Problem, config: TileConfig) -> str:
    """Why a GEMM can't be computed with a config; empty if it can."""
    target = contraction.request.target
    if config.uses_tensor_cores:
        reason = tensor_cores.why_unsupported(contraction) or tensor_cores.why_invalid_tile(config)
        if reason:
            return reason
    widths = (2, 2) if config.uses_tensor_cores else fragment_widths(contraction, config)
    for width, operand, pad in zip(widths, contraction.operands, problem.pads_for(config), strict=True):
        if width < 2:
            return f"a thread tile needs 2 or more consecutive elements along {operand.mn.name}"
        if pad % width:
            return f"a pad of {pad} breaks the alignment of vector loads of {width} elements of {operand.read.array}"
    if config.block_k % config.sliced_k:
        return f"a k-tile of {config.block_k} can't be divided into {config.sliced_k} slices"
    if config.warp_k % 2:
        return "the K of a slice must be even, as fragments are double-buffered"
    if config.threads > target.threads_per_block:
        return f"{config.threads} threads are more than the {target.threads_per_block} of a block"
    if registers_per_thread(problem, config) > target.registers_per_thread:
        return f"{config.thread_m} x {config.thread_n} accumulators need more than a thread's registers"
    if shared_bytes(problem, config) > target.shared_opt_in:
        return f"the stages take {shared_bytes(problem, config)} bytes of shared memory, of {target.shared_opt_in}"
    if config.raster > 1:
        extent = contraction.request.context.static(
            to_integer(contraction.m.extent, contraction.request.context.symbols)
        )
        if extent is None or -(-extent // config.block_m) % config.raster:
            return f"a raster of {config.raster} must divide the number of block tiles along {contraction.m.name}"
    return ""


def max_extent(contraction: Contraction, name: str) -> int:
    """The largest extent that an index of the GEMM may have."""
    indices = (contraction.m, contraction.n, contraction.k, *contraction.batch)
    index = next(i for i in indices if i.name == name)
    context = contraction.request.context
    return bounds(to_integer(index.extent, context.symbols), dict(context.ranges))[1]
