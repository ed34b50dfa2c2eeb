"""What goes wrong in a kernel comes back as a fault that says where."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from cugen.runtime.cpu import CpuDevice

DEVIANT = r"""
extern "C" __global__ void barriers(float* out) {
  if (threadIdx.x < 3) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
extern "C" __global__ void leaves(float* out) {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
extern "C" __global__ void warp(float* out) {
  if (threadIdx.x & 1)
    out[0] = __shfl_sync(0xffffffffu, 1.0f, 0);
}
extern "C" __global__ void outside(float* out) {
  __syncwarp(2u);
}
extern "C" __global__ void traps(float* out) {
  if (threadIdx.x == 3) __trap();
}
extern "C" __global__ void asserts(float* out) {
  assert(threadIdx.x < 3);
}
extern "C" __global__ void hangs(float* out) {
  volatile float* p = out;
  while (*p == 0.0f) {}
}
extern "C" __global__ void recurses(float* out) {
  char frame[1 << 19];
  for (int i = 1 << 19; i > 0; i -= 1024) *(volatile char*)(frame + i - 1) = 1;
}
extern "C" __global__ void wild(float* out) {
  *(volatile float*)64 = 1.0f;
}
extern "C" __global__ void divides(float* out) {
  out[0] = 5 / (int)out[1];
}
"""


def line_of(source, text, number=0):
    """The line of the given occurrence of `text`."""
    occurrences = [line for line, content in enumerate(source.split("\n"), 1) if text in content]
    return occurrences[number]


def fault_of(make_job, source, kernel, *, block=(8, 1, 1), device=None, out=8):
    job = make_job(
        source, {"out": np.zeros(out, np.float32)}, outputs=("out",), block=block, launches=((kernel, ("out",)),)
    )
    (fault,) = (device or CpuDevice()).run(job).faults
    return fault


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"shuffle": 4}, {"sanitize": True}], ids=str)
def test_a_divergent_barrier_names_both_lines(make_job, options):
    fault = fault_of(make_job, DEVIANT, "barriers", device=CpuDevice(**options))
    lines = {line_of(DEVIANT, "__syncthreads", 0), line_of(DEVIANT, "__syncthreads", 1)}
    assert fault.kind == "divergence"
    assert fault.line in lines
    assert all(f"line {line}" in fault.message for line in lines)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"shuffle": 4}, {"sanitize": True}], ids=str)
def test_a_thread_that_returned_while_others_wait_is_named(make_job, options):
    fault = fault_of(make_job, DEVIANT, "leaves", device=CpuDevice(**options))
    assert (fault.kind, fault.line) == ("divergence", line_of(DEVIANT, "__syncthreads", 2))
    assert "thread (5,0,0) has returned" in fault.message


def test_a_warp_collective_that_waits_for_lanes_that_never_come_is_a_fault(make_job):
    fault = fault_of(make_job, DEVIANT, "warp")
    assert (fault.kind, fault.line) == ("divergence", line_of(DEVIANT, "__shfl_sync"))
    assert "thread (0,0,0) has returned" in fault.message


def test_a_lane_outside_its_own_mask_is_a_fault(make_job):
    fault = fault_of(make_job, DEVIANT, "outside")
    assert (fault.kind, fault.line) == ("divergence", line_of(DEVIANT, "__syncwarp"))
    assert "thread (0,0,0)" in fault.message


def test_a_trap_has_its_line_and_thread(make_job):
    fault = fault_of(make_job, DEVIANT, "traps")
    assert (fault.kind, fault.line) == ("trap", line_of(DEVIANT, "__trap"))
    assert "thread (3,0,0) of block (0,0,0)" in fault.message


def test_a_failed_assertion_has_its_line(make_job):
    fault = fault_of(make_job, DEVIANT, "asserts")
    assert (fault.kind, fault.line) == ("crash", line_of(DEVIANT, "assert("))
    assert "threadIdx.x < 3" in fault.message


def test_a_hang_ends_at_the_limit(make_job):
    fault = fault_of(make_job, DEVIANT, "hangs", device=CpuDevice(limit_seconds=0.3))
    assert fault.kind == "hang"
    assert "0.3 s" in fault.message


TRAPS_DIVISION = platform.machine() == "x86_64"  # AArch64 gives 0, as GPUs do without a fault


@pytest.mark.parametrize("kernel", ["wild", "recurses", *(["divides"] if TRAPS_DIVISION else [])])
def test_a_crash_is_a_fault_with_its_line(make_job, kernel):
    fault = fault_of(make_job, DEVIANT, kernel)
    first = line_of(DEVIANT, f"void {kernel}")
    assert fault.kind == "crash"
    assert first < fault.line <= first + 2


BOUNDS = r"""
extern "C" __global__ void k(const float* in, float* out, int at, int to) {
  float v = in[at];
  out[to] = v;
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize(
    ("read_index", "write_index", "line", "words"),
    [
        (10, 0, 3, ("read", "0 bytes past the end of in")),
        (-200000, 0, 3, ("before the start of in",)),
        (0, 12, 4, ("write", "8 bytes past the end of out")),
        (0, 1500, 4, ("write", "5960 bytes past the end of out")),
    ],
)
def test_an_access_outside_a_buffer_names_it_and_the_line(make_job, sanitize, read_index, write_index, line, words):
    job = make_job(
        BOUNDS,
        {"in": np.ones(10, np.float32), "out": np.zeros(10, np.float32)},
        params={"at": read_index, "to": write_index},
        block=(1, 1, 1),
    )
    (fault,) = CpuDevice(sanitize=sanitize).run(job).faults
    assert fault.line == line
    assert fault.kind == "out of bounds"
    assert all(word in fault.message for word in words)


def test_a_write_just_before_a_buffer_damages_a_canary(make_job):
    job = make_job(
        BOUNDS,
        {"in": np.ones(10, np.float32), "out": np.zeros(10, np.float32)},
        params={"at": 0, "to": -2},
        block=(1, 1, 1),
    )
    (fault,) = CpuDevice().run(job).faults
    assert fault.kind == "out of bounds"
    assert "8 bytes before the start of out" in fault.message
    (fault,) = CpuDevice(sanitize=True).run(job).faults
    assert (fault.kind, fault.line) == ("out of bounds", 4)


def test_alignment_leaves_no_gap_that_the_canary_does_not_watch(make_job):
    job = make_job(
        BOUNDS,
        {"in": np.ones(10, np.float32), "out": np.zeros(9, np.float32)},
        params={"at": 0, "to": 9},
        block=(1, 1, 1),
        alignment=16,
    )
    (fault,) = CpuDevice().run(job).faults
    assert "0 bytes past the end of out" in fault.message


WRITES_INPUT = r"""
extern "C" __global__ void k(const float* in, float* out) {
  const_cast<float*>(in)[1] = 2.0f;
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sanitize", [False, True])
def test_a_write_to_an_input_is_a_fault(make_job, sanitize):
    job = make_job(WRITES_INPUT, {"in": np.ones(10, np.float32), "out": np.zeros(10, np.float32)}, block=(1, 1, 1))
    (fault,) = CpuDevice(sanitize=sanitize).run(job).faults
    assert (fault.kind, fault.line) == ("read only", 3)
    assert "the input in at byte 4" in fault.message


SHARED_BOUNDS = r"""
extern "C" __global__ void fixed(float* out) {
  __shared__ float tile[8];
  float* p = tile;
  p[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void dynamic(float* out) {
  extern __shared__ float storage[];
  storage[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = storage[threadIdx.x];
}
extern "C" __global__ void skewed(float* out) {
  out[1] = reinterpret_cast<float2*>(out + 1)->x;
}
"""


@pytest.mark.parametrize(("kernel", "line", "dynamic"), [("fixed", 5, 0), ("dynamic", 11, 32)])
def test_the_sanitizer_watches_the_end_of_shared_memory(make_job, kernel, line, dynamic):
    job = make_job(
        SHARED_BOUNDS,
        {"out": np.zeros(8, np.float32)},
        block=(8, 1, 1),
        dynamic=dynamic,
        launches=((kernel, ("out",)),),
    )
    (fault,) = CpuDevice(sanitize=True).run(job).faults
    assert (fault.kind, fault.line) == ("out of bounds", line)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"sanitize": True}, {"races": True}], ids=str)
def test_a_misaligned_vector_is_a_fault(make_job, options):
    fault = fault_of(make_job, SHARED_BOUNDS, "skewed", device=CpuDevice(**options), block=(1, 1, 1))
    assert (fault.kind, fault.line) == ("misaligned address", 16)
    assert fault.message.endswith("access at byte 4 of out, an address that is no multiple of 8")


READ_PREVIOUS = r"""
extern "C" __global__ void k(float* out) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x;
  BARRIER
  out[threadIdx.x] = tile[threadIdx.x == 0 ? 0 : threadIdx.x - 1];
}
"""


def test_a_missing_barrier_is_a_wrong_answer_when_shuffled(make_job, nans):
    expected = np.maximum(np.arange(64) - 1, 0)

    def result(barrier, **options):
        source = READ_PREVIOUS.replace("BARRIER", barrier)
        return CpuDevice(**options).run(make_job(source, {"out": nans(64)}, block=(64, 1, 1))).buffers["out"]

    np.testing.assert_array_equal(result("__syncthreads();", shuffle=1), expected)
    np.testing.assert_array_equal(result(";"), expected)  # in order the bug doesn't show
    assert not np.array_equal(result(";", shuffle=1), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("barrier", "block", "racy"),
    [
        ("__syncthreads();", 64, False),
        ("__syncwarp();", 32, False),
        (";", 32, True),
        ("__syncwarp();", 64, True),
        ("__any_sync(0xffffffffu, 1);", 32, True),
    ],
)
def test_a_race_on_shared_memory_names_both_lines(make_job, nans, barrier, block, racy):
    source = READ_PREVIOUS.replace("BARRIER", barrier)
    faults = CpuDevice(races=True).run(make_job(source, {"out": nans(64)}, block=(block, 1, 1))).faults
    if not racy:
        assert faults == ()
        return
    (fault,) = faults
    assert fault.kind == "race"
    assert {fault.line} | {int(fault.message.rsplit(" ", 1)[1])} == {4, 6}
    assert "of tile" in fault.message


# The lane that writes is the last to go on from the first barrier.
ALL_READ = r"""
extern "C" __global__ void k(float* out) {
  __shared__ float tile[1];
  const int t = threadIdx.x;
  if (t == 0) tile[0] = 1.0f;
  __syncwarp();
  out[t] = tile[0];
  BARRIER
  if (t == 30) tile[0] = 2.0f;
}
"""


@pytest.mark.parametrize(
    ("barrier", "kinds"), [("", ["race"]), ("__syncwarp();", []), ("__syncwarp(); if (t == 30) out[0] = tile[0];", [])]
)
def test_who_writes_what_all_lanes_have_read_must_have_met_each_of_them(make_job, nans, barrier, kinds):
    job = make_job(ALL_READ.replace("BARRIER", barrier), {"out": nans(32)}, block=(32, 1, 1))
    assert [fault.kind for fault in CpuDevice(races=True).run(job).faults] == kinds


COUNTED = """extern "C" __global__ void k(float* out) {
  __shared__ int count;
  const int t = threadIdx.x;
  if (t == 0) { count = 0; atomicAdd(&count, 1); }
  BARRIER
  if (t == 32) out[t] = atomicAdd(&count, 1);
}
"""


@pytest.mark.parametrize(("barrier", "kinds"), [("", ["race"]), ("__syncthreads();", [])])
def test_an_atomic_does_not_hide_the_write_before_it(make_job, nans, barrier, kinds):
    job = make_job(COUNTED.replace("BARRIER", barrier), {"out": nans(64)}, block=(64, 1, 1))
    assert [fault.kind for fault in CpuDevice(races=True).run(job).faults] == kinds
