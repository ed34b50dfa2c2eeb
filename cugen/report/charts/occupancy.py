"""Resident warps of an SM by each resource of a kernel, the others as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cugen.analysis.launches.launch import OccupancyFacts
from cugen.machine import Target
from cugen.machine.occupancy import occupancy
from cugen.machine.requests.warp import WARP_SIZE

WIDTH, HEIGHT = 230, 118
_LEFT, _RIGHT, _TOP, _BOTTOM = 30, 222, 10, 84
_SHARED_STEPS = 256


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the chart, with its figures."""

    x: float
    y: float
    value: int
    warps: int


@dataclass(frozen=True, slots=True)
class StepChart:
    """Warps per SM over a `resource` up to `maximum`, as an SVG path. `now` is the kernel, `next` the next step;
    `is_estimated` if the kernel's figure is one of the plan."""

    resource: str
    maximum: int
    max_warps: int
    path: str
    now: Point
    next: Point | None
    is_estimated: bool = False
    left: int = _LEFT
    right: int = _RIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


def occupancy_charts(facts: OccupancyFacts, target: Target, estimate: int) -> tuple[StepChart, ...]:
    """The charts of registers, shared memory and threads. `estimate` stands in for unknown registers; the other
    charts then have no limit by registers, as the figures of the analysis have none."""
    registers = 1 if facts.registers is None else facts.registers
    threads, shared, step = facts.threads, facts.shared_bytes, facts.next_step

    def chart(resource: str, values: range, warps: Callable[[int], int], now: int, following: int | None) -> StepChart:
        maximum = values[-1]

        def point(value: int) -> Point:
            return Point(_x(value, maximum), _y(warps(value), target), value, warps(value))

        path = _path([(value, warps(value)) for value in values], maximum, target)
        is_estimated = resource == "registers per thread" and facts.registers is None
        higher = point(following) if following is not None and following < now else None
        return StepChart(resource, maximum, target.warps_per_sm, path, point(now), higher, is_estimated)

    max_shared = max(target.shared_opt_in, 1)
    shared_values = range(0, max_shared + 1, max(1, max_shared // _SHARED_STEPS))
    used = estimate if facts.registers is None else registers
    return (
        chart(
            "registers per thread",
            range(1, target.registers_per_thread + 1),
            lambda value: occupancy(target, threads, value, shared).warps_per_sm,
            used,
            None if step is None or facts.registers is None else step.registers,
        ),
        chart(
            "shared bytes per block",
            shared_values,
            lambda value: occupancy(target, threads, registers, value).warps_per_sm,
            shared,
            None if step is None else step.shared_bytes,
        ),
        chart(
            "threads per block",
            range(WARP_SIZE, target.threads_per_block + 1, WARP_SIZE),
            lambda value: occupancy(target, value, registers, shared).warps_per_sm,
            threads,
            None,
        ),
    )


def _path(values: list[tuple[int, int]], maximum: int, target: Target) -> str:
    """A line of steps: each value holds up to the next one."""
    (first, warps), *others = values
    parts = [f"M{_x(first, maximum)} {_y(warps, target)}"]
    for value, number in others:
        if number != warps:
            parts.append(f"H{_x(value, maximum)}V{_y(number, target)}")
            warps = number
    return "".join([*parts, f"H{_x(maximum, maximum)}"])


def _x(value: int, maximum: int) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * min(value, maximum) / maximum, 1)


def _y(warps: int, target: Target) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * warps / target.warps_per_sm, 1)
