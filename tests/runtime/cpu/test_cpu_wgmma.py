"""`wgmma` of every type on the CPU device: operands in every layout of shared memory, and how sums round."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.machine.wgmma import INSTRUCTIONS, MAX_WGMMA_N, TF32, WgmmaInstruction
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job

MakeJob = Callable[..., Job]
Array = NDArray[Any]

# Operands are images of shared memory. A step of k is 32 bytes.
SOURCE = r"""
extern "C" __global__ void k(const unsigned* A, const unsigned* B, const SUM* C, SUM* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  unsigned* const words = reinterpret_cast<unsigned*>(shared_memory);
  const int thread = threadIdx.x, lane = thread % 32;
  for (int i = thread; i < A_WORDS; i += blockDim.x) words[i] = A[i];
  for (int i = thread; i < B_WORDS; i += blockDim.x) words[A_WORDS + i] = B[i];
  SUM acc[2][COLUMNS / 4];
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < COLUMNS / 4; ++i)
      acc[h][i] = C[(16 * (thread / 32) + lane / 4 + 8 * h) * COLUMNS + i / 2 * 8 + lane % 4 * 2 + i % 2];
  PROXY_FENCE;
  BARRIER;
  FENCE;
  for (int step = 0; step < STEPS; ++step)
    if (WHO) NAME(acc[0], acc[1],
      A_BITS | (__cvta_generic_to_shared(shared_memory + step * A_STEP) & 0x3ffff) / 16,
      B_BITS | (__cvta_generic_to_shared(shared_memory + 4 * A_WORDS + B_SHIFT + step * B_STEP) & 0x3ffff) / 16,
      step > 0 || ACCUMULATES);
  COMMIT;
  BEFORE_WAIT;
  WAIT;
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < COLUMNS / 4; ++i)
      out[(16 * (thread / 32) + lane / 4 + 8 * h) * COLUMNS + i / 2 * 8 + lane % 4 * 2 + i % 2] = acc[h][i];
}
"""
DTYPES: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "uint8": np.uint8,
}
TYPES: dict[str, tuple[str, str, WgmmaInstruction]] = {
    **{instruction.types: (a, b, instruction) for (a, b), instruction in INSTRUCTIONS.items()},
    "tf32": ("float32", "float32", TF32),
}
SWIZZLE_CODES = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Operand:
    """An image of shared memory, the constant bits of its descriptor, and the bytes from one step to the next."""

    image: Array
    bits: int
    step: int


def operand(matrix: Array, swizzle: int, *, is_mn_major: bool) -> Operand:
    """Rows or columns by k in shared memory. With a swizzle, K-major rows are as long as the swizzle (PTX ISA,
    canonical layouts)."""
    extent, depth = matrix.shape
    size = matrix.dtype.itemsize
    per_chunk = 16 // size
    line = matrix.T if is_mn_major else matrix  # contiguous along its last axis
    if swizzle == 0:  # of 8 lines of 16 bytes, those along k adjacent
        tiles = line.reshape(line.shape[0] // 8, 8, line.shape[1] // per_chunk, per_chunk)
        image = tiles.transpose(2, 0, 1, 3) if is_mn_major else tiles.transpose(0, 2, 1, 3)
        leading, stride, step = 128, 128 * image.shape[1], 256
    else:  # blocks of one row's width
        per_row = swizzle // size
        blocks = line.reshape(line.shape[0], line.shape[1] // per_row, swizzle // 16, per_chunk).transpose(1, 0, 2, 3)
        image = blocks.copy()
        for row, chunk in product(range(line.shape[0]), range(swizzle // 16)):
            image[:, row, chunk ^ (row * swizzle // 128 % 8 & (swizzle // 16 - 1))] = blocks[:, row, chunk]
        leading, stride = (line.shape[0] * swizzle, 8 * swizzle)
        step = 16 * swizzle if is_mn_major else 32
    bits = SWIZZLE_CODES[swizzle] << 62 | stride // 16 << 32 | leading // 16 << 16
    assert extent * depth == image.size
    return Operand(np.ascontiguousarray(image).reshape(-1).view(np.uint32), bits, step)


def drawn(dtype: Any, shape: tuple[int, int], seed: int) -> Array:
    """Small integers, whose sums are exact in every type."""
    low = 0 if dtype is np.uint8 else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(dtype)


def job_of(
    make_job: MakeJob,
    types: str,
    n: int,
    *,
    swizzles: tuple[int, int] = (128, 128),
    mn_major: tuple[bool, bool] = (False, False),
    matrices: tuple[Array, Array, Array] | None = None,
    block: int = 128,
    **changes: str,
) -> tuple[Job, Array]:
    """The job, and A * B + C as NumPy has it."""
    a_name, b_name, instruction = TYPES[types]
    steps = 1 if any(s == 0 for s in swizzles) else min(swizzles) // 32
    steps = 2 if any(mn_major) else steps
    widths = [max(steps * 32, 0 if is_mn else s) for s, is_mn in zip(swizzles, mn_major, strict=True)]
    size = instruction.element_bytes
    total = np.int32 if instruction.is_integer else np.float32
    if matrices is None:
        matrices = (
            drawn(DTYPES[a_name], (64, widths[0] // size), 1),
            drawn(DTYPES[b_name], (n, widths[1] // size), 2),
            drawn(total, (64, n), 3),
        )
    a, b, c = matrices
    images = [operand(m, s, is_mn_major=t) for m, s, t in zip((a, b), swizzles, mn_major, strict=True)]
    shift = -len(images[0].image) * 4 % 1024
    flags = f"<{str(mn_major[0]).lower()}, {str(mn_major[1]).lower()}>" if instruction.may_be_mn_major else ""
    words = {
        "SUM": "int" if instruction.is_integer else "float",
        "NAME": instruction.name(n) + flags,
        "A_WORDS": str(len(images[0].image) + shift // 4),
        "B_WORDS": str(len(images[1].image)),
        "A_BITS": f"{images[0].bits}ull",
        "B_BITS": f"{images[1].bits}ull",
        "A_STEP": str(images[0].step),
        "B_STEP": str(images[1].step),
        "STEPS": str(steps),
        "PROXY_FENCE": "fence_proxy_async()",
        "BARRIER": "__syncthreads()",
        "FENCE": "wgmma_fence()",
        "COMMIT": "wgmma_commit()",
        "BEFORE_WAIT": "",
        "WAIT": "wgmma_wait<0>()",
        "WHO": "true",
        "ACCUMULATES": "true",
        "B_SHIFT": "0",
        "COLUMNS": str(n),
    }
    text = SOURCE
    for before in changes.keys() - words.keys():
        text = text.replace(before, changes[before])
    words |= {word: text for word, text in changes.items() if word in words}
    text = re.sub(rf"\b({'|'.join(words)})\b", lambda word: words[word[1]], text)
    padded = np.concatenate([images[0].image, np.zeros(shift // 4, np.uint32)])
    arrays = {"A": padded, "B": images[1].image, "C": c, "out": np.zeros((64, n), total)}
    dynamic = 4 * (len(padded) + len(images[1].image))
    depth = steps * instruction.k
    exact = np.float64 if total is np.float32 else np.int64
    expected = a[:, :depth].astype(exact) @ b[:, :depth].astype(exact).T + c
    job = make_job(text, arrays, block=(block, 1, 1), dynamic=dynamic)
    return job, expected.astype(total)


def result(job: Job, shape: tuple[int, ...], **options: Any) -> Array:
    outcome = CpuDevice(**options).run(job)
    assert outcome.faults == ()
    return outcome.buffers["out"].reshape(shape)


def fault_of(job: Job, **options: Any) -> Fault:
    (fault,) = CpuDevice(**options).run(job).faults
    return fault


def line_of(job: Job, text: str) -> int:
    return next(number for number, line in enumerate(job.source.split("\n"), 1) if text in line)


@pytest.mark.sampled(36)
@pytest.mark.parametrize("n", [8, 24, 64, 256])
@pytest.mark.parametrize("types", TYPES)
def test_a_product_is_that_of_numpy(make_job: MakeJob, types: str, n: int) -> None:
    if TYPES[types][2].is_integer and n == 24:
        n = 32
    job, expected = job_of(make_job, types, n)
    assert (result(job, expected.shape, shuffle=5) == expected).all()


@pytest.mark.sampled(18)
@pytest.mark.parametrize("swizzle", SWIZZLE_CODES)
@pytest.mark.parametrize("types", ["bf16", "tf32", "e4m3_e5m2", "s8_u8"])
def test_operands_along_k_may_have_any_swizzle(make_job: MakeJob, types: str, swizzle: int) -> None:
    job, expected = job_of(make_job, types, 16, swizzles=(swizzle, swizzle))
    assert (result(job, expected.shape) == expected).all()


@pytest.mark.sampled(26)
@pytest.mark.parametrize("swizzle", SWIZZLE_CODES)
@pytest.mark.parametrize("mn_major", [(True, False), (False, True), (True, True)], ids=["A", "B", "both"])
@pytest.mark.parametrize("types", ["f16", "bf16"])
def test_operands_of_16_bits_may_be_mn_major(
    make_job: MakeJob, types: str, mn_major: tuple[bool, bool], swizzle: int
) -> None:
    swizzles = (swizzle if mn_major[0] else 128, swizzle if mn_major[1] else 128)
    job, expected = job_of(make_job, types, 192, swizzles=swizzles, mn_major=mn_major)
    assert (result(job, expected.shape) == expected).all()


def test_without_a_sum_before_it_the_registers_are_overwritten(make_job: MakeJob) -> None:
    job, expected = job_of(make_job, "bf16", 16, ACCUMULATES="false")
    c = job.buffers["C"].reshape(64, 16)
    assert (result(job, (64, 16)) == expected - c).all()


# Sums are those measured on an H200: truncated, those of float8 to few bits.
SUMS = {
    "a bit of float32": ("bf16", 1.0, [2.0**-23], 1 + 2.0**-23),
    "half a bit": ("bf16", 1.0, [2.0**-24], 1.0),
    "what is lost alone is lost together": ("f16", 1.0, [2.0**-13] + [0.0] * 15, 1 + 2.0**-13),
    "15 small ones": ("bf16", 1.0, [2.0**-26] * 15, 1.0),
    "float8": ("e4m3", 65536.0, [4.0] * 31, 65536.0),
    "float8, 13 bits": ("e4m3", 8192.0, [1.0], 8193.0),
    "float8, 14 bits": ("e5m2", 16384.0, [1.0], 16384.0),
    "tf32": ("tf32", 0.0, [1 + 2.0**-10 + 2.0**-11], 1 + 2.0**-10),
    "negative": ("bf16", -1.0, [-(2.0**-24)], -1.0),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("types", "start", "terms", "expected"), SUMS.values(), ids=list(SUMS))
def test_sums_are_truncated(make_job: MakeJob, types: str, start: float, terms: list[float], expected: float) -> None:
    a_name, b_name, instruction = TYPES[types]
    a, b = np.zeros((64, instruction.k), np.float32), np.zeros((8, instruction.k), np.float32)
    a[:, : len(terms)], b[:, : len(terms)] = terms, 1
    matrices = (a.astype(DTYPES[a_name]), b.astype(DTYPES[b_name]), np.full((64, 8), start, np.float32))
    job, _ = job_of(make_job, types, 8, swizzles=(0, 0), matrices=matrices)
    assert (result(job, (64, 8)) == np.float32(expected)).all()


def test_sums_of_integers_wrap(make_job: MakeJob) -> None:
    a, b = np.full((64, 32), -128, np.int8), np.full((8, 32), -128, np.int8)
    job, _ = job_of(make_job, "s8", 8, swizzles=(0, 0), matrices=(a, b, np.full((64, 8), 2**31 - 1, np.int32)))
    assert (result(job, (64, 8)) == -(2**31) + 32 * 128 * 128 - 1).all()


def test_accumulators_hold_no_number_before_the_wait(make_job: MakeJob) -> None:
    store = "for (int i = 0; i < 4; ++i) out[thread * 4 + i] = acc[0][i]; wgmma_wait<0>(); return"
    for types, is_poison in (("bf16", np.isnan), ("s8", lambda x: x == 0x7E7E7E7E)):
        job, expected = job_of(make_job, types, 16, BEFORE_WAIT=store)
        assert is_poison(result(job, expected.shape)[:32]).all()


def test_accumulators_that_are_written_before_the_wait_are_a_fault(make_job: MakeJob) -> None:
    job, _ = job_of(make_job, "bf16", 16, BEFORE_WAIT="acc[1][2] = 3")
    fault = fault_of(job)
    assert (fault.kind, fault.line) == ("undefined", line_of(job, "(acc[0], acc[1]"))
    assert "written before the wait" in fault.message


@pytest.mark.parametrize("options", [{}, {"sanitize": True}], ids=["fast", "sanitised"])
def test_operands_are_read_as_late_as_the_wait(make_job: MakeJob, options: dict[str, Any]) -> None:
    overwrite = "__syncthreads(); words[thread] = 0; fence_proxy_async(); __syncthreads()"
    job, expected = job_of(make_job, "bf16", 16, BEFORE_WAIT=overwrite)
    assert not (result(job, expected.shape, **options) == expected).all()


FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "no fence": ({"FENCE": ""}, "undefined", "no wgmma.fence since the thread accessed its accumulators"),
    "no wait": ({"WAIT": ""}, "undefined", "a thread ends before the wgmma"),
    "a wait for too few": ({"WAIT": "wgmma_wait<1>()"}, "undefined", "a thread ends before the wgmma"),
    "no commit": ({"COMMIT": ""}, "undefined", "in no group that was committed"),
    "a thread that stays away": ({"WHO": "thread != 77"}, "divergence", "of a warpgroup executes line"),
    "other operands": ({"ACCUMULATES": "thread != 77"}, "divergence", "that differ from"),
    "rows off the swizzle": ({"B_SHIFT": "512"}, "undefined", "no multiple of 1024 bytes, where its swizzle repeats"),
    "a base offset": (
        {"B_BITS |": "B_BITS | 1ull << 49 |"},
        "undefined",
        "a base offset, or with bits that are reserved",
    ),
    "outside": ({"B_SHIFT": "65536"}, "out of bounds", "an operand outside shared memory"),
}


@pytest.mark.whole
@pytest.mark.sampled(11)
@pytest.mark.parametrize(("changes", "kind", "message"), FAULTS.values(), ids=list(FAULTS))
@pytest.mark.parametrize("options", [{}, {"shuffle": 2}, {"races": True}], ids=["fast", "shuffled", "races"])
def test_a_fault_has_the_line_of_the_wgmma(
    make_job: MakeJob, changes: dict[str, str], kind: str, message: str, options: dict[str, Any]
) -> None:
    job, _ = job_of(make_job, "bf16", 16, **changes)
    fault = fault_of(job, **options)
    assert (fault.kind, message in fault.message) == (kind, True), fault
    if kind != "divergence":
        assert fault.line == line_of(job, "(acc[0], acc[1]")


def test_a_warpgroup_has_128_threads(make_job: MakeJob) -> None:
    fault = fault_of(job_of(make_job, "bf16", 16, block=96)[0])
    assert (fault.kind, "a warpgroup of 96 threads" in fault.message) == ("divergence", True)


def test_operands_that_threads_wrote_need_a_proxy_fence(make_job: MakeJob) -> None:
    job, _ = job_of(make_job, "bf16", 16, PROXY_FENCE="")
    fault = fault_of(job, races=True)
    assert (fault.kind, fault.line) == ("race", line_of(job, "(acc[0], acc[1]"))
    assert "no fence.proxy.async since thread" in fault.message


def test_the_fence_may_be_the_readers(make_job: MakeJob) -> None:
    job, expected = job_of(make_job, "bf16", 16, PROXY_FENCE="", FENCE="wgmma_fence(); fence_proxy_async()")
    assert (result(job, expected.shape, races=True) == expected).all()


def test_operands_that_other_threads_write_are_a_race(make_job: MakeJob) -> None:
    job, _ = job_of(make_job, "bf16", 16, BARRIER="")
    fault = fault_of(job, races=True)
    assert (fault.kind, "with no barrier since a" in fault.message) == ("race", True)


def test_each_instruction_has_a_guard() -> None:
    header = (files("cugen.runtime.cpu") / "include/cugen_cpu/wgmma_guards.h").read_text()
    guards = {line.split()[1] for line in header.splitlines() if line.startswith("#define")}
    names = {i.name(n) for i in (*INSTRUCTIONS.values(), TF32) for n in range(8, MAX_WGMMA_N + 1, 8)}
    assert guards == {f"CUGEN_{name.upper()}" for name in names}
