"""Copies of pixels by TMA in im2col mode on the CPU device: which pixels of which images go where in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Fault, Job
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.drawn import examples

MakeJob = Callable[..., Job]
Array = NDArray[Any]

# P: instruction (3 to 5; 2 for a tiled one), bytes, element bytes, swizzle, mode, rank, then by dimension sizes,
# strides in bytes, box, first coordinates; by dimension of an image lower, upper, steps, offsets.
SOURCE = r"""
#include <cuda.h>
extern "C" __global__ void k(const int* P, const unsigned char* A, unsigned char* out) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  unsigned long long* const barrier = reinterpret_cast<unsigned long long*>(shared_memory + 65536);
  CUtensorMap map = {};
  map.address = const_cast<unsigned char*>(A);
  map.element_bytes = P[2];
  map.swizzle_bytes = P[3];
  map.is_im2col = P[4];
  map.rank = P[5];
  for (int d = 0; d < 5; ++d) {
    map.sizes[d] = P[6 + d];
    map.strides[d] = P[11 + d];
    map.box[d] = P[16 + d];
  }
  const int* const x = P + 21;
  for (int d = 0; d < 3; ++d) {
    map.lower[d] = P[26 + d];
    map.upper[d] = P[29 + d];
    map.steps[d] = P[32 + d];
  }
  const unsigned short s = P[35], r = P[36], t = P[37];
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, 1);
    mbarrier_init_fence();
    mbarrier_arrive_expect_tx(barrier, P[1]);
    if (P[0] == 2) tma_load_3d(shared_memory, &map, barrier, x[0], x[1], x[2]);
    if (P[0] == 3) tma_load_im2col_3d(shared_memory, &map, barrier, x[0], x[1], x[2], s);
    if (P[0] == 4) tma_load_im2col_4d(shared_memory, &map, barrier, x[0], x[1], x[2], x[3], s, r);
    if (P[0] == 5) tma_load_im2col_5d(shared_memory, &map, barrier, x[0], x[1], x[2], x[3], x[4], s, r, t);
    mbarrier_wait(barrier, 0);
    for (int i = 0; i < P[1]; ++i) out[i] = shared_memory[i];
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
    """Channels of pixels of images [n][…][c]. Corners, steps, offsets and the first pixel are by dimension of an
    image, the slowest first."""

    images: tuple[int, ...]
    element_bytes: int
    swizzle: int
    channels: int  # of a box
    pixels: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]
    offsets: tuple[int, ...]
    image: int
    first: tuple[int, ...]
    first_channel: int
    is_im2col: bool = True
    instruction: int = 0

    @property
    def rank(self) -> int:
        return len(self.images)

    @property
    def row_bytes(self) -> int:
        return self.channels * self.element_bytes

    @property
    def pixel_bytes(self) -> int:
        return -(-self.images[-1] * self.element_bytes // 16) * 16

    @property
    def image_bytes(self) -> int:
        return self.pixels * self.row_bytes

    def parameters(self) -> Array:
        def padded(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
            return (*reversed(numbers), *[0] * length)[:length]

        strides = [self.element_bytes, self.pixel_bytes]
        for size in self.images[-2:0:-1]:
            strides.append(strides[-1] * size)
        coordinates = (self.image, *self.first, self.first_channel)
        numbers = (self.instruction or self.rank, self.image_bytes, self.element_bytes, self.swizzle, self.is_im2col)
        by_dimension = (padded(self.images, 5), (*strides, 0, 0)[:5], (self.channels, self.pixels, 1, 0, 0))
        of_image = (self.lower, self.upper, self.steps, self.offsets)
        rows = (*by_dimension, padded(coordinates, 5), *(padded(each, 3) for each in of_image))
        return np.array([*numbers, self.rank, *(number for row in rows for number in row)], np.int32)

    def walk(self) -> list[tuple[int, ...]]:
        """The pixels of the box: the first, and those after it in the bounding boxes of the images."""
        ranges = [
            range(low, size + up, step)
            for low, size, up, step in zip(self.lower, self.images[1:-1], self.upper, self.steps, strict=True)
        ]
        sizes = tuple(map(len, ranges))
        along = tuple(r.index(first) for r, first in zip(ranges, self.first, strict=True))
        start = self.image * int(np.prod(sizes)) + int(np.ravel_multi_index(along, sizes))
        found = []
        for number in range(start, start + self.pixels):
            image, inside = divmod(number, int(np.prod(sizes)))
            positions = [int(i) for i in np.unravel_index(inside, sizes)]
            moved = (r[i] + o for r, i, o in zip(ranges, positions, self.offsets, strict=True))
            found.append((image, *moved))
        return found

    def expected(self, data: Array) -> Array:
        """The box in shared memory, of images [n][…][bytes of a pixel]."""
        rows = np.zeros((self.pixels, self.row_bytes), np.uint8)
        for row, pixel in zip(rows, self.walk(), strict=True):
            if all(0 <= i < size for i, size in zip(pixel, self.images[:-1], strict=True)):
                channels = data[pixel][: self.images[-1] * self.element_bytes]
                channels = channels[self.first_channel * self.element_bytes :][: self.row_bytes]
                row[: len(channels)] = channels
        flat, swizzled = rows.ravel(), np.empty(self.image_bytes, np.uint8)
        offsets = np.arange(self.image_bytes)
        swizzled[offsets ^ (offsets // 128 % (self.swizzle // 16 or 1)) * 16] = flat
        return swizzled


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    dimensions = draw(st.integers(1, 3))
    sizes = tuple(draw(st.integers(1, 7)) for _ in range(dimensions))
    element_bytes, swizzle = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([0, 32, 64, 128]))
    channels = (swizzle or 16 * draw(st.integers(1, 8))) // element_bytes
    lower = tuple(draw(st.integers(-3, size + 1)) for size in sizes)
    ends = tuple(draw(st.integers(low + 1, low + 7)) for low in lower)
    upper = tuple(end - size for end, size in zip(ends, sizes, strict=True))
    steps = tuple(draw(st.integers(1, 3)) for _ in sizes)
    first = tuple(
        draw(st.sampled_from(range(low, end, step))) for low, end, step in zip(lower, ends, steps, strict=True)
    )
    number, images = draw(st.integers(1, 3)), draw(st.integers(1, 3 * channels))
    return Copy(
        (number, *sizes, images),
        element_bytes,
        swizzle,
        channels,
        draw(st.integers(1, 70)),
        lower,
        upper,
        steps,
        tuple(draw(st.integers(0, 4)) for _ in sizes),
        draw(st.integers(-1, number)),
        first,
        draw(st.integers(0, images + 1)),
    )


def job_of(make_job: MakeJob, copy: Copy, data: Array) -> Job:
    arrays = {"P": copy.parameters(), "A": data, "out": np.full(max(copy.image_bytes, 1), 0xAA, np.uint8)}
    return make_job(SOURCE, arrays, dynamic=65536 + 8, alignment=16)


def images_of(copy: Copy) -> Array:
    shape = (*copy.images[:-1], copy.pixel_bytes)
    return np.random.default_rng(0).integers(1, 256, shape).astype(np.uint8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(copy=copies())
def test_a_load_has_the_pixels_that_follow_the_first_in_the_bounding_box(
    make_job: MakeJob, options: dict[str, Any], copy: Copy
) -> None:
    data = images_of(copy)
    outcome = CpuDevice(**options).run(job_of(make_job, copy, data))
    assert outcome.faults == ()
    assert (outcome.buffers["out"] == copy.expected(data)).all()


def test_a_strided_convolution_reads_every_second_pixel_of_each_row() -> None:
    copy = replace(GOOD, lower=(-1, -1), upper=(-1, -1), steps=(2, 2), first=(-1, 1), offsets=(1, 2), pixels=6)
    assert copy.walk() == [(0, 0, 3), (0, 0, 5), (0, 2, 1), (0, 2, 3), (0, 2, 5), (0, 4, 1)]


GOOD = Copy((2, 5, 6, 64), 2, 128, 64, 8, (-1, -1), (-1, -1), (1, 1), (0, 0), 0, (-1, -1), 0)
LINE = Copy((2, 6, 64), 2, 128, 64, 8, (-1,), (-1,), (1,), (0,), 0, (-1,), 0)
VOLUME = Copy((2, 3, 5, 6, 64), 2, 128, 64, 8, (-1,) * 3, (-1,) * 3, (1,) * 3, (0,) * 3, 0, (-1,) * 3, 0)
ALLOWED = {
    "the last pixel of a row": replace(GOOD, first=(-1, 4)),
    "the longest offset of 3 dimensions": replace(LINE, offsets=(65535,)),
    "the longest offset of 4 dimensions": replace(GOOD, offsets=(255, 255)),
    "the longest offset of 5 dimensions": replace(VOLUME, offsets=(31, 31, 31)),
    "1024 pixels": replace(GOOD, pixels=1024, channels=8, swizzle=0),
    "256 channels": replace(GOOD, channels=256, element_bytes=1, swizzle=0, images=(2, 5, 6, 256)),
}
REFUSED = {
    "before the bounding box": (replace(GOOD, first=(-1, -2)), "from pixel -2 of dimension 1, which its bounding box"),
    "after the bounding box": (replace(GOOD, first=(4, 0)), "from pixel 4 of dimension 2, which its bounding box"),
    "between its pixels": (replace(GOOD, steps=(1, 2), first=(-1, 0)), "from pixel 0 of dimension 1"),
    "too long an offset of 4 dimensions": (replace(GOOD, offsets=(0, 256)), "at an offset of 256 pixels"),
    "too long an offset of 5 dimensions": (replace(VOLUME, offsets=(32, 0, 0)), "it is at most 31"),
    "too many pixels": (replace(GOOD, pixels=1025, channels=8, swizzle=0), "of 8 channels of 1025 pixels"),
    "no pixels": (replace(GOOD, pixels=0), "of 64 channels of 0 pixels"),
    "too many channels": (replace(GOOD, channels=272, element_bytes=1, swizzle=0), "of 272 channels of 8 pixels"),
    "a tiled map": (
        replace(GOOD, is_im2col=False),
        "in im2col mode needs a tensor map and an instruction of that mode",
    ),
    "a tiled instruction": (replace(LINE, instruction=2), "needs a tensor map and an instruction of that mode"),
    "another rank": (replace(GOOD, instruction=5), "of a tensor map with 4 dimensions by an instruction for 5"),
    "rows shorter than the swizzle": (replace(GOOD, channels=32), "rows of 64 bytes, not the 128 of its swizzle"),
}


@pytest.mark.parametrize("copy", ALLOWED.values(), ids=list(ALLOWED))
def test_the_limits_of_the_hardware_are_no_fault(make_job: MakeJob, copy: Copy) -> None:
    data = images_of(copy)
    outcome = CpuDevice().run(job_of(make_job, copy, data))
    assert outcome.faults == ()
    assert (outcome.buffers["out"] == copy.expected(data)).all()


@pytest.mark.parametrize(("copy", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_the_hardware_does_not_allow_is_a_fault(make_job: MakeJob, copy: Copy, message: str) -> None:
    fault: Fault
    (fault,) = CpuDevice().run(job_of(make_job, copy, images_of(copy))).faults
    assert (fault.kind, message in fault.message) == ("undefined", True), fault
    instruction = "tma_load_3d" if copy.instruction == 2 else f"tma_load_im2col_{copy.instruction or copy.rank}d"
    assert fault.line == next(n for n, line in enumerate(SOURCE.split("\n"), 1) if instruction in line)


CONVOLUTION = """
cugen: 1
kernel: conv
target: sm_90a
params: {N: 2, H: 9, W: 11, P: 5, Q: 6, C: 64, K: 32}
arrays:
  x: {shape: [N, H, W, C], dtype: bfloat16, boundary: zero}
  w: {shape: [K, 3, 3, C], dtype: bfloat16}
  y: {shape: [N, P, Q, K], dtype: float32}
compute: y[n, p, q, k] = sum(x[n, 2*p + r - 1, 2*q + s - 1, c] * w[k, r, s, c], r, s, c)
schedule: {family: wgmma}
"""
COPY = "tma_load_im2col_4d(&xs[stage][0][0], &x_map, &full[stage], c, 2 * q - 1, 2 * p - 1, n, s, r);"
PLANTED = {
    "no fault": ("n, s, r);", "n, s, r);", ""),
    "a first pixel before the box": ("2 * q - 1", "2 * q - 2", "from pixel -2 of dimension 1, which its bounding box"),
    "a first pixel between steps": ("2 * p - 1", "2 * p", "from pixel 0 of dimension 2, which its bounding box"),
    "an offset of too many pixels": ("s, r);", "s + 256, r);", "at an offset of 256 pixels, and of 4 dimensions it is"),
    "a copy as if of a tiled map": (
        "tma_load_im2col_4d(&xs[stage][0][0], &x_map, &full[stage], c, 2 * q - 1, 2 * p - 1, n, s, r)",
        "tma_load_2d(&xs[stage][0][0], &x_map, &full[stage], c, q)",
        "of a tensor map with 4 dimensions by an instruction for 2",
    ),
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("options", DEVICES.values(), ids=list(DEVICES))
@pytest.mark.parametrize(("before", "after", "message"), PLANTED.values(), ids=list(PLANTED))
def test_a_fault_planted_into_the_copy_of_a_convolution_is_named(
    options: dict[str, Any], before: str, after: str, message: str
) -> None:
    (spec,) = load_text(CONVOLUTION)
    kernel = generate(spec, analysis=False)
    assert kernel.source.count(COPY) == 1
    source = kernel.source.replace(COPY, COPY.replace(before, after, 1))
    run = verify(kernel.spec, source, kernel.manifest, CpuDevice(**options))
    assert run.verification.passed == (not message)
    assert [message in fault.message for fault in run.outcome.faults] == ([True] if message else [])
