"""Memory that a kernel touches: arrays, every access to one, and the values that it holds in registers.

Values are expression trees of `cugen.spec.expressions` whose leaves are `Local`s, constants, params and scalars: every
memory read became a `Load`, or an `Element` where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from cugen.plan.symbols import BitXor, Integer, Mod, integer
from cugen.spec.expressions import Local
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class Array:
    """Memory that a kernel touches, under its name in C.

    `shape` counts elements per dimension. A flat array is printed with one subscript through `strides` (elements);
    any other with one subscript per dimension, the last one `pad` elements longer than its shape says.
    `swizzle` names the xor that permutes columns by row: column c of row r stands at `c ^ (r % swizzle)`.
    """

    name: str  # the spec's name, also of the array that a tile stages
    symbol: str  # the name in C
    dtype: DType
    shape: tuple[Integer, ...]
    strides: tuple[Integer, ...]
    space: str  # global, readonly, constant, shared, register
    flat: bool = True
    pad: int = 0
    swizzle: int = 0
    dynamic: bool = False  # carved out of `extern __shared__` memory, `dynamic_offset` bytes from its start
    dynamic_offset: int = 0
    values: tuple[int | float | bool, ...] | None = None
    writable: bool = False
    align: int = 0  # bytes, of a shared tile that is accessed wider than by its elements
    zeroed: bool = False  # of a workspace: zeros before the launches
    left_zero: bool = False  # of a zeroed one: the launches leave it as zeros, too

    @property
    def padded_shape(self) -> tuple[Integer, ...]:
        return (*self.shape[:-1], self.shape[-1] + self.pad) if self.shape else ()


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Introduces a pointer to an element, from which a thread counts some of its accesses:
    `const float* a_from = &A[m * K + k]`. So what doesn't change in a loop stands outside of it, which compilers don't
    see in sums of 32 bits. The element itself need not exist. Into a tile it is a pointer to such rows as that has."""

    name: str  # in C
    array: Array
    subscripts: tuple[Integer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One place in the source that reads or writes memory; printed exactly once.

    `subscripts` are over named indices, params and constants; `width` consecutive elements move at once.

    With a `rank` it is the shared memory of that block of the cluster, in a kernel that has any:
    `cluster.map_shared_rank(block_sum, rank)[0]`. A `ClusterBarrier` must stand before it, since that block may
    not have begun or not have written what is read, and another one after it, before that block may end.

    With a `start` it is printed as so many elements away from there: `a_from[32 * K]`.

    A wide load that is `streaming` is of elements that nothing reads again: caches evict them before others.
    """

    array: Array
    subscripts: tuple[Integer, ...]
    kind: str  # load, store, async_copy (written by an asynchronous `Copy`), atomic
    width: int = 1
    rank: Integer | None = None
    start: Start | None = None
    streaming: bool = False

    def printed(self) -> tuple[str, Access]:
        """The name that stands in the source, and the access with its subscripts counted from there."""
        if self.start is None:
            return self.array.symbol, self
        pairs = zip(self.subscripts, self.start.subscripts, strict=True)
        return self.start.name, replace(self, subscripts=tuple(sympy.expand(sub - first) for sub, first in pairs))

    def physical_subscripts(self) -> tuple[Integer, ...]:
        """The subscripts as they stand in memory: with the column permuted where the array is swizzled."""
        if not self.array.swizzle:
            return self.subscripts
        *outer, row, column = self.subscripts
        return (*outer, row, BitXor(column, Mod(row, integer(self.array.swizzle))))

    def offset(self) -> Integer:
        """The element's place in the array, as one expression."""
        terms = (sub * stride for sub, stride in zip(self.physical_subscripts(), self.array.strides, strict=True))
        return sympy.Add(*terms)


@dataclass(frozen=True, slots=True, eq=False)
class Element(Local):
    """A value read where it's used: `sum += As[ty][k] * Bs[k][tx]`. Its name is that of the array."""

    access: Access

    @staticmethod
    def of(access: Access) -> Element:
        return Element(access.array.symbol, access.array.dtype.compute, access)


@dataclass(frozen=True, slots=True)
class Vector(Local):
    """`width` consecutive elements in registers, which one access loads or stores: `Vector<float, 4> x4`.

    `count` of them make a row of vectors, declared at once: `Vector<float, 4> x4[2]`; `index` selects one.
    Of `rows` such rows, `Vector<float, 4> x4[3][2]`, `row` says which."""

    element: DType  # as stored
    width: int
    count: int = 0
    index: Integer | None = None
    rows: int = 0
    row: Integer | None = None

    def indexed(self, index: Integer, row: Integer | None = None) -> Vector:
        """One vector of a row."""
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
    """A local's value in another lane of the warp; all lanes take part: `__shfl_xor_sync(0xffffffff, sum, 16)`.

    `how` says which lane: `xor` flips the bits of `distance` in the own number, `up` and `down` are that many lanes
    below and above (past the end of the segment a lane gets its own value), `from` is lane `distance` itself. Each
    `segment` of so many lanes is by itself.
    """

    distance: int | Integer
    how: str = "xor"
    segment: int = 32
