"""Schedules of other devices, with which a search starts: those of the nearest device first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence

from cugen.machine import Device, UnknownDevice, device
from cugen.schedule.lock import Entry, Schedules


def schedules_of(entries: Sequence[Entry], name: str) -> Iterator[Schedules]:
    """The explicit schedules of the entries for a device."""
    for entry in entries:
        if entry.device == name:
            known = [entry.schedules, *(entry.runner_up[:1] if entry.runner_up else ())]
            yield from (schedules for schedules in known if schedules)


def others_by_distance(entries: Sequence[Entry], name: str) -> list[str]:
    """The other devices of the entries, the nearest to a device first."""
    return nearest_first({entry.device for entry in entries} - {name}, name)


def nearest_first(names: Iterable[str], name: str) -> list[str]:
    """Devices, the nearest to one first, those without figures last."""
    return sorted(sorted(names), key=lambda candidate: distance(name, candidate))


def distance(first: str, second: str) -> float:
    """Distance between two devices: the sum of the logarithms of the ratios of their figures; infinite where a device
    is unknown."""
    known = [known_device(name) for name in (first, second)]
    if known[0] is None or known[1] is None:
        return math.inf
    figures = [_figures(known[0]), _figures(known[1])]
    common = figures[0].keys() & figures[1].keys()
    return sum(abs(math.log(figures[0][name] / figures[1][name])) for name in sorted(common))


def known_device(name: str) -> Device | None:
    """A device by the name that the driver gives, such as `NVIDIA H100 80GB HBM3`, of which the table has the first
    words."""
    while name:
        try:
            return device(name)
        except UnknownDevice:
            name = re.sub(r"[\s-]*[^\s-]*$", "", name)
    return None


def _figures(known: Device) -> dict[str, float]:
    """SMs, bandwidth, L2 and peak rates."""
    figures = {"sms": float(known.sms), "bandwidth": known.bandwidth, "l2": float(known.l2_bytes), **dict(known.peaks)}
    return {name: figure for name, figure in figures.items() if figure}
