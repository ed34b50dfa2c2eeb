"""The input of a convolution as an operand that TMA copies in im2col mode (PTX ISA, tensors, im2col mode).

A row of the tile is a pixel's channels, as one tap of the filter reads them. The tensor map has the bounding box of the
pixels that the first tap reads, for all outputs; the rows of a tile are pixels of it that follow each other, and the
other taps read them at an offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.wgmma.coordinates import BlockCoordinates
from cugen.families.gemm.wgmma.operands.tiles import OperandTiles, tensor_array, within_indices
from cugen.machine.target import TENSOR_ALIGNMENT
from cugen.machine.wgmma import SWIZZLED_ROW_BYTES, WgmmaInstruction
from cugen.pieces.blocks import define_indices, digits
from cugen.plan.context import Context
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, PixelBox
from cugen.plan.nodes import Comment, Node
from cugen.plan.pipeline_nodes import TensorLoad
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.expressions import Const, Expr, Index, IndexValue, free_indices

_MAX_STEP = 8
_FEW_ZEROS = 16  # terms for each zero that a k-tile's branch is not worth (heuristic)
_CORNER_BITS = {3: 16, 4: 8, 5: 5}  # of a signed corner and of an unsigned offset, by dimensions of the array


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of the images: pixel `step * output + lower` at the first tap, `dilation` further on at each next
    one, or before with a negative one. `output` and `tap` are None where there is a single one."""

    output: Index | None
    tap: Index | None
    step: int
    dilation: int
    lower: int
    upper: int
    taps: int

    @property
    def last_offset(self) -> int:
        return abs(self.dilation) * (self.taps - 1)

    def offset(self, tap: Integer) -> Integer:
        """How much further than the first pixel in memory a tap reads."""
        return self.dilation * tap if self.dilation >= 0 else integer(self.last_offset) + self.dilation * tap


@dataclass(frozen=True, slots=True)
class Images:
    """The images of an operand: which one is read, its axes, and its channels."""

    image: Expr
    axes: tuple[Axis, ...]
    channels: Index


def images_of(contraction: Contraction, operand: Operand) -> Images | str:
    """The images that an operand's window moves over, or why TMA can't copy them."""
    window, array, context = operand.window, operand.array, contraction.context
    assert window is not None
    name = operand.read.array
    if not 3 <= len(array.shape) <= max(_CORNER_BITS):
        return f"the im2col mode takes arrays of 3 to 5 dimensions, and {name} has {len(array.shape)}"
    moving = [index for index, _ in window.parts.get(operand.mn.name, ())]
    summed = [index for index, _ in window.parts.get(contraction.k.name, ())]
    image, *pixels, channel = window.read.subscripts
    if not summed or channel != IndexValue(summed[-1].name):
        return f"channels of {name} aren't the fastest index of the sum"
    if context.static_extent(summed[-1]) is None:
        return f"the number of channels of {name} isn't fixed"
    strides = [context.static(stride) for stride in array.strides]
    if None in strides:
        return f"the im2col mode takes images of fixed sizes, and those of {name} aren't"
    if strides != sorted(strides, key=lambda s: -(s or 0)) or strides[-1] != 1:
        return f"the im2col mode takes dense images with the channels last, and {name} is none"
    if any((stride or 0) * array.dtype.bytes % TENSOR_ALIGNMENT for stride in strides[:-1]):
        return f"pixels of {name} aren't multiples of {TENSOR_ALIGNMENT} bytes, as TMA needs"
    if not isinstance(image, IndexValue | Const):
        return f"the im2col mode reads images one after the other, and those of {name} aren't"
    axes = []
    for sub, extent in zip(pixels, array.shape[1:-1], strict=True):
        axis = _axis(sub, context.static(extent), moving, summed[:-1], context)
        if axis is None or not _fits(axis, len(array.shape)):
            return f"the im2col mode has no bounding box for the pixels of {name}"
        axes.append(axis)
    first = next((index for index in moving if image == IndexValue(index.name)), None)
    order = [index for index in (first, *(axis.output for axis in axes)) if index is not None]
    taps = [axis.tap.name for axis in axes if axis.tap is not None]
    if order != moving or sorted(taps) != sorted(index.name for index in summed[:-1]):
        return f"pixels of {name} don't follow each other in the order of the outputs"
    return Images(image, tuple(axes), summed[-1])


def _axis(
    sub: Expr, extent: int | None, moving: Sequence[Index], taps: Sequence[Index], context: Context
) -> Axis | None:
    """The axis of a subscript; None where it isn't affine in one output index and one tap, with known numbers."""
    names = free_indices(sub)
    outputs, summed = ([i for i in indices if i.name in names] for indices in (moving, taps))
    counts = [context.static_extent(index) for index in (*outputs, *summed)]
    if extent is None or None in counts or len(outputs) > 1 or len(summed) > 1 or len(names) != len(counts):
        return None
    symbols = {**context.symbols, **{name: symbol(f"index {name}") for name in names}}
    try:
        position = to_integer(sub, symbols).expand()
    except NotAnInteger:
        return None
    step, dilation = (sum(position.coeff(symbols[i.name]) for i in each) for each in (outputs, summed))
    constant = (position - sum(position.coeff(symbols[i.name]) * symbols[i.name] for i in (*outputs, *summed))).expand()
    numbers = [_static(sympy.sympify(value), context) for value in (constant, step, dilation)]
    if None in numbers:
        return None
    lower, step, dilation = (int(number or 0) for number in numbers)
    output, tap = next(iter(outputs), None), next(iter(summed), None)
    taps_count = (context.static_extent(tap) or 1) if tap else 1
    results = (context.static_extent(output) or 1) if output else 1
    first = lower + min(dilation, 0) * (taps_count - 1)
    axis_step = step if output else 1
    return Axis(output, tap, axis_step, dilation, first, first + axis_step * (results - 1) - extent + 1, taps_count)


def _static(value: Integer, context: Context) -> int | None:
    """The value, where it has no other variables than params of fixed values."""
    return context.static(value) if value.free_symbols <= context.ranges.keys() else None


def _fits(axis: Axis, dimensions: int) -> bool:
    """Whether the corners, the step and the offsets are in the range of a tensor map."""
    half = 1 << (_CORNER_BITS[dimensions] - 1)
    corners = all(-half <= corner < half for corner in (axis.lower, axis.upper))
    return corners and 1 <= axis.step <= _MAX_STEP and axis.last_offset < 2 * half


@lru_cache(maxsize=16)
def window_images(contraction: Contraction) -> Images | None:
    """The images of a contraction's window, if TMA copies them; None without a window."""
    found = (images_of(contraction, operand) for operand in contraction.operands if operand.window is not None)
    return next((images for images in found if isinstance(images, Images)), None)


def _channels(contraction: Contraction) -> int:
    """Channels of a tap of a window that TMA copies; 0 without one."""
    images = window_images(contraction)
    return 0 if images is None else contraction.context.static_extent(images.channels) or 0


def padded_channels(contraction: Contraction, block_k: int) -> int | None:
    """Channels with which each tap of a window is whole k-tiles, if these are more than there are; TMA copies zeros for
    them. None where each tap is whole k-tiles, and without a window."""
    channels = _channels(contraction)
    return -(-channels // block_k) * block_k if channels % block_k else None


def padding_refusal(contraction: Contraction, block_k: int) -> str:
    """Why the other operand can't have the padded channels of a window, or empty: `TapTiles` describe a matrix."""
    batch = {index.name for index in contraction.batch}
    if padded_channels(contraction, block_k) is None:
        return ""
    for operand in contraction.operands:
        if operand.window is None and batch & free_indices(operand.read):
            return f"pads channels to whole k-tiles, and {operand.read.array} has a batch index beside its taps"
    return ""


def k_tiles_of(contraction: Contraction, k: int, block_k: int) -> int:
    """K-tiles of a sum of `k` terms."""
    padded = padded_channels(contraction, block_k)
    return -(-k // block_k) if padded is None else k // _channels(contraction) * padded // block_k


@dataclass(frozen=True, slots=True)
class LastTile:
    """The last k-tile of each `length` terms: `terms` of it are multiplied, in whole instructions, and zeros aren't."""

    length: int
    terms: int

    @staticmethod
    def of(contraction: Contraction, instruction: WgmmaInstruction) -> LastTile | None:
        """That of a tap of a window, or of K. None where it is as long as others, and where its zeros are few."""
        row = SWIZZLED_ROW_BYTES // instruction.element_bytes
        length = _channels(contraction) or contraction.context.static_extent(contraction.k) or 0
        terms = -(-(length % row) // instruction.k) * instruction.k
        padded = -(-length // row) * row
        if not terms or (row - terms) * _FEW_ZEROS < padded:
            return None
        return LastTile(padded, terms)


@dataclass(frozen=True)
class TapTiles(OperandTiles):
    """The stages of the other operand's tile, where the channels of a tap are padded: its K has two dimensions."""

    channels: Integer
    k: str

    @staticmethod
    def over(tiles: OperandTiles, contraction: Contraction, counts: tuple[Integer, Integer]) -> TapTiles:
        """The tiles of a matrix whose K is taps of so many channels; `counts` has their number, and it padded."""
        operand, (number, padded) = tiles.operand, counts
        array, k = operand.array, contraction.k.name
        names = [sub.name for sub in operand.read.subscripts if isinstance(sub, IndexValue)]
        of_k, of_mn = names.index(k), names.index(operand.mn.name)
        taps = (array.shape[of_k] / number, array.strides[of_k] * number)
        matrix = ((array.shape[of_mn], array.strides[of_mn]), (number, array.strides[of_k]))
        rows, columns = matrix if operand.is_k_major else matrix[::-1]
        shape, strides = zip(taps, rows, columns, strict=True)
        tensor_map = tiles.source.tensor_map
        assert tensor_map is not None
        box = (1, math.prod(tensor_map.box[:-1]), tensor_map.box[-1])
        source = replace(tiles.source, shape=shape, strides=strides, tensor_map=replace(tensor_map, box=box))
        of_base = {name: getattr(tiles, name) for name in ("operand", "config", "tile", "block", "context")}
        return TapTiles(**of_base, source=source, channels=padded, k=k)

    def source_subscripts(self, coordinates: dict[str, Integer]) -> tuple[Integer, ...]:
        k, mn = coordinates[self.k], coordinates[self.operand.mn.name]
        tap, channel = FloorDiv(k, self.channels), Mod(k, self.channels)
        return (tap, mn, channel) if self.operand.is_k_major else (tap, channel, mn)


@dataclass(frozen=True)
class PixelTiles(OperandTiles):
    """The stages of such an operand's tile: [stage][BM or BN pixels][BK channels]. `channels` are those of a tap,
    padded to whole k-tiles."""

    images: Images
    lowering: Lowering
    parts: dict[str, tuple[tuple[Index, Expr], ...]]
    k: str
    channels: Integer

    @staticmethod
    def over(tiles: OperandTiles, contraction: Contraction, lowering: Lowering, channels: Integer) -> PixelTiles:
        """The tiles of a window, in place of those of a matrix."""
        operand, context = tiles.operand, contraction.context
        images = images_of(contraction, operand)
        assert isinstance(images, Images)
        assert operand.window is not None
        box = (*(1 for _ in images.axes), tiles.extent // tiles.shares, int(tiles.config.block_k))
        extents = {images.channels.name: context.extent(images.channels)}
        array = within_indices(operand.array, operand.window.read.subscripts, extents)
        source = tensor_array(array, box, SWIZZLED_ROW_BYTES, tiles.source.symbol, context)
        assert source.tensor_map is not None
        assert tiles.source.tensor_map is not None
        pixels = PixelBox(*(tuple(getattr(a, of) for a in images.axes) for of in ("lower", "upper", "step")))
        rounds = tiles.source.tensor_map.rounds_to_tf32
        source = replace(source, tensor_map=replace(source.tensor_map, pixels=pixels, rounds_to_tf32=rounds))
        of_base = {name: getattr(tiles, name) for name in ("operand", "config", "tile", "block", "context")}
        parts = dict(operand.window.parts)
        return PixelTiles(
            **of_base,
            source=source,
            images=images,
            lowering=lowering,
            parts=parts,
            k=contraction.k.name,
            channels=channels,
        )

    def tile_definitions(self, coordinates: dict[str, Integer], block: BlockCoordinates) -> tuple[Node, ...]:
        """The image and the outputs of the tile's first pixel."""
        first = coordinates[self.operand.mn.name]
        if self.shares > 1:
            first += self.rank(block) * integer(self.extent // self.shares)
        indices = [index for index, _ in self.parts[self.operand.mn.name]]
        extents = [self.context.extent(index) for index in indices]
        # The last tile of a cluster may begin after the last pixel. After that of a single image there is none.
        is_clustered = (self.config.multicast if self.operand.is_along_m else self.config.multicast_n) > 1
        wraps = is_clustered and self.images.image != IndexValue(indices[0].name)
        comment = Comment("the output of the tile's first row")
        return comment, *self._define(indices, first, extents, wraps=wraps)

    def load(
        self, stage: Integer, barrier: Access, coordinates: dict[str, Integer], block: BlockCoordinates
    ) -> tuple[Node, ...]:
        summed = [index for index, _ in self.parts[self.k]]
        extents = [*(self.context.extent(index) for index in summed[:-1]), self.channels]
        definitions = self._define(summed, coordinates[self.k], extents)
        symbols = self.lowering.symbols
        image = to_integer(self.images.image, symbols)
        first = [
            axis.lower + (axis.step * symbols[axis.output.name] if axis.output else integer(0))
            for axis in self.images.axes
        ]
        offsets = tuple(axis.offset(symbols[axis.tap.name] if axis.tap else integer(0)) for axis in self.images.axes)
        part = self.rank(block) * integer(self.extent // self.shares) if self.shares > 1 else integer(0)
        load = TensorLoad(
            Access(self.tile, (stage, part, integer(0)), "tensor_store"),
            Access(self.source, (image, *first, symbols[self.images.channels.name]), "tensor_load"),
            replace(barrier),
            offsets=offsets,
        )
        load = self.multicast(load, block)
        return Comment("the k-tile's tap and first channel"), *definitions, load

    def _define(
        self, indices: list[Index], value: Integer, extents: list[Integer], *, wraps: bool = False
    ) -> tuple[Node, ...]:
        """Defines the indices that one of the GEMM was fused from, slowest first. With `wraps` the value may exceed
        their product, and the slowest one restarts at 0."""
        *faster, slowest = digits(value, extents[::-1])
        coordinates = (*faster, Mod(slowest, extents[0]) if wraps else slowest)
        return tuple(define_indices(indices[::-1], extents[::-1], coordinates, self.lowering))
