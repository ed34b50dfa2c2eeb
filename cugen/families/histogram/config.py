"""Threads, rows and replicas of the counters of a histogram's blocks, by the schedule's tunables or by size."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.requests.banks import BANKS
from cugen.machine.requests.warp import WARP_SIZE
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.blocks import power_of_two
from cugen.pieces.keyed.problem import KeyedProblem
from cugen.pieces.vectors import MAX_ACCESS_BYTES, is_computed, widest_at
from cugen.plan.memory import ADDRESSED
from cugen.plan.request import Tunable
from cugen.spec.expressions import Read, free_indices

# Heuristics.
MAX_ROW_THREADS = 512
BLOCK_THREADS = 256  # of several rows
ELEMENTS_PER_THREAD = 8  # of a row, at least
COUNTER_BYTES = 8192  # of a block, up to which there are replicas
ELEMENTS_PER_COUNTER = 8  # of a row, at least, where counters are copied: each is zeroed and read
BYTES_IN_FLIGHT = 32  # per thread
MAX_UNROLL = 8
BLOCKS_PER_SM = 4
MIN_ELEMENTS_PER_PART = 1 << 12
MIN_ELEMENTS_PER_COUNTER = 16  # of a part: the second launch reads each

_POWERS = tuple(1 << power for power in range(6))
THREADS = Tunable("threads", (32, 64, 128, 256, 512, 1024), "by length", "threads per row of elements")
ROWS = Tunable("rows", _POWERS, "as fit", "rows of elements per block, each with its counters")
REPLICAS = Tunable("replicas", _POWERS, "as fit", "counters per bin, to which lanes add in turn")
VECTOR = Tunable("vector", (1, 2, 4, 8, 16), "widest", "elements per load; by default what alignment allows")
SPLIT_K = Tunable(
    "split_k",
    (1, *(1 << n for n in range(1, 13))),
    "as fill the device",
    "partial counts per bin, added up by a second launch; by default 1 where rows fill the device",
)
TUNABLES = (THREADS, ROWS, REPLICAS, VECTOR, SPLIT_K)


@dataclass(frozen=True, slots=True)
class HistogramConfig:
    """`threads` share a row, of which a thread loads `width` consecutive elements at once. A block has `rows` rows,
    with `replicas` counters for each bin."""

    threads: int
    rows: int
    replicas: int
    width: int
    unroll: int


def choose_config(problem: KeyedProblem) -> HistogramConfig:
    tunables = dict(problem.request.schedule.tunables)
    width = min(int(tunables.get("vector", MAX_ACCESS_BYTES)), widest(problem))
    elements = problem.planned_count(problem.reduced)
    length = max(problem.context.planned_extent(problem.fastest), 1)
    busy = power_of_two(-(-length // max(ELEMENTS_PER_THREAD, width)))
    threads = int(tunables.get("threads", max(WARP_SIZE, min(busy, MAX_ROW_THREADS))))
    bytes_per_row = problem.max_bin_count * problem.bin_bytes
    most_rows = min(max(BLOCK_THREADS // threads, 1), power_of_two(problem.planned_count(problem.rows)))
    while most_rows > 1 and most_rows * bytes_per_row > COUNTER_BYTES:
        most_rows //= 2
    rows = int(tunables.get("rows", most_rows))
    replicas = 1
    while (
        2 * replicas <= WARP_SIZE
        and 2 * replicas * rows * bytes_per_row <= COUNTER_BYTES
        and 2 * replicas * problem.bin_count * ELEMENTS_PER_COUNTER <= elements
    ):
        replicas *= 2
    replicas = int(tunables.get("replicas", replicas))
    element_bytes = max((problem.arrays[read.array].dtype.bytes for read in problem.reads()), default=1)
    trips = -(-length // (threads * width))
    unroll = max(1, min(trips, MAX_UNROLL, BYTES_IN_FLIGHT // (width * element_bytes)))
    return HistogramConfig(threads, rows, replicas, width, unroll)


def padding(problem: KeyedProblem, config: HistogramConfig) -> int:
    """Counters between those of two replicas, with which those of one counter are spread over all banks."""
    return 0 if config.replicas == 1 else (BANKS // config.replicas - problem.max_bin_count) % BANKS


def counter_bytes(problem: KeyedProblem, config: HistogramConfig) -> int:
    """The shared memory of a block."""
    bins = problem.max_bin_count + padding(problem, config)
    return config.rows * config.replicas * bins * problem.bin_bytes


def fits(problem: KeyedProblem, config: HistogramConfig) -> bool:
    """Whether a block of any target may have the counters."""
    return counter_bytes(problem, config) <= STATIC_SHARED_BYTES


def block_count(problem: KeyedProblem, config: HistogramConfig) -> int:
    """The blocks of all rows, or of all their parts."""
    return -(-problem.planned_count(problem.rows) // config.rows) * part_count(problem)


def part_count(problem: KeyedProblem) -> int:
    """Parts of each row; 1 where the rows fill the device, or where a part has too few elements."""
    split_k = dict(problem.request.schedule.tunables).get("split_k")
    if split_k is not None:
        return int(split_k)
    blocks = BLOCKS_PER_SM * PLANNING_DEVICE.sms
    rows, elements = problem.planned_count(problem.rows), problem.planned_count(problem.reduced)
    minimum = max(MIN_ELEMENTS_PER_PART, MIN_ELEMENTS_PER_COUNTER * problem.bin_count)
    return max(min(blocks // max(rows, 1), elements // minimum), 1)


def vector_reads(problem: KeyedProblem) -> tuple[Read, ...]:
    """The reads of consecutive elements along the fastest index, which vectors may load."""
    along = problem.fastest.name
    return tuple(
        read
        for read in problem.reads()
        if along in free_indices(read)
        and read.boundary is None
        and not read.exact
        and not any(map(is_computed, read.subscripts))
        and problem.arrays[read.array].space in ADDRESSED
        and widest_at(problem.arrays[read.array], read.subscripts, along, problem.context).count > 1
    )


def widest(problem: KeyedProblem) -> int:
    """Elements of the widest loads that all of them allow."""
    along, context = problem.fastest.name, problem.context
    reads = vector_reads(problem)
    return min((widest_at(problem.arrays[r.array], r.subscripts, along, context).count for r in reads), default=1)
