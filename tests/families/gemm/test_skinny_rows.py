"""Rows of a skinny GEMM that aren't contiguous along K are copied with K last, where B takes longer to arrive."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from cugen.families.gemm.skinny import k_major_rows
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

LAYER = """cugen: 1
kernel: layer
params: {{N: {n}, K: {k}, O: {o}}}
arrays:
  x: {{shape: [N, K], dtype: {dtype}}}
  w: {{shape: {shape}, dtype: {dtype}}}
  b: {{shape: [O], dtype: {dtype}}}
  y: {{shape: [N, O], dtype: {dtype}}}
compute: "y[n, o] = relu(sum(x[n, k] * {read}, k) + b[o])"
"""


def layer(n: int, k: int, o: int, dtype: str = "float32", read: str = "w[k, o]") -> Kernel:
    shape = "[K, O]" if read == "w[k, o]" else "[O, K]"
    (spec,) = load_text(LAYER.format(n=n, k=k, o=o, dtype=dtype, shape=shape, read=read))
    return generate(spec, analysis=False)


def families(kernel: Kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


@pytest.mark.covering
@pytest.mark.parametrize("o", [2, 3, 5, 8])
@pytest.mark.parametrize("k", [100, 4096])
def test_strided_rows_of_a_large_matrix_are_copied(k: int, o: int) -> None:
    kernel = layer(200_000, k, o)
    assert families(kernel)[-1] == "skinny"
    assert "w_rows" in [array.name for array in kernel.plan.workspace]


@pytest.mark.parametrize(
    ("n", "o", "read"),
    [
        pytest.param(200_000, 3, "w[o, k]", id="contiguous rows"),
        pytest.param(500, 3, "w[k, o]", id="a small matrix"),
        pytest.param(200_000, 16, "w[k, o]", id="as many rows as tiles have"),
    ],
)
def test_other_rows_are_read_where_they_are(n: int, o: int, read: str) -> None:
    assert "w_rows" not in [array.name for array in layer(n, 100, o, read=read).plan.workspace]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("n", "k", "o"), [(77, 100, 3), (64, 129, 8), (300, 67, 2)])
def test_results_of_copied_rows_are_right(n: int, k: int, o: int, dtype: str) -> None:
    with patch.object(k_major_rows, "_MIN_GAIN", 0):
        kernel = layer(n, k, o, dtype)
    assert "w_rows" in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_rows_along_fused_indices_are_read_where_they_are() -> None:
    text = """cugen: 1
kernel: tucker
params: {I: 200, J: 180, K: 160, P: 20, Q: 24, R: 16}
arrays:
  x: {shape: [I, J, K], dtype: float32}
  a: {shape: [I, P], dtype: float32}
  b: {shape: [J, Q], dtype: float32}
  c: {shape: [K, R], dtype: float32}
  g: {shape: [P, Q, R], dtype: float32}
compute: "g[p, q, r] = sum(x[i, j, k] * a[i, p] * b[j, q] * c[k, r], i, j, k)"
"""
    (spec,) = load_text(text)
    assert generate(spec, analysis=False).plan.kernels
