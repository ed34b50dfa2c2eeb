"""Outputs per thread and slices of a walk, by the instructions that the busiest multiprocessor issues."""

from __future__ import annotations

import math

from cugen.families.staged.operands import held_operands
from cugen.families.staged.walk import Walk, walks
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.grid import AXES
from cugen.plan.request import Request
from cugen.spec import expressions as spec
from cugen.spec.expressions import Op, Read, Reduce, Select, children, free_indices

OUTPUTS = (1, 2, 4, 8)  # per thread
SLICES = (1, 2, 4, 8)
HELD_WORDS = 80  # operands and accumulators of a thread, in registers: a quarter of them remain (heuristic)
WARPS_TO_HIDE_LATENCY = 16  # of a multiprocessor (heuristic)
COMBINED = 4  # instructions per partial result of a slice: store, load, address, combine (heuristic)
STEP = 1  # instructions of a loop's step, unrolled: counter, comparison and branch (heuristic)


def thread_tiles(request: Request, order: tuple[spec.Index, ...], threads: int) -> tuple[tuple[int, int], ...]:
    """The outputs per thread along the contiguous index and the slices, the fastest first."""
    if not (walked := next(walks(request), None)):
        return ((1, 1),)
    walk = Walk(walked[0], 1, walked[1])
    operands = held_operands(request, walk, (order[0].name,))
    words = sum(max(operand.read.dtype.bytes // 4, 1) * operand.elements for operand in operands)
    words += sum(2 * max(reduction.dtype.bytes // 4, 1) for reduction in walk.reductions)
    is_sliced = len(order) < len(AXES) and not any(reduction.is_position for reduction in walk.reductions)
    outputs = [n for n in OUTPUTS if n == 1 or (n * words <= HELD_WORDS and _are_held(request, walk, order, operands))]
    slices = [n for n in SLICES if n == 1 or (is_sliced and threads // n >= WARP_SIZE)]
    body = _Body(request, walk)
    choices = [(n, s) for n in outputs for s in slices]
    return tuple(sorted(choices, key=lambda choice: (body.cost(order, threads, *choice), choice)))


def _are_held(request: Request, walk: Walk, order: tuple[spec.Index, ...], operands: tuple[object, ...]) -> bool:
    """Whether registers hold all operands of an output, so that several outputs load nothing but common ones."""
    reads = {read.read for read in operands}  # type: ignore[attr-defined]
    nodes = (node for reduction in walk.reductions for node in spec.walk(reduction.body))
    return all(read in reads for read in nodes if isinstance(read, Read) and order[0].name in free_indices(read))


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

    def cost(self, order: tuple[spec.Index, ...], threads: int, outputs: int, slices: int) -> float:
        """The instructions per lane of the busiest multiprocessor, as many times as too few warps leave it idle."""
        extent = self.request.context.max_extent
        along = threads // slices * outputs
        blocks = -(-extent(order[0]) // along) * math.prod(extent(index) for index in order[1:])
        blocks_per_multiprocessor = -(-blocks // PLANNING_DEVICE.sms)
        terms = math.prod(map(extent, self.walk.reductions[0].indices))
        per_term = self.operations + (self.loads + STEP) / outputs
        per_output = terms * per_term / slices + COMBINED * len(self.walk.reductions) * (slices if slices > 1 else 0)
        warps = blocks_per_multiprocessor * threads // WARP_SIZE
        idle = max(1.0, WARPS_TO_HIDE_LATENCY / warps)
        return blocks_per_multiprocessor * threads * outputs * per_output * idle
