"""Reductions of ranges that end at elements, as the rows of a sparse matrix: loops have the ends as their bounds."""

from __future__ import annotations

import numpy as np
import pytest

import cugen
from cugen.plan.nodes import For
from cugen.plan.traversal.walking import walk_nodes

RANGES = """
params: {{R: {rows}, Z: {count}, N: {columns}}}
arrays:
  ends: {{shape: [R + 1], dtype: {index}}}
  column: {{shape: [Z], dtype: int32}}
  value: {{shape: [Z], dtype: {dtype}}}
  x: {{shape: [R], dtype: {dtype}}}
  z: {{shape: [R, N], dtype: {dtype}}}
  a: {{shape: [Z, N], dtype: {dtype}}}
  y: {{shape: [{shape}], dtype: {result}}}
indices: {{r: R}}
compute: "{statement}"
"""
INSIDE = "where=i >= ends[r] and i < ends[r + 1]"
FORMS = {
    "a sum": f"y[r] = sum(value[i], i, {INSIDE})",
    "a matrix times a vector": f"y[r] = sum(value[i] * x[column[i]], i, {INSIDE})",
    "a matrix times a matrix": f"y[r, n] = sum(value[i] * z[column[i], n], i, {INSIDE})",
    "the largest of columns": f"y[r, n] = max(a[i, n], i, {INSIDE})",
    "the position of the largest": f"y[r] = argmax(value[i], i, {INSIDE})",
    "by a condition on terms": "y[r] = sum(value[i] if ends[r] <= i and ends[r + 1] > i else 0, i)",
    "with the last element inside": "y[r] = sum(value[i], i, where=i > ends[r] and i <= ends[r + 1])",
    "with another condition": f"y[r] = sum(value[i], i, {INSIDE} and column[i] != r)",
}


def ragged(form: str, rows: int = 40, count: int = 500, columns: int = 24, schedule: str = "", **types: str) -> str:
    """A spec of a form, with the arrays that it reads."""
    statement = FORMS[form]
    chosen = {"dtype": "float32", "result": "int64" if "argmax" in statement else "float32", "index": "int32"} | types
    shape = "R, N" if "y[r, n]" in statement else "R"
    text = RANGES.format(statement=statement, shape=shape, rows=rows, count=count, columns=columns, **chosen)
    return "\n".join((used_lines(text, statement), schedule))


def used_lines(text: str, statement: str) -> str:
    """The spec with the arrays that the statement reads."""
    lines = text.splitlines()
    names = [line.split(":")[0].strip() for line in lines]
    used = (line for line, name in zip(lines, names, strict=True) if line[:2] != "  " or f"{name}[" in statement)
    return "\n".join(used)


def expected(form: str, ends: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The results by slices."""
    value, shift = arrays.get("value"), int(form == "with the last element inside")
    results = []
    for r in range(len(ends) - 1):
        count = len(next(array for name, array in arrays.items() if name in ("value", "a")))
        i = np.array([i for i in range(count) if int(ends[r]) + shift <= i < int(ends[r + 1]) + shift], dtype=int)
        match form:
            case "a matrix times a vector":
                results.append(value[i] @ arrays["x"][arrays["column"][i]])
            case "a matrix times a matrix":
                results.append(value[i] @ arrays["z"][arrays["column"][i]])
            case "the largest of columns":
                results.append(arrays["a"][i].max(axis=0, initial=-np.inf))
            case "the position of the largest":
                results.append(i[value[i].argmax()] if len(i) else -1)
            case "with another condition":
                results.append(value[i[arrays["column"][i] != r]].sum())
            case _:
                results.append(value[i].sum())
    return np.array(results)


def ends_of(kind: str, rows: int, count: int, index: str) -> np.ndarray:
    random = np.random.default_rng(7)
    if kind == "rows of a matrix":
        ends = np.sort(random.integers(0, count + 1, rows + 1))
        ends[[0, -1]] = 0, count
    else:
        limits = np.iinfo(index)
        ends = random.choice([limits.min, -1, 0, 1, 3, count - 1, count, count + 1, limits.max], rows + 1)
        ends = np.clip(ends, limits.min, limits.max)
    return ends.astype(index)


@pytest.mark.sampled(65)
@pytest.mark.parametrize("schedule", ["", "schedule: {family: direct}"], ids=["reduce", "direct"])
@pytest.mark.parametrize("kind", ["rows of a matrix", "any integers"])
@pytest.mark.parametrize("index", ["int32", "int64", "uint32", "int8"])
@pytest.mark.parametrize("form", FORMS)
def test_ranges_are_reduced(form: str, index: str, kind: str, schedule: str) -> None:
    rows, count = 40, 100 if index == "int8" else 500
    random = np.random.default_rng(3)
    arrays = {
        "value": random.integers(-9, 9, count).astype(np.float32),
        "column": random.integers(0, rows, count).astype(np.int32),
        "x": random.integers(-9, 9, rows).astype(np.float32),
        "z": random.integers(-9, 9, (rows, 24)).astype(np.float32),
        "a": random.integers(-9, 9, (count, 24)).astype(np.float32),
    }
    arrays = {name: array for name, array in arrays.items() if f"{name}[" in FORMS[form]}
    ends = ends_of(kind, rows, count, index)
    text = ragged(form, rows, count, index=index, schedule=schedule)
    y = cugen.run("cugen: 1\nkernel: ragged" + text, arrays | {"ends": ends}, device="cpu")["y"]
    assert (y == expected(form, ends, arrays)).all()


@pytest.mark.parametrize("schedule", ["", "schedule: {family: direct}"], ids=["reduce", "direct"])
@pytest.mark.parametrize("form", FORMS)
def test_loops_end_at_elements(made, form: str, schedule: str) -> None:
    source = made(ragged(form, 100_000, 3_200_000, schedule=schedule)).source
    assert "max(ends_r, 0), Z)" in source or "ends_r + 1" in source
    assert "< Z;" not in source


def test_threads_share_a_range_of_the_average_length(planned) -> None:
    assert planned(ragged("a sum", 100_000, 3_200_000)).block == (4, 64, 1)
    assert planned(ragged("a sum", 1000, 3_200_000)).block == (1024, 1, 1)


def test_few_long_ranges_are_reduced_in_parts(made) -> None:
    first, last = made(ragged("a sum", 3, 2_000_000)).plan.kernels
    assert (first.family, last.family) == ("reduce", "reduce")


def test_ranges_that_several_results_share_are_not_of_one(reasons) -> None:
    """Of an end alone: the elements before it are of all results after it."""
    text = ragged("a sum").replace("i >= ends[r] and ", "")
    assert any("several results share" in refusal.reason for refusal in reasons("reduce", text))


def test_an_end_that_another_end_keeps_from_being_loaded_is_the_nearest_element(prove) -> None:
    """Where there is no term, what the second condition reads may be anything."""
    statement = "y[r] = sum(value[i], i, where=i < ends[r] and i >= ends[column[r]])"
    sizes = {"rows": 40, "count": 100, "columns": 1, "index": "int32", "dtype": "float32", "result": "float32"}
    text = used_lines(RANGES.format(statement=statement, shape="R", **sizes), statement)
    is_odd = np.arange(100) % 2
    arrays = {
        "ends": np.where(is_odd, 90, 0)[:41].astype(np.int32),
        "column": np.where(is_odd, 0, 1 << 30).astype(np.int32),
        "value": np.ones(100, np.float32),
    }
    y = cugen.run("cugen: 1\nkernel: ragged" + text, arrays, device="cpu")["y"]
    assert (y == np.where(is_odd, 90, 0)[:40]).all()


def test_elements_that_a_condition_keeps_in_bounds_are_loaded_under_it(prove) -> None:
    prove(
        """
params: {R: 40, Z: 100}
arrays:
  ends: {shape: [R], dtype: int32}
  value: {shape: [Z], dtype: float32}
  y: {shape: [R], dtype: float32}
compute: "y[r] = sum(value[i], i, where=r > 0 and i >= ends[r - 1] and i < ends[r])"
"""
    )


CELLS = """
params: {C: 12, N: 90, K: 5}
arrays:
  start: {shape: [C + 1], dtype: int32}
  near: {shape: [C, K], dtype: int32}
  x: {shape: [N], dtype: float32}
  cell: {shape: [N], dtype: int32}
  f: {shape: [N], dtype: float32}
compute: >
  f[i] = sum(sum(abs(x[i] - x[j]), j, where=start[near[cell[i], k]] <= j and j < start[near[cell[i], k] + 1]), k)
"""


def test_ranges_of_the_cells_around_a_particle_bound_its_loops(planned) -> None:
    kernel = planned(CELLS)
    loops = [node.loop for node in walk_nodes(kernel.body) if isinstance(node, For)]
    assert kernel.family == "direct"
    assert [str(loop.start) for loop in loops] == ["0", "start_"]


def test_the_cell_after_the_last_has_no_end() -> None:
    """What one condition reads, the other keeps in bounds: there is no `start[C + 1]`."""
    random = np.random.default_rng(5)
    start = np.sort(random.integers(0, 91, 13)).astype(np.int32)
    start[[0, -1]] = 0, 90
    near, cell = random.integers(0, 13, (12, 5)).astype(np.int32), random.integers(0, 12, 90).astype(np.int32)
    x = random.integers(0, 9, 90).astype(np.float32)
    ends = [*start, 90]
    expected = [sum(abs(x[i] - x[start[c] : ends[c + 1]]).sum() for c in near[cell[i]]) for i in range(90)]
    arrays = {"start": start, "near": near, "x": x, "cell": cell}
    f = cugen.run("cugen: 1\nkernel: cells" + CELLS, arrays, device="cpu")["f"]
    assert (f == np.array(expected)).all()


@pytest.mark.parametrize(("rows", "unroll"), [(40_000, 4), (20_000, 8)])
def test_columns_of_ranges_of_several_batches_have_more_loads_in_flight(made, rows, unroll):
    text = ragged("the largest of columns", rows, 500_000, 128, dtype="bfloat16")
    assert f"#pragma unroll {unroll}\n" in made(text).source
