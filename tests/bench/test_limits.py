"""What holds a kernel back: which cases are profiled, and how the profiler's table is read."""

from __future__ import annotations

import json

from tests.benchmarks import benchmark

limits = benchmark("memory.limits")
ISSUED = "smsp__issue_active.avg.pct_of_peak_sustained_active"
TABLE = f"""==PROF== Connected to process 7
"ID","Process ID","Kernel Name","dram__bytes_read.sum","gpu__time_duration.sum","{ISSUED}"
"","","","Mbyte","nsecond","%"
"0","7","softmax(const float *, float *)","1,024.5","251,072","38.25"
"1","7","softmax_rest(float *)","2","3,000","1"
"""


def test_the_profilers_units_become_ours():
    first, second = limits.read(TABLE)
    assert first == {
        "kernel": "softmax",
        "time_us": 251.07,
        "dram_read_bytes": 1024.5e6,
        "issue_percent": 38.25,
    }
    assert second["kernel"] == "softmax_rest"


def test_every_case_that_misses_a_goal_is_profiled(tmp_path):
    def row(name, share, must):
        cold = [{"name": "cugen", "share_of_ceiling": share}, {"name": "torch", "ratio": 1.2}]
        goals = [
            {"against": "ceiling", "must": must, "moonshot": None},
            {"against": "torch", "must": 1.1, "moonshot": 3},
        ]
        return {"name": name, "goals": goals, "regimes": {"cold": cold}}

    figures = tmp_path / "figures.json"
    figures.write_text(json.dumps({"cases": [row("good", 0.97, 0.92), row("bad", 0.9, 0.92)]}))
    assert limits.missed(figures) == ["bad"]


def test_output_without_a_table_has_no_launches():
    assert limits.read("==ERROR== no kernel was profiled\n") == []
