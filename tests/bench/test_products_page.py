"""The products' section of the page: every case there, cuBLAS at its fastest, and current with its figures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

from tests.benchmarks import benchmark

page = benchmark("gemm.products_page")


def timed(name: str, us: float, ratio: float, samples: int = 100) -> dict[str, Any]:
    return {"name": name, "median_us": us, "p10_us": us - 1, "p90_us": us + 1, "samples": samples, "ratio": ratio}


def row(name: str, group: str = "squares", *, peers: dict[str, float] | None = None, **more: Any) -> dict[str, Any]:
    """A product of 1024³ in 100 µs with cold caches and 80 with warm; `peers` are times over ours, cold."""
    rivals = peers or {}
    cold = [timed("cugen", 100.0, 1.0), *(timed(peer, 100.0 * ratio, ratio) for peer, ratio in rivals.items())]
    warm = [timed("cugen", 80.0, 1.0), *(timed(peer, 72.0 * ratio, 0.9 * ratio) for peer, ratio in rivals.items())]
    return {
        "name": name,
        "group": group,
        "goals": [{"against": "cublas", "must": 1.08, "moonshot": 1.2, "regime": "cold"}],
        "params": {"M": 1024, "N": 1024, "K": 1024},
        "passed": True,
        "max_abs_error": 1.234e-5,
        "tolerance": 2e-4,
        "ceiling": "torch",
        "messages": [],
        "peers": [{"name": "torch", "version": "2.11", "absent": ""}],
        "regimes": {"cold": cold, "warm": warm},
        **more,
    }


def failed(name: str) -> dict[str, Any]:
    wrong_row = row(name, passed=False, messages=["C: wrong"], regimes={})
    del wrong_row["max_abs_error"], wrong_row["tolerance"]
    return wrong_row


def content(*rows: dict[str, Any]) -> dict[str, Any]:
    return {
        "device": "NVIDIA H200",
        "driver": 13000,
        "python": "3.12.3",
        "date": "2026-11-20",
        "cugen": "0.1.0",
        "command": "python -m benchmarks.gemm.products x.json --lock y.lock",
        "cases": list(rows),
    }


REGRET = {
    "device": "NVIDIA H200",
    "date": "2026-11-20",
    "cugen": "0.1.0",
    "command": "python -m benchmarks.machine.regret --products",
    "kernels": [
        {"kernel": "product_512", "untuned_us": 12.0, "tuned_us": 10.0, "reorders": True, "regret": 1.2},
        {"kernel": "product_4096", "untuned_us": 2500.0, "tuned_us": 2500.0, "reorders": False, "regret": 1.0},
    ],
    "mean": 1.09545,
}


def test_a_row_has_times_every_peers_ratio_the_error_and_its_goals() -> None:
    rows = [
        row("a", peers={"torch": 1.3, "cublasLt": 1.1, "triton": 2.0}, tuned=True),
        row("b", peers={"torch": 1.0}),
    ]
    text = page.part(content(*rows), None, None)
    assert "| torch ÷ ours, cold (warm) | cublasLt ÷ ours, cold (warm) | triton ÷ ours, cold (warm) |" in text
    assert (
        "| a | tuned | 100.0 (99.00–101.0) | 80.00 | 21.5 | 1.30 (1.17) | 1.10 (0.99) | 2.00 (1.80) "
        "| 1.2e-05 (2.0e-04) | 1.08× cublas: met |" in text
    )
    assert "| b | picked | 100.0 (99.00–101.0) | 80.00 | 21.5 | 1.00 (0.90) | – | – |" in text
    assert "1.08× cublas: **missed** |" in text
    assert text.startswith("NVIDIA H200, driver for CUDA 13.0, Python 3.12.3, torch 2.11; 2026-11-20; cugen 0.1.0; ")


def test_the_summary_compares_with_the_fastest_way_to_call_cublas_for_each_type() -> None:
    rows = [
        row("a", peers={"torch": 4.0, "cublasLt": 2.0, "triton": 0.1}, tuned=True),
        row("b", peers={"torch": 0.5}),
        row("c", "float64", peers={"torch": 0.97}),
        row("d", "batches", peers={"torch": 3.0}),
        failed("e"),
    ]
    text = page.part(content(*rows), None, None)
    assert "| float32 | 3 | 2 | 1 of 3 | 1.000 | 0.500 (b) | 1 | 0.900 | 0.450 (b) | 1 |" in text
    assert "| float32, tuned | 1 | 1 | 1 of 1 | 2.000 | 2.000 (a) | 0 | 1.800 | 1.800 (a) | 0 |" in text
    assert "| float32, picked | 2 | 1 | 0 of 2 | 0.500 | 0.500 (b) | 1 | 0.450 | 0.450 (b) | 1 |" in text
    assert "| float64 | 1 | 1 | 0 of 1 | 0.970 | 0.970 (c) | 1 |" in text
    assert "| batches | 1 | 1 | 1 of 1 | 3.000 | 3.000 (d) | 0 |" in text


def test_a_case_that_failed_stays_and_says_why() -> None:
    text = page.part(content(row("good", peers={"torch": 1.0}), failed("bad")), None, None)
    (line,) = (line for line in text.splitlines() if line.startswith("| bad |"))
    assert line.startswith("| bad | picked | failed: C: wrong |")
    assert line.count("|") == next(line for line in text.splitlines() if line.startswith("| good |")).count("|")


def test_what_misses_a_goal_has_its_counters() -> None:
    launch = {"kernel": "b", "time_us": 99.0, "active_percent": 97.2, "issue_percent": 86.0, "registers": 253.0}
    limits = {"profiler": "1", "date": "2026-11-20", "command": "x", "cases": [{"name": "b", "launches": [launch]}]}
    text = page.part(content(row("a", peers={"torch": 1.3}), row("b", peers={"torch": 1.0})), limits, None)
    assert "| b | 1.08× cublas: **missed** | 99.00 | 97 % | 86 % | – | – | – | 253 | – |" in text


def test_few_samples_are_printed_and_warm_goals_use_warm_figures() -> None:
    slow = row("slow", peers={"torch": 1.1})
    slow["regimes"]["cold"][0]["samples"] = 7
    slow["goals"].append({"against": "cublas", "must": 1.0, "moonshot": None, "regime": "warm"})
    text = page.part(content(slow), None, None)
    assert "| slow | picked | 100.0 (99.00–101.0; 7 samples) |" in text
    assert "1.08× cublas: met; 1× cublas, warm: **missed** |" in text


def test_work_is_that_of_the_problem_batches_included() -> None:
    batch = row("batch", "batches", peers={"torch": 2.0}, params={"B": 16, "N": 512})
    assert "| 42.9 | 2.00" in page.part(content(batch), None, None)  # 2 · 16 · 512³ in 100 µs


def test_without_files_the_page_says_so_and_a_regret_stands_for_itself() -> None:
    assert page.part(None, None, None) == "Not measured yet.\n"
    text = page.part(None, None, REGRET)
    assert "| product_512 | 12.00 | 10.00; sums in another order | 1.200 |" in text
    assert "| product_4096 | 2500.0 | 2500.0 | 1.000 |\n| geometric mean of 2 | | | 1.095 |\n" in text
    assert "The pick without tuning" not in page.part(content(row("a", peers={"torch": 1.0})), None, None)


def test_the_picture_has_speeds_in_terms_of_the_fastest_cublas() -> None:
    rows = [row("a", peers={"torch": 1.5, "cublasLt": 1.2}), row("nobody"), failed("bad")]
    said = "".join(ET.fromstring(page.picture(content(*rows))).itertext())
    for bar in ("a, cugen: 1.200", "a, torch: 0.800", "a, cublasLt: 1.000"):
        assert bar in said
    assert "nobody" not in said
    assert "the fastest way to call cuBLAS is 1" in said


def test_the_page_and_its_picture_are_current() -> None:
    paths = (page.RESULTS, page.LIMITS, page.REGRET)
    figures, limits, regret = (json.loads(path.read_text()) if path.exists() else None for path in paths)
    assert f"<!-- products -->\n{page.part(figures, limits, regret)}<!-- end products -->" in page.PAGE.read_text(), (
        "run benchmarks/gemm/products_page.py"
    )
    assert not figures or page.CHART.read_text() == page.picture(figures), "run benchmarks/gemm/products_page.py"


def test_figures_are_of_cases_that_the_list_has() -> None:
    if page.RESULTS.exists():
        listed = [case.name for case in benchmark("gemm.products_cases").cases()]
        assert [row["name"] for row in json.loads(page.RESULTS.read_text())["cases"]] == listed
