"""Products on tensor cores: which ones they take, the shapes of their blocks, and what of a tile a lane holds.

A tensor core adds the product of 16 x `depth` and `depth` x 8 elements of float64 to 16 x 8 sums, for a whole warp at
once. Where sums lie is up to it: lane 4 * g + t has those of rows g and g + 8, columns 2 * t and 2 * t + 1. So lanes
lie 8 x 4, each with single rows and pairs of columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import DEPTH, WARP, Shape, with_lanes
from cugen.machine import Device
from cugen.spec.expressions import Op, Read
from cugen.spec.types import FLOAT64

LANES = 8  # along the rows
GROUPS = (1, 2)  # neighbours that a lane has along rows and columns
ROWS, COLUMNS = 16, 8  # of the sums that one instruction adds to
_FIRST = (8, 0)  # the first targets whose tensor cores take float64

# A lane reads single elements: four neighbours of four rows at once. The rows lie in different banks if they begin
# 32 bytes apart (mod 128), as padded ones do whose tiles are multiples of 64 bytes wide.
PAD = 4
# Rows along k of so many sectors, or a multiple, need no pad: their sectors change places.
SECTOR, SECTORS = 4, 4


def why_not(found: Contraction) -> str:
    """Why tensor cores can't compute a product, empty where they can."""
    (reduction,) = found.sums
    arrays = found.request.context.arrays
    body = reduction.body
    is_plain = isinstance(body, Op) and body.name == "mul" and all(isinstance(arg, Read) for arg in body.args)
    if not is_plain or reduction.dtype != FLOAT64:
        return "tensor cores take sums of products of two elements, of float64"
    if any(arrays[operand.read.array].dtype != FLOAT64 for operand in found.operands):
        return "tensor cores take operands of float64"
    if found.request.target.capability < _FIRST:
        return f"{found.request.target.name} has no tensor cores of float64; sm_80 and newer have"
    return ""


def are_faster(device: Device) -> bool:
    """Whether a device multiplies float64 on tensor cores faster than without."""
    rates = dict(device.peaks)
    return rates.get("tensor_float64", 0.0) > rates.get("float64", 0.0)


def multiply_cost(device: Device) -> float:
    """What a multiply-add of float64 costs on tensor cores, in those of float32."""
    rates = dict(device.peaks)
    rate = rates.get("tensor_float64", rates.get("float64"))
    return rates["float32"] / rate if rate else 32.0


def misfit_of_tiles(shape: Shape) -> str:
    """Why warps of a shape can't share out their work in tiles of tensor cores, empty where they can."""
    if shape.thread_rows * LANES % ROWS or shape.thread_columns * (WARP // LANES) % COLUMNS:
        return f"tensor cores add to {ROWS} x {COLUMNS} sums: a thread owns an even number of rows and of columns"
    if shape.own_step % (2 * shape.depth):
        return f"a step of {shape.own_step} isn't made of pairs of {shape.depth} products, as tensor cores take them"
    return ""


def fragments(shape: Shape) -> tuple[int, int]:
    """Elements of both operands that a lane holds: those that are multiplied, and the next."""
    return shape.thread_rows * shape.depth // 2, shape.thread_columns * shape.depth // 4


# Tiles of a block, what a thread owns of them, the step, and how many slices share it out.
_TILES = (
    (128, 128, 8, 8, 16, (1,)),
    (128, 128, 4, 16, 16, (1,)),
    (128, 64, 8, 8, 16, (1,)),
    (64, 128, 8, 8, 16, (1,)),
    (64, 128, 4, 8, 16, (1,)),
    (128, 64, 4, 8, 16, (1,)),
    (64, 64, 4, 8, 16, (1,)),
    (64, 64, 8, 8, 32, (2,)),
    (64, 64, 4, 8, 32, (2,)),
    (32, 64, 4, 8, 32, (2,)),
    (64, 32, 4, 8, 32, (2,)),
    (32, 32, 4, 8, 32, (2,)),
)


def shapes() -> Iterator[Shape]:
    """The shapes worth thinking of, the ring's stages and what is split apart left as they are by default."""
    for rows, columns, thread_rows, thread_columns, step, slices in _TILES:
        for count in slices:
            placed = laid_out(Shape(rows, columns, thread_rows, thread_columns, step, slices=count))
            assert placed is not None
            yield placed


def laid_out(shape: Shape, depth: int = 0) -> Shape | None:
    """The shape with lanes and products at a time as tensor cores want them; None where that doesn't fill warps."""
    depth = depth or int(DEPTH.default)
    return with_lanes(replace(shape, cores="tensor", depth=depth), LANES)


def asked_pads(found: Contraction) -> tuple[int, int]:
    """The paddings of both tiles' rows that the spec asks for; 0 where it asks for none."""
    left, right = (found.request.context.spec.array(operand.read.array).memory.pad for operand in found.operands)
    return left, right


def pad_for(shape: Shape, asked: int, *, along: bool) -> int:
    """The padding of a tile's rows, which are `along` the summed index or not."""
    return asked or (0 if along and shape.step % (SECTOR * SECTORS) == 0 else PAD)
