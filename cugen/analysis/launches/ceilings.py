"""The roofs over a launch on a device: what its memory and its arithmetic allow at best."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.analysis.launches.operations import Work
from cugen.analysis.launches.roofline import bound, intensity, is_memory_bound, ridge
from cugen.analysis.launches.traffic import Traffic
from cugen.machine import Device


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The roof if `memory_bytes` pass between the device and its memory.

    `intensity` is in FLOP/B, `flop_per_s` what it allows, `share` that of the peak; `seconds` the least time.
    """

    name: str  # asked, moved or compulsory: whose bytes
    memory_bytes: int
    intensity: float
    flop_per_s: float
    share: float
    is_memory_bound: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """`peak` is in FLOP/s, of float32 and float64 as the launch mixes them; `bandwidth` in B/s, `ridge` in FLOP/B.

    `asked` holds where nothing is cached, `moved` where each sector comes from memory each time, `compulsory` where
    every byte comes once: the true roof lies between the last two. `moved` is missing where sectors aren't known.
    """

    device: str
    peak: float
    bandwidth: float
    ridge: float
    ceilings: tuple[Ceiling, ...]

    @property
    def best(self) -> Ceiling:
        return self.ceilings[-1]


def roofline(done: Work, moved: Traffic, device: Device) -> Roofline | None:
    """None where the device has no published rate for the launch's arithmetic."""
    rates = dict(device.peaks)
    if any(kind not in rates for kind, _ in done.flop):
        return None
    seconds = sum(count / rates[kind] for kind, count in done.flop)
    peak = done.all_flop / seconds if seconds else device.peak()
    levels = (("asked", moved.asked), ("moved", moved.moved), ("compulsory", moved.compulsory))
    ceilings = tuple(
        _ceiling(name, count, done.all_flop, peak, device.bandwidth) for name, count in levels if count is not None
    )
    return Roofline(device.name, peak, device.bandwidth, ridge(peak, device.bandwidth), ceilings)


def _ceiling(name: str, memory_bytes: int, flop: int, peak: float, bandwidth: float) -> Ceiling:
    per_byte = intensity(flop, memory_bytes)
    rate = bound(per_byte, peak, bandwidth)
    return Ceiling(
        name,
        memory_bytes,
        per_byte,
        rate,
        rate / peak,
        is_memory_bound(per_byte, peak, bandwidth),
        max(flop / peak, memory_bytes / bandwidth),
    )
