"""A product as its shape sees it: sizes, bytes, how each operand lies in memory, and what a shape takes of a block."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.families.gemm import tensor_cores as gemm_tensor
from cugen.families.gemm.config import Shape
from cugen.machine import Device, Target, default_device, device
from cugen.pieces.vectors import WIDEST, divisor, widest
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds
from cugen.spec.types import DType, Kind

_OWN = 40  # registers for addresses and counters, as ptxas has them
_OWN_ON_TENSOR_CORES = 30  # where fragments take most of them
_USUAL = 4096  # what a size of any value is taken for
_TILE = 256  # elements of which every tile's side is a divisor or a part


@dataclass(frozen=True, slots=True)
class Problem:
    """Sizes in elements; `bytes` of an element of both operands and of the result. `pads` are those of tiles' rows,
    `widths` how many neighbours a copy moves. `multiply` is what one multiply-add costs in issue slots of float32's,
    `tensor` what it costs on tensor cores, `convert` those of each value that is read.
    `along` says which operands lie along the summed index."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    bytes: tuple[int, int, int] = (4, 4, 4)
    pads: tuple[int, int] = (4, 0)
    widths: tuple[int, int] = (1, 4)
    sum_bytes: int = 4
    multiply: float = 1.0
    convert: float = 0.0
    tensor: float = 1.0
    asked_pads: tuple[int, int] = (0, 0)
    along: tuple[bool, bool] = (True, False)

    def pads_of(self, shape: Shape) -> tuple[int, int]:
        """The pads of tiles' rows with a shape."""
        if not shape.is_on_tensor_cores:
            return self.pads
        left, right = (
            gemm_tensor.pad_for(shape, asked, along=along)
            for asked, along in zip(self.asked_pads, self.along, strict=True)
        )
        return left, right


def problem_of(found: Contraction) -> Problem:
    """The problem at the largest sizes that its params allow, or at usual ones where they may have any."""
    sizes = [most(found, index.name) for index in (found.m, found.n, found.k)]
    rows, columns, depth = (size if size < 1 << 20 else _USUAL for size in sizes)
    left, right = found.operands
    (reduction,) = found.sums
    target = found.request.group.statements[-1].target
    narrow = any(dtype_of(found, operand).bytes < reduction.dtype.bytes for operand in found.operands)
    return Problem(
        rows,
        columns,
        depth,
        math.prod(min(most(found, index.name), _USUAL) for index in found.batch),
        (
            dtype_of(found, left).bytes,
            dtype_of(found, right).bytes,
            found.request.context.arrays[target].dtype.bytes,
        ),
        (pad_of(found, left), pad_of(found, right)),
        (copy_width(found, left, _TILE), copy_width(found, right, _TILE)),
        reduction.dtype.bytes,
        _multiply(reduction.dtype, found.request.target),
        1.0 if narrow else 0.0,
        gemm_tensor.multiply_cost(device_of(found.request.target)),
        gemm_tensor.asked_pads(found),
        (lies_along(found, left), lies_along(found, right)),
    )


def device_of(target: Target) -> Device:
    """The device meant where a spec names a target."""
    return default_device(target.name) or device("H200")


def _multiply(dtype: DType, target: Target) -> float:
    """What a multiply-add of a type costs, in those of float32."""
    if dtype.kind is Kind.FLOAT and dtype.bytes == 8:
        rates = dict(device_of(target).peaks)
        return rates["float32"] / rates["float64"] if "float64" in rates else 32.0
    if dtype.kind is Kind.FLOAT:
        return 1.0
    return 2.0 if dtype.bytes <= 4 else 6.0


def dtype_of(found: Contraction, operand: Operand) -> DType:
    return found.request.context.arrays[operand.read.array].dtype


def group(size: int, own: int) -> int:
    """Neighbours that a thread owns side by side, and reads from a tile at once."""
    return math.gcd(own, WIDEST // size)


def groups(found: Contraction, shape: Shape) -> tuple[int, int]:
    """The widths of a thread's groups along rows and columns."""
    if shape.is_on_tensor_cores:
        return gemm_tensor.GROUPS
    left, right = (dtype_of(found, operand).bytes for operand in found.operands)
    return group(left, shape.thread_rows), group(right, shape.thread_columns)


def copy_width(found: Contraction, operand: Operand, extent: int) -> int:
    """How many neighbours along its row or column one copy of an operand moves, of a tile that reaches so far."""
    context = found.request.context
    array, name = context.arrays[operand.read.array], operand.mn.name
    if operand.fast != name:
        return 1
    width = math.gcd(widest(array, operand.read.subscripts, name, context).count, extent)
    full = divisor(to_integer(operand.mn.extent, context.symbols), context)
    return math.gcd(width, full) if full else width


def lies_along(found: Contraction, operand: Operand) -> bool:
    """Whether memory holds an operand's neighbours along the summed index."""
    return operand.fast == found.k.name


def along_width(found: Contraction, operand: Operand) -> int:
    """How many neighbours along the summed index one copy of an operand moves, where it lies along that."""
    context = found.request.context
    array, name = context.arrays[operand.read.array], found.k.name
    width = widest(array, operand.read.subscripts, name, context).count
    full = divisor(to_integer(found.k.extent, context.symbols), context)
    return math.gcd(width, full) if full else width


def pad_of(found: Contraction, operand: Operand) -> int:
    """The padding of a tile's rows. What is turned on its way from memory is written down columns: those of a few rows
    must lie in different banks; and a row keeps the alignment of wide reads."""
    memory = found.request.context.spec.array(operand.read.array).memory
    if memory.space is not None and memory.pad:
        return memory.pad
    if operand.fast == operand.mn.name:
        return 0
    size = dtype_of(found, operand).bytes
    return 4 if size >= 4 else WIDEST // size


def sides(problem: Problem, shape: Shape) -> tuple[tuple[int, int], tuple[int, int]]:
    """How far both tiles go, along the slow index and along the fast one, which is the summed one where tensor cores
    read an operand that lies so."""
    left, right = (
        (extent, shape.step) if along and shape.is_on_tensor_cores else (shape.step, extent)
        for extent, along in zip((shape.rows, shape.columns), problem.along, strict=True)
    )
    return left, right


def tile_bytes(problem: Problem, shape: Shape) -> tuple[int, int]:
    """The bytes of the two rings, each a multiple of 16."""
    left, right = (
        -(-shape.stages * slow * (fast + pad) * size // 16) * 16
        for (slow, fast), pad, size in zip(
            sides(problem, shape), problem.pads_of(shape), problem.bytes[:2], strict=True
        )
    )
    return left, right


def parts_pad(problem: Problem, shape: Shape) -> int:
    """The padding that keeps a quarter-warp's rows of partial sums in different banks; of 8 bytes each, whose rows need
    more of it, where it takes no more memory than the ring."""
    usual = WIDEST // problem.sum_bytes
    if problem.bytes[:2] != (8, 8):
        return usual
    # Eight lanes store 16 bytes each, so many of them side by side; the next ones do so in a row that many further.
    beside = 2 if shape.lanes > shape.lane_columns and not shape.is_on_tensor_cores else 4
    further = 1 if shape.is_on_tensor_cores else 2
    pad = (2 * beside // further - shape.columns) % (16 // further)
    return pad if _parts_bytes(problem, shape, pad) <= sum(tile_bytes(problem, shape)) else usual


def _parts_bytes(problem: Problem, shape: Shape, pad: int) -> int:
    return shape.slices * shape.rows * (shape.columns + pad) * problem.sum_bytes


def shared_bytes(problem: Problem, shape: Shape) -> int:
    """The bytes of the rings, or of the sums that threads leave there where these are more."""
    rings = sum(tile_bytes(problem, shape))
    return max(rings, _parts_bytes(problem, shape, parts_pad(problem, shape))) if shape.leaves_sums else rings


def registers(problem: Problem, shape: Shape) -> int:
    """About what the compiler needs for each thread."""
    size = max(problem.sum_bytes // 4, 1)
    rows, columns = shape.thread_rows, shape.thread_columns
    if shape.is_on_tensor_cores:
        return (rows * columns + sum(gemm_tensor.fragments(shape))) * size + _OWN_ON_TENSOR_CORES
    return (rows * columns + rows + columns) * size + _OWN


def misfit(found: Contraction, problem: Problem, shape: Shape) -> str:
    """Why a shape can't be had, empty where it can."""
    target = found.request.target
    if shape.is_on_tensor_cores:
        reason = gemm_tensor.why_not(found) or gemm_tensor.misfit_of_tiles(shape)
        if reason:
            return reason
    widths = (2, 2) if shape.is_on_tensor_cores else groups(found, shape)
    for width, operand, pad in zip(widths, found.operands, problem.pads_of(shape), strict=True):
        if width < 2:
            return f"a thread owns neighbours along {operand.mn.name} in groups of 2 or more"
        if pad % width:
            return f"a pad of {pad} parts rows of {operand.read.array} that are read {width} at once"
    if shape.step % shape.slices:
        return f"{shape.slices} slices can't share out a step of {shape.step}"
    if shape.own_step % 2:
        return "each thread takes an even number of products of a step, by turns with what is read next"
    if shape.threads > target.threads_per_block:
        return f"{shape.threads} threads are more than the {target.threads_per_block} of a block"
    if registers(problem, shape) > target.registers_per_thread:
        return f"{shape.thread_rows} x {shape.thread_columns} sums fill more than a thread's registers"
    if shared_bytes(problem, shape) > target.shared_opt_in:
        return f"the stages take {shared_bytes(problem, shape)} bytes of shared memory, of {target.shared_opt_in}"
    if shape.raster > 1:
        extent = found.request.context.static(to_integer(found.m.extent, found.request.context.symbols))
        if extent is None or -(-extent // shape.rows) % shape.raster:
            return f"rows of tiles can't be walked {shape.raster} at a time where these don't divide their number"
    return ""


def most(found: Contraction, name: str) -> int:
    """The largest extent that an index of the product may have."""
    index = next(i for i in (found.m, found.n, found.k, *found.batch) if i.name == name)
    context = found.request.context
    return bounds(to_integer(index.extent, context.symbols), dict(context.ranges))[1]
