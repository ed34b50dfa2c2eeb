"""Rows that may be outside of an array: vectors are loaded where a row is inside, and are zeros elsewhere."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty

SOFTMAX = "y[i, j] = softmax(x[i - 10, j], j)"
TOTAL = "y[i] = sum(x[i - 10, j], j) if i >= 10 else 0"


def rows(statement, m: object = 300, n: object = 1024, dtype="float32", boundary="zero", schedule=""):
    shape = "[M, N]" if "y[i, j]" in statement else "[M]"
    rule = "" if " if " in statement else f", boundary: {boundary}"
    return f"""
params: {{M: {m}, N: {n}}}
target: sm_90
arrays:
  x: {{shape: [M, N], dtype: {dtype}{rule}}}
  y: {{shape: {shape}, dtype: {dtype}}}
compute: {statement}
schedule: {{family: rowwise{schedule}}}
"""


def widths(kernel, array):
    return {access.width for access in accesses(kernel.body) if access.array.name == array}


@pytest.mark.parametrize("statement", [SOFTMAX, TOTAL])
@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 8)])
def test_vectors_of_a_row_are_loaded_under_its_condition(made, planned, statement, dtype, width):
    text = rows(statement, dtype=dtype)
    assert widths(planned(text), "x") == {width}
    assert "if (i - 10 >= 0) {" in made(text).source


def test_rows_at_any_distance_begin_where_vectors_do(planned):
    assert widths(planned(rows("y[i, j] = softmax(x[i // 2 + 1, j], j)")), "x") == {4}


@pytest.mark.parametrize(
    "text",
    [
        rows(SOFTMAX, boundary="{value: 2}"),
        rows("y[i, j] = softmax(x[i, j + 0] + x[i - 1, j - 1], j)"),
    ],
    ids=["another value", "shifted columns"],
)
def test_single_elements_are_read_where_a_vector_has_no_one_rule(planned, text):
    assert 1 in widths(planned(text), "x")


# Results


@pytest.mark.covering
@pytest.mark.parametrize("statement", [SOFTMAX, TOTAL])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n", [64, 72, 1001, pytest.param(20_000, marks=pytest.mark.slow)])
def test_rows_inside_and_outside_are_right(prove, statement, dtype, n):
    prove(rows(statement, 14, n, dtype), sanitize=n == 72)


@pytest.mark.parametrize("storage", ["registers: 0", "threads: 32, registers: 8"])
def test_they_are_right_wherever_rows_wait_between_passes(prove, storage):
    prove(rows(SOFTMAX, 14, 520, schedule=f", {storage}"))


def test_any_size_that_is_known_at_launch_is_right(made, check):
    text = rows(SOFTMAX, "{range: [0, 100]}", "{range: [4, 600], multiple_of: 4}")
    assert "load<4>" in made(text).source
    check(made(text), CpuDevice())


def test_each_access_is_where_the_analysis_has_it(made):
    kernel = made(rows(SOFTMAX, 14, 520))
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []
