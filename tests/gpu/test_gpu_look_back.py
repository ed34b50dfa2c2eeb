"""Blocks that wait for each other on a real device: right results, the same bits in each run, on any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.runtime.call.callable import compiled
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

SPEC = """
cugen: 1
kernel: scan
params: {M: %d, N: %d}
arrays:
  x: {shape: [M, N], dtype: %s}
  y: {shape: [M, N], dtype: %s}
compute: y[i, j] = %s
schedule: {algorithm: look_back%s}
"""


def made(m: int, n: int, dtype: str, value: str, schedule: str = "") -> tuple:
    (spec,) = load_text(SPEC % (m, n, dtype, dtype, value, schedule))
    kernel = generate(spec, analysis=False)
    assert len(kernel.plan.kernels) == 1
    return kernel


@pytest.mark.parametrize("schedule", ["", ", threads: 64, vectors: 1", ", threads: 128", ", threads: 512, vectors: 4"])
@pytest.mark.parametrize(("m", "n"), [(1, 1 << 26), (1, 10_000_019), (3, 5_000_001), (1, 1)])
def test_sums_of_integers_are_exact(device: GpuDevice, m: int, n: int, schedule: str) -> None:
    kernel = made(m, n, "int64", "cumsum(x[i, j], j)", schedule)
    x = np.random.default_rng(1).integers(-1000, 1000, (m, n))
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    assert np.array_equal(outputs_of(job, device.run(job))["y"], np.cumsum(x, 1))


def test_reversed_and_exclusive_extremes_are_exact(device: GpuDevice) -> None:
    kernel = made(2, 9_000_001, "float32", "cummax(x[i, j], j, reverse=true)")
    x = np.random.default_rng(2).standard_normal((2, 9_000_001)).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    expected = np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1]
    assert np.array_equal(outputs_of(job, device.run(job))["y"], expected)


def test_a_hundred_runs_give_the_same_bits(device: GpuDevice) -> None:
    kernel = made(1, 20_000_003, "float32", "cumsum(x[i, j], j)")
    generator = np.random.default_rng(3)
    x = (generator.standard_normal((1, 20_000_003)) * 10.0 ** generator.integers(-6, 6, (1, 20_000_003))).astype("f4")
    job = make_job(kernel.source, kernel.manifest, Inputs({"x": x}, {}), {})
    first = outputs_of(job, device.run(job))["y"].tobytes()
    assert all(outputs_of(job, device.run(job))["y"].tobytes() == first for _ in range(99))


PRODUCT = """
cugen: 1
kernel: product
params: {M: %d, N: %d, K: %d}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, %s}
"""
LARGE = "block: {i: 128, j: 256}, thread: {i: 16, j: 8}, step: {k: 8}"


@pytest.mark.parametrize(
    ("m", "n", "k", "schedule"),
    [
        pytest.param(200, 333, 4096, "split: 8", id="split-K"),
        pytest.param(200, 333, 4096, "stream: 1", id="stream-K"),
        pytest.param(2111, 2345, 517, f"{LARGE}, stream: 1", id="large tiles, one wave"),
        pytest.param(2111, 3345, 517, f"{LARGE}, stream: 2", id="large tiles, two waves"),
    ],
)
def test_shared_sums_of_a_product_are_right_and_the_same_in_each_run(
    device: GpuDevice, m: int, n: int, k: int, schedule: str
) -> None:
    (spec,) = load_text(PRODUCT % (m, n, k, schedule))
    kernel = generate(spec, analysis=False)
    generator = np.random.default_rng(4)
    a = generator.uniform(-1, 1, (m, k)).astype(np.float32)
    b = generator.uniform(-1, 1, (k, n)).astype(np.float32)
    job = make_job(kernel.source, kernel.manifest, Inputs({"A": a, "B": b}, {}), {})
    first = outputs_of(job, device.run(job))["C"]
    assert np.allclose(first, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
    assert all(outputs_of(job, device.run(job))["C"].tobytes() == first.tobytes() for _ in range(20))


@pytest.mark.parametrize("sharing", ["split: 8, join: workspace", "stream: 1"])
def test_calls_on_one_workspace_give_the_same_bits(device: GpuDevice, sharing: str) -> None:
    import pycuda.driver as cuda
    from pycuda import gpuarray

    (spec,) = load_text(PRODUCT % (200, 333, 4096, sharing))
    kernel = generate(spec, analysis=False)
    generator = np.random.default_rng(5)
    a = generator.uniform(-1, 1, (200, 4096)).astype(np.float32)
    b = generator.uniform(-1, 1, (4096, 333)).astype(np.float32)
    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        function, stream = compiled(kernel.source, kernel.manifest), cuda.Stream()
        arrays = {"A": gpuarray.to_gpu(a), "B": gpuarray.to_gpu(b)}
        outputs = [gpuarray.zeros((200, 333), np.float32) for _ in range(50)]
        for c in outputs:
            function(**arrays, C=c, stream=stream)
        stream.synchronize()
        first, *others = (c.get() for c in outputs)
        assert np.allclose(first, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-3)
        assert all(repeated.tobytes() == first.tobytes() for repeated in others)
        del arrays, outputs, c, stream
    finally:
        cuda.Context.pop()
