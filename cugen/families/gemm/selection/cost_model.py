"""Cost model of a GEMM: predicted time of a tile config on a device, with constants fitted to measured kernels.

A k-tile of a block takes issue slots (multiply-adds, fragment loads, copies, loop overhead) and shared-memory cycles,
whichever is more; resident blocks share a multiprocessor. L2 and device memory bound the time from below. Launch,
prologue of the first blocks and epilogue of the last ones are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.families.gemm import tensor_cores
from cugen.families.gemm.config import WARP, TileConfig
from cugen.families.gemm.problem import (
    Problem,
    device_of,
    fragment_width,
    read_elements,
    register_copies,
    registers_with_copies,
    shared_bytes,
)
from cugen.families.gemm.stream_k_schedule import StreamKSchedule, schedule_stream_k
from cugen.machine import Device, Target, device
from cugen.machine.latency import memory_latency
from cugen.machine.occupancy import clustered_multiprocessors, occupancy
from cugen.machine.requests.banks import WAVEFRONT_BYTES
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of the cost model, fitted to kernels that were measured on one `device`. `data` are the measured times;
    `pytest tests/families/gemm/test_cost_model.py` checks the fit."""

    device: str = "H200"
    data: str = "tests/data/gemm_h200.csv"
    fma_efficiency: float = 0.9582  # fraction of the published FMA rate
    k_tile_instructions: float = 22.47  # of a warp and k-tile: loop counters, addresses, barrier
    copy_instructions: float = 9.1  # of one copy: both addresses, guard, cp.async
    bounds_check_instructions: float = 12.8  # more, of a copy with a bounds check
    window_index_instructions: float = (
        3.0  # of a copy, for each index that it computes (tests/data/convolutions_h100.json)
    )
    epilogue_instructions: float = 94.22  # of a warp, besides stores
    store_instructions: float = 12.12  # of one store of four elements and the computation of their values
    element_instructions: float = 2.452  # of these, for each element
    copied_line_cycles: float = 0.6585  # of a warp's copy, for each line of 128 bytes that it reads a part of
    shared_load_cycles: int = 2  # of a warp's 16-byte load in which lane pairs broadcast
    slice_epilogue: float = 0.2368  # of the instructions of stores, more for each further slice
    slice_exchange: float = 0.7695  # of the cycles of the slices' partial sums, that nothing hides
    copy_latency_cycles: float = 215.4  # of a copy, that nothing else of the block hides
    memory_latency_seconds: float = 0.0  # from an asynchronous copy until it arrives, cold: a k-tile takes its part
    register_copy_seconds: float = 0.7e-6  # from loads of a k-tile to registers until they arrive, cold
    prologue_load_seconds: float = 0.0188e-6  # of one load to a register before the main loop
    barrier_cycles_per_warp: float = 0.2219  # per k-tile, for each further warp of a copy group
    store_bytes_per_cycle: float = 16.02  # of a multiprocessor that waits for its stores
    simultaneous_stores: float = 1.0  # of the stores of resident blocks, those at about the same time
    partial_sector_factor: float = 0.4873  # on the cycles of sectors that several stores write a part of
    unhidden_fraction: float = 0.1152  # of the shorter of two overlapping activities
    single_warp_factor: float = 1.168  # on a k-tile's cycles, with one warp per scheduler: it waits for shared memory
    small_block_factor: float = 1.092  # on a k-tile's cycles, with fewer warps in a block than schedulers
    loop_instructions: int = 1920  # of a k-tile's terms: these and others fit an instruction cache of 32 KB
    long_loop_factor: float = 1.1  # on a k-tile's cycles, with more (distances of 20 to 73 features, on an H100)
    stream_k_factor: float = 1.038  # on a k-tile's cycles, in stream-K with more than two stages: more live registers
    launch_seconds: float = 4.425e-6  # launch, first copies and last stores
    stream_k_seconds: float = 3.8e-6  # dynamic block ids and the fix-up
    stream_k_sliced_seconds: float = 1.8e-6  # the same with sliced-K
    split_k_seconds: float = 4e-6  # arrival counters and the reduction in the workspace
    split_k_sliced_seconds: float = 2.02e-6  # the same with sliced-K
    cluster_seconds: float = 1.3e-6  # cluster barriers
    cluster_request_cycles: float = 10.8  # of a warp's load of distributed shared memory
    cluster_element_cycles: float = 1.0  # more, for each element of a lane
    workspace_bytes_per_second: float = 103.3e9  # partial sums that the last block of a tile loads
    stream_k_loads: float = 0.6  # of its partial sums, which part takes as long: others are loaded at the same time
    l2_bytes_per_second: float = 3.79e12
    dram_efficiency: float = 0.9  # fraction of the published bandwidth


H200 = Calibration()
_FITTED_PEAK = device(H200.device).peak("float32")
# Of float64 on tensor cores: fitted to other measurements, without terms for lines of copies and simultaneous stores.
H200_DOUBLE = Calibration(
    k_tile_instructions=47.53,
    window_index_instructions=6.0,
    epilogue_instructions=226.5,
    store_instructions=11.82,
    copied_line_cycles=0.0,
    slice_epilogue=0.199,
    slice_exchange=0.689,
    copy_latency_cycles=369.5,
    barrier_cycles_per_warp=0.5,
    store_bytes_per_cycle=33.52,
    simultaneous_stores=0.0,
    partial_sector_factor=1.27,
    unhidden_fraction=0.09953,
    single_warp_factor=1.239,
    small_block_factor=1.082,
    long_loop_factor=1.0,
    launch_seconds=4.51e-6,
    l2_bytes_per_second=6.2e12,
)
# Of other types there. Latencies, launches and the instructions of copies and k-tiles, among them those in which a warp
# waits at barriers, are fitted to two thirds of drawn GEMMs.
H200_TENSOR = replace(
    H200_DOUBLE,
    data="tests/data/mma_h200.csv",
    k_tile_instructions=249.0,
    copy_instructions=16.69,
    copy_latency_cycles=442.6,
    memory_latency_seconds=0.916e-6,
    stream_k_seconds=3.785e-6,
    stream_k_loads=1.0,  # not fitted: an upper bound
    cluster_seconds=0.374e-6,
    cluster_element_cycles=4.987,
    l2_bytes_per_second=4.692e12,
)


def calibration(config: TileConfig) -> Calibration:
    """The constants for a config."""
    if config.mma is None:
        return H200
    return H200_TENSOR if config.mma.has_words else H200_DOUBLE


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted `seconds`, `waves` of blocks and blocks `resident` on a multiprocessor. `multiply_fraction` is that of
    the time or issue slots which `multiply_text` names; `limiter` names the resource that takes longest."""

    seconds: float
    multiply_fraction: float
    waves: float
    resident: int
    limiter: str
    multiply_text: str

    @property
    def text(self) -> str:
        count = f"{self.waves:.2f}".rstrip("0").rstrip(".")
        waves = f"{count} wave{'' if count == '1' else 's'} of blocks"
        duration = f"{self.seconds * 1e3:.3g} ms" if self.seconds >= 1e-3 else f"{self.seconds * 1e6:.3g} µs"
        return (
            f"predicted {duration}: {waves}, {self.resident} resident on a multiprocessor, "
            f"{self.multiply_fraction:.0%} of {self.multiply_text}; limited by {self.limiter}"
        )


@lru_cache(maxsize=4096)
def resident_blocks_per_sm(problem: Problem, config: TileConfig, target: Target) -> int:
    """Blocks that fit a multiprocessor at the same time, with the estimated registers; 0 if none fits."""
    registers = min(registers_with_copies(problem, config), target.registers_per_thread)
    return _blocks_per_sm(target, config.threads, registers, shared_bytes(problem, config))


@lru_cache(maxsize=4096)
def _blocks_per_sm(target: Target, threads: int, registers: int, shared: int) -> int:
    return occupancy(target, threads, registers, shared).blocks_per_sm


def _occupied_multiprocessors(config: TileConfig, target_device: Device) -> int:
    """The multiprocessors that blocks can run on: clusters are bound to one GPC and leave some idle."""
    return clustered_multiprocessors(target_device.sms, config.split_k if config.uses_cluster else 1)


def is_loop_cached(problem: Problem, config: TileConfig) -> bool:
    """Whether the instructions of a k-tile's terms, where each takes several, fit the instruction cache."""
    terms = problem.sums * config.thread_m * config.thread_n * config.warp_k
    return problem.term_instructions == 1 or terms * problem.term_instructions <= H200.loop_instructions


@dataclass(frozen=True, slots=True)
class _KTileWork:
    """Work of one warp for one k-tile."""

    multiply_slots: float  # issue slots of multiply-adds
    issue_slots: float  # all of them
    shared_loads: float  # fragment loads, in 16-byte vectors


def _k_tile_work(problem: Problem, config: TileConfig, issue_cycles: int, fitted: Calibration) -> _KTileWork:
    multiply_adds = problem.sums * config.thread_m * config.thread_n * config.warp_k
    sides = [(operand.of(config.thread_m, config.thread_n), operand.element_bytes) for operand in problem.operands]
    loads: float = sum(count // fragment_width(size, count) for count, size in sides) * config.warp_k
    shared_loads = sum(max(1.0, count * size / 16) for count, size in sides) * config.warp_k
    if config.uses_tensor_cores:
        loads = shared_loads = tensor_cores.matrix_loads(config)
        if problem.accumulator_bytes < 8:
            shared_loads *= 2  # ldmatrix of four matrices takes as many wavefronts as two such loads
    threads = config.threads
    requests = [
        operand.of(config.block_m, config.block_n) * config.block_k / operand.copy_width_for(config) / threads
        for operand in problem.operands
    ]
    copies = sum(requests)
    copied_lines = sum(
        count * operand.copied_lines(config) for count, operand in zip(requests, problem.operands, strict=True)
    )
    # Tiles of stream-K aren't shifted inward: each copy has a bounds check if the last tile is partial.
    has_bounds_check = config.stream_k > 0 and (problem.m % config.block_m or problem.n % config.block_n)
    copy_slots = fitted.copy_instructions + (fitted.bounds_check_instructions if has_bounds_check else 0)
    conversions = tensor_cores.conversions(config)
    if not config.uses_tensor_cores:
        conversions = problem.conversion_cost * sum(count for count, _ in sides) * config.warp_k
    located = sum(count * operand.window_indices for count, operand in zip(requests, problem.operands, strict=True))
    other_slots = loads + conversions + copies * copy_slots + fitted.k_tile_instructions
    other_slots += located * fitted.window_index_instructions
    if not config.uses_tensor_cores:
        multiply_slots = multiply_adds * problem.fma_cost * issue_cycles
        lines = copied_lines * fitted.copied_line_cycles / fitted.shared_load_cycles
        return _KTileWork(multiply_slots, multiply_slots + other_slots, shared_loads + lines)
    # Tensor cores multiply while the warp issues its other instructions.
    multiply_slots = multiply_adds * problem.mma_cost * issue_cycles
    slots = max(multiply_slots, other_slots) + fitted.unhidden_fraction * min(multiply_slots, other_slots)
    return _KTileWork(multiply_slots, slots, shared_loads)


def _store_vector(problem: Problem, config: TileConfig) -> tuple[int, int]:
    """Elements of one store, and those along N between it and the thread's next: more than a store's where others of
    the warp fill the gap later."""
    if config.exchanges_in_shared:
        width = math.gcd(problem.store_width, config.block_n, MAX_ACCESS_BYTES // problem.accumulator_bytes)
        return width, width
    if config.uses_tensor_cores:
        run = tensor_cores.FRAGMENT_WIDTHS[1]
    else:
        bytes_n = max(operand.element_bytes for operand in problem.operands if not operand.is_along_m)
        run = fragment_width(bytes_n, config.thread_n)
    return math.gcd(problem.store_width, run), run


def store_overhead(problem: Problem, config: TileConfig) -> float:
    """Bytes of the sectors that the stores of a block access, over those of its results."""
    width, run = _store_vector(problem, config)
    row = (config.block_n if config.exchanges_in_shared else config.lanes_n * run) * problem.output_bytes
    is_aligned = problem.store_width * problem.output_bytes % MAX_ACCESS_BYTES == 0 and row % SECTOR_BYTES == 0
    sectors = -(-row // SECTOR_BYTES) + (not is_aligned)
    return run / width * sectors * SECTOR_BYTES / row


def _epilogue_slots(problem: Problem, config: TileConfig, fitted: Calibration) -> float:
    """Issue slots of a warp after the main loop."""
    width, _ = _store_vector(problem, config)
    results = config.thread_m * config.thread_n
    stores = results / width * (fitted.store_instructions + (width - 4) * fitted.element_instructions)
    return stores * (1 + fitted.slice_epilogue * (config.sliced_k - 1)) + fitted.epilogue_instructions


def _slices_cycles(problem: Problem, config: TileConfig, fitted: Calibration) -> float:
    """Cycles of a multiprocessor in which the partial sums of a block's slices pass through shared memory and back."""
    partials = config.block_m * config.block_n * config.sliced_k * problem.accumulator_bytes
    return fitted.slice_exchange * 2 * partials / WAVEFRONT_BYTES


def _distributed_shared_cycles(problem: Problem, config: TileConfig, fitted: Calibration) -> float:
    """Cycles of a multiprocessor for a block's loads of the partial sums of its cluster."""
    width, _ = _store_vector(problem, config)
    requests = config.block_m * config.block_n / (WARP * width)
    return requests * (fitted.cluster_request_cycles + width * fitted.cluster_element_cycles)


@dataclass(frozen=True, slots=True)
class _CopyLatency:
    """Cycles of the latency of copies: `k_tile` from one k-tile until the next one has been copied, for the `fraction`
    of the k-tiles that aren't copied before the main loop; `prologue` of loads to registers before it, where copies
    aren't asynchronous."""

    k_tile: float
    fraction: float
    prologue: float


def _copy_latency(
    problem: Problem, config: TileConfig, k_tiles: int, clock: float, fitted: Calibration
) -> _CopyLatency:
    copies = register_copies(problem, config)
    loads = copies.elements + copies.vectors
    k_tile = fitted.memory_latency_seconds / max(config.stages - 1, 1)
    if loads:
        k_tile = max(k_tile, fitted.register_copy_seconds)
    return _CopyLatency(
        k_tile * clock,
        max(0, k_tiles - config.stages + 1) / k_tiles,
        min(k_tiles, config.stages - 1) * loads * fitted.prologue_load_seconds * clock,
    )


@dataclass(frozen=True, slots=True)
class _BlockCycles:
    """Cycles of a multiprocessor for a k-tile and an epilogue of all its resident blocks; whether issue slots limit the
    k-tile, or loads from shared memory."""

    k_tile: float
    epilogue: float
    is_issue_bound: bool


def _block_cycles(
    problem: Problem,
    config: TileConfig,
    work: _KTileWork,
    blocks: int,
    schedulers: int,
    copying: _CopyLatency,
    fitted: Calibration,
) -> _BlockCycles:
    """Those of so many resident blocks."""
    warps = config.threads // WARP
    warps_per_scheduler = -(-blocks * warps // schedulers)
    issue = work.issue_slots * warps_per_scheduler
    shared = blocks * warps * work.shared_loads * fitted.shared_load_cycles
    busy = max(issue, shared) + fitted.unhidden_fraction * min(issue, shared)
    if blocks * warps < 2 * schedulers:
        busy *= fitted.single_warp_factor
    elif warps < schedulers:
        busy *= fitted.small_block_factor
    busy *= 1 if is_loop_cached(problem, config) else fitted.long_loop_factor
    busy *= fitted.stream_k_factor if config.stream_k and config.stages > 2 else 1
    busy += fitted.barrier_cycles_per_warp * (config.copy_group_threads // WARP - 1)
    waiting = max(0.0, fitted.copy_latency_cycles - (config.stages - 1) * busy)
    k_tile = busy + max(waiting, copying.fraction * (copying.k_tile - busy))
    # A single block waits for its prologue; several hide it, but store at about the same time.
    store_cycles = config.block_m * config.block_n * problem.output_bytes / fitted.store_bytes_per_cycle
    storing = 1 + fitted.simultaneous_stores * (blocks - 1)
    unhidden = (fitted.copy_latency_cycles + copying.prologue + storing * store_cycles) / blocks
    exchange = blocks * _exchange_cycles(problem, config, store_cycles, fitted)
    epilogue = _epilogue_slots(problem, config, fitted) * warps_per_scheduler + unhidden + exchange
    return _BlockCycles(k_tile, epilogue, issue >= shared)


def _exchange_cycles(problem: Problem, config: TileConfig, store_cycles: float, fitted: Calibration) -> float:
    """Cycles of a multiprocessor in which a block's results pass through other memory, or take partial sectors."""
    cycles = (store_overhead(problem, config) - 1) * store_cycles * fitted.partial_sector_factor
    if config.sliced_k > 1:
        cycles += _slices_cycles(problem, config, fitted)
    if config.uses_cluster:
        cycles += _distributed_shared_cycles(problem, config, fitted)
    return cycles


def _stream_k_cycles(schedule: StreamKSchedule, k_tiles: int, block: _BlockCycles, fitted: Calibration) -> float:
    """Cycles of a block's work units. The fix-up loads the partial sums of each peer; each unit has an epilogue."""
    whole = schedule.whole_tiles_per_block
    peers = max(1.0, k_tiles / schedule.k_tiles_per_block)
    return (
        (whole * k_tiles + schedule.k_tiles_per_block) * block.k_tile
        + (whole + schedule.max_units_per_range) * block.epilogue
        + peers * fitted.copy_latency_cycles
    )


def _launch_seconds(
    problem: Problem, config: TileConfig, schedule: StreamKSchedule | None, fitted: Calibration
) -> float:
    """Seconds of a launch beside its work, and of what blocks exchange through memory."""
    seconds = fitted.launch_seconds
    partials = config.block_m * config.block_n * problem.accumulator_bytes / fitted.workspace_bytes_per_second
    if config.uses_cluster:
        seconds += fitted.cluster_seconds
    elif config.split_k > 1:
        seconds += fitted.split_k_sliced_seconds if config.sliced_k > 1 else fitted.split_k_seconds
        seconds += config.split_k * partials
    if schedule is not None:
        seconds += fitted.stream_k_sliced_seconds if config.sliced_k > 1 else fitted.stream_k_seconds
        seconds += fitted.stream_k_loads * partials * max(1.0, schedule.k_tiles / schedule.k_tiles_per_block)
    return seconds


@lru_cache(maxsize=4096)
def predict(
    problem: Problem,
    config: TileConfig,
    target: Target,
    fitted: Calibration | None = None,
    on: Device | None = None,
) -> Prediction | None:
    """The predicted time of a config, on the device meant by a target unless `on` another one; None if no block fits a
    multiprocessor."""
    fitted = fitted or calibration(config)
    resident = resident_blocks_per_sm(problem, config, target)
    if resident < 1:
        return None
    target_device = on or device_of(target)
    k_tiles = -(-problem.k // (config.block_k * config.split_k))
    sms = _occupied_multiprocessors(config, target_device)
    tiles = -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch * config.split_k
    schedule = None
    if config.stream_k:
        schedule = schedule_stream_k(tiles, k_tiles, target_device.sms * resident, config.stream_k, config.threads)
    blocks = schedule.blocks if schedule else tiles
    concurrent = min(resident, -(-blocks // sms))

    latency = memory_latency(target_device)
    issue_cycles, schedulers = latency.issue_cycles, latency.schedulers
    fma_lanes = WARP * schedulers / issue_cycles
    clock = fitted.fma_efficiency * target_device.peak("float32") / (2 * target_device.sms * fma_lanes)
    work = _k_tile_work(problem, config, issue_cycles, fitted)
    copying = _copy_latency(problem, config, k_tiles, clock, fitted)

    def cycles_with(resident_blocks: int) -> _BlockCycles:
        return _block_cycles(problem, config, work, resident_blocks, schedulers, copying, fitted)

    full_block = cycles_with(concurrent)
    if schedule is not None:
        cycles = _stream_k_cycles(schedule, k_tiles, full_block, fitted)
    else:
        waves, last_tiles = divmod(tiles, sms * concurrent)
        cycles = waves * (k_tiles * full_block.k_tile + full_block.epilogue)
        if last_tiles:
            in_last_wave = -(-last_tiles // sms)
            last_block = full_block if in_last_wave == concurrent else cycles_with(in_last_wave)
            cycles += k_tiles * last_block.k_tile + last_block.epilogue
    computing = cycles / clock
    loading, memory = _transfer_seconds(problem, config, target_device, tiles * k_tiles, fitted)
    multiplier = "tensor cores" if config.uses_tensor_cores else "multiply-adds"
    limits = {
        multiplier if full_block.is_issue_bound else "shared-memory loads": computing,
        "L2 bandwidth": loading if target_device.l2_bytes else 0.0,
        "memory bandwidth": memory,
    }
    seconds = max(limits.values()) + _launch_seconds(problem, config, schedule, fitted)
    if config.uses_tensor_cores:
        seconds += fitted.unhidden_fraction * min(computing, loading)
    is_of_time = config.uses_tensor_cores
    return Prediction(
        seconds,
        multiply_fraction=work.multiply_slots / work.issue_slots,
        waves=blocks / (sms * resident),
        resident=resident,
        limiter=max(limits, key=lambda name: limits[name]),
        multiply_text="the time tensor cores multiply" if is_of_time else "the issue slots are multiply-adds",
    )


def _transfer_seconds(
    problem: Problem, config: TileConfig, device: Device, k_tiles: int, fitted: Calibration
) -> tuple[float, float]:
    """Seconds that the copies of all k-tiles take from the L2, and that the arrays take from device memory: without an
    L2, each copy is from there."""
    tile_bytes = sum(operand.of(config.block_m, config.block_n) * operand.element_bytes for operand in problem.operands)
    copied = k_tiles * config.block_k * tile_bytes
    read = sum(read_elements(problem, operand) * operand.element_bytes for operand in problem.operands)
    moved = read if device.l2_bytes else copied
    moved += problem.batch * problem.m * problem.n * problem.output_bytes
    loading = copied / (fitted.l2_bytes_per_second * device.peak("float32") / _FITTED_PEAK)
    return loading, moved / (device.bandwidth * fitted.dram_efficiency)
