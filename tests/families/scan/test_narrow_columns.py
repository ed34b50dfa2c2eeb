"""Scans of few adjacent columns, whose rows are narrower than sectors: a warp accesses several rows at once."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import Barrier
from cugen.plan.traversal.walking import walk_nodes
from cugen.runtime.honesty import check_honesty

SUM = "cumsum(x[n, i, c], i)"
BACKWARD = "cumsum(x[n, i, c] * c, i, exclusive=true, reverse=true) + cummax(x[n, i, c], i, reverse=true)"
MASKED = "cummin(x[n, i, c], i, where=c > 0) + cumsum(x[n, i, c], i, exclusive=true)"


def narrow(count, length, columns, value=SUM, dtype="float32", out="", layout=""):
    return f"""
params: {{N: {count}, L: {length}, C: {columns}}}
arrays:
  x: {{shape: [N, L, C], dtype: {dtype}}}
  y: {{shape: [N, L, C], dtype: {out or dtype}{layout}}}
compute: y[n, i, c] = {value}
"""


@pytest.mark.parametrize(
    ("length", "columns", "dtype", "block"),
    [
        (8, 4, "float32", (1, 8, 16)),
        (2, 4, "float32", (1, 2, 64)),
        (9, 6, "float32", (4, 8, 4)),
        (100, 6, "bfloat16", (4, 8, 4)),
        (100, 4, "uint8", (1, 32, 4)),
    ],
)
def test_lanes_are_along_the_columns(planned, length, columns, dtype, block):
    kernel = planned(narrow(1 << 20, length, columns, dtype=dtype))
    assert kernel.block == block
    assert not any(isinstance(node, Barrier) for node in walk_nodes(kernel.body))


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        pytest.param(8, "", id="whole sectors"),
        pytest.param(25, "", id="several sectors"),
        pytest.param(3, "", id="single elements"),
        pytest.param(4, ", layout: {strides: [4 * L, 4 * N * L, 1]}", id="rows apart"),
    ],
)
def test_rows_that_use_their_sectors_or_are_apart_have_lanes_across(planned, columns, layout):
    assert planned(narrow(1 << 16, 8, columns, layout=layout)).block[1] == 1


def test_few_columns_keep_more_threads_than_a_warp_has(planned):
    assert planned(narrow(100, 1000, 4)).block[1] == 64


@pytest.mark.parametrize("value", [SUM, BACKWARD, MASKED])
@pytest.mark.parametrize("columns", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 33, 100])
@pytest.mark.sampled(53)
def test_their_results_are_right(prove, length, columns, value):
    prove(narrow(3000, length, columns, value))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("dtype", "out"), [("bfloat16", "float32"), ("float64", "float64"), ("uint8", "int32"), ("int8", "int8")]
)
@pytest.mark.parametrize(("length", "columns"), [(8, 2), (17, 6)])
def test_results_of_other_types_are_right(prove, length, columns, dtype, out):
    prove(narrow(5000, length, columns, dtype=dtype, out=out), sanitize=True)


@pytest.mark.covering
@pytest.mark.parametrize("length", [7, 40])
@pytest.mark.parametrize("value", [SUM, BACKWARD])
def test_traced_accesses_are_those_of_the_plan(made, length, value):
    kernel = made(narrow(2100, length, 4, value))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
