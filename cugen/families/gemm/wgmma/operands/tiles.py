"""Operands of a warp-specialised GEMM: their tensor maps, their tiles in shared memory, and the matrices of these.

A tile has rows of 128 bytes, swizzled. That of a K-major operand is [stage][BM or BN][BK]; that of an MN-major one
[stage][block][BK][64], with blocks of 64 rows or columns that a box of the tensor map fills. The last of these may be
partly used: wgmma reads BN columns of them, and BN is a multiple of 16; with swapped operands BM rows, a multiple of 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.tile_layout import tile_name
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.machine.target import MAX_TENSOR_DIMENSIONS, TENSOR_ALIGNMENT
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WgmmaInstruction
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import repeated, value_of
from cugen.plan.alignment import divisor
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, TensorMap
from cugen.plan.nodes import Index, Node
from cugen.plan.pipeline_nodes import TensorLoad
from cugen.plan.request import Refusal
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import FloorDiv, Integer, integer
from cugen.spec.expressions import Expr, IndexValue


def store_refusals(contraction: Contraction, array: Array, subscripts: tuple[Expr, ...]) -> Iterator[str]:
    """Why TMA can't store boxes of M and N to an array that is written at the subscripts."""
    m, n = (IndexValue(index.name) for index in (contraction.m, contraction.n))
    if not {m, n} <= set(subscripts):
        yield f"boxes have elements along {m.name} and {n.name}, which aren't subscripts of {array.name}"
    yield from _form_refusals(array)
    if reason := _layout_refusal(array, subscripts, contraction.contiguous.name, contraction.context):
        yield reason


def _form_refusals(array: Array) -> Iterator[str]:
    if array.space not in ("global", "readonly"):
        yield f"TMA copies from and to global memory, and {array.name} is in {array.space} memory"
    if len(array.shape) > MAX_TENSOR_DIMENSIONS:
        yield (
            f"tensor maps have up to {MAX_TENSOR_DIMENSIONS} dimensions, and {array.name} has {len(array.shape)} "
            "that aren't fused"
        )


def _layout_refusal(array: Array, subscripts: tuple[Expr, ...], along: str, context: Context) -> str:
    """Why the layout of an array in memory isn't that of a tensor map; empty if it is."""
    order = _by_stride(array, context)
    if order is None:
        return f"the strides of {array.name} depend on its sizes"
    if array.strides[order[-1]] != 1 or subscripts[order[-1]] != IndexValue(along):
        return f"{array.name} isn't contiguous along {along}"
    if any(divisor(array.strides[d], context) * array.dtype.bytes % TENSOR_ALIGNMENT for d in order[:-1]):
        return f"rows of {array.name} aren't multiples of {TENSOR_ALIGNMENT} bytes, as TMA needs"
    return ""


def operand_refusals(operand: Operand) -> Iterator[Refusal]:
    """Why neither TMA can copy an operand, nor another array can take its place."""
    name, memory = operand.read.array, operand.memory
    if operand.window is None:
        yield from map(Refusal, _form_refusals(operand.array))
    key = f"arrays.{name}.memory"
    if memory.space not in (None, "shared", "scratch"):
        yield Refusal(f"multiplies tiles of {name} that TMA copies from global to shared memory", key)
    if memory.pad:  # `swizzle: xor` is what TMA does
        yield Refusal(f"multiplies tiles of {name} that TMA swizzles, without padding", key)


def layout_refusal(contraction: Contraction, operand: Operand, instruction: WgmmaInstruction) -> str:
    """Why wgmma can't read an operand, or TMA can't copy it, as it is in memory; empty if they can."""
    k, mn = contraction.k.name, operand.mn.name
    if operand.window is not None:
        return f"{operand.read.array} is read at computed subscripts"
    if not operand.is_k_major and not instruction.may_be_mn_major:
        name = operand.read.array
        return f"reads operands of {instruction.types} that are contiguous along {k}, and {name} is along {mn}"
    along = k if operand.is_k_major else mn
    return _layout_refusal(operand.array, operand.read.subscripts, along, contraction.context)


def within_indices(array: Array, subscripts: tuple[Expr, ...], extents: Mapping[str, Integer]) -> Array:
    """The part of an array that indices with these extents number, which may have fewer values than its dimensions:
    TMA copies nothing beyond."""
    shape = []
    for sub, size in zip(subscripts, array.shape, strict=True):
        extent = extents.get(sub.name, size) if isinstance(sub, IndexValue) else size
        shape.append(size if (extent - size).expand() == 0 else extent)
    return replace(array, shape=tuple(shape))


def tensor_array(array: Array, box: tuple[int, ...], swizzle_bytes: int, name: str, context: Context) -> Array:
    """The array as a tensor map named `name` copies it: its dimensions by stride, the contiguous one last, as those of
    `box` are."""
    order = _by_stride(array, context)
    assert order is not None
    return replace(
        array,
        symbol=name,
        shape=tuple(array.shape[d] for d in order),
        strides=tuple(array.strides[d] for d in order),
        space="tensor",
        flat=False,
        pad=0,
        tensor_map=TensorMap(box, swizzle_bytes),
    )


def matrix_box(
    array: Array, subscripts: tuple[Expr, ...], rows: str, sizes: tuple[int, int], context: Context
) -> tuple[int, ...]:
    """The box of so many rows and columns of a matrix whose rows are numbered by the index `rows`; columns are
    contiguous. Batch indices may lie between the two. Rows that no index numbers are those of a window."""
    order = _by_stride(array, context)
    assert order is not None
    row = subscripts.index(IndexValue(rows)) if IndexValue(rows) in subscripts else order[-2]
    of_dimension = {row: sizes[0], order[-1]: sizes[1]}
    return tuple(of_dimension.get(d, 1) for d in order)


def tensor_subscripts(
    array: Array, subscripts: tuple[Expr, ...], coordinates: Mapping[str, Integer], context: Context
) -> tuple[Integer, ...]:
    """The subscripts of a box's first element in the order of its tensor map's dimensions; `coordinates` are those of
    the element, by index."""
    order = _by_stride(array, context)
    assert order is not None
    symbols = {**context.symbols, **coordinates}
    return tuple(to_integer(subscripts[d], symbols) for d in order)


def _by_stride(array: Array, context: Context) -> tuple[int, ...] | None:
    """The dimensions by descending strides; None if these aren't comparable."""
    strides = [context.static(stride) for stride in array.strides]
    if None not in strides:
        return tuple(sorted(range(len(strides)), key=lambda d: (-(strides[d] or 0), d)))
    # Of a dense array whose sizes are known at launch only.
    return tuple(range(len(strides))) if strides[-1] == 1 else None


def _shares(operand: Operand, config: WgmmaConfig) -> int:
    return config.multicast_n if operand.is_along_m else config.multicast


def _extent(operand: Operand, config: WgmmaConfig) -> int:
    return int(config.block_m if operand.is_along_m else config.block_n)


def _tile_shape(operand: Operand, config: WgmmaConfig) -> tuple[int, ...]:
    """The sizes of a stage of an operand's tile, with their names."""
    size = config.block_m if operand.is_along_m else config.block_n
    if operand.is_k_major:
        return size, config.block_k
    row = SWIZZLED_ROW_BYTES // operand.array.dtype.bytes
    blocks = size // row if int(size) % row == 0 else (size + row - 1) // row
    return blocks, config.block_k, row


def tile_rows(operand: Operand, config: WgmmaConfig) -> int:
    """Rows of 128 bytes of an operand's tile."""
    extent = _extent(operand, config)
    if operand.is_k_major:
        return extent
    row = SWIZZLED_ROW_BYTES // operand.array.dtype.bytes
    return -(-extent // row) * int(config.block_k)


def begins_within_a_line(operand: Operand, config: WgmmaConfig) -> bool:
    """Whether tiles of an MN-major operand begin at other multiples of bytes than those of a swizzled row."""
    return not operand.is_k_major and _extent(operand, config) * operand.array.dtype.bytes % SWIZZLED_ROW_BYTES > 0


def stage_bytes(operands: Iterable[Operand], config: WgmmaConfig) -> int:
    """Bytes of a stage: of one tile of each operand."""
    return sum(tile_rows(operand, config) for operand in operands) * SWIZZLED_ROW_BYTES


@dataclass(frozen=True)
class OperandTiles:
    """The stages of one operand's tile, and the tensor map that fills them."""

    operand: Operand
    config: WgmmaConfig
    source: Array  # with its tensor map
    tile: Array
    block: Index  # the loop over blocks of an MN-major tile
    context: Context

    @staticmethod
    def of(
        contraction: Contraction, operand: Operand, config: WgmmaConfig, lowering: Lowering, offset: int
    ) -> OperandTiles:
        """The tiles, `offset` bytes from the start of shared memory."""
        read, array, instruction = operand.read, operand.array, config.wgmma
        extent, row = _extent(operand, config), SWIZZLED_ROW_BYTES // array.dtype.bytes
        if operand.is_k_major:
            # Also where the matrix has fewer rows: TMA writes zeros for the others, and wgmma reads all of the tile.
            sizes = (extent // _shares(operand, config), int(config.block_k))
        else:
            sizes = (int(config.block_k), row)
        names, context = lowering.names, contraction.context
        of_rows = operand.mn if operand.is_k_major else contraction.k
        box = matrix_box(array, read.subscripts, of_rows.name, sizes, context)
        extents = {index.name: context.extent(index) for index in (operand.mn, contraction.k)}
        copied = within_indices(array, read.subscripts, extents)
        source = tensor_array(copied, box, SWIZZLED_ROW_BYTES, names.allocate(f"{array.symbol}_map"), context)
        if instruction.rounds and source.tensor_map is not None:
            source = replace(source, tensor_map=replace(source.tensor_map, rounds_to_tf32=True))
        shape = _tile_shape(operand, config)
        tile = dense_array(names.allocate(tile_name(read.array)), array.dtype, (config.stages, *shape), "shared")
        tile = replace(tile, name=read.array, dynamic=True, dynamic_offset=offset)
        blocks = -(-extent // row) // _shares(operand, config)  # of an MN-major tile
        is_looped = blocks > 1 and not operand.is_k_major
        block = Index(names.allocate("c") if is_looped else "", integer(0), (0, max(blocks, 1) - 1))
        if is_looped:
            lowering.ranges[block.symbol] = block.range
        return OperandTiles(operand, config, source, tile, block, context)

    @property
    def extent(self) -> int:
        """Rows or columns of a tile."""
        return _extent(self.operand, self.config)

    @property
    def bytes(self) -> int:
        """Of all stages."""
        return self.stage_bytes * self.config.stages

    @property
    def stage_bytes(self) -> int:
        """Of a stage, which one k-tile's copies fill and count at their barrier."""
        return math.prod(_tile_shape(self.operand, self.config)) * self.tile.dtype.bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of an MN-major tile; 0 of a K-major tile."""
        return 0 if self.operand.is_k_major else int(self.config.block_k) * SWIZZLED_ROW_BYTES

    @property
    def shares(self) -> int:
        """Blocks of a cluster that each copy a part of the tile for all of them."""
        return _shares(self.operand, self.config)

    def rank(self, block: BlockCoordinates) -> Integer:
        """The rank of a block among those that share the tile."""
        return block.rank_n if self.operand.is_along_m else block.rank_m

    def multicast(self, load: TensorLoad, block: BlockCoordinates) -> TensorLoad:
        """The load to all blocks that share the tile: of a cluster whose blocks share both operands' those in a line
        with this one."""
        load = replace(load, blocks=self.shares)
        if not self.config.shares_both:
            return load
        rows = self.config.multicast
        if self.operand.is_along_m:
            return replace(load, first=block.rank_m, stride=rows)
        return replace(load, first=rows * block.rank_n)

    def tile_definitions(self, coordinates: dict[str, Integer], block: BlockCoordinates) -> tuple[Node, ...]:
        """Definitions that the loads of an output tile have in common."""
        return ()

    def load(
        self, stage: Integer, barrier: Access, coordinates: dict[str, Integer], block: BlockCoordinates
    ) -> tuple[Node, ...]:
        """The copies of one k-tile, which count at the barrier; `coordinates` are those of its first element."""
        row = integer(SWIZZLED_ROW_BYTES // self.tile.dtype.bytes)
        mn, shares, rank = self.operand.mn.name, self.shares, self.rank(block)
        subscripts: tuple[Integer, ...]
        if self.operand.is_k_major:
            part = rank * integer(self.extent // shares) if shares > 1 else integer(0)
            offset, subscripts = part, (stage, part, integer(0))
        else:
            part = value_of(self.block) + (rank * (self.block.range[1] + 1) if shares > 1 else 0)
            offset, subscripts = row * part, (stage, part, integer(0), integer(0))
        coordinates = {**coordinates, mn: coordinates[mn] + offset}
        load = TensorLoad(
            Access(self.tile, subscripts, "tensor_store"),
            Access(self.source, self.source_subscripts(coordinates), "tensor_load"),
            replace(barrier),
        )
        load = self.multicast(load, block)
        return (load,) if self.operand.is_k_major else repeated(self.block, (load,))

    def source_subscripts(self, coordinates: dict[str, Integer]) -> tuple[Integer, ...]:
        """The subscripts of a box, in the order of the tensor map's dimensions."""
        return tensor_subscripts(self.operand.array, self.operand.read.subscripts, coordinates, self.context)

    def matrix(self, stage: Integer, mn: Integer, k: Integer) -> Access:
        """The matrix of one instruction, from a row or column and a k of the tile on."""
        if self.operand.is_k_major:
            return Access(self.tile, (stage, mn, k), "operand")
        row = integer(SWIZZLED_ROW_BYTES // self.tile.dtype.bytes)
        return Access(self.tile, (stage, FloorDiv(mn, row), k, integer(0)), "operand")
