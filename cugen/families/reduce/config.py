"""The thread mapping of a reduction, by the schedule's tunables or by size."""

from __future__ import annotations

import math

from cugen.families.reduce.columns import ColumnConfig, column_width
from cugen.families.reduce.problem import ReductionProblem, Stage
from cugen.families.reduce.rows import RowConfig, has_scalar_head, row_width
from cugen.families.reduce.short_rows import ShortRowConfig, short_row_config
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.block_reduce import WARP, partial_bytes
from cugen.pieces.blocks import power_of_two
from cugen.pieces.grid import MAX_BLOCK_Z
from cugen.pieces.vectors import MAX_ACCESS_BYTES, SECTOR_BYTES
from cugen.plan.request import Tunable
from cugen.spec.expressions import Index, IndexValue, free_indices

# Heuristics, tuned on H200 unless said otherwise.
THREADS_PER_SM = 2048  # CUDA programming guide, compute capability 9.0
THREADS_TO_FILL_DEVICE = 4 * PLANNING_DEVICE.sms * THREADS_PER_SM  # four waves
MIN_ROWS_FOR_SMALL_BLOCKS = 1024  # with fewer rows, blocks are as large as the row allows
MAX_VECTORS_PER_LANE = 8  # of a row with a single warp
VECTORS_PER_THREAD = 8  # of rows with several warps
MAX_ROW_THREADS = 512  # per row, with enough rows to fill the device
BLOCK_THREADS = 256
MAX_BLOCK_THREADS = 1024  # CUDA programming guide
COLUMN_RUN_BYTES = 512  # of each row that a block reads
NARROW_COLUMN_RUN_BYTES = 1024  # with accesses of up to 4 bytes: other blocks read adjacent bytes at other times
MAX_VECTORS_OF_FULL_ROWS = 64  # of columns, up to which a block reads whole rows
MIN_LONG_COLUMN_ELEMENTS = 64  # in shorter columns, the width of stores matters as well
MAX_BYTE_COLUMNS_PER_THREAD = 4  # of one byte: more accumulators would limit the occupancy
NARROW_BLOCK_THREADS = 8  # along few columns, or as many as read a cache line
LINE_BYTES = 128  # a cache line (CUDA programming guide)
MAX_THREADS_PER_COLUMN = 128
MIN_POSITION_THREADS = 4  # per column of argmin and argmax (measured on H100)
MIN_ROWS_PER_THREAD = 16  # of columns with several threads to fill the device
MAX_CACHED_COLUMN_ELEMENTS = 1024  # half of the registers of a block with a warp's columns
MIN_COLUMN_BLOCKS = 200  # of up to 1024 threads
MAX_CACHED_ROW_BYTES = 64  # of a window: L1 holds a row for each thread of a multiprocessor (measured on H100)
MAX_SMALL_WINDOW_POINTS = 1 << 10  # that a multiprocessor's threads read again from L1 or L2 (heuristic)
MIN_WINDOWS = PLANNING_DEVICE.sms * THREADS_PER_SM // 2  # one thread each fills half of the device
BYTES_IN_FLIGHT = 64  # per thread
MAX_TERMS_IN_FLIGHT = 256  # of packed elements in straight-line code (heuristic)
MAX_UNROLLED_ROWS = 8  # per thread; more rows in flight lower the DRAM throughput
MIN_RAGGED_TERMS = 24  # of ranges, from which as many batches of loads outweigh longer remainders (measured on H200)
MAX_UNROLLED_FULL_ROWS = 4  # where a block reads whole rows, or accesses are narrow (the latter measured on H100)
NARROW_ACCESS_BYTES = 4  # of a thread: a block needs more of each row to read long runs
NARROW_ELEMENT_BYTES = 2  # of these a row has few vectors, beside which a scalar head costs much
_THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads per row, by default up to 32 with two loads each, then eight; for columns, threads of a block along them",
    reorders=True,
)
_ROWS = Tunable(
    "rows",
    (1, 2, 4, 8, 16, 32, 64, 128),
    "as fit",
    "rows per block, for up to a warp per row; for columns, threads per column",
    reorders=True,
)
_VECTOR = Tunable(
    "vector",
    (1, 2, 4, 8, 16),
    "widest",
    "elements per load; by default the widest that alignment allows",
    reorders=True,
)
_UNROLL = Tunable(
    "unroll", (1, 2, 4, 8, 16), "by width", "loads in flight per thread; by default 64 bytes", reorders=True
)
_SPLIT_K = Tunable(
    "split_k",
    (1, *(1 << n for n in range(1, 13))),
    "as fill the device",
    "partial results per result, reduced by a second launch; by default 1 where the results fill the device",
    reorders=True,
)
TUNABLES = (_THREADS, _ROWS, _VECTOR, _UNROLL, _SPLIT_K)

ThreadConfig = RowConfig | ColumnConfig | ShortRowConfig


def choose_config(problem: ReductionProblem) -> ThreadConfig:
    if problem.column_index:
        return _column_config(problem)
    short = None if problem.request.schedule.tunables else short_row_config(problem)
    return short or _row_config(problem)


def is_cached_once(problem: ReductionProblem) -> bool:
    """Whether dependent reductions are left to a family that caches what they read: rows of any length, and columns
    that the registers of a block hold, where blocks of a warp's columns are enough; not small windows, which stay in a
    hardware cache until they are read again."""
    if len(problem.stages) == 1 or problem.request.schedule.family == "reduce":
        return False
    if not problem.column_index:
        return not all(_is_small_window(problem, stage) and _is_compound(stage) for stage in problem.stages)
    longest = max(point_count(problem, stage.indices) for stage in problem.stages)
    blocks = -(-point_count(problem, problem.output_indices) // WARP)
    is_word = all(problem.arrays[r.array].dtype.bytes <= 4 for stage in problem.stages for r in stage.reads)
    return is_word and longest <= MAX_CACHED_COLUMN_ELEMENTS and blocks >= MIN_COLUMN_BLOCKS


def point_count(problem: ReductionProblem, indices: tuple[Index, ...]) -> int:
    """The number of points of an index space, for the extents that are planned for."""
    return math.prod(problem.planned_extent(index) for index in indices)


def _row_config(problem: ReductionProblem) -> RowConfig:
    tunables = dict(problem.request.schedule.tunables)
    width = min(row_width(problem, stage).count for stage in problem.stages)
    width = min(width, int(tunables.get("vector", width)))
    longest = max(problem.planned_extent(stage.fastest) for stage in problem.stages)
    while width > 1 and width > longest:
        width //= 2
    row_count = point_count(problem, problem.output_indices)
    outer_threads = 1
    if "threads" in tunables:
        threads = int(tunables["threads"])
    elif row_count >= MIN_WINDOWS and all(_is_short_window(problem, stage) for stage in problem.stages):
        threads, width = 1, math.gcd(width, longest)  # no part of a vector is left at the end of a row
    elif int(tunables.get("rows", 1)) > 1:
        threads = WARP
    else:
        vectors = -(-longest // width)
        fits_warp = vectors <= MAX_VECTORS_PER_LANE * WARP
        is_narrow = min_element_bytes(problem) <= NARROW_ELEMENT_BYTES
        has_head = is_narrow and any(has_scalar_head(problem, stage) for stage in problem.stages)
        threads = (
            _lanes(vectors, has_head, _is_fixed(problem)) if fits_warp else power_of_two(vectors // VECTORS_PER_THREAD)
        )
        threads = min(threads, MAX_ROW_THREADS)
        if row_count < MIN_ROWS_FOR_SMALL_BLOCKS and vectors >= WARP:
            threads = min(power_of_two(vectors), MAX_BLOCK_THREADS)
        next_slower = (stage.indices[-2] for stage in problem.stages if len(stage.indices) > 1)
        outer = max(map(problem.planned_extent, next_slower), default=1)
        if outer > 1:
            outer_threads = min(power_of_two(outer), max(BLOCK_THREADS // threads, 1))
        if threads * outer_threads < WARP and row_count >= MIN_WINDOWS:
            outer_threads = 1  # a block has several results
    rows = outer_rows = 1
    if threads <= WARP and outer_threads == 1 and problem.output_indices:
        if "rows" in tunables:
            rows = int(tunables["rows"])
        else:
            rows, outer_rows = _rows_of_block(problem, threads)
    elif threads * outer_threads <= WARP and problem.output_indices and not tunables:
        extent = max(problem.planned_extent(problem.output_indices[0]), 1)
        rows = min(BLOCK_THREADS // (threads * outer_threads), power_of_two(extent), MAX_BLOCK_Z)
    unroll = int(tunables.get("unroll", _unroll(problem, width)))
    return RowConfig(threads, outer_threads, rows, width, unroll, outer_rows)


def _rows_of_block(problem: ReductionProblem, threads: int) -> tuple[int, int]:
    """Rows of a block, of so many threads each, along the two fastest output indices: all of a short one times as many
    of the next as leave the fewest threads of whole warps idle, else of the fastest alone."""
    extent, *others = (max(problem.planned_extent(index), 1) for index in problem.output_indices[:2])
    limit = min(BLOCK_THREADS // (threads * extent), MAX_BLOCK_Z, *others) if others else 1

    if limit > 1:
        outer_rows = max(range(1, limit + 1), key=lambda count: (_busy(threads * extent * count), count))
        if threads == 1 or _busy(threads * extent * outer_rows) == 1:  # shuffles are of whole warps
            return extent, outer_rows
    if threads > 1:
        return min(BLOCK_THREADS // threads, power_of_two(extent)), 1
    blocks = -(-extent // BLOCK_THREADS)  # whole warps, of which as few as possible are idle
    return -(-extent // (blocks * WARP)) * WARP, 1


def _is_compound(stage: Stage) -> bool:
    """Whether an index of the stage is a part of a subscript, as `b` in `x[16 * j + b]`."""
    subscripts = (sub for read in stage.reads for sub in read.subscripts if not isinstance(sub, IndexValue))
    return any(free_indices(sub) & {index.name for index in stage.indices} for sub in subscripts)


def _is_short_window(problem: ReductionProblem, stage: Stage) -> bool:
    """Whether a thread reads a window of short rows: what else is in their sectors, other threads read from L1."""
    widest = max(problem.arrays[read.array].dtype.bytes for read in stage.reads)
    return len(stage.indices) > 1 and problem.context.max_extent(stage.fastest) * widest <= MAX_CACHED_ROW_BYTES


def _is_small_window(problem: ReductionProblem, stage: Stage) -> bool:
    return _is_short_window(problem, stage) and point_count(problem, stage.indices) <= MAX_SMALL_WINDOW_POINTS


def _is_fixed(problem: ReductionProblem) -> bool:
    """Whether rows are of a length that lets a lane load all of its vectors at once."""
    stage = problem.stages[0]
    is_alone = len(problem.stages) == 1 and len(stage.indices) == 1
    has_position = any(reduction.is_position for reduction in stage.reductions)
    return is_alone and not has_position and problem.context.static_extent(stage.fastest) is not None


def _lanes(vectors: int, has_head: bool, is_fixed: bool) -> int:
    """Lanes for a short row: two vectors each where that leaves no lane idle, else three, or four of narrow elements
    where each also loops over those before and after them."""
    per_lane = 3 if vectors != power_of_two(vectors) else 2
    if has_head:
        per_lane = 3 if is_fixed else 4
    return min(max(power_of_two(vectors // per_lane + 1) // 2, 1), WARP)


def _column_config(problem: ReductionProblem) -> ColumnConfig:
    tunables = dict(problem.request.schedule.tunables)
    (columns,) = (problem.planned_extent(i) for i in problem.output_indices if i.name == problem.column_index)
    longest = max(point_count(problem, stage.indices) for stage in problem.stages)
    width = min(column_width(problem).count, max_columns_per_thread(problem))
    width = min(width, int(tunables.get("vector", width)))
    vectors = -(-columns // width)
    results = -(-point_count(problem, problem.output_indices) // width)
    access_bytes = width * min_element_bytes(problem)
    threads = _threads_along_columns(vectors, access_bytes)
    if _takes_narrow_blocks(results, longest):
        narrow = max(NARROW_BLOCK_THREADS, LINE_BYTES // access_bytes)
        # Longer runs of each row, where enough blocks are left (measured on H200).
        while narrow < threads and vectors % (2 * narrow) == 0 and results >= 2 * narrow * MIN_COLUMN_BLOCKS:
            narrow *= 2
        threads = min(threads, narrow)
    threads = int(tunables.get("threads", threads))
    per_column = int(tunables.get("rows", _threads_per_column(problem, threads, results, longest, width)))
    outer_rows = 1
    if per_column == 1 and "threads" not in tunables:
        threads = max(threads, min(power_of_two(vectors), BLOCK_THREADS))
        outer_rows = _outer_rows(problem, threads, access_bytes, results)
    if outer_rows == 1 and not {"threads", "rows"} & tunables.keys():
        per_column, outer_rows = _narrow_block(problem, threads, access_bytes, per_column, results, longest)
    has_few_unrolled = threads == vectors or access_bytes <= NARROW_ACCESS_BYTES
    max_unroll = MAX_UNROLLED_FULL_ROWS if has_few_unrolled else MAX_UNROLLED_ROWS
    unroll = min(_unroll(problem, width), max_unroll)
    if longest >= MIN_RAGGED_TERMS and _is_ragged(problem):
        unroll = max(unroll, MAX_UNROLLED_ROWS)
    return ColumnConfig(threads, per_column, width, int(tunables.get("unroll", unroll)), outer_rows)


def max_columns_per_thread(problem: ReductionProblem) -> int:
    """The widest vectors of columns, wherever rows begin."""
    if max(math.prod(map(problem.planned_terms, stage.indices)) for stage in problem.stages) < MIN_LONG_COLUMN_ELEMENTS:
        result_bytes = max(problem.arrays[s.target].dtype.bytes for s in problem.request.group.statements)
        return max(MAX_ACCESS_BYTES // result_bytes, 1)
    element_bytes = min_element_bytes(problem)
    return MAX_BYTE_COLUMNS_PER_THREAD if element_bytes == 1 else MAX_ACCESS_BYTES // element_bytes


def _is_ragged(problem: ReductionProblem) -> bool:
    """Whether results have ranges of their own, whose lengths differ."""
    indices = (index for stage in problem.stages for index in stage.indices)
    return any(problem.planned_extent(index) < problem.context.planned_extent(index) for index in indices)


def _outer_rows(problem: ReductionProblem, threads: int, access_bytes: int, results: int) -> int:
    """Values of the next output index in a block of so many threads along the columns, which would else have too few;
    only where the columns of each are whole sectors, and as many as leave enough blocks."""
    if len(problem.output_indices) == 1 or threads * access_bytes < SECTOR_BYTES:
        return 1
    extent = problem.planned_extent(problem.output_indices[1])
    enough = results // (threads * MIN_COLUMN_BLOCKS)
    return max(min(BLOCK_THREADS // threads, MAX_BLOCK_Z, extent, enough), 1)


def _narrow_block(
    problem: ReductionProblem, threads: int, access_bytes: int, per_column: int, results: int, longest: int
) -> tuple[int, int]:
    """Threads per column, and along the next output index, of blocks that a few columns leave small: there are then
    many of them, each of which would end after a few loads. `per_column` is what they have by themselves."""
    outer = max((problem.planned_extent(index) for index in problem.output_indices[1:2]), default=1)
    max_rows = min(outer, results // (threads * MIN_COLUMN_BLOCKS))
    if threads * access_bytes >= LINE_BYTES or threads * per_column > BLOCK_THREADS // 2 or max_rows < 2:
        return per_column, 1
    fewest = max(power_of_two(-(-SECTOR_BYTES // (threads * access_bytes))), 1)  # that read whole sectors
    while fewest < per_column and results * fewest < THREADS_TO_FILL_DEVICE and longest >= MIN_ROWS_PER_THREAD * fewest:
        fewest *= 2
    per_column = min(per_column, fewest)
    limit = min(BLOCK_THREADS // (threads * per_column), MAX_BLOCK_Z, max_rows)
    return per_column, max(range(1, limit + 1), key=lambda count: (_busy(threads * per_column * count), count))


def _busy(threads: int) -> float:
    """The threads of a block, relative to those of whole warps."""
    return threads / (-(-threads // WARP) * WARP)


def _threads_along_columns(vectors: int, access_bytes: int) -> int:
    """Threads of a block along columns: for all of them if they are few (none is idle), else for a run of each row, in
    as few whole warps as the same number of blocks needs."""
    if vectors <= MAX_VECTORS_OF_FULL_ROWS and vectors * _rows_of_whole_warps(vectors) <= BLOCK_THREADS:
        return max(vectors, 1)
    run_bytes = COLUMN_RUN_BYTES if access_bytes > NARROW_ACCESS_BYTES else NARROW_COLUMN_RUN_BYTES
    threads = min(run_bytes // access_bytes, BLOCK_THREADS)
    blocks = -(-vectors // threads)
    return min(-(-vectors // (blocks * WARP)) * WARP, threads)


def part_block(problem: ReductionProblem, config: ColumnConfig) -> tuple[int, int]:
    """Threads of a block along and per column, where parts of the columns make enough results for wide blocks."""
    columns = next(problem.planned_extent(i) for i in problem.output_indices if i.name == problem.column_index)
    threads = _threads_along_columns(-(-columns // config.width), config.width * min_element_bytes(problem))
    return threads, min(WARP, MAX_BLOCK_THREADS // threads)


def max_threads_per_column(problem: ReductionProblem, threads: int) -> int:
    """The most threads per column in a block of so many columns. Argmin and argmax take a few, as one thread merges
    what all have found, but four warps."""
    maximum = MAX_BLOCK_THREADS // threads
    has_position = any(reduction.is_position for stage in problem.stages for reduction in stage.reductions)
    return min(maximum, max(MIN_POSITION_THREADS, 4 * WARP // threads)) if has_position else maximum


def _takes_narrow_blocks(results: int, longest: int) -> bool:
    """Whether wide blocks would be too few: less than one warp of results per multiprocessor."""
    return results < PLANNING_DEVICE.sms * WARP and longest >= 2 * MAX_THREADS_PER_COLUMN


def _threads_per_column(problem: ReductionProblem, threads: int, results: int, longest: int, width: int) -> int:
    """Enough threads per column to fill the device, with several loads each."""
    max_threads = MAX_THREADS_PER_COLUMN if _takes_narrow_blocks(results, longest) else WARP
    max_threads = min(max_threads, max_threads_per_column(problem, threads))
    column_bytes = sum(partial_bytes(stage.reductions) for stage in problem.stages)  # each has arrays of its own
    max_threads = min(max_threads, STATIC_SHARED_BYTES // (threads * width * column_bytes))
    per_column = rows = _rows_of_whole_warps(threads)

    def needs_more() -> bool:
        has_rows = longest >= MIN_ROWS_PER_THREAD * per_column and results * per_column < THREADS_TO_FILL_DEVICE
        return has_rows or (longest >= 2 * per_column and threads * per_column < BLOCK_THREADS)

    while 2 * per_column <= max_threads and needs_more():
        per_column *= 2
    is_limited_by_block = max_threads == MAX_BLOCK_THREADS // threads
    if is_limited_by_block and per_column < max_threads < 2 * per_column and needs_more():
        per_column = max_threads // rows * rows
    return per_column if longest >= 2 * per_column or per_column > max_threads else 1


def _rows_of_whole_warps(threads: int) -> int:
    """The smallest number of rows of so many threads that make whole warps."""
    return WARP // math.gcd(threads, WARP)


def _unroll(problem: ReductionProblem, width: int) -> int:
    """Loads in flight per thread; no more than have so many terms in all, where elements are packed."""
    unroll = min(max(BYTES_IN_FLIGHT // (width * min_element_bytes(problem)), 4), 16)
    terms = width * max(map(problem.packed_count, problem.stages))
    return unroll if terms == width else min(unroll, max(MAX_TERMS_IN_FLIGHT // terms, 1))


def min_element_bytes(problem: ReductionProblem) -> int:
    """Of the arrays that a thread reads, the size of the smallest elements."""
    return min(problem.arrays[read.array].dtype.bytes for stage in problem.stages for read in stage.reads)


def reasons(problem: ReductionProblem, config: ThreadConfig) -> tuple[str, ...]:
    if isinstance(config, ColumnConfig):
        count = config.threads_per_column
        threads = f"{count} threads per column" if count > 1 else "one thread per column"
        vectors = f"vectors of {config.width} columns along {problem.column_index}"
        return (f"{threads}, {vectors}", column_width(problem).reason)
    along = problem.stages[0].fastest.name
    if isinstance(config, ShortRowConfig):
        loads = f"{config.rows} rows of {config.length} elements per thread, loaded as {config.vectors} vectors"
        return (loads, f"a single row along {along} fills no vector")
    count = config.threads * config.outer_threads
    threads = f"{count} threads per result" if count > 1 else "one thread per result"
    vectors = f"vectors of {config.width} elements along {along}"
    return (f"{threads}, {vectors}", row_width(problem, problem.stages[0]).reason)
