"""What the counters say of a case that misses a goal: memory, a unit, both, waiting; goals out of reach."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks import benchmark

page = benchmark("memory.limits_page")

CEILING = {"against": "ceiling", "must": 0.92, "moonshot": None}
TORCH = {"against": "torch", "must": 1.4, "moonshot": None}
BYTES = 4.0e9


def row(
    *, share: float = 0.9, torch_us: float = 2000.0, goals: tuple[dict[str, Any], ...] = (CEILING,)
) -> dict[str, Any]:
    """A copy takes 1000 µs, at 4000 GB/s; ours as much longer as its share says."""
    ours = 1000.0 / share
    timed = [
        {"name": "cugen", "median_us": ours, "share_of_ceiling": share, "ratio": 1.0},
        {"name": "torch", "median_us": torch_us, "share_of_ceiling": 1000 / torch_us, "ratio": torch_us / ours},
        {"name": "copy", "median_us": 1000.0, "share_of_ceiling": 1.0, "ratio": 1000 / ours, "gb_per_s": 4000.0},
    ]
    case = {"name": "case", "goals": list(goals), "bytes": BYTES, "ceiling": "copy", "regimes": {"cold": timed}}
    return case | {"launches": [{"blocks_per_sm": 2}]}


def launch(memory: float, *, time: float = 1000.0, moved: float = BYTES, **shares: float) -> dict[str, Any]:
    """A launch that moves so many bytes; the memory's peak follows from its share."""
    others = dict.fromkeys((*page.UNITS, "warps_percent"), 10.0) | {f"{name}_percent": v for name, v in shares.items()}
    moved_both = {"dram_read_bytes": 0.6 * moved, "dram_written_bytes": 0.4 * moved}
    return {"kernel": "k", "time_us": time, **moved_both, "memory_percent": memory, **others}


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        # 4 GB in 1000 µs at 80 % of the peak: a copy at 4000 GB/s keeps 80 % busy as well.
        (launch(80, issue=95), "memory: 80 % busy, in a copy 80 %"),
        (
            launch(80, moved=1.2 * BYTES, time=1200.0),
            "memory: 80 % busy, in a copy 80 %; it moves 1.20 times the bytes",
        ),
        (launch(60, time=1333.3, issue=91, fma=85), "issue slots: 91 % busy"),
        (launch(60, time=1333.3, fma=85, issue=70), "fma: 85 % busy"),
        (launch(65, time=1230.8, l1_data=75), "both: memory 65 % of 80, L1 data 75 %"),
        (launch(65, time=1230.8, issue=55), "waiting: memory 65 % of 80, issue slots 55 %, 2 blocks a multiprocessor"),
        (launch(40, time=2000, issue=75), "waiting: memory 40 % of 80, issue slots 75 %, 2 blocks a multiprocessor"),
    ],
)
def test_what_follows_is_memory_or_a_busy_unit_or_both_or_waiting(profile, said):
    assert page.what_follows(row(), page.whole([profile])) == said


def test_a_kernel_that_waits_has_as_many_blocks_as_its_launch_that_has_the_fewest():
    launches = [{"blocks_per_sm": 4}, {"blocks_per_sm": 1}]
    said = page.what_follows(row() | {"launches": launches}, page.whole([launch(65, time=1230.8)]))
    assert said.endswith(", 1 block a multiprocessor")


def test_launches_count_by_the_time_that_they_take():
    case = page.whole([launch(80, time=300.0, moved=1e9, issue=20), launch(40, time=100.0, moved=2e9, issue=60)])
    assert (case["time_us"], case["dram_bytes"]) == (400.0, 3e9)
    assert (case["memory_percent"], case["issue_percent"]) == (70.0, 30.0)


def test_a_goal_that_asks_for_less_time_than_a_copy_takes_is_out_of_reach():
    assert page.out_of_reach(row(torch_us=1050.0), TORCH) == "out of reach: 1.4× torch is 750 µs, a copy takes 1000"
    assert not page.out_of_reach(row(torch_us=1.4 * 960), TORCH)
    assert not page.out_of_reach(row(), CEILING)
    assert not page.out_of_reach(row(), {"against": "cupy", "must": 2.0, "moonshot": None})


def test_only_cases_that_miss_a_goal_have_a_row():
    figures = {"cases": [row(share=0.95) | {"name": "good"}, row(goals=(CEILING, TORCH), torch_us=1050.0)]}
    (line,) = page.part(figures, None).splitlines()[4:]
    reason = "out of reach: 1.4× torch is 750 µs, a copy takes 1000"
    assert line == f"| case | 0.92 of the copy: 0.900; 1.4× torch: 0.945 | {reason} |"


def test_a_profile_fills_the_row_and_one_that_is_missing_says_so():
    profiler = {"profiler": "2025.3", "date": "2026-01-01", "command": "capture"}
    figures = {"cases": [row(), row() | {"name": "other"}]}
    cases = [{"name": "case", "launches": [launch(80)]}, {"name": "other", "launches": []}]
    heading, _, head, rule, *lines = page.part(figures, {**profiler, "cases": cases}).splitlines()
    assert heading == "Nsight Compute 2025.3; 2026-01-01; `capture`"
    assert lines[0].startswith("| case | 0.92 of the copy: 0.900 | 1000 | 4000 ÷ 4000 | 80 | 10 |")
    assert lines[0].endswith("| memory: 80 % busy, in a copy 80 % |")
    assert lines[1].endswith("| – | not profiled |")
    assert len({text.count("|") for text in (head, rule, *lines)}) == 1
