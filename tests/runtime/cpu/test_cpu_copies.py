"""Asynchronous copies arrive when they are awaited, and not before."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

# Each thread copies in three groups; then the reader waits for all but the last `PENDING` of them.
GROUPS = r"""
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(const float* in, float* out) {
  __shared__ float tile[3][8];
  for (int g = 0; g < 3; ++g) {
    __pipeline_memcpy_async(&tile[g][threadIdx.x], &in[g * 8 + threadIdx.x], 4, threadIdx.x == 7 ? 4 : 0);
    __pipeline_commit();
  }
  __pipeline_wait_prior(PENDING);
  __syncthreads();
  for (int g = 0; g < 3; ++g) out[g * 8 + threadIdx.x] = tile[g][threadIdx.x ^ 1];
}
"""

RING = r"""
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(const float* in, float* out) {
  __shared__ float tile[8];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);
  __pipeline_commit();
  BETWEEN
  __pipeline_wait_prior(0);
  AFTER
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}
"""

REUSE = r"""
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(const float* in, float* out) {
  __shared__ float tile[8];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);
  __pipeline_commit();
  WAIT
  __syncthreads();
  tile[threadIdx.x ^ 1] = 2.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 3];
}
"""


def values():
    return np.arange(1, 25, dtype=np.float32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pending", [0, 1, 2, 3, 5])
def test_the_groups_that_were_awaited_have_come_and_the_others_are_no_numbers(make_job, nans, pending):
    job = make_job(GROUPS.replace("PENDING", str(pending)), {"in": values(), "out": nans(24)}, block=(8, 1, 1))
    outcome = CpuDevice(shuffle=3).run(job)
    assert outcome.faults == ()
    expected = values().reshape(3, 8)
    expected[:, 7] = 0
    expected = expected[:, np.arange(8) ^ 1]
    expected[max(3 - pending, 0) :] = np.nan
    np.testing.assert_array_equal(outcome.buffers["out"].reshape(3, 8), expected)


@pytest.mark.parametrize(
    ("between", "after", "kinds"), [("", "__syncthreads();", ()), ("__syncthreads();", "", ("race",))]
)
def test_a_wait_without_a_barrier_behind_it_is_a_race(make_job, nans, between, after, kinds):
    source = RING.replace("BETWEEN", between).replace("AFTER", after)
    faults = CpuDevice(races=True).run(make_job(source, {"in": values(), "out": nans(8)}, block=(8, 1, 1))).faults
    assert tuple(fault.kind for fault in faults) == kinds
    for fault in faults:
        lines = source.split("\n")
        copy = next(number for number, text in enumerate(lines, 1) if "memcpy_async" in text)
        assert "out[" in lines[fault.line - 1]
        assert fault.message.endswith(f"before the wait for the asynchronous copy to it at line {copy}")


def test_a_copy_past_the_end_of_a_tile_is_reported_at_the_line_of_the_copy(make_job, nans):
    source = (
        RING.replace("BETWEEN", "")
        .replace("AFTER", "__syncthreads();")
        .replace("&tile[threadIdx.x]", "&tile[threadIdx.x + 1]")
    )
    (fault,) = CpuDevice(sanitize=True).run(make_job(source, {"in": values(), "out": nans(8)}, block=(8, 1, 1))).faults
    assert fault.line == next(n for n, text in enumerate(source.split("\n"), 1) if "memcpy_async" in text)


def test_a_trace_has_both_accesses_of_a_copy_at_its_line(make_job, nans):
    source = RING.replace("BETWEEN", "").replace("AFTER", "__syncthreads();")
    job = make_job(source, {"in": values(), "out": nans(8)}, block=(8, 1, 1))
    trace = CpuDevice().trace(job)
    line = next(n for n, text in enumerate(source.split("\n"), 1) if "memcpy_async" in text)
    records = [(r.kind, r.array, r.offset, r.line) for r in trace if r.thread == 3 and r.array in ("in", "tile")]
    assert records[:2] == [("read", "in", 12, line), ("write", "tile", 12, line)]
    assert len(records) == 3


@pytest.mark.parametrize(("wait", "kinds"), [("", ("race",)), ("__pipeline_wait_prior(0);", ())])
def test_memory_that_a_copy_may_still_write_is_not_free_for_another_use(make_job, nans, wait, kinds):
    source = REUSE.replace("WAIT", wait)
    faults = CpuDevice(races=True).run(make_job(source, {"in": values(), "out": nans(8)}, block=(8, 1, 1))).faults
    assert tuple(dict.fromkeys(fault.kind for fault in faults)) == kinds


# The value of an element in flight is masked, and the thread that copies it alone reads it.
OWN_READ = r"""
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(const float* in, float* out) {
  __shared__ float tile[8];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);
  __pipeline_commit();
  BEFORE
  const float early = tile[threadIdx.x];
  __pipeline_wait_prior(0);
  out[threadIdx.x] = fmaxf(early, 1.0f);
}
"""


@pytest.mark.parametrize(
    ("before", "kinds"),
    [("", ("race",)), ("__pipeline_wait_prior(1);", ("race",)), ("__pipeline_wait_prior(0);", ())],
)
def test_a_thread_that_reads_its_own_copy_too_early_is_a_race(make_job, nans, before, kinds):
    source = OWN_READ.replace("BEFORE", before)
    faults = CpuDevice(races=True).run(make_job(source, {"in": values(), "out": nans(8)}, block=(8, 1, 1))).faults
    assert tuple(fault.kind for fault in faults) == kinds
    for fault in faults:
        lines = source.split("\n")
        assert "early = " in lines[fault.line - 1]
        copy = next(number for number, text in enumerate(lines, 1) if "memcpy_async" in text)
        assert fault.message.endswith(f"before the wait for the asynchronous copy to it at line {copy}")
