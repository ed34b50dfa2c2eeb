"""Scans of elements that are apart in memory, as a field of structures: they are read and written one by one."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty

TEXT = """
params: {M: %d, N: %d}
arrays:
  x: {shape: %s, dtype: %s}
  y: {shape: %s, dtype: %s}
indices: {%s}
compute: |
  %s
%s"""

# Shapes of x and y, and the statements.
CASES = [
    pytest.param("[N]", "[N, 2]", ("y[j, 1] = cumsum(x[j], j)", "y[j, 0] = 1"), id="results"),
    pytest.param("[N, 3]", "[N]", ("y[j] = cumsum(x[j, 1], j)",), id="inputs"),
    pytest.param("[N, 2]", "[N, 2]", ("y[j, 1] = cumsum(x[j, 0], j)", "y[j, 0] = x[j, 1]"), id="both"),
    pytest.param(
        "[N]",
        "[N, 2]",
        ("y[j, 0] = cumsum(x[j], j, reverse=true)", "y[j, 1] = cummax(-x[j], j, reverse=true, exclusive=true)"),
        id="reverse",
    ),
    pytest.param("[M, N]", "[M, N, 2]", ("y[i, j, 1] = cumsum(x[i, j], j)", "y[i, j, 0] = x[i, j]"), id="rows"),
    pytest.param("[M, N]", "[M, N, 2]", ("y[i, j, 1] = cumsum(x[i, j], i)", "y[i, j, 0] = 2"), id="columns"),
    pytest.param("[M, N, 2]", "[M, N]", ("y[i, j] = cummin(x[i, j, 1], i, where=x[i, j, 0] > 0)",), id="masked"),
    pytest.param(
        "[M, N]",
        "[2 * M, N]",
        ("y[2 * i, j] = cumsum(x[i, j], j)", "y[2 * i + 1, j] = cumsum(-x[i, j], j)"),
        id="every second row",
    ),
    pytest.param("[M, N]", "[M, N]", ("y[M - 1 - i, j] = cumsum(x[i, j], j)",), id="rows upside down"),
    pytest.param(
        "[M, N]",
        "[M, 2 * N]",
        ("y[i, 2 * j] = cumsum(x[i, j], i)", "y[i, 2 * j + 1] = cumsum(x[i, j], i, exclusive=true)"),
        id="every second column",
    ),
]


def strided(m, n, x, y, statements, types=("int32", "int64"), schedule=""):
    indices = "i: M, j: N" if any("i" in statement.split("=")[0] for statement in statements) else "j: N"
    return TEXT % (m, n, x, types[0], y, types[1], indices, "\n  ".join(statements), schedule)


@pytest.mark.parametrize(("x", "y", "statements"), CASES)
def test_they_are_scanned_in_parallel(planned, x, y, statements):
    assert planned(strided(37, 1001, x, y, statements)).family == "scan"


@pytest.mark.sampled(26)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (7, 131), (33, 16), (3, 2050)])
@pytest.mark.parametrize(("x", "y", "statements"), CASES)
def test_their_results_are_right(prove, m, n, x, y, statements):
    prove(strided(m, n, x, y, statements))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["", "schedule: {algorithm: multi_pass}"])
@pytest.mark.parametrize("types", [("int8", "float64"), ("float32", "float16")])
@pytest.mark.parametrize(("x", "y", "statements"), CASES[:4])
def test_their_tiles_are_right(prove, x, y, statements, types, schedule):
    prove(strided(2, 70001, x, y, statements, types, schedule), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(("x", "y", "statements"), CASES)
def test_their_traced_accesses_are_those_of_the_plan(made, x, y, statements):
    kernel = made(strided(7, 301, x, y, statements))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches
    assert trace.unknown == 0


def test_rows_at_any_distance_have_vectors(planned):
    statements = ("y[2 * i, j] = cumsum(x[i, j], j)", "y[2 * i + 1, j] = cumsum(-x[i, j], j)")
    kernel = planned(strided(64, 4096, "[M, N]", "[2 * M, N]", statements, ("int32", "int32")))
    assert {a.width for a in accesses(kernel.body) if a.array.space == "global"} == {4}


def test_a_long_one_is_a_single_pass_of_many_blocks(planned):
    kernel = planned(strided(2, 20_000_000, "[N]", "[N, 2]", ("y[j, 1] = cumsum(x[j], j)", "y[j, 0] = 1")))
    assert any("look-back" in reason for reason in kernel.reasons)
