"""Linear filtering against the definition in the CUDA programming guide, in exact arithmetic, and its error bound."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.reference.contents import Contents
from cugen.reference.filtering import NORMALIZED, filtered
from cugen.reference.tracked import Tracked
from cugen.spec.expressions import Boundary
from cugen.spec.types import FLOAT32

BOUNDARIES = ("zero", "clamp", "wrap", "symmetric")
EPSILON = 2.0**-24


def texture_coordinate(x: float, extent: int, boundary: str) -> Fraction:
    """The point that the hardware gets, in elements: `x + 0.5f`, or `(x + 0.5f) * (1.0f / extent)`, less a half."""
    centred = np.float32(np.float32(x) + np.float32(0.5))
    if boundary in NORMALIZED:
        return Fraction(float(np.float32(centred * np.float32(1 / extent)))) * extent - Fraction(1, 2)
    return Fraction(float(centred)) - Fraction(1, 2)


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


def by_the_guide(data: np.ndarray, point: tuple[float, float], boundary: str) -> float:
    """tex(x, y) of the appendix on texture fetching, with weights of 8 fraction bits."""
    sides = []
    for x, extent in zip(point, data.shape, strict=True):
        exact = texture_coordinate(x, extent, boundary)
        first = math.floor(exact)
        weight = Fraction(math.floor((exact - first) * 256 + Fraction(1, 2)), 256)
        sides.append(((first, 1 - weight), (first + 1, weight)))
    return float(
        sum(
            row_weight * column_weight * Fraction(element(data, (row, column), boundary))
            for row, row_weight in sides[0]
            for column, column_weight in sides[1]
        )
    )


def sampled(data: np.ndarray, points: np.ndarray, boundary: str, slack: float | None = None) -> Tracked:
    contents = Contents(FLOAT32, data)
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


@settings(max_examples=40, deadline=None)
@given(problems())
def test_the_value_is_that_of_the_guide(problem: tuple[np.ndarray, np.ndarray, str]) -> None:
    data, points, boundary = problem
    found = sampled(data, points, boundary)
    for number, point in enumerate(points.T):
        expected = by_the_guide(data, tuple(point), boundary)
        assert abs(found.value[number] - expected) <= found.slack[number] + 2.0**-50
        if boundary not in NORMALIZED:
            assert found.value[number] == pytest.approx(expected, abs=2.0**-45)


@settings(max_examples=40, deadline=None)
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
            expected = by_the_guide(data, tuple(near[:, number]), boundary)
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
    assert 0 < found.slack < 11 * EPSILON


@pytest.mark.parametrize("slack", [None, 2.0**-20])
@pytest.mark.parametrize("count", [0, 1, 77, 200, 254])
def test_at_a_step_either_weight_is_right(count: int, slack: float | None) -> None:
    """A weight changes the value by 1/256 of the difference of two elements."""
    data = np.array([[3, 5]], np.float32)
    found = sampled(data, np.array([[0.0], [(count + 0.5) / 256]]), "clamp", slack)
    assert found.value == 3 + 2 * (count + 1) / 256
    assert found.slack == pytest.approx(2 / 256, abs=60 * EPSILON)


def test_between_elements_the_value_may_differ_most_at_one() -> None:
    data = np.zeros((3, 3), np.float32)
    data[2, 1] = 1
    found = sampled(data, np.array([[1.0], [1.0]]), "clamp", slack=0.25)
    assert (found.value, found.slack) == (
        0,
        pytest.approx(0.25, rel=1e-5),
    )  # of a row at 1.25; at the corners it is 0.1875


@pytest.mark.parametrize(("boundary", "is_near"), [("clamp", False), ("wrap", True), ("symmetric", True)])
def test_a_normalized_coordinate_is_rounded_on_the_device(boundary: str, is_near: bool) -> None:
    data = np.zeros((1, 300), np.float32)
    data[0, 1] = 1
    found = sampled(data, np.array([[0.0], [100.5 / 256 + 2.0**-18]]), boundary)
    assert (found.slack > 0.9 / 256) == is_near


def test_a_coordinate_that_may_be_anywhere_has_no_bound() -> None:
    data = np.ones((4, 4), np.float32)
    assert np.isinf(sampled(data, np.array([[0.5], [0.5]]), "clamp", slack=2.0).slack)
    assert np.isinf(sampled(data, np.array([[np.nan], [0.5]]), "clamp").slack)


@pytest.mark.parametrize(("x", "expected"), [(np.inf, 3.0), (-np.inf, 1.0), (1e30, 3.0), (-3.7, 1.0)])
def test_clamp_and_zero_take_any_coordinate(x: float, expected: float) -> None:
    data = np.array([[1, 2, 3]], np.float32)
    assert sampled(data, np.array([[0.0], [x]]), "clamp").value == expected
    found = sampled(data, np.array([[0.0], [x]]), "zero")
    assert (found.value, found.slack < 1e-5) == (0, True)


def test_a_nonfinite_element_beside_a_point_has_no_bound() -> None:
    data = np.array([[1, np.inf, 2, 3]], np.float32)
    slack = sampled(data, np.array([[0.0] * 4, [0.0, 0.5, 1.0, 2.5]]), "clamp").slack
    assert np.isinf(slack).tolist() == [True, True, True, False]


def test_a_texture_without_elements_gives_zeros() -> None:
    found = sampled(np.zeros((0, 4), np.float32), np.array([[0.0, 1.5], [0.5, 1.0]]), "clamp")
    assert (found.value.tolist(), found.bound) == ([0, 0], None)
