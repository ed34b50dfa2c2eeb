"""What a kernel does, node by node, with every memory access as an object of its own.

The emitter prints these nodes and nothing else; the analysis reads the same objects.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.plan.memory import Access, Array, Start
from cugen.plan.symbols import INT32_MAX, INT32_MIN, Integer, Range, symbol
from cugen.spec.expressions import Expr, Local


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
class Mma:
    """A warp-wide tensor-core MMA on register fragments, m16n8k`k`: `mma_m16n8k16(&acc[0][0], &acc[1][0], a[0], b[0])`.

    Lane 4 * g + t holds rows g and g + 8 of A in columns t, t + 4, …, column g of B in rows t, t + 4, …, and two
    consecutive accumulators from column 2 * t on: `acc_upper` in row g, `acc_lower` in row g + 8.
    """

    acc_upper: Access
    acc_lower: Access
    a: Access
    b: Access
    k: int

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per lane."""
        return 16 * 8 * self.k // 32


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
class FetchBlockId:
    """One thread counts its block among those that have begun, and tells the others in shared memory:
    `ticket_of_block = atomicAdd(&flags[0], 1)`. One that `wraps` is zero again once all blocks have begun:
    `atomicInc(&flags[0], gridDim.x - 1)`, of a counter without a sign."""

    target: Access
    counter: Access
    wraps: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CountArrival:
    """One thread counts its block among the `among` blocks that leave something for the last of them, once all is
    visible that it has written, and others of the block before a barrier; and tells the others in shared memory:
    `__threadfence(); arrival_of_block = atomicInc(&arrived[tile], 3); __threadfence();`. The counter, one without a
    sign, is zero again after the last one, whose threads see after a barrier what all have left."""

    target: Access
    counter: Access
    arrivals: int


@dataclass(frozen=True, slots=True, eq=False)
class LoadBlockId:
    """Introduces the block's number in the order in which blocks begin, or arrive, which `TakeTicket` or `Arrive` left
    there before a barrier.

    `index` is defined as `blockIdx.x`, or as the block's number among those that share something, and that is what a
    ticket is to all who count: each number belongs to one block, only to another one than the hardware's."""

    index: Index
    access: Access


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseFlag:
    """Sets a flag in global memory once all is visible that its thread has written, and others of the block before a
    barrier: `__threadfence(); atomicExch(&flags[block], 1);`."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AcquireSpinWait:
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
class NamedBarrier:
    """Of `threads` of the block that lie side by side, whole warps, the `number`-th of such teams: `__syncwarp()` of a
    single warp, else `__barrier_sync_count(number + 1, threads)`, as the block's own barrier has the number 0."""

    number: Integer
    threads: int

    @property
    def is_of_warp(self) -> bool:
        return self.threads == 32


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


@dataclass(frozen=True, slots=True)
class Section:
    """A named part of a kernel, which a template places; it prints nothing of its own. False where it is empty."""

    name: str
    body: tuple[Node, ...]

    def __bool__(self) -> bool:
        return bool(self.body)


Node = (
    Define
    | Start
    | Let
    | Load
    | Store
    | Accumulate
    | Mma
    | Copy
    | CommitCopies
    | AwaitCopies
    | FetchBlockId
    | CountArrival
    | LoadBlockId
    | ReleaseFlag
    | AcquireSpinWait
    | Assign
    | For
    | If
    | ReturnUnless
    | Barrier
    | NamedBarrier
    | ClusterBarrier
    | Declare
    | Comment
    | Section
)
