"""Predicted time of a warp-specialised GEMM, for the choice of its config.

A multiprocessor has one block, whose k-tiles take the longest of their multiplication, of the reads and writes of
shared memory, and of the copies from L2. The output tiles of a block follow each other, with their epilogues between.
All multiprocessors share L2 and device memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.contraction.contraction import Contraction, Operand
from cugen.families.gemm.problem import device_of, problem_of, read_elements
from cugen.families.gemm.stream_k_schedule import StreamKSchedule
from cugen.families.gemm.wgmma.config import WgmmaConfig
from cugen.families.gemm.wgmma.epilogues.rows import row_buffer_shape, stores_rows
from cugen.families.gemm.wgmma.epilogues.tensor_store import stores_by_tma
from cugen.families.gemm.wgmma.operands.pixels import LastTile, k_tiles_of, padded_channels
from cugen.families.gemm.wgmma.operands.scales import groups_of, scale_wavefronts
from cugen.families.gemm.wgmma.operands.tiles import begins_within_a_line, tile_rows
from cugen.families.gemm.wgmma.split.work_units import stream_k_schedule_of
from cugen.families.gemm.wgmma.swapped_operands import as_computed
from cugen.machine.mma import WORD_BYTES
from cugen.machine.occupancy import clustered_multiprocessors
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.machine.wgmma import SWIZZLE_PERIOD_ROWS, SWIZZLED_ROW_BYTES, WGMMA_M, operand_wavefronts
from cugen.plan.alignment import divisor

_INSTRUCTIONS = 4  # of a k-tile, each of 32 bytes of k
_ENOUGH_STAGES = 4  # that hide the latency of copies


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, in microseconds and in cycles of a multiprocessor at `clock` MHz.

    `sector` and `narrow`: pitches that aren't multiples of 128 bytes, but of 32, or not even of these. `half_line`:
    rows that begin within a line."""

    clock: float = 1777
    # Of a launch, in microseconds.
    launch: float = 3.62
    consumer: float = 0.566  # for each warpgroup that multiplies
    latency: float = 0.36  # of the first k-tiles
    latency_k_tiles: int = 4  # so many of them at most
    exchange: float = 0.8  # of a cluster's partial sums
    exchange_of_element: float = 0.00017  # of a tile
    multicast: float = 1.39
    stream_k: float = 2.68  # of dynamic block ids and flags
    # Of operands of stream-K that exceed L2: what fraction of the copies that would miss, at random, is read again.
    distributed_reload: float = 0.029
    shifted_reload: float = 0.202  # of blocks that begin within a tile and end there, or have a tile between two others
    kept_in_l2: float = 0.181  # fraction of L2 whose lines all multiprocessors find there
    # Of a k-tile, in cycles.
    k_tile: float = 91.9  # beside its multiplication, or its copies from L2
    shared_k_tile: float = 21.9  # beside its accesses of shared memory
    promotion: float = 263  # where its sums are added in float32
    overlapped_promotion: float = 36  # by consumers that have registers for two sets of sums and multiply in turns
    third_consumer: float = 40.8  # where three warpgroups multiply
    second_matrix: float = 33  # where each multiplies two matrices
    few_stages: float = 115  # with three
    two_stages: float = 850  # in its place: the next k-tile is copied when this one has been multiplied
    multicast_k_tile: float = 11.7
    multicast_pixels: float = 100  # in its place for pixels, which the blocks of a cluster copy at different speeds
    # Of copies from L2, which all multiprocessors share.
    l2: float = 12000  # bytes per cycle, for pitches of 128 bytes
    sector_pitch_factor: float = 2.08  # times as long
    narrow_pitch_factor: float = 3.2
    half_line_factor: float = 3.06
    narrow_taps_factor: float = 9  # narrow pitches of filters whose taps are apart in their map
    half_line_read: float = 1.12  # times as many bytes are read from memory
    # Of copies to a multiprocessor, those of other blocks of its cluster included, in cycles.
    pixel: float = 3.5  # for each, whatever the channels
    row: float = 2.05  # for each of 128 bytes
    sector_row_factor: float = 1.01  # times as many
    narrow_row_factor: float = 1.55
    half_line_row_factor: float = 1.04
    row_k_tile: float = 24.2  # of a k-tile beside them
    # Of an epilogue, in cycles for each column of a warpgroup's matrix.
    epilogue: float = 13.8  # that threads store
    halves_epilogue: float = 69.9  # pairs of elements below a word
    row_epilogue: float = 19.8  # elements below a word that pass through shared memory (tests/data/wgmma_rows_h200.csv)
    row_segment: float = 624  # more, for each of the segments of a row, over its elements
    tensor_epilogue: float = 4.49  # that TMA stores
    chunk: float = 264  # cycles for each part that TMA stores
    partials: float = 16.7  # of partial sums that stream-K stores, or loads
    # Of memory.
    overlap: float = 4.19  # exponent of computation and memory, of which the longer one takes nearly all the time
    read: float = 0.851  # fraction of the bandwidth
    write: float = 0.743


# 828 configs of 94 shapes in bfloat16, cold, on an NVIDIA H100 (tests/data/wgmma_drawn_h100.csv). Of pixels and
# taps: 56 configs of 14 convolutions there (tests/data/wgmma_convolutions_h100.csv). Of stream-K: 66 configs of 18
# shapes there (tests/data/wgmma_stream_k_h100.csv).
HOPPER = Calibration()


def predict(contraction: Contraction, config: WgmmaConfig, fitted: Calibration = HOPPER) -> float:
    """Microseconds with cold caches."""
    contraction = as_computed(contraction, config)
    problem, device = problem_of(contraction), device_of(contraction.request.target)
    block_m, block_n = int(config.block_m), int(config.block_n)
    rows = -(-problem.m // (block_m * config.multicast))
    tiles = rows * -(-problem.n // (block_n * config.multicast_n)) * problem.batch
    resident = clustered_multiprocessors(device.sms, config.cluster) // config.cluster
    waves = -(-tiles // resident)
    schedule = stream_k_schedule_of(contraction, config) if config.stream_k else None
    active = schedule.blocks if schedule else min(tiles, resident) * config.cluster
    k_tiles = -(-k_tiles_of(contraction, problem.k, int(config.block_k)) // config.split_k)
    of_l2, of_multiprocessor = _rows(contraction, config, fitted)
    l2 = of_l2 * SWIZZLED_ROW_BYTES * active / fitted.l2
    l2 += fitted.pixel * sum(tile_rows(o, config) for o in contraction.operands if o.window is not None)
    instructions = _instructions(contraction, config)
    shared = block_m // WGMMA_M * instructions * operand_wavefronts(WGMMA_M + block_n)
    shared += sum(tile_rows(o, config) for o in contraction.operands)  # TMA writes a wavefront each, zeros too
    shared += scale_wavefronts(contraction, config)
    k_tile = max(max(instructions * block_m * block_n / 128, l2) + fitted.k_tile, shared + fitted.shared_k_tile)
    k_tile = max(k_tile, of_multiprocessor * fitted.row + fitted.row_k_tile)
    if config.promotes:
        promotion = fitted.overlapped_promotion if config.gives_registers else fitted.promotion
        k_tile += groups_of(contraction, int(config.block_k)) * promotion
    if config.sharing > 1:
        k_tile += fitted.multicast_pixels if any(o.window for o in contraction.operands) else fitted.multicast_k_tile
    k_tile += fitted.third_consumer if config.consumers > 2 else 0.0
    k_tile += fitted.second_matrix if config.matrices_m > 1 else 0.0
    if config.stages < min(_ENOUGH_STAGES, k_tiles):
        k_tile += fitted.few_stages if config.stages > 2 else fitted.two_stages
    epilogue = _epilogue(contraction, config, fitted)
    cycles = waves * (k_tiles * k_tile + epilogue)
    if schedule:
        cycles = (schedule.whole_tiles_per_block * k_tiles + schedule.k_tiles_per_block) * k_tile
        cycles += _unit_cycles(config, schedule, epilogue, fitted)
    computation = cycles / fitted.clock
    read = sum(
        read_elements(problem, tile)
        * tile.element_bytes
        * (fitted.half_line_read if begins_within_a_line(operand, config) else 1.0)
        for operand, tile in zip(contraction.operands, problem.operands, strict=True)
    )
    written = problem.batch * problem.m * problem.n * problem.output_bytes
    seconds = (read / fitted.read + written / fitted.write) / device.bandwidth
    overlapped: float = (computation**fitted.overlap + (1e6 * seconds) ** fitted.overlap) ** (1 / fitted.overlap)
    exchange = fitted.exchange + fitted.exchange_of_element * block_m * block_n if config.split_k > 1 else 0.0
    exchange += fitted.multicast if config.sharing > 1 else 0.0
    if schedule:
        reloaded = _reloaded_bytes(contraction, config, schedule, read, fitted)
        exchange += fitted.stream_k + 1e6 * reloaded / fitted.read / device.bandwidth
    latency = fitted.latency * min(k_tiles, fitted.latency_k_tiles) / fitted.latency_k_tiles
    if not config.has_producer:  # nobody copies the first k-tiles of the next output tile meanwhile
        latency *= waves
    return fitted.launch + fitted.consumer * config.consumers + latency + overlapped + exchange


def _instructions(contraction: Contraction, config: WgmmaConfig) -> float:
    """Instructions of a k-tile, on average."""
    last, row = LastTile.of(contraction, config.wgmma), int(config.block_k)
    return _INSTRUCTIONS if last is None else _INSTRUCTIONS - (row - last.terms) / config.wgmma.k * row / last.length


def _epilogue(contraction: Contraction, config: WgmmaConfig, fitted: Calibration) -> float:
    """Cycles of an output tile's epilogue."""
    columns = int(config.block_n) * config.matrices_m
    if config.split_k == 1 and stores_by_tma(contraction):
        return fitted.tensor_epilogue * columns + fitted.chunk * config.chunks
    if stores_rows(contraction, config):
        return (fitted.row_epilogue + fitted.row_segment / row_buffer_shape(config)[1]) * columns
    has_vectors = config.split_k > 1 or problem_of(contraction).output_bytes >= WORD_BYTES
    return (fitted.epilogue if has_vectors else fitted.halves_epilogue) * columns


def _unit_cycles(config: WgmmaConfig, schedule: StreamKSchedule, epilogue: float, fitted: Calibration) -> float:
    """Cycles of the epilogues of a block's work units, and of the partial sums of one tile, which a block stores and
    the one that finishes the tile loads."""
    partials = fitted.partials * int(config.block_n) * config.matrices_m
    peers = -(-schedule.k_tiles // schedule.k_tiles_per_block)
    finished = schedule.max_units_per_range - 1
    return (schedule.whole_tiles_per_block + finished) * epilogue + (1 + peers) * partials


def _reloaded_bytes(
    contraction: Contraction, config: WgmmaConfig, schedule: StreamKSchedule, read: float, fitted: Calibration
) -> float:
    """Bytes that are read from memory again, where operands of `read` bytes exceed L2: the blocks of a wave read the
    same rows and columns at the same k, and those of distributed tiles don't."""
    kept = fitted.kept_in_l2 * device_of(contraction.request.target).l2_bytes
    rows = sum(_copied_rows(contraction, operand, config) for operand in contraction.operands)
    copied = schedule.distributed_k_tiles * rows * SWIZZLED_ROW_BYTES
    per_block = schedule.k_tiles_per_block / schedule.k_tiles
    reload = fitted.distributed_reload + fitted.shifted_reload * min(abs(1 - per_block), 1.0)
    return reload * max(copied - read, 0.0) * max(1 - kept / read, 0.0)


def _copied_rows(contraction: Contraction, operand: Operand, config: WgmmaConfig) -> int:
    """Rows of 128 bytes of an operand's tile that are copied: of a K-major tile no more than the matrix has."""
    rows = tile_rows(operand, config)
    if not operand.is_k_major or operand.window is not None:
        return rows
    problem = problem_of(contraction)
    extent = problem.m if operand.is_along_m else problem.n
    return min(rows, -(-extent // SWIZZLE_PERIOD_ROWS) * SWIZZLE_PERIOD_ROWS)


def _rows(contraction: Contraction, config: WgmmaConfig, fitted: Calibration) -> tuple[float, float]:
    """Rows of 128 bytes of a k-tile's matrices that a block copies from L2, and those that its multiprocessor gets;
    those that aren't aligned to lines for as many as they take."""
    of_l2, of_multiprocessor = 0.0, 0.0
    has_taps = padded_channels(contraction, int(config.block_k)) is not None
    narrow_pitch_factor = fitted.narrow_taps_factor if has_taps else fitted.narrow_pitch_factor
    for operand in contraction.operands:
        if operand.window is not None:
            continue
        pitches = (stride for stride in operand.array.strides if stride != 1)
        pitch_bytes = min((divisor(s, contraction.context) * operand.array.dtype.bytes for s in pitches), default=0)
        l2_factor, row_factor = 1.0, 1.0
        if pitch_bytes % SWIZZLED_ROW_BYTES and pitch_bytes % SECTOR_BYTES:
            l2_factor, row_factor = narrow_pitch_factor, fitted.narrow_row_factor
        elif pitch_bytes % SWIZZLED_ROW_BYTES:
            l2_factor, row_factor = fitted.sector_pitch_factor, fitted.sector_row_factor
        if begins_within_a_line(operand, config):
            l2_factor = max(l2_factor, fitted.half_line_factor)
            row_factor = max(row_factor, fitted.half_line_row_factor)
        rows = _copied_rows(contraction, operand, config)
        shares = config.multicast_n if operand.is_along_m else config.multicast
        of_l2 += l2_factor * rows / shares
        # Rows that other blocks ask for arrive as they are in shared memory.
        of_multiprocessor += ((row_factor - 1) / shares + 1) * rows
    return of_l2, of_multiprocessor
