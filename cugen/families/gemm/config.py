"""Sizes of a product on CUDA cores: a block's tile, a warp's share of it, a thread's, and the ring of stages."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.plan.request import Tunable

WARP = 32

_BY_SHAPE = "by shape"  # what the model of gemm_model.py finds fastest
STAGES = Tunable(
    "stages", (2, 3, 4, 5), _BY_SHAPE, "tiles in flight: steps of the sum that are staged at once, in a ring"
)
SLICES = Tunable(
    "slices",
    (1, 2, 4, 8),
    _BY_SHAPE,
    "groups of warps that share out each step of the sum; their sums are added",
    reorders=True,
)
LANES = Tunable(
    "lanes", (2, 4, 8, 16), _BY_SHAPE, "lanes of a warp along the rows of its share; the others lie along columns"
)
ORDER = Tunable(
    "order", ("rows", "columns", "serpentine", "zigzag"), "serpentine", "how a thread walks over its outputs"
)
COPIES = Tunable(
    "copies",
    ("first", "apart"),
    _BY_SHAPE,
    "when a step's copies are begun: before its products, or those of each operand among them",
)
READS = Tunable(
    "reads",
    ("subscripts", "pointer"),
    _BY_SHAPE,
    "how a thread's reads of the tiles are written: by subscripts, or from a pointer to where its own part begins; "
    "the compiler makes other code of it",
)
RASTER = Tunable("raster", (1, 2, 4, 8, 16), 1, "rows of tiles that are computed together, column by column")
BLOCKS = Tunable("blocks", (0, 1, 2, 3, 4), 0, "blocks that are to fit a multiprocessor; 0 leaves it to the compiler")
SPLIT = Tunable(
    "split",
    (1, 2, 3, 4, 6, 8, 12, 16),
    _BY_SHAPE,
    "parts of a long sum that blocks of their own take",
    reorders=True,
)
JOIN = Tunable(
    "join",
    ("cluster", "workspace"),
    _BY_SHAPE,
    "where parts of a sum meet: the shared memory of a cluster of 2, 3, 4, 6 or 8 blocks, from sm_90 on, or the "
    "workspace",
    reorders=True,
)
_TEAM = 2  # warps, at most
CLUSTERS = (2, 3, 4, 6, 8)  # blocks that may share a sum in a cluster
STREAM = Tunable(
    "stream",
    (0, 1, 2),
    _BY_SHAPE,
    "waves of tiles, the last ones, whose steps are shared out evenly by as many blocks as run at once",
    reorders=True,
)
CORES = Tunable(
    "cores",
    ("tensor", "cuda"),
    _BY_SHAPE,
    "units that multiply: tensor cores, for float64 on devices that are faster with them, or CUDA cores",
    reorders=True,
)
DEPTH = Tunable("depth", (4, 8, 16), 4, "products of a sum that one instruction of a tensor core takes")
TUNABLES = (STAGES, SLICES, LANES, ORDER, READS, COPIES, RASTER, BLOCKS, SPLIT, JOIN, STREAM, CORES, DEPTH)


@dataclass(frozen=True, slots=True)
class Shape:
    """A block of warps computes `rows` x `columns` outputs, each thread `thread_rows` x `thread_columns` of them.

    `step` of the summed index are staged at a time, in a ring of `stages`; each of `slices` groups of warps takes its
    part of every step. `lanes` of each warp lie along the rows. `cores` is `tensor` or `cuda`; an instruction of a
    tensor core takes `depth` products of each sum. `split` blocks share each sum; their parts meet in the shared memory
    of a `cluster` or in the `workspace`, as `join` says."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    step: int
    stages: int = 4
    slices: int = 1
    lanes: int = 4
    order: str = "serpentine"
    reads: str = "subscripts"
    copies: str = "first"
    raster: int = 1
    blocks: int = 0
    split: int = 1
    stream: int = 0
    cores: str = "cuda"
    depth: int = 4
    join: str = "workspace"

    @property
    def is_clustered(self) -> bool:
        return self.split > 1 and self.join == "cluster"

    @property
    def leaves_sums(self) -> bool:
        """Whether threads leave their sums in the memory of the ring."""
        return self.slices > 1 or self.is_clustered

    @property
    def is_shared(self) -> bool:
        """Whether several blocks share the sums of a tile."""
        return self.stream > 0 or self.split > 1

    @property
    def is_on_tensor_cores(self) -> bool:
        return self.cores == "tensor"

    @property
    def pace(self) -> int:
        """Products of each sum for which values are read at once."""
        return self.depth if self.is_on_tensor_cores else 1

    @property
    def lane_columns(self) -> int:
        return WARP // self.lanes

    @property
    def warps_down(self) -> int:
        """Warps of a slice along the rows."""
        return self.rows // (self.thread_rows * self.lanes)

    @property
    def warps_across(self) -> int:
        return self.columns // (self.thread_columns * self.lane_columns)

    @property
    def warps(self) -> int:
        """Warps of one slice."""
        return self.warps_down * self.warps_across

    @property
    def threads(self) -> int:
        return self.warps * self.slices * WARP

    @property
    def teams(self) -> int:
        """Groups of warps that copy what they read for themselves, and wait for no others: the slices of a step where
        these are small, which was up to 8 % faster; of four warps and more it was up to 8 % slower."""
        return self.slices if self.warps <= _TEAM and not self.is_on_tensor_cores else 1

    @property
    def team_threads(self) -> int:
        return self.threads // self.teams

    @property
    def team_step(self) -> int:
        """The part of a step that one team copies."""
        return self.step // self.teams

    @property
    def warp_rows(self) -> int:
        return self.thread_rows * self.lanes

    @property
    def warp_columns(self) -> int:
        return self.thread_columns * self.lane_columns

    @property
    def own_step(self) -> int:
        """The part of a step that one slice takes."""
        return self.step // self.slices

    @property
    def text(self) -> str:
        return f"{self.rows} x {self.columns} x {self.step}, {self.thread_rows} x {self.thread_columns} a thread"


def with_lanes(shape: Shape, wanted: int = 0) -> Shape | None:
    """The shape with lanes that fit its tile: those wanted, else 4 x 8, by which a row of 8 lanes stores 128 bytes side
    by side; None where no number fits."""
    down, across = shape.rows // shape.thread_rows, shape.columns // shape.thread_columns
    for lanes in (wanted,) if wanted else (4, 8, 2, 16):
        if down % lanes == 0 and across % (WARP // lanes) == 0:
            return replace(shape, lanes=lanes)
    return None


def with_words(shape: Shape, reads: str = "", copies: str = "") -> Shape:
    """The shape in the words that are asked for, else in those that were faster. Slices are spared the way to their own
    part of a tile in each step; copies of a ring of two stages must be there soon."""
    if shape.is_on_tensor_cores:
        return shape
    sliced = shape.slices > 1
    return replace(
        shape,
        reads=reads or ("pointer" if sliced else "subscripts"),
        copies=copies or ("apart" if sliced and shape.stages > 2 else "first"),
    )
