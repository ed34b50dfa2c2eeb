"""A GEMM by TMA, mbarriers and wgmma on the CPU device, and what is found if one of its waits, fences or arrivals is
missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job

MakeJob = Callable[..., Job]
Array = NDArray[Any]

M, N, K = 100, 136, 200

# A producer warp, a warpgroup of consumers, and a block that takes one output tile after the other.
SOURCE = r"""
#include <cuda.h>
#include <cuda_bf16.h>
constexpr int M = 100, N = 136, K = 200, BM = 64, BN = 64, BK = 64, STAGES = 3;
extern "C" __global__ void k(const __nv_bfloat16* A, const __nv_bfloat16* B, float* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const CUtensorMap A_map = {(unsigned char*)A, {K, M}, {2, 2 * K}, {BK, BM}, 2, 128, 2, 0};
  const CUtensorMap B_map = {(unsigned char*)B, {K, N}, {2, 2 * K}, {BK, BN}, 2, 128, 2, 0};
  const CUtensorMap out_map = {(unsigned char*)out, {N, M}, {4, 4 * N}, {32, BM}, 2, 128, 4, 0};
  __nv_bfloat16 (*As)[BM][BK] = reinterpret_cast<__nv_bfloat16 (*)[BM][BK]>(shared_memory);
  __nv_bfloat16 (*Bs)[BN][BK] = reinterpret_cast<__nv_bfloat16 (*)[BN][BK]>(shared_memory + 24576);
  float (*tile)[BM][32] = reinterpret_cast<float (*)[BM][32]>(shared_memory + 49152);
  unsigned long long* full = reinterpret_cast<unsigned long long*>(shared_memory + 65536);
  unsigned long long* empty = full + STAGES;
  const int thread = threadIdx.x, lane = thread % 32;
  if (thread == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 4);
    }
    mbarrier_init_fence();
  }
  __syncthreads();  // initialised
  if (thread >= 128) {
    if (thread == 128) {
      int fill = 0;
      for (int m = 0; m < M; m += BM)
        for (int n = 0; n < N; n += BN)
          for (int k = 0; k < K; k += BK, ++fill) {
            const int stage = fill % STAGES;
            mbarrier_wait(&empty[stage], (fill / STAGES + 1) % 2);
            mbarrier_arrive_expect_tx(&full[stage], 16384);
            tma_load_2d(&As[stage][0][0], &A_map, &full[stage], k, m);
            tma_load_2d(&Bs[stage][0][0], &B_map, &full[stage], k, n);
          }
    }
  } else {
    int fill = 0;
    for (int m = 0; m < M; m += BM)
      for (int n = 0; n < N; n += BN) {
        float acc[2][BN / 4];
        for (int k = 0; k < K; k += BK, ++fill) {
          const int stage = fill % STAGES;
          mbarrier_wait(&full[stage], fill / STAGES % 2);
          wgmma_fence();
          for (int kk = 0; kk < BK; kk += 16)
            wgmma_m64n64k16_bf16<false, false>(acc[0], acc[1], matrix(&As[stage][0][kk]),
                                               matrix(&Bs[stage][0][kk]), k + kk > 0);
          wgmma_commit();
          wgmma_wait<1>();
          if (k > 0 && lane == 0) mbarrier_arrive(&empty[(fill + STAGES - 1) % STAGES]);  // previous
        }
        wgmma_wait<0>();
        if (lane == 0) mbarrier_arrive(&empty[(fill + STAGES - 1) % STAGES]);  // last
        for (int chunk = 0; chunk < 2; ++chunk) {
          if (thread == 0) tma_store_wait_read<1>();
          __barrier_sync_count(1, 128);  // read
          for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 8; ++i) {
              const int row = 16 * (thread / 32) + lane / 4 + 8 * h, column = i / 2 * 8 + lane % 4 * 2 + i % 2;
              tile[chunk][row][column ^ row % 8 * 4] = acc[h][8 * chunk + i];
            }
          fence_proxy_async();
          __barrier_sync_count(1, 128);  // written
          if (thread == 0) {
            tma_store_2d(&out_map, &tile[chunk][0][0], n + 32 * chunk, m);
            tma_store_commit();
          }
        }
      }
    if (thread == 0) tma_store_wait_read<0>();
  }
}
"""
DESCRIPTOR = r"""
__device__ unsigned long long matrix(const void* element) {
  return 1ull << 62 | 64ull << 32 | (static_cast<unsigned>(__cvta_generic_to_shared(element)) & 0x3ffff) / 16;
}
"""
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {},
    "shuffled": {"shuffle": 3},
    "sanitised": {"sanitize": True, "shuffle": 8},
    "races": {"races": True, "uninitialised": True},
}


def job_of(make_job: MakeJob, *changes: tuple[str, str], threads: int = 160) -> tuple[Job, Array]:
    """The job of so many threads with each text of `changes` replaced, and the result of NumPy."""
    source = DESCRIPTOR + SOURCE
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, (rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    arrays = {"A": a, "B": b, "out": np.full((M, N), np.nan, np.float32)}
    job = make_job(source, arrays, block=(threads, 1, 1), dynamic=65536 + 48, alignment=16)
    return job, a.astype(np.float32) @ b.astype(np.float32).T


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


def fault_of(job: Job, **options: Any) -> Fault:
    (fault,) = CpuDevice(**options).run(job).faults
    return fault


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_the_product_is_that_of_numpy(make_job: MakeJob, options: dict[str, Any]) -> None:
    job, expected = job_of(make_job)
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    assert (outcome.buffers["out"].reshape(M, N) == expected).all()


FULL_WAIT = "mbarrier_wait(&full[stage], fill / STAGES % 2);"
EMPTY_WAIT = "mbarrier_wait(&empty[stage], (fill / STAGES + 1) % 2);"
RELEASE = "mbarrier_arrive(&empty[(fill + STAGES - 1) % STAGES]);"
IN_FLIGHT = "a TMA load to operands of the wgmma"
NOT_WRITTEN = "wgmma reads what the TMA load"
# What is changed, the kind of the fault, a text of its line, and one of its message.
PLANTED: dict[str, tuple[tuple[tuple[str, str], ...], str, str, str]] = {
    "no wait for a full stage": (((FULL_WAIT, ""),), "race", "&A_map, &full", IN_FLIGHT),
    "a warp that does not wait": (((FULL_WAIT, "if (thread / 32 != 2) " + FULL_WAIT),), "race", "", "no wait for it"),
    "no wait for an empty stage": (((EMPTY_WAIT, ""),), "undefined", "expect_tx", "whose phase has had all its 1"),
    "the other parity of a full stage": ((("fill / STAGES % 2", "(fill / STAGES + 1) % 2"),), "race", "", IN_FLIGHT),
    "the other parity of an empty one": ((("(fill / STAGES + 1) % 2", "fill / STAGES % 2"),), "hang", "&full", ""),
    "a stage that is never released": (((f"if (k > 0 && lane == 0) {RELEASE}", ""),), "hang", "&full", "lacks 1 of 1"),
    "a last stage that is not released": (
        ((f"if (lane == 0) {RELEASE}  // last", ""),),
        "hang",
        "&full",
        "lacks 1 of 1",
    ),
    "too many arrivals": ((("if (k > 0 && lane == 0)", "if (k > 0)"),), "hang", "&full", "others wait in line"),
    "too few bytes": ((("16384);", "8192);"),), "race", "wgmma_m64n64k16", NOT_WRITTEN),
    "too many bytes": ((("16384);", "16400);"),), "hang", "&full", "lacks 0 of 1 arrivals and 16 bytes"),
    "no bytes": ((("_expect_tx(&full[stage], 16384)", "(&full[stage])"),), "race", "wgmma_m64n64k16", NOT_WRITTEN),
    "a release before the operands were read": ((("wgmma_wait<1>();", ""),), "race", "&A_map, &full", IN_FLIGHT),
    "no wait for the accumulators": ((("wgmma_wait<0>();", ""),), "race", "&A_map, &full", IN_FLIGHT),
    "no group of wgmmas": ((("wgmma_commit();", ""),), "race", "&A_map, &full", IN_FLIGHT),
    "a group by three warps": (
        (("wgmma_commit();", "if (thread < 96) wgmma_commit();"),),
        "divergence",
        "",
        "warpgroup",
    ),
    "no fence of the accumulators": ((("wgmma_fence();", ""),), "undefined", "wgmma_m64n64k16", "no wgmma.fence"),
    "no wait for the last stores": (
        (("tma_store_wait_read<0>();", ";"),),
        "undefined",
        "&out_map, &",
        "no wait for its group",
    ),
    "no group of stores": (
        (("tma_store_commit();", ""), ("tma_store_wait_read<1>();", ";")),
        "undefined",
        "&out_map, &",
        "in no group that was committed",
    ),
    "a barrier that is not initialised": (
        (("mbarrier_init(&empty[stage], 4);", ""),),
        "undefined",
        "&empty[stage], (",
        "that no thread has initialised",
    ),
    "a barrier that is initialised twice": (
        ((("&empty[stage], 4"), "&full[stage], 4"),),
        "undefined",
        "&full[stage], 4",
        "again",
    ),
    "a barrier that is overwritten": (
        (("wgmma_fence();", "wgmma_fence(); full[stage] = 0;"),),
        "undefined",
        "",
        "overwritten",
    ),
    "a barrier off 8 bytes": (
        (("+ 65536);", "+ 65540);"),),
        "misaligned address",
        "mbarrier_init(&full",
        "no multiple of 8",
    ),
    "a barrier outside": (
        (("shared_memory + 65536", "out"),),
        "undefined",
        "mbarrier_init(&full",
        "global memory instead",
    ),
}


@pytest.mark.sampled(56)
@pytest.mark.parametrize(("changes", "kind", "line", "message"), PLANTED.values(), ids=list(PLANTED))
@pytest.mark.parametrize("options", [{}, {"shuffle": 3}], ids=["fast", "shuffled"])
def test_a_planted_fault_is_found(
    make_job: MakeJob, changes: tuple[tuple[str, str], ...], kind: str, line: str, message: str, options: dict[str, Any]
) -> None:
    job, _ = job_of(make_job, *changes)
    fault = fault_of(job, limit_seconds=20.0, **options)
    assert (fault.kind, message in fault.message) == (kind, True), fault
    assert line in job.source.split("\n")[fault.line - 1]


OVERWRITTEN = {
    "no wait for a store": ("tma_store_wait_read<1>();", ";"),
    "no barrier after it": ("__barrier_sync_count(1, 128);  // read", ""),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", OVERWRITTEN.values(), ids=list(OVERWRITTEN))
def test_what_a_store_has_not_read_is_overwritten(make_job: MakeJob, change: tuple[str, str]) -> None:
    job, expected = job_of(make_job, change)
    outcome = CpuDevice().run(job)
    assert not (outcome.buffers["out"].reshape(M, N) == expected).all()
    fault = fault_of(job, races=True)
    assert (fault.kind, fault.line) == ("race", line_of(job, "tile[chunk][row]"))
    assert f"before the wait for the asynchronous copy from it at line {line_of(job, '&out_map, &')}" in fault.message


def test_elements_outside_the_tensor_need_no_value_in_shared_memory(make_job: MakeJob) -> None:
    store = "tile[chunk][row][column ^ row % 8 * 4] = "
    job, expected = job_of(make_job, (store, f"if (m + row < M && n + 32 * chunk + column < N) {store}"))
    outcome = CpuDevice(races=True, uninitialised=True).run(job)
    assert outcome.faults == ()
    assert (outcome.buffers["out"].reshape(M, N) == expected).all()


RACES: dict[str, tuple[tuple[str, str], str]] = {
    "no proxy fence": (("fence_proxy_async();", ""), "no fence.proxy.async since thread"),
    "no barrier before a store": (("__barrier_sync_count(1, 128);  // written", ""), "with no barrier since a write"),
    "no barrier after the initialisation": (("__syncthreads();  // initialised", ""), "with no barrier since a write"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("change", "message"), RACES.values(), ids=list(RACES))
def test_a_missing_order_is_a_race(make_job: MakeJob, change: tuple[str, str], message: str) -> None:
    job, _ = job_of(make_job, change)
    fault = fault_of(job, races=True)
    assert (fault.kind, message in fault.message) == ("race", True), fault


# Arrivals of one warp in place of others

RELEASED_BY_OTHERS = (
    ("if (k > 0 && lane == 0) mbarrier_arrive", "if (k > 0 && thread < 4) mbarrier_arrive"),
    (
        "if (lane == 0) mbarrier_arrive(&empty[(fill + STAGES - 1) % STAGES]);  // last",
        "if (thread < 4) mbarrier_arrive(&empty[(fill + STAGES - 1) % STAGES]);",
    ),
)


def test_a_stage_that_one_warp_releases_for_all_is_a_race(make_job: MakeJob) -> None:
    """The number of arrivals is right, and the other warps may read the stage as it is refilled."""
    job, _ = job_of(make_job, *RELEASED_BY_OTHERS)
    fault = fault_of(job, races=True)
    assert (fault.kind, fault.line) == ("race", line_of(job, "tma_load_2d(&As"))
    assert "a TMA load to operands that the wgmma in line" in fault.message


# Registers that warpgroups give and take

GIVE = ("if (thread >= 128) {", "if (thread >= 128) { setmaxnreg_dec<40>();")
TAKE = ("} else {", "} else { setmaxnreg_inc<232>();")


def test_registers_move_between_whole_warpgroups(make_job: MakeJob) -> None:
    job, expected = job_of(make_job, GIVE, TAKE, threads=256)
    outcome = CpuDevice(shuffle=3).run(job)
    assert outcome.faults == ()
    assert (outcome.buffers["out"].reshape(M, N) == expected).all()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("change", "threads", "message"),
    [
        pytest.param(GIVE, 160, "a warpgroup of 32 threads executes line", id="a producer warp"),
        pytest.param(
            (GIVE[0], "if (thread >= 128) { if (thread == 128) setmaxnreg_dec<40>();"),
            256,
            "of a warpgroup",
            id="the producer's thread alone",
        ),
        pytest.param(
            (TAKE[0], "} else { if (thread < 96) setmaxnreg_inc<232>();"), 256, "of a warpgroup", id="three warps"
        ),
    ],
)
@pytest.mark.parametrize("shuffle", [0, 3])
def test_registers_that_a_part_of_a_warpgroup_sets_diverge(
    make_job: MakeJob, change: tuple[str, str], threads: int, message: str, shuffle: int
) -> None:
    job, _ = job_of(make_job, change, threads=threads)
    fault = fault_of(job, shuffle=shuffle, limit_seconds=20.0)
    assert (fault.kind, message in fault.message) == ("divergence", True), fault
