"""Model of what a histogram costs: atomics in shared memory against a comparison for each bin.

How many lanes of a warp add to one bank depends on data; here keys are spread evenly over the bins.
"""

from __future__ import annotations

import math
from functools import lru_cache

from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.latency import EMPTY_LAUNCH_SECONDS, memory_latency
from cugen.machine.requests.banks import BANKS
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.keyed.comparisons import comparison_seconds
from cugen.pieces.keyed.problem import KeyedProblem


@lru_cache(maxsize=64)
def atomic_wavefronts(counters: int) -> float:
    """Expected wavefronts of a warp's atomic addition to counters that are drawn evenly: the most lanes at one bank."""
    banks = min(counters, BANKS)
    return sum(1 - _chance_of_at_most(limit, banks) for limit in range(WARP_SIZE))


def _chance_of_at_most(limit: int, banks: int) -> float:
    """The probability that of 32 lanes no more than `limit` add to one of so many banks."""
    ways = [1.0] + [0.0] * WARP_SIZE  # of so many lanes to the banks so far, divided by the factorial of the lanes
    for _ in range(banks):
        ways = [
            sum(ways[total - count] / math.factorial(count) for count in range(min(limit, total) + 1))
            for total in range(WARP_SIZE + 1)
        ]
    return ways[WARP_SIZE] * math.factorial(WARP_SIZE) / float(banks) ** WARP_SIZE


def pays(problem: KeyedProblem, replicas: int, blocks: int) -> bool:
    """Whether atomics of so many blocks take less than a comparison of each element with each bin, by the rates of the
    device that is planned for."""
    device = PLANNING_DEVICE
    latency = memory_latency(device)
    elements = problem.planned_count((*problem.rows, *problem.reduced))
    wavefronts = len(problem.terms) * elements / WARP_SIZE * atomic_wavefronts(problem.bin_count * replicas)
    by_atomics = wavefronts / (max(min(blocks, device.sms), 1) * latency.clock)
    comparisons = elements * problem.bin_count * sum(len(term.keys) for term in problem.terms)
    by_comparisons = comparison_seconds(comparisons)
    read = sum(problem.arrays[read.array].dtype.bytes for read in problem.reads()) * elements / device.bandwidth
    return max(by_atomics, read, EMPTY_LAUNCH_SECONDS) < max(by_comparisons, read, EMPTY_LAUNCH_SECONDS)
