"""Arithmetic intensity, the roofline of a device, and the parallelism that hides latency.

Sources: Williams, Waterman and Patterson, "Roofline" (CACM 52, 2009); Little's law; CUDA programming guide 4.2, 5.2.3
(multiprocessor level).
"""

from __future__ import annotations

import math


def intensity(flop: float, memory_bytes: float) -> float:
    """FLOP per byte of memory traffic; a kernel without traffic has infinite intensity."""
    return flop / memory_bytes if memory_bytes else math.inf


def ridge(peak: float, bandwidth: float) -> float:
    """The intensity (FLOP/B) from which on the peak (FLOP/s) is the limit and not the bandwidth (B/s)."""
    return peak / bandwidth


def bound(flop_per_byte: float, peak: float, bandwidth: float) -> float:
    """The most FLOP/s at an intensity: the lower of the peak and bandwidth times intensity."""
    return min(peak, flop_per_byte * bandwidth)


def is_memory_bound(flop_per_byte: float, peak: float, bandwidth: float) -> bool:
    """Whether the memory and not the arithmetic is the limit."""
    return flop_per_byte < ridge(peak, bandwidth)


def bandwidth_for(flop_per_s: float, flop_per_byte: float) -> float:
    """The bytes per second that a rate of arithmetic takes at an intensity."""
    return flop_per_s / flop_per_byte


def warps_to_hide(latency: int, instructions_between: float, cycles_each: int) -> int:
    """Warps per scheduler that keep it busy while one waits `latency` cycles for memory.

    Each warp issues `instructions_between` instructions per load, of `cycles_each` cycles.
    """
    return math.ceil(latency / (instructions_between * cycles_each))


def bytes_in_flight(bandwidth: float, latency: float) -> float:
    """Bytes that must be under way at once to use a bandwidth (B/s, or B/cycle) at a latency (s, or cycles).

    Little's law; divided by the number of SMs it is the share of each.
    """
    return bandwidth * latency
