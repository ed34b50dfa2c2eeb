"""`stmatrix` on the CPU device: which lane's words make which rows, and the checks of the rows that lanes give."""

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
  unsigned words[4];
  for (int m = 0; m < 4; ++m) words[m] = A[lane * 4 + m];
  if (WHO) stmatrix_x4(ROW, words);
  BARRIER;
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = tile[31 - lane][i];
}
"""
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {"shuffle": 5},
    "sanitised": {"sanitize": True},
    "races": {"races": True, "uninitialised": True},
}


def job_of(make_job: MakeJob, *, block: int = 32, **changes: str) -> Job:
    text = SOURCE
    for word, replacement in {"WHO": "true", "ROW": "tile[lane]", "BARRIER": "__syncthreads()", **changes}.items():
        text = text.replace(word, replacement)
    arrays = {"A": np.arange(128, dtype=np.uint32) + 1000, "out": np.zeros(128, np.uint32)}
    return make_job(text, arrays, block=(block, 1, 1), alignment=16)


def fault_of(job: Job, **options: Any) -> Fault:
    (fault,) = CpuDevice(**options).run(job).faults
    return fault


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_a_transposed_row_has_an_element_of_each_of_eight_lanes(
    make_job: MakeJob, count: int, options: dict[str, Any]
) -> None:
    """Element g of row 2 * t + v is half v of the word of lane 4 * g + t. Only lanes that give addresses write."""
    changes = {"stmatrix_x4": f"stmatrix_x{count}_trans", "unsigned words[4]": f"unsigned words[{count}]"}
    changes |= {"m < 4; ++m) words": f"m < {count}; ++m) words"}
    others = f"if (lane >= {8 * count}) for (int i = 0; i < 8; ++i) tile[lane][i] = 0"
    job = job_of(make_job, BARRIER=f"{others}; __syncthreads()", **changes)
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    rows = outcome.buffers["out"].view(np.uint16).reshape(32, 8)[::-1]
    words = (np.arange(128, dtype=np.uint32) + 1000).view(np.uint16).reshape(8, 4, 4, 2)  # g, t, matrix, half
    for m in range(count):
        for r in range(8):
            assert list(rows[8 * m + r]) == list(words[:, r // 2, m, r % 2]), (m, r)
    assert not rows[8 * count :].any()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_a_row_has_a_word_of_each_of_four_lanes(make_job: MakeJob, options: dict[str, Any]) -> None:
    outcome = CpuDevice(**options).run(job_of(make_job))
    assert outcome.faults == ()
    rows = outcome.buffers["out"].reshape(32, 4)[::-1]
    for m in range(4):
        for r in range(8):
            assert list(rows[8 * m + r]) == [1000 + 4 * (4 * r + t) + m for t in range(4)], (m, r)


def test_the_write_of_a_row_is_that_of_the_lane_that_gives_its_address(make_job: MakeJob) -> None:
    job = job_of(make_job)
    writes = [record for record in CpuDevice().trace(job) if record.array == "tile" and record.kind == "write"]
    line = line_of(job, "stmatrix_x4(")
    expected = [(lane, 32 * lane, 16, line) for lane in range(32)]
    assert sorted((write.thread, write.offset, write.bytes, write.line) for write in writes) == expected


def test_a_row_that_is_not_aligned_is_a_fault(make_job: MakeJob) -> None:
    job = job_of(make_job, ROW="tile[lane] + (lane == 9)")
    fault = fault_of(job)
    assert (fault.kind, fault.line) == ("misaligned address", line_of(job, "stmatrix_x4("))
    assert "row of stmatrix at byte 292 of tile, an address that is no multiple of 16" in fault.message


@pytest.mark.parametrize(("row", "memory"), [("out + lane * 4", "global"), ("local", "local")], ids=["global", "local"])
def test_a_row_outside_shared_memory_is_a_fault(make_job: MakeJob, row: str, memory: str) -> None:
    fault = fault_of(job_of(make_job, ROW=row))
    assert fault.kind == "undefined"
    assert f"which is {memory} memory instead of shared" in fault.message


def test_rows_that_other_lanes_read_without_a_barrier_are_a_race(make_job: MakeJob) -> None:
    """The instruction waits for all lanes, but orders no accesses to memory."""
    assert fault_of(job_of(make_job, BARRIER="(void)0"), races=True).kind == "race"
    assert CpuDevice(races=True).run(job_of(make_job, BARRIER="__syncwarp()")).faults == ()


@pytest.mark.parametrize("changes", [{"WHO": "lane != 7"}, {"block": 16}], ids=["one stays away", "half a warp"])
def test_a_store_by_less_than_a_warp_is_a_fault(make_job: MakeJob, changes: dict[str, Any]) -> None:
    fault = fault_of(job_of(make_job, **changes))
    assert fault.kind == "divergence"
