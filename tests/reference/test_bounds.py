"""Error bounds hold for any order of evaluation on a device, and are tight enough to detect errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.reference.operators import apply_operator
from cugen.reference.tracked import Tracked
from cugen.spec.types import BOOL, FLOAT32
from tests.drawn import examples

SUM = ("y = sum(x[i], i)", {"x": "float32 1000", "y": "float32"})
DOT = ("y = sum(x[i] * z[i], i)", {"x": "float32 1000", "z": "float32 1000", "y": "float32"})


def summed_in_some_order(terms, rng):
    """A float32 sum: shuffled, split into chunks that are summed serially, then pairwise."""
    terms = rng.permutation(terms)
    parts = []
    for run in np.array_split(terms, rng.integers(1, 40)):
        total = np.float32(0)
        for term in run:
            total = np.float32(total + term)
        parts.append(total)
    while len(parts) > 1:
        parts = [np.float32(sum(parts[i : i + 2], np.float32(0))) for i in range(0, len(parts), 2)]
    return parts[0]


@pytest.mark.parametrize("spread", [0.0, 3.0, 12.0])
def test_every_order_of_summation_stays_within_the_bound(run, rng, spread):
    x = (rng.normal(size=1000) * np.exp(rng.normal(size=1000) * spread)).astype(np.float32)
    result = run(*SUM, {"x": x})
    for _ in range(30):
        assert result.accepts(np.asarray(summed_in_some_order(x, rng)))


def test_the_worst_order_of_summation_stays_within_the_bound(run):
    x = np.r_[np.full(500, 1 + 2.0**-12), np.full(500, -1.0)].astype(np.float32)
    result = run(*SUM, {"x": x})
    assert result.accepts(np.asarray(np.add.accumulate(x)[-1]))


def test_the_bound_of_a_sum_assumes_no_more_than_that_all_roundings_conspire(run, rng):
    """Random rounding errors add up to about sqrt(n), while the bound must allow for n."""
    x = rng.normal(size=1000).astype(np.float32)
    result = run(*SUM, {"x": x})
    one_by_one = [np.add.accumulate(rng.permutation(x))[-1] for _ in range(50)]
    seen = max(abs(float(y) - float(result.exact)) for y in one_by_one)
    assert seen <= result.bound <= 1000 * seen


def test_a_sum_whose_roundings_do_conspire_comes_near_the_bound(run):
    x = np.full(1000, 0.1, np.float32)
    result = run(*SUM, {"x": x})
    error = abs(float(np.add.accumulate(x)[-1]) - float(result.exact))
    assert error <= result.bound <= 16 * error


def test_a_product_that_is_fused_into_the_sum_stays_within_the_bound(run, rng):
    x, z = rng.normal(size=(2, 1000)).astype(np.float32)
    result = run(*DOT, {"x": x, "z": z})
    fused, plain = np.float32(0), np.float32(0)
    for a, b in zip(x, z, strict=True):
        fused = np.float32(float(a) * float(b) + float(fused))
        plain = np.float32(np.float32(a * b) + plain)
    assert result.accepts(np.asarray(fused))
    assert result.accepts(np.asarray(plain))
    assert fused != plain


def test_a_missing_term_is_out_of_bounds(run, rng):
    x, z = rng.normal(size=(2, 1000)).astype(np.float32)
    result = run(*DOT, {"x": x, "z": z})
    left_out = np.argsort(np.abs(x * z))[500]
    wrong = float(result.exact) - float(x[left_out]) * float(z[left_out])
    assert not result.accepts(np.asarray(np.float32(wrong)))


def test_accumulating_in_half_precision_is_out_of_bounds(run, rng):
    x = rng.random(1000).astype(np.float16)
    result = run("y = sum(x[i], i)", {"x": "float16 1000", "y": "float32"}, {"x": x})
    halves = np.add.accumulate(x)[-1]
    assert halves.dtype == np.float16
    assert not result.accepts(np.asarray(np.float32(halves)))
    assert result.accepts(np.asarray(np.add.accumulate(x.astype(np.float32))[-1]))


def test_float64_bounds_cover_the_reference_too(run, rng):
    x = rng.normal(size=1000)
    result = run("y = sum(x[i], i)", {"x": "float64 1000", "y": "float64"}, {"x": x})
    assert abs(math.fsum(x) - float(result.exact)) <= result.bound
    for _ in range(20):
        assert result.accepts(np.add.accumulate(rng.permutation(x))[-1])


def test_a_sum_in_float64_rounds_to_one_float32(run, rng):
    x = rng.random(1000).astype(np.float32)
    result = run(*SUM, {"x": x}, "accumulate: float64")
    assert result.exactly_representable
    assert result.value == np.float32(math.fsum(x))
    assert not result.accepts(np.nextafter(result.value, np.float32(0)))


@pytest.mark.parametrize("seed", range(5))
def test_a_layer_norm_in_float32_stays_within_its_bound(run, seed):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(4, 64)) + 3).astype(np.float32)
    result = run(
        """mu[i] = sum(x[i, j], j) / 64
        v[i] = sum((x[i, j] - mu[i]) ** 2, j) / 64
        y[i, j] = (x[i, j] - mu[i]) * rsqrt(v[i] + 1e-5)""",
        {"x": "float32 4 64", "y": "float32 4 64"},
        {"x": x},
    )
    order = rng.permutation(64)
    mean = np.add.accumulate(x[:, order], axis=1)[:, -1:] / np.float32(64)
    var = np.add.accumulate((x - mean)[:, order] ** 2, axis=1)[:, -1:] / np.float32(64)
    y = (x - mean) * (np.float32(1) / np.sqrt(var + np.float32(1e-5)))
    assert y.dtype == np.float32
    assert result.accepts(y).all()
    assert (result.bound < 1e-3).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_softmax_in_float32_stays_within_its_bound(run, seed):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(4, 100)) * 10).astype(np.float32)
    result = run(
        "y[i, j] = exp(x[i, j] - max(x[i, k], k)) / sum(exp(x[i, l] - max(x[i, k], k)), l)",
        {"x": "float32 4 100", "y": "float32 4 100"},
        {"x": x},
    )
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y = e / np.add.accumulate(e, axis=1)[:, -1:]
    assert y.dtype == np.float32
    assert result.accepts(y).all()
    assert (result.bound <= 2e-4 * result.exact + 1e-40).all()


def test_a_scan_in_float32_stays_within_its_bound(run, rng):
    x = rng.normal(size=500).astype(np.float32)
    result = run("y[i] = cumsum(x[i], i)", {"x": "float32 500", "y": "float32 500"}, {"x": x})
    blocks = x.reshape(20, 25).cumsum(axis=1, dtype=np.float32)
    before = np.r_[np.float32(0), np.cumsum(blocks[:, -1], dtype=np.float32)[:-1]]
    assert result.accepts((blocks + before[:, None]).reshape(-1)).all()
    assert result.accepts(np.cumsum(x, dtype=np.float32)).all()
    assert result.bound[3] < result.bound[-1] < 1e-2


def test_products_in_any_order_stay_within_the_bound(run, rng):
    x = (1 + rng.normal(size=200) / 4).astype(np.float32)
    result = run("y = prod(x[i], i)", {"x": "float32 200", "y": "float32"}, {"x": x})
    for _ in range(20):
        assert result.accepts(np.multiply.accumulate(rng.permutation(x))[-1])
    assert result.bound <= abs(result.exact) * 200 * 2.0**-23


def test_small_integers_are_exact(run, rng):
    x, z = rng.integers(-8, 9, (2, 1000)).astype(np.float32)
    result = run(*DOT, {"x": x, "z": z})
    assert result.exactly_representable
    assert result.bound == 0
    assert not result.accepts(np.nextafter(result.value, np.float32(np.inf)))


def test_integers_whose_sum_might_round_are_inexact(run):
    x = np.full(1000, 2.0**20, np.float32)
    assert not run(*SUM, {"x": x}).exactly_representable


def test_a_copy_of_any_values_is_exact(run, rng):
    x = rng.normal(size=9).astype(np.float32)
    result = run("y[i] = -x[i]", {"x": "float32 9", "y": "float32 9"}, {"x": x})
    assert result.exactly_representable
    np.testing.assert_array_equal(result.value, -x)


def test_a_division_of_integers_is_inexact(run):
    x = np.arange(1, 10, dtype=np.float32)
    result = run("y[i] = x[i] / 3", {"x": "float32 9", "y": "float32 9"}, {"x": x})
    assert not result.exactly_representable
    assert (result.bound <= 2.0**-23 * result.exact).all()


def test_a_store_to_half_precision_allows_both_adjacent_values_only_near_the_midpoint(run):
    x = np.array([1 + 2.0**-11, 1 + 2.0**-12], dtype=np.float32)  # the midpoint of two halves, and a quarter
    result = run("y[i] = x[i] / 3 * 3", {"x": "float32 2", "y": "float16 2"}, {"x": x})
    lower, upper = np.float16(1), np.float16(1 + 2.0**-10)
    assert result.accepts(np.array([lower, lower])).all()
    assert result.accepts(np.array([upper, upper])).tolist() == [True, False]


def test_later_statements_read_what_was_rounded(run):
    x = np.array([1 + 2.0**-12], dtype=np.float32)
    arrays = {"x": "float32 1", "h": "float16 1", "y": "float32 1"}
    results = run("h[i] = x[i]\ny[i] = h[i] - 1", arrays, {"x": x})
    assert results["y"].value == 0


def test_a_temporary_is_never_rounded(run):
    x = np.array([3.0], dtype=np.float16)
    result = run("t[i] = x[i] / 7\ny[i] = t[i] * 7", {"x": "float16 1", "y": "float32 1"}, {"x": x})
    assert abs(result.exact[0] - 3) < 1e-12


def test_where_rounding_decides_a_condition_both_branches_are_right(run):
    x = np.array([1.0, 2.0], dtype=np.float32)
    result = run("y[i] = 5 if x[i] / 3 * 3 >= 1 else 7", {"x": "float32 2", "y": "float32 2"}, {"x": x})
    assert result.accepts(np.array([5, 5], np.float32)).tolist() == [True, True]
    assert result.accepts(np.array([7, 7], np.float32)).tolist() == [True, False]


def test_where_rounding_decides_a_floor_both_steps_are_right(run):
    x = np.array([3.0, 3.5], dtype=np.float32)
    result = run("y[i] = cast(floor(x[i] / 7 * 7), int32)", {"x": "float32 2", "y": "int32 2"}, {"x": x})
    assert result.accepts(np.array([2, 3], np.int32)).tolist() == [True, True]
    assert result.accepts(np.array([3, 2], np.int32)).tolist() == [True, False]


def test_an_argmax_admits_candidates_that_rounding_cannot_separate(run):
    x = np.array([[1.0, 3.0, 3.0 + 2.0**-22], [1.0, 3.0, 4.0]], dtype=np.float32)
    result = run("y[i] = argmax(x[i, j] * 0.1 + 0.7, j)", {"x": "float32 2 3", "y": "int64 2"}, {"x": x})
    assert result.value.tolist() == [2, 2]
    assert result.accepts(np.array([1, 1])).tolist() == [True, False]
    assert result.accepts(np.array([0, 0])).tolist() == [False, False]


def test_an_argmin_of_a_whole_vector_admits_every_position_that_rounding_may_choose(run):
    x = np.array([0.4, 0.2, 0.3, 0.2 + 2.0**-26], dtype=np.float32)
    result = run("y = argmin(sqrt(x[j]), j)", {"x": "float32 4", "y": "int64"}, {"x": x})
    assert [bool(result.accepts(np.array(position))) for position in range(4)] == [False, True, False, True]


def test_an_argmax_of_given_values_takes_the_first_and_nothing_else(run):
    x = np.array([[1.5, 3.5, 3.5]], dtype=np.float32)
    result = run("y[i] = argmax(x[i, j], j)", {"x": "float32 1 3", "y": "int64 1"}, {"x": x})
    assert result.exactly_representable
    assert result.accepts(np.array([1])).all()
    assert not result.accepts(np.array([2])).any()


def test_overflow_of_the_compute_type_is_infinite(run):
    x = np.array([1e30, 1e-30, 90.0], dtype=np.float32)
    result = run("y[i] = x[i] * x[i]", {"x": "float32 3", "y": "float32 3"}, {"x": x})
    assert result.value[0] == np.inf
    assert result.accepts(np.array([np.inf, 0, 8100], np.float32)).all()
    assert not result.accepts(np.array([np.nan, 0, 8100], np.float32))[0]
    assert not result.accepts(np.array([3.4e38, 0, 8100], np.float32))[0]


def test_a_sum_whose_order_decides_about_overflow_admits_infinity(run):
    x = np.array([3e38, 3e38, -3e38, -3e38], dtype=np.float32)
    result = run("y = sum(x[i], i)", {"x": "float32 4", "y": "float32"}, {"x": x})
    assert result.accepts(np.asarray(np.float32(np.inf)))
    assert result.accepts(np.asarray(np.float32(0)))


FACTORED = [
    # A device may multiply by the factor once, after the sum: the spec, and what of it a float32 can't hold.
    ("y[i] = sum(x[i, j] / u[i], j)", lambda x, u: np.float32(x.sum() / u)),
    ("y[i] = sum(x[i, j] * x[i, j] / u[i], j)", lambda x, u: np.float32((x * x).sum() / u)),
    ("y[i] = sum(u[i] * x[i, j], j)", lambda x, u: np.float32(u * x.sum())),
    ("y[i] = sum(-x[i, j] * u[i], j)", lambda x, u: np.float32(-(u * x.sum()))),
    ("y[i] = sum(x[i, j] / u[i] / u[i], j)", lambda x, u: np.float32(x.sum() / u / u)),
]


@pytest.mark.parametrize(("compute", "factored"), FACTORED, ids=[compute for compute, _ in FACTORED])
@settings(max_examples=examples(60), deadline=None)
@given(
    scale=st.floats(-37, 38),
    factor=st.floats(-37, 38),
    values=st.lists(st.floats(-3, 3, width=32), min_size=3, max_size=3),
)
def test_a_common_factor_of_all_terms_may_be_multiplied_after_the_sum(run, compute, factored, scale, factor, values):
    x = (np.array([values]) * 10.0**scale).clip(-3e38, 3e38).astype(np.float32)
    u = np.array([10.0**factor], np.float32)
    result = run(compute, {"x": "float32 1 3", "u": "float32 1", "y": "float32 1"}, {"x": x, "u": u})
    with np.errstate(all="ignore"):
        assert result.accepts(np.asarray([factored(x[0], u[0])])).all()


def test_a_common_factor_of_moderate_terms_does_not_loosen_the_bound(run, rng):
    x, u = rng.normal(size=(1, 1000)).astype(np.float32), np.array([1e-20], np.float32)
    arrays = {"x": "float32 1 1000", "u": "float32 1", "y": "float32 1"}
    result = run("y[i] = sum(u[i] * x[i, j], j)", arrays, {"x": x, "u": u})
    assert result.bound <= 1e-4 * np.abs(u * x).sum()


def test_a_sum_and_its_factor_that_are_infinite_in_both_orders_are_compared(run):
    x, u = np.full((1, 3), np.inf, np.float32), np.array([2], np.float32)
    result = run(
        "y[i] = sum(u[i] * x[i, j], j)", {"x": "float32 1 3", "u": "float32 1", "y": "float32 1"}, {"x": x, "u": u}
    )
    assert result.accepts(np.array([np.inf], np.float32)).all()
    assert not result.accepts(np.array([0], np.float32)).any()


def test_a_sum_of_terms_with_an_infinite_scale_may_be_that_of_the_terms_times_the_scale(run):
    x = np.array([1, 2, -1, 4] * 2, np.float32)
    s = np.array([[np.inf, 1], [3, 1]], np.float32)
    arrays = {"x": "float32 8", "s": "float32 2 2", "y": "float32 2"}
    result = run("y[i] = sum(s[i, k // 4] * x[k], k)", arrays, {"x": x, "s": s})
    assert np.isnan(result.value[0])
    assert result.accepts(np.array([np.inf, 24], np.float32)).all()
    assert result.accepts(np.array([np.nan, 24], np.float32)).all()
    assert not result.accepts(np.array([np.inf, 25], np.float32))[1]


def test_a_norm_of_zeros_cannot_be_nan(run):
    x = np.zeros((2, 9), np.float32)
    result = run("y[i] = sqrt(sum(x[i, j] * x[i, j] / 3, j))", {"x": "float32 2 9", "y": "float32 2"}, {"x": x})
    assert result.accepts(np.zeros(2, np.float32)).all()
    assert not result.accepts(np.full(2, np.nan, np.float32)).any()


FUNCTIONS = [
    "sqrt", "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "abs", "sign", "floor",
    "ceil", "round", "trunc",
]  # fmt: skip
SCALAR = {
    **{name: getattr(math, name) for name in FUNCTIONS if hasattr(math, name)},
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "abs": abs,
    "round": round,
    "sign": lambda x: (x > 0) - (x < 0),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "exp2": lambda x: 2.0**x,
}
DOMAINS = {"acosh": (1.01, 50), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "log1p": (-0.9, 50)}
POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10")


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_a_function_of_an_uncertain_operand_bounds_every_value_it_may_have(name, data):
    low, high = DOMAINS.get(name, (1e-3, 50) if name in POSITIVE else (-8, 8))
    x = data.draw(st.floats(low, high))
    error = data.draw(st.floats(0, 0.5))
    fraction = data.draw(st.floats(-1, 1))
    near = x + fraction * error
    if not low <= near <= high:
        return
    with np.errstate(all="ignore"):
        result = apply_operator(name, (Tracked(np.asarray(x), np.asarray(error)),), FLOAT32)
    try:
        value = float(SCALAR[name](near))
    except (ValueError, OverflowError):
        return
    assert abs(value - float(result.value)) <= float(result.bound) * (1 + 1e-12) + 1e-13


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "mod", "floordiv"])
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_an_operator_of_uncertain_operands_bounds_every_value_it_may_have(name, data):
    a, b = data.draw(st.floats(0.1, 9)), data.draw(st.floats(0.1, 9))
    errors = [data.draw(st.floats(0, 0.5)) for _ in range(2)]
    near = [x + data.draw(st.floats(-1, 1)) * e for x, e in zip((a, b), errors, strict=True)]
    operands = tuple(Tracked(np.asarray(x), np.asarray(e)) for x, e in zip((a, b), errors, strict=True))
    exact = tuple(Tracked(np.asarray(x)) for x in near)
    with np.errstate(all="ignore"):
        result = apply_operator(name, operands, FLOAT32)
        value = apply_operator(name, exact, FLOAT32).value
    assert not np.isfinite(value) or abs(value - result.value) <= result.bound * (1 + 1e-12) + 1e-13


@given(a=st.floats(-1, 1), b=st.floats(-1, 1), e=st.floats(0, 0.3), fraction=st.floats(-1, 1))
def test_a_comparison_that_rounding_may_flip_is_undecided(a, b, e, fraction):
    result = apply_operator("lt", (Tracked(np.asarray(a), np.asarray(e)), Tracked(np.asarray(b))), BOOL)
    assert bool(result.value) == (a + fraction * e < b) or bool(np.all(result.bound > 0))


def test_a_comparison_of_operands_whose_errors_are_all_0_is_exact():
    """As of a part of the keys, none of them near the edge of a bin, with each bin."""
    keys, bins = np.arange(6).reshape(6, 1), np.arange(4)
    result = apply_operator("eq", (Tracked(keys, np.zeros((6, 1))), Tracked(bins)), BOOL)
    assert result.bound is None
    np.testing.assert_array_equal(result.value, keys == bins)
    near = np.zeros((6, 1))
    near[2] = 1.0  # to 1 or 3
    undecided = apply_operator("eq", (Tracked(keys, near), Tracked(bins)), BOOL).bound
    np.testing.assert_array_equal(np.argwhere(undecided), [[2, 1], [2, 2], [2, 3]])


@pytest.mark.parametrize("name", ["and", "or", "bitand", "bitor", "bitxor", "minimum", "maximum", "mul"])
@pytest.mark.parametrize("shapes", [((), (1, 3)), ((1, 1), (3,)), ((2, 1), (1, 3))])
@pytest.mark.parametrize("bounded", [(True, True), (True, False), (False, True)])
def test_operands_that_may_differ_broadcast(name, shapes, bounded, rng):
    """The result and its bound are those of each pair of elements, also where one operand alone has a bound."""
    values = [rng.random(shape) < 0.5 for shape in shapes]
    bounds = [(rng.random(s) < 0.5) * 1.0 if has else None for s, has in zip(shapes, bounded, strict=True)]
    result = apply_operator(name, (Tracked(values[0], bounds[0]), Tracked(values[1], bounds[1])), BOOL)
    wide = np.broadcast_shapes(*shapes)
    for index in np.ndindex(wide):
        pair = [
            Tracked(np.broadcast_to(v, wide)[index], None if e is None else np.broadcast_to(e, wide)[index])
            for v, e in zip(values, bounds, strict=True)
        ]
        single = apply_operator(name, (pair[0], pair[1]), BOOL)
        assert (result.value[index], np.broadcast_to(result.slack, wide)[index]) == (single.value, single.slack)
