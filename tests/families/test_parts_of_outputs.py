"""Outputs that several statements write a part of each, or that run backwards: the family is that of whole outputs."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

COLUMNS = """
params: {B: 5, T: 9, D: %d}
arrays:
  x: {shape: [B, T, D], dtype: %s}
  y: {shape: [B, 2 * D], dtype: float32}
indices: {d: D}
compute: |
  y[b, d] = mean(x[b, t, d], t)
  y[b, D + d] = max(x[b, t, d], t)
"""
REVERSED = """
params: {M: 37, N: %d}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M], dtype: float32}
indices: {i: M}
compute: y[M - 1 - i] = sum(x[i, j], j)
"""
INTERLEAVED = """
params: {M: 37, N: 70}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [2 * M, N], dtype: float32}
compute: |
  y[2 * i, j] = softmax(x[i, j], j)
  y[2 * i + 1, j] = log_softmax(x[i, j], j)
"""
BACKWARDS = """
params: {M: 37, N: 70}
arrays:
  x: {shape: [M, N], dtype: float16}
  y: {shape: [M, N], dtype: float16}
indices: {i: M, j: N}
compute: y[M - 1 - i, N - 1 - j] = softmax(x[i, j], j)
"""
COUNTS = """
params: {M: 150, N: 700}
arrays:
  x: {shape: [M, N], dtype: uint8}
  y: {shape: [M, 512], dtype: int32}
indices: {b: 256}
compute: |
  y[i, b] = sum(x[i, n] == b, n)
  y[i, 256 + b] = sum(255 - x[i, n] == b, n)
"""
KEYS = """
params: {R: 150, N: 2000, G: 16}
arrays:
  key: {shape: [R, N], dtype: int32}
  v: {shape: [R, N], dtype: float32}
  y: {shape: [R, 2 * G], dtype: float32}
indices: {g: G}
compute: |
  y[r, g] = sum(v[r, i], i, where=key[r, i] == g)
  y[r, G + g] = max(v[r, i], i, where=key[r, i] == g)
"""
GRADIENTS = """
params: {H: 19, W: %d}
arrays:
  x: {shape: [H, W], dtype: float32, boundary: clamp}
  y: {shape: [%s], dtype: float32}
indices: {i: H, j: W}
compute: |
  y[i, j] = x[i, j + 1] - x[i, j - 1]
  y[%s] = x[i + 1, j] - x[i - 1, j]
"""
TRANSPOSED = """
params: {B: 33, T: 9, D: 40}
arrays:
  x: {shape: [B, T, D], dtype: float32}
  y: {shape: [2 * D, B], dtype: float32}
indices: {d: D}
compute: |
  y[d, b] = mean(x[b, t, d], t)
  y[D + d, b] = max(x[b, t, d], t)
"""
RANGES = """
params: {N: 300, E: 6000, D: 256}
arrays:
  start: {shape: [N + 1], dtype: int32}
  column: {shape: [E], dtype: int32}
  h: {shape: [N, D], dtype: float16}
  out: {shape: [N, 2 * D], dtype: float16}
indices: {d: D, v: N}
compute: |
  out[v, d] = h[v, d]
  out[v, D + d] = sum(h[column[e], d], e, where=start[v] <= e and e < start[v + 1])
"""


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: parts{text}")
    return generate(spec, analysis=False)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("text", "family"),
    [
        pytest.param(COLUMNS % (24, "float32"), "rowwise", id="few columns"),
        pytest.param(COLUMNS % (23, "float16"), "reduce", id="an odd number of columns"),
        pytest.param(COLUMNS % (264, "float32"), "reduce", id="columns in vectors"),
        pytest.param(TRANSPOSED, "rowwise", id="results along another index than the input"),
        pytest.param(REVERSED % 300, "reduce", id="rows backwards"),
        pytest.param(REVERSED % 4, "reduce", id="short rows backwards"),
        pytest.param(RANGES, "reduce", id="rows in CSR format"),
        pytest.param(INTERLEAVED, "rowwise", id="two results for each row"),
        pytest.param(BACKWARDS, "rowwise", id="rows and their elements backwards"),
        pytest.param(COUNTS, "histogram", id="two histograms"),
        pytest.param(KEYS, "grouped", id="sums and maxima by key"),
        pytest.param(GRADIENTS % (40, "2 * H, W", "H + i, j"), "stencil", id="one image below the other"),
        pytest.param(GRADIENTS % (40, "H, 2 * W", "i, W + j"), "stencil", id="one image beside the other"),
        pytest.param(GRADIENTS % (37, "H, 2 * W", "i, W + j"), "stencil", id="rows of an odd length"),
    ],
)
def test_statements_that_write_a_part_of_an_output_are_one_launch(text: str, family: str) -> None:
    kernel = kernel_of(text)
    assert [planned.family for planned in kernel.plan.kernels] == [family]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed
