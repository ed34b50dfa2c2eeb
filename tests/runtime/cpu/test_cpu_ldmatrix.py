"""`ldmatrix` on the CPU device: which lane gets which elements, and the checks of the rows that lanes give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job

MakeJob = Callable[..., Job]

# Row r of matrix m is row 8 * m + r of a tile whose rows are 16 bytes and a gap of 16.
SOURCE = r"""
extern "C" __global__ void k(const unsigned* A, unsigned* out) {
  __shared__ __align__(16) unsigned tile[32][8];
  __align__(16) unsigned local[4] = {};
  const int lane = threadIdx.x;
  for (int i = 0; i < 4; ++i) tile[lane][i] = A[lane * 4 + i];
  BARRIER;
  unsigned words[COUNT];
  if (WHO) NAME(words, ROW);
  for (int i = 0; i < COUNT; ++i) out[lane * COUNT + i] = words[i];
}
"""
NAMES = {"ldmatrix_x4": 4, "ldmatrix_x4_trans": 4}
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {"shuffle": 5},
    "sanitised": {"sanitize": True},
    "races": {"races": True, "uninitialised": True},
}


def job_of(make_job: MakeJob, name: str, *, block: int = 32, **changes: str) -> Job:
    words = {"COUNT": str(NAMES[name]), "NAME": name, "WHO": "true", "ROW": "tile[lane]", "BARRIER": "__syncthreads()"}
    text = SOURCE
    for word, replacement in {**words, **changes}.items():
        text = text.replace(word, replacement)
    elements = np.arange(256, dtype=np.uint16) + 1000  # of 32 rows of 8
    arrays = {"A": elements.view(np.uint32), "out": np.zeros(32 * NAMES[name], np.uint32)}
    return make_job(text, arrays, block=(block, 1, 1), alignment=16)


def fault_of(job: Job, **options: Any) -> Fault:
    (fault,) = CpuDevice(**options).run(job).faults
    return fault


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize("name", NAMES)
def test_a_lane_gets_two_elements_of_each_matrix(make_job: MakeJob, name: str, options: dict[str, Any]) -> None:
    outcome = CpuDevice(**options).run(job_of(make_job, name))
    assert outcome.faults == ()
    halves = outcome.buffers["out"].view(np.uint16).reshape(32, NAMES[name], 2)
    for lane in range(32):
        for m in range(NAMES[name]):
            for e in range(2):
                row, column = (lane % 4 * 2 + e, lane // 4) if "trans" in name else (lane // 4, lane % 4 * 2 + e)
                assert halves[lane, m, e] == 1000 + (8 * m + row) * 8 + column, (lane, m, e)


@pytest.mark.parametrize("name", NAMES)
def test_the_read_of_a_row_is_that_of_the_lane_that_gives_its_address(make_job: MakeJob, name: str) -> None:
    job = job_of(make_job, name)
    reads = [record for record in CpuDevice().trace(job) if record.array == "tile" and record.kind == "read"]
    line = line_of(job, f"{name}(words")
    expected = [(lane, 32 * lane, 16, line) for lane in range(8 * NAMES[name])]
    assert sorted((read.thread, read.offset, read.bytes, read.line) for read in reads) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_a_row_that_is_not_aligned_is_a_fault(make_job: MakeJob, options: dict[str, Any]) -> None:
    job = job_of(make_job, "ldmatrix_x4", ROW="tile[lane] + (lane == 9)")
    fault = fault_of(job, **options)
    assert (fault.kind, fault.line) == ("misaligned address", line_of(job, "ldmatrix_x4(words"))
    assert "row of ldmatrix at byte 292 of tile, an address that is no multiple of 16" in fault.message


@pytest.mark.parametrize(("row", "memory"), [("A + lane * 4", "global"), ("local", "local")], ids=["global", "local"])
def test_a_row_outside_shared_memory_is_a_fault(make_job: MakeJob, row: str, memory: str) -> None:
    job = job_of(make_job, "ldmatrix_x4", ROW=row)
    fault = fault_of(job)
    assert (fault.kind, fault.line) == ("undefined", line_of(job, "ldmatrix_x4(words"))
    assert f"which is {memory} memory instead of shared" in fault.message


def test_a_row_past_the_end_of_its_array_is_a_fault(make_job: MakeJob) -> None:
    fault = fault_of(job_of(make_job, "ldmatrix_x4", ROW="tile[lane + 1]"), sanitize=True)
    assert fault.kind == "out of bounds"


def test_a_row_that_other_lanes_write_is_a_race(make_job: MakeJob) -> None:
    """The instruction waits for all lanes, but orders no accesses to memory."""
    job = job_of(make_job, "ldmatrix_x4", ROW="tile[31 - lane]", BARRIER="(void)0")
    fault = fault_of(job, races=True)
    assert fault.kind == "race"
    assert fault_of(job_of(make_job, "ldmatrix_x4", BARRIER="(void)0", ROW="tile[lane ^ 1]"), races=True).kind == "race"
    assert CpuDevice(races=True).run(job_of(make_job, "ldmatrix_x4", BARRIER="__syncwarp()")).faults == ()


def test_a_row_without_values_is_a_fault(make_job: MakeJob) -> None:
    job = job_of(make_job, "ldmatrix_x4", ROW="tile[lane] + 4")
    fault = fault_of(job, races=True, uninitialised=True)
    assert (fault.kind, fault.line) == ("uninitialised read", line_of(job, "ldmatrix_x4(words"))


@pytest.mark.parametrize("changes", [{"WHO": "lane != 7"}, {"block": 16}], ids=["one stays away", "half a warp"])
def test_a_load_by_less_than_a_warp_is_a_fault(make_job: MakeJob, changes: dict[str, Any]) -> None:
    fault = fault_of(job_of(make_job, "ldmatrix_x4", **changes))
    assert fault.kind == "divergence"
