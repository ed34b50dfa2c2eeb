"""The config of a small batched GEMM: matrices per block, thread tiles, shared-memory layouts of the operands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.request import warp_request
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.vectors import MAX_ACCESS_BYTES, widest
from cugen.plan.memory import Array
from cugen.plan.request import Tunable
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec import expressions as spec
from cugen.spec.expressions import free_indices

_THREAD_TILE = 4  # default elements per thread along M and N (heuristic)
_MIN_EXTENT_FOR_TALL_THREAD_TILES = 32  # beyond this extent of M and N a thread tile is twice as tall (heuristic)
_TARGET_BLOCK_THREADS = 128  # matrices are added to a block up to this (heuristic)
_MIN_BLOCKS_PER_SM = 2  # grid size that is kept while matrices are added to a block (heuristic)
_MAX_UNROLLED_K = 32  # longer loops over k are partially unrolled
_BANK_PERIOD_BYTES = 128  # 32 banks of 4 bytes (CUDA programming guide): pitches repeat their conflicts after this

BATCH = Tunable(
    "batch", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "matrices per block; by default as many as give 128 threads"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A matrix's M or N dimension over the threads: each has `vectors` vectors of `width` consecutive elements."""

    index: spec.Index
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
    slow_extent: int
    fast_extent: int
    is_k_major: bool
    is_batched: bool
    load_width: int
    read_width: int
    pitch: int
    matrix_stride: int

    @property
    def rows(self) -> int:
        """The tile's rows, with the padding rows that thread tiles read."""
        return self.mn.padded_extent if self.is_k_major else self.slow_extent


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
    def is_unrolled(self) -> bool:
        """Whether the loop over k is fully unrolled."""
        return self.k <= _MAX_UNROLLED_K

    def shared_bytes(self, contraction: Contraction) -> int:
        return sum(
            tile.matrix_stride * (self.batch if tile.is_batched else 1) * _array(contraction, tile.operand).dtype.bytes
            for tile in self.tiles
        )


def extent_bounds(contraction: Contraction, index: spec.Index) -> tuple[int, int]:
    """The minimum and maximum extent of an index."""
    context = contraction.request.context
    return bounds(to_integer(index.extent, context.symbols), dict(context.ranges))


def choose_config(contraction: Contraction) -> BatchConfig:
    """The schedule's sizes, completed; of the vector widths along N, the one with the fewest wavefronts."""
    return min(_candidates(contraction), key=lambda candidate: candidate[0])[1]


def _candidates(contraction: Contraction) -> Iterator[tuple[int, BatchConfig]]:
    """Configs by vector width along N, each with its cost: wavefronts of a warp's shared accesses, and its stores."""
    m, n, k = (extent_bounds(contraction, index)[1] for index in (contraction.m, contraction.n, contraction.k))
    thread = dict(contraction.request.schedule.thread)
    thread_m = thread.get(
        contraction.m.name, _THREAD_TILE * (2 if min(m, n) > _MIN_EXTENT_FOR_TALL_THREAD_TILES else 1)
    )
    thread_n = thread.get(contraction.n.name, _THREAD_TILE)
    k_major = [operand for operand in contraction.operands if operand.fast == contraction.k.name]
    k_width = math.gcd(k, *(_max_width(contraction, operand) for operand in k_major)) if k_major else 1
    m_major = [operand for operand in contraction.a_operands if operand not in k_major]
    m_width = math.gcd(m, *(_max_width(contraction, operand) for operand in m_major)) if m_major else 1
    m_partition = _partition(contraction.m, m, thread_m, m_width)
    n_width = _max_n_width(contraction, n, k_major)
    while n_width:
        n_partition = _partition(contraction.n, n, thread_n, n_width)
        batch = _batch_per_block(contraction, m_partition.threads * n_partition.threads)
        while True:
            tiles = [
                _tile(contraction, operand, m_partition, n_partition, k, k_width, batch)
                for operand in contraction.operands
            ]
            config = BatchConfig(batch, m_partition, n_partition, k, k_width, tuple(tile for _, tile in tiles))
            limit = contraction.request.target.shared_per_block
            if batch == 1 or config.shared_bytes(contraction) <= limit or _scheduled_batch(contraction):
                break
            batch //= 2
        stores = n_partition.vectors * m_partition.per_thread
        yield sum(wavefronts for wavefronts, _ in tiles) + stores, config
        n_width //= 2


def _scheduled_batch(contraction: Contraction) -> int:
    """The `batch` tunable; 0 where the schedule doesn't set it."""
    return int(dict(contraction.request.schedule.tunables).get(BATCH.name, 0))


def _batch_per_block(contraction: Contraction, threads_per_matrix: int) -> int:
    """Matrices per block: up to the target block size, as long as the grid fills the planning device."""
    if scheduled := _scheduled_batch(contraction):
        return scheduled
    counts = [extent_bounds(contraction, index)[1] for index in contraction.batch]
    batch = 1
    while 2 * batch * threads_per_matrix <= _TARGET_BLOCK_THREADS and 2 * batch <= counts[0]:
        batch *= 2
    while batch > 1 and math.prod(counts) < _MIN_BLOCKS_PER_SM * PLANNING_DEVICE.sms * batch:
        batch //= 2
    return batch


def _partition(index: spec.Index, extent: int, per_thread: int, width: int) -> Partition:
    """A partition with about `per_thread` elements per thread."""
    width = min(width, 1 << (per_thread.bit_length() - 1))
    vectors = -(-extent // width)
    threads = -(-vectors // max(per_thread // width, 1))
    return Partition(index, extent, threads, -(-vectors // threads), width)


def _max_width(contraction: Contraction, operand: Operand) -> int:
    """The elements of the widest access."""
    return MAX_ACCESS_BYTES // _array(contraction, operand).dtype.bytes


def _max_n_width(contraction: Contraction, n: int, k_major: list[Operand]) -> int:
    """The widest vector along N that the B tiles are read with and the outputs stored with."""
    request = contraction.request
    context = request.context
    width = math.gcd(n, MAX_ACCESS_BYTES)
    for operand in contraction.b_operands:
        if operand not in k_major:
            width = min(width, _max_width(contraction, operand))
    for statement in request.group.statements:
        if context.spec.array(statement.target).role != "temporary" or statement.target in request.stored:
            array = context.arrays[statement.target]
            width = min(width, widest(array, statement.subscripts, contraction.n.name, context).count)
    return width


def _tile(
    contraction: Contraction, operand: Operand, m: Partition, n: Partition, k: int, k_width: int, batch: int
) -> tuple[int, SharedTile]:
    """The operand's tile with the padding that costs the fewest wavefronts, and that number."""
    array = _array(contraction, operand)
    is_a = operand in contraction.a_operands
    mn = m if is_a else n
    is_k_major = operand.fast == contraction.k.name
    slow_extent, fast_extent = (mn.extent, k) if is_k_major else (k, mn.extent)
    read_width = k_width if is_k_major else mn.width
    load_width = _load_width(contraction, operand, fast_extent)
    unit = max(load_width, read_width)
    is_batched = contraction.batch[0].name in free_indices(operand.read)
    threads_per_matrix = m.threads * n.threads
    # Only a warp that reads several matrices can have bank conflicts between them.
    pads_matrices = batch > 1 and is_batched and threads_per_matrix < WARP_SIZE
    rows = mn.padded_extent if is_k_major else slow_extent
    best: tuple[tuple[int, int], SharedTile] | None = None
    for pitch in _strides(-(-(fast_extent if is_k_major else mn.padded_extent) // unit) * unit, unit, array):
        dense_stride = -(-rows * pitch // unit) * unit
        for matrix_stride in _strides(rows * pitch, unit, array) if pads_matrices else (dense_stride,):
            tile = SharedTile(
                operand=operand,
                mn=mn,
                slow_extent=slow_extent,
                fast_extent=fast_extent,
                is_k_major=is_k_major,
                is_batched=is_batched,
                load_width=load_width,
                read_width=read_width,
                pitch=pitch,
                matrix_stride=matrix_stride,
            )
            cost = _read_wavefronts(tile, array, n.threads, threads_per_matrix, is_a) + _fill_wavefronts(tile, array)
            if best is None or (cost, matrix_stride) < best[0]:
                best = (cost, matrix_stride), tile
    assert best is not None
    return best[0][0], best[1]


def _load_width(contraction: Contraction, operand: Operand, fast_extent: int) -> int:
    """The elements per access of the copy from global memory."""
    array = _array(contraction, operand)
    if array.space == "readonly":
        return 1
    return math.gcd(
        widest(array, operand.read.subscripts, operand.fast, contraction.request.context).count, fast_extent
    )


def _strides(minimum: int, unit: int, array: Array) -> range:
    """Strides to try, in elements: up to a bank period more than the minimum."""
    return range(minimum, minimum + _BANK_PERIOD_BYTES // array.dtype.bytes + 1, unit)


def _read_wavefronts(tile: SharedTile, array: Array, n_threads: int, threads_per_matrix: int, is_a: bool) -> int:
    """Wavefronts of one warp's reads of the tile in the whole main loop."""
    size = array.dtype.bytes
    addresses = []
    for lane in range(WARP_SIZE):
        matrix, thread = divmod(lane, threads_per_matrix)
        position = thread // n_threads if is_a else thread % n_threads
        offset = position * tile.mn.width * (tile.pitch if tile.is_k_major else 1)
        addresses.append(((matrix * tile.matrix_stride if tile.is_batched else 0) + offset) * size)
    wavefronts = _wavefronts("load", tile.read_width * size, tuple(addresses))
    if tile.is_k_major:
        return wavefronts * tile.mn.per_thread * (tile.fast_extent // tile.read_width)
    return wavefronts * tile.mn.vectors * tile.slow_extent


def _fill_wavefronts(tile: SharedTile, array: Array) -> int:
    """Wavefronts of the stores that fill one matrix, estimated from those of the first warp."""
    size, vectors_per_row = array.dtype.bytes, tile.fast_extent // tile.load_width
    addresses = []
    for lane in range(WARP_SIZE):
        row, vector = divmod(lane, vectors_per_row)
        matrix, row = divmod(row, tile.slow_extent)
        addresses.append((matrix * tile.matrix_stride + row * tile.pitch + vector * tile.load_width) * size)
    wavefronts = _wavefronts("store", tile.load_width * size, tuple(addresses))
    return wavefronts * -(-tile.slow_extent * vectors_per_row // WARP_SIZE)


@lru_cache(maxsize=1 << 14)
def _wavefronts(kind: str, width: int, addresses: tuple[int, ...]) -> int:
    """Wavefronts of a warp's shared-memory access by the rule of the planning device, so that layouts don't vary."""
    return warp_request("shared", kind, width, addresses, PLANNING_DEVICE.target).wavefronts


def _array(contraction: Contraction, operand: Operand) -> Array:
    return contraction.request.context.arrays[operand.read.array]
