"""The roofline on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cugen.analysis.launches.ceilings import Ceiling, Roofline
from cugen.analysis.launches.facts import Facts
from cugen.html.environment import bytes_text, rate_text
from cugen.machine import Device
from cugen.machine.devices import unit_text

WIDTH, HEIGHT = 900, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 520, 16, 288  # of the plot
_LABEL_DISTANCE = 15  # between baselines of labels
_MARGIN = 4.0  # factor beyond the outermost point
_SHAPES = {"asked": "square", "moved": "circle", "compulsory": "triangle", "L2": "diamond", "shared memory": "cross"}
_LEVELS = {"asked": "requested"}  # words for the names of ceilings, where they aren't these


@dataclass(frozen=True, slots=True)
class Roof:
    """A horizontal roof from `x` to the right edge at `y`; its label stands at `label_y`. `kind`: used, idle, other."""

    kind: str
    x: float
    y: float
    label: str
    label_y: float


@dataclass(frozen=True, slots=True)
class Slope:
    """The roof of a memory's bandwidth, from `x1`, `y1` up to `x2`, `y2`. Its label is turned by `angle`, and begins
    where the roof does or ends where it does (`at_end`)."""

    kind: str  # used: device memory; level: one nearer to the cores
    label: str
    x1: float
    y1: float
    x2: float
    y2: float
    at_end: bool

    @property
    def angle(self) -> float:
        return round(math.degrees(math.atan2(self.y2 - self.y1, self.x2 - self.x1)), 1)


@dataclass(frozen=True, slots=True)
class Point:
    """The launch at one level of traffic, on its roof. `prefix`: of its bytes."""

    shape: str
    level: str
    x: float
    y: float
    ceiling: Ceiling
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    position: float
    label: str


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """Coordinates in an SVG of WIDTH × HEIGHT. The first of the `slopes` is that of device memory."""

    device: Device
    roofline: Roofline
    slopes: tuple[Slope, ...]
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
    ceilings = [*roofline.ceilings, *(level.ceiling for level in roofline.levels)]
    bandwidths = {"device memory": device.bandwidth, **{level.name: level.bandwidth for level in roofline.levels}}
    peaks = [roofline.peak, *(rate for _, rate in device.peaks)]
    ridges = [rate / device.bandwidth for rate in peaks]
    x = _Axis.around([*(ceiling.intensity for ceiling in ceilings), *ridges], _LEFT, _RIGHT)
    rates = [*peaks, *(ceiling.flop_per_s for ceiling in ceilings), x.low * device.bandwidth * _MARGIN]
    y = _Axis.around(rates, _BOTTOM, _TOP)
    incomplete = {level.name for level in roofline.levels if not level.is_complete}
    points = tuple(_point(ceiling, x, y, "at least " if ceiling.name in incomplete else "") for ceiling in ceilings)
    return RooflineChart(
        device,
        roofline,
        tuple(_slope(name, bandwidth, max(peaks), x, y, points) for name, bandwidth in bandwidths.items()),
        _roofs(roofline, device, max(bandwidths.values()), x, y),
        points,
        tuple(Tick(x.pixel(value), f"{value:g}") for value in x.decades()),
        tuple(Tick(y.pixel(value), rate_text(value)) for value in y.decades()),
    )


def _point(ceiling: Ceiling, x: _Axis, y: _Axis, prefix: str) -> Point:
    level = _LEVELS.get(ceiling.name, ceiling.name)
    return Point(_SHAPES[ceiling.name], level, x.pixel(ceiling.intensity), y.pixel(ceiling.flop_per_s), ceiling, prefix)


def _slope(name: str, bandwidth: float, peak: float, x: _Axis, y: _Axis, points: tuple[Point, ...]) -> Slope:
    """The slope of a memory; its label is where it is further from the points."""
    start = max(x.low, y.low / bandwidth)
    kind = "used" if name == "device memory" else "level"
    label = f"{name}, {bytes_text(round(bandwidth))}/s"
    first, last = (x.pixel(start), y.pixel(start * bandwidth)), (x.pixel(peak / bandwidth), y.pixel(peak))
    from_first, from_last = (min(math.dist(end, (point.x, point.y)) for point in points) for end in (first, last))
    return Slope(kind, label, *first, *last, at_end=from_last > from_first)


def _roofs(roofline: Roofline, device: Device, bandwidth: float, x: _Axis, y: _Axis) -> tuple[Roof, ...]:
    """One roof for each rate of the device, from the slope of a `bandwidth` on, and labels that don't overlap."""
    by_rate: dict[float, list[str]] = {}
    for kind, rate in device.peaks:
        by_rate.setdefault(rate, []).append(kind)
    used = next((rate for rate in by_rate if math.isclose(rate, roofline.peak)), roofline.peak)
    by_rate.setdefault(used, list(roofline.units))
    roofs = []
    label_y = -math.inf
    for rate in sorted(by_rate, reverse=True):
        kind = "used" if rate == used else "idle" if roofline.idle in by_rate[rate] else "other"
        label_y = max(y.pixel(rate) + 4, label_y + _LABEL_DISTANCE)
        label = f"{rate_text(rate)}, {_units(by_rate[rate])}"
        roofs.append(Roof(kind, x.pixel(rate / bandwidth), y.pixel(rate), label, label_y))
    return tuple(roofs)


def _units(kinds: list[str]) -> str:
    """`tensor cores (float16, bfloat16)`."""
    types: dict[str, list[str]] = {}
    for kind in kinds:
        unit, _, dtype = unit_text(kind).partition(" (")
        types.setdefault(unit, []).append(dtype.rstrip(")"))
    return ", ".join(f"{unit} ({', '.join(names)})" for unit, names in types.items())
