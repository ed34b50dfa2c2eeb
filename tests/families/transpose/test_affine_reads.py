"""Transposes of reads that run backwards or begin at an offset: which are staged in tiles, and right results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.transpose import config as transpose_config
from cugen.runtime.honesty import check_honesty

# The output's value by what it does to an input of M rows of N elements; outputs have N rows of M elements.
READS = {
    "quarter turn": "x[j, N - 1 - i]",
    "quarter turn back": "x[M - 1 - j, i]",
    "other diagonal": "x[M - 1 - j, N - 1 - i]",
    "values of indices": "x[j, N - 1 - i] * 2 + 3 * i - j",
    "operands": "x[j, N - 1 - i] + b[i] + c[i, j] * x[0, N - 1 - i]",
    "both ways": "x[j, N - 1 - i] - x[j, i]",
    "condition": "x[j, N - 1 - i] if i < j else x[M - 1 - j, i]",
}


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def moved(value, rows=67, columns=130, dtype="float32"):
    operands = f"  b: {{shape: [N], dtype: {dtype}}}\n  c: {{shape: [N, M], dtype: {dtype}}}\n"
    return (
        f"params: {{M: {rows}, N: {columns}}}\narrays:\n  x: {{shape: [M, N], dtype: {dtype}}}\n"
        f"{operands if 'b[' in value else ''}  y: {{shape: [N, M], dtype: {dtype}}}\ncompute: y[i, j] = {value}\n"
    )


def part(offset, rows=67, heads=2, columns=66, dtype="float32"):
    """A head's columns of a row, moved to rows of their own."""
    return (
        f"params: {{S: {rows}, H: {heads}, D: {columns}}}\narrays:\n"
        f"  x: {{shape: [S, 3 * H * D], dtype: {dtype}}}\n  y: {{shape: [H, D, S], dtype: {dtype}}}\n"
        f"compute: y[h, d, s] = x[s, {offset} + h * D + d]\n"
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("value", READS.values(), ids=READS)
def test_reads_of_a_transpose_may_run_backwards(planned, value):
    kernel = planned(moved(value))
    assert kernel.family == "transpose"
    assert kernel.shared_bytes > 0


def test_rows_that_run_backwards_are_read_forwards_and_stored_from_the_last_on(made):
    source = made(moved(READS["quarter turn"], 128, 128)).source
    assert "&x[j_in * N + i_in]" in source
    assert "&y[(N - i - 1) * M + j]" in source


def test_reads_of_a_part_of_each_row_are_loaded_in_vectors_where_it_is_aligned(made):
    assert "load<4>" in made(part("H * D", 64, 2, 64)).source
    assert "load<4>" not in made(part("H * D + 1", 64, 2, 64)).source


def test_a_read_that_is_contiguous_along_both_indices_is_no_transpose(planned):
    text = "arrays:\n  x: {shape: [199], dtype: float32}\n  y: {shape: [100, 100], dtype: float32}\n"
    assert planned(f"{text}compute: y[i, j] = x[i + j]\n").family != "transpose"
    assert planned(f"{text}compute: y[i, j] = x[99 - i + j]\n").family != "transpose"


# Execution


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("value", READS.values(), ids=READS)
def test_no_access_is_out_of_bounds_or_races(prove, value, dtype):
    value = value if dtype != "uint8" or "+" not in value else f"cast({value}, uint8)"
    prove(moved(value, 63, 129, dtype), sanitize=True)
    prove(moved(value, dtype=dtype), races=True)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([value for name, value in READS.items() if name != "values of indices"]),
    st.integers(1, 150),
    st.integers(1, 150),
    st.sampled_from(["float32", "bfloat16", "float64"]),
)
def test_random_sides_are_right(prove, value, rows, columns, dtype):
    prove(moved(value, rows, columns, dtype))


@pytest.mark.slow
def test_parts_of_rows_are_right(prove):
    prove(part("H * D"), sanitize=True)
    prove(part("1", 65, 3, 129, "bfloat16"), sanitize=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 1), (70, 97)])
def test_dynamic_sides_are_right(prove, rows, columns):
    prove(moved(READS["other diagonal"], "dynamic", "dynamic"), params={"M": rows, "N": columns})


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("value", [READS["quarter turn"], READS["other diagonal"], READS["operands"]])
def test_every_access_is_the_predicted_one(made, value, dtype):
    kernel = made(moved(value, dtype=dtype))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


# Compilation


@pytest.mark.slow
@pytest.mark.parametrize("value", READS.values(), ids=READS)
def test_reversed_tiles_compile_without_warnings(compiled, value):
    compiled(moved(value))
    compiled(moved(value, 128, 128, "bfloat16"))
    compiled(moved(value, "dynamic", "dynamic"))
