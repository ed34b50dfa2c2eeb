"""Accesses of several threads to one element of global memory: what orders them, and what is a race."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Job

MakeJob = Callable[..., Job]

TWO_BLOCKS = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* out, int* flag) {
  const int t = threadIdx.x;
  if (blockIdx.x == 0) {
    out[t] = 1;
    PUBLISH
  } else {
    AWAIT
    out[t + SHIFT] = VALUE;
  }
}
"""
PUBLISH = "__syncthreads(); __threadfence(); if (t == 0) atomicExch(flag, 1);"
AWAIT = "if (t == 0) { while (*(volatile int*)flag != 1) __nanosleep(32); __threadfence(); } __syncthreads();"


def faults_in(make_job: MakeJob, source: str, **launch: object) -> list[tuple[str, int, int]]:
    """Kind, line, and the line of the first write, of each fault."""
    arrays = {"out": np.zeros(256, np.int32), "flag": np.zeros(1, np.int32)}
    job = make_job(source, arrays, inouts=("out", "flag"), outputs=(), **launch)
    faults = CpuDevice(races=True).run(job).faults
    lines = [int(fault.message.partition(" at line ")[2].partition(":")[0]) for fault in faults]
    return [(fault.kind, fault.line, line) for fault, line in zip(faults, lines, strict=True)]


def two_blocks(publish: str = "", await_: str = "", value: str = "2", shift: int = 0) -> str:
    source = TWO_BLOCKS.replace("PUBLISH", publish).replace("AWAIT", await_)
    return source.replace("VALUE", value).replace("SHIFT", str(shift))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("source", "is_race"),
    [
        pytest.param(two_blocks(), True, id="another value"),
        pytest.param(two_blocks(value="1"), False, id="the same value"),
        pytest.param(two_blocks(shift=31), True, id="one element"),
        pytest.param(two_blocks(shift=32), False, id="no element"),
        pytest.param(two_blocks(PUBLISH, AWAIT), False, id="fences and flag"),
        pytest.param(two_blocks(PUBLISH.replace("__threadfence();", ""), AWAIT), True, id="no fence of the writer"),
        pytest.param(two_blocks(PUBLISH, AWAIT.replace("__threadfence();", "")), True, id="no fence of the reader"),
    ],
)
def test_two_blocks_that_write_one_element(make_job: MakeJob, source: str, is_race: bool) -> None:
    expected = [("race", 10, 6)] if is_race else []
    assert faults_in(make_job, source, grid=(2, 1, 1)) == expected


def test_atomics_of_several_blocks_do_not_race(make_job: MakeJob) -> None:
    source = 'extern "C" __global__ void k(int* out, int* flag) { atomicAdd(&out[threadIdx.x], 1); }'
    assert faults_in(make_job, source, grid=(3, 1, 1)) == []


def test_a_later_launch_may_overwrite_what_an_earlier_one_wrote(make_job: MakeJob) -> None:
    source = r"""
extern "C" __global__ void first(int* out, int* flag) { out[threadIdx.x] = 1; }
extern "C" __global__ void second(int* out, int* flag) { out[31 - threadIdx.x] += 2; }
"""
    arguments = ("out", "flag")
    assert faults_in(make_job, source, launches=(("first", arguments), ("second", arguments))) == []


ONE_BLOCK = r"""
extern "C" __global__ void k(int* out, int* flag) {
  const int t = threadIdx.x;
  out[t] = t;
  BARRIER
  ACCESS;
}
"""
WRITE, READ = "out[t ^ FLIP] = 5", "if (out[t ^ FLIP] == 1000) __trap()"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("access", [WRITE, READ], ids=["write", "read"])
@pytest.mark.parametrize(
    ("barrier", "flip", "is_race"),
    [
        ("", 0, False),
        ("", 1, True),
        ("__syncwarp();", 1, False),
        ("__syncwarp();", 32, True),
        ("__syncthreads();", 32, False),
        ("__barrier_sync_count(1 + t / 64, 64);", 32, False),
        ("__barrier_sync_count(1 + t / 64, 64);", 64, True),
    ],
)
def test_barriers_order_the_threads_of_a_block(
    make_job: MakeJob, access: str, barrier: str, flip: int, is_race: bool
) -> None:
    source = ONE_BLOCK.replace("BARRIER", barrier).replace("ACCESS", access).replace("FLIP", str(flip))
    faults = faults_in(make_job, source, block=(128, 1, 1))
    # Of a thread that runs first, the other's write comes second.
    assert [(kind, {line, first}) for kind, line, first in faults] in (
        [[("race", {6, 4})], [("race", {4, 6})], [("race", {4})]] if is_race else [[]]
    )


ONE_WARP_TOO_MANY = r"""
extern "C" __global__ void k(int* out, int* flag) {
  __shared__ int sums[4];
  const int t = threadIdx.x, warp = t / 32;
  if (warp < 3) sums[warp] = warp;
  if (warp OPERATOR 3) { if (t % 32 == 0) SUMS[warp % 3] = t; }
  __syncthreads();
}
"""


@pytest.mark.parametrize(("operator", "is_race"), [("<", False), ("<=", True)])
def test_a_guard_that_one_warp_too_many_passes_is_a_second_writer(
    make_job: MakeJob, operator: str, is_race: bool
) -> None:
    source = ONE_WARP_TOO_MANY.replace("OPERATOR", operator)
    source = source.replace("if (warp < 3) sums[warp] = warp;", "").replace("SUMS", "out")
    assert faults_in(make_job, source, block=(128, 1, 1)) == ([("race", 6, 6)] if is_race else [])
    source = source.replace("out[warp", "sums[warp")
    assert faults_in(make_job, source, block=(128, 1, 1)) == ([("race", 6, 6)] if is_race else [])


CLUSTER = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* out, int* flag) {
  const auto cluster = cooperative_groups::this_cluster();
  if (cluster.block_rank() == 0) out[threadIdx.x] = 1;
  BARRIER
  if (cluster.block_rank() == 1) out[threadIdx.x] ASSIGNED 2;
  cluster.sync();
}
"""


@pytest.mark.covering
@pytest.mark.parametrize("assigned", ["=", "+="])
@pytest.mark.parametrize(("barrier", "is_race"), [("cluster.sync();", False), ("__syncthreads();", True)])
def test_the_barrier_of_a_cluster_orders_its_blocks(
    make_job: MakeJob, barrier: str, assigned: str, is_race: bool
) -> None:
    source = CLUSTER.replace("BARRIER", barrier).replace("ASSIGNED", assigned)
    faults = faults_in(make_job, source, grid=(2, 1, 1), cluster=2)
    assert faults == ([("race", 7, 5)] if is_race else [])
