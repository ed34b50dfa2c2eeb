"""Corner cases of the language: wrapping integers, floors, NaN, branches, out-of-bounds reads, params and scalars."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.reference.contents import OutsideError
from cugen.reference.cost import cost
from cugen.reference.integers import integer_operator
from cugen.spec.types import DTYPES

INTEGERS = [t for t in DTYPES.values() if t.is_integer]


def wrapped(value, dtype):
    return (value - dtype.lowest) % (1 << dtype.bits) + dtype.lowest


def by_definition(name, a, b, dtype):
    bits = dtype.bits
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b if b else 0
        case "mod":
            return a % b if b else 0
        case "pow" if b < 0:
            return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)
        case "pow":
            return pow(a, b, 1 << bits)
        case "shl":
            return a << b if 0 <= b < bits else 0
        case "shr":
            return a >> (b if 0 <= b < bits else bits)
    raise AssertionError(name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "pow", "shl", "shr"])
@given(data=st.data())
def test_integer_operators_wrap_and_never_fault(name, data):
    dtype = data.draw(st.sampled_from(INTEGERS))
    edges = st.sampled_from([dtype.lowest, dtype.highest, 0, 1])
    a = data.draw(st.integers(dtype.lowest, dtype.highest) | edges)
    b = data.draw(st.integers(max(dtype.lowest, -70), min(dtype.highest, 70)) | edges)
    operands = [np.array([x], dtype=dtype.name) for x in (a, b)]
    with np.errstate(all="ignore"):
        result = integer_operator(name, operands)
    assert result.dtype == np.dtype(dtype.name)
    assert int(result[0]) == wrapped(by_definition(name, a, b, dtype), dtype)


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_integer_reductions_wrap_in_their_own_width(run, rng, kind):
    x = rng.integers(-(2**31), 2**31, 50).astype(np.int32)
    expected = getattr(np, kind)(x, dtype=np.int32)
    assert run(f"y = {kind}(x[i], i)", {"x": "int32 50", "y": "int32"}, {"x": x}).value == expected


def test_integer_matrix_multiplications_wrap(run, rng):
    a, b = rng.integers(-(2**31), 2**31, (2, 20, 20)).astype(np.int32)
    arrays = {"a": "int32 20 20", "b": "int32 20 20", "c": "int32 20 20"}
    result = run("c[i, j] = sum(a[i, k] * b[k, j], k)", arrays, {"a": a, "b": b})
    np.testing.assert_array_equal(result.value, a @ b)


def test_small_integers_accumulate_in_int32(run):
    x = np.full(100, 100, np.int8)
    assert run("y = sum(x[i], i)", {"x": "int8 100", "y": "int32"}, {"x": x}).value == 10000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_division_and_remainder_have_floor_semantics(run, dtype):
    x = np.array([7.5, -7.5, 7.5, -7.5, 6.0, -6.0], dtype)
    z = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0], dtype)
    arrays = dict.fromkeys("xzqr", f"{dtype} 6")
    results = run("q[i] = x[i] // z[i]\nr[i] = x[i] % z[i]", arrays, {"x": x, "z": z})
    np.testing.assert_array_equal(results["q"].value, x // z)
    np.testing.assert_array_equal(results["r"].value, x % z)
    assert results["r"].accepts(x % z).all()
    assert not results["r"].accepts(np.fmod(x, z)).all()


def test_rounding_goes_to_even(run):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    result = run("y[i] = round(x[i])", {"x": "float32 5", "y": "float32 5"}, {"x": x})
    np.testing.assert_array_equal(result.value, [0, 2, 2, 0, -2])


@pytest.mark.parametrize(
    "expression", ["maximum(x[i], 1)", "minimum(1, x[i])", "sign(x[i])", "x[i] - x[i]", "abs(x[i])"]
)
def test_nan_propagates(run, expression):
    x = np.array([np.nan, 3], np.float32)
    result = run(f"y[i] = {expression}", {"x": "float32 2", "y": "float32 2"}, {"x": x})
    assert np.isnan(result.value).tolist() == [True, False]
    assert not result.accepts(np.array([0, 3], np.float32))[0]
    assert result.accepts(np.full(2, np.nan, np.float32)).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["max", "min", "sum", "prod"])
def test_nan_propagates_through_reductions(run, kind):
    x = np.array([[1, np.nan, 3], [1, 2, 3]], np.float32)
    result = run(f"y[i] = {kind}(x[i, j], j)", {"x": "float32 2 3", "y": "float32 2"}, {"x": x})
    assert np.isnan(result.value).tolist() == [True, False]


def test_a_nan_wins_an_argmax_and_the_first_of_them(run):
    x = np.array([[1, np.nan, np.nan], [np.inf, 2, 3], [-np.inf] * 3], np.float32)
    result = run("y[i] = argmax(x[i, j], j)", {"x": "float32 3 3", "y": "int64 3"}, {"x": x})
    assert result.value.tolist() == [1, 0, 0]


def test_an_argmax_where_only_lowest_values_are_left(run):
    x = np.array([[5, -np.inf, -np.inf]], np.float32)
    result = run("y[i] = argmax(x[i, j], j, where=j > 0)", {"x": "float32 1 3", "y": "int64 1"}, {"x": x})
    assert result.value.tolist() == [1]


def test_the_branch_that_is_not_taken_is_not_read(run):
    ids = np.array([0, -1, 7, 2], np.int32)
    x = np.arange(3, dtype=np.float32) + 1
    result = run(
        "y[i] = x[ids[i]] if ids[i] >= 0 and ids[i] < 3 else 0",
        {"x": "float32 3", "ids": "int32 4", "y": "float32 4"},
        {"x": x, "ids": ids},
    )
    assert result.value.tolist() == [1, 0, 0, 3]


def test_terms_that_where_leaves_out_are_not_read(run):
    ids = np.array([[0, -1], [2, 9]], np.int32)
    result = run(
        "y[i, j] = sum(x[ids[i, k], j], k, where=ids[i, k] >= 0 and ids[i, k] < 3)",
        {"x": "float32 3 4", "ids": "int32 2 2", "y": "float32 2 4"},
        {"x": np.arange(12, dtype=np.float32).reshape(3, 4), "ids": ids},
    )
    assert result.value.tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]


@pytest.mark.parametrize("wild", [-1, 3])
def test_a_wild_gather_names_array_subscript_and_value(run, wild):
    arrays = {"x": "float32 4 3", "ids": "int32 2", "y": "float32 2 4"}
    data = {"x": np.zeros((4, 3), np.float32), "ids": np.array([0, wild], np.int32)}
    with pytest.raises(OutsideError, match=rf"subscript 1 of x is {wild}, outside 0 \.\. 2"):
        run("y[i, j] = x[j, ids[i]]", arrays, data)


def test_a_gather_with_a_boundary_may_be_wild(run):
    arrays = {"x": "float32 3 : boundary: {value: 9}", "ids": "int32 3", "y": "float32 3"}
    data = {"x": np.ones(3, np.float32), "ids": np.array([-5, 1, 3], np.int32)}
    assert run("y[i] = x[ids[i]]", arrays, data).value.tolist() == [9, 1, 9]


@pytest.mark.parametrize(
    ("mode", "numpy_mode"),
    [("clamp", "edge"), ("wrap", "wrap"), ("reflect", "reflect"), ("symmetric", "symmetric")],
)
@pytest.mark.parametrize("extent", [1, 2, 3, 5])
def test_boundaries_far_outside_are_those_of_numpy_pad(run, mode, numpy_mode, extent):
    x = np.arange(extent, dtype=np.int32)
    arrays = {"x": f"int32 {extent} : boundary: {mode}", "y": "int32 30"}
    result = run("y[i] = x[i - 11]", arrays, {"x": x})
    np.testing.assert_array_equal(result.value, np.pad(x, (11, 19 - extent), mode=numpy_mode))


def test_a_dynamic_param_takes_its_value_from_the_caller(run):
    arrays = {"x": "float32 N", "y": "float32"}
    x = np.arange(5, dtype=np.float32)
    result = run("y = sum(x[i], i) / N", arrays, {"x": x}, "params: {N: dynamic}", params={"N": 5})
    assert result.value == 2
    with pytest.raises(ValueError, match="no value for N"):
        run("y = sum(x[i], i) / N", arrays, {"x": x}, "params: {N: dynamic}")


def test_scalars_are_baked_or_given(run):
    extra = "scalars: {a: {dtype: float32, value: 0.1}, b: {dtype: float32}}"
    x = np.ones(1, np.float32)
    result = run("y[i] = a * x[i] + b", {"x": "float32 1", "y": "float32 1"}, {"x": x}, extra, scalars={"b": 2.0})
    assert abs(result.exact[0] - (float(np.float32(0.1)) + 2)) < 1e-15
    with pytest.raises(ValueError, match="no value for b"):
        run("y[i] = a * x[i] + b", {"x": "float32 1", "y": "float32 1"}, {"x": x}, extra)


def test_baked_values_are_part_of_the_result(run):
    arrays = {"w": "float32 3 : values: [1, 2, 4]", "x": "float32 5", "y": "float32 3"}
    x = np.arange(5, dtype=np.float32)
    result = run("y[i] = sum(x[i + r] * w[r], r)", arrays, {"x": x})
    assert result.value.tolist() == [10, 17, 24]


def test_missing_and_misshapen_inputs_are_named(run):
    arrays = {"x": "float32 3", "y": "float32 3"}
    with pytest.raises(ValueError, match="no values for x"):
        run("y[i] = x[i]", arrays, {})
    with pytest.raises(ValueError, match=r"x must be float32 of shape \(3,\), not float32 of shape \(4,\)"):
        run("y[i] = x[i]", arrays, {"x": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match="x must be float32"):
        run("y[i] = x[i]", arrays, {"x": np.zeros(3)})


def test_inputs_are_left_as_they_are(run):
    x = np.arange(4, dtype=np.float32)
    result = run("x[i] += 1", {"x": "float32 4"}, {"x": x})
    assert x.tolist() == [0, 1, 2, 3]
    assert result.value.tolist() == [1, 2, 3, 4]


def test_adding_to_narrow_storage_rounds_the_sum(run):
    y = np.array([2048], np.float16)
    result = run("y[i] += 1", {"y": "float16 1"}, {"y": y})
    assert result.value.tolist() == [2048]
    assert result.exact.tolist() == [2049]
    assert result.accepts(y).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3", ml_dtypes.float8_e4m3fn),
        ("float8_e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_narrow_floats_compute_in_float32_and_round_on_store(run, rng, name, kind):
    x = rng.normal(size=64).astype(kind)
    arrays = {"x": f"{name} 64", "y": f"{name} 64"}
    result = run("y[i] = x[i] * x[i] + 1", arrays, {"x": x})
    single = x.astype(np.float32) * x.astype(np.float32) + np.float32(1)
    assert result.value.dtype == kind
    assert result.accepts(single.astype(kind)).all()
    assert not result.accepts((single * np.float32(1.5)).astype(kind)).any()


def test_an_empty_extent_gives_empty_results(run):
    arrays = {"x": "float32 N 3", "y": "float32 N", "z": "float32 3"}
    x = np.zeros((0, 3), np.float32)
    results = run(
        "y[i] = sum(x[i, j], j)\nz[j] = sum(x[i, j], i)", arrays, {"x": x}, "params: {N: dynamic}", params={"N": 0}
    )
    assert results["y"].value.shape == (0,)
    assert results["z"].value.tolist() == [0, 0, 0]


def test_cost_counts_a_matrix_multiplications_terms_at_a_discount(make_spec):
    arrays = {"A": "float32 64 64", "B": "float32 64 64", "C": "float32 64 64"}
    product = make_spec("C[i, j] = sum(A[i, k] * B[k, j], k)", arrays)
    sums = make_spec("C[i, j] = sum(abs(A[i, k] - B[k, j]), k)", arrays)
    assert 64**3 / 32 < cost(product) < 64**3 / 4
    assert 64**3 < cost(sums) < 10 * 64**3


def test_cost_follows_dynamic_params(make_spec):
    spec = make_spec("y[i] = exp(x[i])", {"x": "float32 N", "y": "float32 N"}, "params: {N: dynamic}")
    assert cost(spec, {"N": 1000}) == 10 * cost(spec, {"N": 100})
