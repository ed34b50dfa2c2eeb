"""Threads, columns and bins of the blocks of reductions by key, by the schedule's tunables or by the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.grouped.recognition import column_of, widest
from cugen.machine.devices import PLANNING_DEVICE, Device
from cugen.machine.latency import BLOCK_START_CYCLES, EMPTY_LAUNCH_SECONDS, memory_latency
from cugen.machine.requests.warp import WARP_SIZE
from cugen.machine.table import target
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.pieces.blocks import power_of_two
from cugen.pieces.grid import divides
from cugen.pieces.keyed.comparisons import comparison_seconds
from cugen.pieces.keyed.problem import KeyedProblem
from cugen.plan.request import Tunable
from cugen.spec.expressions import free_indices, walk

TESTED_KEYS = 64  # of a chunk, of which each lane of a warp tests some
MAX_IN_FLIGHT = 16  # elements that a thread loads ahead
MIN_ELEMENTS_PER_LANE = 16  # of a part
MIN_ELEMENTS_PER_BIN = 2  # of a part: the second launch reads each

# Heuristics of the model, by times on an H200: warp instructions of an element, of an update and of the test of a key
# in a batch, and cycles from an update to the next one.
ELEMENT_INSTRUCTIONS, UPDATE_INSTRUCTIONS, TEST_INSTRUCTIONS = 6, 4, 5
UPDATE_CYCLES = 45
TEST_CYCLES = 40
WARP_TEST_INSTRUCTIONS, WARP_TEST_CYCLES = 1, 4  # of a key that a lane tests for its warp (not measured)
LOADED_LATENCY = 2  # of memory under load, relative to that of one access
L2_TO_MEMORY_RATIO = 2.0  # of what is read again for the blocks of further bins

_POWERS = tuple(1 << power for power in range(14))
THREADS = Tunable("threads", (32, 64, 128, 256, 512), "by the model", "threads per block")
BINS = Tunable("bins", _POWERS, "by the model", "bins per block, the others are those of further blocks")
VECTOR = Tunable("vector", (1, 2, 4), "widest", "columns per thread; by default what alignment allows")
SPLIT_K = Tunable(
    "split_k",
    (1, *(1 << n for n in range(1, 13))),
    "as fill the device",
    "partial results per bin, combined by a second launch",
)
TUNABLES = (THREADS, BINS, VECTOR, SPLIT_K)


@dataclass(frozen=True, slots=True)
class GroupedConfig:
    """A block has `bins` bins, and `threads` threads along the columns with `width` adjacent ones each, times `lanes`
    along the elements, of which a lane takes every `lanes`-th, and loads the keys of a `batch` at once. Values are
    `loaded_ahead` of the tests of their keys, or only those of the block's bins."""

    threads: int
    lanes: int
    width: int
    bins: int
    batch: int
    loaded_ahead: bool

    @property
    def block_threads(self) -> int:
        return self.threads * self.lanes


def choose_config(problem: KeyedProblem) -> GroupedConfig:
    """The config that takes the least time by the model, of several the one with the most bins, the fewest blocks and
    the fewest bytes; the schedule's tunables are kept."""

    def price(config: GroupedConfig) -> tuple[float, int, int, float]:
        parts = part_count(problem, config)
        blocks = block_count(problem, config) * parts
        return seconds(problem, config, parts), -config.bins, blocks, _bytes(problem, config)

    configs = list(_configs(problem))
    return min([config for config in configs if fits(problem, config)] or configs, key=price)


def _configs(problem: KeyedProblem) -> Iterator[GroupedConfig]:
    tunables = dict(problem.request.schedule.tunables)
    column = column_of(problem)
    columns = problem.context.planned_extent(column) if column else 1
    fixed = tunables.get("vector")
    widths = (int(fixed),) if fixed is not None else tuple(w for w in (1, 2, 4) if w <= widest(problem, column))
    for block_threads in (int(tunables["threads"]),) if "threads" in tunables else THREADS.values:
        for width in widths:
            threads = min(power_of_two(-(-columns // width)), int(block_threads))
            fitting = max(STATIC_SHARED_BYTES // (int(block_threads) * width * problem.bin_bytes), 1)
            ranges = -(-problem.bin_count // fitting)
            bins = (
                min(int(tunables["bins"]), problem.bin_count) if "bins" in tunables else -(-problem.bin_count // ranges)
            )
            lanes = int(block_threads) // threads
            yield GroupedConfig(threads, lanes, width, max(bins, 1), MAX_IN_FLIGHT // width, loaded_ahead=True)
            if bins < problem.bin_count:
                yield GroupedConfig(threads, lanes, width, max(bins, 1), MAX_IN_FLIGHT, loaded_ahead=False)


def shared_bytes(problem: KeyedProblem, config: GroupedConfig) -> int:
    """Of the accumulators of a block."""
    return config.bins * config.block_threads * config.width * problem.bin_bytes


def fits(problem: KeyedProblem, config: GroupedConfig) -> bool:
    """Whether a block of any target may have the accumulators."""
    return shared_bytes(problem, config) <= STATIC_SHARED_BYTES


def block_count(problem: KeyedProblem, config: GroupedConfig) -> int:
    """The blocks of all bins, columns and rows, without parts."""
    column = column_of(problem)
    tiles = -(-problem.context.planned_extent(column) // (config.threads * config.width)) if column else 1
    rows = problem.planned_count(tuple(index for index in problem.rows if index != column))
    return -(-problem.bin_count // config.bins) * tiles * max(rows, 1)


def resident_blocks(problem: KeyedProblem, config: GroupedConfig, device: Device) -> int:
    """Blocks that a multiprocessor has at once."""
    row = target(device.target)
    shared = row.shared_per_sm // max(shared_bytes(problem, config) + row.shared_reserved, 1)
    return max(min(shared, row.threads_per_sm // config.block_threads, row.blocks_per_sm), 1)


def part_count(problem: KeyedProblem, config: GroupedConfig) -> int:
    """Parts of the elements with which all launches take the least time; 1 where the blocks fill the device."""
    split_k = dict(problem.request.schedule.tunables).get("split_k")
    if split_k is not None:
        return int(split_k)
    device = PLANNING_DEVICE
    elements = problem.planned_count(problem.reduced)
    minimum = max(MIN_ELEMENTS_PER_LANE * config.lanes, MIN_ELEMENTS_PER_BIN * problem.bin_count, 1)
    wave = device.sms * resident_blocks(problem, config, device)
    parts = max(min(wave // block_count(problem, config), elements // minimum), 1)
    return min((max(parts >> shift, 1) for shift in range(4)), key=lambda count: seconds(problem, config, count))


def seconds(problem: KeyedProblem, config: GroupedConfig, parts: int) -> float:
    """The time of all launches by the rates of the device that is planned for, with keys spread evenly over the
    bins."""
    device = PLANNING_DEVICE
    latency = memory_latency(device)
    blocks = block_count(problem, config) * parts
    elements = -(-problem.planned_count(problem.reduced) // parts)
    warps = -(-config.block_threads // WARP_SIZE)
    accumulators = config.width * len(problem.terms)
    visits = -(-elements // config.lanes)
    update, latency_cycles = UPDATE_CYCLES + 2 * accumulators, LOADED_LATENCY * latency.cycles
    instructions: float
    if config.loaded_ahead:
        instructions = visits * (ELEMENT_INSTRUCTIONS + UPDATE_INSTRUCTIONS * accumulators)
        cycles = visits * (latency_cycles / config.batch + update)
    else:  # a batch with a key of the block's bins tests each of its elements
        kept, updated = updated_share(problem, config, config.batch), updated_share(problem, config)
        tested = ELEMENT_INSTRUCTIONS + updated * UPDATE_INSTRUCTIONS * accumulators
        instructions = visits * (TEST_INSTRUCTIONS + kept * tested)
        cycles = visits * (TEST_CYCLES + kept * UPDATE_CYCLES + updated * (update + latency_cycles))
        if tests_warps(problem, config):
            skipped = 1 - updated_share(problem, config, TESTED_KEYS)
            instructions += visits * (WARP_TEST_INSTRUCTIONS - skipped * TEST_INSTRUCTIONS)
            cycles += visits * (WARP_TEST_CYCLES - skipped * TEST_CYCLES)
    instructions += 4 * config.bins * accumulators  # to begin and to combine the accumulators
    cycles += 6 * config.bins * accumulators
    resident = min(resident_blocks(problem, config, device), -(-blocks // device.sms))
    issued = resident * warps * instructions * latency.issue_cycles / latency.schedulers
    waves = math.ceil(blocks / (device.sms * resident))
    computed = waves * max(issued, cycles) / latency.clock
    moved = _bytes(problem, config) / (device.bandwidth * _bandwidth_share(problem, config, blocks, resident))
    results = problem.planned_count(problem.rows) * problem.bin_count * problem.bin_bytes
    second = EMPTY_LAUNCH_SECONDS + 2 * parts * results / device.bandwidth if parts > 1 else 0.0
    started = blocks * BLOCK_START_CYCLES / latency.clock
    return max(computed, moved, started, EMPTY_LAUNCH_SECONDS) + second


def _bandwidth_share(problem: KeyedProblem, config: GroupedConfig, blocks: int, resident: int) -> float:
    """Of the memory's bandwidth, by the multiprocessors that have a block and the bytes that these load ahead."""
    device = PLANNING_DEVICE
    saturating = memory_latency(device).saturating_bytes
    element = sum(problem.arrays[read.array].dtype.bytes for read in problem.reads())
    ahead = resident * config.block_threads * config.batch * element * (config.width if config.loaded_ahead else 1)
    return min(blocks / device.sms, 1.0) * min(ahead / saturating if saturating else 1.0, 1.0)


def tests_warps(problem: KeyedProblem, config: GroupedConfig) -> bool:
    """Whether the lanes of a warp test different keys: all of them have one element at once, and few are those of the
    block's bins."""
    column, context = column_of(problem), problem.context
    columns = None if column is None else context.extent(column)
    is_whole = columns is not None and divides(config.threads * config.width, columns, context)
    has_warps = is_whole and config.lanes == 1 and config.threads % WARP_SIZE == 0
    return has_warps and not config.loaded_ahead and len(problem.bins) == 1


def updated_share(problem: KeyedProblem, config: GroupedConfig, batch: int = 1) -> float:
    """Of a warp's batches, those that have a key of the block's bins: a warp has several elements at once where it has
    few columns."""
    elements = batch * max(WARP_SIZE // config.threads, 1)
    return 1 - (1 - config.bins / problem.bin_count) ** elements


def _bytes(problem: KeyedProblem, config: GroupedConfig) -> float:
    """Of device memory: what is read again for further bins is counted by the rate of the cache, and what all elements
    of a row share once for each row."""
    ranges = -(-problem.bin_count // config.bins)
    points = problem.planned_count((*problem.rows, *problem.reduced))
    column = column_of(problem)
    columns = problem.context.planned_extent(column) if column else 1
    rows, reduced = problem.planned_count(problem.rows), {index.name for index in problem.reduced}
    keys = {node for term in problem.terms for part in (*term.keys, *term.conditions) for node in walk(part)}
    again = (ranges - 1) / L2_TO_MEMORY_RATIO
    total = 0.0
    for read in problem.reads():
        free = free_indices(read)
        count = (points if free & reduced else rows) / (1 if column is None or column.name in free else columns)
        share = 1.0 if config.loaded_ahead or read in keys else updated_share(problem, config)
        total += count * problem.arrays[read.array].dtype.bytes * (1 + share * again)
    return total


def pays(problem: KeyedProblem, config: GroupedConfig) -> bool:
    """Whether it takes less time than comparing the key of each element with each bin, a vector of columns at once, for
    which all elements are read once for each bin."""
    device = PLANNING_DEVICE
    points = problem.planned_count((*problem.rows, *problem.reduced))
    comparisons = points * problem.bin_count * len(problem.terms) / widest(problem, column_of(problem))
    by_comparisons = comparison_seconds(comparisons)
    read = _bytes(problem, replace(config, bins=1, loaded_ahead=True)) / device.bandwidth
    return seconds(problem, config, part_count(problem, config)) < max(by_comparisons, read, EMPTY_LAUNCH_SECONDS)
