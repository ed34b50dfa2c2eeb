"""The matrices of Winograd's algorithm give the outputs of a tile."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.spec.winograd.transforms import (
    FILTER_TRANSFORM,
    INPUT_TRANSFORM,
    OUTPUT_TRANSFORM,
    OUTPUTS,
    TAPS,
    TILE,
    Matrix,
    additions,
    growth,
    roundings,
)

A, B, G = (np.array(matrix) for matrix in (OUTPUT_TRANSFORM, INPUT_TRANSFORM, FILTER_TRANSFORM))


def test_transformed_products_are_the_outputs_of_a_tile() -> None:
    source = np.random.default_rng(1)
    tile, taps = source.integers(-9, 9, (TILE, TILE)), source.integers(-9, 9, (TAPS, TAPS))
    windows = np.lib.stride_tricks.sliding_window_view(tile, (TAPS, TAPS))
    transformed = A @ ((G @ taps @ G.T) * (B @ tile @ B.T)) @ A.T  # of small integers: exact
    assert np.array_equal(transformed, np.einsum("pqrs,rs->pq", windows, taps))


def test_an_output_depends_on_the_inputs_of_its_window_alone() -> None:
    for output in range(OUTPUTS):
        (used,) = np.nonzero(A[output])
        (inputs,) = np.nonzero(np.abs(B[used]).sum(axis=0))
        assert inputs.tolist() == list(range(output, output + TAPS))


@pytest.mark.parametrize(("matrix", "count"), [(INPUT_TRANSFORM, 1), (FILTER_TRANSFORM, 2), (OUTPUT_TRANSFORM, 2)])
def test_the_additions_of_a_transform_are_counted(matrix: Matrix, count: int) -> None:
    assert additions(matrix) == count


def test_factors_are_powers_of_two_of_one_magnitude_in_a_row() -> None:
    for row in (*INPUT_TRANSFORM, *FILTER_TRANSFORM, *OUTPUT_TRANSFORM):
        (size,) = {abs(factor) for factor in row if factor}
        assert size in (0.5, 1)


def test_the_roundings_of_an_output_are_those_of_its_transforms() -> None:
    assert roundings() == 2 * (1 + 2 + 2)


def test_products_of_random_transforms_are_larger_than_those_of_the_convolution() -> None:
    source = np.random.default_rng(2)
    tiles, taps = source.standard_normal((20000, TILE, TILE)), source.standard_normal((20000, TAPS, TAPS))
    products = (G @ taps @ G.T) * (B @ tiles @ B.T)
    largest = np.einsum("pa,nab,qb->npq", np.abs(A), products**2, np.abs(A)).mean(axis=0).max()
    assert growth() == pytest.approx(np.sqrt(largest) / TAPS, rel=0.05)
