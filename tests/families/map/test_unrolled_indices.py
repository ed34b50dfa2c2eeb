"""Short indices unrolled in `map`: when, and right results."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.map import recognition
from cugen.runtime.honesty import check_honesty

N_TO_C = "y[b, c, s] = x[b, s, c]"
C_TO_N = "y[b, s, c] = x[b, c, s]"
BACKWARDS = "y[b, s, c] = x[b, s, C - 1 - c]"
CHOSEN = "y[b, s, c] = x[b, c, s] if c == 0 else -x[b, c, s]"
REPEATED = "y[b, c, s] = x[b, s] * 2"
ACCUMULATED = "y[b, s, c] += x[b, c, s]"


# What reads and writes a row in parts; D is a multiple of 4.
PARTS = {
    "rotated halves": "x[i, j] * 2 + x[i, (j + D // 2) % D]",
    "chosen halves": "where(j < D // 2, -x[i, j + D // 2], x[i, j - D // 2]) + j",
    "pairs": "x[i, j] + where(j % 2 == 0, -x[i, j + 1], x[i, j - 1])",
    "swapped": "x[i, j + 1 - 2 * (j % 2)]",
    "quarters": "x[i, (j - D // 4) % D] if j // (D // 4) != 1 else 1",
    "repeated": "x[i, j // 4] + x[i, 0]",
    "tiled": "x[i, j % (D // 4)]",
}


def row(value, columns, dtype="float32", rows=5):
    value = f"cast({value}, uint8)" if dtype == "uint8" else value
    return (
        f"params: {{M: {rows}, D: {columns}}}\narrays:\n  x: {{shape: [M, D], dtype: {dtype}}}\n"
        f"  y: {{shape: [M, D], dtype: {dtype}}}\ncompute: y[i, j] = {value}\n"
    )


@pytest.fixture(autouse=True)
def _unrolls_few_elements(monkeypatch):
    monkeypatch.setattr(recognition, "MIN_UNROLLED_THREADS", 1)


def moved(compute, channels=3, pixels=100, dtype="float32", *, more=""):
    extents = {"b": "B", "c": "C", "s": "S"}

    def shape(name):
        indices = compute.split(f"{name}[")[1].split("]")[0].replace("C - 1 - c", "c").split(", ")
        return ", ".join(extents[index] for index in indices)

    return (
        f"params: {{B: 2, C: {channels}, S: {pixels}}}\narrays:\n  x: {{shape: [{shape('x')}], dtype: {dtype}}}\n"
        f"  y: {{shape: [{shape('y')}], dtype: {dtype}}}\ncompute: {compute}\n{more}"
    )


def test_structures_are_loaded_and_stored_in_vectors_where_an_index_has_few_values(planned, widths):
    assert widths(planned(moved(N_TO_C, 3, 128, "uint8"))) == {"x": 16, "y": 16}
    assert widths(planned(moved(C_TO_N, 4, 128, "uint8"))) == {"x": 4, "y": 16}
    assert widths(planned(moved(BACKWARDS, 3, 128, "uint8"))) == {"x": 16, "y": 16}


def test_an_element_that_several_results_read_is_loaded_once(made):
    assert made(moved(REPEATED, 8, 128)).source.count("load<4>(&x[") == 1


def test_conditions_on_the_index_are_decided(made):
    source = made(moved(CHOSEN, 2, 128, "uint8")).source
    assert "load<" in source
    assert " ? " not in source


def test_indices_with_many_values_or_a_requested_block_are_not_unrolled(made):
    assert "int c = " in made(moved(REPEATED, 9, 128)).source
    assert "int c = " not in made(moved(REPEATED, 8, 128)).source
    assert "int c = " in made(moved(REPEATED, 8, 128, more="schedule: {block: {s: 64}}\n")).source


def test_an_index_of_few_elements_is_not_unrolled(made, monkeypatch):
    monkeypatch.undo()
    assert "int c = " in made(moved(REPEATED, 8, 132)).source


def test_an_index_is_not_unrolled_where_nothing_is_gained(made):
    source = made(moved("y[b, c, s] = x[b, c, s] + c", 3, 256)).source
    assert "int c = " in source


def test_halves_of_a_row_that_read_each_other_are_computed_together(made):
    source = made(row(PARTS["rotated halves"], 128)).source
    assert source.count("load<4>(&x[") == 2
    assert source.count("store<4>(") == 2
    assert "%" not in source.split("threadIdx.x")[-1].split("#if")[0]


def test_elements_that_alternate_are_stored_as_structures(planned, widths):
    assert widths(planned(row(PARTS["pairs"], 128))) == {"x": 4, "y": 4}
    assert widths(planned(row(PARTS["repeated"], 128, "uint8"))) == {"x": 4, "y": 16}


def test_statements_may_store_the_fields_of_strided_structures(planned, widths):
    text = (
        "arrays:\n  x: {shape: [96], dtype: float32}\n  z: {shape: [96], dtype: float32}\n"
        "  y: {shape: [192], dtype: float32}\ncompute: |\n  y[2 * i] = x[i]\n  y[2 * i + 1] = z[i]\n"
    )
    assert widths(planned(text)) == {"x": 2, "z": 2, "y": 4}
    assert planned(text).family == "map"


def test_a_structure_past_the_end_of_an_array_is_not_loaded_whole(planned, widths, prove):
    text = (
        "arrays:\n  x: {shape: [255], dtype: float32}\n  y: {shape: [64], dtype: float32}\n"
        "compute: y[i] = x[4 * i] + x[4 * i + 2]\nschedule: {family: map}\n"
    )
    assert widths(planned(text))["x"] == 1
    assert widths(planned(text.replace("255", "256")))["x"] == 4
    prove(text, sanitize=True)
    prove(text.replace("255", "256"), sanitize=True)


# Execution


@pytest.mark.sampled(18)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, ACCUMULATED])
def test_no_access_is_out_of_bounds_or_races(prove, compute, dtype):
    prove(moved(compute, 3, 67, dtype), sanitize=True)
    prove(moved(compute, 2, 130, dtype), races=True)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("value", PARTS.values(), ids=PARTS)
def test_parts_of_rows_are_right(prove, value, dtype):
    prove(row(value, 36, dtype), sanitize=True)
    prove(row(value, 128, dtype), races=True)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(list(PARTS.values())),
    st.integers(1, 70),
    st.integers(1, 40),
    st.sampled_from(["float32", "float16", "float64", "uint8"]),
)
def test_random_rows_are_right(prove, value, quarter, rows, dtype):
    prove(row(value, 4 * quarter, dtype, rows))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, ACCUMULATED]),
    st.integers(1, 9),
    st.integers(1, 300),
    st.sampled_from(["float32", "float16", "float64", "int8"]),
)
def test_random_extents_are_right(prove, compute, channels, pixels, dtype):
    prove(moved(compute, channels, pixels, dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pixels", [0, 1, 131])
def test_dynamic_extents_are_right(prove, pixels):
    prove(moved(CHOSEN, 3, "dynamic"), params={"S": pixels})


@pytest.mark.slow
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, CHOSEN, ACCUMULATED])
def test_every_access_is_the_predicted_one(made, compute):
    kernel = made(moved(compute, 3, 67))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize("value", PARTS.values(), ids=PARTS)
def test_every_access_to_parts_of_rows_is_the_predicted_one(made, value):
    kernel = made(row(value, 36))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


# Compilation


@pytest.mark.slow
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, ACCUMULATED])
def test_unrolled_indices_compile_without_warnings(compiled, compute):
    for dtype in ("float32", "bfloat16", "uint8"):
        compiled(moved(compute, 3, 67, dtype))
    compiled(moved(compute, 4, "dynamic"))


@pytest.mark.slow
@pytest.mark.parametrize("value", PARTS.values(), ids=PARTS)
def test_parts_of_rows_compile_without_warnings(compiled, value):
    for dtype in ("float32", "bfloat16", "uint8"):
        compiled(row(value, 128, dtype))
        compiled(row(value, 36, dtype))


DOUBLED = """params: {{H: {h}, W: {w}}}
arrays:
  x: {{shape: [H, W, 3], dtype: {dtype}}}
  y: {{shape: [2 * H, 2 * W, 3], dtype: {dtype}}}
compute: y[i, j, c] = x[i // 2, j // 2, c]
"""


def test_channels_and_adjacent_pixels_are_unrolled_together(planned, widths):
    assert widths(planned(DOUBLED.format(h=64, w=512, dtype="uint8"))) == {"x": 16, "y": 16}


@pytest.mark.parametrize(("dtype", "w"), [("uint8", 32), ("uint8", 37), ("float16", 64)])
def test_doubled_pixels_are_right(prove, dtype, w):
    prove(DOUBLED.format(h=5, w=w, dtype=dtype), sanitize=True)
