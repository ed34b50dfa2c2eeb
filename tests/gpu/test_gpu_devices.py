"""One compiled kernel, operator or launcher, called on several GPUs at once, each from a thread of its own: modules,
workspaces, constants, textures and tensor maps are those of the GPU."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import cugen
from cugen.abi.errors import RunError
from cugen.cli.main import main
from cugen.kernel import generate
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu
ROUNDS = 50  # calls of each thread
PER_THREAD = 2  # CU_STREAM_PER_THREAD

# Two launches with a workspace between them, and a scalar in constant memory.
TOTAL = """\
cugen: 1
kernel: total_of_devices
params: {N: 1000000}
scalars: {c: {dtype: float32, memory: constant}}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [1], dtype: float32}
compute: s[i] = c * sum(x[n], n)
"""
SLIDE = """\
cugen: 1
kernel: slide_of_devices
params: {N: 100000}
arrays:
  x: {shape: [N], dtype: float32, memory: texture, boundary: zero}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i - 1] + x[i + 2]
"""
PRODUCT = """\
cugen: 1
kernel: product_of_devices
params: {M: 512, N: 512, K: 512}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@pytest.fixture
def torch(device: GpuDevice) -> Any:
    return pytest.importorskip("torch", reason="NOT TESTED: PyTorch is not installed")


@pytest.fixture
def gpus(device: GpuDevice) -> Sequence[int]:
    """The ordinals of all GPUs, of which there are several."""
    count = driver().count()
    if count < 2:
        pytest.skip(f"ONLY {count} GPU, SEVERAL ARE NOT TESTED")
    return range(count)


def at_once(work: Callable[[int], Any], gpus: Sequence[int]) -> list[Any]:
    """Results of `work` for each GPU, in threads that begin together."""
    barrier = Barrier(len(gpus))

    def begin(gpu: int) -> Any:
        barrier.wait(60)
        return work(gpu)

    with ThreadPoolExecutor(len(gpus)) as pool:
        return list(pool.map(begin, gpus))


def test_a_new_operator_runs_on_every_gpu_at_once(torch: Any, gpus: Sequence[int]) -> None:
    (spec,) = load_text(TOTAL)

    def work(gpu: int) -> None:
        op = cugen.torch_op(spec)
        x = torch.full((1_000_000,), float(gpu + 1), device=f"cuda:{gpu}")
        sums = [op(x, float(n)) for n in range(ROUNDS)]
        assert {str(s.device) for s in sums} == {f"cuda:{gpu}"}
        expected = torch.arange(ROUNDS, dtype=torch.float32) * 1e6 * (gpu + 1)
        torch.testing.assert_close(torch.cat(sums).cpu(), expected)

    at_once(work, gpus)


def test_a_kernel_has_constants_and_workspaces_on_each_gpu(torch: Any, gpus: Sequence[int]) -> None:
    function = cugen.generate(load_text(TOTAL)[0].for_device(GpuDevice().capability)).compile("gpu")

    def work(gpu: int) -> None:
        torch.cuda.set_device(gpu)
        x, s = torch.full((1_000_000,), float(gpu + 1), device="cuda"), torch.zeros(ROUNDS, 1, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        for n in range(ROUNDS):
            function(x=x, s=s[n], c=float(n), stream=stream)
        stream.synchronize()
        expected = torch.arange(ROUNDS, dtype=torch.float32) * 1e6 * (gpu + 1)
        torch.testing.assert_close(s.flatten().cpu(), expected)

    at_once(work, gpus)


@pytest.mark.parametrize("text", [pytest.param(SLIDE, id="textures"), pytest.param(PRODUCT, id="tensor maps")])
def test_textures_and_tensor_maps_are_of_the_gpu(torch: Any, gpus: Sequence[int], text: str) -> None:
    kernel = cugen.generate(load_text(text)[0].for_device(GpuDevice().capability))
    function = kernel.compile("gpu")
    if text is PRODUCT and GpuDevice().capability == "sm_90":
        assert kernel.manifest.tensor_maps

    def work(gpu: int) -> None:
        torch.cuda.set_device(gpu)
        torch.manual_seed(gpu)
        for _ in range(5):
            if text is SLIDE:
                x, y = torch.rand(100_000, device="cuda"), torch.empty(100_000, device="cuda")
                function(x=x, y=y, stream=torch.cuda.current_stream())
                padded = torch.nn.functional.pad(x, (1, 2))
                torch.testing.assert_close(y, padded[:-3] + padded[3:])
            else:
                a, b = (torch.randn(512, 512, device="cuda").to(torch.bfloat16) for _ in range(2))
                c = torch.empty(512, 512, device="cuda")
                function(A=a, B=b, C=c, stream=torch.cuda.current_stream())
                torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)

    at_once(work, gpus)


def test_an_array_of_another_gpu_is_refused(torch: Any, gpus: Sequence[int]) -> None:
    function = cugen.generate(load_text(SLIDE)[0].for_device(GpuDevice().capability)).compile("gpu")
    x, y = torch.zeros(100_000, device="cuda:0"), torch.zeros(100_000, device="cuda:1")
    with torch.cuda.device(0), pytest.raises(RunError, match="CG5008"):
        function(x=x, y=y)


def test_the_threads_of_one_gpu_have_workspaces_of_their_own(torch: Any) -> None:
    """Each thread has another default stream, though all have one handle."""
    function = cugen.generate(load_text(TOTAL)[0].for_device(GpuDevice().capability)).compile("gpu")

    def work(number: int) -> None:
        torch.cuda.set_device(0)
        x, s = torch.full((1_000_000,), float(number + 1), device="cuda"), torch.zeros(ROUNDS, 1, device="cuda")
        torch.cuda.synchronize()
        for n in range(ROUNDS):
            function(x=x, s=s[n], c=float(n), stream=PER_THREAD)
        torch.cuda.synchronize()
        expected = torch.arange(ROUNDS, dtype=torch.float32) * 1e6 * (number + 1)
        torch.testing.assert_close(s.flatten().cpu(), expected)

    at_once(work, range(4))


MAIN = """
#include <vector>
#include "total_of_devices.h"

extern "C" int on_gpu(int gpu, int rounds, float x, float* sums)
{
    const int N = 1000000;
    const std::vector<float> given(N, x);
    float *dx, *ds;
    cudaStream_t stream;
    cudaError_t status = cudaSetDevice(gpu);
    if (status == cudaSuccess) status = cudaMalloc(&dx, N * sizeof(float));
    if (status == cudaSuccess) status = cudaMalloc(&ds, rounds * sizeof(float));
    if (status == cudaSuccess) status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (status == cudaSuccess) status = cudaMemcpy(dx, given.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    for (int n = 0; status == cudaSuccess && n < rounds; ++n)
        status = total_of_devices_launch(dx, ds + n, float(n), nullptr, stream);
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
    if (status == cudaSuccess) status = cudaMemcpy(sums, ds, rounds * sizeof(float), cudaMemcpyDeviceToHost);
    return status;
}
"""


def test_the_launcher_has_constants_on_each_gpu(gpus: Sequence[int], tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    kernel = generate(load_text(TOTAL)[0])
    (tmp_path / "total_of_devices.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN)
    files = ["-o", "total.so", "total_of_devices.cu", "main.cu"]
    subprocess.run(
        [nvcc, "-arch=native", "-shared", "-Xcompiler", "-fPIC", *files], cwd=tmp_path, check=True, timeout=200
    )
    library = ctypes.CDLL(str(tmp_path / "total.so"))

    def work(gpu: int) -> None:
        sums = np.zeros(ROUNDS, np.float32)
        pointer = sums.ctypes.data_as(ctypes.c_void_p)
        assert library.on_gpu(gpu, ROUNDS, ctypes.c_float(gpu + 1), pointer) == 0
        np.testing.assert_allclose(sums, np.arange(ROUNDS) * 1e6 * (gpu + 1), rtol=1e-5)

    at_once(work, gpus)


def test_the_example_shares_a_batch_out(torch: Any) -> None:
    example = Path(__file__).parents[2] / "examples" / "torch_op" / "shard.py"
    done = subprocess.run([sys.executable, str(example)], check=True, capture_output=True, text=True, timeout=200)
    assert f"cuda:{driver().count() - 1} agree with PyTorch" in done.stdout


def test_a_kernel_is_timed_on_every_gpu(
    gpus: Sequence[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slide.yaml"
    file.write_text(SLIDE)
    assert main(["bench", str(file), "--gpus", "all", "--json", "--samples", "20"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert len({kernel["gpu"] for kernel in kernels}) == len(gpus)
    assert all(0.5 < kernel["to_median"] < 2 for kernel in kernels)
