"""How many candidates are kept ready, by what was measured."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from cugen.tune.timing import pace
from cugen.tune.timing.pace import Pace


def paced(*timings: float) -> Pace:
    made = Pace()
    for seconds in timings:
        made.timed(seconds)
    return made


def test_what_gpus_time_until_the_budget_is_spent_follows_the_mean_time() -> None:
    assert paced(0.1, 0.3).timed_in(10, 1) == 50
    assert paced(0.1, 0.3).timed_in(10, 4) == 200
    assert paced(0.5).timed_in(0.6, 1) == 2
    assert paced(0.5).timed_in(-1, 4) == 0


def test_before_anything_is_measured_a_guess_counts() -> None:
    assert paced().timed_in(60, 1) == 300


def test_slower_compilers_and_faster_gpus_need_more_candidates_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(pace, "monotonic", lambda: clock[0])
    made = paced(0.25)
    is_there = made.preparing()
    clock[0] = 2.0
    is_there(Future())
    assert (made.timed_meanwhile(1), made.timed_meanwhile(4)) == (8, 32)
