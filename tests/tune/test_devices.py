"""Which GPUs count, by recorded times and states."""

from __future__ import annotations

import pytest

from cugen.tune.devices import DeviceState, Sample, left_out

SOUND = DeviceState("580.65.06", 1980, 3201)


def samples(times: dict[str, float], code: str = "a") -> list[Sample]:
    return [Sample(gpu, code, time, SOUND) for gpu, time in times.items()]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"g0": 10.0}, []),
        ({"g0": 10.0, "g1": 10.2}, []),
        ({"g0": 10.0, "g1": 10.4}, ["g1"]),
        ({"g0": 10.0, "g1": 10.1, "g2": 9.9, "g3": 10.5}, ["g3"]),
        ({"g0": 10.0, "g1": 10.1, "g2": 9.5, "g3": 10.05}, ["g2"]),
        ({"g0": 10.0, "g1": 12.0, "g2": 14.0}, ["g0", "g2"]),
    ],
    ids=["alone", "equal", "slower of two", "slower of four", "faster of four", "all differ"],
)
def test_a_gpu_more_than_three_percent_off_the_median_is_left_out(times: dict[str, float], expected: list[str]) -> None:
    assert sorted(left_out(samples(times))) == expected


def test_the_reason_has_the_deviation() -> None:
    assert left_out(samples({"g0": 10.0, "g1": 10.5})) == {"g1": "it is 5.0% slower than the median of 2 GPUs"}


def test_times_of_different_codes_are_not_compared() -> None:
    assert left_out([*samples({"g0": 10.0}), *samples({"g1": 20.0}, "b")]) == {}


def test_few_gpus_do_not_judge_many() -> None:
    everywhere = samples(dict.fromkeys(("g0", "g1", "g2", "g3", "g4", "g5"), 10.0))
    assert left_out([*everywhere, *samples({"g0": 5.0, "g1": 6.0}, "b")]) == {}
    assert left_out([*everywhere, *samples({"g0": 5.0, "g1": 6.0, "g2": 5.0}, "b")]).keys() == {"g1"}


def test_one_odd_time_among_several_does_not_count() -> None:
    assert left_out([*samples({"g0": 10.0, "g1": 10.0}), *samples({"g1": 13.0}), *samples({"g1": 10.0})]) == {}


def test_a_gpu_that_becomes_slower_is_found_by_its_latest_times() -> None:
    earlier = samples({"g0": 10.0, "g1": 10.0}) * 5
    assert left_out([*earlier, *samples({"g0": 10.0, "g1": 11.0}) * 3]).keys() == {"g1"}


def test_throttled_and_shared_gpus_do_not_count_for_the_median() -> None:
    throttled = Sample("g1", "a", 5.0, DeviceState(throttled="power brake"))
    shared = Sample("g2", "a", 5.0, DeviceState(other_processes=1))
    assert left_out([throttled, shared, *samples({"g0": 10.0, "g3": 10.0})]) == {
        "g1": "its clocks are held back: power brake",
        "g2": "it is shared: 1 other process",
    }
