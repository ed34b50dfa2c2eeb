"""Outputs per thread and slices of a walk, by the instructions that the busiest multiprocessor issues."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.families.staged.operands import Operand, register_operands
from cugen.families.staged.walk import Walk, walks
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.grid import AXES
from cugen.plan.request import Request
from cugen.spec import expressions as spec
from cugen.spec.expressions import Op, Read, Reduce, Select, children, free_indices
from cugen.spec.types import DType

OUTPUTS = (1, 2, 4, 8)  # per thread
SLICES = (1, 2, 4, 8)
OPERAND_WORDS = 80  # operands and accumulators of a thread, in registers: a quarter of them remain (heuristic)
WARPS_TO_HIDE_LATENCY = 16  # of a multiprocessor (heuristic)
EXPOSED = 0.25  # of the latency that missing warps would hide: unrolled steps are independent (heuristic)
COMBINED = 4  # instructions per partial result of a slice: store, load, address, combine (heuristic)
STEP = 1  # instructions of a loop's step, unrolled: counter, comparison and branch (heuristic)


@dataclass(frozen=True, slots=True, order=True)
class ThreadTile:
    """Outputs of a thread and threads along the contiguous index, in each of the slices."""

    outputs: int
    slices: int
    threads: int


def thread_tiles(request: Request, order: tuple[spec.Index, ...], threads: int) -> tuple[ThreadTile, ...]:
    """The tiles of blocks of at most so many threads, the fastest first."""
    if not (walked := next(walks(request), None)):
        return (ThreadTile(1, 1, threads),)
    walk = Walk(walked[0], 1, walked[1])
    operands = register_operands(request, walk, (order[0].name,))
    words = sum(_words(operand.read.dtype) * operand.elements for operand in operands)
    words += sum(2 * _words(reduction.dtype) for reduction in walk.reductions)
    largest = max(OPERAND_WORDS // max(words, 1), 1) if _in_registers(walk, order[0].name, operands) else 1
    is_sliced = len(order) < len(AXES) and not any(reduction.is_position for reduction in walk.reductions)
    choices = [
        ThreadTile(n, s, size // s)
        for size in (threads, threads // 2)
        for n in OUTPUTS
        for s in SLICES
        if n <= largest and (s == 1 or is_sliced) and size // s >= WARP_SIZE
    ]
    body = _Body(request, walk)
    # Costs that differ by less than the model knows are equal: then larger blocks, and fewer outputs per thread.
    return tuple(sorted(choices, key=lambda tile: (float(f"{body.cost(order, tile):.2e}"), -tile.threads, tile)))


def _words(dtype: DType) -> int:
    return max(dtype.bytes // 4, 1)


def _in_registers(walk: Walk, index: str, operands: tuple[Operand, ...]) -> bool:
    """Whether registers hold all operands of an output, so that several outputs load nothing but common ones."""
    reads = {operand.read for operand in operands}
    nodes = (node for reduction in walk.reductions for node in spec.walk(reduction.body))
    return all(node in reads for node in nodes if isinstance(node, Read) and index in free_indices(node))


class _Body:
    """The instructions of one term."""

    def __init__(self, request: Request, walk: Walk) -> None:
        self.request, self.walk = request, walk
        self.operations, self.loads = 0, 0
        self._outputs = {index.name for index in request.group.statements[0].indices}
        seen: set[spec.Expr] = set()
        for reduction in walk.reductions:
            self.operations += 1
            self._count(reduction.body, 1, seen)

    def _count(self, expr: spec.Expr, trips: int, seen: set[spec.Expr]) -> None:
        if expr in seen:
            return
        seen.add(expr)
        if isinstance(expr, Read):
            self.loads += trips if free_indices(expr) - self._outputs else 0
            return
        if isinstance(expr, Reduce):
            trips *= math.prod(map(self.request.context.max_extent, expr.indices))
        if isinstance(expr, Op | Select | Reduce):
            self.operations += trips
        for child in children(expr):
            self._count(child, trips, seen)

    def cost(self, order: tuple[spec.Index, ...], tile: ThreadTile) -> float:
        """The instructions per lane of the busiest multiprocessor, as many times as too few warps leave it idle."""
        extent = self.request.context.max_extent
        blocks = -(-extent(order[0]) // (tile.threads * tile.outputs)) * math.prod(map(extent, order[1:]))
        blocks_per_multiprocessor = -(-blocks // PLANNING_DEVICE.sms)
        threads = blocks_per_multiprocessor * tile.threads * tile.slices
        terms = math.prod(map(extent, self.walk.reductions[0].indices))
        per_term = self.operations + (self.loads + STEP) / tile.outputs
        partials = len(self.walk.reductions) * tile.slices if tile.slices > 1 else 0
        per_output = terms * per_term / tile.slices + COMBINED * partials
        idle = max(1.0, 1 + (WARPS_TO_HIDE_LATENCY * WARP_SIZE / max(threads, 1) - 1) * EXPOSED)
        return threads * tile.outputs * per_output * idle
