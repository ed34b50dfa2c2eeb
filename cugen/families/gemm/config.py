"""Tile configuration of a contraction, and the tunables that set it. It picks the pieces of the kernel:

- copies in `copy`: of vectors or elements, asynchronous where the target and the number of stages allow it
- main loop in `main_loop`: multistage, or of a single stage
- multiply-accumulates in `fragments`: on CUDA cores (SIMT) or on tensor cores
- epilogue: from registers; or through shared memory, where partial sums are added, or so that stores are coalesced
- tile scheduler: data-parallel, or split-K (in a workspace or a cluster) and stream-K in `split`

Sizes:

- block tile BM x BN x BK: staged in shared memory, one k-tile per pipeline stage
- warp tile WM x WN x WK: one warp's part of a block tile; WK = BK / sliced_k
- thread tile TM x TN: one thread's accumulators
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cugen.machine.mma import MmaInstruction
from cugen.plan.request import Tunable

WARP = 32
TILE = 16  # of `tiled` along each index, without register tiles
# Heuristic: below this extent of M or N, a 64 x 64 block tile of `tiled` would be mostly padding.
MIN_EXTENT_FOR_REGISTER_TILES = 64


class Order(StrEnum):
    """Order of a thread's multiply-adds over its accumulators."""

    ROWS = "rows"
    COLUMNS = "columns"
    SERPENTINE = "serpentine"
    ZIGZAG = "zigzag"


class Prefetch(StrEnum):
    """Where the copies of the next k-tile are issued."""

    UPFRONT = "upfront"
    INTERLEAVED = "interleaved"


class Addressing(StrEnum):
    """Shared-memory addressing of fragment loads."""

    INDEXED = "indexed"
    POINTER = "pointer"


class Reduction(StrEnum):
    """Where split-K adds partial sums."""

    CLUSTER = "cluster"
    WORKSPACE = "workspace"


class Stores(StrEnum):
    """Where the epilogue stores its results from."""

    REGISTERS = "registers"
    SHARED = "shared"


class Cores(StrEnum):
    """Units that multiply."""

    TENSOR = "tensor"
    CUDA = "cuda"


_BY_SHAPE = "by shape"  # chosen by cost_model.py for the GEMM's shape
SPLIT_K_VALUES = (1, 2, 3, 4, 6, 8, 12, 16)
LAUNCH_SPLIT_K_VALUES = (*SPLIT_K_VALUES, 24, 32, 48, 64)  # where stream-K, which needs static sizes, isn't possible
MIN_K_TILES_PER_RANGE = 4  # of split-K by sizes that are known at launch; heuristic: fewer don't pay for a prologue
STREAM_K_VALUES = (0, 1, 2)
TUNABLES = (
    Tunable(
        "stages",
        (1, 2, 3, 4, 5),
        _BY_SHAPE,
        "pipeline stages: k-tiles in the circular shared-memory buffer; a single one is copied synchronously",
    ),
    Tunable(
        "sliced_k",
        (1, 2, 4, 8),
        _BY_SHAPE,
        "warp groups that each take a slice of every k-tile (split-K within a block); their accumulators are added",
        reorders=True,
    ),
    Tunable("lanes", (2, 4, 8, 16), _BY_SHAPE, "lanes of a warp along M of its warp tile; the others are along N"),
    Tunable(
        "order",
        tuple(order.value for order in Order),
        Order.SERPENTINE.value,
        "order of a thread's multiply-adds over its accumulators",
    ),
    Tunable(
        "addressing",
        tuple(addressing.value for addressing in Addressing),
        _BY_SHAPE,
        "shared-memory addressing of fragment loads: subscripts of the tile, or offsets from a thread's pointer into "
        "it; the machine code differs",
    ),
    Tunable(
        "prefetch",
        tuple(prefetch.value for prefetch in Prefetch),
        _BY_SHAPE,
        "where the copies of the next k-tile are issued: before the multiply-adds of this one, or interleaved with "
        "them",
    ),
    Tunable(
        "stores",
        tuple(stores.value for stores in Stores),
        _BY_SHAPE,
        "where results are stored from: the registers of the thread that computed them, or shared memory, through "
        "which the stores of a warp are consecutive",
    ),
    Tunable("raster", (1, 2, 4, 8, 16), 1, "rows of block tiles that are rasterised together, column by column"),
    Tunable("blocks_per_sm", (0, 1, 2, 3, 4), 0, "blocks to fit a multiprocessor; 0 leaves it to the compiler"),
    Tunable("split_k", LAUNCH_SPLIT_K_VALUES, _BY_SHAPE, "blocks that split the K of each output tile", reorders=True),
    Tunable(
        "reduction",
        tuple(reduction.value for reduction in Reduction),
        _BY_SHAPE,
        "where split-K adds partial sums: the distributed shared memory of a cluster of 2, 3, 4, 6 or 8 blocks, from "
        "sm_90 on, or a global workspace",
        reorders=True,
    ),
    Tunable(
        "stream_k",
        STREAM_K_VALUES,
        _BY_SHAPE,
        "last waves of tiles whose k-tiles are distributed evenly over the resident blocks (stream-K)",
        reorders=True,
    ),
    Tunable(
        "cores",
        tuple(cores.value for cores in Cores),
        _BY_SHAPE,
        "units that multiply: tensor cores, for types and devices that are faster with them, or CUDA cores",
        reorders=True,
    ),
    Tunable("mma_k", (4, 8, 16), 4, "K of one tensor-core instruction on float64; of other types it is fixed"),
)

CLUSTER_SIZES = (2, 3, 4, 6, 8)  # blocks; 8 is the portable maximum (CUDA programming guide)
# Larger sliced-K groups share one copy pipeline: measured on an H200.
_MAX_WARPS_PER_INDEPENDENT_GROUP = 2


@dataclass(frozen=True, slots=True)
class TileConfig:
    """Tile sizes in elements, and the tunables of one GEMM kernel.

    `lanes_m` lanes of a warp are along M. Each of `sliced_k` warp groups multiplies its slice of every k-tile. In the
    strided layout a thread's fragments are the extents of the thread block apart; all threads count as lanes.
    `split_k` blocks share an output tile; `reduction` names where they add their partial sums. `stream_k` counts the
    waves of tiles that stream-K distributes; `mma` is the instruction of tensor cores. `is_resident`: shared memory has
    all of K at once, for one unrolled loop."""

    block_m: int
    block_n: int
    thread_m: int
    thread_n: int
    block_k: int
    stages: int = 4
    sliced_k: int = 1
    lanes_m: int = 4
    order: Order = Order.SERPENTINE
    addressing: Addressing = Addressing.INDEXED
    prefetch: Prefetch = Prefetch.UPFRONT
    raster: int = 1
    blocks_per_sm: int = 0
    split_k: int = 1
    stream_k: int = 0
    cores: Cores = Cores.CUDA
    mma: MmaInstruction | None = None
    reduction: Reduction = Reduction.WORKSPACE
    stores: Stores = Stores.REGISTERS
    is_strided: bool = False
    is_resident: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether a thread has a single accumulator, in no array."""
        return self.is_strided and not self.is_resident and self.thread_m == self.thread_n == 1

    @property
    def is_multistage(self) -> bool:
        return self.stages > 1

    @property
    def copies_through_registers(self) -> bool:
        """Whether operands without asynchronous copies are loaded before the k steps, and stored after them."""
        return self.is_multistage and self.prefetch != Prefetch.INTERLEAVED

    @property
    def uses_cluster(self) -> bool:
        return self.split_k > 1 and self.reduction == Reduction.CLUSTER

    @property
    def exchanges_in_shared(self) -> bool:
        """Whether the epilogue exchanges accumulators through the shared memory of the pipeline."""
        return self.adds_in_shared or self.stores == Stores.SHARED

    @property
    def adds_in_shared(self) -> bool:
        """Whether it adds partial sums there."""
        return self.sliced_k > 1 or self.uses_cluster

    @property
    def splits_tiles(self) -> bool:
        """Whether several blocks accumulate one output tile (split-K or stream-K)."""
        return self.stream_k > 0 or self.split_k > 1

    @property
    def uses_tensor_cores(self) -> bool:
        return self.cores == Cores.TENSOR

    @property
    def fragment_k(self) -> int:
        """K of one register fragment, that is of one step of the inner loop."""
        return self.mma.k if self.mma is not None else 1

    @property
    def fragment_buffers(self) -> int:
        """Register buffers of a fragment: two in a multistage pipeline, which loads one while it multiplies another."""
        return 2 if self.is_multistage else 1

    @property
    def lanes_n(self) -> int:
        return self.block_n // self.thread_n if self.is_strided else WARP // self.lanes_m

    @property
    def warp_m(self) -> int:
        return self.thread_m * self.lanes_m

    @property
    def warp_n(self) -> int:
        return self.thread_n * self.lanes_n

    @property
    def warp_k(self) -> int:
        """The slice of a k-tile that one sliced-K group multiplies."""
        return self.block_k // self.sliced_k

    @property
    def warps_m(self) -> int:
        """Warps of a sliced-K group along M."""
        return int(self.block_m // self.warp_m)

    @property
    def warps_n(self) -> int:
        return int(self.block_n // self.warp_n)

    @property
    def warps_per_slice(self) -> int:
        return self.warps_m * self.warps_n

    @property
    def threads(self) -> int:
        return self.warps_per_slice * self.sliced_k * int(self.lanes_m) * int(self.lanes_n)

    @property
    def copy_groups(self) -> int:
        """Warp groups with a copy pipeline and a barrier of their own: small sliced-K groups, else the whole block."""
        independent = self.warps_per_slice <= _MAX_WARPS_PER_INDEPENDENT_GROUP and not self.uses_tensor_cores
        return self.sliced_k if independent else 1

    @property
    def copy_group_threads(self) -> int:
        return self.threads // self.copy_groups

    @property
    def copy_group_k(self) -> int:
        """The part of a k-tile that one copy group loads."""
        return self.block_k // self.copy_groups


def with_lane_layout(config: TileConfig, lanes_m: int = 0) -> TileConfig | None:
    """The config with a lane layout that divides its tile; None if there is none.

    Without `lanes_m` 4 x 8 comes first: 8 lanes along N store 128 contiguous bytes."""
    threads_m, threads_n = config.block_m // config.thread_m, config.block_n // config.thread_n
    for lanes in (lanes_m,) if lanes_m else (4, 8, 2, 16):
        if threads_m % lanes == 0 and threads_n % (WARP // lanes) == 0:
            return replace(config, lanes_m=lanes) if lanes != config.lanes_m else config
    return None


def with_stages(config: TileConfig, stages: int, requested: Mapping[str, int | str | bool]) -> TileConfig:
    """The config with the stages, and with the requested addressing and prefetch or those measured fastest on an H200:
    sliced-K saves the offset of its slice by a pointer, and a two-stage pipeline must issue its copies early."""
    if config.uses_tensor_cores:
        return replace(config, stages=stages)
    is_sliced = config.sliced_k > 1
    addressing = requested.get("addressing", Addressing.POINTER if is_sliced else Addressing.INDEXED)
    is_interleaved = is_sliced and stages > 2
    prefetch = requested.get("prefetch", Prefetch.INTERLEAVED if is_interleaved else Prefetch.UPFRONT)
    return replace(config, stages=stages, addressing=Addressing(str(addressing)), prefetch=Prefetch(str(prefetch)))
