"""`fast_math`: the reference allows the errors of intrinsics, where the schedule asks for them and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.spec.load import load_text

SPEC = """\
cugen: 1
kernel: f
arrays: {{x: {{shape: [7], dtype: {dtype}}}, y: {{shape: [7], dtype: {dtype}}}}}
compute: y[i] = {expression}
schedule: {{fast_math: {fast}}}
"""
X = np.array([0.3, 0.9, 1.7, 2.5, 6.0, 40.0, 80.0], np.float32)


def bounds(expression: str, *, fast: bool, dtype: str = "float32") -> np.ndarray:
    (spec,) = load_text(SPEC.format(expression=expression, fast=str(fast).lower(), dtype=dtype))
    return evaluate(spec, {"x": X.astype(dtype)})["y"].bound


@pytest.mark.parametrize(
    "expression", ["exp(x[i])", "log(x[i])", "log2(x[i])", "log10(x[i])", "sin(x[i])", "1 / x[i]", "x[i] ** (-1.5)"]
)
def test_the_bound_is_wider_than_that_of_the_accurate_function(expression: str) -> None:
    assert (bounds(expression, fast=True) > bounds(expression, fast=False)).all()


@pytest.mark.parametrize("expression", ["sqrt(x[i])", "x[i] + 1", "tanh(x[i])", "x[i] ** 2.5", "x[i] ** (-0.5)"])
def test_what_has_no_intrinsic_keeps_its_bound(expression: str) -> None:
    np.testing.assert_array_equal(bounds(expression, fast=True), bounds(expression, fast=False))


def test_float64_keeps_its_functions() -> None:
    np.testing.assert_array_equal(
        bounds("exp(x[i])", fast=True, dtype="float64"), bounds("exp(x[i])", fast=False, dtype="float64")
    )


def test_the_error_of_an_exponential_grows_with_its_argument() -> None:
    relative = bounds("exp(x[i])", fast=True) / np.exp(X.astype(np.float64))
    ulp = 2.0**-23
    assert 90 * ulp < relative[-1] < 110 * ulp  # 2 + 1.173 * 80, and the accurate function's
    assert relative[0] < 8 * ulp


def test_a_sine_beyond_two_pi_is_bounded_by_the_larger_error() -> None:
    error = bounds("sin(x[i])", fast=True)
    assert error[2] < 2.0**-20 < 2.0**-15 < error[5] < 2.0**-14


def test_a_sine_beyond_a_hundred_pi_may_be_anything() -> None:
    assert (bounds("sin(x[i] * 1e4)", fast=True) >= 2).all()


@pytest.mark.parametrize(("value", "is_wrong"), [(1.0 + 3e-6, True), (1.0 + 5e-7, False)])
def test_a_result_beyond_the_bound_is_refused(value: float, is_wrong: bool) -> None:
    (spec,) = load_text(SPEC.format(expression="exp(x[i] * 0)", fast="true", dtype="float32"))
    result = evaluate(spec, {"x": X})["y"]
    assert bool((~np.asarray(result.accepts(np.full(7, value, np.float32)))).all()) == is_wrong


def test_a_temporary_has_the_errors_of_the_outputs_that_may_compute_it() -> None:
    text = """\
cugen: 1
kernel: f
arrays: {x: {shape: [7], dtype: float32}, y: {shape: [7], dtype: float32}, z: {shape: [7], dtype: float32}}
compute: |
  t[i] = exp(x[i])
  y[i] = t[i] + 1
  z[i] = exp(x[i]) + 1
schedule: {y: {fast_math: true}, z: {fast_math: false}}
"""
    (spec,) = load_text(text)
    results = evaluate(spec, {"x": X})
    assert (results["y"].bound[-2:] > results["z"].bound[-2:]).all()
