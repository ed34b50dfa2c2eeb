"""Launch configurations of scans: thread groups, vectors per thread, and tile lengths."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from cugen.families.scan.columns import ColumnConfig
from cugen.families.scan.decoupled_look_back import LookBackConfig
from cugen.families.scan.recognition import ScanProblem, Tiles
from cugen.families.scan.rows import RowConfig
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.features import SPIN_WAITS
from cugen.pieces.block_reduce import WARP
from cugen.pieces.blocks import block_of_short_rows, power_of_two
from cugen.pieces.grid import MAX_BLOCK_Z
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES, common_width, step_along
from cugen.plan.request import Refusal, Tunable

# Heuristics, unless measured.
MIN_LOOK_BACK_ELEMENTS = 1 << 22  # shorter scans are faster as two launches without flags (measured on H200)
BLOCK_THREADS = 256
MIN_RESIDENT_THREADS = 65_536  # with several vectors each, enough to saturate the memory bandwidth of a device
MAX_DEFAULT_THREADS_PER_COLUMN = 64
MAX_SHORT_ROW_VECTORS = 1024  # rows up to this length take few iterations of a small block
ELEMENTS_PER_COLUMN_THREAD = 64
MIN_ACCESS_BYTES = 8  # of the vectors of rows that aren't shifted to their alignment
MIN_SHIFTED_ROW_VECTORS = 16  # so that partial vectors at both ends cost little
MIN_BLOCKS_SEVERAL_WAVES = 1024  # fill a device several times
MIN_SINGLE_PASS_ROWS = 80  # one block per row keeps a device busier than three launches
MIN_SINGLE_PASS_NARROW_ROWS = 200  # the same for elements with more arithmetic per byte
MIN_MULTI_PASS_ROW_BYTES = 131_072  # for shorter rows another launch costs more than it gains
TARGET_TILES_PER_ROW = 256  # within the limits of the tile length
MIN_TILE_BYTES, DEFAULT_TILE_BYTES, MAX_TILE_BYTES = 8_192, 32_768, 65_536
MIN_COLUMN_TILE_ELEMENTS = 1024
SHIFTED_REGISTERS, REGISTERS_PER_SHIFTED_ELEMENT = 16, 2  # about those of compiled kernels (ptxas 13.0)
MAX_REGISTERS_OF_FULL_SM = 32  # of 2048 threads
MIN_WAVES_OF_SHIFTED_ROWS = 8  # so that the last one costs little
MIN_USED_SECTORS = 0.75  # of a row's sectors by the row; with less a warp accesses several rows at once
LINE_BYTES = 128  # a cache line (CUDA programming guide)
LOOK_BACK_BYTES_PER_THREAD = 128  # loads in flight
LOOK_BACK_THREADS_PER_SM = 1024  # that the register file has to hold

MULTI_PASS, LOOK_BACK = "multi_pass", "look_back"  # how few long rows are scanned


THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads per row, or threads per block along adjacent columns",
    reorders=True,
)
ROWS = Tunable("rows", (1, 2, 4, 8, 16, 32, 64), "as fit", "rows per block, for thread groups of at most a warp")
THREADS_PER_COLUMN = Tunable(
    "threads_per_column",
    (1, 2, 4, 8, 16, 32, 64, 128),
    "as needed",
    "threads that share a column, each with consecutive elements of it",
    reorders=True,
)
VECTORS = Tunable("vectors", (1, 2, 4, 8, 16), "by length", "vectors per thread and iteration", reorders=True)
ALGORITHM = Tunable(
    "algorithm",
    (MULTI_PASS, LOOK_BACK),
    "by length",
    "few long rows: several launches, or a single pass with decoupled look-back",
    reorders=True,
)
TUNABLES = (THREADS, ROWS, THREADS_PER_COLUMN, VECTORS, ALGORITHM)


def choose_config(problem: ScanProblem) -> RowConfig | LookBackConfig | ColumnConfig:
    """The schedule's sizes, or those of the heuristics."""
    if uses_look_back(problem):
        return look_back_config(problem)
    return row_config(problem) if problem.is_row else column_config(problem)


def size_refusals(problem: ScanProblem, config: RowConfig | LookBackConfig | ColumnConfig) -> Iterator[Refusal]:
    """Tunables that don't fit the scan."""
    request, tunables = problem.request, dict(problem.request.schedule.tunables)
    if problem.is_row and "threads_per_column" in tunables:
        yield Refusal(f"{problem.along.name} runs along rows, not columns", "schedule.threads_per_column")
    if not problem.is_row and "rows" in tunables:
        yield Refusal(f"{problem.along.name} runs along columns, not rows", "schedule.rows")
    if tunables.get("algorithm") == LOOK_BACK and (reason := _why_no_look_back(problem)):
        yield Refusal(reason, "schedule.algorithm")
    match config:
        case LookBackConfig():
            if config.threads <= WARP:
                yield Refusal("look-back takes blocks of several warps", "schedule.threads")
            if "rows" in tunables:
                yield Refusal("look-back takes one row per block", "schedule.rows")
        case RowConfig():
            if problem.tiles is not None and problem.tiles.length % config.step:
                reason = f"{config.step} elements per iteration don't divide a tile of {problem.tiles.length}"
                yield Refusal(reason, "schedule.threads")
            if config.threads > WARP and config.rows > 1:
                yield Refusal("several rows per block take thread groups of at most a warp", "schedule.rows")
    x, y = config.block
    if x * y > request.target.threads_per_block:
        key = next((key for key in ("threads_per_column", "rows", "threads") if key in tunables), "threads")
        reason = f"a block of {x} x {y} threads; {request.target.name} allows {request.target.threads_per_block}"
        yield Refusal(reason, f"schedule.{key}")


def row_config(problem: ScanProblem) -> RowConfig:
    """At most a warp for short rows, else a block, with prefetching where it takes many iterations."""
    tunables = dict(problem.request.schedule.tunables)
    width, shift = _vector_width(problem), _shift_width(problem)
    width = shift or width
    vectors_per_row = max(-(-(problem.max_length + max(shift - 1, 0)) // width), 1)
    # Accesses that move as many bytes as the widest one.
    narrow = max(MAX_ACCESS_BYTES // (width * _max_element_bytes(problem)), 1)
    is_short = vectors_per_row <= MAX_SHORT_ROW_VECTORS * narrow
    is_few = outer_count(problem) < _min_single_pass_rows(problem)
    prefetch = False
    if vectors_per_row <= WARP:
        threads, vectors = power_of_two(vectors_per_row), 1
    elif shift and width > 4 and outer_count(problem) >= MIN_BLOCKS_SEVERAL_WAVES:
        threads, vectors = _shifted_group(problem, vectors_per_row)
    elif vectors_per_row <= WARP * 2 * narrow:
        threads, vectors = WARP, min(-(-vectors_per_row // WARP), 4)
    elif (is_short or _may_be_short(problem)) and not is_few and problem.tiles is None:
        vectors = min(2 * narrow, 8)
        threads = min(power_of_two(-(-vectors_per_row // vectors)), BLOCK_THREADS // 2)
    else:
        vectors = min(4 * narrow, 8)
        threads = 4 * BLOCK_THREADS if is_few else 2 * BLOCK_THREADS
        prefetch = vectors_per_row > threads * vectors
        if prefetch and width > 4:  # narrow elements take more registers in their compute type
            fills = outer_count(problem) >= MIN_BLOCKS_SEVERAL_WAVES
            threads, vectors, prefetch = (BLOCK_THREADS, 1, False) if fills else (threads, min(vectors, 2), True)
        threads = min(power_of_two(-(-vectors_per_row // vectors)), threads)
    vectors = int(tunables.get("vectors", vectors))
    threads = int(tunables.get("threads", threads))
    rows = 1
    if problem.outer and threads <= WARP and problem.tiles is None:
        row_bytes = 2 * problem.max_length * _max_element_bytes(problem)
        block = block_of_short_rows(BLOCK_THREADS // 2, threads, row_bytes, outer_count(problem))
        rows = min(block // threads, power_of_two(problem.context.planned_extent(problem.outer[0])))
    return RowConfig(threads, int(tunables.get("rows", rows)), vectors, width, prefetch, shift > 0)


def _shifted_group(problem: ScanProblem, vectors_per_row: int) -> tuple[int, int]:
    """Threads and vectors of each for many rows of narrow elements that begin anywhere. A block waits for its loads,
    then for its scan, so that memory is busy while others are resident: as many vectors as leave the multiprocessor
    full of threads, and groups so small that the iterations of a row outlast the start of its block, while there are
    several waves of them."""
    target, width = problem.request.target, _shift_width(problem)
    vectors = 1
    while SHIFTED_REGISTERS + REGISTERS_PER_SHIFTED_ELEMENT * 2 * vectors * width <= MAX_REGISTERS_OF_FULL_SM:
        vectors *= 2
    registers = SHIFTED_REGISTERS + REGISTERS_PER_SHIFTED_ELEMENT * vectors * width
    resident = PLANNING_DEVICE.sms * min(target.threads_per_sm, target.registers_per_sm // registers)
    threads = WARP
    while (
        threads < 2 * BLOCK_THREADS
        and threads * vectors < vectors_per_row
        and threads * outer_count(problem) < MIN_WAVES_OF_SHIFTED_ROWS * resident
    ):
        threads *= 2
    return threads, vectors


def uses_look_back(problem: ScanProblem) -> bool:
    """Whether the scan is a single pass with decoupled look-back, or refused where that is requested."""
    algorithm = dict(problem.request.schedule.tunables).get("algorithm")
    if algorithm == LOOK_BACK and problem.is_row and problem.tiles is None:
        return True
    if algorithm == MULTI_PASS or _why_no_look_back(problem):
        return False
    is_long = problem.context.planned_extent(problem.along) * outer_count(problem) >= MIN_LOOK_BACK_ELEMENTS
    declared = {array.name for array in problem.context.original.arrays}
    is_pass = all(statement.target not in declared for statement in problem.request.group.statements)
    return is_long and not is_pass and tile_length(problem) is not None


def _why_no_look_back(problem: ScanProblem) -> str:
    if not problem.is_row:
        return f"{problem.along.name} runs along columns; look-back takes rows"
    if problem.tiles is not None:
        return "restarts in every tile"
    target = problem.request.target
    if reason := SPIN_WAITS.why_not(target):
        return reason
    rows = math.prod(max(problem.context.max_extent(index), 1) for index in problem.outer)
    blocks = rows * -(-problem.context.max_extent(problem.along) // look_back_config(problem).step)
    return "" if blocks <= target.grid_x else f"{blocks} blocks; {target.name} allows {target.grid_x}"


def look_back_config(problem: ScanProblem) -> LookBackConfig:
    """As many bytes in flight per thread as leave several blocks resident; fewer where there would be few blocks."""
    tunables = dict(problem.request.schedule.tunables)
    width = _vector_width(problem)
    arrays = problem.context.arrays
    bytes_per_element = sum(arrays[read.array].dtype.bytes for read in problem.vector_reads)
    # Narrow elements take more registers in their compute type.
    max_vectors = LOOK_BACK_BYTES_PER_THREAD // (width * max(_max_element_bytes(problem), bytes_per_element, 4))
    vectors = min(max(power_of_two(max_vectors + 1) // 2, 1), 16)
    threads = int(tunables.get("threads", BLOCK_THREADS))
    max_length = problem.context.planned_extent(problem.along)
    min_tiles = MIN_BLOCKS_SEVERAL_WAVES // 2
    while vectors > 1 and outer_count(problem) * -(-max_length // (threads * vectors * width)) < min_tiles:
        vectors //= 2
    return LookBackConfig(threads, 1, int(tunables.get("vectors", vectors)), width)


def min_blocks_per_sm(problem: ScanProblem, config: LookBackConfig) -> int:
    """Resident look-back blocks per multiprocessor, for the launch bounds; fewer for 8-byte values."""
    is_wide = _max_element_bytes(problem) > 4 or any(scan.dtype.bytes > 4 for scan in problem.pattern.scans)
    return max((LOOK_BACK_THREADS_PER_SM * 3 // 4 if is_wide else LOOK_BACK_THREADS_PER_SM) // config.threads, 1)


def column_config(problem: ScanProblem) -> ColumnConfig:
    """As many threads per column as keep a device busy; blocks as narrow as a cache line, so that there are many."""
    tunables = dict(problem.request.schedule.tunables)
    width = _vector_width(problem)
    column_vectors = max(-(-problem.context.planned_extent(problem.fastest) // width), 1)
    vectors = int(tunables.get("vectors", max(min(8, ELEMENTS_PER_COLUMN_THREAD // width), 1)))
    line = max(LINE_BYTES // (width * _max_element_bytes(problem)), 8)
    max_per_column = problem.request.target.threads_per_block // min(line, power_of_two(column_vectors))
    per_column, max_per_column = 1, min(MAX_DEFAULT_THREADS_PER_COLUMN, max_per_column)
    while (
        per_column < max_per_column
        and column_vectors * outer_count(problem) * per_column < MIN_RESIDENT_THREADS
        and per_column * vectors < problem.planned_length
    ):
        per_column *= 2
    if "vectors" not in tunables and per_column <= (lanes := _lanes_of_short_rows(problem, width)):
        per_column, vectors = lanes, 1
    per_column = int(tunables.get("threads_per_column", per_column))
    threads = int(tunables.get("threads", min(max(BLOCK_THREADS // per_column, line), power_of_two(column_vectors))))
    outer = 1
    if problem.outer and problem.tiles is None and not {"threads", "threads_per_column"} & tunables.keys():
        max_rows = outer_count(problem) * -(-column_vectors // threads) // MIN_BLOCKS_SEVERAL_WAVES
        extent = problem.context.planned_extent(problem.outer[0])
        min_rows = WARP // (threads * per_column) if per_column > 1 else 1  # whole warps
        max_rows = min(BLOCK_THREADS // 2 // (threads * per_column), MAX_BLOCK_Z, extent, max(max_rows, min_rows))
        outer = max(power_of_two(max_rows + 1) // 2, 1)
    return ColumnConfig(threads, per_column, vectors, width, outer)


def _lanes_of_short_rows(problem: ScanProblem, width: int) -> int:
    """The lanes of a warp along a column of rows that leave much of their sectors to the next ones, so that the warp
    accesses consecutive rows; 1 where rows fill their sectors or are apart, or where a lane has a single element, for
    which the shuffles take longer (measured on H200)."""
    arrays, context = problem.context.arrays, problem.context
    row, size = context.planned_extent(problem.fastest), _max_element_bytes(problem)
    stored = ((arrays[s.target], s.subscripts) for s in problem.request.stored_statements())
    steps = {step_along(array, subscripts, problem.along.name, context) for array, subscripts in stored}
    spanned = row * size + SECTOR_BYTES - math.gcd(row * size, SECTOR_BYTES)  # on average, wherever the row begins
    has_gaps = not {abs(step or 0) for step in steps} <= {row}
    if width == 1 or has_gaps or row * size >= MIN_USED_SECTORS * spanned:
        return 1
    return min(max(WARP // power_of_two(-(-row // width)), 1), power_of_two(problem.planned_length))


def tile_length(problem: ScanProblem) -> int | None:
    """Elements per tile of a multi-pass scan; None where the rows or columns are many or short."""
    max_length = problem.context.planned_extent(problem.along)
    if problem.is_row:
        size = _max_element_bytes(problem)
        if outer_count(problem) >= _min_single_pass_rows(problem) or max_length * size < MIN_MULTI_PASS_ROW_BYTES:
            return None
        length = power_of_two(-(-max_length // TARGET_TILES_PER_ROW))
        length = min(max(length, MIN_TILE_BYTES // size), MAX_TILE_BYTES // size)
        if not can_reduce_preceding(problem, length):
            length = DEFAULT_TILE_BYTES // size
        step = row_config(replace(problem, tiles=Tiles(length, ""))).step
        return -(-length // step) * step
    config = column_config(problem)
    columns = outer_count(problem) * max(-(-problem.context.planned_extent(problem.fastest) // config.width), 1)
    length = config.step * -(-MIN_COLUMN_TILE_ELEMENTS // config.step)
    is_idle = columns * MAX_DEFAULT_THREADS_PER_COLUMN < MIN_RESIDENT_THREADS
    return length if is_idle and max_length >= 4 * length else None


def can_reduce_preceding(problem: ScanProblem, length: int) -> bool:
    """Whether a row has so few tiles that each can reduce the aggregates of all preceding ones itself."""
    tiles = -(-problem.context.max_extent(problem.along) // length)
    return problem.is_row and not _may_be_short(problem) and tiles <= 2 * TARGET_TILES_PER_ROW


def _min_single_pass_rows(problem: ScanProblem) -> int:
    return MIN_SINGLE_PASS_ROWS if _vector_width(problem) <= 4 else MIN_SINGLE_PASS_NARROW_ROWS


def outer_count(problem: ScanProblem) -> int:
    """The number of rows, or of sets of columns, that is planned for."""
    return math.prod(max(problem.context.planned_extent(index), 1) for index in problem.outer)


def _may_be_short(problem: ScanProblem) -> bool:
    """Whether the row length is known at run time only, and may be small."""
    return problem.context.static_extent(problem.along) is None


def _max_element_bytes(problem: ScanProblem) -> int:
    """Bytes of the widest element accessed in vectors."""
    arrays = problem.context.arrays
    stored = [s.target for s in problem.request.stored_statements()]
    return max(arrays[name].dtype.bytes for name in (*stored, *(read.array for read in problem.vector_reads)))


def _shift_width(problem: ScanProblem) -> int:
    """The width of vectors that start before their row, where all rows are so long and equally misaligned; else 0."""
    is_plain = problem.is_row and problem.tiles is None and not problem.pattern.reverse
    narrow_bytes = problem.max_width.count * _max_element_bytes(problem)
    if not is_plain or problem.has_indexed_reads or narrow_bytes >= MIN_ACCESS_BYTES:
        return 0
    references = [
        *((s.target, s.subscripts) for s in problem.request.stored_statements()),
        *((read.array, read.subscripts) for read in problem.vector_reads),
    ]
    indices, along = (*problem.outer, problem.along), problem.along.name
    width = common_width(problem.context.arrays, indices, along, references, problem.context)
    return width if width > 1 and problem.max_length >= MIN_SHIFTED_ROW_VECTORS * width else 0


def _vector_width(problem: ScanProblem) -> int:
    """The widest access that alignment and the contiguous extent of the output allow."""
    width, max_length = problem.max_width.count, problem.context.planned_extent(problem.fastest)
    while width > max(max_length, 1):
        width //= 2
    return width
