"""Arrays, tensor maps, memory accesses, and values in registers.

Values are expression trees of `cugen.spec.expressions` with leaves `Local`, constants, params and scalars: a memory
read is a `Load` node, or an `Element` operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count, pairwise

import sympy

from cugen.plan.symbols import BitXor, Integer, Mod, integer, symbol
from cugen.plan.textures.addressing import Texture2D
from cugen.spec.expressions import NOWHERE, Local, Span
from cugen.spec.types import DType

ARGUMENTS = ("global", "readonly", "texture")  # spaces of arrays that are parameters of kernels
ADDRESSED = ("global", "readonly")  # those that vector loads read; a fetch from a texture reads one element
# What a texture fetch returns, in C, by the element type: of bfloat16, which has no channel format, the bits.
FETCHED_TYPES = {
    "float32": "float",
    "float16": "float",
    "bfloat16": "unsigned short",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint32": "unsigned int",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
}
UNKNOWN_OFFSET = symbol("filtered fetch")  # no name in C
FUNNEL_SHIFT = "funnel_shift"  # a plan's operation: the elements of two vectors from an index on, as one vector


@dataclass(frozen=True, slots=True)
class PixelBox:
    """The pixels that TMA's im2col mode walks through (CUDA driver API, cuTensorMapEncodeIm2col): those from `lower` to
    the last one plus `upper` along each dimension of an image, each `step`-th. Numbers are by dimension, the slowest
    first."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How a tensor map (CUDA driver API, tensor map object management) divides an array into boxes of so many
    elements, one number per dimension as in its shape. In shared memory the innermost dimension of a box is a row of
    `swizzle_bytes`, whose 16-byte chunks are swizzled; 0 for boxes that aren't. `rounds_to_tf32`: loads round float32
    to tf32, to nearest (measured on an H200).

    With `pixels` a box is a number of pixels, the last but one of its numbers, that follow each other row by row and
    image by image, and some channels of each."""

    box: tuple[int, ...]
    swizzle_bytes: int
    rounds_to_tf32: bool = False
    pixels: PixelBox | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """An array in some memory space, under its C name.

    `shape` and `strides` are in elements. A flat array is printed with one linear subscript, any other with one per
    dimension, the last dimension padded by `pad` elements. An xor swizzle stores column c of row r at
    `c ^ swizzle_unit * (r % swizzle)`: so many consecutive elements stay together.
    """

    name: str  # the spec's name; of a tile, the array that it stages
    symbol: str  # the name in C
    dtype: DType
    shape: tuple[Integer, ...]
    strides: tuple[Integer, ...]
    space: str  # global, readonly, texture, tensor, constant, table, shared, register
    flat: bool = True
    pad: int = 0
    swizzle: int = 0
    swizzle_unit: int = 1
    dynamic: bool = False  # carved out of `extern __shared__` memory, `dynamic_offset` bytes from its start
    dynamic_offset: int = 0
    values: tuple[int | float | bool, ...] | None = None
    writable: bool = False
    align: int = 0  # bytes, of a shared tile with vector accesses
    zeroed: bool = False  # of a workspace array: zero before the launches
    left_zero: bool = False  # of a zeroed array: the launches leave it zeroed
    printed_shape: tuple[Integer, ...] = ()  # expressions of the padded shape's values that are printed instead
    readonly_table: bool = False  # of a baked table: loaded as arrays in `readonly` memory are
    texture_2d: Texture2D | None = None  # of a texture: fetched by two coordinates, not by an offset
    tensor_map: TensorMap | None = None  # of space `tensor`: copied by boxes
    load_operator: str = ""  # the cache operators of loads and stores while it is in global memory
    store_operator: str = ""

    @property
    def loads_readonly(self) -> bool:
        """Whether loads are printed as those through the read-only cache."""
        return self.space == "readonly" or (self.space == "table" and self.readonly_table)

    @property
    def padded_shape(self) -> tuple[Integer, ...]:
        return (*self.shape[:-1], self.shape[-1] + self.pad) if self.shape else ()

    def flattened(self, elements: Integer) -> Array:
        """Its memory as one dimension of so many elements."""
        return replace(self, shape=(elements,), strides=(integer(1),), flat=True)


def row_major(shape: tuple[Integer, ...]) -> tuple[Integer, ...]:
    """The strides of a dense array, its last dimension contiguous."""
    return tuple(sympy.Mul(*shape[dimension + 1 :]) for dimension in range(len(shape)))


def is_row_major(shape: tuple[Integer, ...], strides: tuple[Integer, ...]) -> bool:
    """Whether elements without gaps are in this order; the stride of a single row is never used."""
    pairs = zip(shape, strides, row_major(shape), strict=True)
    return all(extent == 1 or stride == dense or (stride - dense).expand() == 0 for extent, stride, dense in pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Declares a base pointer for some of a thread's accesses: `const float* a_from = &A[m * K + k]`.

    It hoists the loop-invariant part of an address, which compilers don't do for 32-bit sums that might wrap. The
    element itself need not exist. For a tile it points to an array of rows."""

    name: str  # in C
    array: Array
    subscripts: tuple[Integer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One load, store or copy operand in the source; printed exactly once.

    `subscripts` are over named indices, params and constants; `width` consecutive elements move at once.

    With a `rank` it addresses the distributed shared memory of that block of the cluster:
    `cluster.map_shared_rank(block_sum, rank)[0]`. It needs a `ClusterBarrier` before it (the block has started and
    written the data) and another after it (the block must not exit earlier).

    With a `start` it is printed relative to that pointer: `a_from[32 * K]`. `streaming` vector loads are evicted first:
    their elements are not reused.

    A filtered fetch from a 2-D texture has `coordinates`, the locals with one real number for each dimension, in place
    of subscripts. What it reads isn't known before it runs.

    `span` is the place in the spec of the read or statement that it serves, if it serves one.
    """

    array: Array
    subscripts: tuple[Integer, ...]
    # load, matrix_load, store, matrix_store, async_copy (written by an asynchronous `Copy`), atomic; or of the module
    # pipeline_nodes
    kind: str
    width: int = 1
    rank: Integer | None = None
    start: Start | None = None
    streaming: bool = False
    coordinates: tuple[Local, ...] = ()
    span: Span = NOWHERE
    serial: int = field(init=False, default_factory=count(1).__next__)  # what tells two accesses apart

    def __post_init__(self) -> None:
        if len(self.subscripts or self.coordinates) != len(self.array.strides):
            raise ValueError(
                f"{len(self.subscripts)} subscripts for `{self.array.symbol}` of {len(self.array.strides)} dimensions"
            )

    @property
    def is_load(self) -> bool:
        return self.kind in ("load", "matrix_load")

    @property
    def cache_operator(self) -> str:
        """`cg` of a load that the spec asks to be `ld.global.cg`, of a store `st.global.cg`; empty for the default."""
        if self.array.space != "global":
            return ""
        return {"load": self.array.load_operator, "store": self.array.store_operator}.get(self.kind, "")

    def printed(self) -> tuple[str, Access]:
        """The printed name, and the access with subscripts relative to it."""
        if self.start is None:
            return self.array.symbol, self
        pairs = zip(self.subscripts, self.start.subscripts, strict=True)
        return self.start.name, replace(self, subscripts=tuple(sympy.expand(sub - first) for sub, first in pairs))

    def physical_subscripts(self) -> tuple[Integer, ...]:
        """The subscripts after the xor swizzle, if the array has one, or after the address mode of a 2-D texture."""
        if (texture := self.array.texture_2d) is not None and self.subscripts:
            return tuple(map(texture.folded, self.subscripts, self.array.shape))
        if not self.array.swizzle:
            return self.subscripts
        *outer, row, column = self.subscripts
        mask = self.array.swizzle_unit * Mod(row, integer(self.array.swizzle))
        return (*outer, row, BitXor(column, mask))

    def addends(self) -> Iterator[tuple[tuple[Integer, ...], Integer, Integer]]:
        """The offset as it is printed, from the slowest dimension on: by what the sum so far is multiplied, what is
        added, and the stride of that. Horner's scheme, `(m * K + k) * 4 + 1`, for a dense array, else a sum of
        subscripts times strides. Numbers are combined."""
        strides, shape = self.array.strides, self.array.shape
        printed_shape = self.array.printed_shape or shape
        order = list(range(len(strides)))
        if len(order) > 1 and strides[0] == 1 and strides[-1] != 1:
            order.reverse()
        is_dense = bool(order) and strides[order[-1]] == 1
        is_dense = is_dense and all((strides[a] - strides[b] * shape[b]).expand() == 0 for a, b in pairwise(order))
        if not is_dense:
            yield from (((), self.subscripts[dimension], strides[dimension]) for dimension in order)
            return
        steps: list[tuple[Integer, tuple[Integer, ...], Integer]] = []
        number: Integer = integer(1)
        names: tuple[Integer, ...] = ()
        for dimension in order:
            if steps and shape[dimension] != 1:
                factor = printed_shape[dimension]
                number, names = (number * factor, names) if factor.is_Integer else (number, (*names, factor))
            if self.subscripts[dimension] != 0:
                steps.append((number, names, self.subscripts[dimension]))
                number, names = integer(1), ()
        steps.append((number, names, integer(0)))
        while len(steps) > 1 and steps[0][2].is_Integer:
            (_, _, first), (number, names, subscript), *others = steps
            if names or not subscript.is_Integer:
                steps = [(integer(1), (), first * number), (integer(1), names, subscript), *others]
                break
            steps = [(integer(1), (), first * number + subscript), *others]
        for number, names, subscript in steps:
            yield (*((number,) if number != 1 else ()), *names), subscript, integer(1)

    def offset(self) -> Integer:
        """The linear offset of the element, in elements; of a filtered fetch `UNKNOWN_OFFSET`."""
        if self.coordinates:
            return UNKNOWN_OFFSET
        terms = (sub * stride for sub, stride in zip(self.physical_subscripts(), self.array.strides, strict=True))
        return sympy.Add(*terms)


@dataclass(frozen=True, slots=True)
class IndexLocal(Local):
    """An index as a value. It has the index's range; any other local of the same name has its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Element(Local):
    """A memory operand read where it is used: `sum += As[ty][k] * Bs[k][tx]`. Its name is the array's."""

    access: Access

    @staticmethod
    def of(access: Access) -> Element:
        return Element(access.array.symbol, access.array.dtype.compute, access)


@dataclass(frozen=True, slots=True)
class Vector(Local):
    """A register vector of `width` elements, loaded or stored by one access: `Vector<float, 4> x4`.

    With a `count` it is an array of vectors, `Vector<float, 4> x4[2]`, and `index` selects one; with `rows` an array of
    arrays, `Vector<float, 4> x4[3][2]`, and `row` selects one."""

    element: DType  # as stored
    width: int
    count: int = 0
    index: Integer | None = None
    rows: int = 0
    row: Integer | None = None

    def indexed(self, index: Integer, row: Integer | None = None) -> Vector:
        """One vector of an array of vectors."""
        return Vector(self.name, self.dtype, self.element, self.width, 0, index, 0, row)

    def component(self, index: Integer) -> Component:
        return Component(self.name, self.dtype, self, index)


@dataclass(frozen=True, slots=True)
class Component(Local):
    """One element of a vector, in its compute type: `x4.data[v]`."""

    vector: Vector
    index: Integer


@dataclass(frozen=True, slots=True)
class Shuffled(Local):
    """A warp shuffle of a local, executed by all lanes: `__shfl_xor_sync(0xffffffff, sum, 16)`.

    `how` selects the source lane: `xor` with `distance`, `up` or `down` by `distance` (a lane past the segment's end
    gets its own value), or `from` lane `distance`. `segment` is the shuffle's width in lanes.
    """

    distance: int | Integer
    how: str = "xor"
    segment: int = 32
