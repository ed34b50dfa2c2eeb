"""Outputs per thread where output indices have periods: whole periods, with few loads for each multiply-add."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from cugen.families.stencil.config import (
    CHANNELS_PER_THREAD,
    MAX_DEFAULT_VECTOR,
    MAX_THREAD_REGISTERS,
    MAX_WINDOW_REGISTERS,
    StencilConfig,
    access_width,
    output_order,
    outputs_per_load,
    schedule_refusals,
    stored_outputs,
    thread_registers,
    threads_of,
)
from cugen.families.stencil.footprint import ChannelReduction, Footprint
from cugen.families.stencil.register_window import make_window, read_columns
from cugen.machine.devices import PLANNING_DEVICE
from cugen.pieces.blocks import power_of_two
from cugen.plan.request import Refusal, Request

MAX_PERIODS = 4  # of a thread along an index (heuristic)
MIN_THREADS = PLANNING_DEVICE.sms * 384  # as many as fit beside accumulators and windows (heuristic)
MAX_UNROLLED_TERMS = 1024  # of a thread in one step of the loop over channels, for the instruction cache (heuristic)


def choose_periodic_config(
    request: Request,
    footprints: Mapping[str, Footprint],
    channel_reductions: tuple[ChannelReduction, ...],
    periods: Mapping[str, int],
) -> StencilConfig | tuple[Refusal, ...]:
    """The outputs per thread with the fewest loads for each term, among those that leave enough threads."""
    order = output_order(request, footprints)
    if refusals := (*schedule_refusals(request, order), *_period_refusals(request, order[0].name, periods)):
        return tuple(refusals)
    along = order[0].name
    stored, reason = stored_outputs(request, along)
    choices = [
        outputs
        for outputs in _choices(request, footprints, channel_reductions, periods, stored)
        if thread_registers(request, footprints, channel_reductions, outputs) <= MAX_THREAD_REGISTERS
    ]
    if not choices:
        return (Refusal(f"the windows of a period need more than {MAX_THREAD_REGISTERS} registers"),)
    extents = math.prod(map(request.context.max_extent, order))
    terms = sum(footprint.loads for footprint in footprints.values())

    def loads(outputs: Mapping[str, int]) -> float:
        """Loads for each term of a thread: a weight for each term of a period, and windows."""
        repeated = math.prod(count // periods.get(name, 1) for name, count in outputs.items())
        moved = {axis.index for footprint in footprints.values() for axis in footprint.axes}
        features = math.prod(count for name, count in outputs.items() if name not in moved)
        windows = sum(_window_loads(request, footprint, along, outputs) for footprint in footprints.values())
        return (terms * features + windows) / (terms * repeated)

    def is_small(outputs: Mapping[str, int]) -> bool:
        """Whether registers, the instruction cache and the number of threads allow so many outputs."""
        count = math.prod(outputs.values())
        return (
            thread_registers(request, footprints, channel_reductions, outputs) <= MAX_WINDOW_REGISTERS
            and terms * count // math.prod(periods.values()) <= MAX_UNROLLED_TERMS
            and extents >= MIN_THREADS * count
        )

    outputs = min(filter(is_small, choices), key=loads, default=min(choices, key=lambda each: math.prod(each.values())))
    is_vector = stored % outputs[along] == 0
    if not is_vector:
        reason = f"outputs are stored one by one: {reason}"
    return StencilConfig(order, outputs, threads_of(request, order, outputs), reason, 0, is_vector, periods)


def _choices(
    request: Request,
    footprints: Mapping[str, Footprint],
    channel_reductions: tuple[ChannelReduction, ...],
    periods: Mapping[str, int],
    stored: int,
) -> Iterator[dict[str, int]]:
    """Outputs per thread by index, the contiguous one first: whole periods, unless the schedule has other numbers."""
    order = output_order(request, footprints)
    along = order[0].name
    tunables, sizes = dict(request.schedule.tunables), dict(request.schedule.thread)
    counts = {along: [_width(request, footprints, along, periods.get(along, 1), stored)]}
    if "vector" in tunables or along in sizes:
        counts[along] = [int(tunables.get("vector", sizes.get(along, 1)))]
    for position, index in enumerate(order[1:], 1):
        period = periods.get(index.name, 1)
        if position == 1 and ("rows" in tunables or index.name in sizes):
            counts[index.name] = [int(tunables.get("rows", sizes.get(index.name, 1)))]
        elif position == 1 or period > 1:
            highest = -(-request.context.max_extent(index) // period)
            counts[index.name] = [period * n for n in (1, 2, MAX_PERIODS) if n == 1 or n <= highest]
    moved = {axis.index for footprint in footprints.values() for axis in footprint.axes}
    if channel_reductions:
        for index in [index for index in order[2:] if index.name not in moved and index.name not in counts][:1]:
            limit = min(CHANNELS_PER_THREAD, power_of_two(request.context.max_extent(index)))
            counts[index.name] = [n for n in (1, 2, 4) if n <= limit]
        if moved & counts.keys() == {along}:  # of a row alone, no two outputs in a period share a weight
            for index in [index for index in order[1:] if index.name in moved][:1]:
                limit = request.context.max_extent(index)
                counts[index.name] = [n for n in (1, 2, MAX_PERIODS) if n == 1 or n <= limit]
    yield from (dict(zip(counts, each, strict=True)) for each in itertools.product(*counts.values()))


def _width(request: Request, footprints: Mapping[str, Footprint], along: str, period: int, stored: int) -> int:
    """Outputs of a row: as many whole periods as one access stores and loads."""
    if stored % period:
        return period
    width = min(stored, max(MAX_DEFAULT_VECTOR, period))
    for footprint in footprints.values():
        array = request.context.arrays[footprint.array]
        width = min(width, outputs_per_load(request, array, footprint, along))
    return max(width // period * period, period)


def _window_loads(request: Request, footprint: Footprint, along: str, outputs: Mapping[str, int]) -> int:
    """The loads of a thread's window."""
    array = request.context.arrays[footprint.array]
    access = access_width(request, array, footprint, along, outputs[along])
    window = make_window(footprint, array, along, outputs, access, "window")
    return sum(high // access - low // access + 1 for low, high in read_columns(window).values())


def _period_refusals(request: Request, along: str, periods: Mapping[str, int]) -> Iterator[Refusal]:
    """Numbers of outputs in the schedule that aren't whole periods."""
    tunables, period = dict(request.schedule.tunables), periods.get(along, 1)
    if int(tunables.get("vector", period)) % period:
        yield Refusal(f"computes whole periods of {period} outputs along {along}", "schedule.vector")
    for name, size in request.schedule.thread:
        if size % periods.get(name, 1):
            yield Refusal(f"computes whole periods of {periods[name]} outputs along {name}", f"schedule.thread.{name}")
