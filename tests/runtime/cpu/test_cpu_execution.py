"""Launch lists played on the CPU: indices, shared memory, uploads, workspaces, sizes in text."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import Upload
from cugen.runtime.cpu import CpuDevice

ADD = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* __restrict__ a, const float* __restrict__ b,
                                                   float* __restrict__ out, float scale, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __ldg(a + i) + scale * b[i];
}
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
this is host code which no host compiler is shown
#endif
"""

PRODUCT = r"""
extern "C" __global__ void fixed(const float* a, const float* b, float* out, int m, int n, int depth) {
  __shared__ float As[8][9];
  __shared__ __align__(16) float Bs[8][8];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
  float sum = 0.0f;
  for (int k0 = 0; k0 < depth; k0 += 8) {
    As[ty][tx] = row < m && k0 + tx < depth ? a[row * depth + k0 + tx] : 0.0f;
    Bs[ty][tx] = col < n && k0 + ty < depth ? b[(k0 + ty) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 8; ++kk) sum += As[ty][kk] * Bs[kk][tx];
    __syncthreads();
  }
  if (row < m && col < n) out[row * n + col] = sum;
}

extern "C" __global__ void dynamic(const float* a, const float* b, float* out, int m, int n, int depth) {
  extern __shared__ __align__(16) unsigned char storage[];
  float(*As)[8] = reinterpret_cast<float(*)[8]>(storage);
  float(*Bs)[8] = As + 8;
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
  float sum = 0.0f;
  for (int k0 = 0; k0 < depth; k0 += 8) {
    As[ty][tx] = row < m && k0 + tx < depth ? a[row * depth + k0 + tx] : 0.0f;
    Bs[ty][tx] = col < n && k0 + ty < depth ? b[(k0 + ty) * n + col] : 0.0f;
    __syncthreads();
    for (int kk = 0; kk < 8; ++kk) sum += As[ty][kk] * Bs[kk][tx];
    __syncthreads();
  }
  if (row < m && col < n) out[row * n + col] = sum;
}
"""

ROUNDED = r"""
struct alignas(16) Pair { double data[2]; };
extern "C" __global__ void k(const double* a, double* out) {
  const Pair pair = *reinterpret_cast<const Pair*>(a);
  Pair result;
  for (int v = 0; v < 2; ++v) result.data[v] = (double)(float)pair.data[v];
  *reinterpret_cast<Pair*>(out) = result;
}
"""


def test_a_guarded_sum_of_vectors_covers_exactly_the_vectors(make_job, nans):
    a, b = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    job = make_job(
        ADD,
        {"a": a, "b": b, "out": nans(100)},
        scalars={"scale": ("float32", 2.5)},
        params={"n": 99},
        grid=("(n + 63) // 64", 1, 1),
        block=(64, 1, 1),
        repeat=3,
    )
    outcome = CpuDevice().run(job)
    assert outcome.faults == ()
    np.testing.assert_array_equal(outcome.buffers["out"][:99], a[:99] + 2.5)
    assert np.isnan(outcome.buffers["out"][99])
    assert len(outcome.times_ms) == 3


def test_a_grid_with_a_zero_launches_nothing(make_job, nans):
    job = make_job(
        ADD,
        {"a": nans(4), "b": nans(4), "out": np.zeros(4, np.float32)},
        scalars={"scale": ("float32", 1.0)},
        params={"n": 0},
        grid=("(n + 63) // 64", 1, 1),
        block=(64, 1, 1),
    )
    outcome = CpuDevice().run(job)
    assert outcome.faults == ()
    assert not outcome.buffers["out"].any()


def test_nan_and_infinity_pass_through(make_job, nans):
    a = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    job = make_job(
        ADD,
        {"a": a, "b": np.zeros(4, np.float32), "out": nans(4)},
        scalars={"scale": ("float32", -1.0)},
        params={"n": 4},
    )
    np.testing.assert_array_equal(CpuDevice().run(job).buffers["out"], a - 0.0)


def test_a_value_is_rounded_by_a_narrower_type_in_vectors_too(make_job):
    values = np.array([0.603762536, 0.1])
    job = make_job(ROUNDED, {"a": values, "out": np.full(2, np.nan)}, block=(1, 1, 1), alignment=16)
    outcome = CpuDevice().run(job)
    assert outcome.buffers["out"].tolist() == values.astype(np.float32).astype(np.float64).tolist()


@pytest.mark.covering
@pytest.mark.parametrize("kernel", ["fixed", "dynamic"])
@pytest.mark.parametrize("options", [{}, {"sanitize": True}, {"races": True}, {"shuffle": 7}], ids=str)
def test_a_tiled_product_is_right_on_every_kind_of_device(make_job, nans, kernel, options):
    m, depth, n = 9, 17, 10
    random = np.random.default_rng(1)
    a, b = random.random((m, depth), np.float32), random.random((depth, n), np.float32)
    job = make_job(
        PRODUCT,
        {"a": a, "b": b, "out": nans(m * n)},
        params={"m": m, "n": n, "depth": depth},
        grid=("(n + 7) // 8", "(m + 7) // 8", 1),
        block=(8, 8, 1),
        dynamic=512,
        launches=((kernel, ("a", "b", "out", "m", "n", "depth")),),
    )
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    np.testing.assert_allclose(outcome.buffers["out"].reshape(m, n), a @ b, rtol=1e-5)


def test_results_do_not_depend_on_workers(make_job, nans):
    m, depth, n = 40, 8, 40
    random = np.random.default_rng(2)
    arrays = {
        "a": random.random((m, depth), np.float32),
        "b": random.random((depth, n), np.float32),
        "out": nans(m * n),
    }
    job = make_job(
        PRODUCT,
        arrays,
        params={"m": m, "n": n, "depth": depth},
        grid=(5, 5, 1),
        block=(8, 8, 1),
        dynamic=512,
        launches=(("fixed", ("a", "b", "out", "m", "n", "depth")),),
    )
    one_worker, four_workers = CpuDevice(workers=1).run(job), CpuDevice(workers=4).run(job)
    np.testing.assert_array_equal(one_worker.buffers["out"], four_workers.buffers["out"])


THREAD_NUMBERS = r"""
extern "C" __global__ void k(int* out) {
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += 1 + block * 1000 + thread;
}
"""


@pytest.mark.parametrize("shuffle", [None, 0, 1, 12345])
def test_every_thread_of_every_block_runs_once_in_any_order(make_job, shuffle):
    job = make_job(
        THREAD_NUMBERS,
        {"out": np.zeros(30 * 24, np.int32)},
        outputs=(),
        inouts=("out",),
        grid=(5, 3, 2),
        block=(4, 3, 2),
        repeat=2,
    )
    outcome = CpuDevice(shuffle=shuffle).run(job)
    expected = 1 + np.arange(30)[:, None] * 1000 + np.arange(24)
    np.testing.assert_array_equal(outcome.buffers["out"].reshape(30, 24), expected)


CONSTANT = r"""
__constant__ float taps[4];
__constant__ int shift[1];
__device__ float baked[3] = {10.0f, 20.0f, 30.0f};
extern "C" __global__ void k(const float* w, float* out, int s) {
  out[threadIdx.x] = taps[threadIdx.x] + shift[0] + baked[1];
}
"""


def test_constants_are_uploaded_before_the_launches(make_job, nans):
    w = np.arange(4, dtype=np.float32)
    job = make_job(
        CONSTANT,
        {"w": w, "out": nans(4)},
        params={"s": 7},
        block=(4, 1, 1),
        uploads=(Upload("taps", "w", 16), Upload("shift", "s", 4)),
    )
    for device in (CpuDevice(), CpuDevice(sanitize=True)):
        np.testing.assert_array_equal(device.run(job).buffers["out"], w + 27)


WORKSPACE = r"""
extern "C" __global__ void first(float* out, float* space) {
  if (threadIdx.x == 0) out[0] = space[0];
  space[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void second(float* out, const float* space) {
  if (threadIdx.x > 0) out[threadIdx.x] = space[threadIdx.x];
}
"""


def test_workspaces_begin_poisoned_and_live_from_launch_to_launch(make_job):
    job = make_job(
        WORKSPACE,
        {"out": np.zeros(8, np.float32)},
        workspace={"space": 8},
        block=(8, 1, 1),
        launches=(("first", ("out", "space")), ("second", ("out", "space"))),
        repeat=2,
    )
    out = CpuDevice().run(job).buffers["out"]
    assert np.isnan(out[0])
    np.testing.assert_array_equal(out[1:], np.arange(1, 8))


def test_a_launch_over_the_targets_limits_is_refused_with_the_numbers(make_job, nans):
    job = make_job(THREAD_NUMBERS, {"out": np.zeros(1, np.int32)}, block=(64, 32, 1))
    with pytest.raises(RunError, match=r"2048 threads per block.*1024"):
        CpuDevice().run(job)


def test_arguments_that_the_kernel_does_not_take_are_a_fault(make_job, nans):
    job = make_job(
        ADD, {"a": nans(4), "b": nans(4), "out": nans(4)}, scalars={"scale": ("float64", 1.0)}, params={"n": 4}
    )
    (fault,) = CpuDevice().run(job).faults
    assert fault.kind == "launch"
    assert "argument 3, scale" in fault.message
