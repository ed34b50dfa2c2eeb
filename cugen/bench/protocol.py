"""Timing protocol: contenders interleaved sample by sample, in alternating order, with cold and warm caches.

The protocol is independent of GPUs: a `Clock` does the timing, which tests replace.
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

SAMPLES = 100  # per contender and regime (heuristic)
SHORT_US = 20.0  # microseconds; shorter kernels are also timed in a captured graph (heuristic)
_MIN_SAMPLES = 5  # of a contender that exceeds its time budget (heuristic)
_RUNS_PER_BATCH = 24  # queued together; the driver's queue holds about 1000 launches (measured)
_RUNS_PER_GRAPH = 20  # in one captured graph (heuristic)
_WARM_UP_RUNS = 3  # load code and raise the clocks (heuristic)
_MAX_WARM_UP_US = 1e5  # microseconds; a contender that takes longer runs once before it is timed (heuristic)


@dataclass(frozen=True)
class Contender:
    """Contender of a benchmark. `run(set)` queues it on a buffer set and returns."""

    name: str
    run: Callable[[int], None]


@dataclass(frozen=True)
class Times:
    """Samples of one contender in microseconds, in time order."""

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
    """Timed work, with untimed work that precedes it."""

    run: Queued
    before: Queued | None = None


class Clock(Protocol):
    """Clock of the protocol. `times_us` returns the time of each work in microseconds. `captured` returns functions
    that launch and destroy a graph of runs; it raises RuntimeError if they can't be captured."""

    def times_us(self, works: Sequence[Work]) -> list[float]: ...

    def captured(self, runs: Sequence[Queued]) -> tuple[Queued, Callable[[], None]]: ...


@dataclass(frozen=True)
class Plan:
    """Plan of a measurement. Cold runs cycle through `sets` buffer sets; `flush` evicts the cache before each cold run
    if the sets fit into it. A contender stops after `samples`, or after `budget_us` microseconds of its own time."""

    sets: int
    flush: Queued | None = None
    samples: int = SAMPLES
    budget_us: float = math.inf


def measure(contenders: Sequence[Contender], clock: Clock, plan: Plan) -> dict[Regime, dict[str, Times]]:
    """Cold and warm times of every contender; the first one is cugen's. Also times in a graph if its warm median is
    below `SHORT_US`."""
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
    """Order of the contenders in a sample: alternately forward and backward."""
    return contenders if sample % 2 == 0 else contenders[::-1]


def _estimate(contender: Contender, clock: Clock) -> float:
    """Microseconds of one run, after warm-up runs unless it is slow."""
    work = Work(_again(contender))
    first = clock.times_us([work])[0]
    return first if first > _MAX_WARM_UP_US else clock.times_us([work] * _WARM_UP_RUNS)[-1]


def _affordable(plan: Plan, estimate: float) -> int:
    return max(_MIN_SAMPLES, min(plan.samples, int(min(plan.budget_us / max(estimate, 1e-3), plan.samples))))


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
    for start in range(0, len(schedule), _RUNS_PER_BATCH):
        batch = schedule[start : start + _RUNS_PER_BATCH]
        for contender, time in zip(batch, clock.times_us([work(c) for c in batch]), strict=True):
            times[contender.name].append(time)
    return {name: Times(tuple(samples_us)) for name, samples_us in times.items()}


def _graphs(contenders: Sequence[Contender], clock: Clock, samples: Mapping[str, int]) -> dict[str, Times]:
    """Times per run in graphs of `_RUNS_PER_GRAPH` runs on the same buffers, without contenders that can't be
    captured."""
    players: list[Contender] = []
    destroyers: list[Callable[[], None]] = []
    try:
        for contender in contenders:
            try:
                play, destroy = clock.captured([_again(contender)] * _RUNS_PER_GRAPH)
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
    return {name: Times(tuple(time / _RUNS_PER_GRAPH for time in times.samples)) for name, times in play_times.items()}


def _ignoring_the_set(play: Queued, _: int) -> None:
    play()
