"""Two blocks of a cluster that load half of each tile and multicast it to both, on the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job

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
    source = source.replace("RANK", rank) if rank == "3" else source.replace("8, FILLS}", "8 * FILLS}").replace("RANK", "2")
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    tiles = np.random.default_rng(1).integers(-99, 99, (FILLS, 8, 32)).astype(np.float32)
    arrays = {"A": tiles, "out": np.full((2, *tiles.shape), np.nan, np.float32)}
    job = make_job(source, arrays, grid=(2, 1, 1), block=(64, 1, 1), dynamic=2080, alignment=16, cluster=2)
    return job, np.broadcast_to(2 * tiles, (2, *tiles.shape))


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


@pytest.mark.parametrize("rank", list(LOADS))
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_both_blocks_get_both_halves_of_every_tile(make_job: MakeJob, options: dict[str, Any], rank: str) -> None:
    job, expected = job_of(make_job, rank=rank)
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    np.testing.assert_array_equal(outcome.buffers["out"], expected.ravel())
