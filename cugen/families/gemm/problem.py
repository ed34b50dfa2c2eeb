"""GEMM problem size and data types, and what a tile config needs of a block: tiles, shared memory, registers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import TileConfig
from cugen.families.gemm.tensor_cores import MMA_N
from cugen.families.gemm.term_cost import term_instructions, term_registers
from cugen.families.gemm.tile_layout import OperandTile
from cugen.machine import Device, Target
from cugen.machine.devices import modelled_device
from cugen.pieces.vectors import MAX_ACCESS_BYTES, is_contiguous, stored_width, widest
from cugen.plan.alignment import divisor
from cugen.plan.lowering.instructions import issue_slots
from cugen.spec.expressions import Index

# Registers of a thread besides accumulators and fragments, as ptxas allocates them for sm_90.
_ADDRESS_REGISTERS = 40
_ADDRESS_REGISTERS_TENSOR = 30
_REGISTERS_PER_ELEMENT_COPY = 2.5  # value, address and predicate: 1.5 to 3.5 as ptxas allocates them for sm_90
_WINDOW_REGISTERS = 16  # of indices that copies compute, without which ptxas spills for sm_90
_ASSUMED_EXTENT = 4096  # elements, of an index whose extent is unknown until the call
_MAX_PLANNED_EXTENT = 1 << 20  # elements; a larger upper bound is taken for no bound at all
_BROADCAST_BYTES = 4  # of the block id or the arrival number, in static shared memory


@dataclass(frozen=True, slots=True)
class Problem:
    """GEMM problem: C[m, n] += A[m, k] * B[k, n], `batch` times; several `sums` over one K have further operands.

    `operands` are those along M, then those along N; `output_bytes` are those of an element of C, which is stored in
    vectors of up to `store_width` along N if it is contiguous along it. Costs are in issue slots of one float32 FMA:
    `fma_cost` of a multiply-add, or of another term and its accumulation, which are `term_instructions`, `mma_cost` of
    a multiply-add on tensor cores, `conversion_cost` of each operand element that is converted. `term_registers` hold
    terms until they are accumulated."""

    m: int
    n: int
    k: int
    batch: int = 1
    operands: tuple[OperandTile, ...] = (
        OperandTile(is_along_m=True, is_k_major=True),
        OperandTile(is_along_m=False, is_k_major=False, copy_width=4),
    )
    output_bytes: int = 4
    accumulator_bytes: int = 4
    fma_cost: float = 1.0
    conversion_cost: float = 0.0
    mma_cost: float = 1.0
    sums: int = 1
    store_width: int = 4
    term_instructions: float = 1.0
    term_registers: int = 0


@lru_cache(maxsize=16)
def problem_of(contraction: Contraction) -> Problem:
    """The problem at the largest sizes that its params allow; at assumed sizes where these are unbounded."""
    m, n, k = (_planned_extent(contraction, index) for index in (contraction.m, contraction.n, contraction.k))
    operands = tuple(
        OperandTile(
            operand.is_along_m,
            operand.is_k_major,
            operand.array.dtype.bytes,
            copy_width(contraction, operand, contraction.k if operand.is_k_major else operand.mn),
            pad=operand.memory.pad if operand.memory.space == "shared" else None,
            is_swizzled=operand.memory.swizzle,
            window_indices=0 if operand.window is None else operand.window.indices,
            elements=_planned_elements(contraction, operand),
            has_async_copies=has_async_copies(contraction, operand),
        )
        for operand in contraction.operands
    )
    dtype, target = contraction.reductions[0].dtype, contraction.request.target
    output = contraction.request.group.statements[-1].target
    instructions = term_instructions(contraction.reductions, target)
    return Problem(
        m=m,
        n=n,
        k=k,
        batch=math.prod(_planned_extent(contraction, index) for index in contraction.batch),
        operands=operands,
        output_bytes=contraction.context.arrays[output].dtype.bytes,
        accumulator_bytes=max(reduction.dtype.bytes for reduction in contraction.reductions),
        fma_cost=issue_slots(dtype, device_of(target)) * instructions,
        conversion_cost=1.0 if any(operand.element_bytes < dtype.bytes for operand in operands) else 0.0,
        mma_cost=tensor_cores.mma_cost(device_of(target), tensor_cores.instruction_of(contraction)),
        sums=len(contraction.reductions),
        store_width=_store_width(contraction),
        term_instructions=instructions,
        term_registers=term_registers(contraction.reductions, target),
    )


def has_async_copies(contraction: Contraction, operand: Operand) -> bool:
    """Whether copies to shared memory may be asynchronous: they read by address in global memory, past the read-only
    cache. A texture has no addresses, and constant memory others."""
    array = operand.array
    has_address = array.space not in ("texture", "constant") and not array.loads_readonly
    return has_address and "async_copy" in contraction.request.target.shared_kinds


def _planned_elements(contraction: Contraction, operand: Operand) -> int:
    return math.prod(map(contraction.context.planned, operand.array.shape))


def read_elements(problem: Problem, operand: OperandTile) -> int:
    """Elements of an operand that are read from device memory, of the whole batch and once each."""
    elements = problem.batch * operand.of(problem.m, problem.n) * problem.k
    return min(elements, operand.elements or elements)


def _planned_extent(contraction: Contraction, index: Index) -> int:
    """The extent if it is fixed, else a typical one, or the largest one that the params allow, or an assumed one."""
    fixed = contraction.context.static_extent(index)
    if fixed is not None:
        return fixed
    largest, typical = contraction.context.max_extent(index), contraction.context.typical_extent(index)
    if typical is not None:
        return max(typical, 1)
    return largest if largest < _MAX_PLANNED_EXTENT else _ASSUMED_EXTENT


def _store_width(contraction: Contraction) -> int:
    request, n = contraction.request, contraction.n
    stores = [(request.context.arrays[s.target], s.subscripts) for s in request.stored_statements()]
    widest_store = MAX_ACCESS_BYTES // min(array.dtype.bytes for array, _ in stores)
    is_along_n = all(is_contiguous(array, subscripts, n.name) for array, subscripts in stores)
    return stored_width(request, n, widest_store) if is_along_n else widest_store


@cache
def device_of(target: Target) -> Device:
    """The device meant where a spec names a target."""
    return modelled_device(target.name)


def requested_stages(contraction: Contraction) -> int:
    """The stages that the spec's placement of operands requests: one with tile sizes of the schedule, unless it says
    more; 0 if it places none in shared memory, or leaves the stages to the generator."""
    memories = [operand.memory for operand in contraction.operands if operand.memory.space == "shared"]
    schedule = contraction.request.schedule
    has_sizes = bool(schedule.block or schedule.thread or schedule.step)
    stages = max((memory.stages for memory in memories), default=0)
    return 0 if stages == 1 and not has_sizes and not any(memory.is_single_stage for memory in memories) else stages


def fragment_width(element_bytes: int, per_thread: int, pads: Iterable[int] = ()) -> int:
    """Vector width of a thread's shared-memory loads: elements of its `per_thread` that one access can move, aligned in
    each row of tiles with these `pads`."""
    return math.gcd(per_thread, MAX_ACCESS_BYTES // element_bytes, *pads)


def fragment_widths(contraction: Contraction, config: TileConfig) -> tuple[int, int]:
    """Consecutive elements of a thread along M and along N."""
    if config.is_strided:
        return 1, 1
    if config.uses_tensor_cores:
        return tensor_cores.FRAGMENT_WIDTHS
    bytes_m = max(operand.array.dtype.bytes for operand in contraction.a_operands)
    bytes_n = max(operand.array.dtype.bytes for operand in contraction.b_operands)
    operands = problem_of(contraction).operands
    pads_m, pads_n = ([o.pad_for(config) for o in operands if o.is_along_m == side] for side in (True, False))
    return fragment_width(bytes_m, config.thread_m, pads_m), fragment_width(bytes_n, config.thread_n, pads_n)


def copy_width(contraction: Contraction, operand: Operand, along: Index) -> int:
    """Vector width of an operand's copies along an index; 1 if it isn't contiguous along it."""
    context = contraction.context
    if operand.window is not None:
        return operand.window.copy_width(operand.array, along.name, context)
    width = widest(operand.array, operand.read.subscripts, along.name, context).count
    return math.gcd(width, divisor(context.extent(along), context))


def pipeline_bytes(problem: Problem, config: TileConfig) -> int:
    """Bytes of all stages of all operands' tiles."""
    return sum(operand.bytes_for(config) for operand in problem.operands)


def partials_pad(problem: Problem, config: TileConfig) -> int:
    """Padding of the partial sums' rows in shared memory, in elements, so that the rows that a quarter-warp stores to
    are in different banks. Rows of 8-byte elements get a larger one where it needs no more memory than the pipeline."""
    default = MAX_ACCESS_BYTES // problem.accumulator_bytes
    if config.uses_tensor_cores and problem.accumulator_bytes < 8:
        return MMA_N  # a half-warp stores pairs: 4 rows of 8 accumulators
    if any(operand.element_bytes != 8 for operand in problem.operands):
        return default
    # A request of 8 lanes stores 16 bytes each: that many lanes to a row, then to a row that many rows further.
    lanes_per_row = 2 if config.lanes_m > config.lanes_n and not config.uses_tensor_cores else 4
    row_distance = 1 if config.uses_tensor_cores else 2
    pad = (2 * lanes_per_row // row_distance - config.block_n) % (16 // row_distance)
    return pad if _partials_bytes(problem, config, pad) <= pipeline_bytes(problem, config) else default


def _partials_bytes(problem: Problem, config: TileConfig, pad: int) -> int:
    return config.sliced_k * config.block_m * (config.block_n + pad) * problem.accumulator_bytes


def shared_bytes(problem: Problem, config: TileConfig) -> int:
    """Shared memory of a block: the pipeline's, or that of the partial sums which reuse it, whichever is larger; and
    the broadcast of split-K and stream-K through the workspace."""
    broadcast = _BROADCAST_BYTES if config.splits_tiles and not config.uses_cluster else 0
    pipeline = pipeline_bytes(problem, config)
    if not config.exchanges_in_shared:
        return pipeline + broadcast
    return max(pipeline, _partials_bytes(problem, config, partials_pad(problem, config))) + broadcast


def registers_per_thread(problem: Problem, config: TileConfig) -> int:
    """Estimated registers of a thread that it can't do without: accumulators, fragments and addresses."""
    size = max(problem.accumulator_bytes // 4, 1)
    thread_m, thread_n = config.thread_m, config.thread_n
    if config.uses_tensor_cores:
        return thread_m * thread_n * size + tensor_cores.fragment_registers(config) + _ADDRESS_REGISTERS_TENSOR
    fragments = sum(operand.of(thread_m, thread_n) for operand in problem.operands)
    return (problem.sums * thread_m * thread_n + fragments) * size + _ADDRESS_REGISTERS


def registers_with_copies(problem: Problem, config: TileConfig) -> int:
    """Estimated registers of a thread with those of its copies, without which it spills."""
    has_window = any(operand.window_indices for operand in problem.operands)
    registers = registers_per_thread(problem, config)
    if has_window and not config.uses_tensor_cores:
        registers += _WINDOW_REGISTERS
    of_element = _REGISTERS_PER_ELEMENT_COPY * (2 if has_window else 1)  # also its indices
    copies = register_copies(problem, config)
    return registers + int(copies.elements * of_element + copies.words)


@dataclass(frozen=True, slots=True)
class RegisterCopyCounts:
    """What a thread copies of a k-tile through registers: single `elements`, and `vectors` of so many `words`."""

    elements: float
    vectors: float
    words: float


def register_copies(problem: Problem, config: TileConfig) -> RegisterCopyCounts:
    """The copies of operands that have no asynchronous ones."""
    elements = vectors = words = 0.0
    for operand in problem.operands if config.copies_through_registers else ():
        if operand.copies_asynchronously(config):
            continue
        width = operand.copy_width_for(config)
        copied = operand.of(config.block_m, config.block_n) * config.block_k / config.threads
        if width == 1:
            elements += copied
        else:
            vectors += copied / width
            words += copied * operand.element_bytes / 4
    return RegisterCopyCounts(elements, vectors, words)


def registers_with_prologue(problem: Problem, config: TileConfig) -> int:
    """Estimated registers of a thread on tensor cores whose prologue copies elements of a window one by one: what each
    copy of a stage computes is the same in the next stage, and kept. A thread with more of them spills."""
    copies = sum(
        operand.window_indices * operand.of(config.block_m, config.block_n) * config.block_k // config.threads
        for operand in problem.operands
        if not operand.copies_asynchronously(config)
    )
    return registers_per_thread(problem, config) + copies


def why_invalid_variant(problem: Problem, config: TileConfig, target: Target) -> str:
    """Why a config is invalid that differs from a valid one in the stores or in how its tiles are split; empty if it is
    valid, too."""
    reason = "" if config.uses_tensor_cores else _why_no_exchange(problem, config)
    return reason or _why_not_in_shared(problem, config, target)


def _why_no_exchange(problem: Problem, config: TileConfig) -> str:
    if problem.sums > 1 and config.exchanges_in_shared:
        return "the epilogue through shared memory adds the partial sums of one accumulator, not of several"
    return ""


def _why_not_in_shared(problem: Problem, config: TileConfig, target: Target) -> str:
    taken = shared_bytes(problem, config)
    fits = taken <= target.shared_opt_in
    return "" if fits else f"the stages take {taken} shared bytes; {target.name} has {target.shared_opt_in}"


def why_invalid(contraction: Contraction, config: TileConfig) -> str:
    """Why a GEMM can't be computed with a config; empty if it can."""
    problem, target = problem_of(contraction), contraction.request.target
    if config.uses_tensor_cores:
        if reason := tensor_cores.why_unsupported(contraction) or tensor_cores.why_invalid_tile(config):
            return reason
    elif reason := _why_no_exchange(problem, config):
        return reason
    for operand, tile in zip(contraction.operands, problem.operands, strict=True):
        if not config.uses_tensor_cores and tile.of(config.thread_m, config.thread_n) % 2:
            return f"a thread tile needs 2 or more consecutive elements along {operand.mn.name}"
        is_k_major = tile.is_tile_k_major(config)
        if reason := tensor_cores.why_invalid_operand(
            config, tile.pad_for(config), is_along_m=tile.is_along_m, is_k_major=is_k_major
        ):
            return f"{reason} ({operand.read.array})"
        if reason := tile.why_not_swizzled(config):
            return reason
    if config.block_k % config.sliced_k:
        return f"a k-tile of {config.block_k} can't be divided into {config.sliced_k} slices"
    if config.is_multistage and config.warp_k % 2:
        return "the K of a slice must be even, as fragments are double-buffered"
    if config.threads > target.threads_per_block:
        return f"{config.threads} threads are more than the {target.threads_per_block} of a block"
    if registers_per_thread(problem, config) > target.registers_per_thread:
        return f"{config.thread_m} x {config.thread_n} accumulators exceed a thread's registers on {target.name}"
    if reason := _why_not_in_shared(problem, config, target):
        return reason
    if config.raster > 1:
        extent = contraction.context.static_extent(contraction.m)
        if extent is None or -(-extent // config.block_m) % config.raster:
            return f"a raster of {config.raster} must divide the number of block tiles along {contraction.m.name}"
    return ""
