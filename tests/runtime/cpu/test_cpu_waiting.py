"""Blocks that wait for other blocks: they go on where these may come, and are a fault where they can't."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

CHAIN = r"""
extern "C" __global__ void chain(int* out, int* flags) {
  __shared__ int ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&flags[0], 1);
  __syncthreads();
  if (threadIdx.x == 5 && ticket > 0) {
    while (__ldcv(&flags[ticket]) != 1)
      __nanosleep(32);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    out[ticket] = ticket == 0 ? 1 : 2 * out[ticket - 1] % 1000;
    __threadfence();
    atomicExch(&flags[ticket + 1], 1);
  }
}
extern "C" __global__ void by_block_index(int* out, int* flags) {
  if (blockIdx.x > 0) {
    while (__ldcv(&flags[blockIdx.x]) != 1)
      __nanosleep(32);
    __threadfence();
  }
  out[blockIdx.x] = blockIdx.x == 0 ? 1 : 2 * out[blockIdx.x - 1] % 1000;
  __threadfence();
  atomicExch(&flags[blockIdx.x + 1], 1);
}
extern "C" __global__ void backward(int* out, int* flags) {
  while (blockIdx.x + 1 < gridDim.x && __ldcv(&flags[blockIdx.x + 1]) != 1)
    __nanosleep(32);
  atomicExch(&flags[blockIdx.x], 1);
}
extern "C" __global__ void within(int* out, int* flags) {
  if (threadIdx.x < 7) {
    while (__ldcv(&flags[threadIdx.x + 1]) != 1)
      __nanosleep(32);
  }
  out[threadIdx.x] = 1;
  atomicExch(&flags[threadIdx.x], 1);
}
"""
BLOCKS = 40


def played(make_job, device, kernel, *, blocks=BLOCKS, block=(8, 1, 1)):
    job = make_job(
        CHAIN,
        {"out": np.zeros(BLOCKS, np.int32), "flags": np.zeros(BLOCKS + 1, np.int32)},
        outputs=("out",),
        inouts=("flags",),
        grid=(blocks, 1, 1),
        block=block,
        launches=((kernel, ("out", "flags")),),
    )
    return device.run(job)


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 4, "shuffle": 3},
        pytest.param({"workers": 1}, marks=pytest.mark.slow),
        pytest.param({"sanitize": True}, marks=pytest.mark.slow),
        pytest.param({"races": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_blocks_with_tickets_wait_for_those_before_them_in_any_order(make_job, options):
    outcome = played(make_job, CpuDevice(**options), "chain")
    assert outcome.faults == ()
    expected = [1]
    while len(expected) < BLOCKS:
        expected.append(2 * expected[-1] % 1000)
    assert outcome.buffers["out"].tolist() == expected


@pytest.mark.parametrize("workers", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_block_that_waits_for_a_later_one_is_a_fault_and_no_hang(make_job, workers):
    (fault,) = played(make_job, CpuDevice(workers=workers, limit_seconds=30), "backward").faults
    assert fault.kind == "hang"
    assert "no running thread can write" in fault.message


def test_blocks_in_an_order_that_is_not_theirs_need_tickets(make_job):
    assert played(make_job, CpuDevice(workers=1), "by_block_index").faults == ()
    (fault,) = played(make_job, CpuDevice(workers=1, shuffle=3, limit_seconds=30), "by_block_index").faults
    assert fault.kind == "hang"


@pytest.mark.parametrize("shuffle", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_a_polling_thread_lets_others_of_its_block_go_on(make_job, shuffle):
    outcome = played(make_job, CpuDevice(workers=2, shuffle=shuffle), "within", blocks=1)
    assert outcome.faults == ()
    assert outcome.buffers["out"][:8].tolist() == [1] * 8
