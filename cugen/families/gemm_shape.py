"""Sizes of a product on CUDA cores: a block's tile, a warp's share of it, a thread's, and the ring of stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cugen.families.base import Tunable
from cugen.families.contraction import Contraction, Operand
from cugen.families.vectors import WIDEST, divisor, widest
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.types import DType

WARP = 32
STATIC_SHARED = 48 * 1024  # bytes that a kernel may declare; more is carved out of what the launch asks for
_OWN = 40  # registers for addresses and counters, as ptxas has them

STAGES = Tunable("stages", (2, 3, 4, 5), 4, "tiles in flight: steps of the sum that are staged at once, in a ring")
SLICES = Tunable("slices", (1, 2, 4), 1, "groups of warps that share out each step of the sum; their sums are added")
LANES = Tunable("lanes", (2, 4, 8, 16), 4, "lanes of a warp along the rows of its share; the others lie along columns")
ORDER = Tunable("order", ("rows", "columns", "serpentine"), "serpentine", "how a thread walks over its outputs")
RASTER = Tunable("raster", (1, 2, 4, 8, 16), 1, "rows of tiles that are computed together, column by column")
BLOCKS = Tunable("blocks", (0, 1, 2, 3, 4), 0, "blocks that are to fit a multiprocessor; 0 leaves it to the compiler")
SPLIT = Tunable("split", (1, 2, 3, 4, 6, 8, 12, 16), 1, "parts of a long sum that blocks of their own take")
TUNABLES = (STAGES, SLICES, LANES, ORDER, RASTER, BLOCKS, SPLIT)


@dataclass(frozen=True, slots=True)
class Shape:
    """A block of warps computes `rows` x `columns` outputs, each thread `thread_rows` x `thread_columns` of them.

    `step` of the summed index are staged at a time, in a ring of `stages`; each of `slices` groups of warps takes its
    part of every step. `lanes` of each warp lie along the rows."""

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    step: int
    stages: int = 4
    slices: int = 1
    lanes: int = 4
    order: str = "serpentine"
    raster: int = 1
    blocks: int = 0
    split: int = 1

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


def group(operand_dtype: DType, own: int) -> int:
    """Neighbours that a thread owns side by side, and reads from a tile at once."""
    return math.gcd(own, WIDEST // operand_dtype.bytes)


def dtype_of(found: Contraction, operand: Operand) -> DType:
    return found.request.context.arrays[operand.read.array].dtype


def groups(found: Contraction, shape: Shape) -> tuple[int, int]:
    """The widths of a thread's groups along rows and columns."""
    (left,), (right,) = found.lefts, found.rights
    return group(dtype_of(found, left), shape.thread_rows), group(dtype_of(found, right), shape.thread_columns)


def copy_width(found: Contraction, operand: Operand, extent: int) -> int:
    """How many neighbours along its row or column one copy of an operand moves, of a tile that reaches so far."""
    context = found.request.context
    array, name = context.arrays[operand.read.array], operand.outer.name
    if operand.fast != name:
        return 1
    width = math.gcd(widest(array, operand.read.subscripts, name, context).count, extent)
    full = divisor(to_integer(operand.outer.extent, context.symbols), context)
    return math.gcd(width, full) if full else width


def pad_of(found: Contraction, operand: Operand) -> int:
    """The padding of a tile's rows. What is turned on its way from memory is written down columns: those of 8 rows
    must lie in different banks; and a row keeps the alignment of wide reads."""
    memory = found.request.context.spec.array(operand.read.array).memory
    if memory.space is not None and memory.pad:
        return memory.pad
    if operand.fast == operand.outer.name:
        return 0
    size = dtype_of(found, operand).bytes
    return 4 if size >= 4 else WIDEST // size


def tile_bytes(found: Contraction, shape: Shape) -> tuple[int, int]:
    """The bytes of the two rings, each a multiple of 16."""
    sizes = []
    for operand, extent in zip(found.operands, (shape.rows, shape.columns), strict=True):
        row = (extent + pad_of(found, operand)) * dtype_of(found, operand).bytes
        sizes.append(-(-shape.stages * shape.step * row // 16) * 16)
    return sizes[0], sizes[1]


def parts_pad(found: Contraction) -> int:
    """The padding that keeps a quarter-warp's rows of partial sums in different banks."""
    return WIDEST // found.sums[0].dtype.bytes


def parts_bytes(found: Contraction, shape: Shape) -> int:
    """The bytes through which slices add their sums."""
    if shape.slices == 1:
        return 0
    return shape.slices * shape.rows * (shape.columns + parts_pad(found)) * found.sums[0].dtype.bytes


def shared_bytes(found: Contraction, shape: Shape) -> int:
    return max(sum(tile_bytes(found, shape)), parts_bytes(found, shape))


def registers(found: Contraction, shape: Shape) -> int:
    """About what the compiler needs for each thread."""
    size = max(found.sums[0].dtype.bytes // 4, 1)
    return shape.thread_rows * shape.thread_columns * size + (shape.thread_rows + shape.thread_columns) * size + _OWN


def misfit(found: Contraction, shape: Shape) -> str:
    """Why a shape can't be had, empty where it can."""
    target = found.request.target
    row, column = found.row.name, found.column.name
    widths = groups(found, shape)
    for name, width, operand in zip((row, column), widths, found.operands, strict=True):
        if width < 2:
            return f"a thread owns neighbours along {name} in groups of 2 or more"
        if pad_of(found, operand) % width:
            return f"a pad of {pad_of(found, operand)} parts rows of {operand.read.array} that are read {width} at once"
    if shape.step % shape.slices:
        return f"{shape.slices} slices can't share out a step of {shape.step}"
    if shape.threads > target.threads_per_block:
        return f"{shape.threads} threads are more than the {target.threads_per_block} of a block"
    if registers(found, shape) > target.registers_per_thread + 8:
        return f"{shape.thread_rows} x {shape.thread_columns} sums fill more than a thread's registers"
    if shared_bytes(found, shape) > target.shared_opt_in:
        return f"the stages take {shared_bytes(found, shape)} bytes of shared memory, of {target.shared_opt_in}"
    return ""


def most(found: Contraction, name: str) -> int:
    """The largest extent that an index of the product may have."""
    index = next(i for i in (found.row, found.column, found.depth, *found.batch) if i.name == name)
    context = found.request.context
    return bounds(to_integer(index.extent, context.symbols), dict(context.ranges))[1]
