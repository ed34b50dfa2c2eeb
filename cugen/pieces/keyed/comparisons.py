"""The price of what reductions by key avoid: a comparison of each element with each bin."""

from __future__ import annotations

from cugen.machine.devices import PLANNING_DEVICE
from cugen.machine.latency import issue_rate
from cugen.machine.requests.warp import WARP_SIZE

# A comparison, its conversion and the addition (heuristic); loads are shared by several bins.
COMPARISON_INSTRUCTIONS = 3


def comparison_seconds(comparisons: float) -> float:
    """Seconds of so many comparisons, by the issue rate of the device that is planned for."""
    return comparisons / WARP_SIZE * COMPARISON_INSTRUCTIONS / issue_rate(PLANNING_DEVICE)
