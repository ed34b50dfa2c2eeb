"""Barriers of some of a block's warps: who waits for whom, what orders memory, and what is a fault."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice
from cugen.toolchain import cuda

# Teams take a different number of rounds, so that they can't wait for each other.
EXCHANGE = r"""
extern "C" __global__ void k(const int* in, int* out, int threads) {
  __shared__ int tile[256];
  const int t = threadIdx.x, group = t / threads, first = group * threads;
  int v = in[t];
  for (int round = 0; round < 2 + group; ++round) {
    tile[t] = v;
    __barrier_sync_count(1 + group, threads);
    v = 3 * v + tile[first + (t - first + 37) % threads];
    __barrier_sync_count(1 + group, threads);
  }
  out[t] = v;
}
"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("warps", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": 3}, {"races": True}, {"races": True, "shuffle": 1}, {"sanitize": True}],
    ids=str,
)
def test_warp_groups_exchange_values_without_waiting_for_each_other(make_job, options, warps):
    values, threads = np.arange(256, dtype=np.int32) ** 2 % 101, 32 * warps
    job = make_job(
        EXCHANGE, {"in": values, "out": np.zeros(256, np.int32)}, params={"threads": threads}, block=(256, 1, 1)
    )
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    expected = values.reshape(-1, threads).copy()
    for group, row in enumerate(expected):
        for _ in range(2 + group):
            row[:] = 3 * row + np.roll(row, -37)
    np.testing.assert_array_equal(outcome.buffers["out"], expected.ravel())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", [compiler.name for compiler in cuda.compilers()])
def test_cuda_knows_the_barrier_without_an_include(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))
    assert "k" in cuda.compile_cubin(EXCHANGE, "k", "sm_90", prefer=compiler).kernels


LAST_WARP = r"""
extern "C" __global__ void k(int* out) {
  __shared__ int tile[48];
  const int t = threadIdx.x;
  tile[t] = t;
  __barrier_sync_count(1, 64);
  out[t] = tile[47 - t];
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"shuffle": 2}, {"races": True}], ids=str)
def test_a_blocks_last_warp_counts_as_a_whole_one(make_job, options):
    outcome = CpuDevice(**options).run(make_job(LAST_WARP, {"out": np.zeros(48, np.int32)}, block=(48, 1, 1)))
    assert outcome.faults == ()
    assert outcome.buffers["out"].tolist() == list(range(47, -1, -1))


STATEMENTS = r"""
extern "C" __global__ void k(float* out) {
  const int t = threadIdx.x, warp = t / 32;
  if (FIRST)
    __barrier_sync_count(ARGUMENTS);
  else
    OTHERWISE;
}
"""


def fault_in(make_job, first, barrier, otherwise="", *, threads=128, shuffle=None):
    """The fault of threads that come to the barrier in line 5 if `first`, and else to `otherwise` in line 7."""
    source = STATEMENTS.replace("FIRST", first).replace("ARGUMENTS", barrier).replace("OTHERWISE", otherwise)
    job = make_job(source, {"out": np.zeros(1, np.float32)}, block=(threads, 1, 1))
    (fault,) = CpuDevice(shuffle=shuffle).run(job).faults
    assert fault.kind == "divergence"
    return fault


@pytest.mark.parametrize("barrier", [0, 16])
def test_the_blocks_own_barrier_and_those_that_a_block_lacks_have_no_count(make_job, barrier):
    fault = fault_in(make_job, "true", f"{barrier}, 64")
    assert fault.line == 5
    assert f"bar.sync {barrier}: the named barriers of a block are 1 to 15" in fault.message


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("count", "threads"), [(0, 128), (48, 128), (160, 128), (96, 48)])
def test_a_count_is_of_whole_warps_of_the_block(make_job, count, threads):
    fault = fault_in(make_job, "true", f"1, {count}", threads=threads)
    assert fault.line == 5
    assert f"bar.sync of {count} threads: not a positive multiple of 32 in a block of {threads}" in fault.message


@pytest.mark.parametrize("shuffle", [None, 4])
def test_threads_at_one_barrier_agree_on_its_count(make_job, shuffle):
    fault = fault_in(make_job, "true", "1, warp == 3 ? 64 : 128", shuffle=shuffle)
    assert fault.line == 5
    assert "bar.sync 1 with a count of " in fault.message
    assert {"128", "64"} <= set(fault.message.replace(",", "").split())


@pytest.mark.parametrize("shuffle", [None, 4])
def test_threads_at_one_barrier_are_at_one_line(make_job, shuffle):
    fault = fault_in(make_job, "warp < 2", "1, 128", "__barrier_sync_count(1, 128)", shuffle=shuffle)
    assert fault.line in (5, 7)
    assert "waits in line 5" in fault.message
    assert "waits in line 7" in fault.message


@pytest.mark.covering
@pytest.mark.parametrize("shuffle", [None, 4])
@pytest.mark.parametrize(
    ("first", "barrier"),
    [("t % 32 < 16", "1, 64"), ("true", "1 + t % 2, 64")],
    ids=["half of each", "two groups in each"],
)
def test_a_warp_is_at_a_barrier_as_a_whole(make_job, first, barrier, shuffle):
    fault = fault_in(make_job, first, barrier, shuffle=shuffle)
    assert fault.line == 5
    assert "64 threads arrived at the named barrier in line 5 without thread " in fault.message
    assert "of an arriving warp" in fault.message


def test_two_warp_groups_at_one_barrier_are_detected_in_a_random_order(make_job):
    fault = fault_in(make_job, "true", "1, 64", shuffle=5)
    assert "64 threads arrived at the named barrier in line 5 without thread " in fault.message


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shuffle", [None, 4])
@pytest.mark.parametrize(
    ("first", "barrier", "otherwise", "words"),
    [
        ("warp != 2", "1, 128", "return", "while thread (64,0,0) has returned"),
        ("warp != 2", "1, 128", "__syncthreads()", "while thread (64,0,0) waits in line 7"),
        ("true", "1 + warp, 64", "", "for threads that never arrive"),
        ("t != 5", "1, 128", "return", "while thread (5,0,0) has returned"),
    ],
    ids=["returned", "waits for the block", "waits at another barrier", "a lane returned"],
)
def test_a_warp_that_never_comes_is_a_fault_and_no_hang(make_job, first, barrier, otherwise, words, shuffle):
    fault = fault_in(make_job, first, barrier, otherwise, shuffle=shuffle)
    assert fault.line == 5
    assert "at the barrier in line 5" in fault.message
    assert words in fault.message


ORDER = r"""
extern "C" __global__ void k(int* out) {
  __shared__ int tile[128];
  const int t = threadIdx.x, warp = t / 32;
  tile[t] = t;
  BARRIER
  out[128 * blockIdx.x + t] = tile[t ^ FLIP];
  AFTER
}
"""
OF_PAIRS = "__barrier_sync_count(1 + warp / 2, 64);"
OF_OTHER_PAIRS = "__barrier_sync_count(3 + warp % 2, 64);"
OF_ALL = "__barrier_sync_count(5, 128);"
OF_EACH = "__barrier_sync_count(6 + warp, 32);"


def order(barrier, flip, after=""):
    return ORDER.replace("BARRIER", barrier).replace("FLIP", str(flip)).replace("AFTER", after)


def races_in(make_job, source, *, blocks=1, shuffle=None):
    """The lines of the two accesses of each race."""
    job = make_job(source, {"out": np.zeros(128 * blocks, np.int32)}, grid=(blocks, 1, 1), block=(128, 1, 1))
    faults = CpuDevice(races=True, shuffle=shuffle).run(job).faults
    assert all(fault.kind == "race" and "of tile" in fault.message for fault in faults)
    return [{fault.line, int(fault.message.rsplit(" ", 1)[1])} for fault in faults]


@pytest.mark.sampled(22)
@pytest.mark.parametrize("shuffle", [None, 6])
@pytest.mark.parametrize(
    ("barrier", "flip", "races"),
    [
        (OF_PAIRS, 1, []),
        (OF_PAIRS, 32, []),
        (OF_PAIRS, 64, [{5, 7}]),
        (OF_OTHER_PAIRS, 32, [{5, 7}]),
        (OF_OTHER_PAIRS, 64, []),
        (OF_PAIRS + OF_OTHER_PAIRS, 32, []),
        (OF_PAIRS + OF_OTHER_PAIRS, 64, []),
        (OF_ALL, 96, []),
        (OF_EACH, 1, []),
        (OF_EACH, 32, [{5, 7}]),
    ],
)
def test_a_barrier_orders_the_memory_of_those_who_met_there(make_job, barrier, flip, races, shuffle):
    assert races_in(make_job, order(barrier, flip), shuffle=shuffle) == races


@pytest.mark.parametrize("shuffle", [None, 6])
def test_a_barrier_in_one_block_orders_nothing_in_the_next(make_job, shuffle):
    source = order("if (blockIdx.x != 1) " + OF_PAIRS, 32)
    assert races_in(make_job, source, blocks=1, shuffle=shuffle) == []
    assert races_in(make_job, source, blocks=3, shuffle=shuffle) == [{5, 7}]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shuffle", [None, 6])
@pytest.mark.parametrize(("after", "races"), [(OF_PAIRS, []), ("__syncwarp();", [{7, 9}]), (OF_OTHER_PAIRS, [{7, 9}])])
def test_a_barrier_orders_nothing_that_comes_after_it(make_job, after, races, shuffle):
    source = order(OF_PAIRS, 32, after + "\ntile[t] = 0;")
    assert races_in(make_job, source, shuffle=shuffle) == races


MANY_READERS = r"""
extern "C" __global__ void k(int* out) {
  __shared__ int tile[1];
  const int t = threadIdx.x, warp = t / 32;
  if (t == 0) tile[0] = 1;
  __syncthreads();
  if (warp < READERS) out[t] = tile[0];
  if (warp != 2) __barrier_sync_count(1, 96);
  if (t == 127) tile[0] = 2;
}
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shuffle", [None, 6])
@pytest.mark.parametrize(("readers", "races"), [(2, []), (3, [{7, 9}])])
def test_no_reader_is_lost_among_many_whom_a_barrier_orders(make_job, readers, races, shuffle):
    assert races_in(make_job, MANY_READERS.replace("READERS", str(readers)), shuffle=shuffle) == races
