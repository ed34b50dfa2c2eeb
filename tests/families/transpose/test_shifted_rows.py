"""Transposes into rows that begin inside a sector: where vectors start, and right results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.transpose import config as transpose_config
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Declare, For
from cugen.plan.traversal.walking import accesses, walk_nodes

TRANSPOSE = """
params: {M: %s, N: %s}
arrays:
  A: {shape: [3, M, N], dtype: %s}
  b: {shape: [M], dtype: float32}
  B: {shape: [3, N, M], dtype: %s}
compute: B[z, n, m] = A[z, m, n] * b[m] + A[z, m, n]
"""


@pytest.fixture(autouse=True)
def _tiles_of_large_matrices(monkeypatch):
    """Uses the tile size of large matrices for few tiles, too."""
    monkeypatch.setattr(transpose_config, "MIN_TILES", 1)


def stores(kernel: Kernel) -> list[Access]:
    return [access for access in accesses(kernel.body) if access.array.name == "B"]


def test_the_range_of_a_loop_has_all_values_of_its_variable(planned):
    # 112 of the 128 rows of a tile are the block's own, and a trip takes 64 of them.
    loops = {
        node.loop.index.name: node.loop
        for node in walk_nodes(planned(TRANSPOSE % ("dynamic", "{multiple_of: 8}", "bfloat16", "bfloat16")).body)
        if isinstance(node, For)
    }
    assert loops["c"].index.range == (0, 64)


def test_vectors_start_at_sector_boundaries(made):
    text = made(
        (TRANSPOSE % (301, 203, "float32", "float32")).replace(" * b[m]", "").replace("  b: {", "  # b: {")
    ).source
    assert "const int misalignment = (M * N * z + M * ty) % 8;" in text
    assert "const int row = 4 * tx + c + 8 - misalignment;" in text
    assert "const int m = m0 + row - 8;" in text


def test_a_tile_has_one_sector_of_additional_rows(planned):
    kernel = planned(TRANSPOSE % (301, 203, "float64", "float64"))
    (tile,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    assert tile.shape[0] == 64
    assert str(kernel.grid[0]) == "FloorDiv(M + 62, 60)"


@pytest.mark.parametrize(("rows", "columns", "axis"), [(9001, 203, 0), (9001, 204, 0), (9001, 208, 1), (301, 203, 1)])
def test_adjacent_blocks_read_adjacent_parts_of_rows_that_share_sectors_unless_few_blocks_are_between(
    planned, rows, columns, axis
):
    grid = planned(TRANSPOSE % (rows, columns, "float32", "float32")).grid
    assert [str(count) for count in grid].index("FloorDiv(N + 63, 64)") == axis


ADJACENT = """
params: {M: %s, N: %s}
arrays:
  A: {shape: [M, N], dtype: %s}
  B: {shape: [N, M], dtype: %s}
compute: B[n, m] = A[m, n]
"""


@pytest.mark.parametrize(
    ("rows", "dtype", "tile"),
    [
        (45, "bfloat16", (64, 64)),
        (23, "bfloat16", (32, 64)),
        (63, "bfloat16", (64, 64)),
        (100, "bfloat16", (64, 130)),  # pairs in words
        (61, "float32", (64, 65)),
        (125, "float32", (128, 65)),
    ],
)
def test_adjacent_rows_that_a_tile_has_whole_are_not_shifted(planned, made, rows, dtype, tile):
    kernel = planned(ADJACENT % (rows, 9001, dtype, dtype))
    (array,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    assert (array.shape[0], array.shape[1] + array.pad) == tile or array.shape == tile
    assert "misalignment" not in made(ADJACENT % (rows, 9001, dtype, dtype)).source


def test_adjacent_rows_that_no_tile_has_whole_are_shifted(made):
    assert "misalignment" in made(ADJACENT % (130, 9001, "float32", "float32")).source


def test_adjacent_rows_of_a_short_length_known_at_launch_are_stored_by_element_too(made):
    short = "{range: [1, 45]}"
    assert "misalignment" not in made(ADJACENT % (short, 901, "bfloat16", "bfloat16")).source


@pytest.mark.parametrize(("rows", "across"), [(107, 128), (131, 64), (219, 128)])
def test_shifted_tiles_load_few_elements_past_the_ends_of_rows(planned, rows, across):
    kernel = planned(
        TRANSPOSE.replace(" * b[m] + A[z, m, n]", "").replace("  b: {", "  # {") % (rows, 901, "bfloat16", "bfloat16")
    )
    (array,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    assert array.shape[0] == across


@pytest.mark.sampled(10)
@pytest.mark.parametrize("rows", [8, 9, 17, 31, 33, 45, 63, 65, 127, 131])
def test_short_adjacent_rows_are_right(prove, rows):
    for dtype in ("bfloat16", "float32", "uint8"):
        prove(ADJACENT % (rows, 203, dtype, dtype))


@pytest.mark.slow
def test_rows_of_four_dimensions_are_shifted(prove, planned):
    text = (
        "params: {A: 2, B: 109, C: 3, D: 67}\narrays:\n  X: {shape: [A, B, C, D], dtype: bfloat16}\n"
        "  Y: {shape: [A, D, C, B], dtype: bfloat16}\ncompute: Y[a, d, c, b] = X[a, b, c, d]\n"
    )
    assert planned(text).family == "transpose"
    prove(text, sanitize=True)


def test_rows_that_begin_at_a_sector_are_not_shifted(made):
    for dtype, sector in (("float32", 8), ("float16", 16), ("float64", 4)):
        assert "const int misalignment " not in made(TRANSPOSE % (sector * 40, 203, dtype, dtype)).source
        assert "const int misalignment " in made(TRANSPOSE % (sector * 40 + sector // 2, 203, dtype, dtype)).source


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_row_ends_are_scalar_and_the_rest_16_byte_vectors(planned, dtype):
    widths = {
        access.width * access.array.dtype.bytes for access in stores(planned(TRANSPOSE % (301, 203, dtype, dtype)))
    }
    assert widths == {16, {"float32": 4, "float64": 8, "float16": 2}[dtype]}


def test_outputs_of_different_pitch_are_not_shifted(made):
    text = (
        "params: {M: 301, N: 203}\narrays:\n  A: {shape: [M, N], dtype: float32}\n"
        "  B: {shape: [N, M], dtype: float32}\n  C: {shape: [N, M], dtype: float32, pitch: 302}\n"
        "compute: |\n  B[n, m] = A[m, n]\n  C[n, m] = A[m, n] + 1\n"
    )
    assert "misalignment" not in made(text).source
    assert "misalignment" in made(text.replace(", pitch: 302", "")).source


# Execution


@pytest.mark.slow
@settings(max_examples=12)
@given(
    sides=st.tuples(st.integers(2, 300), st.integers(2, 140)),
    types=st.sampled_from(
        [("float32", "float32"), ("float16", "float16"), ("float64", "float64"), ("float16", "float32")]
    ),
)
def test_any_sides_are_right(prove, sides, types):
    prove(TRANSPOSE % (*sides, *types) + "schedule: {family: transpose}\n")


@pytest.mark.slow
def test_every_type_is_right(prove):
    for dtype in ("float32", "float16", "float64"):
        prove(TRANSPOSE % (133, 67, dtype, dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(301, 203, "float32"), (300, 204, "float32"), (300, 136, "float16"), (122, 70, "bfloat16"), (129, 65, "float64")],
)
def test_no_access_is_out_of_bounds_or_races(prove, rows, columns, dtype):
    text = TRANSPOSE % (rows, columns, dtype, dtype)
    prove(text, sanitize=True)
    prove(text, races=True)


@pytest.mark.slow
def test_operands_of_equal_alignment_are_loaded_in_vectors(prove, planned):
    text = (
        "params: {M: 129, N: 65}\narrays:\n  A: {shape: [M, N], dtype: float32}\n  r: {shape: [N], dtype: float32}\n"
        "  R: {shape: [N, M], dtype: float32}\n  S: {shape: [N, M], dtype: float32, pitch: 132}\n"
        "  B: {shape: [N, M], dtype: float32}\n"
        "compute: B[n, m] += A[m, n] * R[n, m] + S[n, m] + r[n] - m\n"
    )
    widths: dict[str, int] = {}
    for access in accesses(planned(text).body):
        widths[access.array.name] = max(widths.get(access.array.name, 0), access.width)
    assert widths == {"A": 1, "R": 4, "S": 1, "r": 1, "B": 4}
    prove(text, sanitize=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 1), (250, 97)])
def test_dynamic_sides_are_right(prove, rows, columns):
    prove(TRANSPOSE % ("dynamic", "dynamic", "float32", "float32"), params={"M": rows, "N": columns})


# Compilation


@pytest.mark.slow
def test_shifted_tiles_compile_without_warnings(compiled):
    for dtype in ("float32", "float16", "float64"):
        compiled(TRANSPOSE % (301, 203, dtype, dtype))
    compiled(TRANSPOSE % ("dynamic", "dynamic", "float32", "float32"))
