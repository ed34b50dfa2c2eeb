"""Reads of shared memory that holds no value, as faults of runs that detect races."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job

MakeJob = Callable[..., Job]


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.split("\n"), 1) if text in line)


def fault_in(make_job: MakeJob, source: str, **launch: object) -> Fault | None:
    job = make_job(source, {"out": np.zeros(512, np.int32)}, **{"block": (64, 1, 1), **launch})
    return next(iter(CpuDevice(races=True, uninitialised=True).run(job).faults), None)


TILE = r"""
extern "C" __global__ void k(int* out) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  if (t < WRITTEN) tile[t] = t;
  __syncthreads();
  READ;
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "read",
    [
        "out[t] = tile[t]",
        "out[t] = t / 64 * tile[t]",
        "const int unused = tile[t]; out[t] = t < 60 ? unused : 0",
        "atomicAdd(&tile[t], 1)",
    ],
    ids=["used", "times zero", "masked", "atomic"],
)
def test_a_read_of_shared_memory_that_nobody_wrote_is_named(make_job: MakeJob, read: str) -> None:
    assert fault_in(make_job, TILE.replace("WRITTEN", "64").replace("READ", read)) is None
    source = TILE.replace("WRITTEN", "60").replace("READ", read)
    fault = fault_in(make_job, source)
    assert fault is not None
    assert (fault.kind, fault.line) == ("uninitialised read", line_of(source, read))
    assert fault.message.startswith("thread (63,0,0) of block (0,0,0): read of byte 252 of tile")
    assert fault.message.endswith(", which no thread of the block has written")


def test_each_block_begins_without_values(make_job: MakeJob) -> None:
    source = TILE.replace("WRITTEN", "64 - (int)blockIdx.x").replace(
        "READ", "out[64 * blockIdx.x + t] = t / 64 * tile[t]"
    )
    fault = fault_in(make_job, source, grid=(2, 1, 1))
    assert fault is not None
    assert fault.message.startswith("thread (63,0,0) of block (1,0,0): read of byte 252 of tile")


def test_a_vector_needs_all_of_its_bytes(make_job: MakeJob) -> None:
    source = r"""
extern "C" __global__ void k(int* out) {
  extern __shared__ __align__(16) int rows[];
  if (threadIdx.x % 4 < COLUMNS) rows[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = reinterpret_cast<int4*>(rows)[threadIdx.x].x;
}
"""
    assert fault_in(make_job, source.replace("COLUMNS", "4"), dynamic=256) is None
    # The members of a vector are read one by one.
    assert fault_in(make_job, source.replace("COLUMNS", "3"), dynamic=256) is None
    whole = source.replace("COLUMNS", "3").replace("rows)[threadIdx.x].x", "rows)[threadIdx.x]")
    fault = fault_in(
        make_job, whole.replace("out[threadIdx.x] =", "reinterpret_cast<int4*>(out)[threadIdx.x] ="), dynamic=256
    )
    assert fault is not None
    assert "read of byte 12 of rows" in fault.message


COPY = r"""
#include <cuda_pipeline_primitives.h>
extern "C" __global__ void k(int* out) {
  __shared__ int tile[64];
  const int t = threadIdx.x;
  __pipeline_memcpy_async(&tile[t], &out[t], 4, FILL);
  __pipeline_commit();
  WAIT
  __syncthreads();
  out[64 + t] = t / 64 * tile[t];
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fill", ["0", "4"])
def test_an_asynchronous_copy_gives_a_value_once_it_is_awaited(make_job: MakeJob, fill: str) -> None:
    source = COPY.replace("FILL", fill)
    assert fault_in(make_job, source.replace("WAIT", "__pipeline_wait_prior(0);")) is None
    fault = fault_in(make_job, source.replace("WAIT", ""))
    assert fault is not None
    assert fault.kind == "race"  # with the copy


def test_a_write_in_the_same_interval_makes_it_a_race(make_job: MakeJob) -> None:
    source = TILE.replace("WRITTEN", "64").replace("  __syncthreads();\n", "").replace("READ", "out[t] = tile[t ^ 1]")
    fault = fault_in(make_job, source)
    assert fault is not None
    assert fault.kind == "race"
    assert "of tile, with no barrier since a read by thread 0" in fault.message


CLUSTER = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* out) {
  const auto cluster = cooperative_groups::this_cluster();
  __shared__ int tile[64];
  const int t = threadIdx.x, next = 1 - cluster.block_rank();
  cluster.sync();
  if (t < WRITTEN) DESTINATION[t] = t;
  cluster.sync();
  out[64 * blockIdx.x + t] = t / 64 * SOURCE[t];
  cluster.sync();
}
"""
OWN_TILE, REMOTE_TILE = "tile", "cluster.map_shared_rank(tile, next)"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", [OWN_TILE, REMOTE_TILE], ids=["own source", "source of the other"])
@pytest.mark.parametrize("destination", [OWN_TILE, REMOTE_TILE], ids=["own destination", "destination of the other"])
def test_blocks_of_a_cluster_write_and_read_each_others_shared_memory(
    make_job: MakeJob, source: str, destination: str
) -> None:
    text = CLUSTER.replace("SOURCE", source).replace("DESTINATION", destination)
    launch = {"grid": (4, 1, 1), "cluster": 2}
    assert fault_in(make_job, text.replace("WRITTEN", "64"), **launch) is None
    fault = fault_in(make_job, text.replace("WRITTEN", "63"), **launch)
    assert fault is not None
    assert (fault.kind, fault.line) == ("uninitialised read", line_of(text, "t / 64 * "))
    assert "read of byte 252 of tile" in fault.message
    assert ("of block rank 1, which no thread has written" in fault.message) == (source == REMOTE_TILE)
