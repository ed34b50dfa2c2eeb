"""Clusters of blocks on a real device: right results, and the same bits in each run."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.bench.session import session
from cugen.kernel import generate
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of, verify
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

SPEC = """
cugen: 1
kernel: rows
params: {M: %d, N: %d}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[i, j] = %s
schedule: {family: rowwise%s}
"""
SOFTMAX = "softmax(x[i, j], j)"
STANDARD = "(x[i, j] - mean(x[i, k], k)) * rsqrt(var(x[i, k], k) + 1e-5)"


@pytest.fixture
def clusters(device: GpuDevice) -> GpuDevice:
    """A GPU that has clusters; older ones hold nothing that could be tested here."""
    with session() as gpu_session:
        if int(gpu_session.capability.removeprefix("sm_")) < 90:
            pytest.skip("NO GPU, NOT TESTED: clusters of blocks are from sm_90 on")
    return device


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(SOFTMAX, id="softmax"),
        pytest.param(STANDARD, id="standardised"),
        pytest.param("log_softmax(x[i, j], j)", id="log_softmax"),
    ],
)
@pytest.mark.parametrize("n", [32769, 50257, 65536, 131072, 262144])
def test_long_rows_are_right(clusters: GpuDevice, n: int, value: str, dtype: str) -> None:
    (spec,) = load_text(SPEC % (40, n, dtype, dtype, value, ""))
    kernel = generate(spec, analysis=False)
    fits_a_block = dtype == "bfloat16" and n < 65536
    assert (kernel.plan.kernels[0].cluster > 1) != fits_a_block
    run = verify(spec, kernel.source, kernel.manifest, clusters)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("cluster", [2, 4, 8])
@pytest.mark.parametrize("n", [1, 31, 4099])
def test_short_rows_are_right_too(clusters: GpuDevice, n: int, cluster: int) -> None:
    (spec,) = load_text(SPEC % (700, n, "float32", "float32", SOFTMAX, f", cluster: {cluster}, threads: 64"))
    kernel = generate(spec, analysis=False)
    run = verify(spec, kernel.source, kernel.manifest, clusters)
    assert run.verification.passed, run.verification.messages


def test_the_same_bits_in_every_run(clusters: GpuDevice) -> None:
    (spec,) = load_text(SPEC % (300, 65536, "float32", "float32", SOFTMAX, ""))
    kernel = generate(spec, analysis=False)
    x = np.random.default_rng(1).normal(size=(300, 65536)).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    assert len({outputs_of(job, clusters.run(job))["y"].tobytes() for _ in range(20)}) == 1


PRODUCT = """
cugen: 1
kernel: product
params: {M: %d, N: %d, K: %d}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, join: cluster, %s}
"""


@pytest.mark.parametrize("split", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 576, 7168), (200, 333, 4099)])
def test_products_whose_sums_clusters_share(
    clusters: GpuDevice, m: int, n: int, k: int, slices: int, split: int
) -> None:
    tile = "block: {i: 64, j: 64}, thread: {i: 8, j: 8}, step: {k: 16}, stages: 4"
    (spec,) = load_text(PRODUCT % (m, n, k, f"{tile}, slices: {slices}, split: {split}"))
    kernel = generate(spec, analysis=False)
    assert kernel.plan.kernels[0].cluster == split
    generator = np.random.default_rng(2)
    a = generator.uniform(-1, 1, (m, k)).astype(np.float32)
    b = generator.uniform(-1, 1, (k, n)).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"A": a, "B": b}, {}), {})
    first = outputs_of(job, clusters.run(job))["C"]
    assert np.allclose(first, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
    assert all(outputs_of(job, clusters.run(job))["C"].tobytes() == first.tobytes() for _ in range(20))
