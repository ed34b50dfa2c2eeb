"""The tile config of `tiled`: a single stage, in the strided layout; and why one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import MIN_EXTENT_FOR_REGISTER_TILES, TILE, Order, TileConfig
from cugen.families.gemm.problem import problem_of
from cugen.pieces.blocks import power_of_two
from cugen.plan.request import Refusal
from cugen.spec.model import Schedule

_MIN_BLOCK = 8  # along M and N: 32 blocks of 8 x 8 threads fill a multiprocessor
# Heuristics, from the modelled times of `tiled` and `direct` for 40 drawn shapes, not measured: of a tile's
# multiply-adds, the least share of elements, not padding, that pays for the copies to shared memory; a K-major operand
# would be read from global memory at a stride.
_MIN_ELEMENTS_SHARE = Fraction(1, 2)
_MIN_ELEMENTS_SHARE_K_MAJOR = Fraction(1, 6)
# Heuristic: the accumulators of more sums, 4 x 4 each, would not fit a thread's registers.
_MAX_REGISTER_TILED_SUMS = 2


def refusals(contraction: Contraction, config: TileConfig) -> Iterator[Refusal]:
    """Why the spec's tile sizes and placements of operands can't be honoured."""
    m = contraction.m.name, config.block_m, config.thread_m
    n = contraction.n.name, config.block_n, config.thread_n
    for name, block, thread in (m, n):
        if block % thread:
            reason = f"the thread tile's {thread} must divide the block tile's {block} along {name}"
            yield Refusal(reason, f"schedule.thread.{name}")
    if not any(operand.is_staged for operand in contraction.operands):
        yield Refusal("stages at least one operand; the spec keeps both out of shared memory", "arrays")
    for operand, tile in zip(contraction.operands, problem_of(contraction).operands, strict=True):
        name, key = operand.read.array, f"arrays.{operand.read.array}.memory"
        if operand.memory.stages > 1:
            yield Refusal(f"has a single stage; {name} asks for {operand.memory.stages}", key)
        if operand.is_staged and (reason := tile.why_not_swizzled(config)):
            yield Refusal(reason, key)


def padding_refusals(contraction: Contraction, config: TileConfig) -> Iterator[Refusal]:
    """Outputs of few columns and sums of few terms, whose tiles are mostly padding, unless the spec requests tiles."""
    if contraction.request.schedule != Schedule() or any(o.memory.space == "shared" for o in contraction.operands):
        return
    if contraction.context.static_extent(contraction.k) == 1:
        yield Refusal("takes sums of several terms, and this one has a single term")
    if config.thread_m * config.thread_n > 1:  # register tiles read less from shared memory
        return
    share = Fraction(1)
    for index in (contraction.m, contraction.n, contraction.k):
        extent = max(contraction.context.max_extent(index), 1)
        share *= Fraction(extent, -(-extent // TILE) * TILE)
    is_strided = any(operand.is_k_major for operand in contraction.operands)
    if share < (_MIN_ELEMENTS_SHARE_K_MAJOR if is_strided else _MIN_ELEMENTS_SHARE):
        yield Refusal(f"would spend {float(1 - share):.0%} of the multiply-adds of {TILE} x {TILE} tiles on padding")


def choose_config(contraction: Contraction, *, may_be_large: bool = True) -> TileConfig:
    """The schedule's sizes, completed: 64 x 64 with 4 x 4 per thread for large M and N, else 16 x 16 with 1 x 1,
    less along extents that are shorter."""
    schedule = contraction.request.schedule
    m, n, k = contraction.m, contraction.n, contraction.k
    block, thread, step = dict(schedule.block), dict(schedule.thread), dict(schedule.step)
    min_extent = min(contraction.context.max_extent(index) for index in (m, n))
    may_be_large &= len(contraction.reductions) <= _MAX_REGISTER_TILED_SUMS
    is_large = may_be_large and min_extent >= MIN_EXTENT_FOR_REGISTER_TILES
    block_size, thread_size = (64, 4) if is_large and not block and not thread else (TILE, 1)
    sizes = {i: min(block_size, max(_MIN_BLOCK, power_of_two(contraction.context.max_extent(i)))) for i in (m, n)}
    block_m = block.get(m.name, sizes[m] * thread.get(m.name, 1))
    # Where loads move whole lines, a warp copies these: 32 threads along N, and k-tiles of 32.
    copies_lines = block_size > TILE and contraction.request.target.loads_lines
    thread_m = thread.get(m.name, 2 * thread_size if copies_lines else thread_size)
    return TileConfig(
        block_m=block_m,
        block_n=block.get(n.name, sizes[n] * thread.get(n.name, 1)),
        thread_m=thread_m,
        thread_n=thread.get(n.name, thread_size // 2 if copies_lines else thread_size),
        block_k=step.get(k.name, 32 if copies_lines else TILE),
        stages=1,
        lanes_m=block_m // thread_m,
        order=Order.ROWS,
        is_strided=True,
    )
