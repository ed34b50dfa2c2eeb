"""Error bounds of convolutions that Winograd's algorithm may compute."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.reference.result import Result
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.spec.winograd.transforms import FILTER_TRANSFORM, INPUT_TRANSFORM, OUTPUT_TRANSFORM

Floats = np.ndarray
A, B, G = (np.array(matrix, np.float32) for matrix in (OUTPUT_TRANSFORM, INPUT_TRANSFORM, FILTER_TRANSFORM))
UNIT = 2.0**-24


def convolution(channels: int = 3, size: tuple[int, int] = (5, 6), accumulate: str = "{winograd: true}") -> Spec:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{C: {channels}, O: 2, H: {size[0]}, W: {size[1]}}}
arrays:
  x: {{shape: [C, H, W], dtype: float32, boundary: zero}}
  w: {{shape: [O, C, 3, 3], dtype: float32}}
  y: {{shape: [O, H, W], dtype: float32}}
compute: y[o, i, j] = sum(x[c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)
accumulate: {accumulate}
""")
    return spec


def of(x: Floats, w: Floats, accumulate: str = "{winograd: true}") -> Result:
    return evaluate(convolution(len(x), x.shape[1:], accumulate), {"x": x, "w": w})["y"]


def drawn(seed: int, channels: int = 3, size: tuple[int, int] = (5, 6), spread: float = 0.0) -> tuple[Floats, Floats]:
    """Inputs and weights, whose magnitudes are spread over so many decimal orders."""
    source = np.random.default_rng(seed)
    shapes = (channels, *size), (2, channels, 3, 3)
    x, w = (source.standard_normal(shape) * 10 ** source.uniform(-spread, spread, shape) for shape in shapes)
    return x.astype(np.float32), w.astype(np.float32)


def both_sides(matrix: Floats, x: Floats) -> Floats:
    """`matrix · x · matrix^T` of the last two axes in float32, without products by zero: an infinite element is left
    out of the sums that it isn't in."""
    for _ in range(2):
        terms = [[factor * x[..., k, :] for k, factor in enumerate(row) if factor] for row in matrix]
        x = np.stack([sum(others, first) for first, *others in terms], axis=-1)  # transposed, twice
    return x


def by_winograd(x: Floats, w: Floats) -> Floats:
    """Winograd's algorithm in float32, one operation after the other."""
    with np.errstate(all="ignore"):
        return _by_winograd(x, w)


def _by_winograd(x: Floats, w: Floats) -> Floats:
    channels, rows, columns = x.shape
    result = np.zeros((len(w), rows + rows % 2, columns + columns % 2), np.float32)
    padded = np.zeros((channels, rows + 3, columns + 3), np.float32)
    padded[:, 1 : rows + 1, 1 : columns + 1] = x
    transformed = both_sides(G, w)
    for i in range(0, rows, 2):
        for j in range(0, columns, 2):
            tiles = both_sides(B, padded[:, i : i + 4, j : j + 4])
            products = np.zeros((len(w), 4, 4), np.float32)
            for c in range(channels):
                products += transformed[:, c] * tiles[c]
            result[:, i : i + 2, j : j + 2] = both_sides(A, products)
    return result[:, :rows, :columns]


@pytest.mark.parametrize("channels", [1, 3, 40])
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_results_of_the_algorithm_are_within_the_bound(channels: int, spread: float) -> None:
    for seed in range(5):
        x, w = drawn(seed, channels, (5, 6), spread)
        assert of(x, w).accepts(by_winograd(x, w)).all()


def test_what_cancels_in_the_transforms_is_lost() -> None:
    """A large input whose tap is zero is in the sums of Winograd's algorithm, but not in those of the convolution."""
    x, w = drawn(1, 1)
    w[:, 0, 1, 1] = 0
    x[0, 1, 1] = 1e6
    actual = by_winograd(x, w)
    assert of(x, w).accepts(actual).all()
    assert not of(x, w, "float32").accepts(actual).all()


def test_the_bound_is_that_of_the_magnitudes_and_roundings_of_the_transforms() -> None:
    x, w = drawn(2, 7, (2, 2))
    size = np.pad(np.abs(x).astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    b, g, a = (np.abs(matrix).astype(np.float64) for matrix in (B, G, A))
    tiles = np.einsum("ai,cij,bj->cab", b, size, b)
    taps = np.einsum("ar,ocrs,bs->ocab", g, np.abs(w).astype(np.float64), g)
    magnitude = np.einsum("pa,oab,qb->opq", a, np.einsum("ocab,cab->oab", taps, tiles), a)
    roundings = 2 * (1 + 2 + 2) + 7  # additions along both dimensions; a product, and 6 additions of channels
    assert of(x, w).bound == pytest.approx(roundings * UNIT * magnitude + UNIT * np.abs(of(x, w).value), rel=0.05)


def test_the_bound_is_never_below_that_of_the_convolution() -> None:
    x, w = drawn(3)
    assert (of(x, w).bound >= of(x, w, "float32").bound).all()


def test_the_bound_holds_for_transforms_that_are_rounded_to_tf32() -> None:
    x, w = drawn(4)
    assert (of(x, w, "{winograd: true, tf32: true}").bound > 100 * of(x, w).bound).all()


def test_small_integers_are_exact() -> None:
    source = np.random.default_rng(5)
    x = source.integers(-9, 9, (3, 5, 6)).astype(np.float32)
    w = source.integers(-9, 9, (2, 3, 3, 3)).astype(np.float32)
    assert (of(x, w).bound == 0).all()
    assert (of(x, w).value == by_winograd(x, w)).all()
    assert (of(x * 2**18, w).bound > 0).all()  # a quarter of such integers doesn't fit


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_input_that_is_not_finite_makes_the_outputs_that_read_it_uncertain(value: float) -> None:
    x, w = drawn(6)
    x[1, 3, 2] = value
    reads_it = np.zeros((5, 6), np.bool_)
    reads_it[2:5, 1:4] = True
    assert (np.isinf(of(x, w).bound) == reads_it).all()
    assert of(x, w).accepts(by_winograd(x, w)).all()


def test_a_weight_that_is_not_finite_makes_the_outputs_of_its_feature_uncertain() -> None:
    x, w = drawn(7)
    w[1, 0, 0, 2] = np.inf
    assert np.isinf(of(x, w).bound[1]).all()
    assert np.isfinite(of(x, w).bound[0]).all()


def test_transforms_that_overflow_make_results_uncertain() -> None:
    x, w = drawn(8)
    x[:, 2, 2], w[:] = 3e38, 1e-30
    assert np.isfinite(of(x, w).value).all()
    assert of(x, w).accepts(by_winograd(x, w)).all()
    x[:, 2, 3] = -3e38  # the difference of both is infinite
    assert np.isinf(of(x, w).bound[:, 1:4, 2:4]).any()


def test_elements_have_the_bounds_that_they_have_in_the_whole() -> None:
    x, w = drawn(9, 20, (13, 14))
    points = np.arange(0, 2 * 13 * 14, 5)
    some = evaluate(convolution(20, (13, 14)), {"x": x, "w": w}, points={"y": points})["y"]
    assert some.bound == pytest.approx(of(x, w).bound.reshape(-1)[points], rel=1e-12)
