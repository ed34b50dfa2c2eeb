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
IN_PLACE = "y[b, s, c] += x[b, c, s]"


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


# Execution


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, IN_PLACE])
def test_no_access_is_out_of_bounds_or_races(prove, compute, dtype):
    for channels, pixels in ((3, 67), (4, 128), (8, 1)):
        prove(moved(compute, channels, pixels, dtype), sanitize=True)
    prove(moved(compute, 2, 130, dtype), races=True)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, IN_PLACE]),
    st.integers(1, 9),
    st.integers(1, 300),
    st.sampled_from(["float32", "float16", "float64", "int8"]),
)
def test_random_extents_are_right(prove, compute, channels, pixels, dtype):
    prove(moved(compute, channels, pixels, dtype))


@pytest.mark.parametrize("pixels", [0, 1, 131])
def test_dynamic_extents_are_right(prove, pixels):
    prove(moved(CHOSEN, 3, "dynamic"), params={"S": pixels})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, CHOSEN, IN_PLACE])
def test_every_access_is_the_predicted_one(made, compute):
    kernel = made(moved(compute, 3, 67))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.mismatches == []


# Compilation


@pytest.mark.slow
@pytest.mark.parametrize("compute", [N_TO_C, C_TO_N, BACKWARDS, CHOSEN, REPEATED, IN_PLACE])
def test_unrolled_indices_compile_without_warnings(compiled, compute):
    for dtype in ("float32", "bfloat16", "uint8"):
        compiled(moved(compute, 3, 67, dtype))
    compiled(moved(compute, 4, "dynamic"))
