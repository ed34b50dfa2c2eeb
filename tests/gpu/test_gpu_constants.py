"""Constants on a real GPU: calls of a generated launcher on several streams, by several threads, read their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.emit.host.embed import Image, embed
from cugen.kernel import Kernel, generate
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load_text
from cugen.toolchain import locations
from cugen.toolchain.cuda import compile_cubin

pytestmark = pytest.mark.gpu

# Few blocks of many terms: kernels of several streams fit on the device at once, and each reads its constants until
# its end.
ARRAY = """
cugen: 1
kernel: weigh
arrays:
  x: {shape: [20000], dtype: int32}
  c: {shape: [64], dtype: int32, memory: constant}
  y: {shape: [1024], dtype: int32}
compute: y[i] = sum(x[k] * c[(i + k) % 64], k)
schedule: {family: direct}
"""
SCALAR = """
cugen: 1
kernel: weigh
scalars: {c: {dtype: int32, memory: constant}}
arrays:
  x: {shape: [20000], dtype: int32}
  y: {shape: [1024], dtype: int32}
compute: y[i] = sum(x[k] * x[(i + k) % 20000], k) * c
schedule: {family: direct}
"""
MAIN = """
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <cuda_runtime.h>
#include "weigh.h"

#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { \\
    std::printf("%s: %s\\n", #call, cudaGetErrorString(status)); std::exit(1); } } while (0)

const int N = 1024, TERMS = 20000, CALLS = 50, THREADS = 4;

static void work(int thread)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const std::vector<int> ones(TERMS, 1);
    std::vector<int> results(N);
    int *x, *constants, *y;
    CHECK(cudaMalloc(&x, TERMS * sizeof(int)));
    CHECK(cudaMalloc(&constants, CALLS * 64 * sizeof(int)));
    CHECK(cudaMalloc(&y, CALLS * N * sizeof(int)));
    CHECK(cudaMemcpy(x, ones.data(), TERMS * sizeof(int), cudaMemcpyHostToDevice));
    for (int call = 0; call < CALLS; ++call) {
        const std::vector<int> c(64, 1 + call * THREADS + thread);
        CHECK(cudaMemcpy(constants + call * 64, c.data(), 64 * sizeof(int), cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
    for (int call = 0; call < CALLS; ++call)
        CHECK(weigh_launch(ARGUMENTS, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int call = 0; call < CALLS; ++call) {
        CHECK(cudaMemcpy(results.data(), y + call * N, N * sizeof(int), cudaMemcpyDeviceToHost));
        for (int i = 0; i < N; ++i)
            if (results[i] != TERMS * (1 + call * THREADS + thread)) {
                std::printf("thread %d, call %d, element %d: %d\\n", thread, call, i, results[i]);
                std::exit(1);
            }
    }
}

int main()
{
    std::vector<std::thread> threads;
    for (int thread = 0; thread < THREADS; ++thread)
        threads.emplace_back(work, thread);
    for (std::thread& thread : threads)
        thread.join();
    std::printf("done\\n");
    return 0;
}
"""
CASES = [
    pytest.param(ARRAY, "x, constants + call * 64, y + call * N", id="array"),
    pytest.param(SCALAR, "x, y + call * N, 1 + call * THREADS + thread", id="scalar"),
]


def kernel_in(folder: Path, spec_text: str, main: str) -> Kernel:
    (spec,) = load_text(spec_text)
    kernel = generate(spec)
    assert kernel.manifest.uploads
    (folder / "main.cu").write_text(main)
    return kernel


def played(folder: Path) -> tuple[int, str]:
    done = subprocess.run([folder / "run"], capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout


@pytest.mark.parametrize(("spec", "arguments"), CASES)
def test_calls_on_several_streams_read_their_own_constants(
    device: GpuDevice, tmp_path: Path, spec: str, arguments: str
) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    kernel = kernel_in(tmp_path, spec, MAIN.replace("ARGUMENTS", arguments))
    (tmp_path / "weigh.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    command = [nvcc, "-arch=native", "-std=c++17", "-o", "run", "weigh.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    assert played(tmp_path) == (0, "done\n")


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
@pytest.mark.parametrize(("spec", "arguments"), CASES)
def test_those_of_machine_code_in_a_c_array_do_too(
    device: GpuDevice, tmp_path: Path, spec: str, arguments: str, compiler: str
) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    main = MAIN.replace("weigh.h", "weigh_embed.h").replace("ARGUMENTS", arguments)
    launch = f"CHECK(weigh_launch({arguments}, stream));"
    main = main.replace(launch, f"if (weigh_launch({arguments}, stream) != CUDA_SUCCESS) std::exit(2);")
    kernel = kernel_in(tmp_path, spec, main)
    target = driver().capability(0)
    cubin = compile_cubin(kernel.source, kernel.name, target, lines=False)
    files = embed(kernel.context, kernel.plan, kernel.manifest, Image(cubin.image, (target,), cubin.compiler))
    for name, text in files.texts(kernel.name).items():
        (tmp_path / name).write_text(text)
    includes = [f"-isystem{folder}" for folder in locations.include_folders()]
    subprocess.run([*compiler.split(), "-c", "weigh_embed.c", *includes], cwd=tmp_path, check=True, timeout=100)
    command = [nvcc, "-arch=native", "-std=c++17", "-o", "run", "main.cu", "weigh_embed.o", "-l:libcuda.so.1"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    assert played(tmp_path) == (0, "done\n")
