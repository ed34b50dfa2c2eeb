"""Mbarriers between threads on the CPU device: a circular buffer that a warp writes and another one reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job
from tests.drawn import examples

MakeJob = Callable[..., Job]

SOURCE = r"""
extern "C" __global__ void k(const int* P, const int* A, int* out) {
  constexpr int STAGES = 3;
  __shared__ int buffer[STAGES][32];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  const int lane = threadIdx.x % 32, fills = P[0], who = P[1];
  if (threadIdx.x == 0)
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], who ? 1 : 32);
      mbarrier_init(&empty[stage], 32);
    }
  mbarrier_init_fence();
  __syncthreads();
  for (int fill = 0; fill < fills; ++fill) {
    const int stage = fill % STAGES, phase = fill / STAGES % 2;
    if (threadIdx.x < 32) {
      mbarrier_wait(&empty[stage], phase ^ 1);
      buffer[stage][lane] = A[32 * fill + lane];
      if (who) __syncwarp();
      if (!who || lane == 0) mbarrier_arrive(&full[stage]);
    } else {
      mbarrier_wait(&full[stage], phase);
      out[32 * fill + lane] = buffer[stage][31 - lane];
      mbarrier_arrive(&empty[stage]);
    }
  }
}
"""
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {},
    "shuffled": {"shuffle": 4},
    "sanitised": {"sanitize": True},
    "races": {"races": True, "uninitialised": True},
}


def job_of(make_job: MakeJob, fills: int, *changes: tuple[str, str], one_arrives: bool = False) -> Job:
    source = SOURCE
    for before, after in changes:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    numbers = np.arange(32 * max(fills, 1), dtype=np.int32)
    arrays = {"P": np.array([fills, int(one_arrives)], np.int32), "A": numbers, "out": np.full_like(numbers, -1)}
    return make_job(source, arrays, block=(64, 1, 1))


def fault_of(job: Job, **options: Any) -> Fault:
    (fault,) = CpuDevice(**options).run(job).faults
    return fault


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fills=st.integers(1, 14), one_arrives=st.booleans())
def test_a_circular_buffer_passes_values_on(
    make_job: MakeJob, options: dict[str, Any], fills: int, one_arrives: bool
) -> None:
    """Whether each thread arrives that has written, or one for all of its warp."""
    outcome = CpuDevice(**options).run(job_of(make_job, fills, one_arrives=one_arrives))
    assert outcome.faults == ()
    rows = outcome.buffers["out"].reshape(fills, 32)
    assert (rows == np.arange(32 * fills).reshape(fills, 32)[:, ::-1]).all()


RACES = {
    "no wait of the reader": (("mbarrier_wait(&full[stage], phase);", ""), False),
    "no wait of the writer": (("mbarrier_wait(&empty[stage], phase ^ 1);", ""), False),
    "no __syncwarp before one arrives for all": (("if (who) __syncwarp();", ""), True),
    "an arrival before the read": (
        ("out[32 * fill + lane] = buffer", "mbarrier_arrive(&empty[stage]); out[32 * fill + lane] = buffer"),
        False,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("change", "one_arrives"), RACES.values(), ids=list(RACES))
def test_what_no_mbarrier_orders_is_a_race(make_job: MakeJob, change: tuple[str, str], one_arrives: bool) -> None:
    changes = [change]
    if "arrive" in change[1]:
        changes.append(("      mbarrier_arrive(&empty[stage]);\n", ""))
    fault = fault_of(job_of(make_job, 9, *changes[::-1], one_arrives=one_arrives), races=True)
    assert (fault.kind, "with no barrier since a" in fault.message) == ("race", True), fault


def test_a_wait_that_nothing_ends_is_a_hang(make_job: MakeJob) -> None:
    job = job_of(make_job, 4, ("      mbarrier_arrive(&empty[stage]);\n", ""))
    fault = fault_of(job)
    line = next(n for n, text in enumerate(job.source.split("\n"), 1) if "wait(&empty" in text)
    assert (fault.kind, fault.line) == ("hang", line)
    assert "whose phase lacks 32 of 32 arrivals and 0 bytes" in fault.message


FAULTS = {
    "no arrivals": (
        ("mbarrier_init(&empty[stage], 32)", "mbarrier_init(&empty[stage], 0)"),
        "for 0 arrivals: they are 1 to",
    ),
    "a parity beyond 1": (
        ("mbarrier_wait(&full[stage], phase);", "mbarrier_wait(&full[stage], 2);"),
        "is 0 or 1, not 2",
    ),
    "too many bytes": (
        ("mbarrier_arrive(&full[stage]);", "mbarrier_arrive_expect_tx(&full[stage], 1 << 20);"),
        "expects more than 1048575 bytes",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("change", "message"), FAULTS.values(), ids=list(FAULTS))
def test_what_the_ptx_isa_does_not_allow_is_a_fault(make_job: MakeJob, change: tuple[str, str], message: str) -> None:
    job = job_of(make_job, 4, change)
    fault = fault_of(job)
    assert (fault.kind, message in fault.message) == ("undefined", True), fault
    assert change[1] in job.source.split("\n")[fault.line - 1]
