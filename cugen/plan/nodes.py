"""The statements of a kernel, with every memory access as an object.

The emitter prints these nodes and nothing else; the analysis reads the same objects.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from cugen.machine.mma import MmaInstruction
from cugen.plan.memory import Access, Array, Start, Vector
from cugen.plan.pipeline_nodes import PipelineNode
from cugen.plan.symbols import INT32_MAX, INT32_MIN, Integer, Range, integer, symbol
from cugen.spec.expressions import Expr, Local


@dataclass(frozen=True, slots=True)
class Index:
    """A named integer of the kernel: `const int row = blockIdx.y * 16 + threadIdx.y;`.

    `shown` is an expression of the same value that is printed instead of the definition. A `constant` is a number that
    is known when the kernel is compiled: `constexpr int BM = 128;`."""

    name: str  # in C
    definition: Integer
    range: Range
    shown: Integer | None = None
    constant: bool = False

    @property
    def symbol(self) -> sympy.Symbol:
        return symbol(self.name)

    @property
    def is_wide(self) -> bool:
        """Whether the value may exceed 32 bits."""
        return not (INT32_MIN <= self.range[0] and self.range[1] <= INT32_MAX)


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right` between integer expressions; the operator is one of `COMPARISONS`."""

    left: Integer
    operator: str
    right: Integer

    @property
    def opposite(self) -> Comparison:
        """What holds where this one doesn't."""
        return Comparison(self.left, _OPPOSITES[self.operator], self.right)


@dataclass(frozen=True, slots=True)
class Guard:
    """A conjunction of comparisons of index expressions, by which the analysis partitions a launch.

    With `elected_of` it is printed as `elect_one()` after the comparisons that choose the warp; `terms` are those of a
    thread in its place."""

    terms: tuple[Comparison, ...]
    elected_of: tuple[Comparison, ...] | None = None


Condition = Guard | Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """`for (int index = start; index < stop; index += step)`, with `#pragma unroll` (`unroll`), `#pragma unroll 1`
    (`rolled`) or an unroll factor (`unroll_by`).

    With `halves` the index starts at that power of two and is halved down to 1, once per trip between `start` and
    `stop`; no subscript may use it. With `doubles` it starts at that value and is doubled per trip."""

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
    """Defines an index. With `then` it is a second counter in the header of the enclosing loop: first what its
    definition is where the loop begins, `then` after each trip, when counters before it have their next values."""

    index: Index
    then: Integer | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Declares a local with its initial value, or without one (None); `mutable` if it is assigned later.

    Vectors are uninitialised or zero."""

    local: Local
    value: Expr | None
    mutable: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Declares a local with an element of memory, or `otherwise` if the guard fails; a `Vector` with a vector load.

    An element of an array of vectors is declared before, and assigned.

    The guard of a fetch that is `bounds_checked` isn't printed: where it fails, the offset or a coordinate is outside
    the texture, and the fetch gives 0."""

    local: Local
    access: Access
    guard: Guard | None = None
    otherwise: Expr | None = None
    bounds_checked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Stores a value, converted to the array's element type; a `Vector` unconverted."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Accumulate:
    """`element += value`, in registers."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AtomicAdd:
    """Adds an integer to an element of memory that other threads add to: `atomicAdd(&bins[key], 1u)`. The old value is
    not used, so that the order of the additions changes nothing."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class LoadMatrix:
    """A warp-wide load of four matrices of 8 rows of 16 bytes into register fragments:
    `ldmatrix_x4(&a[0], &As[row][k])`.

    Lane l gives the address of a row of 16 bytes, row l % 8 of matrix l // 8, as `source`; lane 4 * g + t gets word t
    of row g of each matrix, in the four words of `target`. `transposed`: of 16-bit elements, the matrices are
    transposed."""

    target: Access
    source: Access
    transposed: bool = False

    @property
    def name(self) -> str:
        """The function's name in C."""
        return "ldmatrix_x4_trans" if self.transposed else "ldmatrix_x4"


@dataclass(frozen=True, slots=True, eq=False)
class StoreMatrix:
    """A warp-wide store of four matrices, or of two, of 8 rows of 16 bytes from register fragments:
    `stmatrix_x4(&c_tile[row][n], c_frag)`.

    Lane l gives the address of a row, row l % 8 of matrix l // 8, as `target`; of two matrices the `guard` names the
    lanes that do. Lane 4 * g + t has word t of row g of each matrix, in the vectors of the array `words`; with
    `transposed`, of 16-bit elements, rows 2 * t and 2 * t + 1 of column g."""

    target: Access
    words: Vector
    transposed: bool = False
    guard: Guard | None = None

    @property
    def name(self) -> str:
        """The function's name in C."""
        return f"stmatrix_x{self.words.count}{'_trans' if self.transposed else ''}"

    @property
    def vectors(self) -> tuple[Vector, ...]:
        return tuple(self.words.indexed(integer(number)) for number in range(self.words.count))


@dataclass(frozen=True, slots=True, eq=False)
class ConvertFragment:
    """Writes all registers of an array, or of one of its rows, that a function computes of those of another:
    `bfloat16_parts(a_frag[0][i], a_parts)`."""

    target: Access
    source: Access
    function: str


@dataclass(frozen=True, slots=True, eq=False)
class Mma:
    """A warp-wide tensor-core MMA on register fragments, of an `instruction`:
    `mma_m16n8k16(&acc[0][0], &acc[1][0], a[0], b[0])`.

    Lane 4 * g + t holds rows g and g + 8 of A, column g of B, and two consecutive accumulators from column 2 * t on:
    `acc_upper` in row g, `acc_lower` in row g + 8. Of K it holds t, t + 4, … in units of a register."""

    acc_upper: Access
    acc_lower: Access
    a: Access
    b: Access
    instruction: MmaInstruction

    @property
    def function(self) -> str:
        return self.instruction.name

    @property
    def k(self) -> int:
        return self.instruction.k

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per lane."""
        return 16 * 8 * self.k // 32


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Copies an element (or `width` of them) from one array to another, or zero if the guard fails.

    If the target's kind is `async_copy`, it is asynchronous (4, 8 or 16 bytes): the data is visible after
    `CommitCopies`, `AwaitCopies` and a barrier."""

    target: Access
    source: Access
    guard: Guard | None = None

    @property
    def asynchronous(self) -> bool:
        return self.target.kind == "async_copy"


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """Commits a group of asynchronous copies, possibly empty: `__pipeline_commit()`."""


@dataclass(frozen=True, slots=True)
class AwaitCopies:
    """Waits for all of the thread's copy groups except the last `pending`: `__pipeline_wait_prior(1)`."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False)
class FetchBlockId:
    """One thread fetches a dynamic block id from an atomic counter and broadcasts it through shared memory:
    `shared_block_id = atomicAdd(&flags[0], 1)`.

    With `wraps` the unsigned counter is zero again once all blocks have started:
    `atomicInc(&flags[0], gridDim.x - 1)`."""

    target: Access
    counter: Access
    wraps: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CountArrival:
    """One thread increments the arrival counter of a group of `arrivals` blocks and broadcasts the block's rank:
    `__threadfence(); arrival_of_block = atomicInc(&arrived[tile], 3); __threadfence();`.

    The writes of the block before a barrier are visible before the increment. After a barrier, the last block to arrive
    sees the writes of all; the unsigned counter is zero again."""

    target: Access
    counter: Access
    arrivals: Integer


@dataclass(frozen=True, slots=True, eq=False)
class LoadBlockId:
    """Defines the dynamic block id, or the rank of arrival, that `FetchBlockId` or `CountArrival` broadcast before a
    barrier.

    For the analysis `index` is defined as `blockIdx.x`, or as the block's number in its group: a permutation of the
    hardware's ids."""

    index: Index
    access: Access


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseFlag:
    """Sets a release flag in global memory, after the thread's writes and those of the block before a barrier:
    `__threadfence(); atomicExch(&flags[block], 1);`."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AcquireSpinWait:
    """Spins until a flag has the value, with acquire semantics: the thread, and after a barrier the block, sees the
    writes before the `ReleaseFlag`.

    The flag must belong to a block with a lower dynamic id, which has started and will finish. The data must not be
    read through the read-only cache."""

    access: Access
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """`local = value`; a vector may be assigned a vector load (`Element`)."""

    local: Local
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    loop: Loop
    body: tuple[Node, ...]

    @property
    def counted(self) -> tuple[Define, ...]:
        """The additional counters in the loop's header."""
        return tuple(node for node in _unsectioned(self.body) if isinstance(node, Define) and node.then is not None)


@dataclass(frozen=True, slots=True)
class If:
    condition: Condition
    then: tuple[Node, ...]
    orelse: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class ReturnUnless:
    """Returns from threads for which the guard fails; no barrier may follow."""

    guard: Guard


@dataclass(frozen=True, slots=True)
class Assume:
    """`__builtin_assume(K > 0)`: what the compiler doesn't know of sizes at launch."""

    guard: Guard


@dataclass(frozen=True, slots=True)
class Barrier:
    """`__syncthreads()`."""


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """A barrier among `threads` consecutive threads (whole warps), the `number`-th such group of the block.

    `__syncwarp()` for one warp, else `__barrier_sync_count(number + 1, threads)`: barrier 0 is `__syncthreads()`."""

    number: Integer
    threads: int

    @property
    def is_of_warp(self) -> bool:
        return self.threads == 32


@dataclass(frozen=True, slots=True)
class ClusterBarrier:
    """`cluster.sync()` of all threads of a cluster, or one `half` of a split barrier: "arrive" or "wait"."""

    half: str = ""

    @property
    def call(self) -> str:
        """The method of `cluster` that is called."""
        return f"barrier_{self.half}" if self.half else "sync"


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares a shared tile or a register array; `zeroed` if it is initialised to zero."""

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


@dataclass(frozen=True, slots=True)
class FunctionCall(Section):
    """Definitions that several parts of a kernel have alike, printed once as a function, and in their places as its
    calls: `const auto [tile, k_tiles] = product_work_unit(block_id, unit);`. The other nodes use those of `results`
    alone; `purpose` is the comment of the function."""

    function: str
    results: tuple[sympy.Symbol, ...]
    purpose: str

    @property
    def definitions(self) -> tuple[Define, ...]:
        return tuple(node for node in self.body if isinstance(node, Define))


def when(left: Integer, operator: str, right: Integer, then: tuple[Node, ...], orelse: tuple[Node, ...] = ()) -> If:
    """A branch on a single comparison."""
    return If(Guard((Comparison(left, operator, right),)), then, orelse)


def _unsectioned(body: tuple[Node, ...]) -> Iterator[Node]:
    for node in body:
        if isinstance(node, Section):
            yield from _unsectioned(node.body)
        else:
            yield node


Node = (
    Define
    | Start
    | Let
    | Load
    | Store
    | Accumulate
    | AtomicAdd
    | LoadMatrix
    | StoreMatrix
    | ConvertFragment
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
    | Assume
    | Barrier
    | NamedBarrier
    | ClusterBarrier
    | Declare
    | Comment
    | Section
    | PipelineNode
)
