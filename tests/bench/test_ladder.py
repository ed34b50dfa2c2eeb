"""The ladders of products: their page is that of today's kernels, and their steps lead up."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cugen.spec.load import load_all
from tests.benchmarks import benchmark

ROOT = Path(__file__).parents[2]
COUNTS = ("six", "seven", "eight", "nine", "ten", "eleven", "twelve")  # from 6 on
page = benchmark("gemm.ladder_page")


def analysed_steps(mark: str) -> list[Any]:
    """The steps of a ladder. Its table on the page is that of the measured times and of today's plans."""
    specs, results = page.TABLES[mark]
    steps = [page.analysed(text) for text in page.steps(specs)]
    table = page.table(steps, json.loads(results.read_text()))
    assert f"<!-- {mark} -->\n{table}<!-- end -->" in page.PAGE.read_text(), "run benchmarks/gemm/ladder_page.py"
    return steps


@pytest.mark.slow
def test_the_page_is_current_and_each_step_asks_less_of_memory() -> None:
    steps = analysed_steps("steps")
    # A percent more where the last k-tile is copied again unused, or a tile is started twice.
    assert all(after.intensity > 0.98 * before.intensity for before, after in pairwise(steps))
    assert all(after.shared < 1.02 * before.shared for before, after in pairwise(steps[2:]))


@pytest.mark.slow
def test_the_page_of_tensor_cores_is_current_and_each_step_asks_less_of_memory() -> None:
    steps = analysed_steps("tensor core steps")
    # The first step on an instruction has small tiles.
    for part in (steps[:2], steps[2:4], steps[4:]):
        assert all(after.intensity >= before.intensity for before, after in pairwise(part))
    for part in (steps[1:4], steps[4:]):
        assert all(after.shared <= before.shared for before, after in pairwise(part))


def test_the_specs_and_the_page_agree_on_the_steps() -> None:
    page = (ROOT / "docs" / "ladder.md").read_text()
    kernels, texts = re.findall(r"^\| \[(\w+)\]", page, re.MULTILINE), re.findall(r"^\*\*(\d+)\. ", page, re.MULTILINE)
    for name in ("product_ladder", "product_ladder_bf16"):
        specs = load_all(ROOT / "specs" / f"{name}.yaml")
        numbers = [str(number) for number in range(1, len(specs) + 1)]
        assert [re.findall(r"\d+", spec.kernel)[0] for spec in specs] == numbers
        assert [spec.doc.split(":")[0] for spec in specs] == [f"step {number}" for number in numbers]
        of_ladder, kernels = kernels[: len(specs)], kernels[len(specs) :]
        assert of_ladder == [spec.kernel for spec in specs]
        of_ladder, texts = texts[: len(specs)], texts[len(specs) :]
        assert of_ladder == numbers
    assert kernels == texts == []


def test_the_spec_the_page_and_the_readme_agree_on_their_number() -> None:
    specs = load_all(ROOT / "specs" / "product_ladder.yaml")
    page = (ROOT / "docs" / "ladder.md").read_text()
    readme = (ROOT / "README.md").read_text()
    comment = (ROOT / "specs" / "product_ladder.yaml").read_text()
    counts = re.findall(r"GEMM in (\w+) steps", readme + page) + re.findall(r"GEMM, (\w+) times", comment)
    assert len(counts) == 3  # of the README, the page and the spec
    assert set(counts) == {COUNTS[len(specs) - 6]}
    on_tensor_cores = load_all(ROOT / "specs" / "product_ladder_bf16.yaml")
    comment = (ROOT / "specs" / "product_ladder_bf16.yaml").read_text()
    counts = re.findall(r"(\w+) steps on tensor cores", page.lower()) + re.findall(r"bfloat16, (\w+) times", comment)
    assert counts == 2 * [COUNTS[len(on_tensor_cores) - 6]]


def test_measured_steps_show_their_speed() -> None:
    step = page.Step("ladder_1_naive", "direct", 0.0, 0.2)
    cold = [
        {"name": "cugen", "median_us": 2**37 * 1e-6, "ratio": 1.0},
        {"name": "torch", "ratio": 0.5},
        {"name": "cublasLt", "ratio": 0.25},
    ]
    content = {
        "device": "a GPU",
        "date": "2026-01-01",
        "cugen": "1",
        "command": "python x",
        "cases": [{"name": step.kernel, "regimes": {"cold": cold}}],
    }
    assert "| 1.0 | 0.250 |" in page.table([step], content)
