"""Outputs per thread and slices of a walk, by the instructions that the busiest multiprocessor issues."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cugen.families.staged.operands import Operand, register_operands
from cugen.families.staged.walk import UNROLL, Walk, walks
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.occupancy import occupancy
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.blocks import power_of_two
from cugen.pieces.grid import AXES
from cugen.plan.lowering.instructions import has_branch, issue_slots, operation_instructions
from cugen.plan.request import Request
from cugen.spec import expressions as spec
from cugen.spec.expressions import Const, Op, Read, Reduce, Select, children, free_indices
from cugen.spec.types import FLOAT32, DType

OUTPUTS = (1, 2, 4, 8)  # per thread
MAX_SLICES = 32
MIN_LANES = 8  # of a warp along the contiguous index, unasked: fewer store less than a sector (heuristic)
OPERAND_WORDS = 80  # operands and accumulators of a thread, in registers: a quarter of them remain (heuristic)
OTHER_REGISTERS = 24  # of a thread: addresses, counters and the values of unrolled steps (from machine code)
MAX_SHARED_BYTES = 24 << 10  # of 256 threads, unasked: eight times as many fit a multiprocessor (heuristic)
CHAINS_TO_HIDE_LATENCY = 64  # of dependent instructions: outputs of a multiprocessor's warps (heuristic)
MAX_CHAINS = 4  # of a warp that the compiler interleaves (heuristic)
EXPOSED = 0.25  # of the latency that missing chains would hide: unrolled steps are independent (heuristic)
CHAINS_TO_FILL_SLOTS = 128  # of a multiprocessor's warps, up to which further ones still find idle slots
IDLE_SLOTS = 0.05  # of the time, for each doubling that is missing (n-body of 17,805 and 51,702, on an H100)
COMBINED = 4  # instructions per partial result of a slice: store, load, address, combine (heuristic)
FUNCTION = 4  # instructions of a function, such as a square root (heuristic)
POSITION = 4  # instructions by which an argmin or argmax takes a term: two comparisons, two selections
STEP = 1  # instructions of a loop's step, unrolled: counter, comparison and branch (heuristic)
LOAD = 0.25  # instructions per element from shared memory: vectors of unrolled steps and structures (heuristic)
COPY = 4  # instructions per element of a tile that a thread copies, some of them in vectors (heuristic)
BLOCK_CYCLES = 2500  # first loads, first tile and last stores of a block, which others resident hide (heuristic)
TILE_CYCLES = 1000  # loads of a tile and its barriers, which others resident hide (heuristic)
TILE_TERMS = 1024  # of a walk (heuristic)
SCHEDULERS = 4  # of a multiprocessor
GEMM_EFFICIENCY = 0.7  # of the issue slots, with few terms (measured on H200)
MAX_BLOCKS_PER_SM = 64  # for which blocks are made as wide as divides the outputs evenly (heuristic)


@dataclass(frozen=True, slots=True, order=True)
class ThreadTile:
    """Outputs of a thread and threads along the contiguous index, in each of the slices."""

    outputs: int
    slices: int
    threads: int

    @property
    def block(self) -> int:
        """All threads of the block."""
        return self.threads * self.slices


def thread_tiles(request: Request, order: tuple[spec.Index, ...], threads: int) -> tuple[ThreadTile, ...]:
    """The tiles of blocks of about so many threads, the fastest first."""
    if not (walked := next(walks(request), None)):
        return (ThreadTile(1, 1, threads),)
    costs = _costs(request, order, threads, Walk(walked[0], 1, walked[1]))
    # Costs that differ by less than the model knows are equal: then whole warps of one slice, larger blocks, and fewer
    # outputs per thread.
    return tuple(
        sorted(costs, key=lambda tile: (float(f"{costs[tile]:.2e}"), tile.threads % WARP_SIZE > 0, -tile.threads, tile))
    )


def is_nested_faster(request: Request, order: tuple[spec.Index, ...], threads: int) -> bool:
    """Whether a walk computes nested reductions in less time than a GEMM, whose results memory holds for another
    launch: registers have their operands, and their terms are in use for every output."""
    if not (walked := next(walks(request), None)):
        return False
    walk = Walk(walked[0], 1, walked[1])
    operands = register_operands(request, walk, (order[0].name,))
    words = _register_words(walk, operands)
    outputs = request.group.statements[0].indices
    nested = [n for r in walk.reductions for n in spec.walk(r.body) if isinstance(n, Reduce)]
    if words > OPERAND_WORDS or not _in_registers(walk, order[0].name, operands) or not nested:
        return False
    if any({index.name for index in outputs} - free_indices(node) or _is_tensor_sum(node) for node in nested):
        return False
    device, body = PLANNING_DEVICE, _Body(request, walk, operands)
    lanes = device.sms * SCHEDULERS * WARP_SIZE
    pairs = math.prod(map(request.context.planned_extent, (*outputs, *walk.reductions[0].indices)))
    clock = device.peak("float32") / (2 * lanes)
    moved = 2 * sum(node.dtype.bytes for node in dict.fromkeys(nested))
    hoisted = pairs * (body.operations / (lanes * GEMM_EFFICIENCY) + moved * clock / device.bandwidth)
    return min(_costs(request, order, threads, walk).values(), default=math.inf) < hoisted


def _is_tensor_sum(node: Reduce) -> bool:
    """Whether the reduction is one that tensor cores compute."""
    is_product = node.kind == "sum" and isinstance(node.body, Op) and node.body.name == "mul"
    return is_product and any(n.dtype != FLOAT32 for n in spec.walk(node.body) if isinstance(n, Read))


def _register_words(walk: Walk, operands: tuple[Operand, ...]) -> int:
    """The registers of one output: its operands, and two of each accumulator."""
    words = sum(_words(operand.read.dtype) * operand.elements for operand in operands)
    return words + sum(2 * _words(reduction.dtype) for reduction in walk.reductions)


def _costs(request: Request, order: tuple[spec.Index, ...], threads: int, walk: Walk) -> dict[ThreadTile, float]:
    """The tiles of blocks of about so many threads that fit, with their cost."""
    operands = register_operands(request, walk, (order[0].name,))
    words = _register_words(walk, operands)
    largest = max(OPERAND_WORDS // max(words, 1), 1) if _in_registers(walk, order[0].name, operands) else 1
    is_sliced = len(order) < len(AXES) and not any(reduction.is_position for reduction in walk.reductions)
    max_slices = min(MAX_SLICES, request.context.planned_extent(walk.index) // UNROLL) if is_sliced else 1
    body = _Body(request, walk, operands)
    choices = dict.fromkeys(
        ThreadTile(n, max(min(size // width, max_slices), 1), width)
        for size in (threads, threads // 2, threads * 2)
        for n in OUTPUTS
        if n <= largest
        for width in _widths(request, order, n, size)
        if is_sliced or width * MIN_LANES >= size
    )
    return {tile: cost for tile in choices if (cost := body.cost(order, tile)) is not None}


def _widths(request: Request, order: tuple[spec.Index, ...], outputs: int, size: int) -> Iterator[int]:
    """Threads along the contiguous index in blocks of up to `size`: powers of two, and what gives each multiprocessor
    the same number of blocks."""
    extent, *others = map(request.context.planned_extent, order)
    width = size
    while width >= MIN_LANES:
        yield width
        width //= 2
    for count in range(1, MAX_BLOCKS_PER_SM + 1):
        blocks = PLANNING_DEVICE.sms * count // math.prod(others)
        if blocks and (width := -(-extent // (outputs * blocks))) >= MIN_LANES:
            yield from (n for n in (-(-width // WARP_SIZE) * WARP_SIZE, width) if n <= size)


def _words(dtype: DType) -> int:
    return max(dtype.bytes // 4, 1)


def _in_registers(walk: Walk, index: str, operands: tuple[Operand, ...]) -> bool:
    """Whether registers hold all operands of an output, so that several outputs load nothing but common ones."""
    reads = {operand.read for operand in operands}
    nodes = (node for reduction in walk.reductions for node in spec.walk(reduction.body))
    return all(node in reads for node in nodes if isinstance(node, Read) and index in free_indices(node))


def _instructions(node: Op | Select, request: Request) -> float:
    """The instructions of an operation, by those on float32 but for functions with branches."""
    match node:
        case Op(dtype=dtype) if has_branch(node):
            return operation_instructions(node, request.target) * issue_slots(dtype, PLANNING_DEVICE)
        case Op(name="pow", args=(_, Const(value=int(power)))) if 1 < power <= 4:
            return power - 1
        case Op(name="neg" | "abs"):
            return 0  # of an operand
        case Op(args=(_,)):
            return FUNCTION
    return 1


def _of_sum(node: Reduce) -> int:
    """The instructions that accumulate a term: none of their own where a multiply-add does both."""
    is_fused = node.kind == "sum" and isinstance(node.body, Op) and node.body.name in ("mul", "pow")
    return 0 if is_fused else 1


def _with_idle_schedulers(warps: int) -> int:
    """The warps of a block, with those that schedulers with fewer lack: other blocks fill up those of large ones
    (measured on H100: three warps take as long as four)."""
    return power_of_two(warps) if warps < SCHEDULERS else warps


def operations_of(request: Request, reductions: tuple[Reduce, ...]) -> float:
    """The instructions that accumulate a term of each of the reductions, without loads."""
    return _Body(request, Walk(reductions[0].indices[0], 1, reductions), ()).operations


class _Body:
    """The instructions of one term."""

    def __init__(self, request: Request, walk: Walk, operands: tuple[Operand, ...]) -> None:
        self.request, self.walk, self.words = request, walk, _register_words(walk, operands)
        self._operands = {operand.read for operand in operands}
        self.operations: float = 0
        self.loads, self.has_branches = 0, False
        self._outputs = {index.name for index in request.group.statements[0].indices}
        seen: set[spec.Expr] = set()
        for reduction in walk.reductions:
            self.operations += POSITION if reduction.is_position else _of_sum(reduction)
            self._count(reduction.body, 1, seen)

    def _count(self, expr: spec.Expr, trips: int, seen: set[spec.Expr]) -> None:
        if expr in seen:
            return
        seen.add(expr)
        if isinstance(expr, Read):
            self.loads += trips if free_indices(expr) - self._outputs and expr not in self._operands else 0
            return
        if isinstance(expr, Reduce):
            trips *= math.prod(map(self.request.context.planned_extent, expr.indices))
            self.operations += trips * _of_sum(expr)
        if isinstance(expr, Op | Select):
            self.operations += trips * _instructions(expr, self.request)
            self.has_branches |= isinstance(expr, Op) and has_branch(expr)
        for child in children(expr):
            self._count(child, trips, seen)

    def cost(self, order: tuple[spec.Index, ...], tile: ThreadTile) -> float | None:
        """The cycles in which the busiest multiprocessor issues its instructions, as many times as too few independent
        ones leave it idle; None if no block fits."""
        extent, target, device = self.request.context.planned_extent, self.request.target, PLANNING_DEVICE
        terms = math.prod(map(extent, self.walk.reductions[0].indices))
        partials = len(self.walk.reductions) if tile.slices > 1 else 0
        registers = min(OTHER_REGISTERS + self.words * tile.outputs, target.registers_per_thread)
        partial_bytes = sum(_words(r.dtype) * 4 for r in self.walk.reductions) * tile.block * tile.outputs
        shared = MAX_SHARED_BYTES * tile.block // 512 + (partial_bytes if partials else 0)
        resident = occupancy(target, tile.block, registers, min(shared, target.shared_per_block)).blocks_per_sm
        if not resident:
            return None
        blocks = -(-extent(order[0]) // (tile.threads * tile.outputs)) * math.prod(map(extent, order[1:]))
        waves, last = divmod(blocks, device.sms * resident)
        busiest: float = -(-last // device.sms)
        if waves and last:  # those of a last wave go where others end first, not where the fewest are
            busiest = (busiest + min(resident, last)) / 2
        concurrent = min(resident, -(-blocks // device.sms))
        per_term = self.operations + (LOAD * self.loads + STEP) / tile.outputs
        per_thread = tile.outputs * terms * per_term / tile.slices + COPY * terms * self.loads / tile.block
        per_thread += COMBINED * partials * tile.outputs * tile.slices
        warps = -(-tile.block // WARP_SIZE)
        chains = concurrent * warps * (1 if self.has_branches else min(tile.outputs, MAX_CHAINS))
        idle = max(1.0, 1 + (CHAINS_TO_HIDE_LATENCY / chains - 1) * EXPOSED)
        idle += IDLE_SLOTS * max(0.0, math.log2(CHAINS_TO_FILL_SLOTS / chains))
        exposed = (BLOCK_CYCLES + TILE_CYCLES * terms / TILE_TERMS) / concurrent
        shared_loads = terms / tile.slices * LOAD * self.loads * warps
        issue = per_thread * _with_idle_schedulers(warps) / SCHEDULERS * idle
        cycles = max(issue, shared_loads) + EXPOSED * min(issue, shared_loads) + exposed
        return (waves * resident + busiest) * cycles
