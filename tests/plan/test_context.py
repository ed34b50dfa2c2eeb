"""What the kernels of a spec share: names, values of params, and where arrays live."""

from __future__ import annotations

import pytest

from cugen.plan.context import make_context
from cugen.plan.symbols import evaluate, symbol


@pytest.fixture
def context(make_spec):
    return lambda block, **more: make_context(make_spec(block, **more))


def test_names_are_the_users_unless_c_has_taken_them(context):
    result = context(
        "near[i] = int_ * A[i] + gamma",
        A="N",
        near="N",
        top="params: {N: 8}\nscalars: {int_: {dtype: float32}, gamma: {dtype: float32}}",
    )
    assert result.arrays["A"].symbol == "A"
    assert result.arrays["near"].symbol == "near_"
    assert result.scalar_symbols == {"int_": "int_", "gamma": "gamma_"}


def test_an_array_leaves_their_names_to_the_functions_of_the_host(make_spec):
    spec = make_spec("y[i] = A[i]", A="N", y="N", top="params: {N: 8}")
    launcher = f"{spec.kernel}_launch"
    result = make_context(make_spec(f"{launcher}[i] = A[i]", A="N", top="params: {N: 8}", **{launcher: "N"}))
    assert result.arrays[launcher].symbol == f"{launcher}_"


def test_no_two_things_share_a_name(context):
    result = context(
        "tried_[i] = gamma_ + gamma * A[i]",
        A="8",
        tried_="8",
        top=("scalars: {gamma_: {dtype: float32}, gamma: {dtype: float32}}"),
    )
    names = [a.symbol for a in result.arrays.values()] + list(result.scalar_symbols.values()) + ["tried"]
    assert len(set(names)) == len(names)


def test_a_fixed_param_has_one_value_and_a_dynamic_one_its_range(context):
    result = context(
        "Y[i, j, k] = 1",
        Y="M, N, K",
        top="params: {M: 7, N: dynamic, K: {range: [2, 64]}}",
    )
    assert result.ranges == {symbol("M"): (7, 7), symbol("N"): (0, 2**31 - 1), symbol("K"): (2, 64)}
    assert result.static(symbol("M") * 2) == 14
    assert result.static(symbol("K")) is None


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        ("4, 6", 24),
        ("4, 6; float32; pitch: 8", 3 * 8 + 6),
        ("4, 6; float32; layout: column", 24),
        ("4, 6; float32; 'layout: {strides: [100, 3]}'", 3 * 100 + 5 * 3 + 1),
        ("4", 4),
    ],
)
def test_a_buffer_spans_its_gaps_but_not_the_one_behind_its_last_row(context, array, elements):
    index = "i, j" if array.startswith("4, 6") else "i"
    result = context(f"Y[{index}] = A[{index}]", A=array.replace("'", ""), Y=array.split(";")[0])
    assert result.static(result.elements(result.spec.array("A"))) == elements


def test_a_dimension_of_nothing_needs_no_elements(context):
    result = context("Y[i, j] = A[i, j]", A="N, 4", Y="N, 4", top="params: {N: dynamic}")
    assert evaluate(result.elements(result.spec.array("A")), {symbol("N"): 0}) <= 0


def test_strides_follow_layout_and_pitch(context):
    result = context(
        "Y[i, j] = A[i, j] + B[i, j]",
        A="4, 6; float32; layout: column",
        B="4, 6; float32; 'pitch: {align: 128}'".replace("'", ""),
        Y="4, 6",
    )
    strides = {name: tuple(map(int, array.strides)) for name, array in result.arrays.items()}
    assert strides == {"A": (1, 4), "B": (32, 1), "Y": (6, 1)}


def test_spaces(context):
    result = context(
        "Y[i] = A[i] + B[i] + C[i] + D[i] + E[i]",
        A="4",
        B="4; float32; memory: readonly",
        C="4; float32; memory: constant",
        D="4; float32; memory: constant, values: [1, 2, 3, 4]",
        E="4; float32; values: [1, 2, 3, 4]",
        Y="4",
    )
    assert {name: array.space for name, array in result.arrays.items()} == {
        "A": "global",
        "B": "readonly",
        "C": "constant",
        "D": "constant",
        "E": "table",
        "Y": "global",
    }
    assert [array.symbol for array in result.constants] == ["C_constant", "D", "E"]
    assert [(u.symbol, u.argument, u.bytes) for u in result.uploads] == [("C_constant", "C", 16)]
    assert [name for name, array in result.arrays.items() if array.writable] == ["Y"]


def test_an_array_that_statements_overwrite_is_writable(context):
    result = context("Y[i] = A[i]\nA[i] = B[i]", A="4", B="4", Y="4")
    assert [name for name, array in result.arrays.items() if array.writable] == ["A", "Y"]


def test_a_fixed_scalar_in_constant_memory_is_not_uploaded(context):
    top = "scalars: {a: {dtype: float32, memory: constant}, b: {dtype: float32, memory: constant, value: 2}}"
    assert [u.argument for u in context("Y[i] = a * b", Y="4", top=top).uploads] == ["a"]
