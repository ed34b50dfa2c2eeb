"""Transposes of structures, whose fields are consecutive in the input, in the output, or in both."""

from __future__ import annotations

import pytest

from cugen.families.transpose import config as transpose_config
from cugen.plan.traversal.walking import accesses
from cugen.runtime.honesty import check_honesty

NAMES = "rgba"


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def spec(arrays, statements, rows, columns, dtype):
    declared = "".join(f"  {name}: {{shape: {shape}, dtype: {dtype}}}\n" for name, shape in arrays.items())
    lines = "".join(f"  {statement}\n" for statement in statements)
    return f"params: {{I: {rows}, J: {columns}}}\narrays:\n{declared}compute: |\n{lines}"


def interleaved(fields, rows=96, columns=64, dtype="float32"):
    """Planes to structures."""
    arrays = {NAMES[f]: "[J, I]" for f in range(fields)} | {"y": f"[I, J, {fields}]"}
    return spec(arrays, [f"y[i, j, {f}] = {NAMES[f]}[j, i]" for f in range(fields)], rows, columns, dtype)


def planar(fields, rows=96, columns=64, dtype="float32"):
    """Structures to planes."""
    arrays = {NAMES[f]: "[J, I]" for f in range(fields)} | {"x": f"[I, J, {fields}]"}
    return spec(arrays, [f"{NAMES[f]}[j, i] = x[i, j, {f}]" for f in range(fields)], rows, columns, dtype)


def moved(fields, rows=96, columns=64, dtype="float32"):
    """Structures as elements of a matrix."""
    arrays = {"x": f"[J, I, {fields}]", "y": f"[I, J, {fields}]"}
    return spec(arrays, ["y[i, j, c] = x[j, i, c]"], rows, columns, dtype)


def planes(fields, rows=96, columns=64, dtype="float32"):
    """A permutation to planes."""
    arrays = {"x": f"[I, J, {fields}]", "y": f"[{fields}, J, I]"}
    return spec(arrays, ["y[c, j, i] = x[i, j, c]"], rows, columns, dtype)


def conjugate(fields, rows=96, columns=64, dtype="float32"):
    """Computed fields, with an operand that is not transposed."""
    arrays = {"x": "[J, I, 2]", "z": "[I, J]", "y": "[I, J, 2]"}
    statements = ["y[i, j, 0] = x[j, i, 0] * z[i, j]", "y[i, j, 1] = z[i, j] - x[j, i, 1]"]
    return spec(arrays, statements, rows, columns, dtype)


FORMS = [interleaved, planar, moved, planes, conjugate]


@pytest.mark.parametrize("form", FORMS)
def test_fields_are_moved_by_vectors_through_a_tile(planned, form):
    kernel = planned(form(2))
    assert kernel.family == "transpose"
    vectors = {access.width for access in accesses(kernel.body) if access.array.space != "shared"}
    assert max(vectors) == 4
    assert 1 not in vectors


@pytest.mark.parametrize(
    ("fields", "dtype", "width"),
    [(4, "float32", 4), (2, "float32", 4), (3, "float32", 4), (4, "uint8", 16), (2, "bfloat16", 8), (2, "float64", 2)],
)
def test_a_thread_has_as_many_structures_as_fill_vectors(made, fields, dtype, width):
    kernel = made(interleaved(fields, dtype=dtype))
    assert f"store<{width}>(&y[" in kernel.source


def test_structures_of_more_than_half_a_sector_are_not_transposed(planned):
    assert planned(moved(8)).family == "map"


def test_single_fields_are_read_from_a_tile(planned):
    arrays = {"x": "[I, J, 4]", "y": "[J, I]"}
    kernel = planned(spec(arrays, ["y[j, i] = x[i, j, 2]"], 300, 200, "float32"))
    assert kernel.family == "transpose"


def test_elements_whose_sectors_other_indices_fill_are_not_transposed(planned):
    """Rows of seven elements in another order."""
    text = "arrays:\n  x: {shape: [90, 80, 7], dtype: bfloat16}\n  y: {shape: [80, 90, 7], dtype: bfloat16}\n"
    assert planned(text + "compute: y[b, a, c] = x[a, b, c]\n").family == "map"


def test_what_is_contiguous_decides_what_is_transposed(planned):
    """Elements a few apart along another index are read as they are."""
    arrays = {"x": "[I, J]", "z": "[B, J, I, 2]", "y": "[B, J, I]"}
    text = spec(arrays, ["y[b, j, i] = x[i, j] + z[b, j, i, 1]"], 96, 64, "float32").replace("{I:", "{B: 3, I:")
    kernel = planned(text)
    assert kernel.family == "transpose"
    assert "x along j" in kernel.reasons[0]


@pytest.mark.sampled(158)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bfloat16", "float64"])
@pytest.mark.parametrize(("rows", "columns"), [(8, 9), (31, 65), (33, 64), (64, 36), (130, 68)])
@pytest.mark.parametrize("fields", [2, 3, 4])
@pytest.mark.parametrize("form", FORMS)
def test_results_are_right(prove, form, fields, rows, columns, dtype):
    prove(form(fields, rows, columns, dtype), sanitize=True)


def test_sizes_known_at_launch_are_right(prove):
    text = moved(4).replace("I: 96, J: 64", "I: dynamic, J: dynamic")
    prove(text, params={"I": 65, "J": 70}, sanitize=True)


@pytest.mark.parametrize("form", [moved, planar])
def test_traced_accesses_are_those_of_the_plan(made, form):
    kernel = made(form(3, 36, 33))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0


@pytest.mark.parametrize(
    ("form", "dtype", "tile"),
    [
        (interleaved, "uint8", "64 x 128"),
        (planar, "uint8", "64 x 64"),
        (interleaved, "float32", "32 x 32"),
        (interleaved, "bfloat16", "64 x 64"),
    ],
)
def test_small_tiles_of_many_fields_have_input_rows_of_a_line(planned, form, dtype, tile):
    assert f"a tile of {tile}" in planned(form(4, 1024, 1024, dtype)).reasons[0]


@pytest.mark.parametrize(("fields", "first", "dtype"), [(6, 2, "float16"), (6, 4, "float8_e4m3"), (8, 2, "float16")])
def test_fields_inside_of_structures_are_read_from_the_registers_of_their_vector(prove, planned, fields, first, dtype):
    # A vector holds the two fields, and registers hold that vector of each of two rows.
    arrays = {"r": "[J, I]", "g": "[J, I]", "x": f"[I, J, {fields}]"}
    text = spec(arrays, [f"r[j, i] = x[i, j, {first}]", f"g[j, i] = x[i, j, {first + 1}]"], 192, 48, dtype)
    assert planned(text).family == "transpose"
    prove(text)
