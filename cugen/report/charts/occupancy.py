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
class Spot:
    """A point of the chart, with its figures."""

    x: float
    y: float
    value: int
    warps: int


@dataclass(frozen=True, slots=True)
class StepChart:
    """Warps per SM over a `resource` up to `most`, as an SVG path. `now` is the kernel, `next` the next step;
    `is_estimated` if the kernel's figure is one of the plan."""

    resource: str
    most: int
    max_warps: int
    path: str
    now: Spot
    next: Spot | None
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
        most = values[-1]

        def spot(value: int) -> Spot:
            return Spot(_x(value, most), _y(warps(value), target), value, warps(value))

        path = _path([(value, warps(value)) for value in values], most, target)
        is_estimated = resource == "registers per thread" and facts.registers is None
        higher = spot(following) if following is not None and following < now else None
        return StepChart(resource, most, target.warps_per_sm, path, spot(now), higher, is_estimated)

    most_shared = max(target.shared_opt_in, 1)
    shared_values = range(0, most_shared + 1, max(1, most_shared // _SHARED_STEPS))
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


def _path(points: list[tuple[int, int]], most: int, target: Target) -> str:
    """A line of steps: each value holds up to the next one."""
    (_, warps), *others = points
    parts = [f"M{_x(points[0][0], most)} {_y(warps, target)}"]
    for value, number in others:
        if number != warps:
            parts.append(f"H{_x(value, most)}V{_y(number, target)}")
            warps = number
    return "".join([*parts, f"H{_x(most, most)}"])


def _x(value: int, most: int) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * min(value, most) / most, 1)


def _y(warps: int, target: Target) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * warps / target.warps_per_sm, 1)
