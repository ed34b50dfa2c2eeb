"""The protocol with a clock of our own: orders, sets, samples and statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cugen.bench.protocol import Contender, Plan, Times, Work, measure, order


class FakeClock:
    """Notes what ran, and gives each contender the time that `takes` says."""

    def __init__(self, takes: dict[str, float], captures: bool = True) -> None:
        self.takes = takes
        self.captures = captures
        self.log: list[tuple[str, int, bool]] = []  # name, set, timed
        self.batches: list[int] = []
        self.destroyed = 0
        self._last = ""

    def contender(self, name: str) -> Contender:
        def run(number: int) -> None:
            self._last = name
            self.log.append((name, number, False))

        return Contender(name, run)

    def flush(self) -> None:
        self.log.append(("flush", -1, False))

    def times_us(self, works: Sequence[Work]) -> list[float]:
        self.batches.append(len(works))
        times = []
        for work in works:
            if work.before is not None:
                work.before()
            work.run()
            name, number, _ = self.log[-1]
            self.log[-1] = (name, number, True)
            times.append(self.takes[self._last])
        return times

    def captured(self, runs: Sequence[Callable[[], None]]) -> tuple[Callable[[], None], Callable[[], None]]:
        if not self.captures:
            raise RuntimeError("no capture")
        for run in runs:
            run()
        name = self._last

        def play() -> None:
            self._last = name
            self.log.append((f"graph of {name}", 0, False))

        def destroy() -> None:
            self.destroyed += 1

        return play, destroy

    def timed(self) -> list[tuple[str, int]]:
        return [(name, number) for name, number, timed in self.log if timed]


def test_statistics_are_the_median_and_the_tenth_and_ninetieth_percentile() -> None:
    times = Times(tuple(float(n) for n in range(101)))
    assert (times.median, times.p10, times.p90) == (50.0, 10.0, 90.0)


def test_the_order_alternates_from_sample_to_sample() -> None:
    clock = FakeClock({"a": 50, "b": 60, "c": 70})
    contenders = [clock.contender(name) for name in "abc"]
    assert [c.name for c in order(contenders, 0)] == ["a", "b", "c"]
    assert [c.name for c in order(contenders, 1)] == ["c", "b", "a"]
    measure(contenders, clock, Plan(sets=4, samples=5))
    cold = [name for name, _ in clock.timed()][3 * 4 :]  # behind the runs that warm up
    assert cold[:6] == ["a", "b", "c", "c", "b", "a"]


def test_cold_runs_take_the_sets_in_turn_whoever_runs() -> None:
    clock = FakeClock({"a": 50, "b": 60})
    measure([clock.contender("a"), clock.contender("b")], clock, Plan(sets=3, samples=6))
    cold = [number for _, number in clock.timed()][2 * 4 :][:12]
    assert cold == [0, 1, 2] * 4


def test_a_warm_run_comes_right_after_one_of_its_own_on_the_same_set() -> None:
    clock = FakeClock({"a": 50, "b": 60})
    measure([clock.contender("a"), clock.contender("b")], clock, Plan(sets=3, samples=6))
    warm = clock.log[-24:]
    assert all(
        before == (name, 0, False) and timed for before, (name, _, timed) in zip(warm[::2], warm[1::2], strict=True)
    )


def test_small_sets_are_flushed_before_each_cold_run_and_only_there() -> None:
    clock = FakeClock({"a": 50})
    measure([clock.contender("a")], clock, Plan(sets=2, flush=clock.flush, samples=7))
    assert clock.log.count(("flush", -1, False)) == 7


def test_every_contender_gets_the_requested_samples() -> None:
    clock = FakeClock({"a": 50, "b": 60})
    times = measure([clock.contender("a"), clock.contender("b")], clock, Plan(sets=2))
    assert {len(timed.samples) for regime in times.values() for timed in regime.values()} == {100}
    assert times["cold"]["b"].median == 60


def test_a_slow_contender_stops_at_its_budget_and_does_not_delay_others() -> None:
    clock = FakeClock({"fast": 50, "slow": 5000, "glacial": 1e7})
    contenders = [clock.contender(name) for name in clock.takes]
    times = measure(contenders, clock, Plan(sets=2, samples=100, budget_us=1e5))
    assert {name: len(timed.samples) for name, timed in times["cold"].items()} == {
        "fast": 100,
        "slow": 20,
        "glacial": 5,
    }


def test_no_batch_outgrows_the_driver_s_queue() -> None:
    clock = FakeClock({"a": 1, "b": 2, "c": 3})
    measure([clock.contender(name) for name in "abc"], clock, Plan(sets=2))
    assert max(clock.batches) <= 24


def test_where_ours_is_short_everybody_is_timed_in_a_graph_and_per_run() -> None:
    clock = FakeClock({"short": 10, "long": 30})
    times = measure([clock.contender("short"), clock.contender("long")], clock, Plan(sets=2, samples=9))
    assert times["graph"]["short"].samples == (10 / 20,) * 9
    assert times["graph"]["long"].samples == (30 / 20,) * 9
    assert clock.destroyed == 2


def test_a_long_kernel_is_not_timed_in_a_graph() -> None:
    clock = FakeClock({"long": 30, "short": 10})
    times = measure([clock.contender("long"), clock.contender("short")], clock, Plan(sets=2, samples=9))
    assert set(times) == {"cold", "warm"}


def test_contenders_that_cannot_be_captured_have_no_graph_times() -> None:
    clock = FakeClock({"short": 10}, captures=False)
    assert set(measure([clock.contender("short")], clock, Plan(sets=2, samples=9))) == {"cold", "warm"}


def test_a_clock_that_fails_leaves_no_graph_behind() -> None:
    class Failing(FakeClock):
        def times_us(self, works: Sequence[Work]) -> list[float]:
            times = super().times_us(works)
            if any(name.startswith("graph") for name, _ in self.timed()):
                raise KeyError("the clock broke")
            return times

    clock = Failing({"a": 1})
    with pytest.raises(KeyError):
        measure([clock.contender("a")], clock, Plan(sets=2, samples=9))
    assert clock.destroyed == 1
