"""Faults planted into generated kernels: the CPU device names each of them, and none in the kernel as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

TILED = """
params: {M: 40, K: 33, N: 50}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, thread: {m: 1, n: 1}, step: {k: 16}}
"""


@cache
def made(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    return generate(spec, analysis=False)


def mutated(kernel: Kernel, before: str, after: str, number: int = 0) -> str:
    """The source with occurrence `number` of `before` replaced."""
    parts = kernel.source.split(before)
    assert len(parts) > number + 1, f"{before!r} is not in\n{kernel.source}"
    return before.join(parts[: number + 1]) + after + before.join(parts[number + 1 :])


def faults_of(kernel: Kernel, source: str, device: CpuDevice) -> tuple[Fault, ...]:
    run = verify(kernel.spec, source, kernel.manifest, device)
    assert run.outcome.faults or run.verification.passed, "\n".join(run.verification.messages)
    return run.outcome.faults


def line_of(source: str, text: str) -> int:
    return next(number for number, line in enumerate(source.split("\n"), 1) if text in line)


DEVICES = {"fast": {}, "sanitised": {"sanitize": True}, "races": {"races": True}}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_more_threads_than_the_launch_bounds_are_refused(options: dict[str, Any]) -> None:
    kernel = made(TILED)
    assert faults_of(kernel, kernel.source, CpuDevice(**options)) == ()
    source = mutated(kernel, "__launch_bounds__(256)", "__launch_bounds__(128)")
    (fault,) = faults_of(kernel, source, CpuDevice(**options))
    assert (fault.kind, fault.line) == ("launch", line_of(source, "__launch_bounds__"))
    assert "256 threads per block, its launch bounds are 128" in fault.message


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_more_static_shared_memory_than_a_block_has_is_refused(options: dict[str, Any]) -> None:
    kernel = made(TILED)
    source = mutated(kernel, "As[BM][BK]", "As[BM][48 * BK]")
    (fault,) = faults_of(kernel, source, CpuDevice(**options))
    assert fault.kind == "launch"
    assert f"{16 * 48 * 16 * 4 + 16 * 16 * 4} bytes of static" in fault.message


VECTORS = """
params: {M: 40, K: 32, N: 64}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 3, addressing: indexed}
"""


STREAMED = """
params: {N: 5000}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i] + 1
schedule: {block: {i: 128}, thread: {i: 4}}
"""


@pytest.mark.sampled(16)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize(
    ("text", "before", "after", "access", "array"),
    [
        pytest.param(
            VECTORS, "load<4>(&Bs[read_stage]", "load<4>(1 + &Bs[read_stage]", "access", "Bs", id="shared load"
        ),
        pytest.param(VECTORS, "store<4>(&C[", "store<4>(2 + &C[", "access", "C", id="global store"),
        pytest.param(STREAMED, "&x[", "1 + &x[", "access", "x", id="global load"),
        pytest.param(VECTORS, "[b_j], &b", "[b_j + 1], &b", "asynchronous copy", "Bs", id="copy to shared"),
        pytest.param(VECTORS, "[b_j], &b", "[b_j], 1 + &b", "asynchronous copy", "B", id="copy from global"),
    ],
)
def test_a_misaligned_vector_is_named(
    options: dict[str, Any], text: str, before: str, after: str, access: str, array: str
) -> None:
    kernel = made(text)
    assert faults_of(kernel, kernel.source, CpuDevice(**options)) == ()
    source = mutated(kernel, before, after)
    (fault,) = faults_of(kernel, source, CpuDevice(**options))
    assert (fault.kind, fault.line) == ("misaligned address", line_of(source, after))
    assert f"{access} at byte " in fault.message
    assert f" of {array}, an address that is no multiple of " in fault.message


# Blocks that wait for each other's flags, and blocks of which the last to arrive reads what all have stored.
LOOK_BACK = """
params: {N: 1500}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = cumsum(x[i], i)
schedule: {algorithm: look_back, threads: 64, vectors: 1}
"""
SPLIT_K = """
params: {M: 40, K: 128, N: 60}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule:
  {family: gemm, block: {i: 32, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, split_k: 4, reduction: workspace}
"""
FENCE = "__threadfence();"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [LOOK_BACK, SPLIT_K], ids=["look-back", "split-K"])
def test_flags_and_arrival_counters_with_fences_order_blocks(text: str) -> None:
    kernel = made(text)
    assert faults_of(kernel, kernel.source, CpuDevice(races=True)) == ()


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("text", "before", "after", "number", "array"),
    [
        pytest.param(LOOK_BACK, FENCE, "", 0, "y_sums", id="flag without a fence before it"),
        pytest.param(LOOK_BACK, FENCE, "", 1, "y_sums", id="flag without a fence after it"),
        pytest.param(LOOK_BACK, FENCE, "__threadfence_block();", 0, "y_sums", id="fence of a block"),
        pytest.param(LOOK_BACK, "__ldcv(&y_flags[predecessor])", "y_flags[predecessor]", 0, "y_flags", id="plain poll"),
        pytest.param(
            LOOK_BACK,
            "atomicExch(&y_flags[block_id + 1], 1)",
            "y_flags[block_id + 1] = 1",
            0,
            "y_flags",
            id="plain flag",
        ),
        pytest.param(LOOK_BACK, "atomicAdd(&y_flags[0], 1)", "y_flags[0]++", 0, "y_flags", id="plain block id"),
        pytest.param(SPLIT_K, FENCE, "", 0, "C_partials", id="counter without a fence before it"),
        pytest.param(SPLIT_K, FENCE, "", 1, "C_partials", id="counter without a fence after it"),
        pytest.param(
            SPLIT_K, "atomicInc(&C_arrivals[tile], 3)", "C_arrivals[tile]++", 0, "C_arrivals", id="plain counter"
        ),
    ],
)
def test_blocks_that_no_fence_and_flag_order_race(text: str, before: str, after: str, number: int, array: str) -> None:
    kernel = made(text)
    (fault,) = faults_of(kernel, mutated(kernel, before, after, number), CpuDevice(races=True))
    assert fault.kind == "race"
    assert f" of {array}, which thread " in fault.message
    assert fault.line > 0


POLLED = r"""
extern "C" __global__ void k(float* out, float* data, int* flags) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = 2.0f;
    __syncthreads();
    __threadfence();
    if (threadIdx.x == 0) PUBLISH
  } else {
    if (threadIdx.x == 5) {
      while (*(POLL int*)flags != 1) __nanosleep(32);
      __threadfence();
    }
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];
  }
}
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("publish", "poll", "kinds"),
    [
        ("atomicExch(flags, 1);", "volatile", ()),
        ("*(volatile int*)flags = 1;", "volatile", ()),
        ("*flags = 1;", "volatile", ("race",)),
        ("atomicExch(flags, 1);", "", ("race",)),
        ("{ data[0] = 3.0f; atomicExch(flags, 1); }", "volatile", ("race",)),
    ],
)
def test_volatile_accesses_count_as_flags(
    make_job: Callable[..., Job], publish: str, poll: str, kinds: tuple[str, ...]
) -> None:
    source = POLLED.replace("PUBLISH", publish).replace("POLL", poll)
    arrays = {name: np.zeros(8, np.float32) for name in ("out", "data")} | {"flags": np.zeros(1, np.int32)}
    job = make_job(source, arrays, inouts=("data", "flags"), grid=(2, 1, 1), block=(8, 1, 1))
    assert tuple(fault.kind for fault in CpuDevice(races=True).run(job).faults) == kinds


SLICED = """
params: {M: 40, K: 75, N: 60}
arrays:
  A: {shape: [M, K], dtype: int32}
  B: {shape: [K, N], dtype: int32}
  C: {shape: [M, N], dtype: int32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 32, j: 64}, thread: {i: 4, j: 8}, step: {k: 16}, sliced_k: 2, stages: 3}
"""


CLUSTER = SPLIT_K.replace("split_k: 4, reduction: workspace", "split_k: 2, reduction: cluster")
PIPELINES = {
    "one slice": VECTORS,
    "two slices": SLICED,
    "four stages": SLICED.replace("K: 75", "K: 200").replace("stages: 3", "stages: 4"),
    "split-K": SPLIT_K,
    "cluster": CLUSTER,
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("text", PIPELINES.values(), ids=list(PIPELINES))
@pytest.mark.parametrize("number", [0, 1], ids=["prologue", "main loop"])
def test_copies_that_are_awaited_a_group_late_are_named(text: str, number: int) -> None:
    kernel = made(text)
    assert faults_of(kernel, kernel.source, CpuDevice(races=True)) == ()
    source = mutated(kernel, "__pipeline_wait_prior(STAGES - 2)", "__pipeline_wait_prior(STAGES - 1)", number)
    (fault,) = faults_of(kernel, source, CpuDevice(races=True))
    assert fault.kind == "race"
    assert fault.line > 0


def test_copies_that_are_not_drained_before_their_memory_is_reused_are_named() -> None:
    kernel = made(PIPELINES["four stages"])
    source = mutated(kernel, "__pipeline_wait_prior(0)", "__pipeline_wait_prior(1)")
    (fault,) = faults_of(kernel, source, CpuDevice(races=True))
    assert fault.kind == "race"
    assert "before the wait for the asynchronous copy to it" in fault.message


UNWRITTEN = r"""
extern "C" __global__ void k(float* out) {
  __shared__ float tile[64];
  if (threadIdx.x < 60) tile[threadIdx.x] = 1.0f;
  __syncthreads();
  out[64 * blockIdx.x + threadIdx.x] = VALUE;
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"sanitize": True}], ids=["fast", "sanitised"])
@pytest.mark.parametrize("value", ["0.0f * tile[threadIdx.x ^ 1]", "fmaxf(tile[threadIdx.x], 0.0f)"])
def test_shared_memory_that_nobody_wrote_shows_in_the_result(
    make_job: Callable[..., Job], options: dict[str, Any], value: str
) -> None:
    source = UNWRITTEN.replace("VALUE", value)
    job = make_job(source, {"out": np.zeros(256, np.float32)}, grid=(4, 1, 1), block=(64, 1, 1))
    results = CpuDevice(**options).run(job).buffers["out"].reshape(4, 64)
    expected = 0.0 if value.startswith("0") else 1.0
    assert (results[:, :60] == expected).all()
    assert not (results[:, 60:] == expected).all(axis=0).any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, {"sanitize": True}], ids=["fast", "sanitised"])
def test_accumulators_without_an_initial_value_show_in_the_result(options: dict[str, Any]) -> None:
    kernel = made(VECTORS)
    source = mutated(kernel, "float acc[TM][TN] = {};", "float acc[TM][TN];")
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(**options))
    assert run.outcome.faults == ()
    assert not run.verification.passed


ROW_SUM = """
params: {M: 7, N: 500}
arrays:
  x: {shape: [M, N], dtype: int32}
  y: {shape: [M], dtype: int32}
compute: y[i] = sum(x[i, j], j)
"""
SCAN = """
params: {M: 3, N: 1500}
arrays:
  x: {shape: [M, N], dtype: int32}
  y: {shape: [M, N], dtype: int32}
compute: y[i, j] = cumsum(x[i, j], j)
"""
TRANSPOSE = """
params: {M: 50, N: 70}
arrays:
  x: {shape: [M, N], dtype: int32}
  y: {shape: [N, M], dtype: int32}
compute: y[j, i] = x[i, j]
"""
STENCIL = """
params: {M: 50, N: 70}
arrays:
  x: {shape: [M, N], dtype: int32, memory: shared, boundary: zero}
  y: {shape: [M, N], dtype: int32}
compute: y[i, j] = x[i-1, j] + x[i+1, j] + x[i, j-1] + 0 * x[i, j+1]
"""
BYTES = """
params: {M: 20, K: 24, N: 64}
arrays:
  A: {shape: [M, K], dtype: int8}
  B: {shape: [K, N], dtype: int8}
  C: {shape: [M, N], dtype: int32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {family: gemm, block: {i: 16, j: 32}, thread: {i: 4, j: 4}, step: {k: 16}, stages: 3}
"""
SPARE_LANE = "if (threadIdx.x != 21) "  # before a store: one thread too few


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("text", "before", "after", "number", "array"),
    [
        pytest.param(TILED, "As[ty][tx] =", f"{SPARE_LANE.replace('21', '14')}As[ty][tx] =", 0, "As", id="tile"),
        pytest.param(BYTES, "As[stage][a_k][a_i + c] = 0", "", 0, "As", id="zeros of the K residue"),
        pytest.param(BYTES, "__pipeline_memcpy_async(", f"{SPARE_LANE}__pipeline_memcpy_async(", 0, "Bs", id="copy"),
        pytest.param(
            VECTORS.replace("K: 32", "K: 80"),
            "__pipeline_memcpy_async(&Bs[write",
            "if (thread < 63) __pipeline_memcpy_async(&Bs[write",
            0,
            "Bs",
            id="copy of the main loop",
        ),
        pytest.param(
            ROW_SUM,
            "warp_sum[threadIdx.x / 32] =",
            "if (threadIdx.x < 96) warp_sum[threadIdx.x / 32] =",
            0,
            "warp_sum",
            id="block reduction",
        ),
        pytest.param(SCAN, "warp_sums[warp] =", "if (warp != 2) warp_sums[warp] =", 0, "warp_sums", id="scan"),
        pytest.param(
            TRANSPOSE, "tile[ty + r]", f"{SPARE_LANE.replace('21', '14')}tile[ty + r]", 0, "tile", id="transpose"
        ),
        pytest.param(
            STENCIL,
            "x_tile[element / TILE_J]",
            "if (element != 99) x_tile[element / TILE_J]",
            0,
            "x_tile",
            id="stencil",
        ),
        pytest.param(
            LOOK_BACK, "warp_sums[warp] =", "if (warp != 0) warp_sums[warp] =", 0, "warp_sums", id="look-back"
        ),
    ],
)
def test_shared_memory_that_one_thread_does_not_write_is_named(
    text: str, before: str, after: str, number: int, array: str
) -> None:
    kernel = made(text)
    device = CpuDevice(races=True, uninitialised=True)
    assert faults_of(kernel, kernel.source, device) == ()
    (fault,) = faults_of(kernel, mutated(kernel, before, after, number), device)
    assert fault.kind == "uninitialised read"
    assert f" of {array}, which no thread of the block has written" in fault.message
    assert array in kernel.source.split("\n")[fault.line - 1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        pytest.param(STREAMED, "store<4>(&y[i]", "store<4>(&y[i - (blockIdx.x > 0 ? 4 : 0)]", id="map"),
        pytest.param(TILED, "C[m * N + n] =", "C[m * N + n - (blockIdx.x > 0)] =", id="tile"),
        pytest.param(ROW_SUM, "y[i] = sum;", "y[i / 2] = sum;", id="row sum"),
        pytest.param(SCAN, "&y[i * N", "&y[i / 2 * N", id="scan"),
    ],
)
def test_blocks_that_write_different_values_to_one_element_race(text: str, before: str, after: str) -> None:
    kernel = made(text)
    assert faults_of(kernel, kernel.source, CpuDevice(races=True)) == ()
    (fault,) = faults_of(kernel, mutated(kernel, before, after), CpuDevice(races=True))
    assert fault.kind == "race"
    assert fault.line > 0
