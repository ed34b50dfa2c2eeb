"""Statements of pipelines whose copies and multiplications are asynchronous: mbarriers, TMA and wgmma.

TMA and wgmma access shared memory through the async proxy, of which the accesses of threads know nothing before a
barrier or a `FenceProxy` (PTX ISA, memory consistency model, proxies). Accesses in this module are of kinds `barrier`,
`tensor_load`, `tensor_store` and `operand`; one instruction moves a box of a tensor map or reads a matrix, whose first
element the access names.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from cugen.machine.wgmma import WgmmaInstruction
from cugen.plan.memory import Access, Array
from cugen.plan.symbols import Integer


@dataclass(frozen=True, slots=True)
class PrefetchTensorMap:
    """Prefetches the tensor map of an array, by one thread: `prefetch_tensor_map(&A_map)`."""

    array: Array


@dataclass(frozen=True, slots=True, eq=False)
class InitBarrier:
    """Initialises an mbarrier whose phases take `arrivals`, by one thread: `mbarrier_init(&full[stage], 1)`."""

    barrier: Access
    arrivals: int


@dataclass(frozen=True, slots=True)
class FenceBarrierInit:
    """Makes initialised barriers visible to TMA, before a barrier of the block: `mbarrier_init_fence()`."""


@dataclass(frozen=True, slots=True, eq=False)
class ArriveBarrier:
    """Arrives at an mbarrier: `mbarrier_arrive(&empty[stage])`. With `expected_bytes` the phase ends when these have
    been copied, too: `mbarrier_arrive_expect_tx(&full[stage], 49152)`. With a `rank` it is the barrier of that block of
    the cluster: `mbarrier_arrive_cluster(&empty[stage], lane)`."""

    barrier: Access
    expected_bytes: Integer | None = None
    rank: Integer | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AwaitBarrier:
    """Waits until the phase of this parity has ended, of an mbarrier that begins in phase 0:
    `mbarrier_wait(&full[stage], parity)`. Parity 1 has ended before the first phase."""

    barrier: Access
    parity: Integer


@dataclass(frozen=True, slots=True, eq=False)
class TensorLoad:
    """One thread copies a box of `source`, an array with a tensor map, to `target` in shared memory, asynchronously:
    `tma_load_2d(&As[stage][0][0], &A_map, &full[stage], k0, m0)`.

    Elements outside the array are zero. The bytes of the whole box count at the barrier. The coordinates of `source`
    may be outside, too. With `blocks` so many blocks of the cluster all get the box, and count its bytes: those of
    ranks `first`, `first` + `stride` …, by bits of a mask
    `tma_load_2d_multicast(&Bs[stage][n][0], &B_map, &full[stage], 3 << 2 * rank_n, k0, n0)`.

    With `offsets` it copies pixels, from that at the coordinates of `source` on, each so far away from where the tensor
    map has it: `tma_load_im2col_4d(&xs[stage][0][0], &x_map, &full[stage], c, w, h, n, s, r)`."""

    target: Access
    source: Access
    barrier: Access
    blocks: int = 1
    offsets: tuple[Integer, ...] = ()
    first: Integer = sympy.S.Zero
    stride: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class TensorStore:
    """One thread copies a box from shared memory to `target`, an array with a tensor map, asynchronously:
    `tma_store_2d(&C_map, &c_tile[buffer][0][0], n, m)`. Elements outside the array are left out."""

    target: Access
    source: Access


@dataclass(frozen=True, slots=True)
class CommitTensorStores:
    """Commits the thread's `TensorStore`s as a group: `tma_store_commit()`."""


@dataclass(frozen=True, slots=True)
class AwaitTensorStores:
    """Waits until all groups of the thread's `TensorStore`s but the last `pending` have read their shared memory:
    `tma_store_wait_read<1>()`."""

    pending: int


@dataclass(frozen=True, slots=True)
class FenceProxy:
    """Makes the thread's writes to shared memory visible to TMA and wgmma: `fence_proxy_async()`."""


@dataclass(frozen=True, slots=True)
class SetMaxRegisters:
    """Sets how many registers each thread of a warpgroup has, by all its threads: `setmaxnreg_dec<40>()` gives some up,
    and with `increases` `setmaxnreg_inc<232>()` takes them, once there are enough."""

    count: int
    increases: bool


@dataclass(frozen=True, slots=True)
class FenceWgmma:
    """Orders a warpgroup's accesses of its accumulators before its next wgmma: `wgmma_fence()`."""


@dataclass(frozen=True, slots=True)
class CommitWgmmas:
    """Commits the warpgroup's wgmmas as a group: `wgmma_commit()`."""


@dataclass(frozen=True, slots=True)
class AwaitWgmmas:
    """Waits for all groups of the warpgroup's wgmmas but the last `pending`: `wgmma_wait<1>()`."""

    pending: int


@dataclass(frozen=True, slots=True, eq=False)
class Wgmma:
    """A warpgroup's multiplication of two matrices in shared memory, asynchronously:
    `wgmma_m64n256k16_bf16<false, false>(&acc[0][0], &acc[1][0], k_major_matrix(&As[stage][m][0], k), …, k > 0)`.

    `acc_upper` and `acc_lower` are a lane's accumulators of two rows, `n` / 4 of each. Where the number `k` of the
    sum's terms before is 0 they are overwritten. `a` and `b` name the first elements of the operands. One that is
    MN-major has tiles of blocks, which are so many bytes apart: `a_block_bytes`, `b_block_bytes`; 0 of one that is
    K-major."""

    acc_upper: Access
    acc_lower: Access
    a: Access
    b: Access
    instruction: WgmmaInstruction
    n: int
    k: Integer
    a_block_bytes: int = 0
    b_block_bytes: int = 0

    @property
    def name(self) -> str:
        """The function's name in C."""
        return self.instruction.name(self.n)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per lane."""
        return 64 * self.n * self.instruction.k // 128


PipelineNode = (
    PrefetchTensorMap
    | InitBarrier
    | FenceBarrierInit
    | ArriveBarrier
    | AwaitBarrier
    | TensorLoad
    | TensorStore
    | CommitTensorStores
    | AwaitTensorStores
    | FenceProxy
    | SetMaxRegisters
    | FenceWgmma
    | CommitWgmmas
    | AwaitWgmmas
    | Wgmma
)
