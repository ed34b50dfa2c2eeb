"""Linear filtering of a real GPU against the reference: at elements, at and near the rounding steps of the weights, far
from them, and outside."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.reference.filtering import NORMALIZED
from cugen.runtime.call.callable import compiled
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.inputs import draw, known_params
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

pytestmark = pytest.mark.gpu

BOUNDARIES = ("clamp", "zero", "wrap", "symmetric")
FILTERED = "memory: {space: texture, dims: 2, filter: linear}, pitch: {align: 32}"
# Values of an array at the points (v[i], w[i]).
WARP = """
cugen: 1
kernel: warp
params: {H: HEIGHT, W: WIDTH, N: COUNT}
arrays:
  u: {shape: [H, W], dtype: float32, FILTERED, layout: LAYOUT, boundary: MODE}
  v: {shape: [N], dtype: float32}
  w: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = u[v[i], w[i]]
"""


def warp(boundary: str, shape: tuple[int, int], count: int, layout: str = "row") -> Spec:
    text = (
        WARP.replace("FILTERED", FILTERED)
        .replace("MODE", boundary)
        .replace("LAYOUT", layout)
        .replace("COUNT", str(count))
    )
    (spec,) = load_text(text.replace("HEIGHT", str(shape[0])).replace("WIDTH", str(shape[1])))
    return spec


def check(device: GpuDevice, spec: Spec, given: dict[str, np.ndarray] | None = None) -> None:
    """Compares with the reference, at random or at these values of some arrays."""
    kernel = generate(spec)
    drawn = draw(spec, known_params(spec, {}), 0)
    inputs = replace(drawn, arrays={**drawn.arrays, **(given or {})})
    run = verify(spec, kernel.source, kernel.manifest, device, inputs=inputs)
    assert run.verification.passed, "\n".join(run.verification.messages)


def points(kind: str, extent: int, generator: np.random.Generator, count: int) -> np.ndarray:
    """Coordinates along one dimension, from half an extent outside to half an extent outside."""
    whole = generator.integers(-extent // 2 - 2, extent + extent // 2 + 2, count).astype(np.float64)
    if kind == "inside":
        whole = generator.integers(0, extent, count).astype(np.float64)
    weight = generator.integers(0, 256, count) / 256
    distance = generator.choice([-1.0, 1.0], count) * 2.0 ** -generator.integers(11, 24, count)
    fraction = {
        "elements": np.zeros(count),
        "inside": np.zeros(count),
        "weights": weight,
        "steps": weight + 1 / 512,
        "near steps": weight + 1 / 512 + distance,
        "near elements": distance,
        "anywhere": generator.random(count),
    }[kind]
    return (whole + fraction).astype(np.float32)


KINDS = ("elements", "weights", "steps", "near steps", "near elements", "anywhere")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (8, 64), (37, 131), (1000, 1003)], ids=str)
def test_the_hardware_filters_as_the_reference_does(
    device: GpuDevice, shape: tuple[int, int], boundary: str, kind: str
) -> None:
    count, generator = 20_000, np.random.default_rng(len(kind) + shape[1])
    v, w = (points(kind, extent, generator, count) for extent in shape)
    check(device, warp(boundary, shape, count), {"v": v, "w": w})


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("boundary", ["clamp", "zero"])
def test_an_element_is_read_exactly(device: GpuDevice, boundary: str, layout: str) -> None:
    """The bound of an element is 0: neither the coordinate nor the weights are rounded."""
    count, generator, shape = 20_000, np.random.default_rng(3), (37, 131)
    v, w = (points("inside", extent, generator, count) for extent in shape)
    check(device, warp(boundary, shape, count, layout), {"v": v, "w": w})


@pytest.mark.parametrize("kind", ["steps", "near steps", "anywhere"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(3, 8192), (3, 12000), (16000, 3), (3, 131072), (65000, 3)], ids=str)
def test_large_textures_are_filtered_right(device: GpuDevice, shape: tuple[int, int], boundary: str, kind: str) -> None:
    count, generator = 50_000, np.random.default_rng(11)
    v, w = (points(kind, extent, generator, count) for extent in shape)
    check(device, warp(boundary, shape, count), {"v": v, "w": w})


@pytest.mark.parametrize("boundary", ["clamp", "zero"])
def test_coordinates_far_outside_are_outside(device: GpuDevice, boundary: str) -> None:
    far = np.float32([-np.inf, -1e30, -(2.0**31), -1e6, -9.5, 1.25, 99.5, 1e6, 2.0**31, 1e30, np.inf])
    v, w = (grid.ravel() for grid in np.meshgrid(far, far))
    check(device, warp(boundary, (37, 41), v.size), {"v": v, "w": w})


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_subnormal_elements_and_infinite_ones_of_weight_0_do_not_count(device: GpuDevice, boundary: str) -> None:
    u = np.float32([[1e-40, 1e-40, 2, np.inf]] * 2)
    v, w = np.float32([0, 0.25, 0, 1, 0.5]), np.float32([0, 0, 1, 2, 1.5])
    check(device, warp(boundary, u.shape, v.size), {"u": u, "v": v, "w": w})


@pytest.mark.parametrize("count", [1, 17, 128, 200, 255])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_weight_has_8_fraction_bits(device: GpuDevice, boundary: str, count: int) -> None:
    """Between elements of 0 and 1 the value is the weight: of x it is a multiple of 1/256, the nearest one to x."""
    import pycuda.driver as cuda
    from pycuda import gpuarray

    # Half a step less, and half a step more, but for what normalized coordinates are rounded by.
    margin = 2.0**-16
    near = np.linspace(count - 0.5 + margin * 256, count + 0.5 - margin * 256, 1001)
    w = (near / 256).astype(np.float32)
    spec = warp(boundary, (4, 8), w.size)
    kernel = generate(spec)
    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        values = np.zeros((4, 8), np.float32)
        values[:, 1::2] = 1
        arguments = [gpuarray.to_gpu(a) for a in (values, np.ones_like(w), w, np.full_like(w, np.nan))]
        stream = cuda.Stream()
        function = compiled(kernel.source, kernel.manifest)
        function(dict(zip("uvwy", arguments, strict=True)), stream=stream)
        stream.synchronize()
        found = arguments[-1].get()
        del arguments, stream
    finally:
        cuda.Context.pop()
    if boundary in NORMALIZED:
        np.testing.assert_allclose(found, count / 256, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, np.float32(count / 256))


SPECS = {
    "computed points": "compute: y[i, j] = u[i * 0.7 - 3.1, j * 1.3 - 5.25]",
    "whole subscripts": "compute: y[i, j] = u[i - 3, 2 * j - 9]",
    "a sum": "compute: y[i, j] = sum(u[i * 0.5 + r / 3, j + r * 0.25], r)\nindices: {r: 5}",
    "a softmax": "compute: y[i, j] = softmax(u[i + 0.25, j * 1.5], j)",
    "a branch": "compute: y[i, j] = u[i + 0.25, j - 0.5] if inside(u[i + 0.5, j - 1.5]) else 7",
}


@pytest.mark.parametrize("name", list(SPECS))
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_statements_with_samples_are_right(device: GpuDevice, name: str, boundary: str) -> None:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{H: 61, W: 204}}
arrays:
  u: {{shape: [H, W], dtype: float32, {FILTERED}, boundary: {boundary}}}
  y: {{shape: [H, W], dtype: float32}}
{SPECS[name]}
""")
    check(device, spec)


MAIN = """
#include <cmath>
#include <cstdio>
#include <vector>
#include "middle.h"

#define CHECK(call) do { cudaError_t status = (call); if (status != cudaSuccess) { \\
    std::printf("%s: %s\\n", #call, cudaGetErrorString(status)); return 1; } } while (0)

int main()
{
    const int H = 37, W = 64;
    std::vector<float> x(H * W), y(H * W), z(H * W);
    for (int i = 0; i < H * W; ++i)
        x[i] = float(i % 1021);
    float *dx, *dy, *dz;
    CHECK(cudaMalloc(&dx, x.size() * sizeof(float)));
    CHECK(cudaMalloc(&dy, y.size() * sizeof(float)));
    CHECK(cudaMalloc(&dz, y.size() * sizeof(float)));
    CHECK(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    for (int round = 0; round < 3; ++round) {
        CHECK(middle_launch(dx, dx, dy, dz, nullptr));  // filtered and not, of one address
        CHECK(cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(z.data(), dz, z.size() * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < H; ++i)
            for (int j = 0; j < W; ++j) {
                const float below = x[(i + 1 < H ? i + 1 : i) * W + j];
                const float expected = (x[i * W + j] + below) / 2;
                if (std::fabs(y[i * W + j] - expected) > 1e-3f || z[i * W + j] != below) {
                    std::printf("element %d %d is %g and %g\\n", i, j, y[i * W + j], z[i * W + j]);
                    return 1;
                }
            }
    }
    std::printf("done\\n");
    return 0;
}
"""


def test_the_launcher_has_an_object_for_each_filter(device: GpuDevice, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("NO GPU, NOT TESTED: nvcc is not on the PATH")
    (spec,) = load_text("""
cugen: 1
kernel: middle
params: {H: 37, W: 64}
arrays:
  u: {shape: [H, W], dtype: float32, memory: {space: texture, dims: 2, filter: linear}, boundary: clamp}
  x: {shape: [H, W], dtype: float32, memory: {space: texture, dims: 2}, boundary: clamp}
  y: {shape: [H, W], dtype: float32}
  z: {shape: [H, W], dtype: float32}
compute: |
  y[i, j] = u[i + 0.5, j]
  z[i, j] = x[i + 1, j]
""")
    kernel = generate(spec)
    (tmp_path / "middle.cu").write_text(kernel.source)
    for name, text in kernel.headers.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.cu").write_text(MAIN)
    command = [nvcc, "-arch=native", "-o", "middle", "middle.cu", "main.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    done = subprocess.run([tmp_path / "middle"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")
