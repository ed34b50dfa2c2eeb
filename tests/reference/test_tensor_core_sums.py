"""Error bounds of sums that tensor cores may compute: operands rounded to tf32, and additions that truncate."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.spec.load import load_text
from cugen.spec.model import Spec


def dot(dtype: str = "float32", accumulate: str = "{tf32: true}", term: str = "x[k] * w[k]", x: str = "") -> Spec:
    (spec,) = load_text(f"""
cugen: 1
kernel: dot
params: {{K: 64}}
arrays:
  x: {{shape: [K], dtype: {x or dtype}}}
  w: {{shape: [K], dtype: {dtype}}}
  y: {{shape: [], dtype: float32}}
compute: y = sum({term}, k)
accumulate: {accumulate}
""")
    return spec


def bound_of(spec: Spec, x: np.ndarray, w: np.ndarray) -> float:
    return float(evaluate(spec, {"x": x, "w": w})["y"].bound)


def random(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(64).astype(np.float32)


def test_operands_of_tf32_lose_up_to_2_to_the_minus_11_each() -> None:
    x, w = random(1), random(2)
    magnitude = float(np.abs(x.astype(np.float64) * w).sum())
    assert 2 * 2.0**-11 * magnitude < bound_of(dot(), x, w) < 2.1 * 2.0**-11 * magnitude
    assert bound_of(dot(accumulate="float32"), x, w) < 2.0**-17 * magnitude


def test_numbers_of_tf32_lose_nothing() -> None:
    x, w = ((random(seed).view(np.uint32) & 0xFFFFE000).view(np.float32) for seed in (1, 2))
    magnitude = float(np.abs(x.astype(np.float64) * w).sum())
    assert bound_of(dot(), x, w) < 2.0**-15 * magnitude
    integers = np.arange(64, dtype=np.float32)
    assert bound_of(dot(), integers, integers) == 0
    assert bound_of(dot(), integers + 2**12, np.ones_like(integers)) > 0  # more than 11 bits


@pytest.mark.parametrize(
    "spec",
    [
        dot(accumulate="{type: float64, tf32: true}"),
        dot(term="x[k] + w[k]"),
        dot(term="abs(x[k] * w[k])"),
        dot(term="2 * maximum(x[k], w[k])"),
    ],
    ids=["float64", "no product", "more than a product", "one operand"],
)
def test_other_sums_keep_their_bounds(spec: Spec) -> None:
    x, w = random(3), random(4)
    assert bound_of(spec, x, w) < 2.0**-16 * float(np.abs(x).sum() + np.abs(w).sum())


@pytest.mark.parametrize(
    "term",
    ["exp(x[k]) * exp(w[k])", "(x[k] - 1) * w[k]", "x[k] * 3 * w[k]", "-(x[k] * w[k])", "x[k] / 3 * w[k]"],
)
def test_operands_that_are_stored_as_float32_arrays_are_rounded_too(term: str) -> None:
    x, w = random(10), random(11)
    exact = bound_of(dot(accumulate="float32", term=term), x, w)
    assert bound_of(dot(term=term), x, w) > 30 * exact


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8, np.uint8])
def test_a_float32_operand_beside_numbers_of_tf32_is_rounded_where_the_spec_allows_it(dtype: type) -> None:
    x, w = (16 * np.abs(random(12))).astype(dtype), random(13)
    names = {"float8_e4m3fn": "float8_e4m3"}
    name = names.get(np.dtype(dtype).name, np.dtype(dtype).name)
    plain, allowed = (bound_of(dot(accumulate=to, x=name), x, w) for to in ("float32", "{tf32: true}"))
    magnitude = float(np.abs(x.astype(np.float64) * w).sum())
    assert plain < 2.0**-15 * magnitude
    assert 2.0**-11 * magnitude < allowed < 1.1 * 2.0**-11 * magnitude


def test_a_float32_operand_beside_numbers_that_tf32_does_not_hold_is_not_rounded() -> None:
    x, w = (1000 * random(12)).astype(np.int16), random(13)
    plain, allowed = (bound_of(dot(accumulate=to, x="int16"), x, w) for to in ("float32", "{tf32: true}"))
    assert 0 < allowed == plain


def test_products_of_numbers_of_tf32_may_be_rounded_as_one_operand() -> None:
    x = np.full(64, 2049 / 2048, dtype=np.float32)
    assert bound_of(dot(term="x[k] * x[k] * w[k]"), x, np.ones_like(x)) > 64 * 2.0**-11


def test_sums_of_16_bit_products_may_be_truncated() -> None:
    x, w = random(5).astype(np.float16), random(6).astype(np.float16)
    in_float32 = bound_of(dot(accumulate="float32"), x.astype(np.float32), w.astype(np.float32))
    assert 1.9 * in_float32 < bound_of(dot("float16", "float32"), x, w) < 3 * in_float32


def test_fast_sums_of_float8_keep_13_bits() -> None:
    x, w = (random(seed).astype(ml_dtypes.float8_e4m3fn) for seed in (7, 8))
    exact = bound_of(dot("float8_e4m3", "float32"), x, w)
    for fast in ("{fp8: fast}", "{tf32: true, fp8: fast}"):
        assert 1000 * exact < bound_of(dot("float8_e4m3", fast), x, w) < 4000 * exact
    small = (np.arange(64) % 8).astype(ml_dtypes.float8_e4m3fn)
    assert bound_of(dot("float8_e4m3", "{fp8: fast}"), small, small) == 0
    assert bound_of(dot("float8_e4m3", "{fp8: fast}"), small * 16, small * 16) > 0


def test_sums_of_integers_times_float8_keep_their_bounds() -> None:
    x, w = np.arange(64, dtype=np.int8), random(9).astype(ml_dtypes.float8_e4m3fn)
    exact, fast = (bound_of(dot("float8_e4m3", to, x="int8"), x, w) for to in ("float32", "{fp8: fast}"))
    assert 0 < fast == exact


@pytest.mark.parametrize(
    "term",
    [
        "0.3 * x[k] * w[k]",
        "-x[k] * w[k] / 3",
        "x[k] * cast(w[k] > 0, int8)",
        "x[k] * w[l] * x[l], l",
        "x[k] * w[k] * x[k]",
        "x[k] * (1 + w[k])",
        "x[k] * w[k] / x[k]",
    ],
    ids=[
        "a factor outside",
        "a sign and a divisor",
        "integers of 8 bits",
        "nested sums",
        "three factors",
        "a computed operand",
        "a computed operand with a divisor",
    ],
)
def test_sums_that_become_products_of_two_operands_may_truncate(term: str) -> None:
    x, w = (random(seed).astype(ml_dtypes.bfloat16) for seed in (20, 21))
    rounded = bound_of(dot("float32", "float32", term), x.astype(np.float32), w.astype(np.float32))
    assert bound_of(dot("bfloat16", "float32", term), x, w) > 1.2 * rounded


@pytest.mark.parametrize("term", ["x[k] + w[k]", "maximum(x[k], w[k]) * 2", "x[k] / w[k]"])
def test_sums_that_become_no_product_of_two_operands_are_rounded(term: str) -> None:
    x, w = (random(seed).astype(ml_dtypes.bfloat16) for seed in (22, 23))
    rounded = bound_of(dot("float32", "float32", term), x.astype(np.float32), w.astype(np.float32))
    assert bound_of(dot("bfloat16", "float32", term), x, w) == rounded


@pytest.mark.parametrize(("value", "dtype"), [("w[k]", "bfloat16"), ("cast(w[k] - 1, float32)", "int8")])
def test_a_temporary_that_converts_an_operand_is_that_operand(value: str, dtype: str) -> None:
    x, w = random(24).astype(ml_dtypes.bfloat16), (random(25) * 10).astype(np.int8)
    text = dot(dtype, "float32", "x[k] * w[k]", x="bfloat16").text
    text = text.replace("compute: y = sum(x[k] * w[k], k)", f"compute: ['v[k] = {value}', 'y = sum(x[k] * v[k], k)']")
    (narrow,), (wide,) = (load_text(made) for made in (text, text.replace("dtype: bfloat16", "dtype: float32")))
    stored, exact = (w.astype(to) if dtype == "bfloat16" else w for to in (ml_dtypes.bfloat16, np.float32))
    assert bound_of(narrow, x, stored) > 1.2 * bound_of(wide, x.astype(np.float32), exact)


@pytest.mark.parametrize(("narrow", "products"), [("bfloat16", 3), ("float16", 6)])
def test_each_product_of_parts_of_a_float32_operand_truncates(narrow: str, products: int) -> None:
    x, w = random(26), random(27).astype(ml_dtypes.bfloat16)
    magnitude = float(np.abs(x.astype(np.float64) * w.astype(np.float64)).sum())
    bound = bound_of(dot(narrow, "float32", x="float32"), x, w.astype(narrow))
    assert 0.5 < bound / (2 * (64 * products + 1) * 2.0**-24 * magnitude) <= 1.01


def test_parts_of_a_float32_operand_lose_bits_below_those_of_bfloat16() -> None:
    x, w = np.full(64, 2.0**-110 * 1.3, dtype=np.float32), np.ones(64, dtype=ml_dtypes.bfloat16)
    assert bound_of(dot("bfloat16", "float32", x="float32"), x, w) >= 64 * 2.0**-133


def test_scales_of_groups_are_no_operands_of_tensor_cores() -> None:
    """Nor do they hide the operands: 128 terms of float8 lose 13 bits below the leading one."""
    drawn = np.random.default_rng(5).standard_normal((2, 256)).astype(np.float32)
    x, w = drawn.astype(ml_dtypes.float8_e4m3fn)

    def bound(term: str) -> float:
        (spec,) = load_text(f"""
cugen: 1
kernel: dot
target: sm_90a
params: {{K: 256}}
arrays:
  x: {{shape: [K], dtype: float8_e4m3}}
  w: {{shape: [K], dtype: float8_e4m3}}
  s: {{shape: [K // 128], dtype: float32}}
  y: {{shape: [], dtype: float32}}
compute: y = sum({term}, k) * s[0]
""")
        return float(evaluate(spec, {"x": x, "w": w, "s": np.ones(2, np.float32)})["y"].bound)

    plain = bound("x[k] * w[k]")
    assert plain > 2.0**-13
    assert plain < bound("s[k // 128] * x[k] * w[k]") < 1.01 * plain
