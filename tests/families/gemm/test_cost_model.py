"""The model of products against kernels that were measured: `tests/data/gemm_h200.csv`."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.families.gemm import heuristic as gemm_choice
from cugen.families.gemm.config import Shape
from cugen.families.gemm.cost_model import predict, shapes, with_stages
from cugen.families.gemm.problem import Problem
from cugen.families.registry import families
from cugen.machine import target

SM_90 = target("sm_90")
families()

PROBLEM = ("rows", "columns", "depth")
SHAPE = ("block_rows", "block_columns", "thread_rows", "thread_columns", "step", "stages", "slices", "lanes")
SHARED = ("split", "stream", "raster")


def measured() -> dict[Problem, list[tuple[float, Shape]]]:
    """Of each problem the shapes that were timed, with their seconds."""
    path = Path(__file__).parents[2] / "data" / "gemm_h200.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    found: dict[Problem, list[tuple[float, Shape]]] = defaultdict(list)
    for row in csv.DictReader(lines):
        rows, columns, depth = (int(row[name]) for name in PROBLEM)
        problem = Problem(rows, columns, depth, widths=(1, 1 if columns % 4 else 4))
        shape = Shape(
            *(int(row[name]) for name in SHAPE),
            **{name: int(row[name]) for name in SHARED},
            join=row["join"] or "workspace",
        )
        found[problem].append((float(row["us"]) * 1e-6, shape))
    return found


def fastest(timed: list[tuple[float, Shape]]) -> float:
    return min(seconds for seconds, _ in timed)


def predicted(problem: Problem, shape: Shape) -> float:
    found = predict(problem, shape, SM_90)
    assert found is not None
    return found.seconds


def test_predictions_are_within_a_tenth_of_what_was_measured():
    ratios = [
        math.log(seconds / predicted(problem, shape))
        for problem, timed in measured().items()
        for seconds, shape in timed
        if seconds < 1.5 * fastest(timed)
    ]
    assert len(ratios) > 300
    assert math.sqrt(sum(ratio**2 for ratio in ratios) / len(ratios)) < 0.1


LISTED = [(s.rows, s.columns, s.thread_rows, s.thread_columns, s.step, s.slices) for s in shapes()]


def picked(problem: Problem, timed: list[tuple[float, Shape]]) -> float:
    """The seconds that the one took that would be chosen if there were no others."""

    def place(shape: Shape) -> tuple[int, int]:
        own = (shape.rows, shape.columns, shape.thread_rows, shape.thread_columns, shape.step, shape.slices)
        stages = [deep.stages for deep in with_stages(shape)]
        return (LISTED.index(own) if own in LISTED else len(LISTED)), stages.index(shape.stages)

    ranked = [(predicted(problem, shape), shape) for _, shape in sorted(timed, key=lambda pair: place(pair[1]))]
    choice = gemm_choice.first_of(ranked)
    return next(seconds for seconds, shape in timed if shape == choice)


@pytest.mark.parametrize("problem", measured(), ids=lambda p: f"{p.rows}x{p.columns}x{p.depth}")
def test_the_pick_among_what_was_measured_is_nearly_the_fastest(problem):
    timed = measured()[problem]
    assert picked(problem, timed) <= 1.05 * fastest(timed)


def test_all_picks_together_are_within_a_percent_of_the_fastest():
    regrets = [picked(problem, timed) / fastest(timed) for problem, timed in measured().items()]
    assert math.prod(regrets) ** (1 / len(regrets)) < 1.01


def test_what_fits_no_multiprocessor_has_no_prediction():
    assert predict(Problem(4096, 4096, 4096), Shape(256, 256, 16, 16, 64, 5), SM_90) is None


def test_doubles_take_longer_than_floats_by_what_the_device_says():
    floats = predict(Problem(4096, 4096, 4096), Shape(128, 128, 8, 8, 8), SM_90)
    doubles = predict(replace(Problem(4096, 4096, 4096), sum_bytes=8, multiply=2.0), Shape(128, 128, 8, 8, 8), SM_90)
    assert floats is not None
    assert doubles is not None
    assert 1.7 < doubles.seconds / floats.seconds < 2.2
