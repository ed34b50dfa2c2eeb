"""Powers as multiplications: which exponents, their error bounds, and the values of special operands."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest

import cugen
from cugen.spec.floats.powers import literal_power
from cugen.spec.load import load_text

HALVES = (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 7.5)
INTEGERS = (-4, -3, -2, -1, 2, 3, 8)
DIGITS = {"float32": 24, "float64": 53}


@pytest.mark.parametrize(
    ("exponent", "ulps"),
    [(2, 0.5), (8, 3.5), (0.5, 0.5), (1.5, 1), (7.5, 4), (-1, 0.5), (-4, 3.5), (-0.5, 2), (-1.5, 3), (-2.5, 4)],
)
def test_the_error_is_half_a_unit_for_each_rounding(exponent, ulps):
    power = literal_power(exponent)
    assert power is not None
    assert power.ulps == ulps


@pytest.mark.parametrize("exponent", [0, 1, 9, -5, -3.5, 8.5, 0.25, 1 / 3, float("inf"), float("nan"), -1e300])
def test_other_powers_are_left_to_the_function(exponent):
    assert literal_power(exponent) is None


def results(dtype: str, x: np.ndarray) -> dict[float, np.ndarray]:
    """The device's powers of the elements, by exponent."""
    exponents = (*HALVES, *INTEGERS)
    lines = [f"cugen: 1\nkernel: k\narrays:\n  x: {{shape: [{x.size}], dtype: {dtype}}}"]
    lines += [f"  y{n}: {{shape: [{x.size}], dtype: {dtype}}}" for n in range(len(exponents))]
    lines += ["compute:", *(f"  - y{n}[i] = x[i] ** ({exponent})" for n, exponent in enumerate(exponents))]
    (spec,) = load_text("\n".join(lines) + "\n")
    outputs = cugen.run(spec, x=x, device="cpu")
    return {exponent: outputs[f"y{n}"] for n, exponent in enumerate(exponents)}


def exact(x: float, exponent: float) -> Fraction:
    """The power of a positive number, or an integer power, to 300 bits."""
    if exponent == int(exponent):
        return Fraction(x) ** int(exponent)
    square = Fraction(x) ** int(2 * exponent)
    scale = 1 << (2 * max(300 + square.denominator.bit_length() - square.numerator.bit_length(), 0))
    return Fraction(isqrt(square.numerator * scale * scale // square.denominator), scale)


@pytest.mark.parametrize("dtype", DIGITS)
def test_values_of_any_magnitude_are_within_the_error(dtype):
    rng = np.random.default_rng(3)
    info, unit = np.finfo(dtype), Fraction(2) ** -DIGITS[dtype]
    magnitudes = rng.integers(info.minexp - DIGITS[dtype] + 1, info.maxexp - 1, 150)
    x = np.concatenate([np.ldexp(1 + rng.random(150), magnitudes), 0.5 + rng.random(50)]).astype(dtype)
    x = np.concatenate([x, [info.max, info.tiny, info.smallest_subnormal]]).astype(dtype)
    for exponent, y in results(dtype, x).items():
        power = literal_power(exponent)
        assert power is not None
        for base, value in zip(x.tolist(), y.tolist(), strict=True):
            wanted = exact(base, exponent)
            if wanted > Fraction(float(info.max)):
                assert value in (np.inf, float(info.max))
                continue
            allowed = 2 * Fraction(power.ulps) * (unit * wanted + Fraction(float(info.smallest_subnormal)))
            assert abs(Fraction(value) - wanted) <= allowed, (base, exponent, value)


@pytest.mark.parametrize("dtype", DIGITS)
def test_zeros_infinities_and_negative_numbers_have_the_powers_of_numpy(dtype):
    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, -4, -info.max, -info.smallest_subnormal], dtype)
    for exponent, y in results(dtype, x).items():
        with np.errstate(all="ignore"):
            wanted = np.power(x, np.dtype(dtype).type(exponent))
        np.testing.assert_array_equal(y, wanted, err_msg=str(exponent))
        ordered = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(y[ordered]), np.signbit(wanted[ordered]), err_msg=str(exponent))
