"""Transposes of 16-bit elements whose input and output rows begin anywhere: vectors start before the input rows."""

from __future__ import annotations

import pytest

from cugen.families.transpose import config as transpose_config
from cugen.runtime.honesty import check_honesty


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def batched(rows, columns, dtype="bfloat16", batch=4, value="x[b, i, j]"):
    return (
        f"params: {{B: {batch}, I: {rows}, J: {columns}}}\narrays:\n  x: {{shape: [B, I, J], dtype: {dtype}}}\n"
        f"  y: {{shape: [B, J, I], dtype: {dtype}}}\ncompute: y[b, j, i] = {value}\n"
    )


def adjacent(rows, columns, dtype="bfloat16"):
    return (
        f"arrays:\n  x: {{shape: [{rows}, {columns}], dtype: {dtype}}}\n"
        f"  y: {{shape: [{columns}, {rows}], dtype: {dtype}}}\ncompute: y[j, i] = x[i, j]\n"
    )


def reversed_order(first, rows, columns, dtype="bfloat16"):
    return (
        f"arrays:\n  x: {{shape: [{first}, {rows}, {columns}], dtype: {dtype}}}\n"
        f"  y: {{shape: [{columns}, {rows}, {first}], dtype: {dtype}}}\ncompute: y[k, j, i] = x[i, j, k]\n"
    )


def test_input_rows_are_loaded_by_vectors_that_start_before_them(made):
    kernel = made(batched(1002, 447))
    assert any("input rows begin anywhere" in reason for reason in kernel.plan.kernels[0].reasons)
    assert "= load<8>(&x[8 * vector]);" in kernel.source


@pytest.mark.parametrize("text", [batched(1008, 447), adjacent(120, 44801)])
def test_those_of_outputs_in_aligned_vectors_are_too(made, text):
    kernel = made(text)
    assert any("input rows begin anywhere" in reason for reason in kernel.plan.kernels[0].reasons)
    assert "const int misalignment " not in kernel.source  # of output rows


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(batched(1002, 448), id="aligned input rows"),
        pytest.param(batched(1001, 447), id="single elements on both sides"),
        pytest.param(batched(1002, 447, dtype="float32"), id="wide elements"),
        pytest.param(batched(1002, 129), id="a last tile of few columns"),
        pytest.param(batched(1002, 447, batch=3), id="a last vector that is not whole"),
        pytest.param(adjacent(60, 44801), id="adjacent output rows of narrow vectors"),
    ],
)
def test_others_are_not(made, text):
    assert "vector" not in made(text).source.replace("Vector", "").replace("vectors", "").replace("vector access", "")


@pytest.mark.sampled(21)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "uint16"])
@pytest.mark.parametrize("batch", [4, 8])
@pytest.mark.parametrize(("rows", "columns"), [(134, 119), (146, 121), (34, 239), (286, 357), (66, 115), (114, 119)])
def test_results_are_right(prove, rows, columns, dtype, batch):
    prove(batched(rows, columns, dtype, batch), sanitize=True)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("text", [batched, adjacent])
@pytest.mark.parametrize(("rows", "columns"), [(136, 119), (16, 1197), (120, 359), (64, 121)])
def test_results_of_outputs_in_aligned_vectors_are_right(prove, text, rows, columns, dtype):
    prove(text(rows, columns, dtype=dtype), sanitize=True)


@pytest.mark.parametrize("sizes", [(12, 55, 119), (8, 33, 235)])
def test_results_of_fused_rows_are_right(prove, sizes):
    prove(reversed_order(*sizes), sanitize=True)


def test_computed_results_are_right(prove):
    prove(batched(134, 119, value="x[b, i, j] * 2 + b"), sanitize=True)


def test_traced_accesses_are_those_of_the_plan(made):
    kernel = made(batched(150, 117))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
