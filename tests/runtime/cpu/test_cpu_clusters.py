"""Clusters: blocks that run at once, read each other's shared memory and wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

HEAD = "#include <cooperative_groups.h>\n"
# Each thread of a row's blocks gets the sum over all of them: a slot for each block, read in the order of the ranks.
SUMS = r"""
extern "C" __global__ void k(const int* x, int* out) {
  const auto cluster = cooperative_groups::this_cluster();
  __shared__ int parts[64];
  __shared__ int block_sum;
  parts[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < 64; ++i) sum += parts[i];
    block_sum = sum;
  }
  BEFORE
  int sum = 0;
  for (int rank = 0; rank < 4; ++rank) sum += *cluster.map_shared_rank(&block_sum, rank);
  BETWEEN
  if (threadIdx.x == 0) block_sum = -1000;
  AFTER
  out[blockIdx.x * 64 + threadIdx.x] = sum + 1000000 * cluster.block_rank() + 10000000 * cluster.num_blocks();
}
"""
SYNC = "cluster.sync();"
BLOCKS = 12


def source(before=SYNC, between=SYNC, after=""):
    return HEAD + SUMS.replace("BEFORE", before).replace("BETWEEN", between).replace("AFTER", after)


def played(make_job, device, text, *, blocks=BLOCKS):
    x = np.random.default_rng(1).integers(-99, 99, BLOCKS * 64).astype(np.int32)
    arrays = {"x": x, "out": np.zeros(BLOCKS * 64, np.int32)}
    outcome = device.run(make_job(text, arrays, grid=(blocks, 1, 1), block=(64, 1, 1), cluster=4))
    sums = np.repeat(x.reshape(-1, 256).sum(1), 256)
    ranks = np.tile(np.repeat(np.arange(4), 64), BLOCKS // 4)
    return outcome, sums + 1_000_000 * ranks + 40_000_000


DEVICES = [
    {},
    {"shuffle": 3},
    pytest.param({"sanitize": True}, marks=pytest.mark.slow),
    pytest.param({"races": True, "shuffle": 1}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("settings", DEVICES, ids=str)
def test_blocks_of_a_cluster_read_each_others_shared_memory(make_job, settings):
    outcome, expected = played(make_job, CpuDevice(**settings), source())
    assert not outcome.faults
    np.testing.assert_array_equal(outcome.buffers["out"], expected)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_missing_barrier_before_reading_is_a_fault(make_job, seed):
    outcome, _ = played(make_job, CpuDevice(shuffle=seed), source(before="__syncthreads();"))
    assert "may not have begun: no cluster barrier before it" in outcome.faults[0].message


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_shared_memory_that_changes_before_all_have_read_it_gives_a_wrong_result(make_job, seed):
    outcome, expected = played(make_job, CpuDevice(shuffle=seed), source(between="", after=SYNC))
    assert not outcome.faults
    assert (outcome.buffers["out"] != expected).any()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_block_that_ends_while_others_read_its_shared_memory_is_a_fault(make_job, seed):
    outcome, _ = played(
        make_job, CpuDevice(shuffle=seed), source(between="").replace("if (threadIdx.x == 0) block_sum = -1000;", "")
    )
    assert "which has ended: no cluster barrier after it" in outcome.faults[0].message


def test_writes_into_another_block_arrive(make_job):
    text = (
        HEAD
        + r"""
extern "C" __global__ void k(int* out) {
  const auto cluster = cooperative_groups::this_cluster();
  extern __shared__ __align__(16) unsigned char shared_memory[];
  int* const from = reinterpret_cast<int*>(shared_memory);
  cluster.sync();
  const int next = (cluster.block_rank() + 1) % cluster.num_blocks();
  cluster.map_shared_rank(from, next)[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
  cluster.sync();
  out[blockIdx.x * 32 + threadIdx.x] = from[threadIdx.x];
}
"""
    )
    job = make_job(text, {"out": np.zeros(8 * 32, np.int32)}, grid=(4, 2, 1), cluster=2, dynamic=128)
    outcome = CpuDevice(shuffle=2).run(job)
    assert not outcome.faults
    blocks = np.array([1, 0, 3, 2])
    expected = (blocks[:, None] * 100 + np.arange(32)).ravel()
    np.testing.assert_array_equal(outcome.buffers["out"][:128], expected)


WRONG = {
    "another line": (
        source(before=f"if (blockIdx.x % 4 != 2) {SYNC}\nelse\n{SYNC}"),
        "while another block waits in line",
    ),
    "a block ends": (source(before=f"if (blockIdx.x % 4 == 2) return; {SYNC}"), "while another block has ended"),
    "a thread ends": (source(before=f"if (threadIdx.x == 5) return; {SYNC}"), "while thread (5,0,0) has returned"),
    "rank": (source().replace("_sum, rank", "_sum, rank + 1"), "rank 4 is outside a cluster of 4 blocks"),
    "address": (
        source().replace("const int*", "int*").replace("rank(&block_sum", "rank(&x[0]"),
        "outside shared memory",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_a_cluster_may_not_do_is_a_fault(make_job, text, message):
    outcome, _ = played(make_job, CpuDevice(), text)
    assert message in outcome.faults[0].message


def test_a_grid_that_clusters_dont_divide_is_a_fault(make_job):
    outcome, _ = played(make_job, CpuDevice(), source(), blocks=10)
    assert "no multiple of the cluster size 4: 10" in outcome.faults[0].message


@pytest.mark.slow
def test_the_sanitizer_sees_past_the_end_of_another_blocks_array(make_job):
    text = source().replace("*cluster.map_shared_rank(&block_sum, rank)", "cluster.map_shared_rank(parts, rank)[64]")
    outcome, _ = played(make_job, CpuDevice(sanitize=True), text)
    assert outcome.faults
