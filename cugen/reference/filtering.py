"""Linear filtering of 2-D textures, as an H100 was measured to do it, with its error bound.

The CUDA programming guide ("Linear filtering") defines the value between four elements, with weights of 8 fraction
bits, and not what is rounded. Measured on an NVIDIA H100 (2026-11-26):

- A coordinate is a multiple of 1/256, the nearest one, and of two the higher. A normalized one is truncated downwards
  to a multiple of 2^-21 to 2^-23 (`fraction_bits`) before it is multiplied by the extent, and that product is exact.
- With the weights a and b of the two dimensions, in 1/256, that of the fourth element is a * b / 256, rounded in the
  same way; those of the others make the sums a, b and 256.
- Both hold as well for the points of `symmetric` outside: elements are mirrored, and not the weights.
- Subnormal elements count as 0, and infinite ones of weight 0 don't count. The sum is rounded once, and off by up to
  0.52 units in the last place of the greatest element; of float16 elements it is rounded to about float16.

The bound has two parts:

- The device's x differs from ours by its roundings. All of the above is monotone: the interval of the possible values
  of x becomes one of points. The value is, but for the rounding of the fourth weight, a polynomial of degree 1 in each
  coordinate between elements: it differs most at a corner of the box of the intervals, or where an element is between
  corners.
- The sum is rounded: half a unit in the last place of the greatest element, and 1/32 of one, as if the elements were
  cut off 5 bits below it; 0.02 were measured. An element itself is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cugen.reference.contents import Contents, apply_boundary
from cugen.reference.storage import Floats, Values, numpy_dtype
from cugen.reference.tracked import HOST_ROUNDING, Tracked, deviation
from cugen.spec.expressions import Boundary

NORMALIZED = ("wrap", "symmetric")  # boundaries whose coordinates are divided by the extent
WEIGHTS = 256  # steps of a weight from 0 to 1
_ULPS = 0.5 + 1 / 32
_SMALLEST_NORMAL = 2.0**-126
# Fraction bits of normalized coordinates, with the greatest extent measured to have them and the smallest one measured
# to have more. The greatest extent of a texture is 131072.
_FRACTION_BITS = ((21, 8192, 16000), (22, 65000, 131072))
_MOST_FRACTION_BITS = 23

Steps = NDArray[np.int64]  # points in multiples of 1/256


@dataclass(frozen=True, slots=True)
class Axis:
    """The points along one dimension, as the texture unit sees them: `nearest` is ours, those of the device are from
    `low` to `high`. `is_lost`: nothing is known of it."""

    nearest: Steps
    low: Steps
    high: Steps
    is_lost: Values

    @property
    def is_element(self) -> Values:
        """Whether the device's point is an element too."""
        result: Values = (self.low == self.high) & (self.nearest % WEIGHTS == 0)
        return result


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Values at points, with the greatest magnitude of the four elements around each, and the mixed difference of
    these, by which the rounding of the fourth weight is multiplied."""

    value: Floats
    greatest: Floats
    mixed: Floats


def fraction_bits(largest_extent: int) -> tuple[int, int]:
    """The fewest and the most fraction bits that the normalized coordinates of a texture may have, by the larger of its
    extents; equal but for extents where no measurement tells."""
    minimum = next((bits for bits, _, more in _FRACTION_BITS if largest_extent < more), _MOST_FRACTION_BITS)
    maximum = next((bits for bits, last, _ in _FRACTION_BITS if largest_extent <= last), _MOST_FRACTION_BITS)
    return minimum, maximum


def axis_of(coordinate: Tracked, extent: int, boundary: Boundary | None, bits: tuple[int, int]) -> Axis:
    """The points of a coordinate, after the roundings of `x + 0.5f`, and, if it is normalized, of its division by the
    extent; the device truncates it then to one of these numbers of fraction bits."""
    x = np.asarray(coordinate.value, np.float64)
    is_lost = np.isnan(x) | ~np.isfinite(coordinate.slack)
    low, high = x - coordinate.slack, x + coordinate.slack
    if boundary is not None and boundary.mode in NORMALIZED:
        is_lost = is_lost | (np.abs(x) >= 2.0**31)
        minimum, maximum = bits
        ends = [
            _normalized(np.where(is_lost, 0.0, value), extent, count)
            for value, count in ((low, minimum), (x, minimum), (high, maximum))
        ]
    else:  # a point farther outside is as one at 2 elements
        near = (np.clip(np.where(is_lost, 0.0, value), -2.0, extent + 1.0) for value in (low, x, high))
        ends = [_shifted(value) for value in near]
    first, nearest, last = (np.floor(WEIGHTS * end + 0.5) for end in ends)
    with np.errstate(invalid="ignore"):
        is_lost = is_lost | ~(last - first <= WEIGHTS)
    first, last = (np.where(is_lost, nearest, step) for step in (first, last))
    return Axis(nearest.astype(np.int64), first.astype(np.int64), last.astype(np.int64), is_lost)


def _shifted(x: Floats) -> Floats:
    """The point of a texture coordinate `x + 0.5f`."""
    with np.errstate(over="ignore"):
        centred = (x + 0.5).astype(np.float32)
    return centred.astype(np.float64) - 0.5


def _normalized(x: Floats, extent: int, bits: int) -> Floats:
    """The point of a texture coordinate `(x + 0.5f) * (1.0f / extent)` with so many fraction bits."""
    with np.errstate(over="ignore"):
        centred = (x + 0.5).astype(np.float32)
    scaled = centred * (np.float32(1) / np.float32(extent))
    return np.floor(np.ldexp(scaled.astype(np.float64), bits)) * (extent / 2.0**bits) - 0.5


def filtered(contents: Contents, coordinates: Sequence[Tracked], boundary: Boundary | None) -> Tracked:
    """The interpolated values at points with two coordinates."""
    shape = contents.shape
    if 0 in shape:
        return Tracked(np.zeros(np.broadcast_shapes(*(x.value.shape for x in coordinates))))
    bits = fraction_bits(max(shape))
    axes = [axis_of(x, extent, boundary, bits) for x, extent in zip(coordinates, shape, strict=True)]

    def interpolation_at(steps: Sequence[Steps]) -> Interpolation:
        return _interpolated(contents, steps, boundary)

    nearest = interpolation_at([axis.nearest for axis in axes])
    # Of float16 elements the device rounds the sum to about float16.
    epsilon = float(np.finfo(numpy_dtype(contents.dtype)).eps)
    rounding = (_ULPS * epsilon + 4 * HOST_ROUNDING) * nearest.greatest + _SMALLEST_NORMAL  # or a subnormal one is 0
    bound: Floats = np.where(axes[0].is_element & axes[1].is_element, 0.0, rounding)
    bound = bound + _weight_error(nearest.value, axes, interpolation_at)
    is_lost = axes[0].is_lost | axes[1].is_lost | ~np.isfinite(nearest.greatest)
    return Tracked(nearest.value, np.where(is_lost, np.inf, bound))


def _weight_error(
    value: Floats, axes: Sequence[Axis], interpolation_at: Callable[[Sequence[Steps]], Interpolation]
) -> Floats:
    """The largest deviation over the boxes of possible points: at their corners, and at elements between these."""
    error = np.zeros(value.shape)
    is_open = np.broadcast_to((axes[0].low < axes[0].high) | (axes[1].low < axes[1].high), value.shape)
    if not is_open.any():
        return error
    candidates = []
    has_inner = np.zeros(np.count_nonzero(is_open), np.bool_)
    for axis in axes:
        low, high = (np.broadcast_to(steps, value.shape)[is_open] for steps in (axis.low, axis.high))
        between = high // WEIGHTS * WEIGHTS
        candidates.append((low, np.where(between > low, between, low), high))
        has_inner |= high - low > 1
    corners = [interpolation_at(steps) for steps in product(*candidates)]
    largest = np.max([deviation(value[is_open], corner.value) for corner in corners], axis=0)
    # The fourth weight is off by half a step at a point inside, and by another half at a corner.
    mixed = np.max([np.abs(corner.mixed) for corner in corners], axis=0)
    error[is_open] = largest + np.where(has_inner & np.isfinite(largest), mixed / WEIGHTS, 0.0)
    return error


def _interpolated(contents: Contents, steps: Sequence[Steps], boundary: Boundary | None) -> Interpolation:
    sides, weights = [], []
    for step, extent in zip(steps, contents.shape, strict=True):
        first = step // WEIGHTS
        weights.append(step % WEIGHTS)
        sides.append([apply_boundary(first + side, extent, boundary or Boundary("clamp")) for side in (0, 1)])
    total, greatest, mixed = np.zeros(()), np.zeros(()), np.zeros(())
    for (i, (row, is_above)), (j, (column, is_left)) in product(*(enumerate(side) for side in sides)):
        element = contents.load_region(tuple(np.broadcast_arrays(row, column))).value
        for is_outside in (is_above, is_left):
            element = element if is_outside is None else np.where(is_outside, 0.0, element)
        weight = _weights_of_four(*weights)[i][j]
        counts_as_0 = (np.abs(element) < _SMALLEST_NORMAL) | (np.isinf(element) & (weight == 0))
        element = np.where(counts_as_0, 0.0, element)
        with np.errstate(invalid="ignore"):
            total = total + weight / WEIGHTS * element
            mixed = mixed + (element if i == j else -element)
        greatest = np.maximum(greatest, np.abs(element))
    return Interpolation(total, greatest, mixed)


def _weights_of_four(a: Steps, b: Steps) -> tuple[tuple[Steps, Steps], tuple[Steps, Steps]]:
    """The weights of the four elements, in 1/256, by those of the second row and of the second column."""
    both = a * b + WEIGHTS // 2 >> 8
    return (WEIGHTS - a - b + both, b - both), (a - both, both)
