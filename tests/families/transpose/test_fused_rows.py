"""Transposes into short output rows, of which one tile takes several: which indices are fused, and right results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.transpose import config as transpose_config
from cugen.runtime.honesty import check_honesty

PERMUTE = """
params: {I: %s, J: %s, K: %s}
arrays:
  x: {shape: [I, J, K], dtype: %s}
%s  y: {shape: [K, J, I], dtype: %s}
compute: y[k, j, i] = %s
"""


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def permute(i, j, k, dtype="float32", value="x[i, j, k] * b[i] + c[k, j, i]"):
    declared = {"b": "  b: {shape: [I], dtype: float32}\n", "c": "  c: {shape: [K, J, I], dtype: float32}\n"}
    operands = "".join(text for name, text in declared.items() if f"{name}[" in value)
    return PERMUTE % (i, j, k, dtype, operands, dtype, value)


def test_short_rows_of_the_output_are_fused(made):
    source = made(permute(12, 40, 70)).source
    assert "x[(ji_in % I * J + ji_in / I) * K + k_in]" in source
    assert "&y[k_ * (I * J) + ji_first]" in source
    assert "&c[k_ * (I * J) + ji_first]" in source
    assert "b[ji % I]" in source


def test_as_many_indices_are_fused_as_fill_a_tile(made, prove):
    text = (
        "arrays:\n  x: {shape: [3, 5, 7, 80], dtype: float32}\n  y: {shape: [80, 7, 5, 3], dtype: float32}\n"
        "compute: y[d, c, b, a] = x[a, b, c, d]\nschedule: {family: transpose}\n"
    )
    assert "cba_in % 3" in made(text).source
    prove(text)


def test_rows_that_fill_tiles_are_not_fused(made):
    assert "ji" not in made(permute(64, 40, 70)).source
    assert "ji" in made(permute(61, 40, 70)).source


def test_rows_shorter_than_the_least_side_of_a_tile_are_fused(planned):
    assert planned(permute(3, 40, 70)).family == "transpose"


@pytest.mark.parametrize(
    "change",
    [
        ("  y: {", "  y: {pitch: 64, "),
        ("c[k, j, i]", "c[k, j, i] + j"),
        ("c[k, j, i]", "c[k, j, i] + i"),
    ],
)
def test_outputs_with_padding_and_values_of_indices_keep_their_rows(made, change):
    text = permute(12, 40, 70)
    assert change[0] in text
    assert "ji" not in made(text.replace(*change)).source


# Execution


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "uint8"])
def test_results_of_every_type(prove, dtype):
    prove(permute(12, 23, 69, dtype, "x[i, j, k]"))
    prove(permute(7, 32, 64, dtype, "x[i, j, k]"))


def test_operands_of_the_output_s_and_of_other_shapes(prove):
    prove(permute(5, 31, 66))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 140),
    st.sampled_from(["float32", "bfloat16", "uint8"]),
)
def test_random_shapes(prove, i, j, k, dtype):
    prove(permute(i, j, k, dtype, "x[i, j, k]"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_access_is_the_predicted_one(made, dtype):
    kernel = made(permute(12, 23, 69, dtype, "x[i, j, k]"))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []
