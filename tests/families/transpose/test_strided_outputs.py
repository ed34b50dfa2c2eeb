"""Transposes to outputs of which adjacent ones are a few elements apart, and share sectors."""

from __future__ import annotations

import pytest

from cugen.families.transpose import config as transpose_config

PAIRS = "y[j, i, 0] = x[i, j]\n  y[j, i, 1] = z[i, j]"
HALVES = "y[j, i, 0] = x[i, J - 1 - j]\n  y[j, i, 1] = 0"


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def paired(compute, rows=67, columns=131, dtype="float32", memory=""):
    z = f"  z: {{shape: [I, J], dtype: {dtype}}}\n" if "z[" in compute else ""
    return (
        f"params: {{I: {rows}, J: {columns}}}\narrays:\n  x: {{shape: [I, J], dtype: {dtype}{memory}}}\n{z}"
        f"  y: {{shape: [J, I, 2], dtype: {dtype}}}\ncompute: |\n  {compute}\n"
    )


def strided(step, rows=67, columns=131, dtype="float32", batch=3):
    strides = f"[{step} * I * J, {step} * I, {step}]"
    return (
        f"params: {{B: {batch}, I: {rows}, J: {columns}}}\narrays:\n  x: {{shape: [B, I, J], dtype: {dtype}}}\n"
        f"  y: {{shape: [B, J, I], dtype: {dtype}, layout: {{strides: {strides}}}}}\n"
        "compute: y[b, j, i] = x[b, i, j] * 3\n"
    )


@pytest.mark.parametrize("text", [paired(PAIRS), paired(HALVES), strided(2), strided(4), strided(8, dtype="uint16")])
def test_they_are_stored_from_a_tile(planned, text):
    kernel = planned(text)
    assert kernel.family == "transpose"
    assert "outputs are in the same sectors along i" in kernel.reasons[0]


@pytest.mark.parametrize("text", [strided(8), strided(4, dtype="float64")])
def test_outputs_with_sectors_of_their_own_need_no_tile(planned, text):
    assert planned(text).family != "transpose"


@pytest.mark.sampled(14)
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(9, 33), (67, 131), (256, 128)])
@pytest.mark.parametrize("compute", [PAIRS, HALVES])
def test_results_of_pairs_are_right(prove, compute, rows, columns, dtype):
    prove(paired(compute, rows, columns, dtype), sanitize=True)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize(("rows", "columns"), [(9, 33), (65, 127), (128, 64)])
def test_results_at_strides_are_right(prove, step, rows, columns, dtype):
    prove(strided(step, rows, columns, dtype), sanitize=True)


def test_rows_of_a_few_elements_are_right(prove):
    prove(strided(2, 12, 130, batch=9), sanitize=True)


def test_a_tile_that_the_spec_places_is_one_of_these(prove):
    prove(paired(HALVES, memory=", memory: shared"), sanitize=True)


def test_sizes_known_at_launch_are_right(prove):
    text = strided(2).replace("I: 67, J: 131", "I: dynamic, J: dynamic")
    prove(text, params={"I": 65, "J": 70}, sanitize=True)


def parts(rows=67, columns=131, dtype="float32", second="y[j, i + I] = z[i, j]"):
    """Two transposed matrices in one output."""
    arrays = "".join(f"  {name}: {{shape: [I, J], dtype: {dtype}}}\n" for name in "xz")
    return (
        f"params: {{I: {rows}, J: {columns}}}\narrays:\n{arrays}  y: {{shape: [J, 2 * I], dtype: {dtype}}}\n"
        f"indices: {{i: I}}\ncompute: |\n  y[j, i] = x[i, j]\n  {second}\n"
    )


def nibbles(rows=67, columns=131, dtype="uint8"):
    """Both halves of each byte."""
    return (
        f"params: {{I: {rows}, J: {columns}}}\narrays:\n  x: {{shape: [I, J], dtype: {dtype}}}\n"
        f"  y: {{shape: [J, 2 * I], dtype: {dtype}}}\ncompute: |\n  y[j, 2 * i] = x[i, j] & 15\n"
        "  y[j, 2 * i + 1] = x[i, j] >> 4\n"
    )


@pytest.mark.parametrize("text", [parts(), parts(64, 128), nibbles(), nibbles(64, 128)])
def test_parts_of_outputs_are_stored_from_tiles(planned, text):
    assert planned(text).family == "transpose"


def test_both_parts_of_a_vector_are_stored_at_once(made):
    assert "store<16>(&y[j * (2 * I) + 2 * i]" in made(nibbles(64, 128)).source


def test_outputs_along_a_diagonal_are_not_transposed(reasons):
    text = (
        "params: {I: 64, J: 128}\narrays:\n  x: {shape: [I, J], dtype: float32}\n"
        "  y: {shape: [J, I + J], dtype: float32}\nindices: {i: I, j: J}\ncompute: |\n  y[j, i + j] += x[i, j]\n"
    )
    assert any("one index in each dimension" in reason.reason for reason in reasons("transpose", text))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize(("rows", "columns"), [(9, 33), (65, 127), (128, 64), (36, 130)])
def test_results_of_parts_are_right(prove, rows, columns, dtype):
    prove(parts(rows, columns, dtype), sanitize=True)
    prove(nibbles(rows, columns), sanitize=True)
