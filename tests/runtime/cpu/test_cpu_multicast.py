"""Two blocks of a cluster that load half of each tile and multicast it to both, on the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Job

MakeJob = Callable[..., Job]
Array = NDArray[Any]

FILLS = 7

# A producer warp and a consumer warp per block. Rank r multicasts rows 4 * r to 4 * r + 3 of each tile of 8 x 32.
SOURCE = r"""
#include <cooperative_groups.h>
#include <cuda.h>
constexpr int FILLS = 7, STAGES = 2;
extern "C" __global__ void k(const float* A, float* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const CUtensorMap map = {(unsigned char*)A, {32, 8, FILLS}, {4, 128, 1024}, {32, 4, 1}, RANK, 0, 4, 0};
  float (*tile)[8][32] = reinterpret_cast<float (*)[8][32]>(shared_memory);
  unsigned long long* full = reinterpret_cast<unsigned long long*>(shared_memory + STAGES * 1024);
  unsigned long long* empty = full + STAGES;
  const auto cluster = cooperative_groups::this_cluster();
  const int thread = threadIdx.x, lane = thread % 32, rank = cluster.block_rank();
  if (thread == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2);
    }
    mbarrier_init_fence();
  }
  cluster.sync();  // initialised
  if (thread == 32) {
    for (int fill = 0; fill < FILLS; ++fill) {
      const int stage = fill % STAGES;
      mbarrier_wait(&empty[stage], (fill / STAGES + 1) % 2);
      mbarrier_arrive_expect_tx(&full[stage], 1024);
      LOAD
    }
  } else if (thread < 32) {
    for (int fill = 0; fill < FILLS; ++fill) {
      const int stage = fill % STAGES;
      mbarrier_wait(&full[stage], fill / STAGES % 2);
      for (int row = 0; row < 8; ++row)
        out[((rank * FILLS + fill) * 8 + row) * 32 + lane] = 2 * tile[stage][row][lane];
      __syncwarp();  // read
      if (lane < 2) mbarrier_arrive_cluster(&empty[stage], lane);
    }
  }
  cluster.sync();  // before the exit
}
"""
LOADS = {
    "2": "tma_load_2d_multicast(&tile[stage][4 * rank][0], &map, &full[stage], 3, 0, 8 * fill + 4 * rank);",
    "3": "tma_load_3d_multicast(&tile[stage][4 * rank][0], &map, &full[stage], 3, 0, 4 * rank, fill);",
}
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {},
    "shuffled": {"shuffle": 4},
    "sanitised": {"sanitize": True, "shuffle": 1},
    "races": {"races": True, "uninitialised": True},
    "shuffled races": {"races": True, "uninitialised": True, "shuffle": 2},
}


def job_of(make_job: MakeJob, *changes: tuple[str, str], rank: str = "3") -> tuple[Job, Array]:
    """The job with each text of `changes` replaced, and its result."""
    source = SOURCE.replace("LOAD", LOADS[rank])
    source = (
        source.replace("RANK", rank) if rank == "3" else source.replace("8, FILLS}", "8 * FILLS}").replace("RANK", "2")
    )
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    tiles = np.random.default_rng(1).integers(-99, 99, (FILLS, 8, 32)).astype(np.float32)
    arrays = {"A": tiles, "out": np.full((2, *tiles.shape), np.nan, np.float32)}
    job = make_job(source, arrays, grid=(2, 1, 1), block=(64, 1, 1), dynamic=2080, alignment=16, cluster=2)
    return job, np.broadcast_to(2 * tiles, (2, *tiles.shape))


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("rank", list(LOADS))
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_both_blocks_get_both_halves_of_every_tile(make_job: MakeJob, options: dict[str, Any], rank: str) -> None:
    job, expected = job_of(make_job, rank=rank)
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    np.testing.assert_array_equal(outcome.buffers["out"], expected.ravel())


RELEASE = "if (lane < 2) mbarrier_arrive_cluster(&empty[stage], lane);"
EXPECT = "mbarrier_arrive_expect_tx(&full[stage], 1024);"
EXIT = "  cluster.sync();  // before the exit\n"
INIT = "  cluster.sync();  // initialised\n"
BLOCKS = "&full[stage], 3, 0,"
# What is changed, the kind of the fault, what its line has and a part of its message.
FAULTS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[str, str, str]]] = {
    "no release at the peer": (
        ((RELEASE, "if (lane == 0) mbarrier_arrive_cluster(&empty[stage], rank);"),),
        ("hang", "mbarrier_wait(&empty", "lacks 1 of 2 arrivals and 0 bytes"),
    ),
    "both releases at the own block": (
        ((RELEASE, "if (lane < 2) mbarrier_arrive_cluster(&empty[stage], rank);"),),
        ("race", "tma_load_3d_multicast", "that the one in line"),
    ),
    "a release at no mbarrier": (
        ((RELEASE, "if (lane < 2) mbarrier_arrive_cluster(full - 1, lane);"),),
        ("undefined", "mbarrier_arrive_cluster", "that no thread has initialised"),
    ),
    "bytes of one half": (
        ((EXPECT, "mbarrier_arrive_expect_tx(&full[stage], 512);"),),
        ("race", "tma_load_3d_multicast", "that the one in line"),
    ),
    "bytes of three halves": (
        ((EXPECT, "mbarrier_arrive_expect_tx(&full[stage], 1536);"),),
        ("hang", "mbarrier_wait(&full", "lacks 0 of 1 arrivals and 512 bytes"),
    ),
    "a half for the own block alone": (
        ((BLOCKS, "&full[stage], 1 + 2 * rank, 0,"),),
        ("hang", "mbarrier_wait(&full", "lacks 0 of 1 arrivals and 512 bytes"),
    ),
    "an exit with no cluster barrier": (
        ((EXIT, ""),),
        ("cluster", "mbarrier_arrive_cluster", "which has ended: no cluster barrier after it"),
    ),
    "no cluster barrier after the initialisation": (
        ((INIT, "  __syncthreads();\n"),),
        ("cluster", "tma_load_3d_multicast", "may not have begun: no cluster barrier before it"),
    ),
    "an initialisation after the cluster barrier": (
        ((INIT, "  __syncthreads();\n"), ("  if (thread == 0) {\n", "  cluster.sync();\n  if (thread == 0) {\n")),
        ("undefined", "tma_load_3d_multicast", "that no thread has initialised"),
    ),
    "a block past the last one": (
        ((BLOCKS, "&full[stage], 7, 0,"),),
        ("cluster", "tma_load_3d_multicast", "rank 2 is outside a cluster of 2 blocks"),
    ),
    "no block": (
        ((BLOCKS, "&full[stage], 0, 0,"),),
        ("cluster", "tma_load_3d_multicast", "a multicast to no block of the cluster"),
    ),
    "an arrival at a block past the last one": (
        ((RELEASE, "if (lane < 2) mbarrier_arrive_cluster(&empty[stage], 2 * lane);"),),
        ("cluster", "mbarrier_arrive_cluster", "rank 2 is outside a cluster of 2 blocks"),
    ),
}


@pytest.mark.sampled(39)
@pytest.mark.whole
@pytest.mark.parametrize("seed", [None, 1, 3])
@pytest.mark.parametrize(("changes", "expected"), FAULTS.values(), ids=list(FAULTS))
def test_a_planted_fault_is_found(
    make_job: MakeJob, changes: tuple[tuple[str, str], ...], expected: tuple[str, str, str], seed: int | None
) -> None:
    kind, text, message = expected
    job, _ = job_of(make_job, *changes)
    (fault,) = CpuDevice(shuffle=seed).run(job).faults
    assert (fault.kind, text in job.source.split("\n")[fault.line - 1]) == (kind, True), fault
    assert message in fault.message


def test_a_hang_says_what_the_other_blocks_do(make_job: MakeJob) -> None:
    job, _ = job_of(make_job, (EXPECT, "mbarrier_arrive_expect_tx(&full[stage], rank == 0 ? 1536 : 1024);"))
    (fault,) = CpuDevice().run(job).faults
    assert f"; block rank 1 waits in line {line_of(job, 'mbarrier_wait(&full')}" in fault.message


@pytest.mark.parametrize("seed", [None, 1])
def test_an_mbarrier_that_no_cluster_barrier_orders_after_its_initialisation_is_a_race(
    make_job: MakeJob, seed: int | None
) -> None:
    """Rank 1 uses that of rank 0, which has happened to initialise it before, or has not."""
    changes = ((INIT, "  __syncthreads();\n"), ("  if (thread == 0) {\n", "  cluster.sync();\n  if (thread == 0) {\n"))
    job, _ = job_of(make_job, *changes, (BLOCKS, "&full[stage], 1 << rank | 1, 0,"))
    (fault,) = CpuDevice(shuffle=seed).run(job).faults
    assert fault.line == line_of(job, "tma_load_3d_multicast")
    line = line_of(job, "mbarrier_init(&full")
    messages = {
        "race": f"mbarrier of block rank 0 is used with no cluster barrier since line {line} initialised it",
        "undefined": "that no thread has initialised",
    }
    assert messages[fault.kind] in fault.message


# A warp of rank 0 writes, and another one reads once a thread of rank 1 says so.
RELAY = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* out) {
  __shared__ int values[32];
  __shared__ unsigned long long written, told;
  const auto cluster = cooperative_groups::this_cluster();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    mbarrier_init(&written, 32);
    mbarrier_init(&told, 1);
    mbarrier_init_fence();
  }
  cluster.sync();
  if (cluster.block_rank() == 1) {
    if (threadIdx.x == 0) {
      mbarrier_wait(&written, 0);
      mbarrier_arrive_cluster(&told, 0);
    }
  } else if (warp == 0) {
    BEFORE
    values[lane] = lane;
    AFTER
  } else {
    mbarrier_wait(&told, 0);
    out[lane] = values[31 - lane];
  }
  cluster.sync();
}
"""
ARRIVAL = "mbarrier_arrive_cluster(&written, 1);"


def relay(make_job: MakeJob, before: str, after: str) -> Job:
    source = RELAY.replace("BEFORE", before).replace("AFTER", after)
    return make_job(source, {"out": np.full(32, -1, np.int32)}, grid=(2, 1, 1), block=(64, 1, 1), cluster=2)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_arrivals_at_other_blocks_order_accesses(make_job: MakeJob, seed: int | None) -> None:
    outcome = CpuDevice(races=True, uninitialised=True, shuffle=seed).run(relay(make_job, "", ARRIVAL))
    assert outcome.faults == ()
    assert outcome.buffers["out"].tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_an_arrival_before_the_write_is_a_race(make_job: MakeJob, seed: int | None) -> None:
    (fault,) = CpuDevice(races=True, shuffle=seed).run(relay(make_job, ARRIVAL, "")).faults
    assert (fault.kind, "with no barrier since a write" in fault.message) == ("race", True), fault
