"""Configuration of a warp-specialised GEMM: block tile, stages and raster."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.gemm.config import WARP, Cores, Reduction, TileConfig
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WARPGROUP, WGMMA_M, WgmmaInstruction

ACCUMULATOR_LANES_M, ACCUMULATOR_LANES_N = 8, 4  # of a warp (PTX ISA, wgmma: layout of D)
BARRIER_BYTES = 8
BLOCK_ID_BYTES = 4  # in shared memory, of stream-K
_CHUNKS_N = (64, 32, 16)  # columns that the epilogue stores at once: a swizzled row of 16-bit elements
_MIN_TRANSPOSED_ROWS = 64  # that it stores at once with swapped operands, where a tile has so many
_WIDE_OFFSET_REGISTERS = 24
_COMPUTED_REGISTERS = 20
_COMPUTED_MATRIX_REGISTERS = 8  # for a second matrix of a warpgroup
_DOUBLE_REGISTERS = 64  # where results are computed in float64
_OTHER_REGISTERS = 40  # of a thread; ptxas 13.0 takes up to so many
# With swapped operands, whose sums of a thread are in many rows of the output.
_SWAPPED_MATRIX_REGISTERS, _SWAPPED_COMPUTED_MATRIX_REGISTERS = 12, 52  # for a second matrix of a warpgroup
_SWAPPED_DYNAMIC_REGISTERS, _SWAPPED_COMPUTED_DYNAMIC_REGISTERS = 8, 20
STMATRIX = "stmatrix"  # of the tunable `epilogue`
MULTICASTS = ("multicast", "multicast_n")  # tunables by which the blocks of a cluster share tiles of B or of A
PRODUCER_REGISTERS = 40  # that its threads keep, of those that they give to consumers


@dataclass(frozen=True, slots=True)
class WgmmaConfig(TileConfig):
    """A block tile of BM x BN: each of `consumers` warpgroups multiplies BM / consumers rows, and one more warp copies
    the tiles; or with no producer a thread of the consumers, behind barriers of the block. A thread's accumulators are
    2 rows for each 64 of its warpgroup, and BN / 4 columns. `promotes`: the sums of a k-tile are added to others in
    float32, since the instruction keeps fewer bits. `multicast` blocks of a cluster have consecutive tiles along M:
    each copies a part of B's tile for all of them; `multicast_n` blocks have them along N, and share tiles of A. With
    both the blocks of a cluster are so many times so many.
    `gives_registers`: the producer is a whole warpgroup, whose
    registers the consumers take (setmaxnreg). `stores_at_once`: the epilogue has a buffer for each part of a
    warpgroup's tile, and stores all of them after one barrier. `stores_matrices`: a warp writes 8 x 8 elements there at
    a time (stmatrix), in place of two of a lane. `swaps_ab`: rows of the tile are columns of the output."""

    instruction: WgmmaInstruction | None = None
    consumers: int = 1
    promotes: bool = False
    multicast: int = 1
    multicast_n: int = 1
    gives_registers: bool = False
    stores_at_once: bool = False
    has_producer: bool = True
    stores_matrices: bool = False
    swaps_ab: bool = False

    @property
    def wgmma(self) -> WgmmaInstruction:
        assert self.instruction is not None
        return self.instruction

    @property
    def sharing(self) -> int:
        """Blocks of a cluster that share tiles of an operand, or some of A and others of B."""
        return self.multicast * self.multicast_n

    @property
    def shares_both(self) -> bool:
        """Whether the blocks of a cluster are beside each other and below each other."""
        return self.multicast > 1 and self.multicast_n > 1

    @property
    def sharing_peers(self) -> int:
        """Blocks that each copies to, itself counted for either operand of which it shares tiles."""
        return self.multicast + self.multicast_n if self.shares_both else self.sharing

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return max(self.split_k, self.sharing)

    @property
    def is_persistent(self) -> bool:
        """Whether blocks, as many as are resident, compute several output tiles where there are more."""
        return self.has_producer and self.split_k == 1

    @property
    def consumer_threads(self) -> int:
        return self.consumers * WARPGROUP

    @property
    def block_threads(self) -> int:
        """Threads of a block, with the producer."""
        if not self.has_producer:
            return self.consumer_threads
        return self.consumer_threads + (WARPGROUP if self.gives_registers else WARP)

    @property
    def matrices_m(self) -> int:
        """Matrices of 64 rows that a warpgroup multiplies."""
        return int(self.block_m) // (WGMMA_M * self.consumers)

    @property
    def chunk_n(self) -> int:
        """Columns that the epilogue stores at once through shared memory: one swizzled row of 128, 64 or 32 bytes; with
        swapped operands, whose columns are rows of 128 bytes there, an equal part of them."""
        if self.swaps_ab:
            rows, fewest = int(self.block_n), min(int(self.block_n), _MIN_TRANSPOSED_ROWS)
            return next(part for part in range(8, rows + 1, 8) if part >= fewest and rows % part == 0)
        return next(columns for columns in _CHUNKS_N if self.block_n % columns == 0)

    @property
    def chunks(self) -> int:
        """Parts of a warpgroup's tile that are stored at once."""
        return self.matrices_m * int(self.block_n) // self.chunk_n

    @property
    def store_buffers(self) -> int:
        """Buffers of such columns of a warpgroup: if possible a divisor of their number in a tile, so that each tile
        begins with the first one."""
        if self.stores_at_once:
            return self.chunks
        # With stream-K only some of a block's tiles are stored, and each begins with the first buffer.
        others = 1 if self.stream_k else min(self.chunks, 2)
        return next((count for count in (2, 3) if self.chunks % count == 0), others)

    @property
    def barrier_bytes(self) -> int:
        """Of a stage."""
        return (2 if self.has_producer else 1) * BARRIER_BYTES

    def store_bytes(self, element_bytes: int) -> int:
        """Of the buffers of an epilogue that stores elements of so many bytes by TMA."""
        return self.consumers * self.store_buffers * WGMMA_M * self.chunk_n * element_bytes


def config_of(
    instruction: WgmmaInstruction,
    block_m: int,
    block_n: int,
    stages: int,
    *,
    raster: int = 1,
    split_k: int = 1,
    promotes: bool = False,
    multicast: int = 1,
    multicast_n: int = 1,
    gives_registers: bool = False,
    has_producer: bool = True,
    swaps_ab: bool = False,
) -> WgmmaConfig:
    """The config of a block tile: a consumer for each 64 rows up to three, and for each 128 of larger tiles. `split_k`
    blocks of a cluster divide the k-tiles of an output tile."""
    consumers = block_m // WGMMA_M if block_m <= 3 * WGMMA_M else block_m // (2 * WGMMA_M)
    return WgmmaConfig(
        block_m,
        block_n,
        thread_m=2 * block_m // (WGMMA_M * consumers),
        thread_n=block_n // ACCUMULATOR_LANES_N,
        block_k=SWIZZLED_ROW_BYTES // instruction.element_bytes,
        stages=stages,
        lanes_m=ACCUMULATOR_LANES_M,
        raster=raster,
        cores=Cores.TENSOR,
        split_k=split_k,
        reduction=Reduction.CLUSTER,
        instruction=instruction,
        consumers=consumers,
        promotes=promotes,
        multicast=multicast,
        multicast_n=multicast_n,
        gives_registers=gives_registers,
        has_producer=has_producer,
        swaps_ab=swaps_ab,
    )


def registers_of(
    config: WgmmaConfig, *, has_wide_offsets: bool, is_computed: bool, is_dynamic: bool, has_doubles: bool
) -> int:
    """Registers that a thread needs; it spills with fewer. `has_wide_offsets`: it stores to offsets of 64 bits;
    `is_computed`: what it stores is more than the sums, computed in float64 with `has_doubles`; `is_dynamic`: sizes
    of the output are known at launch."""
    sums = config.thread_m * config.thread_n * (2 if config.promotes else 1)
    offsets = has_wide_offsets * _WIDE_OFFSET_REGISTERS
    computed = is_computed * (_COMPUTED_REGISTERS + (config.matrices_m - 1) * _COMPUTED_MATRIX_REGISTERS)
    registers = sums + _OTHER_REGISTERS + offsets + computed + has_doubles * _DOUBLE_REGISTERS
    if not config.swaps_ab:
        return registers
    registers += has_wide_offsets * 2 * config.thread_n * (2 if is_computed else 1)  # of each row, and of a read one
    second = _SWAPPED_COMPUTED_MATRIX_REGISTERS if is_computed else _SWAPPED_MATRIX_REGISTERS
    dynamic = _SWAPPED_COMPUTED_DYNAMIC_REGISTERS if is_computed else _SWAPPED_DYNAMIC_REGISTERS
    return registers + (config.matrices_m - 1) * second + is_dynamic * dynamic


def available_registers(config: WgmmaConfig, registers_per_sm: int, maximum: int) -> int:
    """Registers of a consumer's thread in a block that is alone on its multiprocessor. ptxas allocates warps in fours,
    registers of a thread in eights."""
    threads = -(-config.block_threads // WARPGROUP) * WARPGROUP
    launched = min(registers_per_sm // threads // 8 * 8, maximum)
    if not config.gives_registers:
        return launched
    taken = launched * threads - PRODUCER_REGISTERS * WARPGROUP
    return min(taken // config.consumer_threads, maximum) // 8 * 8
