"""Short rows that vectors can't take, with inputs that are the same for all rows: one index over all elements."""

from __future__ import annotations

import pytest

from cugen.runtime.honesty import check_honesty

BIAS = """
params: {M: %s, N: %s}
arrays:
  x: {shape: [M, N], dtype: %s}
  b: {shape: [N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[i, j] = %s
"""


def biased(rows: int | str, columns: int | str, dtype: str = "float32", value: str = "x[i, j] + b[j]") -> str:
    return BIAS % (rows, columns, dtype, dtype, dtype, value)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [(9, "float32"), (143, "float32"), (142, "float32"), (255, "float32"), (243, "bfloat16"), (511, "bfloat16")],
)
def test_short_rows_of_any_length_are_one_index(made, columns, dtype):
    kernel = made(biased(4096, columns, dtype))
    assert "e % N" in kernel.source
    assert kernel.plan.kernels[0].grid[1:] == (1, 1)


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        (144, "float32"),
        (126, "float32"),
        (257, "float32"),
        (244, "bfloat16"),
        (513, "bfloat16"),
        ("dynamic", "float32"),
    ],
)
def test_vectors_of_rows_and_long_rows_keep_two_indices(made, columns, dtype):
    assert "e %" not in made(biased(4096, columns, dtype)).source


def test_a_requested_vector_keeps_two_indices(made):
    assert "e %" not in made(biased(4096, 142) + "schedule: {vector: 2}\n").source


def test_remainders_of_64_bits_are_not_taken(made):
    """The rows of unknown number may have more elements than 32 bits count."""
    assert "e %" not in made(biased("dynamic", 143)).source


@pytest.mark.parametrize(
    "value",
    ["x[i, j] + b[j] * i", "x[i, j] + x[i, 0] + b[j]", "x[i, N - 1 - j] + b[j]", "x[i, j] + b[(i + j) % N]"],
)
def test_other_uses_of_the_row_keep_it(made, value):
    assert "e %" not in made(biased(4096, 143, value=value)).source


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "value"),
    [
        (257, 13, "float32", "x[i, j] + b[j]"),
        (65, 143, "float32", "maximum(x[i, j] * b[j] + b[N - 1 - j], j)"),
        (67, 243, "bfloat16", "x[i, j] * b[j]"),
        (31, 511, "float16", "x[i, j] if j < 100 else b[j]"),
        (129, 127, "float64", "x[i, j] + b[j]"),
        (33, 1023, "uint8", "x[i, j] + b[j]"),
        pytest.param(2049, 255, "float32", "x[i, j] + b[j]", marks=pytest.mark.slow),
        pytest.param(5001, 129, "int16", "x[i, j] - b[j]", marks=pytest.mark.slow),
    ],
)
def test_results_and_accesses_are_those_of_the_plan(prove, made, rows, columns, dtype, value):
    text = biased(rows, columns, dtype, value)
    prove(text, sanitize=True)
    kernel = made(text)
    assert "e %" in kernel.source
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_it_compiles_without_warnings(compiled, dtype):
    compiled(biased(5001, 143, dtype))


def test_statements_of_one_launch_share_the_index(prove, made):
    arrays = (
        "".join(f"  {name}: {{shape: [3, 5, 143], dtype: float32}}\n" for name in "xry")
        + "  z: {shape: [3, 5, 143], dtype: bool}\n"
    )
    arrays += "  b: {shape: [143], dtype: float32}\n  g: {shape: [143], dtype: float32}\n"
    text = (
        f"arrays:\n{arrays}compute: |\n  t[n, i, j] = x[n, i, j] * g[j] + b[j]\n"
        "  y[n, i, j] = maximum(t[n, i, j], 0) + r[n, i, j]\n  z[n, i, j] = t[n, i, j] > 0\n"
    )
    assert "g[e % 143]" in made(text).source
    prove(text, sanitize=True)
