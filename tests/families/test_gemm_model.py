"""The model of products against kernels that were measured: `tests/data/gemm_h200.csv`."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.families.gemm_model import SPLITS, predict, shapes, with_stages
from cugen.families.gemm_problem import Problem
from cugen.families.gemm_shape import Shape, with_lanes
from cugen.families.registry import families
from cugen.targets import target

SM_90 = target("sm_90")
families()


def measured():
    path = Path(__file__).parents[1] / "data" / "gemm_h200.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def problem(row) -> Problem:
    columns = int(row["columns"])
    return Problem(int(row["rows"]), columns, int(row["depth"]), widths=(1, 1 if columns % 4 else 4))


def winner(row) -> Shape:
    sizes = (int(row[name]) for name in ("block_rows", "block_columns", "thread_rows", "thread_columns", "step"))
    shared = {"split": int(row["split"]), "stream": int(row["persistent"] == "yes")}
    shape = with_lanes(Shape(*sizes, int(row["stages"]), int(row["slices"]), **shared))
    assert shape is not None
    return shape


def seconds(row) -> float:
    return 2 * int(row["rows"]) * int(row["columns"]) * int(row["depth"]) / float(row["tflops"]) / 1e12


def ranked(row) -> list[tuple[float, Shape]]:
    one = problem(row)
    open_shapes = [
        replace(deep, split=parts)
        for shape in shapes()
        for deep in with_stages(shape)
        for parts in SPLITS
        if one.depth % parts == 0
    ]
    open_shapes += [replace(shape, stream=waves) for shape in open_shapes if shape.split == 1 for waves in (1, 2)]
    found = [(predict(one, shape, SM_90), shape) for shape in open_shapes]
    return sorted(((p.seconds, shape) for p, shape in found if p is not None), key=lambda pair: pair[0])


def name(row) -> str:
    return f"{row['rows']}x{row['columns']}x{row['depth']}"


# Of shapes whose few tiles all blocks share out only some were tried: the model knows better ones.
ROWS = [row for row in measured() if name(row) != "128x7168x2048"]


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_winner_takes_about_as_long_as_predicted(row):
    found = predict(problem(row), winner(row), SM_90)
    assert found is not None
    assert seconds(row) == pytest.approx(found.seconds, rel=0.08)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_the_winner_ranks_near_the_top(row):
    best = ranked(row)[0][0]
    found = predict(problem(row), winner(row), SM_90)
    assert found is not None
    assert found.seconds <= 1.15 * best
    assert sum(time_ < found.seconds * 0.94 for time_, _ in ranked(row)) == 0


@pytest.mark.parametrize("row", measured(), ids=name)
def test_the_pick_is_predicted_to_come_near_what_was_measured(row):
    assert ranked(row)[0][0] <= 1.15 * seconds(row)


def test_what_fits_no_multiprocessor_has_no_prediction():
    assert predict(Problem(4096, 4096, 4096), Shape(256, 256, 16, 16, 64, 5), SM_90) is None


def test_doubles_take_longer_than_floats_by_what_the_device_says():
    floats = predict(Problem(4096, 4096, 4096), Shape(128, 128, 8, 8, 8), SM_90)
    doubles = predict(replace(Problem(4096, 4096, 4096), sum_bytes=8, multiply=2.0), Shape(128, 128, 8, 8, 8), SM_90)
    assert floats is not None
    assert doubles is not None
    assert 1.7 < doubles.seconds / floats.seconds < 2.2
