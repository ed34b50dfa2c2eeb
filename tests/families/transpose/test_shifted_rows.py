"""Transposes into rows that begin inside of sectors: where vectors begin, and that the results are right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.transpose import config as transpose_shape
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Declare
from cugen.plan.walking import accesses, walk_nodes

TURN = """
params: {M: %s, N: %s}
arrays:
  A: {shape: [3, M, N], dtype: %s}
  b: {shape: [M], dtype: float32}
  B: {shape: [3, N, M], dtype: %s}
compute: B[z, n, m] = A[z, m, n] * b[m] + A[z, m, n]
"""


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    """Tiles as for large matrices, also where there are few of them."""
    monkeypatch.setattr(transpose_shape, "_MANY", 1)


def stores(kernel: Kernel) -> list[Access]:
    return [access for access in accesses(kernel.body) if access.array.name == "B"]


def test_vectors_begin_where_sectors_do(made):
    text = made((TURN % (301, 203, "float32", "float32")).replace(" * b[m]", "").replace("  b: {", "  # b: {")).source
    assert "const int back = (M * N * z + M * ty) % 8;" in text
    assert "const int row = 4 * tx + c + 8 - back;" in text
    assert "const int m = m0 + row - 8;" in text


def test_a_tile_has_the_rows_of_a_sector_more(planned):
    kernel = planned(TURN % (301, 203, "float64", "float64"))
    (tile,) = [node.array for node in walk_nodes(kernel.body) if isinstance(node, Declare)]
    assert tile.shape[0] == 64
    assert str(kernel.grid[0]) == "FloorDiv(M + 62, 60)"


def test_rows_that_begin_with_sectors_are_not_shifted(made):
    for dtype, sector in (("float32", 8), ("float16", 16), ("float64", 4)):
        assert "back" not in made(TURN % (sector * 40, 203, dtype, dtype)).source
        assert "back" in made(TURN % (sector * 40 + sector // 2, 203, dtype, dtype)).source


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_ends_go_one_by_one_and_the_rest_16_bytes_at_once(planned, dtype):
    widths = {access.width * access.array.dtype.bytes for access in stores(planned(TURN % (301, 203, dtype, dtype)))}
    assert widths == {16, {"float32": 4, "float64": 8, "float16": 2}[dtype]}


def test_outputs_of_different_pitch_are_not_shifted(made):
    text = (
        "params: {M: 301, N: 203}\narrays:\n  A: {shape: [M, N], dtype: float32}\n"
        "  B: {shape: [N, M], dtype: float32}\n  C: {shape: [N, M], dtype: float32, pitch: 302}\n"
        "compute: |\n  B[n, m] = A[m, n]\n  C[n, m] = A[m, n] + 1\n"
    )
    assert "back" not in made(text).source
    assert "back" in made(text.replace(", pitch: 302", "")).source


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
    prove(TURN % (*sides, *types) + "schedule: {family: transpose}\n")


def test_every_type_is_right(prove):
    for dtype in ("float32", "float16", "float64"):
        prove(TURN % (133, 67, dtype, dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(301, 203, "float32"), (300, 204, "float32"), (300, 136, "float16"), (122, 70, "bfloat16"), (129, 65, "float64")],
)
def test_no_access_is_outside_or_races(prove, rows, columns, dtype):
    text = TURN % (rows, columns, dtype, dtype)
    prove(text, sanitize=True)
    prove(text, races=True)


def test_operands_that_begin_alike_come_in_vectors(prove, planned):
    text = (
        "params: {M: 129, N: 65}\narrays:\n  A: {shape: [M, N], dtype: float32}\n  r: {shape: [N], dtype: float32}\n"
        "  R: {shape: [N, M], dtype: float32}\n  S: {shape: [N, M], dtype: float32, pitch: 132}\n"
        "  B: {shape: [N, M], dtype: float32}\n"
        "compute: B[n, m] += A[m, n] * R[n, m] + S[n, m] + r[n] - m\n"
    )
    found: dict[str, int] = {}
    for access in accesses(planned(text).body):
        found[access.array.name] = max(found.get(access.array.name, 0), access.width)
    assert found == {"A": 1, "R": 4, "S": 1, "r": 1, "B": 4}
    prove(text, sanitize=True)


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 1), (250, 97)])
def test_dynamic_sides_are_right(prove, rows, columns):
    prove(TURN % ("dynamic", "dynamic", "float32", "float32"), params={"M": rows, "N": columns})


# Compilation


@pytest.mark.slow
def test_shifted_tiles_compile_without_warnings(compiled):
    for dtype in ("float32", "float16", "float64"):
        compiled(TURN % (301, 203, dtype, dtype))
    compiled(TURN % ("dynamic", "dynamic", "float32", "float32"))
