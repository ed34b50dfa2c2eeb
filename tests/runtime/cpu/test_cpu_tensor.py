"""Products of tiles on the CPU device, as tensor cores have them."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

ONE_MMA = r"""
extern "C" __global__ void k(const double* A, const double* B, const double* C, double* out) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  double a[DEPTH / 2], b[DEPTH / 4], sums[2][2];
  for (int u = 0; u < DEPTH / 4; ++u) {
    a[2 * u] = A[g * DEPTH + t + 4 * u];
    a[2 * u + 1] = A[(g + 8) * DEPTH + t + 4 * u];
    b[u] = B[(t + 4 * u) * 8 + g];
  }
  for (int h = 0; h < 2; ++h)
    for (int n = 0; n < 2; ++n) sums[h][n] = C[(g + 8 * h) * 8 + 2 * t + n];
  if (WHO) mma_m16n8kDEPTH(sums[0], sums[1], a, b);
  for (int h = 0; h < 2; ++h)
    for (int n = 0; n < 2; ++n) out[(g + 8 * h) * 8 + 2 * t + n] = sums[h][n];
}
"""


def job_of(make_job, depth, who="true"):
    random = np.random.default_rng(3)
    a, b, c = (random.integers(-9, 9, shape).astype(np.float64) for shape in ((16, depth), (depth, 8), (16, 8)))
    text = ONE_MMA.replace("DEPTH", str(depth)).replace("WHO", who)
    arrays = {"A": a.ravel(), "B": b.ravel(), "C": c.ravel(), "out": np.zeros(128)}
    return make_job(text, arrays, block=(32, 1, 1)), c + a @ b


@pytest.mark.sampled(3)
@pytest.mark.parametrize("depth", [4, 8, 16])
def test_lanes_hold_their_parts_as_the_manual_says(make_job, depth):
    job, expected = job_of(make_job, depth)
    outcome = CpuDevice(shuffle=5).run(job)
    assert outcome.faults == ()
    assert (outcome.buffers["out"].reshape(16, 8) == expected).all()


def test_a_lane_that_stays_away_is_a_fault(make_job):
    job, _ = job_of(make_job, 4, "threadIdx.x != 7")
    (fault,) = CpuDevice().run(job).faults
    assert fault.kind == "divergence"
