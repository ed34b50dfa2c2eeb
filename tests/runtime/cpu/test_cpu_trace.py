"""Traces: every access of every thread, with its array, offset, width and line."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

COPY = r"""
#include <cuda_fp16.h>
__constant__ float taps[2];
__device__ float baked[2] = {1.0f, 2.0f};

extern "C" __global__ void k(const float4* in, float* out, __half* halves, int* count) {
  __shared__ float tile[8];
  extern __shared__ __align__(8) unsigned char storage[];
  const int t = threadIdx.x;
  const float4 v = in[t];
  tile[t] = v.x + v.y;
  reinterpret_cast<float2*>(storage)[t] = make_float2(v.z, v.w);
  __syncthreads();
  const float w = __ldg(&tile[1 - t]);
  out[2 * blockIdx.x + t] = w + taps[t] + baked[t];
  halves[t] = __float2half(w) + halves[t];
  atomicAdd(count, 1);
}
"""


@pytest.fixture(scope="module")
def trace(make_job):
    arrays = {
        "in": np.arange(8, dtype=np.float32),
        "out": np.zeros(6, np.float32),
        "halves": np.zeros(2, np.uint16),
        "count": np.zeros(1, np.int32),
    }
    job = make_job(
        COPY,
        arrays,
        outputs=("out",),
        inouts=("halves", "count"),
        grid=(3, 1, 1),
        block=(2, 1, 1),
        dynamic=16,
        alignment=16,
    )
    return CpuDevice().trace(job)


def test_a_threads_records_are_its_accesses_in_program_order(trace):
    records = [r for r in trace if r.block == 2 and r.thread == 1]
    assert all(r.launch == 0 for r in records)
    plain = [(r.kind, r.array, r.offset, r.bytes, r.line, r.interval) for r in records]
    assert plain[:4] == [
        ("read", "in", 16, 16, 10, 0),
        ("write", "tile", 4, 4, 11, 0),
        ("write", "storage", 8, 8, 12, 0),
        ("read", "tile", 0, 4, 14, 1),
    ]
    assert sorted(plain[4:7]) == sorted(
        [("read", "taps", 4, 4, 15, 1), ("read", "baked", 4, 4, 15, 1), ("write", "out", 20, 4, 15, 1)]
    )
    assert plain[7:] == [
        ("read", "halves", 2, 2, 16, 1),
        ("write", "halves", 2, 2, 16, 1),
        ("atomic", "count", 0, 4, 17, 1),
    ]


def test_a_trace_can_be_cut_down_to_one_array(trace):
    shared = trace.of("tile")
    assert len(shared) == 3 * 2 * 2
    assert [r.array for r in shared] == ["tile"] * 12
    assert dict(zip(trace.arrays, trace.shared, strict=True))["tile"]
    assert shared[1:3][0] == shared[1]
    assert len(trace.table) == len(trace) == 3 * 2 * 10


INLINED = r"""
#include <cuda_fp16.h>
__constant__ __half table[2][2];

template <typename T>
__device__ __forceinline__ T load_byte(const T* address)
{
  const unsigned char byte = __ldg(reinterpret_cast<const unsigned char*>(address));
  return *reinterpret_cast<const T*>(&byte);
}

extern "C" __global__ void k(const signed char* in, float* out) {
  __shared__ __half tile[4];
  const float first = out[0];
  const float second = __half2float(table[1][1]);
  tile[threadIdx.x] = __float2half(first + second);
  out[threadIdx.x] =
      load_byte(&in[threadIdx.x]);
}
"""


@pytest.fixture(scope="module")
def inlined(make_job):
    arrays = {"in": np.zeros(2, np.int8), "out": np.zeros(2, np.float32)}
    return CpuDevice().trace(make_job(INLINED, arrays, outputs=(), inouts=("out",), block=(2, 1, 1)))


def test_an_access_in_an_inlined_helper_has_the_line_of_the_call(inlined):
    assert {record.line for record in inlined.of("in")} == {18}


def test_an_element_passed_to_a_function_has_the_line_of_the_call(inlined):
    assert {record.line for record in inlined.of("table")} == {15}


def test_the_guard_of_a_shared_array_of_structures_is_not_the_array(inlined):
    assert [(record.kind, record.bytes, record.line) for record in inlined.of("tile")] == [("write", 2, 16)] * 2
