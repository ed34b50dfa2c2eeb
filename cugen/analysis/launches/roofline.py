"""Arithmetic intensity, the roofline of a device, and the parallelism needed to hide latency.

Sources: Williams, Waterman and Patterson, "Roofline" (CACM 52, 2009); Little's law; CUDA programming guide 4.2, 5.2.3
(multiprocessor level).
"""

from __future__ import annotations

import math


def intensity(flop: float, memory_bytes: float) -> float:
    """Arithmetic intensity in FLOP/B; infinite without memory traffic."""
    return flop / memory_bytes if memory_bytes else math.inf


def ridge(peak: float, bandwidth: float) -> float:
    """Ridge point: the intensity (FLOP/B) at which peak (FLOP/s) and bandwidth (B/s) bounds meet."""
    return peak / bandwidth


def bound(flop_per_byte: float, peak: float, bandwidth: float) -> float:
    """Roofline bound in FLOP/s: min(peak, bandwidth · intensity)."""
    return min(peak, flop_per_byte * bandwidth)


def is_memory_bound(flop_per_byte: float, peak: float, bandwidth: float) -> bool:
    """Whether the intensity is below the ridge point."""
    return flop_per_byte < ridge(peak, bandwidth)


def bandwidth_for(flop_per_s: float, flop_per_byte: float) -> float:
    """Bandwidth (B/s) needed for a FLOP/s rate at an intensity."""
    return flop_per_s / flop_per_byte


def warps_to_hide(latency: int, instructions_between: float, cycles_each: int) -> int:
    """Warps per scheduler that hide a memory latency in cycles.

    Each warp issues `instructions_between` instructions per load, at `cycles_each` cycles.
    """
    return math.ceil(latency / (instructions_between * cycles_each))


def bytes_in_flight(bandwidth: float, latency: float) -> float:
    """Bytes in flight that sustain a bandwidth (B/s, or B/cycle) at a latency (s, or cycles): Little's law.

    For the whole device; divide by the number of SMs.
    """
    return bandwidth * latency
