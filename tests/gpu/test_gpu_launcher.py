"""The host function of a generated file, called from C++: with and without a workspace, and from a CUDA graph."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text

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
    (tmp_path / "steps.h").write_text(kernel.header)
    (tmp_path / "main.cu").write_text(MAIN)
    command = [nvcc, "-arch=native", "-o", "steps", "steps.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "steps"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = [i % 7 - 3 for i in range(3000001)]
    assert float(done.stdout) == pytest.approx(sum(numbers) / sum(n * n for n in numbers), rel=1e-5, abs=1e-9)
