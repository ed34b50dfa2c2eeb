"""Linear filtering against the arithmetic measured on an H100, in exact numbers, and its error bound."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.reference.contents import Contents
from cugen.reference.filtering import NORMALIZED, filtered, fraction_bits
from cugen.reference.tracked import Tracked
from cugen.spec.expressions import Boundary
from cugen.spec.types import FLOAT16, FLOAT32, DType
from tests.drawn import examples

BOUNDARIES = ("zero", "clamp", "wrap", "symmetric")
EPSILON = 2.0**-24


def step_of(x: float, extent: int, boundary: str, bits: int) -> int:
    """The point that the hardware has, in 1/256 of an element: of `x + 0.5f`, or of `(x + 0.5f) * (1.0f / extent)`,
    which it truncates to fraction bits."""
    centred = np.float32(np.float32(x) + np.float32(0.5))
    coordinate = Fraction(float(centred))
    if boundary in NORMALIZED:
        scaled = Fraction(float(np.float32(centred * np.float32(1 / extent))))
        coordinate = Fraction(math.floor(scaled * 2**bits), 2**bits) * extent
    return math.floor((coordinate - Fraction(1, 2)) * 256 + Fraction(1, 2))


def element(data: np.ndarray, subscripts: tuple[int, int], boundary: str) -> float:
    folded = []
    for index, extent in zip(subscripts, data.shape, strict=True):
        if boundary == "zero" and not 0 <= index < extent:
            return 0.0
        period = index % (2 * extent)
        mirrored = min(period, 2 * extent - 1 - period)
        modes = {"zero": index, "clamp": min(max(index, 0), extent - 1), "wrap": index % extent, "symmetric": mirrored}
        folded.append(modes[boundary])
    return float(data[tuple(folded)])


def as_measured(data: np.ndarray, point: tuple[float, float], boundary: str, bits: int = 21) -> float:
    """The exact sum of the four elements times their weights, which are in 1/256."""
    (i, a), (j, b) = (
        divmod(step_of(x, extent, boundary, bits), 256) for x, extent in zip(point, data.shape, strict=True)
    )
    fourth = math.floor(Fraction(a * b, 256) + Fraction(1, 2))
    weights = {(0, 0): 256 - a - b + fourth, (1, 0): a - fourth, (0, 1): b - fourth, (1, 1): fourth}
    return float(
        sum(Fraction(n, 256) * Fraction(element(data, (i + di, j + dj), boundary)) for (di, dj), n in weights.items())
    )


def sampled(
    data: np.ndarray, points: np.ndarray, boundary: str, slack: float | None = None, dtype: DType = FLOAT32
) -> Tracked:
    contents = Contents(dtype, data)
    tracked = [Tracked(x.astype(np.float64), None if slack is None else np.full(x.shape, slack)) for x in points]
    return filtered(contents, tracked, Boundary(boundary))


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, str]:
    """A matrix, and points: at elements, at and near steps of the weights, anywhere, and outside."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 300)))
    count = 40
    points = []
    for extent in shape:
        whole = generator.integers(-2 * extent - 2, 3 * extent + 2, count).astype(np.float64)
        steps = generator.integers(0, 512, count) / 512  # odd ones are in the middle of two weights
        distance = generator.choice([-1, 0, 0, 1], count) * 2.0 ** -generator.integers(12, 30, count)
        kind = generator.integers(0, 4, count)
        fraction = np.choose(kind, [np.zeros(count), steps, steps + distance, generator.random(count)])
        points.append((whole + fraction).astype(np.float32))
    return generator.standard_normal(shape).astype(np.float32), np.array(points), draw(st.sampled_from(BOUNDARIES))


@settings(max_examples=examples(40), deadline=None)
@given(problems())
def test_the_value_is_that_of_the_hardware(problem: tuple[np.ndarray, np.ndarray, str]) -> None:
    data, points, boundary = problem
    found = sampled(data, points, boundary)
    expected = [as_measured(data, tuple(point), boundary) for point in points.T]
    assert found.value == pytest.approx(np.array(expected), abs=2.0**-50)
    greatest = float(np.abs(data).max())
    assert found.slack.max() <= (0.5 + 1 / 32) * 2.0**-23 * greatest * (1 + EPSILON)


@settings(max_examples=examples(40), deadline=None)
@given(problems(), st.integers(-26, -6), st.integers(0, 2**32))
def test_the_bound_holds_for_every_coordinate_that_the_device_may_have(problem, exponent: int, seed: int) -> None:
    data, points, boundary = problem
    slack = 2.0**exponent
    found = sampled(data, points, boundary, slack)
    moved = points + np.random.default_rng(seed).uniform(-slack, slack, points.shape)
    for ends in (np.clip(moved.astype(np.float32), points - slack, points + slack), points - slack, points + slack):
        near = ends.astype(np.float32)
        is_within = np.all(np.abs(near.astype(np.float64) - points) <= slack, axis=0)
        for number in np.flatnonzero(is_within):
            expected = as_measured(data, tuple(near[:, number]), boundary)
            assert abs(found.value[number] - expected) <= found.slack[number] + 2.0**-45


def test_an_element_is_exact() -> None:
    data = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    rows, columns = np.meshgrid(np.arange(5.0), np.arange(7.0), indexing="ij")
    for boundary in ("zero", "clamp"):
        found = sampled(data, np.array([rows, columns]), boundary)
        assert np.array_equal(found.value, data)
        assert not found.slack.any()


def test_away_from_a_step_the_bound_is_that_of_the_arithmetic() -> None:
    data = np.array([[0, 1]], np.float32)
    found = sampled(data, np.array([[0.0], [0.3]]), "clamp", slack=2.0**-20)
    assert found.value == 77 / 256
    assert EPSILON < found.slack < 1.07 * EPSILON


@pytest.mark.parametrize(("boundary", "period"), [("clamp", 0), ("zero", 0), *product(NORMALIZED, (-2, -1, 0, 1, 2))])
@pytest.mark.parametrize("count", [0, 1, 77, 200, 254])
def test_in_the_middle_of_two_weights_the_higher_one_is_right(count: int, period: int, boundary: str) -> None:
    """In mirrored periods too, where the higher one is that of the element before the mirrored point."""
    extent = 8  # its coordinates are exact
    data = np.arange(extent, dtype=np.float32)[None].repeat(2, 0)
    x = np.float32(period * extent + 3 + (count + 0.5) / 256)
    found = sampled(data, np.array([[0.0], [x]]), boundary)
    mirrored = boundary == "symmetric" and period % 2
    assert found.value == (4 - (count + 1) / 256 if mirrored else 3 + (count + 1) / 256)
    assert found.slack < 8 * EPSILON


@pytest.mark.parametrize("count", [0, 1, 77, 200, 254])
def test_at_a_step_either_weight_is_right_where_the_coordinate_is_not_exact(count: int) -> None:
    """A weight changes the value by 1/256 of the difference of two elements."""
    data = np.array([[3, 5]], np.float32)
    found = sampled(data, np.array([[0.0], [(count + 0.5) / 256]]), "clamp", 2.0**-20)
    assert found.value == 3 + 2 * (count + 1) / 256
    assert found.slack == pytest.approx(2 / 256, abs=6 * EPSILON)


@pytest.mark.parametrize(
    ("a", "b", "weights"),
    [
        (128, 128, (64, 64, 64, 64)),
        (1, 1, (254, 1, 1, 0)),  # 1/256 rounded
        (1, 127, (128, 127, 1, 0)),
        (1, 128, (128, 127, 0, 1)),  # a half, up
        (3, 128, (127, 126, 1, 2)),
        (255, 255, (0, 1, 1, 254)),
    ],
)
def test_the_weights_of_four_elements_are_multiples_of_1_256(a: int, b: int, weights: tuple[int, ...]) -> None:
    for number, weight in enumerate(weights):
        data = np.zeros((2, 2), np.float32)
        data.flat[number] = 1
        assert sampled(data, np.array([[a / 256], [b / 256]]), "clamp").value == weight / 256


@pytest.mark.parametrize(("row", "weight"), [(0, 1), (1, 127)])
def test_the_weights_of_mirrored_elements_are_not_mirrored(row: int, weight: int) -> None:
    """1 * 128 / 256 is rounded up, for the element mirrored to row 0. Mirrored weights would be 0 and 128."""
    data = np.zeros((2, 2), np.float32)
    data[row, 1] = 1
    assert sampled(data, np.array([[2 + 1 / 256], [0.5]]), "symmetric").value == weight / 256


@pytest.mark.parametrize("mirrored", [0, 1])
@pytest.mark.parametrize("period", [-2, -1, 0, 1])
def test_the_fraction_of_a_period_is_truncated(period: int, mirrored: int) -> None:
    """Of 1/3 to 21 bits: the middle of two weights is just not reached."""
    extent = 3
    data = np.arange(3, dtype=np.float32)[None].repeat(2, 0)
    boundary = "symmetric" if mirrored else "wrap"
    bits = 21
    point = Fraction(1, 3) + Fraction(1, 2 * 256 * extent)  # of weight 1/2 + 1/512 between elements 0 and 1
    first = math.ceil(point * 2**bits)
    for fraction, weight in ((first, 129), (first - 1, 128)):
        x = np.float32((period + fraction / 2**bits + 2.0**-22) * extent - 0.5)
        found = sampled(data, np.array([[0.0], [x]]), boundary)
        is_mirrored = mirrored and period % 2
        assert found.value == (2 - weight / 256 if is_mirrored else weight / 256)


@pytest.mark.parametrize(
    ("largest", "bits"),
    [
        (1, (21, 21)),
        (8192, (21, 21)),
        (8193, (21, 22)),
        (15999, (21, 22)),
        (16000, (22, 22)),
        (65000, (22, 22)),
        (65001, (22, 23)),
        (131071, (22, 23)),
        (131072, (23, 23)),
    ],
)
def test_the_fraction_bits_are_those_measured_and_either_between(largest: int, bits: tuple[int, int]) -> None:
    assert fraction_bits(largest) == bits


@pytest.mark.sampled(4)
@pytest.mark.parametrize("boundary", NORMALIZED)
@pytest.mark.parametrize("shape", [(3, 12000), (12000, 3), (3, 16000), (65000, 2), (100000, 3), (3, 131072)])
def test_both_coordinates_have_the_bits_of_the_larger_extent(shape: tuple[int, int], boundary: str) -> None:
    generator, count = np.random.default_rng(7), 300
    data = generator.standard_normal(shape).astype(np.float32)
    whole = np.array([generator.integers(-extent, 2 * extent, count) for extent in shape])
    fraction = generator.random(whole.shape)
    fraction[:, ::2] = generator.integers(0, 256, fraction[:, ::2].shape) / 256 + 1 / 512
    points = (whole + fraction).astype(np.float32)
    found = sampled(data, points, boundary)
    minimum, maximum = fraction_bits(max(shape))
    for bits in (minimum, maximum):
        expected = np.array([as_measured(data, tuple(point), boundary, bits) for point in points.T])
        assert (np.abs(found.value - expected) <= found.slack + 2.0**-50).all()
    assert (found.slack < 1e-6).all() == (minimum == maximum)


def test_between_elements_the_value_may_differ_most_at_one() -> None:
    data = np.zeros((3, 3), np.float32)
    data[2, 1] = 1
    found = sampled(data, np.array([[1.0], [1.0]]), "clamp", slack=0.25)
    assert found.value == 0
    # Of a row at 1.25; at the corners it is 0.1875. A weight between them may be rounded in another way.
    assert 0.25 <= found.slack < 0.25 + 1.01 / 256


def test_a_coordinate_that_may_be_anywhere_has_no_bound() -> None:
    data = np.ones((4, 4), np.float32)
    assert np.isinf(sampled(data, np.array([[0.5], [0.5]]), "clamp", slack=2.0).slack)
    assert np.isinf(sampled(data, np.array([[np.nan], [0.5]]), "clamp").slack)


@pytest.mark.parametrize("slack", [1e20, 1e39])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_coordinate_that_may_be_very_far_outside_has_no_bound(boundary: str, slack: float) -> None:
    found = sampled(np.arange(8, dtype=np.float32)[None], np.array([[0.0], [2.0]]), boundary, slack)
    assert (found.value, np.isinf(found.slack)) == (2, True)


@pytest.mark.parametrize(("x", "expected"), [(np.inf, 3.0), (-np.inf, 1.0), (1e30, 3.0), (-3.7, 1.0)])
def test_clamp_and_zero_take_any_coordinate(x: float, expected: float) -> None:
    data = np.array([[1, 2, 3]], np.float32)
    assert sampled(data, np.array([[0.0], [x]]), "clamp").value == expected
    found = sampled(data, np.array([[0.0], [x]]), "zero")
    assert (found.value, found.slack < 1e-5) == (0, True)


def test_an_infinite_element_counts_where_its_weight_does() -> None:
    data = np.array([[1, np.inf, 2, 3]], np.float32)
    found = sampled(data, np.array([[0.0] * 6, [0.0, 1 / 512 - 2.0**-12, 1 / 512, 0.5, 1.0, 2.5]]), "clamp")
    assert np.isinf(found.slack).tolist() == [False, False, True, True, True, False]
    assert found.value[[0, 1, 5]].tolist() == [1, 1, 2.5]


def test_an_infinite_element_counts_where_a_coordinate_may_reach_it() -> None:
    data = np.array([[1, np.inf], [1, np.inf]], np.float32)
    assert np.isinf(sampled(data, np.array([[0.0], [0.0]]), "clamp", slack=2.0**-6).slack)


def test_a_nan_beside_a_point_has_no_bound() -> None:
    data = np.array([[1, np.nan]], np.float32)
    assert np.isinf(sampled(data, np.array([[0.0], [0.0]]), "clamp").slack)


def test_subnormal_elements_count_as_0() -> None:
    smallest = np.float32(2.0**-126)
    data = np.array([[1e-40, 1e-40, smallest]], np.float32)
    found = sampled(data, np.array([[0.0] * 4, [0.0, 0.5, 1.5, 2.0]]), "clamp")
    assert found.value.tolist() == [0, 0, smallest / 2, smallest]
    assert (found.slack > 0).tolist() == [False, True, True, False]
    assert found.slack[2] >= smallest / 2  # a subnormal result may be 0


def test_of_float16_elements_the_sum_is_one_of_float16() -> None:
    data = np.array([[1, 1.5]], np.float16)
    found = sampled(data, np.array([[0.0], [77 / 256]]), "clamp", dtype=FLOAT16)
    assert found.value == 1 + 77 / 512
    assert 4105 * 2.0**-23 < found.slack < 1.6 * 2.0**-11  # half a unit of the greatest element, and 1/32 of one


def test_a_texture_without_elements_gives_zeros() -> None:
    found = sampled(np.zeros((0, 4), np.float32), np.array([[0.0, 1.5], [0.5, 1.0]]), "clamp")
    assert (found.value.tolist(), found.bound) == ([0, 0], None)
