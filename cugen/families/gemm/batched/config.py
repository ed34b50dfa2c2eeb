"""The config of a small batched GEMM: matrices per block, thread tiles, shared-memory layouts of the operands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.config import Order, TileConfig
from cugen.families.gemm.problem import copy_width
from cugen.machine import Target
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.occupancy import occupancy
from cugen.machine.requests.banks import BANK_BYTES, WAVEFRONT_BYTES
from cugen.machine.requests.request import warp_request
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.vectors import MAX_ACCESS_BYTES, stored_width
from cugen.plan.memory import Array
from cugen.plan.request import Tunable
from cugen.spec.expressions import Index, free_indices

_THREAD_TILE = 4  # default elements per thread along M and N (heuristic)
_MIN_EXTENT_FOR_TALL_THREAD_TILES = 32  # beyond this extent of M and N a thread tile is twice as tall (heuristic)
_TARGET_BLOCK_THREADS = 128  # matrices are added to a block up to this (heuristic)
_MIN_BLOCKS_PER_SM = 2  # grid size that is kept while matrices are added to a block (heuristic)
_LATENCY_HIDING_WARPS = 24  # resident on an SM; more of them save no time (heuristic)
_INSTRUCTIONS_PER_WAVEFRONT = 4  # of warps: an SM has four schedulers and one path to shared memory
_COPY_INSTRUCTIONS = 16  # per vector that a thread copies from one matrix, in machine code for sm_90
_MATRIX_INSTRUCTIONS = 12  # more where a block copies several matrices
_MAX_UNROLLED_K = 32  # longer loops over k are partially unrolled

BATCH = Tunable(
    "batch", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "matrices per block; by default as many as give 128 threads"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A matrix's M or N dimension over the threads: each has `vectors` vectors of `width` consecutive elements."""

    index: Index
    extent: int
    threads: int
    vectors: int
    width: int

    @property
    def per_thread(self) -> int:
        return self.vectors * self.width

    @property
    def padded_extent(self) -> int:
        """The extent that the thread tiles cover, at least `extent`."""
        return self.threads * self.per_thread


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand's matrices in shared memory, in elements: rows `pitch` apart, matrices `matrix_stride` apart.

    A tile has a matrix for each of the block's, or a single one if the operand has no batch index. `load_width`
    elements are copied from global memory per access, `read_width` read from the tile per access."""

    operand: Operand
    mn: Partition
    k: int
    is_batched: bool
    load_width: int
    read_width: int
    pitch: int = 0
    matrix_stride: int = 0

    @property
    def slow_extent(self) -> int:
        return self.mn.extent if self.operand.is_k_major else self.k

    @property
    def fast_extent(self) -> int:
        return self.k if self.operand.is_k_major else self.mn.extent

    @property
    def vectors(self) -> int:
        """Vectors of `load_width` elements in one matrix."""
        return self.slow_extent * (self.fast_extent // self.load_width)


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """Matrices per block and the partition of each; `k_width` consecutive k are read per access of a K-major tile."""

    batch: int
    m: Partition
    n: Partition
    k: int
    k_width: int
    tiles: tuple[SharedTile, ...]

    @property
    def threads_per_matrix(self) -> int:
        return self.m.threads * self.n.threads

    @property
    def threads(self) -> int:
        return self.threads_per_matrix * self.batch

    @property
    def tile_config(self) -> TileConfig:
        """One matrix as the block tile of a strided layout, resident in a single stage."""
        return TileConfig(
            block_m=self.m.padded_extent,
            block_n=self.n.padded_extent,
            thread_m=self.m.per_thread,
            thread_n=self.n.per_thread,
            block_k=self.k,
            stages=1,
            lanes_m=self.m.threads,
            order=Order.ROWS,
            is_strided=True,
            is_resident=True,
        )

    @property
    def is_unrolled(self) -> bool:
        return self.k <= _MAX_UNROLLED_K

    @property
    def shared_bytes(self) -> int:
        return sum(
            tile.matrix_stride * (self.batch if tile.is_batched else 1) * tile.operand.array.dtype.bytes
            for tile in self.tiles
        )


def choose_config(contraction: Contraction) -> BatchConfig:
    """The schedule's sizes, completed, with the vector width along N and the layouts of lowest cost."""
    return min(_candidates(contraction), key=lambda candidate: candidate[0])[1]


def _candidates(contraction: Contraction) -> Iterator[tuple[float, BatchConfig]]:
    """Configs by vector width along N, matrices per block and layouts, each with its cost: wavefronts of the shared
    accesses and what else is issued, per matrix, times the latency that few resident warps don't hide."""
    m, n, k = (contraction.context.max_extent(index) for index in (contraction.m, contraction.n, contraction.k))
    thread = dict(contraction.request.schedule.thread)
    height = 2 * _THREAD_TILE if min(m, n) > _MIN_EXTENT_FOR_TALL_THREAD_TILES else _THREAD_TILE
    k_major = [operand for operand in contraction.operands if operand.is_k_major]
    k_width = math.gcd(k, *map(_max_width, k_major)) if k_major else 1
    m_major = [operand for operand in contraction.a_operands if not operand.is_k_major]
    m_width = math.gcd(m, *map(_max_width, m_major)) if m_major else 1
    m_partition = _partition(contraction.m, m, thread.get(contraction.m.name, height), m_width)
    n_width = _max_n_width(contraction)
    while n_width:
        n_partition = _partition(contraction.n, n, thread.get(contraction.n.name, _THREAD_TILE), n_width)
        batch = _batch_per_block(contraction, m_partition.threads * n_partition.threads)
        while True:
            sides = m_partition, n_partition
            layouts = [_layouts(contraction, operand, *sides, k, k_width, batch) for operand in contraction.operands]
            for chosen in itertools.product(*layouts):
                config = BatchConfig(batch, *sides, k, k_width, tuple(tile for _, tile in chosen))
                wavefronts = sum(wavefronts for wavefronts, _ in chosen) + _issue_time(config)
                yield wavefronts / batch * _exposed_latency(config, contraction.request.target), config
            if batch == 1 or BATCH.name in contraction.tunables:
                break
            batch //= 2
        n_width //= 2


def _issue_time(config: BatchConfig) -> float:
    """The time in which a block's copies, multiply-adds and stores are issued, in wavefronts."""
    m, n = config.m, config.n
    per_copy = _COPY_INSTRUCTIONS + (_MATRIX_INSTRUCTIONS if config.batch > 1 else 0)
    copied = sum(tile.vectors * (config.batch if tile.is_batched else 1) for tile in config.tiles)
    instructions = -(-copied // config.threads) * per_copy + m.per_thread * n.per_thread * config.k
    warps = -(-config.threads // WARP_SIZE)
    return warps * (instructions / _INSTRUCTIONS_PER_WAVEFRONT + n.vectors * m.per_thread)


def _exposed_latency(config: BatchConfig, target: Target) -> float:
    """The time of a block, relative to one with enough resident warps beside it; infinite if it can't be launched."""
    resident = occupancy(PLANNING_DEVICE.target, config.threads, 0, config.shared_bytes).warps_per_sm
    if not resident or config.shared_bytes > target.shared_per_block:
        return math.inf
    return max(1.0, _LATENCY_HIDING_WARPS / resident)


def _batch_per_block(contraction: Contraction, threads_per_matrix: int) -> int:
    """Matrices per block: up to the target block size, as long as the grid fills the planning device."""
    if BATCH.name in contraction.tunables:
        return int(contraction.tunables[BATCH.name])
    counts = [contraction.context.max_extent(index) for index in contraction.batch]
    batch = 1
    while 2 * batch * threads_per_matrix <= _TARGET_BLOCK_THREADS and 2 * batch <= counts[0]:
        batch *= 2
    while batch > 1 and math.prod(counts) < _MIN_BLOCKS_PER_SM * PLANNING_DEVICE.sms * batch:
        batch //= 2
    return batch


def _partition(index: Index, extent: int, per_thread: int, width: int) -> Partition:
    """A partition with about `per_thread` elements per thread."""
    width = min(width, 1 << (per_thread.bit_length() - 1))
    vectors = -(-extent // width)
    threads = -(-vectors // max(per_thread // width, 1))
    return Partition(index, extent, threads, -(-vectors // threads), width)


def _max_width(operand: Operand) -> int:
    return MAX_ACCESS_BYTES // operand.array.dtype.bytes


def _max_n_width(contraction: Contraction) -> int:
    """The widest vector along N that the B tiles are read with and the outputs stored with."""
    widths = (_max_width(operand) for operand in contraction.b_operands if not operand.is_k_major)
    return stored_width(contraction.request, contraction.n, min(widths, default=MAX_ACCESS_BYTES))


def _layouts(
    contraction: Contraction, operand: Operand, m: Partition, n: Partition, k: int, k_width: int, batch: int
) -> list[tuple[int, SharedTile]]:
    """Layouts of the operand's tile, each with its wavefronts: the smallest, and larger ones that take fewer."""
    mn, threads_per_matrix = m if operand.is_along_m else n, m.threads * n.threads
    fast, read_width = (contraction.k, k_width) if operand.is_k_major else (mn.index, mn.width)
    load_width = copy_width(contraction, operand, fast)
    is_batched = contraction.batch[0].name in free_indices(operand.read)
    tile = SharedTile(operand, mn, k, is_batched, load_width, read_width)
    unit = max(load_width, read_width)
    # Only a warp that reads several matrices can have bank conflicts between them.
    pads_matrices = batch > 1 and is_batched and threads_per_matrix < WARP_SIZE
    matrices = batch if is_batched else 1
    warps = -(-threads_per_matrix * batch // WARP_SIZE)
    lowest = _reads(tile) * warps + _fills(tile) * matrices  # without bank conflicts
    costs: dict[int, tuple[int, SharedTile]] = {}  # by the bytes between matrices
    for pitch in _strides(-(-tile.fast_extent // unit) * unit, unit, operand.array):
        dense_stride = -(-tile.slow_extent * pitch // unit) * unit
        if any(cost == lowest and stride < dense_stride for stride, (cost, _) in costs.items()):
            break
        padded = _strides(tile.slow_extent * pitch, unit, operand.array)
        for matrix_stride in padded if pads_matrices else (dense_stride,):
            tile = replace(tile, pitch=pitch, matrix_stride=matrix_stride)
            cost = _read_wavefronts(tile, n.threads, threads_per_matrix, batch) + _fill_wavefronts(tile) * matrices
            if matrix_stride not in costs or cost < costs[matrix_stride][0]:
                costs[matrix_stride] = cost, tile
            if cost == lowest:
                break
    fewest = math.inf
    layouts = []
    for _, (cost, tile) in sorted(costs.items()):
        if cost < fewest:
            fewest = cost
            layouts.append((cost, tile))
    return layouts


def _strides(minimum: int, unit: int, array: Array) -> range:
    """Strides to try, in elements: up to a bank period more than the minimum, in steps of words at least."""
    size = array.dtype.bytes
    return range(minimum, minimum + WAVEFRONT_BYTES // size + 1, max(unit, BANK_BYTES // size))


def _reads(tile: SharedTile) -> int:
    """Instructions of a warp that read the tile in the whole main loop."""
    if tile.operand.is_k_major:
        return tile.mn.per_thread * (tile.fast_extent // tile.read_width)
    return tile.mn.vectors * tile.slow_extent


def _fills(tile: SharedTile) -> int:
    """Instructions of a warp that fill one matrix, had it all of them."""
    return -(-tile.vectors // WARP_SIZE)


def _read_wavefronts(tile: SharedTile, n_threads: int, threads_per_matrix: int, batch: int) -> int:
    """Wavefronts of the block's reads of the tile in the whole main loop."""
    mn, threads = tile.mn, threads_per_matrix * batch
    warps = range(0, threads, WARP_SIZE)
    first = sum(_vector_wavefronts(tile, 0, n_threads, threads_per_matrix, threads, warp) for warp in warps)
    last = first
    if mn.padded_extent > mn.extent:
        lanes = n_threads, threads_per_matrix, threads
        last = sum(_vector_wavefronts(tile, mn.vectors - 1, *lanes, warp) for warp in warps)
    return (first * (mn.vectors - 1) + last) * (_reads(tile) // mn.vectors)


def _vector_wavefronts(
    tile: SharedTile, vector: int, n_threads: int, threads_per_matrix: int, threads: int, warp: int
) -> int:
    """Wavefronts of one read of vector `vector` of the thread tiles by the warp from thread `warp` of `threads` on."""
    operand, mn, size = tile.operand, tile.mn, tile.operand.array.dtype.bytes
    addresses: list[int | None] = [None] * WARP_SIZE
    for lane, rank in enumerate(range(warp, min(warp + WARP_SIZE, threads))):
        matrix, thread = divmod(rank, threads_per_matrix)
        position = thread // n_threads if operand.is_along_m else thread % n_threads
        coordinate = min((position + vector * mn.threads) * mn.width, mn.extent - mn.width)
        offset = coordinate * (tile.pitch if operand.is_k_major else 1)
        addresses[lane] = ((matrix * tile.matrix_stride if tile.is_batched else 0) + offset) * size
    return _wavefronts("load", tile.read_width * size, tuple(addresses))


def _fill_wavefronts(tile: SharedTile) -> int:
    """Wavefronts of the stores that fill one matrix, estimated from those of the first warp."""
    size, vectors_per_row = tile.operand.array.dtype.bytes, tile.fast_extent // tile.load_width
    addresses = []
    for lane in range(WARP_SIZE):
        row, vector = divmod(lane, vectors_per_row)
        matrix, row = divmod(row, tile.slow_extent)
        addresses.append((matrix * tile.matrix_stride + row * tile.pitch + vector * tile.load_width) * size)
    return _wavefronts("store", tile.load_width * size, tuple(addresses)) * _fills(tile)


@lru_cache(maxsize=1 << 14)
def _wavefronts(kind: str, width: int, addresses: tuple[int | None, ...]) -> int:
    """Wavefronts of a warp's shared-memory access by the rule of the planning device, so that layouts don't vary."""
    return warp_request("shared", kind, width, addresses, PLANNING_DEVICE.target).wavefronts
