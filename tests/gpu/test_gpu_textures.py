"""Texture objects on a real GPU: those of the generated launchers, at several addresses and in a CUDA graph, those of
PyCUDA's arrays, and 2-D ones with every address mode."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cugen.emit.host.embed import Image, embed
from cugen.kernel import generate
from cugen.runtime.call.callable import compiled
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain import locations
from cugen.toolchain.cuda import compile_cubin

pytestmark = pytest.mark.gpu

SPEC = """
cugen: 1
kernel: slide
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: DTYPE, memory: texture, boundary: MODE}
  y: {shape: [N], dtype: DTYPE}
compute: y[i] = x[i - 1] + x[i + 2]
"""
FLOATS = SPEC.replace("DTYPE", "float32").replace("MODE", "zero")

MAIN = """
#include <cstdio>
#include <vector>
#include "slide.h"

#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { \\
    std::printf("%s: %s\\n", #call, cudaGetErrorString(status)); return 1; } } while (0)

static bool is_right(const float* dy, int N, float scale)
{
    std::vector<float> y(N);
    cudaMemcpy(y.data(), dy, N * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < N; ++i) {
        const float before = i >= 1 ? float(i - 1) : 0.0f;
        const float after = i + 2 < N ? float(i + 2) : 0.0f;
        if (y[i] != scale * (before + after)) {
            std::printf("element %d is %g\\n", i, y[i]);
            return false;
        }
    }
    return true;
}

int main()
{
    const int N = 100003;
    float *dx[3], *dy;
    CHECK(cudaMalloc(&dy, N * sizeof(float)));
    for (int copy = 0; copy < 3; ++copy) {
        std::vector<float> x(N);
        for (int i = 0; i < N; ++i)
            x[i] = float(copy + 1) * float(i);
        CHECK(cudaMalloc(&dx[copy], N * sizeof(float)));
        CHECK(cudaMemcpy(dx[copy], x.data(), N * sizeof(float), cudaMemcpyHostToDevice));
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 2; ++round)
        for (int copy = 0; copy < 2; ++copy) {
            CHECK(slide_launch(dx[copy], dy, N, stream));
            CHECK(cudaStreamSynchronize(stream));
            if (!is_right(dy, N, float(copy + 1)))
                return 1;
            CHECK(slide_launch(dx[copy], dy, N / 2, stream));  // another size at the same address
            CHECK(cudaStreamSynchronize(stream));
            if (!is_right(dy, N / 2, float(copy + 1)))
                return 1;
        }
    // The object of the third address is made while the stream is captured.
    cudaGraph_t graph;
    cudaGraphExec_t play;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(slide_launch(dx[2], dy, N, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&play, graph, 0));
    for (int round = 0; round < 3; ++round) {
        CHECK(cudaMemsetAsync(dy, 0xff, N * sizeof(float), stream));
        CHECK(cudaGraphLaunch(play, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (!is_right(dy, N, 3.0f))
            return 1;
    }
    CHECK(slide_launch(dx[0], dy, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::printf("done\\n");
    return 0;
}
"""

EMBED_MAIN = """
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "slide_embed.h"

#define CHECK(call) do { CUresult status = (call); if (status != CUDA_SUCCESS) { \\
    std::printf("%s: %d\\n", #call, status); std::exit(1); } } while (0)

int main()
{
    const int N = 100003;
    CHECK(cuInit(0));
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CUdeviceptr dx, dy;
    CHECK(cuMemAlloc(&dx, N * sizeof(float)));
    CHECK(cuMemAlloc(&dy, N * sizeof(float)));
    std::vector<float> x(N), y(N);
    for (int i = 0; i < N; ++i)
        x[i] = float(i);
    CHECK(cuMemcpyHtoD(dx, x.data(), N * sizeof(float)));
    for (int round = 0; round < 2; ++round) {
        const auto error = slide_launch(
            {reinterpret_cast<const float*>(dx), N}, {reinterpret_cast<float*>(dy), N}, nullptr);
        if (error)
            std::printf("%s\\n", error.message.c_str());
        CHECK(cuMemcpyDtoH(y.data(), dy, N * sizeof(float)));
        for (int i = 0; i < N; ++i)
            if (y[i] != (i >= 1 ? float(i - 1) : 0.0f) + (i + 2 < N ? float(i + 2) : 0.0f)) {
                std::printf("element %d is %g\\n", i, y[i]);
                return 1;
            }
    }
    std::printf("done\\n");
    return 0;
}
"""


def test_the_launcher_has_an_object_for_each_address_and_size(device: GpuDevice, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (spec,) = load_text(FLOATS)
    kernel = generate(spec)
    (tmp_path / "slide.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN)
    command = [nvcc, "-arch=native", "-o", "slide", "slide.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "slide"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_launcher_of_machine_code_in_a_c_array_has_them_too(device: GpuDevice, tmp_path: Path) -> None:
    (spec,) = load_text(FLOATS)
    kernel = generate(spec)
    target = driver().capability(0)
    cubin = compile_cubin(kernel.source, kernel.name, target, lines=False)
    files = embed(kernel.context, kernel.plan, kernel.manifest, Image(cubin.image, (target,), cubin.compiler))
    for name, text in files.texts(kernel.name).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cpp").write_text(EMBED_MAIN)
    includes = [f"-isystem{folder}" for folder in locations.include_folders()]
    command = ["gcc", "-std=c11", "-c", "slide_embed.c", *includes]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    command = ["g++", "-std=c++17", "main.cpp", "slide_embed.o", *includes, "-l:libcuda.so.1", "-o", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    done = subprocess.run([tmp_path / "run"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize("mode", ["zero", "clamp", "wrap", "reflect", "symmetric"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int16"])
@pytest.mark.parametrize("size", [1, 2, 1000, 100_003])
def test_fetches_of_every_type_and_boundary_are_right(device: GpuDevice, dtype: str, mode: str, size: int) -> None:
    if mode == "reflect" and size == 1:
        size = 3  # one element has no mirror image
    (spec,) = load_text(SPEC.replace("DTYPE", dtype).replace("MODE", mode))
    kernel = generate(spec)
    run = verify(spec, kernel.source, kernel.manifest, device, params={"N": size})
    assert run.verification.passed, "\n".join(run.verification.messages)


def test_arrays_of_pycuda_are_read_through_textures(device: GpuDevice) -> None:
    import pycuda.driver as cuda
    from pycuda import gpuarray

    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        (spec,) = load_text(FLOATS)
        kernel = generate(spec)
        function = compiled(kernel.source, kernel.manifest)
        stream = cuda.Stream()
        for count in (1000, 100_000, 10):
            x = gpuarray.to_gpu(np.arange(count, dtype=np.float32))
            y = gpuarray.zeros(count, np.float32)
            function(x=x, y=y, stream=stream)
            stream.synchronize()
            padded = np.pad(np.arange(count, dtype=np.float32), (1, 2))
            np.testing.assert_array_equal(y.get(), padded[:count] + padded[3:])
        del x, y, stream
    finally:
        cuda.Context.pop()


SPEC_2D = """
cugen: 1
kernel: slide
params: {H: HEIGHT, W: WIDTH}
arrays:
  x: {shape: [H, W], dtype: DTYPE, memory: {space: texture, dims: 2}, pitch: {align: 32}, boundary: MODE}
  y: {shape: [H, W], dtype: DTYPE}
compute: y[i, j] = x[i - 1, j + 2] + x[i + 3, j - 2 * W - 1]
schedule: {family: direct}
"""


def spec_2d(mode: str, dtype: str = "float32", height: int = 37, width: int = 131) -> Spec:
    text = SPEC_2D.replace("DTYPE", dtype).replace("MODE", mode)
    (spec,) = load_text(text.replace("HEIGHT", str(height)).replace("WIDTH", str(width)))
    return spec


def check(device: GpuDevice, spec: Spec) -> None:
    kernel = generate(spec)
    run = verify(spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.parametrize("mode", ["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 3}"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8", "int16"])
@pytest.mark.parametrize("size", [(2, 2), (37, 131), (1000, 1003)], ids=str)
def test_2d_fetches_of_every_type_and_boundary_are_right(
    device: GpuDevice, dtype: str, mode: str, size: tuple[int, int]
) -> None:
    check(device, spec_2d(mode, dtype, *size))


@pytest.mark.parametrize("mode", ["zero", "clamp", "wrap", "symmetric"])
@pytest.mark.parametrize("size", [(1, 1), (3, 131072), (65000, 3), (2, 130999), (64999, 2)], ids=str)
def test_the_largest_2d_textures_are_right(device: GpuDevice, mode: str, size: tuple[int, int]) -> None:
    """Elements are closest there in normalized coordinates."""
    check(device, spec_2d(mode, "float32", *size))


@pytest.mark.parametrize("mode", ["wrap", "symmetric"])
@pytest.mark.parametrize("width", [3, 1000, 1023, 1024, 77777])
def test_normalized_coordinates_are_right_up_to_their_bound(device: GpuDevice, mode: str, width: int) -> None:
    """Subscripts from -2^20 to 2^20, the largest that are left to the hardware."""
    (spec,) = load_text(f"""
cugen: 1
kernel: reach
params: {{W: {width}, N: 2097153}}
arrays:
  x: {{shape: [2, W], dtype: float32, memory: {{space: texture, dims: 2}}, pitch: {{align: 32}}, boundary: {mode}}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[0, i - 1048576]
""")
    assert "(1.0f / W)" in generate(spec).source
    check(device, spec)


def test_a_2d_texture_of_pycuda_arrays_has_their_pitch(device: GpuDevice) -> None:
    import pycuda.driver as cuda
    from pycuda import gpuarray

    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        (spec,) = load_text("""
cugen: 1
kernel: shift
params: {H: dynamic, W: {range: [8, 4096], multiple_of: 8}}
arrays:
  x: {shape: [H, W], dtype: float32, memory: {space: texture, dims: 2}, boundary: wrap}
  y: {shape: [H, W], dtype: float32}
compute: y[i, j] = x[i, j - 3]
""")
        kernel = generate(spec)
        function = compiled(kernel.source, kernel.manifest)
        stream = cuda.Stream()
        for shape in ((5, 64), (300, 1000), (64, 8)):
            values = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
            x, y = gpuarray.to_gpu(values), gpuarray.zeros(shape, np.float32)
            function(x=x, y=y, stream=stream)
            stream.synchronize()
            np.testing.assert_array_equal(y.get(), np.roll(values, 3, axis=1))
        del x, y, stream
    finally:
        cuda.Context.pop()


MAIN_2D = """
#include <cstdio>
#include <vector>
#include "slide.h"

#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { \\
    std::printf("%s: %s\\n", #call, cudaGetErrorString(status)); return 1; } } while (0)

int main()
{
    const int H = 37, W = 131, PITCH = 136;  // elements
    std::vector<float> x(H * PITCH), y(H * W);
    for (int i = 0; i < H * PITCH; ++i)
        x[i] = float(i);
    float *dx, *dy;
    CHECK(cudaMalloc(&dx, x.size() * sizeof(float)));
    CHECK(cudaMalloc(&dy, y.size() * sizeof(float)));
    CHECK(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    for (int round = 0; round < 3; ++round) {
        CHECK(slide_launch(dx, dy, nullptr));
        CHECK(cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < H; ++i)
            for (int j = 0; j < W; ++j) {
                const float first = float((i + H - 1) % H * PITCH + (j + 2) % W);
                const float second = float((i + 3) % H * PITCH + (j + W - 1) % W);
                if (y[i * W + j] != first + second) {
                    std::printf("element %d %d is %g\\n", i, j, y[i * W + j]);
                    return 1;
                }
            }
    }
    std::printf("done\\n");
    return 0;
}
"""


def test_the_launcher_binds_pitched_memory(device: GpuDevice, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    kernel = generate(spec_2d("wrap"))
    (tmp_path / "slide.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN_2D)
    command = [nvcc, "-arch=native", "-o", "slide", "slide.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "slide"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")
