"""Rows of narrow elements that a block has in shared memory: its threads, and the blocks that share a multiprocessor.

While one of the blocks reduces, the others load and store. Values in registers would leave room for fewer of them."""

from __future__ import annotations

from cugen.machine import Target
from cugen.machine.occupancy import occupancy
from cugen.pieces.blocks import power_of_two

# Heuristics, tuned on H200.
MAX_REGISTER_ELEMENTS = 8192  # of a row that registers have as it is loaded
ELEMENTS_PER_THREAD = 40
MAX_THREADS = 1024
MAX_PADDING = 1 / 8  # of the vectors of such a block, more than half as many threads would have
REGISTERS = 40  # per thread, if two blocks leave as many
DEFERRABLE_REGISTERS = 14  # of these kernels' estimated ones, by which ptxas stays without spills (nvcc 13.0)


def max_threads(target: Target) -> int:
    """The most threads per block of which two blocks fit a multiprocessor."""
    return MAX_THREADS if target.threads_per_sm >= 2 * MAX_THREADS else MAX_THREADS // 2


def threads_of_row(length: int, width: int, target: Target) -> int:
    """Threads of a block that has a row of `length` elements, in vectors of `width`."""
    threads = min(power_of_two(-(-length // ELEMENTS_PER_THREAD)), max_threads(target))
    if threads < MAX_THREADS:
        return threads
    padded, of_half = (-(-length // (count * width)) * count for count in (threads, threads // 2))
    return threads if padded <= (1 + MAX_PADDING) * of_half else threads // 2


def blocks_per_multiprocessor(target: Target, threads: int, shared_bytes: int) -> int:
    """The blocks for which a thread's registers are limited: at least two, which fit by their shared memory."""
    return max(occupancy(target, threads, REGISTERS, shared_bytes).blocks_per_sm, 2)
