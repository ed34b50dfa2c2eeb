"""The host function of a generated file, called from C++: with and without a workspace, and from a CUDA graph."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.abi.demand import demand
from cugen.emit.host.embed import Image, embed
from cugen.emit.host.variants import make_entry, variants_headers
from cugen.kernel import generate
from cugen.kernel_choice import block_cost, fastest_that_fits
from cugen.runtime.cuda.libcuda import driver
from cugen.spec.load import load_text
from cugen.spec.siblings import siblings
from cugen.toolchain import locations
from cugen.toolchain.cuda import compile_cubin

pytestmark = pytest.mark.gpu

SPEC = """
cugen: 1
kernel: steps
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
  s: {shape: [], dtype: float32}
compute: |
  s = sum(x[i] * x[i], i)
  y[i] = cumsum(x[i], i) / s
"""

MAIN = """
#include <cstdio>
#include <vector>
#include "steps.h"

#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { \\
    std::printf("%s: %s\\n", #call, cudaGetErrorString(status)); return 1; } } while (0)

int main()
{
    const int N = 3000001;
    std::vector<float> x(N), first(N), again(N);
    for (int i = 0; i < N; ++i)
        x[i] = float(i % 7 - 3);
    float *dx, *dy, *ds;
    void* workspace;
    CHECK(cudaMalloc(&dx, N * sizeof(float)));
    CHECK(cudaMalloc(&dy, N * sizeof(float)));
    CHECK(cudaMalloc(&ds, sizeof(float)));
    CHECK(cudaMalloc(&workspace, steps_workspace_bytes(N)));
    CHECK(cudaMemcpy(dx, x.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (void* given : {static_cast<void*>(nullptr), workspace}) {
        CHECK(cudaMemset(dy, 0xff, N * sizeof(float)));
        CHECK(steps_launch(dx, dy, ds, N, given, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(first.data(), dy, N * sizeof(float), cudaMemcpyDeviceToHost));
        cudaGraph_t graph;
        cudaGraphExec_t play;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        CHECK(steps_launch(dx, dy, ds, N, given, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&play, graph, 0));
        for (int round = 0; round < 3; ++round) {
            CHECK(cudaMemset(dy, 0xff, N * sizeof(float)));
            CHECK(cudaGraphLaunch(play, stream));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaMemcpy(again.data(), dy, N * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < N; ++i)
                if (again[i] != first[i]) {
                    std::printf("element %d is %g, and was %g\\n", i, again[i], first[i]);
                    return 1;
                }
        }
    }
    CHECK(steps_launch(dx, dy, ds, 0, nullptr, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (steps_launch(dx, dy, ds, -1, nullptr, stream) != cudaErrorInvalidValue)
        return 1;
    std::printf("%.9g\\n", first[N - 1]);
    return 0;
}
"""


def test_a_launcher_with_a_workspace_can_be_captured_and_gives_the_same_bits_each_time(device, tmp_path: Path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    assert kernel.plan.workspace
    (tmp_path / "steps.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN)
    command = [nvcc, "-arch=native", "-o", "steps", "steps.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "steps"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = [i % 7 - 3 for i in range(3000001)]
    assert float(done.stdout) == pytest.approx(sum(numbers) / sum(n * n for n in numbers), rel=1e-5, abs=1e-9)


SPANS = """
#include <cstdio>
#include <vector>
#include "steps.h"

int main()
{
    const int N = 100003;
    std::vector<float> x(N, 2.0f), y(N);
    float *dx, *dy, *ds;
    cudaMalloc(&dx, N * sizeof(float));
    cudaMalloc(&dy, N * sizeof(float));
    cudaMalloc(&ds, sizeof(float));
    cudaMemcpy(dx, x.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    if (auto error = steps_launch({dx, N}, {dy, N}, {ds}, nullptr, nullptr)) {
        std::printf("%s\\n", error.message.c_str());
        return 1;
    }
    cudaMemcpy(y.data(), dy, N * sizeof(float), cudaMemcpyDeviceToHost);
    const auto wrong = steps_launch({dx, N}, {dy, N - 1}, {ds}, nullptr, nullptr);
    std::printf("%.6g|%s|%s", y[N - 1], wrong.code.c_str(), wrong.message.c_str());
    return 0;
}
"""


def test_a_launcher_for_spans_runs_and_says_what_is_wrong(device, tmp_path: Path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    (tmp_path / "steps.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(SPANS)
    command = [nvcc, "-arch=native", "-std=c++17", "-o", "steps", "steps.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "steps"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    total, code, words = done.stdout.split("|")
    assert float(total) == pytest.approx(0.5, rel=1e-5)
    assert (code, words) == ("CG5009", "`N` is 100003 in dimension 0 of `x` and 100002 in dimension 0 of `y`")


EMBED = """
cugen: 1
kernel: shifted
params: {N: dynamic}
scalars: {c: {dtype: float32, memory: constant}, d: {dtype: float16}}
arrays:
  x: {shape: [N], dtype: float32}
  w: {shape: [4], dtype: float32, memory: constant}
  y: {shape: [N], dtype: float32}
  s: {shape: [], dtype: float32}
compute: |
  s = sum(x[i], i)
  y[i] = x[i] * c + w[2] + d + s
"""
EMBED_MAIN = """
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>
#include "shifted_embed.h"

#define CHECK(call) do { CUresult status = (call); if (status != CUDA_SUCCESS) { \\
    std::printf("%s: %d\\n", #call, status); std::exit(1); } } while (0)

static void work(CUcontext context, float scale)
{
    const int N = 100000;
    CHECK(cuCtxSetCurrent(context));
    std::vector<float> x(N, 0.001f), y(N);
    const float w[4] = {1, 2, 3, 4};
    CUdeviceptr dx, dw, dy, ds;
    CHECK(cuMemAlloc(&dx, N * sizeof(float)));
    CHECK(cuMemAlloc(&dw, sizeof w));
    CHECK(cuMemAlloc(&dy, N * sizeof(float)));
    CHECK(cuMemAlloc(&ds, sizeof(float)));
    CHECK(cuMemcpyHtoD(dx, x.data(), N * sizeof(float)));
    CHECK(cuMemcpyHtoD(dw, w, sizeof w));
    const __half half = __half_raw{0x3800};
    const auto error = shifted_launch({reinterpret_cast<const float*>(dx), N}, {reinterpret_cast<const float*>(dw), 4},
        {reinterpret_cast<float*>(dy), N}, {reinterpret_cast<float*>(ds)}, scale, half, WORKSPACE nullptr);
    if (error)
        std::printf("%s\\n", error.message.c_str());
    CHECK(cuMemcpyDtoH(y.data(), dy, N * sizeof(float)));
    for (const float value : y)
        if (std::fabs(value - (0.001f * scale + 3 + 0.5f + 100)) > 0.01f) {
            std::printf("%g\\n", value);
            std::exit(1);
        }
}

int main()
{
    CHECK(cuInit(0));
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    std::thread first(work, context, 2.0f);
    first.join();
    std::thread second(work, context, 3.0f);
    second.join();
    std::printf("done\\n");
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_machine_code_in_a_c_array_runs_without_a_cuda_compiler(device, tmp_path: Path, compiler: str):
    (spec,) = load_text(EMBED)
    kernel = generate(spec)
    target = driver().capability(0)
    cubin = compile_cubin(kernel.source, kernel.name, target, lines=False)
    files = embed(kernel.context, kernel.plan, kernel.manifest, Image(cubin.image, (target,), cubin.compiler))
    for name, text in files.texts(kernel.name).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cpp").write_text(EMBED_MAIN.replace("WORKSPACE", "nullptr," if kernel.plan.workspace else ""))
    includes = [f"-isystem{folder}" for folder in locations.include_folders()]
    subprocess.run([*compiler.split(), "-c", "shifted_embed.c", *includes], cwd=tmp_path, check=True, timeout=100)
    command = [
        "g++",
        "-std=c++17",
        "main.cpp",
        "shifted_embed.o",
        *includes,
        "-l:libcuda.so.1",
        "-pthread",
        "-o",
        "run",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")


SIZES = """
cugen: 1
kernel: product
variants: {n: [64, dynamic]}
params: {M: $n, N: $n, K: $n}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""
SIZES_MAIN = """
#include <cstdio>
#include <vector>
#include "product.h"

int main()
{
    for (const int n : {64, 65, 1}) {
        std::vector<float> a(n * n, 0.5f), c(n * n);
        float *da, *dc;
        cudaMalloc(&da, n * n * sizeof(float));
        cudaMalloc(&dc, n * n * sizeof(float));
        cudaMemcpy(da, a.data(), n * n * sizeof(float), cudaMemcpyHostToDevice);
        if (auto error = product_launch({da, n, n}, {da, n, n}, {dc, n, n}WORKSPACE, nullptr)) {
            std::printf("%s\\n", error.message.c_str());
            return 1;
        }
        cudaMemcpy(c.data(), dc, n * n * sizeof(float), cudaMemcpyDeviceToHost);
        std::printf("%g ", c[n * n - 1]);
    }
    return 0;
}
"""


def test_the_variant_for_a_size_and_the_one_for_any_give_the_product(device, tmp_path: Path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (group,) = siblings(load_text(SIZES))
    kernels = [generate(spec) for spec in group.specs]
    entries = [make_entry(kernel.context, kernel.plan, kernel.manifest) for kernel in kernels]
    headers = variants_headers(group, entries)
    (tmp_path / "product.h").write_text(headers.header)
    (tmp_path / "product.hpp").write_text(headers.typed_header)
    for kernel in kernels:
        (tmp_path / f"{kernel.name}.cu").write_text(kernel.source)
        for name, text in kernel.headers.items():
            (tmp_path / name).write_text(text)
    workspace = ", nullptr" if any(entry.has_workspace for entry in entries) else ""
    (tmp_path / "main.cu").write_text(SIZES_MAIN.replace("WORKSPACE", workspace))
    sources = [f"{kernel.name}.cu" for kernel in kernels]
    command = [nvcc, "-arch=native", "-std=c++17", "-o", "run", "main.cu", *sources]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "16 16.25 0.25 ")


TILES = """
cugen: 1
kernel: product
variants: {tile: [16, 32], pad: [0, 900]}
params: {M: dynamic}
arrays:
  A: {shape: [M, 64], dtype: float32, memory: {space: shared, dynamic: true, pad: $pad}}
  B: {shape: [64, 64], dtype: float32, memory: shared}
  C: {shape: [M, 64], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""
TILES_MAIN = """
#include <cstdio>
#include "product.h"

int main()
{
    for (int M : {1, 40, 1000, 100000}) {
        int variant = -1;
        const cudaError_t status = product_variant(M, &variant, nullptr);
        std::printf("%d %d\\n", status, variant);
    }
    return 0;
}
"""


def test_the_launcher_chooses_by_the_resident_blocks_that_python_computes(device, tmp_path: Path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (group,) = siblings(load_text(TILES, target=driver().capability(0)))
    kernels = [generate(spec) for spec in group.specs]
    entries = [make_entry(k.context, k.plan, k.manifest, block_cost(k)) for k in kernels]
    headers = variants_headers(group, entries)
    files = {"product.h": headers.header, "product.hpp": headers.typed_header, "main.cu": TILES_MAIN}
    for kernel in kernels:
        files |= {f"{kernel.name}.cu": kernel.source, **kernel.headers}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sources = [f"{kernel.name}.cu" for kernel in kernels]
    command = [nvcc, "-arch=native", "-std=c++17", "-o", "run", "main.cu", *sources]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    largest_first = sorted(kernels, key=lambda kernel: demand(kernel.manifest).size, reverse=True)
    limits, sms = driver().limits(0), driver().figure(16, 0)  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    chosen = [fastest_that_fits(kernels, limits, sms, {"M": M}) for M in (1, 40, 1000, 100000)]
    assert done.stdout.splitlines() == [f"0 {largest_first.index(kernel)}" for kernel in chosen]
    assert chosen[-1].name != largest_first[0].name  # more blocks are resident without the pad
