"""The specs of the pages compute what they are for, by NumPy's own functions."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cugen
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from tests.docs.pages import ROOT, blocks

RANDOM = np.random.default_rng(0)


@cache
def specs(page: str) -> dict[str, Spec]:
    accepted = [block for block in blocks(ROOT / "docs" / page) if block.is_spec and not block.codes]
    return {spec.kernel: spec for block in accepted for spec in load_text(block.text)}


def run(page: str, kernel: str, **arguments: Any) -> dict[str, Any]:
    return cugen.run(specs(page)[kernel], arguments, device="cpu")


def floats(*shape: int) -> Any:
    return RANDOM.random(shape, dtype=np.float32)


def test_a_histogram_counts() -> None:
    x = RANDOM.integers(0, 64, 100000, dtype=np.uint8)
    assert (run("cannot-say.md", "histogram", x=x)["count"] == np.bincount(x, minlength=64)).all()


@pytest.mark.slow
def test_a_histogram_of_floats_counts() -> None:
    x = floats(100000)
    count = run("recipes.md", "histogram", x=x)["count"]
    assert (count == np.histogram(x, bins=32, range=(0, 1))[0]).all()


@pytest.mark.slow
def test_sums_by_key_are_weighted_counts() -> None:
    x, key = floats(20000), RANDOM.integers(0, 32, 20000, dtype=np.int32)
    total = run("cannot-say.md", "by_key", x=x, key=key)["total"]
    assert np.allclose(total, np.bincount(key, weights=x, minlength=32), rtol=1e-4)


@pytest.mark.slow
def test_segments_are_summed() -> None:
    x, start = floats(20000), np.arange(0, 20001, 20, dtype=np.int32)
    assert np.allclose(run("recipes.md", "segment_sums", x=x, start=start)["total"], x.reshape(-1, 20).sum(1))


@pytest.mark.slow
def test_ranks_sort() -> None:
    x = RANDOM.integers(0, 300, 1000).astype(np.float32)
    assert (run("cannot-say.md", "ordered", x=x)["y"] == np.sort(x)).all()


@pytest.mark.slow
def test_a_recurrence_is_a_sum_with_powers() -> None:
    x = floats(64, 256)
    expected = np.zeros_like(x)
    for t in range(256):
        expected[:, t] = 0.9 * expected[:, t - 1] + x[:, t] if t else x[:, t]
    assert np.allclose(run("cannot-say.md", "decay", x=x)["y"], expected, rtol=1e-4)


def test_rows_of_a_sparse_matrix_are_multiplied() -> None:
    length = RANDOM.integers(0, 21, 1000)
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    value, x = floats(20000), floats(1000)
    column = RANDOM.integers(0, 1000, 20000, dtype=np.int32)
    y = run("cannot-say.md", "spmv_csr", value=value, column=column, start=start, x=x)["y"]
    expected = [value[a:b] @ x[column[a:b]] for a, b in pairwise(start)]
    assert np.allclose(y, expected, rtol=1e-4)


@pytest.mark.parametrize("seed", [1, 2])
def test_dropout_keeps_nine_of_ten(seed: int) -> None:
    y = run("cannot-say.md", "dropout", x=np.ones(10000, np.float32), seed=seed)["y"]
    assert 0.89 < (y > 0).mean() < 0.91
    assert np.allclose(y[y > 0], 1 / 0.9)


def test_quantised_rows_are_near_their_numbers() -> None:
    x = floats(64, 512) - 0.5
    made = run("recipes.md", "quantise_rows", x=x)
    assert np.abs(made["q"] * made["scale"][:, None] - x).max() <= 0.51 * made["scale"].max()


def test_values_that_occur_together_are_counted() -> None:
    a, b = (RANDOM.integers(0, 256, 100000, np.uint8) for _ in range(2))
    expected, _, _ = np.histogram2d(a, b, bins=16, range=((0, 256), (0, 256)))
    assert (run("recipes.md", "joint_histogram", a=a, b=b)["count"] == expected).all()


def test_a_token_counts_once_for_each_of_its_experts() -> None:
    first, second = (RANDOM.integers(0, 64, 8192, np.int32) for _ in range(2))
    chosen = (first[:, None] == np.arange(64)) | (second[:, None] == np.arange(64))
    load = run("recipes.md", "expert_load", first=first, second=second)["load"]
    assert (load == chosen.sum(0) / np.float32(8192)).all()
