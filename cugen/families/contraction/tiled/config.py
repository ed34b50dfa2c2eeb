"""The tile config of a single-stage tiled contraction: block tile, thread tile, k-tile; and why one is refused."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction.recognition import Contraction, Operand
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, bounds
from cugen.spec.expressions import Expr

# Heuristic: below this extent of M or N, a 64 x 64 block tile would be mostly padding.
_MIN_EXTENT_FOR_REGISTER_TILES = 64
# Heuristic: the accumulators of more sums, 4 x 4 each, would not fit a thread's registers.
_MAX_REGISTER_TILED_SUMS = 2


@dataclass(frozen=True, slots=True)
class TileConfig:
    """The block tile BM x BN x BK and the thread tile TM x TN, in elements.

    A thread's elements are `threads_y` apart along M and `threads_x` apart along N."""

    block_m: int
    block_n: int
    block_k: int
    thread_m: int
    thread_n: int

    @property
    def threads_x(self) -> int:
        return self.block_n // self.thread_n

    @property
    def threads_y(self) -> int:
        return self.block_m // self.thread_m

    @property
    def is_scalar(self) -> bool:
        """Whether the thread tile is one element."""
        return self.thread_m == self.thread_n == 1


def schedule_refusals(contraction: Contraction, config: TileConfig) -> list[Refusal]:
    """Why the schedule's tile sizes can't be honoured."""
    schedule = contraction.request.schedule
    allowed = {contraction.m.name, contraction.n.name}
    reasons = []
    for key, sizes in (("block", schedule.block), ("thread", schedule.thread)):
        for name, size in sizes:
            if name not in allowed and size != 1:
                reason = f"{key} sizes are for {contraction.m.name} and {contraction.n.name}, not for {name}"
                reasons.append(Refusal(reason, f"schedule.{key}.{name}"))
    for name, _ in schedule.step:
        if name != contraction.k.name:
            reasons.append(Refusal(f"steps along {contraction.k.name}, not along {name}", f"schedule.step.{name}"))
    if not reasons:
        for name, block, thread in (
            (contraction.m.name, config.block_m, config.thread_m),
            (contraction.n.name, config.block_n, config.thread_n),
        ):
            if block % thread:
                reason = f"the thread tile's {thread} must divide the block tile's {block} along {name}"
                reasons.append(Refusal(reason, f"schedule.thread.{name}"))
    return reasons


def placement_refusals(contraction: Contraction, config: TileConfig) -> list[Refusal]:
    """Why the spec's placements of arrays can't be honoured."""
    reasons = []
    operands = {operand.read.array for operand in contraction.operands}
    for array in contraction.request.touched():
        key, memory = f"arrays.{array.name}.memory", array.memory
        if array.name in operands and memory.space == "shared":
            if memory.stages > 1:
                reasons.append(Refusal(f"has a single stage; {array.name} asks for {memory.stages}", key))
        elif memory.space == "shared" or (memory.space == "register" and array.role != "temporary"):
            reasons.append(Refusal(f"stages its operands only; {array.name} is not one of them", key))
    if not staged_operands(contraction):
        reasons.append(Refusal("stages at least one operand; the spec keeps both out of shared memory", "arrays"))
    for operand in staged_operands(contraction):
        swizzle = contraction.request.context.spec.array(operand.read.array).memory.swizzle
        width = tile_extent(operand, config, operand.fast, contraction)
        if swizzle and width & (width - 1):
            reason = f"the XOR swizzle needs tile rows of a power of two, not of {width}"
            reasons.append(Refusal(reason, f"arrays.{operand.read.array}.memory"))
    return reasons


def staged_operands(contraction: Contraction) -> list[Operand]:
    """The operands staged in shared memory: those that the spec places there, and those that it doesn't place."""
    spec = contraction.request.context.spec
    return [o for o in contraction.operands if spec.array(o.read.array).memory.space in (None, "shared", "scratch")]


def choose_config(contraction: Contraction) -> TileConfig:
    """The schedule's sizes, completed: 64 x 64 with 4 x 4 per thread for large M and N, else 16 x 16 with 1 x 1."""
    request, schedule = contraction.request, contraction.request.schedule
    m, n, k = contraction.m, contraction.n, contraction.k
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    extents = [bounds(_extent(request, index.extent), dict(request.context.ranges))[1] for index in (m, n)]
    is_large = min(extents) >= _MIN_EXTENT_FOR_REGISTER_TILES and len(contraction.sums) <= _MAX_REGISTER_TILED_SUMS
    block_size, thread_size = (64, 4) if is_large and not block and not thread else (16, 1)
    return TileConfig(
        block_m=block.get(m.name, block_size * thread.get(m.name, 1)),
        block_n=block.get(n.name, block_size * thread.get(n.name, 1)),
        block_k=step.get(k.name, 16),
        thread_m=thread.get(m.name, thread_size),
        thread_n=thread.get(n.name, thread_size),
    )


def tile_extent(operand: Operand, config: TileConfig, name: str, contraction: Contraction) -> int:
    """The extent of the operand's tile along an index."""
    if name == contraction.k.name:
        return config.block_k
    return config.block_m if name == contraction.m.name else config.block_n


def _extent(request: Request, extent: Expr) -> Integer:
    return to_integer(extent, request.context.symbols)
