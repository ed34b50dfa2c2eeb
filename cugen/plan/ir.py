"""The plan: what a kernel does, node by node, with every memory access as an object of its own.

The emitter prints these nodes and nothing else; the analysis reads the same objects. Values are expression trees of
`cugen.spec.expressions` whose leaves are `Local`s, constants, params and scalars: every memory read became a `Load`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import sympy

from cugen.plan.symbols import INT32_MAX, INT32_MIN, BitXor, Integer, Mod, Range, bounds, integer, symbol
from cugen.spec.expressions import Expr, Local, walk
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

    def placed(self) -> tuple[Integer, ...]:
        """The subscripts as they stand in memory: with the column permuted where the array is swizzled."""
        if not self.array.swizzle:
            return self.subscripts
        *outer, row, column = self.subscripts
        return (*outer, row, BitXor(column, Mod(row, integer(self.array.swizzle))))

    def offset(self) -> Integer:
        """The element's place in the array, as one expression."""
        terms = (sub * stride for sub, stride in zip(self.placed(), self.array.strides, strict=True))
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

    `count` of them make a row of vectors, declared at once: `Vector<float, 4> x4[2]`; `place` says which of the row.
    Of `rows` such rows, `Vector<float, 4> x4[3][2]`, `row` says which."""

    element: DType  # as stored
    width: int
    count: int = 0
    place: Integer | None = None
    rows: int = 0
    row: Integer | None = None

    def one(self, place: Integer, row: Integer | None = None) -> Vector:
        """One vector of a row."""
        return Vector(self.name, self.dtype, self.element, self.width, 0, place, 0, row)

    def component(self, place: Integer) -> Component:
        return Component(self.name, self.dtype, self, place)


@dataclass(frozen=True, slots=True)
class Component(Local):
    """One element of a vector, in its compute type: `x4.at[v]`."""

    vector: Vector
    place: Integer


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


@dataclass(frozen=True, slots=True)
class Index:
    """A named integer of the kernel: `const int row = blockIdx.y * 16 + threadIdx.y;`.

    With `shown`, another expression of the same value, that one is what C computes."""

    name: str  # in C
    definition: Integer
    range: Range
    shown: Integer | None = None

    @property
    def symbol(self) -> sympy.Symbol:
        return symbol(self.name)

    @property
    def is_wide(self) -> bool:
        """Whether 32 bits can overflow."""
        return not (INT32_MIN <= self.range[0] and self.range[1] <= INT32_MAX)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right` between integer expressions; the operator is one of < <= > >= == !=."""

    left: Integer
    operator: str
    right: Integer


@dataclass(frozen=True, slots=True)
class Guard:
    """A conjunction of comparisons of index expressions, which the analysis can split a launch by."""

    terms: tuple[Comparison, ...]


Condition = Guard | Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """`for (int index = start; index < stop; index += step)`; `unroll` asks the compiler to unroll it whole, `rolled`
    to leave it the loop that it is, `unroll_by` to put so many trips side by side.

    With `halves` the index is a number of lanes instead: it begins with that power of two and is halved down to 1, once
    in each of the trips between `start` and `stop`; no subscript may mention it. With `doubles` it begins with so many
    and is doubled in each trip."""

    index: Index
    start: Integer
    stop: Integer
    step: int = 1
    unroll: bool = False
    rolled: bool = False
    downward: bool = False  # from stop - 1 to start
    unroll_by: int = 0
    halves: int = 0
    doubles: int = 0


@dataclass(frozen=True, slots=True)
class Define:
    """Introduces an index. With `then` it stands in the head of the loop whose body introduces it: it begins with 0,
    and becomes that after each trip."""

    index: Index
    then: Integer | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Introduces a local with its first value; `mutable` where assignments follow; None leaves it to them. Vectors
    start without a value, or with zeros."""

    local: Local
    value: Expr | None
    mutable: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Introduces a local with an element of memory, or with `otherwise` where the guard fails; a `Vector` with all that
    a wide access reads. One of a row of vectors was introduced before, and is assigned."""

    local: Local
    access: Access
    guard: Guard | None = None
    otherwise: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Writes a value, rounded to the array's element type; a `Vector` as it stands."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Accumulate:
    """`element += value`, in registers."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class MultiplyTiles:
    """Adds the product of 16 x `depth` and `depth` x 8 elements to 16 x 8 sums, on a tensor core; all lanes of a warp
    take part, each with what it holds in registers: `multiply_16x8x16(&sum[0][0], &sum[1][0], a[0], b[0])`.

    Lane 4 * g + t has in `left` the elements of rows g and g + 8 in columns t, t + 4 ..., in `right` those of column g
    in rows t, t + 4 ..., and of the sums two neighbours from column 2 * t on: `upper` in row g, `lower` in row g + 8.
    """

    upper: Access
    lower: Access
    left: Access
    right: Access
    depth: int

    @property
    def products(self) -> int:
        """Multiply-adds of each lane's share."""
        return 16 * 8 * self.depth // 32


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Moves an element (or `width` of them) from one array to another, or zero where the guard fails.

    Where the target's kind is `async_copy` the threads go on at once: what was copied can be read after `CommitCopies`,
    an `AwaitCopies` and a barrier. Such a copy moves 4, 8 or 16 bytes."""

    target: Access
    source: Access
    guard: Guard | None = None

    @property
    def asynchronous(self) -> bool:
        return self.target.kind == "async_copy"


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """Ends a group of asynchronous copies, also of none: `__pipeline_commit()`."""


@dataclass(frozen=True, slots=True)
class AwaitCopies:
    """Waits for all groups of the thread's own copies but the last `pending`: `__pipeline_wait_prior(1)`."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False)
class TakeTicket:
    """One thread counts its block among those that have begun, and tells the others in shared memory:
    `ticket_of_block = atomicAdd(&flags[0], 1)`. One that `wraps` is zero again once all blocks have begun:
    `atomicInc(&flags[0], gridDim.x - 1)`, of a counter without a sign."""

    target: Access
    counter: Access
    wraps: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """Introduces the block's number in the order in which blocks begin, which `TakeTicket` left there before a barrier.

    `index` is defined as `blockIdx.x`, and that is what a ticket is to all who count: each number of the grid belongs
    to one block, only to another one than the hardware's."""

    index: Index
    access: Access


@dataclass(frozen=True, slots=True, eq=False)
class Publish:
    """Sets a flag in global memory once all is visible that its thread has written, and others of the block before a
    barrier: `__threadfence(); atomicExch(&flags[block], 1);`."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Await:
    """The thread asks for a flag until it has the value; afterwards it sees what was written before the flag's
    `Publish`, and so do others after a barrier. Only flags may be awaited that a block with a smaller ticket sets: it
    has begun, so that it ends. What is handed over so must not be read through the read-only cache."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """`local = value`; a vector may be assigned all that the wide access of an `Element` reads."""

    local: Local
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    loop: Loop
    body: tuple[Node, ...]

    @property
    def counted(self) -> tuple[Define, ...]:
        """What the loop's head counts besides its own index."""
        return tuple(node for node in self.body if isinstance(node, Define) and node.then is not None)


@dataclass(frozen=True, slots=True)
class If:
    condition: Condition
    then: tuple[Node, ...]
    orelse: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ReturnUnless:
    """Ends the threads for which the guard fails; no barrier may follow."""

    guard: Guard


@dataclass(frozen=True, slots=True)
class Barrier:
    """`__syncthreads()`."""


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """`cluster.sync()`: of all threads of all blocks of a cluster. A `half` of it lets work stand between: at "arrive"
    a thread says that it is there, at "wait" it waits until all others have said so."""

    half: str = ""

    @property
    def call(self) -> str:
        """The member of the cluster that is called."""
        return f"barrier_{self.half}" if self.half else "sync"


@dataclass(frozen=True, slots=True)
class Declare:
    """A shared tile or an array in registers; `zeroed` where its elements start at zero."""

    array: Array
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    text: str


Node = (
    Define
    | Start
    | Let
    | Load
    | Store
    | Accumulate
    | MultiplyTiles
    | Copy
    | CommitCopies
    | AwaitCopies
    | TakeTicket
    | Ticket
    | Publish
    | Await
    | Assign
    | For
    | If
    | ReturnUnless
    | Barrier
    | ClusterBarrier
    | Declare
    | Comment
)


def walk_nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes in the order of the source, parents first."""
    for node in nodes:
        yield node
        match node:
            case For():
                yield from walk_nodes(node.body)
            case If():
                yield from walk_nodes(node.then)
                yield from walk_nodes(node.orelse)


def accesses(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access below the nodes, in the order of the source."""
    for node in walk_nodes(nodes):
        match node:
            case Load() | Store() | Accumulate() | Ticket() | Publish() | Await():
                yield node.access
            case MultiplyTiles():
                yield from (node.upper, node.lower, node.left, node.right)
            case TakeTicket():
                yield node.target
                yield node.counter
            case Copy():
                yield node.source
                yield node.target
        for value in values_of(node):
            yield from (leaf.access for leaf in walk(value) if isinstance(leaf, Element))


def values_of(node: Node) -> tuple[Expr, ...]:
    """The value expressions that a node shows, those of its children left out."""
    match node:
        case Let(value=value) | Load(otherwise=value):
            return () if value is None else (value,)
        case Store(value=value) | Assign(value=value) | Accumulate(value=value):
            return (value,)
        case Publish(value=value) | Await(value=value):
            return (value,)
        case If(condition=condition) if not isinstance(condition, Guard):
            return (condition,)
    return ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One `__global__` function and its launch.

    `parts` gives the family's template the pieces it arranges, in the order in which they run; together they are the
    kernel's whole body. `ranges` holds the values that every symbol of the body can take.
    """

    name: str
    family: str
    arrays: tuple[Array, ...]  # the ones that are parameters or symbols at file scope, in order of the spec
    arguments: tuple[
        str, ...
    ]  # names of the spec's arrays, scalars, params and temporaries, in order of the parameters
    parts: tuple[tuple[str, tuple[Node, ...]], ...]
    grid: tuple[Integer, Integer, Integer]
    block: tuple[int, int, int]
    ranges: tuple[tuple[sympy.Symbol, Range], ...]
    computes: tuple[str, ...]  # the statements, as the user wrote them
    minimum_blocks: int = 0  # for __launch_bounds__
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    alignments: tuple[tuple[str, int], ...] = ()  # bytes asked of an argument beyond its element's size
    reasons: tuple[str, ...] = ()  # why this family and these tunables
    cluster: int = 1  # blocks side by side along x that run at once and share their shared memory; they divide the grid
    workspace: tuple[Array, ...] = ()  # through which its blocks hand something to each other

    @property
    def body(self) -> tuple[Node, ...]:
        return tuple(node for _, nodes in self.parts for node in nodes)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def is_clustered(self) -> bool:
        return self.cluster > 1


@dataclass(frozen=True, slots=True)
class Upload:
    """An argument that is copied to a `__constant__` symbol before the launches; `parameter` is its name there."""

    symbol: str
    argument: str
    bytes: int
    parameter: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A sequence of kernels behind one entry point. Temporaries that cross kernels live in the workspace, and so does
    what the blocks of one hand to each other."""

    kernels: tuple[Kernel, ...]
    workspace: tuple[Array, ...] = ()
    constants: tuple[Array, ...] = ()  # __constant__ symbols and baked tables at file scope
    uploads: tuple[Upload, ...] = ()
    scalar_symbols: tuple[tuple[str, str], ...] = ()  # scalar of the spec -> its name in C
    param_symbols: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = field(default=())  # which temporaries were recomputed, kept or stored, and why


def fits_int(expr: Integer, ranges: dict[sympy.Symbol, Range]) -> bool:
    """Whether every value of `expr` fits 32 bits."""
    low, high = bounds(expr, ranges)
    return INT32_MIN <= low and high <= INT32_MAX
