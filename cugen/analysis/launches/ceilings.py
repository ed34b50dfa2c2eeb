"""Roofline of a launch on a device: one ceiling per traffic level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cugen.analysis.launches.operations import Work
from cugen.analysis.launches.roofline import bound, intensity, is_memory_bound, ridge
from cugen.analysis.launches.traffic import Traffic
from cugen.machine import Device, target
from cugen.machine.bandwidth import shared_bandwidth, wavefront_bytes
from cugen.plan.kernel import IdleUnit


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Roofline bound for `memory_bytes` of traffic, of device memory or of a level nearer to the cores.

    `intensity` is in FLOP/B, `flop_per_s` the bound, `share` its fraction of the peak, also of an idle unit, `seconds`
    the minimum time.
    """

    name: str  # traffic level: asked (requested), moved or compulsory; or the memory
    memory_bytes: int
    intensity: float
    flop_per_s: float
    share: float
    is_memory_bound: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class OnChipLevel:
    """A memory nearer to the cores than device memory, with its bandwidth in B/s. `ceiling` is the bound for what the
    launch moves there: every sector from L2, without hits in L1, and all banks in each wavefront of shared memory. It
    moves more, if some accesses' part is unknown (`is_complete`)."""

    name: str  # L2 or shared memory
    bandwidth: float
    ceiling: Ceiling
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Roofline:
    """`peak` is in FLOP/s for the launch's mix of types, `bandwidth` in B/s, `ridge` in FLOP/B.

    Ceilings: `asked` for requested bytes without caches, `moved` for every sector from device memory, `compulsory` for
    every byte once, each with the constants once; the actual bound is between the last two. `moved` is missing if the
    sectors are unknown.

    `levels`: L2, where its bandwidth is published, and shared memory, where the launch uses them and what it moves is
    known at least in part.

    `units` are the types of arithmetic, keys of `Device.peaks`. `idle` names a unit with a higher `idle_peak` for the
    same types, `idle_reason` why the launch doesn't use it.
    """

    device: str
    peak: float
    bandwidth: float
    ridge: float
    ceilings: tuple[Ceiling, ...]
    units: tuple[str, ...] = ()
    idle: str = ""
    idle_peak: float = 0.0
    idle_reason: str = ""
    levels: tuple[OnChipLevel, ...] = ()

    @property
    def best(self) -> Ceiling:
        return self.ceilings[-1]


def roofline(
    done: Work, moved: Traffic, device: Device, wavefronts: Sequence[int | None], idle_unit: IdleUnit | None = None
) -> Roofline | None:
    """Roofline, or None if the device has no published rate for the launch's arithmetic. `wavefronts`: those of each
    access to shared memory, None if unknown."""
    rates = dict(device.peaks)
    if any(kind not in rates for kind, _ in done.flop):
        return None
    seconds = sum(count / rates[kind] for kind, count in done.flop)
    peak = done.all_flop / seconds if seconds else device.peak()
    sectors = None if moved.moved is None else moved.moved + moved.constant
    levels = (("asked", moved.requested + moved.constant), ("moved", sectors), ("compulsory", moved.compulsory))
    idle_peak = rates.get(idle_unit.peak, 0.0) if idle_unit is not None else 0.0
    if idle_unit is None or idle_peak <= peak:
        idle_unit, idle_peak = None, 0.0
    highest = max(peak, idle_peak)
    ceilings = tuple(
        _ceiling(name, count, done.all_flop, peak, highest, device.bandwidth)
        for name, count in levels
        if count is not None
    )
    in_shared = sum(filter(None, wavefronts)) * wavefront_bytes(target(device.target))
    on_chip = (
        ("L2", moved.moved, device.l2_bandwidth, True),
        ("shared memory", in_shared, shared_bandwidth(device), None not in wavefronts),
    )
    return Roofline(
        device.name,
        peak,
        device.bandwidth,
        ridge(peak, device.bandwidth),
        ceilings,
        tuple(kind for kind, _ in done.flop),
        idle_unit.peak if idle_unit else "",
        idle_peak,
        idle_unit.reason if idle_unit else "",
        tuple(
            OnChipLevel(name, bandwidth, _ceiling(name, count, done.all_flop, peak, highest, bandwidth), is_complete)
            for name, count, bandwidth, is_complete in on_chip
            if count and bandwidth
        ),
    )


def _ceiling(name: str, memory_bytes: int, flop: int, peak: float, highest: float, bandwidth: float) -> Ceiling:
    per_byte = intensity(flop, memory_bytes)
    rate = bound(per_byte, peak, bandwidth)
    return Ceiling(
        name,
        memory_bytes,
        per_byte,
        rate,
        rate / highest,
        is_memory_bound(per_byte, peak, bandwidth),
        max(flop / peak, memory_bytes / bandwidth),
    )
