"""Linear filtering of 2-D textures, as the CUDA programming guide defines it, with its error bound.

A point x between the elements i = floor(x) and i + 1 of a dimension gets (1 - w) * T[i] + w * T[i + 1], where w is
x - i rounded to a multiple of 1/256. The bound has two parts:

- The device's x differs from ours by its roundings. The interval of its possible values becomes one of weights by a
  monotone rounding, so that only where a rounding step is in the interval the weight differs, by 1/256 or more. The
  value is a polynomial of degree 1 in each coordinate between elements: it differs most at a corner of the box of the
  intervals, or where an element is between corners. A point in the middle of two weights may be rounded to either.
- The interpolation is rounded. Both forms, the sum of four products and three linear interpolations a + w * (b - a),
  are off by at most 10 roundings of the greatest of the four elements, and by none at an element itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cugen.reference.contents import Contents, apply_boundary
from cugen.reference.storage import Floats, Values
from cugen.reference.tracked import Tracked, deviation, unit
from cugen.spec.expressions import Boundary
from cugen.spec.types import FLOAT32

NORMALIZED = ("wrap", "symmetric")  # boundaries whose coordinates are divided by the extent
WEIGHTS = 256  # steps of a weight from 0 to 1
_ROUNDINGS = 10
_HALF = np.float32(0.5)  # of the element's centre, in texture coordinates

Steps = NDArray[np.int64]  # points in multiples of 1/256


@dataclass(frozen=True, slots=True)
class Axis:
    """The points along one dimension, as the texture unit sees them: `nearest` is ours, those of the device are from
    `low` to `high`. `is_element`: the point is an element, whatever rounds; `is_lost`: nothing is known of it."""

    nearest: Steps
    low: Steps
    high: Steps
    is_element: Values
    is_lost: Values


def axis_of(coordinate: Tracked, extent: int, boundary: Boundary | None) -> Axis:
    """The points of a coordinate, after the roundings of `x + 0.5f`, and of its division by the extent if it is
    normalized."""
    x = np.asarray(coordinate.value, np.float64)
    is_lost = np.isnan(x) | ~np.isfinite(coordinate.slack)
    low, middle, high = x - coordinate.slack, x, x + coordinate.slack
    if boundary is not None and boundary.mode in NORMALIZED:
        is_lost = is_lost | (np.abs(x) >= 2.0**31)
        ends = [_normalized(np.where(is_lost, 0.0, value), extent) for value in (low, middle, high)]
        # The fraction of a period is rounded, and its product with the extent.
        error = 2 * unit(FLOAT32) * np.maximum(np.abs(ends[1]), extent)
        ends[0], ends[2] = ends[0] - error, ends[2] + error
    else:  # a point farther outside is as one at 2 elements
        near = (np.clip(np.where(is_lost, 0.0, value), -2.0, extent + 1.0) for value in (low, middle, high))
        ends = [_shifted(value) for value in near]
    first, nearest, last = (WEIGHTS * end for end in ends)
    is_element = (first == last) & (nearest % WEIGHTS == 0) & (0 <= x) & (x < extent)
    low_step, high_step = np.ceil(first - 0.5).astype(np.int64), np.floor(last + 0.5).astype(np.int64)
    is_lost = is_lost | (high_step - low_step > WEIGHTS)
    return Axis(np.floor(nearest + 0.5).astype(np.int64), low_step, high_step, is_element, is_lost)


def _shifted(x: Floats) -> Floats:
    """The point of a texture coordinate `x + 0.5f`."""
    with np.errstate(over="ignore"):
        centred = (x + 0.5).astype(np.float32)
    return centred.astype(np.float64) - 0.5


def _normalized(x: Floats, extent: int) -> Floats:
    """The point of a texture coordinate `(x + 0.5f) * (1.0f / extent)`."""
    centred = (x + 0.5).astype(np.float32)
    scaled = centred * (np.float32(1) / np.float32(extent))
    return scaled.astype(np.float64) * extent - 0.5


def filtered(contents: Contents, coordinates: Sequence[Tracked], boundary: Boundary | None) -> Tracked:
    """The interpolated values at points with two coordinates."""
    shape = contents.shape
    if 0 in shape:
        return Tracked(np.zeros(np.broadcast_shapes(*(x.value.shape for x in coordinates))))
    axes = [axis_of(x, extent, boundary) for x, extent in zip(coordinates, shape, strict=True)]
    points = np.broadcast_shapes(*(axis.nearest.shape for axis in axes))

    def value_at(steps: Sequence[Steps]) -> tuple[Floats, Floats]:
        return _interpolated(contents, steps, boundary)

    value, greatest = value_at([axis.nearest for axis in axes])
    rounding = _ROUNDINGS * unit(FLOAT32) * greatest
    bound: Floats = np.where(axes[0].is_element & axes[1].is_element, 0.0, rounding)
    bound = np.broadcast_to(bound, points) + _weight_error(value, axes, value_at)
    is_lost = axes[0].is_lost | axes[1].is_lost | ~np.isfinite(greatest)
    return Tracked(value, np.where(is_lost, np.inf, bound))


def _weight_error(
    value: Floats, axes: Sequence[Axis], value_at: Callable[[Sequence[Steps]], tuple[Floats, Floats]]
) -> Floats:
    """The largest deviation over the boxes of possible points: at their corners, and at elements between these."""
    error = np.zeros(value.shape)
    is_open = np.broadcast_to((axes[0].low < axes[0].high) | (axes[1].low < axes[1].high), value.shape)
    if not is_open.any():
        return error
    candidates = []
    for axis in axes:
        low, high = (np.broadcast_to(steps, value.shape)[is_open] for steps in (axis.low, axis.high))
        between = high // WEIGHTS * WEIGHTS
        candidates.append((low, np.where(between > low, between, low), high))
    corners = [value_at(steps)[0] for steps in product(*candidates)]
    error[is_open] = np.max([deviation(value[is_open], corner) for corner in corners], axis=0)
    return error


def _interpolated(contents: Contents, steps: Sequence[Steps], boundary: Boundary | None) -> tuple[Floats, Floats]:
    """The values at points, and the greatest magnitudes of the four elements around them."""
    sides = []
    for step, extent in zip(steps, contents.shape, strict=True):
        first, fraction = step // WEIGHTS, step % WEIGHTS / WEIGHTS
        elements = [apply_boundary(first + side, extent, boundary or Boundary("clamp")) for side in (0, 1)]
        sides.append(list(zip(elements, (1 - fraction, fraction), strict=True)))
    total, greatest = np.zeros(()), np.zeros(())
    for ((row, is_above), row_weight), ((column, is_left), column_weight) in product(*sides):
        element = contents.load_region(tuple(np.broadcast_arrays(row, column))).value
        for is_outside in (is_above, is_left):
            element = element if is_outside is None else np.where(is_outside, 0.0, element)
        with np.errstate(invalid="ignore"):
            total = total + row_weight * column_weight * element
        greatest = np.maximum(greatest, np.abs(element))
    return total, greatest
