"""Communication between the blocks of one launch: dynamic block ids, release flags and workspace arrays."""

from __future__ import annotations

from dataclasses import replace

from cugen.pieces.kernels import dense_array
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access, Array, row_major
from cugen.plan.nodes import Barrier, Declare, FetchBlockId, Index, LoadBlockId, Node, when
from cugen.plan.request import Request
from cugen.plan.symbols import Integer, bounds, integer, symbol
from cugen.spec.expressions import Const
from cugen.spec.types import INT32, UINT32, DType


class DynamicBlockIds:
    """Block ids in the order in which blocks start, so that a block may wait for those with lower ids.

    `flags` holds the atomic counter, then one flag per block (block id + 1). With `left_zero` the counter wraps, and a
    waiting block resets the flag to `clear`, so the launch leaves the array zeroed."""

    def __init__(self, request: Request, lowering: Lowering, blocks: Integer, *, left_zero: bool = False) -> None:
        self.lowering = lowering
        self.left_zero = left_zero
        values = (0, max(bounds(blocks, lowering.ranges)[1] - 1, 0))
        hardware_id = symbol("blockIdx.x")
        self.index = Index(lowering.names.allocate("block_id"), hardware_id, values)
        lowering.ranges[hardware_id] = lowering.ranges[self.index.symbol] = values
        dtype = UINT32 if left_zero else INT32  # the operand types of `atomicInc` and `atomicAdd`
        flags = workspace_array(request, "flags", dtype, (1 + blocks,))
        self.flags = replace(flags, zeroed=True, left_zero=left_zero)
        self.set = Const(1, dtype)
        self.clear = Const(0, dtype)

    @property
    def block_id(self) -> Integer:
        return self.index.symbol

    def flag(self, index: Integer, kind: str) -> Access:
        return Access(self.flags, (index,), kind)

    def fetch(self) -> tuple[Node, ...]:
        """Defines the block id: the first thread increments the counter and broadcasts it through shared memory."""
        name = self.lowering.names.allocate("shared_block_id")
        broadcast = dense_array(name, INT32, (), "shared")
        return (
            Declare(broadcast),
            when(symbol("threadIdx.x"), "==", integer(0), (self.fetch_to(Access(broadcast, (), "store")),)),
            Barrier(),
            self.load_from(Access(broadcast, (), "load")),
        )

    def fetch_to(self, target: Access) -> FetchBlockId:
        """Increments the counter, in one thread of the block, for `load_from` after a barrier."""
        return FetchBlockId(target, self.flag(integer(0), "atomic"), wraps=self.left_zero)

    def load_from(self, source: Access) -> LoadBlockId:
        """Defines the block id, in all threads."""
        return LoadBlockId(self.index, source)


def workspace_array(request: Request, name_hint: str, dtype: DType, shape: tuple[Integer, ...]) -> Array:
    """A row-major workspace array through which the blocks of one launch exchange data."""
    name = request.context.names.allocate(f"{request.group.statements[-1].target}_{name_hint}")
    return Array(name, name, dtype, shape, row_major(shape), "global", writable=True)
