"""The roofline on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cugen.analysis.launches.ceilings import Ceiling, Roofline
from cugen.analysis.launches.facts import Facts
from cugen.analysis.launches.roofline import bound
from cugen.html.environment import rate_text
from cugen.machine import Device
from cugen.machine.devices import unit_text

WIDTH, HEIGHT = 900, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 520, 16, 288  # of the plot
_LABEL_DISTANCE = 15  # between baselines of labels
_MARGIN = 4.0  # factor beyond the outermost point
_SHAPES = {"asked": "square", "moved": "circle", "compulsory": "triangle"}
_LEVELS = {"asked": "requested", "moved": "moved", "compulsory": "compulsory"}


@dataclass(frozen=True, slots=True)
class Roof:
    """A horizontal roof from `x` to the right edge at `y`; its label stands at `label_y`. `kind`: used, idle, other."""

    kind: str
    x: float
    y: float
    label: str
    label_y: float


@dataclass(frozen=True, slots=True)
class Point:
    """The launch at one level of traffic, on its roof."""

    shape: str
    level: str
    x: float
    y: float
    ceiling: Ceiling


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """Coordinates in an SVG of WIDTH × HEIGHT. `slope` is the roof of the bandwidth: x1, y1, x2, y2."""

    device: Device
    roofline: Roofline
    slope: tuple[float, float, float, float]
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis from `low` to `high`, powers of ten, over pixels."""

    low: float
    high: float
    first: float
    last: float

    @staticmethod
    def around(values: Iterable[float], first: float, last: float) -> _Axis:
        known = [value for value in values if 0 < value < math.inf]
        low = 10.0 ** math.floor(math.log10(min(known) / _MARGIN))
        return _Axis(low, 10.0 ** math.ceil(math.log10(max(known) * _MARGIN)), first, last)

    def pixel(self, value: float) -> float:
        share = math.log10(min(max(value, self.low), self.high) / self.low) / math.log10(self.high / self.low)
        return round(self.first + share * (self.last - self.first), 1)

    def decades(self) -> tuple[float, ...]:
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return tuple(10.0**power for power in range(first, last + 1))


def roofline_chart(facts: Facts, device: Device) -> RooflineChart | None:
    """The chart of a launch on its device; None without floating-point work or published rates."""
    roofline, work = facts.roofline, facts.work
    if roofline is None or work is None or not work.all_flop:
        return None
    intensities = [ceiling.intensity for ceiling in roofline.ceilings]
    ridges = [roofline.ridge, *(rate / device.bandwidth for _, rate in device.peaks)]
    x = _Axis.around([*intensities, *ridges], _LEFT, _RIGHT)
    peaks = [roofline.peak, *(rate for _, rate in device.peaks)]
    rates = [*peaks, *(ceiling.flop_per_s for ceiling in roofline.ceilings), x.low * device.bandwidth * _MARGIN]
    y = _Axis.around(rates, _BOTTOM, _TOP)
    points = tuple(
        Point(_SHAPES[c.name], _LEVELS[c.name], x.pixel(c.intensity), y.pixel(c.flop_per_s), c)
        for c in roofline.ceilings
    )
    start = max(x.low, y.low / device.bandwidth)
    end = max(peaks) / device.bandwidth
    slope = (x.pixel(start), y.pixel(bound(start, math.inf, device.bandwidth)), x.pixel(end), y.pixel(max(peaks)))
    return RooflineChart(
        device,
        roofline,
        slope,
        _roofs(roofline, device, x, y),
        points,
        tuple(Tick(x.pixel(value), f"{value:g}") for value in x.decades()),
        tuple(Tick(y.pixel(value), rate_text(value)) for value in y.decades()),
    )


def _roofs(roofline: Roofline, device: Device, x: _Axis, y: _Axis) -> tuple[Roof, ...]:
    """One roof for each rate of the device, those of the launch's units first, and labels that don't overlap."""
    by_rate: dict[float, list[str]] = {}
    for kind, rate in device.peaks:
        by_rate.setdefault(rate, []).append(kind)
    by_rate.setdefault(roofline.peak, list(roofline.units))
    roofs = []
    label_y = -math.inf
    for rate in sorted(by_rate, reverse=True):
        kind = "used" if rate == roofline.peak else "idle" if roofline.idle in by_rate[rate] else "other"
        label_y = max(y.pixel(rate) + 4, label_y + _LABEL_DISTANCE)
        label = f"{rate_text(rate)}, {_units(by_rate[rate])}"
        roofs.append(Roof(kind, x.pixel(rate / device.bandwidth), y.pixel(rate), label, label_y))
    return tuple(roofs)


def _units(kinds: list[str]) -> str:
    """`tensor cores (float16, bfloat16)`."""
    types: dict[str, list[str]] = {}
    for kind in kinds:
        unit, _, dtype = unit_text(kind).partition(" (")
        types.setdefault(unit, []).append(dtype.rstrip(")"))
    return ", ".join(f"{unit} ({', '.join(names)})" for unit, names in types.items())
