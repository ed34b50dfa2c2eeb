"""The decision of the final comparison, from one run or from one on each of several GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cugen.schedule.lock import Time

MIN_SPEEDUP = 1.004  # over the generator's choice; resolution of 100 samples, measured on an H200
Run = Mapping[int, Time]  # times by candidate; 0 is the generator's choice


def order(runs: Sequence[Run]) -> list[int]:
    """The candidates of all runs, best first: by the worst of their times relative to the generator's choice of the
    same run."""
    worst = _worst_times(runs)
    return sorted(worst, key=lambda number: (worst[number], number))


def best(runs: Sequence[Run]) -> int:
    """The winner: the generator's choice unless another is faster in every run."""
    worst = _worst_times(runs)
    first = order(runs)[0]
    return first if worst[first] * MIN_SPEEDUP < worst[0] else 0


def beats_untuned(run: Run, number: int) -> bool:
    """Whether a candidate is faster than the generator's choice in a run. One that isn't can't win."""
    return run[number].cold * MIN_SPEEDUP < run[0].cold


def _worst_times(runs: Sequence[Run]) -> Mapping[int, float]:
    """The slowest of each candidate's cold times, in terms of the first run."""
    common = set.intersection(*(set(run) for run in runs))
    first = runs[0][0].cold
    return {
        number: max(run[number].cold if run is runs[0] else first * run[number].cold / run[0].cold for run in runs)
        for number in common
    }
