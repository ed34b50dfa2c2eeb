"""How times are taken: contenders interleaved, sample by sample, in alternating order, with cold and warm caches.

Nothing here knows of GPUs: a `Clock` times what it is given, so that the protocol itself can be tested.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Queued = Callable[[], None]
Regime = Literal["cold", "warm", "graph"]

SAMPLES = 100
SHORT_US = 20.0  # kernels below this are also timed in a captured graph
_FEWEST = 5  # samples of a contender that takes too long for all of them
_BATCH = 24  # timed together; the driver's queue holds about a thousand launches
_GRAPH_RUNS = 20  # in one captured graph
_WARM_UP = 3
_LONG_US = 1e5


@dataclass(frozen=True)
class Contender:
    """Something that can run on any of the sets of buffers: `run(set)` queues it and returns."""

    name: str
    run: Callable[[int], None]


@dataclass(frozen=True)
class Times:
    """Microseconds of one contender, one for each sample, in the order they were taken."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    @property
    def p10(self) -> float:
        return float(np.percentile(self.samples, 10))

    @property
    def p90(self) -> float:
        return float(np.percentile(self.samples, 90))


@dataclass(frozen=True)
class Work:
    """What is timed, and what runs ahead of it, untimed."""

    run: Queued
    before: Queued | None = None


class Clock(Protocol):
    """`times_us` gives each work's own time. `captured` gives what plays a graph of runs, and what destroys it; it
    raises RuntimeError where they can't be captured."""

    def times_us(self, works: Sequence[Work]) -> list[float]: ...

    def captured(self, runs: Sequence[Queued]) -> tuple[Queued, Callable[[], None]]: ...


@dataclass(frozen=True)
class Plan:
    """`sets` of buffers, which cold runs take in turn; where they don't exceed the cache together, `flush` empties it
    before each cold run. A contender stops at `samples`, or when `budget_us` of its own time is spent."""

    sets: int
    flush: Queued | None = None
    samples: int = SAMPLES
    budget_us: float = math.inf


def measure(contenders: Sequence[Contender], clock: Clock, plan: Plan) -> dict[Regime, dict[str, Times]]:
    """Cold and warm times of every contender, the first of which is ours; where its warm median is below 20 µs, also
    those of a graph."""
    samples = {c.name: _affordable(plan, _estimate(c, clock)) for c in contenders}
    run_numbers = itertools.count()

    def cold(contender: Contender) -> Work:
        run, buffer_set = contender.run, next(run_numbers) % plan.sets
        return Work(lambda: run(buffer_set), plan.flush)

    def warm(contender: Contender) -> Work:
        return Work(_again(contender), _again(contender))

    times_by_regime: dict[Regime, dict[str, Times]] = {
        "cold": _interleaved(contenders, cold, clock, samples),
        "warm": _interleaved(contenders, warm, clock, samples),
    }
    if times_by_regime["warm"][contenders[0].name].median < SHORT_US and (
        graphs := _graphs(contenders, clock, samples)
    ):
        times_by_regime["graph"] = graphs
    return times_by_regime


def order(contenders: Sequence[Contender], sample: int) -> Sequence[Contender]:
    """The order of one sample: forward, then backward."""
    return contenders if sample % 2 == 0 else contenders[::-1]


def _estimate(contender: Contender, clock: Clock) -> float:
    """Microseconds of one run, after some that load code and wake the clocks; a long one is run once."""
    work = Work(_again(contender))
    first = clock.times_us([work])[0]
    return first if first > _LONG_US else clock.times_us([work] * _WARM_UP)[-1]


def _affordable(plan: Plan, estimate: float) -> int:
    return max(_FEWEST, min(plan.samples, int(min(plan.budget_us / max(estimate, 1e-3), plan.samples))))


def _again(contender: Contender) -> Queued:
    return lambda: contender.run(0)


def _interleaved(
    contenders: Sequence[Contender], work: Callable[[Contender], Work], clock: Clock, samples: Mapping[str, int]
) -> dict[str, Times]:
    schedule = [
        contender
        for sample in range(max(samples[c.name] for c in contenders))
        for contender in order(contenders, sample)
        if sample < samples[contender.name]
    ]
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for start in range(0, len(schedule), _BATCH):
        batch = schedule[start : start + _BATCH]
        for contender, time in zip(batch, clock.times_us([work(c) for c in batch]), strict=True):
            times[contender.name].append(time)
    return {name: Times(tuple(samples_us)) for name, samples_us in times.items()}


def _graphs(contenders: Sequence[Contender], clock: Clock, samples: Mapping[str, int]) -> dict[str, Times]:
    """Per run of graphs that hold some runs on the same buffers; what can't be captured is left out."""
    players: list[Contender] = []
    destroyers: list[Callable[[], None]] = []
    try:
        for contender in contenders:
            try:
                play, destroy = clock.captured([_again(contender)] * _GRAPH_RUNS)
            except RuntimeError:
                continue
            players.append(Contender(contender.name, functools.partial(_ignoring_the_set, play)))
            destroyers.append(destroy)
        if not players:
            return {}
        play_times = _interleaved(players, lambda player: Work(_again(player)), clock, samples)
    finally:
        for destroy in destroyers:
            destroy()
    return {name: Times(tuple(time / _GRAPH_RUNS for time in times.samples)) for name, times in play_times.items()}


def _ignoring_the_set(play: Queued, _: int) -> None:
    play()
