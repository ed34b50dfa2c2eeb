"""How far convolutions by Winograd's algorithm may be from their values, which a device may use where the spec says so.

With a_n = n u / (1 - n u), each output is within a_n (|A^T| [(|G| |g| |G|^T) * sum |B^T| |d| |B|] |A|), since every
rounding on the way is relative to a part of that sum: of n there are those of the additions of each transform, along
both dimensions, of a product, and of the sum over channels (Higham, "Accuracy and Stability of Numerical Algorithms",
section 3.1). An output depends on the inputs of its own window alone: the others of its tile are multiplied by zeros of
A^T. Of those that are infinite or NaN, its value may be any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cugen.reference.scope import Scope
from cugen.reference.storage import Floats, Values, format_of
from cugen.reference.sums.contraction import batched_matmul
from cugen.reference.sums.reductions import gamma
from cugen.reference.sums.tensor_cores import TF32_UNIT
from cugen.reference.tracked import Tracked
from cugen.spec.expressions import Boundary, Const, Expr, IndexValue, Op, Read
from cugen.spec.types import FLOAT32, INT64
from cugen.spec.winograd.recognition import Convolution
from cugen.spec.winograd.transforms import (
    FILTER_TRANSFORM,
    INPUT_TRANSFORM,
    OUTPUT_TRANSFORM,
    OUTPUTS,
    TAPS,
    TILE,
    Matrix,
    roundings,
)

Evaluate = Callable[[Expr, Scope], Tracked]
_QUARTERS = 4  # the transformed taps of integers are multiples of a quarter
_UNHALVED = 4  # times a transformed tap: the sums before their products with 1/2
_ROW, _COLUMN = "row of the tile", "column of the tile"  # no index of a spec has such a name


@dataclass(frozen=True, slots=True)
class Bounded:
    """Magnitudes of finite values over (row, column, channels, ...), their bounds, and which aren't finite."""

    size: Floats
    slack: Floats
    is_lost: Values
    is_integral: bool

    @staticmethod
    def of(x: Tracked, extents: tuple[int, ...], depth: int) -> Bounded:
        """Those of a value over `extents` and `depth` further axes."""

        def padded(values: Values) -> Values:
            values = values.reshape((1,) * (len(extents) + depth - values.ndim) + values.shape)
            return np.broadcast_to(values, extents + values.shape[len(extents) :])

        value = padded(x.value)
        slack = np.broadcast_to(padded(x.slack), value.shape)
        is_lost = ~(np.isfinite(value) & np.isfinite(slack))
        return Bounded(
            np.where(is_lost, 0.0, np.abs(value)),
            np.where(is_lost, 0.0, slack),
            is_lost,
            x.integral and x.bound is None,
        )

    def transformed(self, matrix: Matrix) -> Bounded:
        """The largest magnitudes that the transform gives, with those of its intermediate sums."""
        return replace(self, size=_transformed(self.size, matrix), slack=_transformed(self.slack, matrix))


def with_winograd(
    result: Tracked,
    convolution: Convolution,
    scope: Scope,
    channels: tuple[int, ...],
    evaluate: Evaluate,
    *,
    tf32: bool,
) -> Tracked:
    """The result of a convolution over so many channels, whose bound also holds for Winograd's algorithm. `evaluate`
    gives the values of operands; with `tf32` the transformed operands may be rounded to that."""
    form, terms = format_of(FLOAT32), math.prod(channels)
    tiles, taps = _tiles(convolution, scope, channels, evaluate), _taps(convolution, scope, channels, evaluate)
    used = _used(convolution, scope, len(channels))  # by row and column of a tile, where A^T isn't 0
    transformed, weights = tiles.transformed(INPUT_TRANSFORM), taps.transformed(FILTER_TRANSFORM)
    axes = 2 + len(channels)
    of_tiles, of_tile_errors = transformed.size * used, transformed.slack * used
    of_taps, of_tap_errors = weights.size, weights.slack + form.tiny  # of halves that are subnormal
    magnitude = batched_matmul(of_tiles + of_tile_errors, of_taps + of_tap_errors, axes)
    if tiles.is_integral and taps.is_integral and not tf32 and _QUARTERS * np.max(magnitude) <= form.integers:
        return result
    inherited = batched_matmul(of_tile_errors, of_taps + of_tap_errors, axes)
    inherited = inherited + batched_matmul(of_tiles, of_tap_errors, axes) + TILE * TILE * terms * form.tiny
    count = roundings() + terms + (terms + 2 if tf32 else 0)  # tensor cores truncate: twice the error
    relative = gamma(count + 1, FLOAT32)
    if tf32:
        relative = relative + (2 * TF32_UNIT + TF32_UNIT**2) * (1 + relative)
    error = relative * magnitude + inherited
    over = tuple(range(axes))
    is_lost = np.any(tiles.is_lost & (used > 0), axis=over) | np.any(taps.is_lost, axis=over)
    is_lost = is_lost | np.any(of_tiles + of_tile_errors >= form.overflow, axis=over)
    is_lost = is_lost | np.any(_UNHALVED * (of_taps + of_tap_errors) >= form.overflow, axis=over)
    is_lost = is_lost | (magnitude + error >= form.overflow)
    return Tracked(result.value, np.where(is_lost, np.inf, np.maximum(result.slack, error)))


def _tiles(convolution: Convolution, scope: Scope, channels: tuple[int, ...], evaluate: Evaluate) -> Bounded:
    """The inputs of the tile that each output is of."""
    first = {axis.index: OUTPUTS * (scope.values[axis.index] // OUTPUTS) for axis in convolution.axes}
    ranges = {name: known for name, known in scope.ranges.items() if name not in first}
    inner = replace(scope, values={**scope.values, **first}, ranges=ranges)
    down, across = convolution.axes
    moved = {
        down.of_inputs: _sum(IndexValue(down.index), IndexValue(_ROW), down.first),
        across.of_inputs: _sum(IndexValue(across.index), IndexValue(_COLUMN), across.first),
    }
    read = replace(convolution.inputs, boundary=convolution.inputs.boundary or Boundary("zero"))
    return _operand(read, moved, TILE, convolution, inner, channels, evaluate)


def _taps(convolution: Convolution, scope: Scope, channels: tuple[int, ...], evaluate: Evaluate) -> Bounded:
    down, across = convolution.axes
    moved: dict[int, Expr] = {}
    for axis, name in ((down, _ROW), (across, _COLUMN)):
        step = Op("mul", (Const(axis.weight_step, INT64), IndexValue(name)), INT64)
        moved[axis.of_weights] = Op("add", (step, Const(axis.first_weight, INT64)), INT64)
    return _operand(convolution.weights, moved, TAPS, convolution, scope, channels, evaluate)


def _operand(
    read: Read,
    moved: dict[int, Expr],
    size: int,
    convolution: Convolution,
    scope: Scope,
    channels: tuple[int, ...],
    evaluate: Evaluate,
) -> Bounded:
    """The elements of an operand over (row, column, channels, ...)."""
    read = replace(read, subscripts=tuple(moved.get(n, sub) for n, sub in enumerate(read.subscripts)))
    inner = scope
    for index, extent in reversed(tuple(zip(convolution.channels, channels, strict=True))):
        inner = inner.bind(index.name, 0, extent)
    inner = inner.bind(_COLUMN, 0, size).bind(_ROW, 0, size)
    return Bounded.of(evaluate(read, inner), (size, size, *channels), scope.depth)


def _used(convolution: Convolution, scope: Scope, channels: int) -> Floats:
    """|A^T| at the row and column of each output in its tile, over (row, column, channels, ...)."""
    matrix = np.abs(np.array(OUTPUT_TRANSFORM))
    factors: list[Floats] = []
    for number, axis in enumerate(convolution.axes):
        position = scope.values[axis.index] % OUTPUTS
        factor = np.moveaxis(matrix[position], -1, 0)
        leading = [1] * (2 + channels + scope.depth - position.ndim)
        leading[number] = TILE
        factors.append(factor.reshape((*leading, *position.shape)))
    return factors[0] * factors[1]


def _transformed(values: Floats, matrix: Matrix) -> Floats:
    size = np.abs(np.array(matrix))
    result: Floats = np.einsum("ar,bs,rs...->ab...", size, size, values, optimize=True)
    return result


def _sum(a: Expr, b: Expr, constant: int) -> Expr:
    return Op("add", (Op("add", (a, b), INT64), Const(constant, INT64)), INT64)
