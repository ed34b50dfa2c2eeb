"""The decision of the final comparison on one GPU and on two."""

from __future__ import annotations

import pytest

from cugen.schedule.lock import Time
from cugen.tune.finals import beats_untuned, best, order


def run(**cold: float) -> dict[int, Time]:
    """Times by candidate: `c0` is the generator's choice."""
    return {int(name.removeprefix("c")): Time(time, time) for name, time in cold.items()}


def test_on_one_gpu_the_fastest_wins_if_it_is_worth_it() -> None:
    assert best([run(c0=10, c1=9, c2=9.5)]) == 1
    assert best([run(c0=10, c1=9.97)]) == 0
    assert order([run(c0=10, c1=9, c2=9.5)]) == [1, 2, 0]
    assert order([run(c0=10, c2=9, c1=9)]) == [1, 2, 0]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (run(c0=10, c1=9, c2=9.5), 1),
        (run(c0=20, c1=18, c2=19), 1),  # a slower GPU
        (run(c0=10, c1=9.8, c2=9.4), 2),  # the worst of 1 is 9.8, that of 2 is 9.5
        (run(c0=10, c1=10, c2=10), 0),
    ],
)
def test_on_two_gpus_a_winner_is_faster_on_both(second: dict[int, Time], expected: int) -> None:
    assert best([run(c0=10, c1=9, c2=9.5), second]) == expected


def test_what_does_not_beat_the_generators_choice_in_one_run_never_wins() -> None:
    first = run(c0=10, c1=9, c2=9.97, c3=11)
    assert [number for number in first if beats_untuned(first, number)] == [1]
    assert all(best([first, run(c0=10, **{f"c{n}": 5})]) == 0 for n in (2, 3))


def test_candidates_that_one_gpu_did_not_time_do_not_win() -> None:
    assert order([run(c0=10, c1=9, c2=8), run(c0=10, c1=9)]) == [1, 0]
