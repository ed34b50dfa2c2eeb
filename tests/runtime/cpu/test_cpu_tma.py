"""Copies of boxes by TMA on the CPU device: what of a tensor goes where in shared memory and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, product
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job
from tests.drawn import examples

MakeJob = Callable[..., Job]
Array = NDArray[Any]

# `A` is the tensor of a load and an image of shared memory of a store, `out` the other way around.
SOURCE = r"""
#include <cuda.h>
extern "C" __global__ void k(const int* P, const unsigned char* A, unsigned char* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  unsigned long long* const barrier = reinterpret_cast<unsigned long long*>(shared_memory + 65536);
  const bool is_store = P[0];
  const unsigned rank = P[1], image_bytes = P[2];
  unsigned char* const target = shared_memory + P[21];
  CUtensorMap map = {is_store ? out : const_cast<unsigned char*>(A), {}, {}, {}, rank, P[3], P[4], P[5]};
  for (int d = 0; d < 5; ++d) {
    map.sizes[d] = P[6 + d];
    map.box[d] = P[11 + d];
    map.strides[d] = d == 0 ? map.element_bytes : P[16 + d];
  }
  const int x = P[22], y = P[23], z = P[24], u = P[25], v = P[26];
  if (threadIdx.x == 0) {
    if (is_store) {
      for (unsigned i = 0; i < image_bytes; ++i) target[i] = A[i];
      fence_proxy_async();
      if (P[27] == 2) tma_store_2d(&map, target, x, y);
      if (P[27] == 3) tma_store_3d(&map, target, x, y, z);
      if (P[27] == 4) tma_store_4d(&map, target, x, y, z, u);
      if (P[27] == 5) tma_store_5d(&map, target, x, y, z, u, v);
      tma_store_commit();
      tma_store_wait_read<0>();
    } else {
      mbarrier_init(barrier, 1);
      mbarrier_init_fence();
      mbarrier_arrive_expect_tx(barrier, image_bytes);
      if (P[27] == 2) tma_load_2d(target, &map, barrier, x, y);
      if (P[27] == 3) tma_load_3d(target, &map, barrier, x, y, z);
      if (P[27] == 4) tma_load_4d(target, &map, barrier, x, y, z, u);
      if (P[27] == 5) tma_load_5d(target, &map, barrier, x, y, z, u, v);
      mbarrier_wait(barrier, 0);
      for (unsigned i = 0; i < image_bytes; ++i) out[i] = target[i];
    }
  }
}
"""
DEVICES: dict[str, dict[str, Any]] = {
    "fast": {},
    "sanitised": {"sanitize": True},
    "races": {"races": True, "uninitialised": True},
}


@dataclass(frozen=True)
class Copy:
    """A box of a tensor, the contiguous dimension last, from `first` on. Rows of the tensor are `pitch` bytes apart."""

    shape: tuple[int, ...]
    box: tuple[int, ...]
    first: tuple[int, ...]
    element_bytes: int
    swizzle: int
    pitch: int
    rounds_to_tf32: bool = False
    offset: int = 0  # in shared memory
    instruction_rank: int = 0

    @property
    def image_bytes(self) -> int:
        return int(np.prod(self.box)) * self.element_bytes

    def parameters(self, *, is_store: bool) -> Array:
        sizes, box, first = ((*reversed(x), 0, 0, 0)[:5] for x in (self.shape, self.box, self.first))
        rows = accumulate(reversed(self.shape[1:-1]), mul, initial=self.pitch)
        strides = (0, *rows, 0, 0, 0)[:5]
        flags = (self.swizzle, self.element_bytes, int(self.rounds_to_tf32))
        numbers = (int(is_store), len(self.box), self.image_bytes, *flags, *sizes, *box, *strides)
        rank = self.instruction_rank or len(self.box)
        return np.array([*numbers, self.offset, *first, rank], np.int32)

    def swizzled(self, offset: int) -> int:
        """The PTX ISA's swizzling modes, of a row of so many bytes."""
        return offset ^ (offset // 128 % (self.swizzle // 16 or 1)) * 16

    def pairs(self) -> list[tuple[int, int | None]]:
        """Offsets in shared memory and in the tensor of each element; None outside of it."""
        pairs: list[tuple[int, int | None]] = []
        for number, index in enumerate(product(*map(range, self.box))):
            coordinates = [f + i for f, i in zip(self.first, index, strict=True)]
            is_inside = all(0 <= i < size for i, size in zip(coordinates, self.shape, strict=True))
            row = int(np.ravel_multi_index(coordinates[:-1], self.shape[:-1])) if is_inside else 0
            offset = row * self.pitch + coordinates[-1] * self.element_bytes if is_inside else None
            pairs.append((self.swizzled(number * self.element_bytes), offset))
        return pairs

    def tensor_bytes(self) -> int:
        return int(np.prod(self.shape[:-1])) * self.pitch


def job_of(make_job: MakeJob, copy: Copy, data: Array, out: Array, *, is_store: bool) -> Job:
    arrays = {"P": copy.parameters(is_store=is_store), "A": data, "out": out}
    return make_job(SOURCE, arrays, dynamic=65536 + 8, alignment=16)


def loaded(make_job: MakeJob, copy: Copy, tensor: Array, **options: Any) -> Array:
    out = np.full(copy.image_bytes, 0xAA, np.uint8)
    outcome = CpuDevice(**options).run(job_of(make_job, copy, tensor, out, is_store=False))
    assert outcome.faults == ()
    return outcome.buffers["out"]


def stored(make_job: MakeJob, copy: Copy, image: Array, **options: Any) -> Array:
    out = np.full(copy.tensor_bytes(), 0xAA, np.uint8)
    outcome = CpuDevice(**options).run(job_of(make_job, copy, image, out, is_store=True))
    assert outcome.faults == ()
    return outcome.buffers["out"]


def fault_of(make_job: MakeJob, copy: Copy, *, is_store: bool = False, **options: Any) -> Fault:
    data = np.zeros(max(copy.tensor_bytes(), copy.image_bytes), np.uint8)
    (fault,) = CpuDevice(**options).run(job_of(make_job, copy, data, data.copy(), is_store=is_store)).faults
    return fault


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.split("\n"), 1) if text in line)


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    """Boxes that TMA may copy, inside the tensor, over its edges or outside."""
    rank = draw(st.sampled_from([2, 3, 4, 5]))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    row_bytes = swizzle or 16 * draw(st.integers(1, 16))
    longest = 6 if rank <= 3 else 3
    box = (*(draw(st.integers(1, longest)) for _ in range(rank - 1)), row_bytes // size)
    shape = (*(draw(st.integers(1, 2 * longest)) for _ in range(rank - 1)), draw(st.integers(1, 200)))
    first = tuple(draw(st.integers(-b - 1, s + 1)) for b, s in zip(box, shape, strict=True))
    return Copy(
        shape, box, first, size, swizzle, -(-shape[-1] * size // 16) * 16, offset=1024 * draw(st.integers(0, 2))
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copy=copies())
def test_a_load_has_the_elements_of_the_box_and_zeros_outside(
    make_job: MakeJob, options: dict[str, Any], copy: Copy
) -> None:
    tensor = np.random.default_rng(0).integers(1, 256, copy.tensor_bytes()).astype(np.uint8)
    expected = np.zeros(copy.image_bytes, np.uint8)
    for target, source in copy.pairs():
        if source is not None:
            expected[target : target + copy.element_bytes] = tensor[source : source + copy.element_bytes]
    assert (loaded(make_job, copy, tensor, **options) == expected).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copy=copies())
def test_a_store_writes_the_elements_of_the_box_inside_the_tensor(
    make_job: MakeJob, options: dict[str, Any], copy: Copy
) -> None:
    image = np.random.default_rng(0).integers(1, 256, copy.image_bytes).astype(np.uint8)
    expected = np.full(copy.tensor_bytes(), 0xAA, np.uint8)
    for source, target in copy.pairs():
        if target is not None:
            expected[target : target + copy.element_bytes] = image[source : source + copy.element_bytes]
    assert (stored(make_job, copy, image, **options) == expected).all()


def test_a_row_of_128_bytes_has_its_chunks_exchanged_by_its_number(make_job: MakeJob) -> None:
    tensor = np.arange(64, dtype=np.uint8).repeat(16)  # 16-byte chunks
    copy = Copy((8, 128), (8, 128), (0, 0), 1, 128, 128)
    chunks = loaded(make_job, copy, tensor).reshape(8, 8, 16)[:, :, 0]
    assert chunks.tolist() == [[8 * row + (chunk ^ row) for chunk in range(8)] for row in range(8)]


def test_a_load_may_round_float32_to_the_nearest_tf32(make_job: MakeJob) -> None:
    values = np.array([1.0, 1 + 2.0**-11, 1 + 2.0**-12, -(1 + 2.0**-11), 2.0**-10 + 1, np.inf, 0.0, 3.0], np.float32)
    copy = Copy((1, 8), (1, 8), (0, 0), 4, 0, 32, rounds_to_tf32=True)
    rounded = loaded(make_job, copy, values.view(np.uint8)).view(np.float32)
    assert rounded.tolist() == [1, 1 + 2.0**-10, 1, -(1 + 2.0**-10), 1 + 2.0**-10, np.inf, 0, 3]


GOOD = Copy((16, 64), (8, 64), (0, 0), 2, 128, 128)
REFUSED = {
    "a target off 128 bytes": (replace(GOOD, swizzle=0, offset=64), "misaligned address", "no multiple of 128"),
    "a target off the swizzle": (replace(GOOD, offset=512), "misaligned address", "no multiple of 1024"),
    "rows longer than the swizzle": (replace(GOOD, swizzle=64), "undefined", "128 bytes, not the 64 of its swizzle"),
    "rows shorter than the swizzle": (replace(GOOD, box=(8, 32)), "undefined", "64 bytes, not the 128 of its swizzle"),
    "rows of no 16 bytes": (replace(GOOD, box=(8, 12)), "undefined", "rows of 24 bytes, no multiple of 16"),
    "a box of too many": (replace(GOOD, box=(257, 64)), "undefined", "they are 1 to 256"),
    "another rank": (replace(GOOD, instruction_rank=3), "undefined", "2 dimensions by an instruction for 3"),
}


@pytest.mark.parametrize(("copy", "kind", "message"), REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("is_store", [False, True], ids=["load", "store"])
def test_what_the_hardware_does_not_allow_is_a_fault(
    make_job: MakeJob, copy: Copy, kind: str, message: str, is_store: bool
) -> None:
    fault = fault_of(make_job, copy, is_store=is_store)
    assert (fault.kind, message in fault.message) == (kind, True), fault
    assert fault.line == line_of(f"tma_{'store' if is_store else 'load'}_{copy.instruction_rank or len(copy.box)}d")


# One thread, whose waits no other thread can end.
ALONE = r"""
#include <cuda.h>
extern "C" __global__ void k(const float* A, float* out) {
  __shared__ __align__(128) float tile[32];
  __shared__ unsigned long long full;
  const CUtensorMap map = {(unsigned char*)A, {32, 4}, {4, 128}, {32, 1}, 2, 0, 4, 0};
  mbarrier_init(&full, 1);
  mbarrier_init_fence();
  for (int y = 0; y < 4; ++y) {
    mbarrier_arrive_expect_tx(&full, 128);
    tma_load_2d(tile, &map, &full, 0, y);
    mbarrier_wait(&full, y % 2);
    for (int x = 0; x < 32; ++x) out[32 * y + x] = tile[x];
  }
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
def test_a_load_arrives_in_a_block_of_one_thread(make_job: MakeJob, options: dict[str, Any]) -> None:
    numbers = np.arange(128, dtype=np.float32)
    arrays = {"A": numbers, "out": np.full_like(numbers, np.nan)}
    outcome = CpuDevice(**options).run(make_job(ALONE, arrays, block=(1, 1, 1), alignment=16))
    assert outcome.faults == ()
    assert (outcome.buffers["out"] == numbers).all()


def test_a_box_ends_inside_of_shared_memory(make_job: MakeJob) -> None:
    fault = fault_of(make_job, replace(GOOD, offset=65536))
    assert (fault.kind, fault.line) == ("out of bounds", line_of("tma_load_2d"))
    assert "of 1024 bytes, 8 bytes before the end of shared memory" in fault.message
