"""The transforms of Winograd's algorithm F(2 x 2, 3 x 3).

    Y = A^T [(G g G^T) * (B^T d B)] A
gives a tile Y of 2 x 2 outputs from a tile d of 4 x 4 inputs and the 3 x 3 taps g; * multiplies element by element. Of
several channels the products are summed before they are transformed (Lavin and Gray, "Fast Algorithms for Convolutional
Neural Networks", 2016). 16 products take the place of 36.
"""

from __future__ import annotations

from math import sqrt

Matrix = tuple[tuple[float, ...], ...]

OUTPUTS, TAPS = 2, 3  # along a dimension, of a tile
TILE = OUTPUTS + TAPS - 1
INPUT_TRANSFORM: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))  # B^T
FILTER_TRANSFORM: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))  # G
OUTPUT_TRANSFORM: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))  # A^T


def additions(matrix: Matrix) -> int:
    """The most additions of an element of `M x`. Its factors are powers of two, by which a product isn't rounded."""
    return max(sum(factor != 0 for factor in row) for row in matrix) - 1


def roundings() -> int:
    """The most additions of the transforms of an output, along both dimensions."""
    return 2 * sum(map(additions, (INPUT_TRANSFORM, FILTER_TRANSFORM, OUTPUT_TRANSFORM)))


def growth() -> float:
    """How much larger the products of transforms are than those of the convolution, of independent random operands: by
    the root of the sums of their variances."""
    variances = [
        sum((a * _norm(b) * _norm(g)) ** 2 for a, b, g in zip(row, INPUT_TRANSFORM, FILTER_TRANSFORM, strict=True))
        for row in OUTPUT_TRANSFORM
    ]
    return max(variances) / TAPS  # the root, along both dimensions


def _norm(row: tuple[float, ...]) -> float:
    return sqrt(sum(factor**2 for factor in row))
