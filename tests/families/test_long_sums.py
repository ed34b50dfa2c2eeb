"""Long serial sums of the direct family: their error doesn't grow with the length, and infinities stay infinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cugen
from cugen.families.direct import MAX_PLAIN_TERMS
from cugen.kernel import Kernel

Generate = Callable[[str], Kernel]

_ULP = 2.0**-23


def row_sum(length: object, dtype: str = "float32", value: str = "sum(x[i, k], k)") -> str:
    return f"""
params: {{N: {length}}}
arrays: {{x: {{shape: [4, N], dtype: {dtype}}}, y: {{shape: [4], dtype: {dtype}}}}}
compute: y[i] = {value}
schedule: {{family: direct}}
"""


def is_compensated(kernel: Kernel) -> bool:
    return "surplus" in kernel.source


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (MAX_PLAIN_TERMS, False),
        (MAX_PLAIN_TERMS + 1, True),
        (f"{{range: [0, {MAX_PLAIN_TERMS}]}}", False),
        (f"{{range: [0, {MAX_PLAIN_TERMS + 1}]}}", True),
        ("dynamic", True),
    ],
)
def test_sums_that_may_be_long_are_compensated(made: Generate, length: object, expected: bool) -> None:
    assert is_compensated(made(row_sum(length))) is expected


@pytest.mark.parametrize(("dtype", "expected"), [("float16", True), ("bfloat16", True), ("float64", False)])
def test_the_type_that_adds_decides(made: Generate, dtype: str, expected: bool) -> None:
    assert is_compensated(made(row_sum(5000, dtype))) is expected


@pytest.mark.parametrize("value", ["max(x[i, k], k)", "prod(x[i, k], k)", "argmax(x[i, k], k)"])
def test_only_sums_are_compensated(made: Generate, value: str) -> None:
    assert not is_compensated(
        made(
            row_sum(5000, value=value).replace(
                "y: {shape: [4], dtype: float32}",
                ("y: {shape: [4], dtype: int64}" if "argmax" in value else "y: {shape: [4], dtype: float32}"),
            )
        )
    )


def test_terms_of_several_indices_count_together(made: Generate) -> None:
    text = """
arrays: {{x: {{shape: [4, {0}, 32], dtype: float32}}, y: {{shape: [4], dtype: float32}}}}
compute: y[i] = sum(x[i, j, k], j, k)
schedule: {{family: direct}}
"""
    assert not is_compensated(made(text.format(32)))
    assert is_compensated(made(text.format(33)))


@pytest.mark.parametrize("length", [5000, 100_000])
def test_the_error_does_not_grow_with_the_length(made: Generate, length: int) -> None:
    x = np.exp(np.random.default_rng(1).standard_normal((4, length))).astype(np.float32)
    x[0] = 0.1  # each addition rounds to the same side
    y = cugen.run(made(row_sum(length)), device="cpu", x=x)["y"]
    exact = x.sum(axis=1, dtype=np.float64)
    assert np.max(np.abs(y - exact) / exact) < _ULP
    plain = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
    assert np.max(np.abs(plain - exact) / exact) > 10 * _ULP


def test_terms_that_cancel_cost_a_unit_of_their_size_and_not_one_each(made: Generate) -> None:
    x = np.ones((4, 3000), np.float32)
    x[:, 0], x[:, -1] = 1e9, -1e9
    y = cugen.run(made(row_sum(3000)), device="cpu", x=x)["y"]
    assert np.max(np.abs(y - 2998.0)) <= _ULP * np.abs(x[0]).sum()


@pytest.mark.slow
def test_a_softmax_of_5000_elements_is_as_exact_as_its_functions(made: Generate) -> None:
    kernel = made("""
arrays: {x: {shape: [2, 5000], dtype: float32}, y: {shape: [2, 5000], dtype: float32}}
compute: y[i, j] = softmax(x[i, j], j)
schedule: {family: direct}
""")
    x = np.random.default_rng(2).standard_normal((2, 5000)).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    assert np.max(np.abs(cugen.run(kernel, device="cpu", x=x)["y"] - exact) / exact) < 8 * _ULP


def test_infinite_and_overflowing_sums_are_those_of_a_plain_sum(made: Generate) -> None:
    x = np.ones((4, 2000), np.float32)
    x[0, 7] = np.inf
    x[1, 7], x[1, 9] = np.inf, -np.inf
    x[2] = 3e38
    x[3, 1999] = np.nan
    y = cugen.run(made(row_sum(2000)), device="cpu", x=x)["y"]
    np.testing.assert_array_equal(y, [np.inf, np.nan, np.inf, np.nan])


def test_a_sum_under_a_condition_is_compensated(made: Generate) -> None:
    kernel = made(row_sum(5000, value="sum(x[i, k], k, where=x[i, k] > 1)"))
    x = np.full((4, 5000), 1.1, np.float32)
    x[:, ::2] = 0.9
    assert is_compensated(kernel)
    exact = x[:, 1::2].sum(axis=1, dtype=np.float64)
    assert np.max(np.abs(cugen.run(kernel, device="cpu", x=x)["y"] - exact) / exact) < _ULP
