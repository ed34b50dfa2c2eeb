"""Warp collectives against their definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

COLLECTIVES = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const int* in, int* out) {
  const int t = threadIdx.x, n = blockDim.x;
  const unsigned full = 0xffffffffu;
  const int v = in[t];
  int row = 0;
#define PUT(value) out[n * row++ + t] = static_cast<int>(value)
  PUT(__shfl_sync(full, v, t + 3));
  PUT(__shfl_sync(full, v, 5, 8));
  PUT(__shfl_up_sync(full, v, 3));
  PUT(__shfl_up_sync(full, v, 3, 16));
  PUT(__shfl_down_sync(full, v, 5));
  PUT(__shfl_down_sync(full, v, 2, 4));
  PUT(__shfl_xor_sync(full, v, 9));
  PUT(__shfl_xor_sync(full, (double)v, 16));
  PUT((float)__shfl_xor_sync(full, __float2half((float)v), 1));
  PUT(__ballot_sync(full, v & 1));
  PUT(__any_sync(full, v == 7));
  PUT(__all_sync(full, v >= 0));
  PUT(__match_any_sync(full, v % 5));
  PUT(__reduce_add_sync(full, v));
  PUT(__reduce_max_sync(full, v - 50));
  PUT(__reduce_min_sync(full, (unsigned)(v - 50)));
  PUT(__reduce_xor_sync(full, (unsigned)v));
  PUT(__syncthreads_count(v & 1));
  PUT(__syncthreads_or(v == -1));
  PUT(__syncthreads_and(v >= 0));
  PUT(__activemask());
  __syncwarp();
}
"""


def by_warp(values, function):
    return np.concatenate([np.broadcast_to(function(w), w.shape) for w in values.reshape(-1, 32)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [{}, {"shuffle": 3}, {"sanitize": True}], ids=str)
def test_collectives_follow_their_definition(make_job, options):
    v = np.random.default_rng(5).integers(0, 100, 64).astype(np.int32)
    rows = 21
    job = make_job(COLLECTIVES, {"in": v, "out": np.full(rows * 64, -1, np.int32)}, block=(64, 1, 1))
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    lane = np.arange(32)

    def take(source):
        return by_warp(v, lambda w: w[source])

    def bits(flags):
        return np.int32(np.uint32(sum(1 << i for i in range(32) if flags[i])).view(np.int32))

    expected = [
        take((lane + 3) % 32),
        take(lane // 8 * 8 + 5),
        take(np.where(lane >= 3, lane - 3, lane)),
        take(np.where(lane % 16 >= 3, lane - 3, lane)),
        take(np.where(lane + 5 < 32, lane + 5, lane)),
        take(np.where(lane % 4 + 2 < 4, lane + 2, lane)),
        take(lane ^ 9),
        take(lane ^ 16),
        take(lane ^ 1),
        by_warp(v, lambda w: bits(w & 1)),
        by_warp(v, lambda w: (w == 7).any()),
        np.ones(64),
        by_warp(v, lambda w: np.array([bits(w % 5 == x % 5) for x in w])),
        by_warp(v, np.sum),
        by_warp(v, lambda w: w.max() - 50),
        by_warp(v, lambda w: (w - 50).view(np.uint32).min().view(np.int32)),
        by_warp(v, np.bitwise_xor.reduce),
        np.full(64, (v & 1).sum()),
        np.zeros(64),
        np.ones(64),
        np.full(64, -1),
    ]
    got = outcome.buffers["out"].reshape(rows, 64)
    for number, row in enumerate(expected):
        np.testing.assert_array_equal(got[number], row.astype(np.int32), err_msg=f"row {number}")


REDUCTION = r"""
extern "C" __global__ void k(const float* in, float* out, int n) {
  __shared__ float partial[8];
  const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  float sum = 0.0f;
  for (int i = t; i < n; i += blockDim.x) sum += in[i];
  for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < 8 ? partial[lane] : 0.0f;
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) out[0] = sum;
  }
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [{}, {"shuffle": 9}, {"races": True}], ids=str)
def test_a_block_reduction_sums_across_warps(make_job, nans, options):
    values = np.arange(1000, dtype=np.float32)
    job = make_job(REDUCTION, {"in": values, "out": nans(1)}, params={"n": 1000}, block=(256, 1, 1))
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    assert outcome.buffers["out"][0] == 499500


ABSENT = r"""
extern "C" __global__ void k(float* out) { out[threadIdx.x] = __shfl_down_sync(0xffffffffu, (float)threadIdx.x, 4); }
"""


def test_a_lane_that_does_not_exist_gives_nan(make_job):
    out = CpuDevice().run(make_job(ABSENT, {"out": np.zeros(10, np.float32)}, block=(10, 1, 1))).buffers["out"]
    np.testing.assert_array_equal(out[:6], np.arange(4, 10))
    assert np.isnan(out[6:]).all()


ATOMICS = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(int* counts, float* sums, unsigned long long* extremes) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&counts[i % 7], 1);
  atomicSub(&counts[7], 2);
  atomicMax(&counts[8], i);
  atomicMin(&counts[9], -i);
  atomicOr(&counts[10], 1 << (i % 30));
  atomicXor(&counts[11], i);
  if (atomicCAS(&counts[12], 0, i + 1) == 0) atomicAdd(&counts[13], 1);
  atomicInc((unsigned*)&counts[14], 9);
  atomicAdd(&sums[0], 0.5f);
  atomicMax(&extremes[0], 1ull << 40 | i);
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [{"workers": 2}, {"sanitize": True}, {"races": True}], ids=str)
def test_atomics_lose_nothing_between_workers(make_job, options):
    n = 64 * 50
    job = make_job(
        ATOMICS,
        {"counts": np.zeros(15, np.int32), "sums": np.zeros(1, np.float32), "extremes": np.zeros(1, np.uint64)},
        outputs=(),
        inouts=("counts", "sums", "extremes"),
        grid=(50, 1, 1),
        block=(64, 1, 1),
        alignment=8,
    )
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    counts, i = outcome.buffers["counts"], np.arange(n)
    np.testing.assert_array_equal(counts[:7], np.bincount(i % 7))
    assert counts[7:12].tolist() == [-2 * n, n - 1, 1 - n, (1 << 30) - 1, np.bitwise_xor.reduce(i)]
    assert counts[13:].tolist() == [1, n % 10]
    assert outcome.buffers["sums"][0] == n / 2
    assert outcome.buffers["extremes"][0] == 1 << 40 | (n - 1)
