"""The page of memory-bound kernels: goals judged, every case there, and current with its figures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from cugen.bench.translation.dialects import NoPeer, Torch
from cugen.bench.translation.translate import translate
from cugen.kernel import generate
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from tests.benchmarks import benchmark

parts, limits = benchmark("timing.page_parts"), benchmark("memory.limits_page")
page, listed = benchmark("memory.memory_bound_page"), benchmark("memory.memory_bound_cases")


def timed(name: str, share: float | None, ratio: float) -> dict[str, Any]:
    row = {"name": name, "median_us": 10.0 * ratio, "p10_us": 9.0, "p90_us": 11.0, "samples": 100}
    return {**row, "gb_per_s": 4000.0, "gflop_per_s": None, "share_of_ceiling": share, "ratio": ratio}


def row(name: str, goals: list[dict[str, Any]], *contenders: dict[str, Any]) -> dict[str, Any]:
    rows = [*contenders, timed("copy", 1.0, 0.9)] if contenders else []
    return {
        "name": name,
        "group": "copies",
        "goals": goals,
        "passed": bool(rows),
        "ceiling": "copy",
        "messages": ["y: wrong"],
        "peers": [{"name": "torch", "version": "2", "absent": "" if len(contenders) > 1 else "a gather"}],
        "regimes": {"cold": rows, "warm": rows} if rows else {},
    }


def content(*rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": "NVIDIA H200",
        "driver": 13000,
        "python": "3.12.3",
        "date": "2026-11-20",
        "cugen": "0.1.0",
        "command": "python -m benchmarks.memory.memory_bound x.json",
        "cases": list(rows),
    }


MUST, MOONSHOT = (
    {"against": "ceiling", "must": 0.92, "moonshot": 0.97},
    {"against": "torch", "must": None, "moonshot": 3.0},
)


@pytest.mark.parametrize(
    ("share", "ratio", "goal", "said"),
    [
        (0.98, 1.0, MUST, "moonshot"),
        (0.93, 1.0, MUST, "met"),
        (0.91, 1.0, MUST, "missed"),
        (0.91, 3.1, MOONSHOT, "moonshot"),
        (0.91, 2.9, MOONSHOT, "short of the moonshot"),
    ],
)
def test_goals_are_judged_by_cold_figures(share: float, ratio: float, goal: dict[str, Any], said: str) -> None:
    judged = row("a", [goal], timed("cugen", share, 1.0), timed("torch", 0.3, ratio))
    assert parts.verdict(judged, goal)[1] == said


def test_what_was_not_measured_is_not_met() -> None:
    assert parts.verdict(row("a", [MUST]), MUST) == (None, "not measured")
    assert parts.verdict(row("a", [MOONSHOT], timed("cugen", 0.9, 1.0)), MOONSHOT) == (None, "not measured")


def test_no_case_is_dropped_failed_ones_included() -> None:
    rows = [row("good", [MUST], timed("cugen", 0.98, 1.0), timed("torch", 0.5, 2.0)), row("bad", [MUST])]
    text = page.part(content(*rows))
    assert "| good | 10.00 (9.00–11.00) | 10.00 | 4000 | 0.980 of copy | 2.00 (2.00) |" in text
    assert "| bad | failed: y: wrong |" in text
    assert "| copies | 2 | 1 of 2 | 0.980 | 0.980 (good) |" in text


def test_means_are_geometric_and_the_worst_is_named() -> None:
    rows = [
        row("a", [MUST], timed("cugen", 0.5, 1.0), timed("torch", 0.5, 2.0)),
        row("b", [MUST], timed("cugen", 0.98, 1.0), timed("torch", 0.5, 8.0)),
    ]
    assert "| copies | 2 | 1 of 2 | 0.700 | 0.500 (a) | 4.000 | 2.000 (a) |" in page.part(content(*rows))


def test_the_picture_has_a_bar_for_each_case_with_a_goal() -> None:
    rows = [row("with", [MUST], timed("cugen", 0.98, 1.0)), row("without", [], timed("cugen", 0.98, 1.0))]
    said = "".join(ET.fromstring(page.picture(content(*rows))).itertext())
    assert "with, cugen: 0.980" in said
    assert "without" not in said


def test_the_page_and_its_picture_are_current() -> None:
    figures = json.loads(page.RESULTS.read_text())
    assert page.part(figures) in page.PAGE.read_text(), "run benchmarks/memory/memory_bound_page.py"
    assert limits.part(figures, page.limits()) in page.PAGE.read_text(), "run benchmarks/memory/memory_bound_page.py"
    assert page.CHART.read_text() == page.picture(figures), "run benchmarks/memory/memory_bound_page.py"


def test_figures_are_of_cases_that_the_list_has() -> None:
    figures = json.loads(page.RESULTS.read_text())
    assert [row["name"] for row in figures["cases"]] == [case.name for case in listed.cases()]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("case", listed.cases(), ids=lambda case: case.ascii_name)
def test_every_case_generates_without_a_schedule_and_has_its_peer(case: Any) -> None:
    (spec,) = load_text(case.spec)
    assert spec.schedules == ()
    generate(spec, analysis=False)
    if not case.peer:
        try:
            translate(spec, known_params(spec, {}), {}, Torch())
        except NoPeer as reason:
            pytest.fail(f"no peer: {reason}")


def test_a_goal_against_cublas_is_judged_by_the_fastest_that_calls_it():
    goal = {"against": "cublas", "must": 1.1, "moonshot": None, "regime": "cold"}
    peers = [timed("torch", None, 1.3), timed("cublasLt", None, 1.05), timed("triton", None, 0.5)]
    assert parts.verdict(row("a", [goal], timed("cugen", 1.0, 1.0), *peers), goal) == (1.05, "missed")
