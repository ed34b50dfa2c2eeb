"""Tiles of inputs: their sizes, halos and steps per block, computed by hand."""

from __future__ import annotations

import pytest

from cugen.families.staged.tile import Side


def arrays(x: str, y: str, more: str = "", dtype: str = "float32") -> str:
    """The declarations of an input x and an output y, by shape and keys."""
    shape, _, keys = x.partition(";")
    declared = f"  x: {{shape: [{shape}], dtype: {dtype}, memory: shared{keys}}}\n"
    return f"arrays:\n{declared}  y: {{shape: [{y}], dtype: {dtype}}}\n{more}"


def test_a_window_in_one_dimension_has_its_halo_on_both_sides(tiles):
    text = arrays("1000;, boundary: zero", "1000") + "indices: {r: 7}\ncompute: y[i] = sum(x[i + r - 3], r)\n"
    (tile,) = tiles(text, {"i": 64})
    assert tile.sides == (Side((("i", 64),), -3, 64 + 6),)
    assert (tile.uses, tile.elements) == (64 * 7, 70)


def test_offsets_of_several_reads_are_joined_in_one_tile(tiles):
    (tile,) = tiles(
        arrays("50, 60;, boundary: zero", "50, 60") + "compute: y[i, j] = x[i - 1, j] + x[i + 2, j] + x[i, j + 5]\n",
        {"j": 32, "i": 8},
    )
    assert tile.sides == (Side((("i", 8),), -1, 8 + 3), Side((("j", 32),), 0, 32 + 5))
    assert tile.uses == 3 * 8 * 32


def test_a_window_in_three_dimensions_has_a_halo_in_each(tiles):
    text = arrays("20, 30, 40;, boundary: wrap", "20, 30, 40") + "indices: {r: 3, s: 5, t: 2}\n"
    (tile,) = tiles(
        text + "compute: y[h, i, j] = sum(x[h + r - 1, i + s - 2, j + t], r, s, t)\n", {"j": 32, "i": 4, "h": 2}
    )
    assert tile.sides == (Side((("h", 2),), -1, 4), Side((("i", 4),), -2, 8), Side((("j", 32),), 0, 33))
    assert tile.reuse == 2 * 4 * 32 * 30 / (4 * 8 * 33)


@pytest.mark.parametrize(
    ("subscript", "low", "count"),
    [
        ("2 * i + r - 1", -1, 2 * 15 + 2 + 1),  # stride 2, three taps
        ("i + 3 * r - 3", -3, 15 + 6 + 1),  # dilation 3
        ("3 * i + 2 * r - 5", -5, 3 * 15 + 4 + 1),
        ("4 * i + r", 0, 4 * 15 + 2 + 1),
    ],
)
def test_stride_and_dilation_widen_the_tile(tiles, subscript, low, count):
    step = int(subscript[0]) if subscript[0].isdigit() else 1
    text = arrays("500;, boundary: zero", "100") + f"indices: {{r: 3}}\ncompute: y[i] = sum(x[{subscript}], r)\n"
    (tile,) = tiles(text, {"i": 16})
    assert tile.sides == (Side((("i", 16 * step),), low, count),)


def test_a_reversed_array_moves_backwards(tiles):
    (tile,) = tiles(
        arrays("100;, boundary: zero", "100") + "compute: y[i] = x[99 - i] + x[98 - i]\n",
        {"i": 16},
    )
    assert tile.sides == (Side((("i", -16),), 98 - 15, 17),)


def test_a_broadcast_row_does_not_move_with_the_rows(tiles):
    text = arrays("200", "300, 200", "  b: {shape: [300], dtype: float32}\n") + "compute: y[i, j] = x[j] * b[i]\n"
    (tile,) = tiles(text, {"j": 32, "i": 8})
    assert tile.sides == (Side((("j", 32),), 0, 32),)
    assert tile.reuse == 8


def test_a_block_that_covers_an_index_needs_no_step(tiles):
    (tile,) = tiles(
        arrays("20;, boundary: zero", "20") + "compute: y[i] = x[i - 1] + x[i + 1]\n",
        {"i": 64},
    )
    assert tile.sides == (Side((), -1, 20 + 2),)
    assert tile.uses == 2 * 20


@pytest.mark.parametrize(
    ("subscript", "span", "side"),
    [
        ("i // 2", 32, Side((("i", 16),), 0, 16)),
        ("(i - 3) // 2", 32, Side((("i", 16),), -2, 17)),  # floor of -3 / 2 to 28 / 2
        ("(3 * i + 1) // 4", 32, Side((("i", 24),), 0, 24)),
        ("i % 8", 32, Side((), 0, 8)),
        ("2 * (i // 4) + i % 2", 32, Side((("i", 16),), 0, 16)),
    ],
)
def test_quotients_and_remainders_move_by_whole_elements(tiles, subscript, span, side):
    text = arrays("200;, boundary: zero", "200") + f"compute: y[i] = x[{subscript}]\n"
    (tile,) = tiles(text, {"i": span})
    assert (tile.sides, tile.folded) == ((side,), frozenset())


def test_a_quotient_that_moves_by_no_whole_element_needs_the_array(tiles):
    (tile,) = tiles(arrays("200;, boundary: zero", "200") + "compute: y[i] = x[i // 2]\n", {"i": 27})
    assert tile.sides == (Side((), 0, 200),)
    assert set(tile.reads) == tile.folded


def test_reads_that_move_differently_have_a_tile_each(tiles):
    text = arrays("300, 4", "300, 300") + "compute: y[i, j] = sum(x[i, k] * x[j, k], k)\n"
    of_rows, of_columns = tiles(text, {"j": 32, "i": 8})
    assert of_rows.sides == (Side((("i", 8),), 0, 8), Side((), 0, 4))
    assert of_columns.sides == (Side((("j", 32),), 0, 32), Side((), 0, 4))
    assert (of_rows.reuse, of_columns.reuse) == (32, 8)


def test_a_gathered_table_is_a_tile_of_its_own_size(tiles):
    text = arrays("40, 3", "500", "  d: {shape: [500], dtype: int32}\n") + "compute: y[i] = x[d[i], 1]\n"
    (tile,) = tiles(text, {"i": 256})
    assert tile.sides == (Side((), 0, 40), Side((), 1, 1))
    assert set(tile.reads) == tile.folded
    assert tile.dimensions == (0,)


GATHERED_WINDOW = "compute: y[i] = sum(x[d[i], i + r - 1], r)\nindices: {r: 3}\n"
IDS = "  d: {shape: [500], dtype: int32}\n"


@pytest.mark.parametrize("boundary", ["zero", "{value: 3}"])
def test_a_window_beside_a_gathered_subscript_keeps_its_halo(tiles, boundary):
    (tile,) = tiles(arrays(f"4, 500;, boundary: {boundary}", "500", IDS) + GATHERED_WINDOW, {"i": 64})
    assert tile.sides == (Side((), 0, 4), Side((("i", 64),), -1, 66))


@pytest.mark.parametrize("boundary", ["clamp", "wrap", "reflect"])
def test_where_a_read_resolves_its_boundary_it_may_reach_any_element(tiles, boundary):
    (tile,) = tiles(arrays(f"4, 500;, boundary: {boundary}", "500", IDS) + GATHERED_WINDOW, {"i": 64})
    assert tile.sides == (Side((), 0, 4), Side((), 0, 500))


def test_fields_of_structures_are_read_with_a_stride(tiles):
    text = arrays("300, 3", "300") + "compute: y[i] = x[i, 0] + x[i, 1] + x[i, 2]\n"
    (tile,) = tiles(text, {"i": 64})
    assert tile.sides == (Side((("i", 64),), 0, 64), Side((), 0, 3))
    assert (tile.reuse, tile.is_strided, tile.pays) == (1, True, True)


@pytest.mark.parametrize(("layout", "is_strided"), [("row", True), ("column", False)])
def test_the_layout_decides_whether_adjacent_outputs_read_adjacent_elements(tiles, layout, is_strided):
    text = arrays(f"300, 3;, layout: {layout}", "300") + "compute: y[i] = x[i, 0] + x[i, 1] + x[i, 2]\n"
    (tile,) = tiles(text, {"i": 64})
    assert (tile.is_strided, tile.pays) == (is_strided, is_strided)


def test_a_reduction_index_of_several_statements_ranges_over_the_longest(tiles):
    more = "  w: {shape: [300, 8], dtype: float32}\n  z: {shape: [300], dtype: float32}\n"
    text = arrays("300, 40", "300", more)
    statements = "y[i] = sum(w[i, k], k)", "z[i] = sum(x[i, k], k)"
    for first, second in (statements, statements[::-1]):
        (tile,) = tiles(f"{text}compute: |\n  {first}\n  {second}\n", {"i": 32})
        assert tile.sides == (Side((("i", 32),), 0, 32), Side((), 0, 40))


def test_a_single_element_has_no_tile(reasons):
    (refusal,) = reasons("staged", arrays("", "300") + "compute: y[i] = i * x\n")
    assert refusal.reason == "x is a single element: leave it in global memory"


@pytest.mark.parametrize("taps", [2, 3])
def test_the_two_outer_dimensions_of_a_tile_of_four_have_loops_of_their_own(prove, taps: int):
    prove(f"""
params: {{N: 3, M: 5, H: 11, W: 37}}
arrays:
  x: {{shape: [N + {taps - 1}, M + {taps - 1}, H, W], dtype: float32, memory: shared}}
  y: {{shape: [N, M, H, W], dtype: float32}}
indices: {{r: {taps}, s: {taps}}}
compute: y[n, m, i, j] = sum(x[n + r, m + s, i, j], r, s)
schedule: {{family: staged, block: {{j: 32, i: 8, m: 1, n: 1}}}}
""")
