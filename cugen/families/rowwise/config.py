"""How a row is mapped to threads: threads per row, vector width, and the storage level of its elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cugen.families.rowwise import shared_rows
from cugen.families.rowwise.passes.schedule import (
    CachePolicy,
    has_costly_elements,
)
from cugen.families.rowwise.passes.storage_levels import (
    UNROLL_BEYOND_REGISTERS,
    UNROLL_WITH_OPERANDS,
    Storage,
    StorageLevel,
)
from cugen.families.rowwise.row_storage import (
    MAX_ELEMENTS_PER_THREAD,
    REGISTER_ELEMENTS,
    REGISTER_VALUES_WITH_RELOADS,
    REGISTER_VALUES_WITH_SHARED,
    are_elements,
    can_reuse_buffers,
    is_placed_in_shared,
    overlapped_bytes,
    overlapped_levels,
    registers_per_element,
    row_passes,
    storage_levels,
    widest_shared_bytes,
)
from cugen.families.rowwise.row_vectors import (
    NARROW_VECTOR_ELEMENTS,
    aligned_accesses,
    contiguous_row,
    is_narrow,
    is_placed,
    peeled_width,
    row_width,
    shifted_accesses,
)
from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.features import FUNNEL_SHIFTS
from cugen.pieces.blocks import block_of_short_rows, power_of_two
from cugen.pieces.vectors import MAX_ACCESS_BYTES, ElementRef, Width
from cugen.plan.request import Request, Tunable
from cugen.plan.symbols import bounds
from cugen.spec.expressions import Expr, Read, free_indices, walk

# Heuristics, tuned on H200 unless said otherwise.
SHORT_ROW_BLOCK_THREADS = 128  # per block of several rows
MIN_ACCESSES_PER_THREAD = 2  # per row, for rows of up to 256 threads
MIN_ELEMENTS_PER_THREAD = 8
MAX_BLOCK_THREADS = 1024  # CUDA programming guide
# Adjacent rows of a block, where these are contiguous and columns strided: a warp of them, more of short columns, or as
# few as leave room for a whole column (the latter two measured on H100).
ROWS_PER_STRIDED_BLOCK = 32
WIDE_STRIDED_BLOCKS = (128, 64)
NARROW_STRIDED_BLOCKS = (32, 16, 8)
ELEMENTS_PER_STRIDED_THREAD = 16  # of a column
ELEMENTS_PER_WIDE_STRIDED_THREAD = 24  # with wide blocks (measured on H100)
MIN_WIDE_STRIDED_BLOCKS = 2 * PLANNING_DEVICE.sms  # wide ones: fewer would leave multiprocessors idle
FLOATS_PER_ACCESS = MAX_ACCESS_BYTES // 4
FEWER_REGISTER_VALUES = (16, 8, 0)  # one after the other, where a thread has too few registers
CACHED_ELEMENTS_OF_DYNAMIC_ROW = 4096  # of unknown length; elements past these are reloaded
MAX_BLOCKS_OF_IDLE_GRID = 32  # up to which a grid leaves most multiprocessors idle
MIN_LONG_ROW_ELEMENTS = 1 << 16  # where idle multiprocessors cost more than further launches
MIN_RELOADED_ELEMENTS = 1 << 22  # whose passes take longer on half of a device than further launches (heuristic)
# Where blocks of adjacent columns take longer than further launches (measured on H200): elements of a block that has
# them as single ones of 16 bits or fewer, or the length of the columns of few blocks.
MIN_NARROW_COLUMN_ELEMENTS = 96 * MAX_BLOCK_THREADS
MIN_COLUMN_LENGTH, MAX_BLOCKS_OF_COLUMNS = 4096, 16
MAX_SINGLE_BLOCK_ROW_REGISTERS = 1 << 15  # half of a register file; longer rows take a cluster
CLUSTER_BLOCK_REGISTERS = 1 << 14  # for the row, per block: two such blocks fill a multiprocessor
NARROW_CLUSTER_BLOCK_REGISTERS = 1 << 15  # twice the elements for the same bytes in flight
OVERLAPPED_CLUSTER_THREADS = 512  # of blocks, two of which fit a multiprocessor; these heuristics measured on H100
CLUSTER_SIZES = (2, 4, 8)  # 8 is the largest portable size (CUDA programming guide)

THREADS = Tunable(
    "threads",
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "by length",
    "threads per row; by default enough for 8 or 16 elements each, or 32 of a long row, 40 if of a narrow type",
    reorders=True,
)
ROWS = Tunable("rows", (1, 2, 4, 8, 16, 32, 64, 128), "as fit", "rows per block; by default enough for 128 threads")
CLUSTER = Tunable(
    "cluster",
    (1, *CLUSTER_SIZES),
    "by length",
    "blocks per row (a thread block cluster, sm_90 and newer); by default 16384 values per block for rows of more "
    "than 32768, or 32768 of a narrow type for rows of which two don't fit the shared memory of a multiprocessor",
    reorders=True,
)
TUNABLES = (THREADS, ROWS, REGISTER_ELEMENTS, CLUSTER)


@dataclass(frozen=True, slots=True)
class RowConfig:
    """`threads` of a block per row, `rows` per block, accesses of `width` elements, `cluster` blocks per row.

    `levels` are the parts of a row by storage level. Where rows begin anywhere, vectors start at the first aligned
    element, and `edges` is the level of those before and after them. Vectors serve the `aligned` accesses, and pairs of
    them the `shifted` ones; the other contiguous accesses are of single elements. `contiguous_row` is the row index
    that is contiguous in memory, where the column index is not."""

    threads: int
    rows: int
    width: Width
    levels: tuple[StorageLevel, ...]
    contiguous_row: str = ""
    cluster: int = 1
    min_blocks_per_sm: int = 0  # for __launch_bounds__
    deferrable_registers: int = 0  # that the compiler saves by later loads, without spills
    unroll: int = UNROLL_BEYOND_REGISTERS  # of the slots that a pass reads
    edges: StorageLevel | None = None
    aligned: tuple[ElementRef, ...] = ()
    shifted: tuple[ElementRef, ...] = ()

    @property
    def stride(self) -> int:
        """Elements of a row that all its threads access at once."""
        return self.threads * self.width.count * self.cluster

    @property
    def all_levels(self) -> tuple[StorageLevel, ...]:
        return self.levels if self.edges is None else (*self.levels, self.edges)

    def moves_vectors(self, read: Expr) -> bool:
        """Whether a read is aligned where vectors start."""
        return self.edges is None or (isinstance(read, Read) and (read.array, read.subscripts) in self.aligned)

    def is_shifted(self, read: Expr) -> bool:
        """Whether two vectors of the array have the elements of one."""
        return isinstance(read, Read) and (read.array, read.subscripts) in self.shifted


def choose_config(problem: RowProblem, registers: int | None = None) -> RowConfig:
    """The config by the schedule's tunables, or else by the length of the rows; with up to so many values per thread in
    `registers` where a spec leaves them open."""
    width = row_width(problem)
    has_shifts = FUNNEL_SHIFTS.is_on(problem.request.target)
    if has_shifts and (shifted := _peeled_config(problem, width, registers, shifts=True)):
        return shifted
    return _peeled_config(problem, width, registers) or _config(problem, width, registers)


def _peeled_config(
    problem: RowProblem, width: Width, registers: int | None, *, shifts: bool = False
) -> RowConfig | None:
    """The config with vectors from the first aligned element of rows on, where these are wider than those of `width`;
    with `shifts` others are shifted, for whose pairs only blocks with their row in shared memory have registers."""
    aligned = aligned_accesses(problem, width, shifts=shifts)
    if not aligned:
        return None
    shifted = shifted_accesses(problem, aligned) if shifts else ()
    config = _config(problem, peeled_width(problem, aligned, shifted), registers, has_margin=bool(shifted))
    if shifted and (config.levels[0].storage != Storage.SHARED or not _are_words(shifted, config.width, problem)):
        return None
    is_static = problem.request.context.static_extent(problem.column) is not None
    if config.threads * config.cluster < 2 * config.width.count - 1:
        return None  # a thread would have two elements before or after the vectors
    if is_static and not all(level.is_cached for level in config.levels):
        return None
    edges = StorageLevel(Storage.EDGES, 0, 1, row_passes(problem, CachePolicy.ALL))
    unroll = UNROLL_WITH_OPERANDS if shifted else config.unroll
    return replace(config, edges=edges, aligned=aligned, shifted=shifted, unroll=unroll)


def _are_words(shifted: tuple[ElementRef, ...], width: Width, problem: RowProblem) -> bool:
    """Whether vectors of the arrays consist of words of 4 bytes, which a funnel shift moves."""
    return all(width.count * problem.arrays[array].dtype.bytes % 4 == 0 for array, _ in shifted)


def _tunables(request: Request) -> dict[str, int]:
    """The chosen values of this family's tunables; a schedule may have those of a statement's other steps."""
    chosen = dict(request.schedule.tunables)
    return {tunable.name: int(chosen[tunable.name]) for tunable in TUNABLES if tunable.name in chosen}


def _config(problem: RowProblem, width: Width, registers: int | None, *, has_margin: bool = False) -> RowConfig:
    """The config with vectors of `width`, or of fewer elements where those of a computed value in shared memory would
    exceed one access. `has_margin`: a vector's elements of each row are in none."""
    config = _config_of(problem, width, registers, width.count if has_margin else 0)
    widest = max((widest_shared_bytes(level, problem) for level in config.levels), default=0)
    if config.width.count * widest <= MAX_ACCESS_BYTES:
        return config
    count = MAX_ACCESS_BYTES // widest
    reason = f"{count} elements as computed are {MAX_ACCESS_BYTES} bytes in shared memory"
    return _config_of(problem, Width(count, reason), registers, count if has_margin else 0)


def _config_of(problem: RowProblem, width: Width, registers: int | None, margin: int) -> RowConfig:
    """The config with vectors of a width, and up to so many values of a row per thread in `registers`. Those of a
    `margin` are in no vector."""
    request, context = problem.request, problem.request.context
    shortest, longest = bounds(context.extent(problem.column), context.ranges)
    is_known = longest <= max(MIN_LONG_ROW_ELEMENTS, 4 * shortest)
    typical = context.typical_extent(problem.column)
    is_planned = is_known or typical is not None
    length = max(longest if is_known else CACHED_ELEMENTS_OF_DYNAMIC_ROW if typical is None else typical, 1)
    along_row, is_capped = contiguous_row(problem), registers is not None
    tunables = _tunables(request)
    strided_rows = _rows_of_strided_block(problem, length, is_planned=is_planned) if along_row else 0
    rows = tunables.get("rows", strided_rows)
    one_block = along_row or rows > 1
    certain = shortest if typical is None else typical
    cluster = tunables.get("cluster", 1 if one_block else _cluster(problem, certain, length))
    length, covered = -(-length // cluster), -(-max(length - margin, 1) // cluster)
    threads = _strided_threads(length, rows) if along_row else _threads(problem, length, width.count)
    threads = tunables.get("threads", threads)
    if "rows" not in tunables:
        is_single = cluster > 1 or not problem.domain.rows
        rows = max(rows, 1, 1 if is_single else _short_row_block(problem, threads, length) // threads)
    slots = -(-covered // (threads * width.count))
    if "registers" in tunables:
        registers = None
    elif registers is None and not is_known:
        registers = REGISTER_VALUES_WITH_RELOADS
    levels = storage_levels(problem, threads * rows, width.count, slots, registers)
    overlapped: tuple[StorageLevel, ...] = ()
    is_free = (
        not is_capped and not along_row and tunables.keys() <= {"cluster"} and rows == 1 and not is_placed(problem)
    )
    is_shared_row = cluster == 1 and _is_shared_row(problem, length, width.count, levels)
    if is_free and (cluster > 1 or is_shared_row):
        of_row = shared_rows.threads_of_row(covered, width.count, request.target)
        block_threads = of_row if is_shared_row else OVERLAPPED_CLUSTER_THREADS
        overlapped = overlapped_levels(problem, covered, width.count, block_threads, in_shared=is_shared_row)
    if overlapped:
        threads, levels = block_threads, overlapped
    elif width.count > FLOATS_PER_ACCESS and levels[-1].storage == Storage.SHARED:
        as_computed = _levels_as_computed(problem, length, threads, rows, registers)
        if as_computed is not None:
            threads, levels = as_computed
            reason = f"{FLOATS_PER_ACCESS} elements as computed are {MAX_ACCESS_BYTES} bytes in shared memory"
            width = Width(FLOATS_PER_ACCESS, reason)
    if not is_known and levels[-1].is_cached:
        passes = row_passes(problem, CachePolicy.NOTHING)
        levels = (*levels, StorageLevel(Storage.GLOBAL, levels[-1].start + levels[-1].slots, 0, passes))
    cached = levels[0].slots * width.count * registers_per_element(problem)
    is_small = threads < MAX_BLOCK_THREADS and cached <= MAX_ELEMENTS_PER_THREAD
    is_resident = cluster > 1 and not overlapped and len(levels) == 1 and is_small
    min_blocks = MAX_BLOCK_THREADS // threads if is_resident else 0
    config = RowConfig(threads, rows, width, levels, along_row, cluster, min_blocks)
    return _with_more_blocks(problem, config) if overlapped and is_shared_row else config


def _with_more_blocks(problem: RowProblem, config: RowConfig) -> RowConfig:
    """The config of a row in shared memory with launch bounds for the blocks that fit a multiprocessor."""
    shared_bytes = overlapped_bytes(problem, config.levels, config.threads, config.width.count)
    min_blocks = shared_rows.blocks_per_multiprocessor(problem.request.target, config.threads, shared_bytes)
    are_loaded = are_elements(row_passes(problem, CachePolicy.ALL))
    return replace(
        config,
        min_blocks_per_sm=min_blocks,
        deferrable_registers=shared_rows.DEFERRABLE_REGISTERS,
        unroll=UNROLL_WITH_OPERANDS if are_loaded else UNROLL_BEYOND_REGISTERS,
    )


def _is_shared_row(problem: RowProblem, length: int, width: int, levels: tuple[StorageLevel, ...]) -> bool:
    """Whether a block has a row of narrow elements in shared memory: those that don't fit registers, and long ones of
    wide vectors of which no computed values are cached."""
    are_loaded = width >= NARROW_VECTOR_ELEMENTS and are_elements(row_passes(problem, CachePolicy.ALL))
    is_long = are_loaded and length > shared_rows.MAX_REGISTER_ELEMENTS
    return is_narrow(problem) and (is_long or levels[-1].storage == Storage.SHARED)


def _levels_as_computed(
    problem: RowProblem, length: int, threads: int, rows: int, registers: int | None
) -> tuple[int, tuple[StorageLevel, ...]] | None:
    """The threads of a row of `length` elements and its storage levels with shared buffers of the compute type, which
    save recomputation; None without such buffers. Blocks have all threads they may unless two fit a multiprocessor."""
    if not can_reuse_buffers(problem, as_computed=True):
        return None
    shared_bytes = (length - threads * REGISTER_VALUES_WITH_SHARED) * MAX_ACCESS_BYTES // FLOATS_PER_ACCESS
    two_fit = 2 * shared_bytes <= problem.request.target.shared_opt_in
    threads = threads if "threads" in _tunables(problem.request) or two_fit else MAX_BLOCK_THREADS
    slots = -(-length // (threads * FLOATS_PER_ACCESS))
    levels = storage_levels(problem, threads * rows, FLOATS_PER_ACCESS, slots, registers)
    return (threads, levels) if levels[-1].as_computed else None


def _short_row_block(problem: RowProblem, threads: int, length: int) -> int:
    """Threads of a block of several rows."""
    accesses = {(o.target, o.subscripts) for o in problem.outputs}
    reads = (node for output in problem.outputs for node in walk(output.value) if isinstance(node, Read))
    accesses |= {(read.array, read.subscripts) for read in reads}
    names = problem.domain.column_names
    moved = [array for array, subs in accesses if any(names & free_indices(sub) for sub in subs)]
    row_bytes = length * sum(problem.arrays[name].dtype.bytes for name in moved)
    rows = math.prod(map(problem.request.context.planned_extent, problem.domain.rows))
    return block_of_short_rows(SHORT_ROW_BLOCK_THREADS, threads, row_bytes, rows)


def _rows_of_strided_block(problem: RowProblem, length: int, *, is_planned: bool) -> int:
    """Adjacent rows of a block whose columns are strided: many of short columns, whose accesses are then long runs; of
    long ones as many as registers and shared memory hold all elements of."""
    row_count = math.prod(map(problem.request.context.planned_extent, problem.domain.rows))
    for rows in WIDE_STRIDED_BLOCKS:
        is_short = length <= ELEMENTS_PER_WIDE_STRIDED_THREAD * (MAX_BLOCK_THREADS // rows)
        if is_short and row_count >= rows * MIN_WIDE_STRIDED_BLOCKS:
            return rows
    for rows in NARROW_STRIDED_BLOCKS if is_planned else ():
        threads = _strided_threads(length, rows)
        if storage_levels(problem, threads * rows, 1, -(-length // threads))[-1].is_cached:
            return rows
    return ROWS_PER_STRIDED_BLOCK


def _strided_threads(length: int, rows: int) -> int:
    per_thread = ELEMENTS_PER_WIDE_STRIDED_THREAD if rows in WIDE_STRIDED_BLOCKS else ELEMENTS_PER_STRIDED_THREAD
    return min(power_of_two(-(-length // per_thread)), MAX_BLOCK_THREADS // rows)


def _cluster(problem: RowProblem, certain: int, length: int) -> int:
    """The blocks per row, which is planned to have at least `certain` elements. A single block of a long row would be
    the only one on its multiprocessor, without another one's loads to overlap with its stores."""
    registers, narrow = registers_per_element(problem), is_narrow(problem)
    per_block = NARROW_CLUSTER_BLOCK_REGISTERS if narrow else CLUSTER_BLOCK_REGISTERS
    row_threads = shared_rows.max_threads(problem.request.target)
    if narrow and not is_placed_in_shared(problem) and overlapped_levels(problem, length, 1, row_threads):
        return 1
    if not problem.request.target.has_clusters or certain * registers <= MAX_SINGLE_BLOCK_ROW_REGISTERS:
        return 1
    return next((size for size in CLUSTER_SIZES if length * registers <= size * per_block), CLUSTER_SIZES[-1])


def has_too_few_rows(problem: RowProblem, config: RowConfig) -> bool:
    """Whether a grid with one block or cluster per row would leave most of the device idle, for long, or its blocks
    have more of adjacent columns than they load fast."""
    if problem.request.schedule.family == "rowwise":
        return False
    rows = math.prod(map(problem.request.context.planned_extent, problem.domain.rows))
    longest = problem.request.context.planned_extent(problem.column)
    groups = -(-rows // config.rows)
    blocks = groups * (config.cluster if longest <= _capacity(config) else 1)
    if blocks <= MAX_BLOCKS_OF_IDLE_GRID and longest >= MIN_LONG_ROW_ELEMENTS:
        return True
    typical = problem.request.context.typical_extent(problem.column) or 0
    if config.contiguous_row and _has_slow_blocks(problem, config, blocks, typical):
        return True
    # Rows that are reloaded in each pass are read as often by further launches, which leave no multiprocessor idle.
    is_reloaded = typical >= 2 * _capacity(config) and rows * typical >= MIN_RELOADED_ELEMENTS
    return is_reloaded and 2 * groups * config.cluster <= PLANNING_DEVICE.sms


def _has_slow_blocks(problem: RowProblem, config: RowConfig, blocks: int, length: int) -> bool:
    """Whether blocks of adjacent columns take longer than further launches, which have vectors of these and parts of
    the columns on all multiprocessors."""
    if length > _capacity(config):  # as many passes over memory as further launches have
        return True
    if is_narrow(problem):
        return config.rows * length >= MIN_NARROW_COLUMN_ELEMENTS
    return length >= MIN_COLUMN_LENGTH and blocks <= MAX_BLOCKS_OF_COLUMNS


def reloads_single_elements(problem: RowProblem, config: RowConfig) -> bool:
    """Whether most of a row is reloaded by single elements, each of which has an index of its own: further launches
    move as much, in vectors."""
    typical = problem.request.context.typical_extent(problem.column) or 0
    is_reloaded = typical >= max(2 * _capacity(config), MIN_LONG_ROW_ELEMENTS)
    has_vectors = config.width.count > 1 or config.contiguous_row
    return is_reloaded and not has_vectors and problem.request.schedule.family != "rowwise"


def _capacity(config: RowConfig) -> int:
    """The elements of a row that are cached."""
    return sum(level.slots for level in config.levels) * config.stride


def _threads(problem: RowProblem, length: int, width: int) -> int:
    """Threads per row: a few elements each, as many as registers hold of a long row; half as many if fewer are idle."""
    has_wide_vectors = width >= NARROW_VECTOR_ELEMENTS
    min_elements = MIN_ELEMENTS_PER_THREAD * (2 if is_narrow(problem) else 1)
    per_thread = max(min_elements, width * MIN_ACCESSES_PER_THREAD * (2 if has_wide_vectors else 1))
    if length > 256 * per_thread:
        is_costly = has_costly_elements(problem.outputs, problem.column.name)
        half_block_length = MIN_LONG_ROW_ELEMENTS if is_costly else MIN_LONG_ROW_ELEMENTS // 2
        # A block of narrow elements computes for long; smaller blocks let another one's loads overlap with that.
        max_threads = 512 if is_narrow(problem) and length <= half_block_length else MAX_BLOCK_THREADS
        return min(max_threads, max(256, power_of_two(-(-length // MAX_ELEMENTS_PER_THREAD))))
    threads = power_of_two(-(-length // per_thread))
    padded = [-(-length // (count * width)) * count * width for count in (threads, threads // 2) if count]
    return threads if min(padded) == padded[0] else threads // 2
