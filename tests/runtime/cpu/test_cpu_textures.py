"""Texture objects on the CPU device: fetches inside and outside, by every address mode, and of a type or a number of
dimensions that the texture hasn't."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.manifest import Texture
from cugen.reference.contents import Contents
from cugen.reference.filtering import filtered
from cugen.reference.tracked import Tracked
from cugen.runtime.cpu import CpuDevice
from cugen.spec.expressions import Boundary
from cugen.spec.types import DTYPES

FETCH = r"""
extern "C" __global__ void k(cudaTextureObject_t x, TYPE* out, int offset) {
  out[threadIdx.x] = tex1Dfetch<TYPE>(x, threadIdx.x + offset);
}
"""


def fetched(make_job, kind: str, values: np.ndarray, out: np.ndarray, offset: int = 0):
    job = make_job(FETCH.replace("TYPE", kind), {"x": values, "out": out}, params={"offset": offset})
    return CpuDevice().run(replace(job, manifest=replace(job.manifest, textures=(Texture("x"),))))


@pytest.mark.parametrize("offset", [0, -3, 30, 2**31 - 33, -(2**31)])
def test_a_fetch_outside_gives_0(make_job, offset: int) -> None:
    values = np.arange(1, 41, dtype=np.float32)
    outcome = fetched(make_job, "float", values, np.zeros(32, np.float32), offset)
    padded = dict(enumerate(values))
    assert outcome.faults == ()
    assert outcome.buffers["out"].tolist() == [padded.get(i + offset, 0) for i in range(32)]


def test_a_fetch_of_16_bit_floats_gives_floats(make_job) -> None:
    values = np.array([1.5, -0.0, 6e-8, np.inf] * 8, np.float16)
    outcome = fetched(make_job, "float", values, np.zeros(32, np.float32))
    assert outcome.buffers["out"].tolist() == values.astype(np.float32).tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["int", "unsigned char", "short"])
def test_a_fetch_of_another_type_than_the_texture_has_is_undefined(make_job, kind: str) -> None:
    out = np.zeros(32, {"int": "i4", "unsigned char": "u1", "short": "i2"}[kind])
    (fault,) = fetched(make_job, kind, np.zeros(32, np.uint16), out).faults
    assert fault.kind == "undefined"
    assert fault.line == 3
    assert "channel format" in fault.message


FETCH_2D = r"""
extern "C" __global__ void k(cudaTextureObject_t x, TYPE* out, int row, int column) {
  const float scale_x = SCALED ? 1.0f / 5 : 1.0f, scale_y = SCALED ? 1.0f / 3 : 1.0f;
  out[threadIdx.x] = tex2D<TYPE>(x, (int(threadIdx.x) + column + 0.5f) * scale_x, (row + 0.5f) * scale_y);
}
"""
WIDTH, HEIGHT, PITCH = 5, 3, 8  # elements
PADDING = {"wrap": "wrap", "clamp": "edge", "mirror": "symmetric", "border": "constant"}


def pitched(mode: str) -> Texture:
    return Texture("x", WIDTH, HEIGHT, PITCH * 4, mode)


def fetched_2d(make_job, kind: str, values: np.ndarray, out: np.ndarray, texture: Texture, row: int, column: int):
    is_normalized = texture.address_mode in ("wrap", "mirror")
    source = FETCH_2D.replace("TYPE", kind).replace("SCALED", str(is_normalized).lower())
    job = make_job(source, {"x": values, "out": out}, params={"row": row, "column": column})
    return CpuDevice(sanitize=True).run(replace(job, manifest=replace(job.manifest, textures=(texture,))))


@pytest.mark.sampled(13)
@pytest.mark.parametrize("mode", list(PADDING))
@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, -7), (-1, -31), (4, 3), (-9, -16), (11, -40)])
def test_an_address_mode_pads_as_numpy_does(make_job, mode: str, row: int, column: int) -> None:
    rows = np.full((HEIGHT, PITCH), np.nan, np.float32)
    rows[:, :WIDTH] = np.arange(1, 16).reshape(HEIGHT, WIDTH)
    outcome = fetched_2d(make_job, "float", rows.ravel(), np.zeros(32, np.float32), pitched(mode), row, column)
    padded = np.pad(rows[:, :WIDTH], 50, mode=PADDING[mode])
    assert outcome.faults == ()
    assert outcome.buffers["out"].tolist() == padded[row + 50, column + 50 : column + 82].tolist()


@pytest.mark.parametrize("mode", ["clamp", "border"])
@pytest.mark.parametrize("column", [2**31 - 33, -(2**31)])
def test_a_coordinate_far_outside_is_outside(make_job, mode: str, column: int) -> None:
    rows = np.ones(HEIGHT * PITCH, np.float32)
    outcome = fetched_2d(make_job, "float", rows, np.zeros(32, np.float32), pitched(mode), 1, column)
    assert outcome.faults == ()
    assert set(outcome.buffers["out"].tolist()) == {1.0 if mode == "clamp" else 0.0}


def test_a_2d_fetch_of_another_type_than_the_texture_has_is_undefined(make_job) -> None:
    values, out = np.zeros(HEIGHT * PITCH, np.uint32), np.zeros(32, np.float32)
    (fault,) = fetched_2d(make_job, "float", values, out, pitched("clamp"), 0, 0).faults
    assert (fault.kind, fault.line) == ("undefined", 4)
    assert "channel format" in fault.message


def test_a_fetch_of_another_number_of_coordinates_is_undefined(make_job) -> None:
    values, out = np.zeros(HEIGHT * PITCH, np.float32), np.zeros(32, np.float32)
    (fault,) = fetched_2d(make_job, "float", values, out, Texture("x"), 0, 0).faults
    assert (fault.kind, "number of dimensions" in fault.message) == ("undefined", True)
    job = make_job(FETCH.replace("TYPE", "float"), {"x": values, "out": out}, params={"offset": 0})
    (fault,) = CpuDevice().run(replace(job, manifest=replace(job.manifest, textures=(pitched("clamp"),)))).faults
    assert (fault.kind, "number of dimensions" in fault.message) == ("undefined", True)


FILTERED = r"""
extern "C" __global__ void k(cudaTextureObject_t x, const float* points, float* out) {
  const float scale = SCALED ? 1.0f / 3 : 1.0f;
  out[threadIdx.x] = tex2D<float>(x, points[threadIdx.x] * scale, SCALED ? 0.25f : 0.5f);
}
"""
# Values of a row of 10, 20, 40 at texture coordinates; the centres of its elements are at 0.5, 1.5 and 2.5.
INSIDE = {0.5: 10, 1.0: 15, 1.5: 20, 2.0: 30, 2.5: 40, 1 + 0.4 / 256: 15, 1 + 0.6 / 256: 10 + 10 * 129 / 256}
OUTSIDE = {
    "clamp": {0.25: 10, -0.5: 10, -9.0: 10, 3.25: 40, 3.5: 40, 99.0: 40},
    "border": {0.25: 7.5, -0.5: 0, -9.0: 0, 3.25: 10, 3.5: 0, 99.0: 0},
    "wrap": {0.25: 17.5, -0.5: 40, -8.5: 10, 3.25: 17.5, 3.5: 10, 99.5: 10},
    "mirror": {0.25: 10, -0.5: 10, -1.0: 15, 3.25: 40, 3.5: 40, 4.0: 30},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", list(PADDING))
def test_a_filtered_fetch_weighs_elements_in_steps_of_1_256(make_job, mode: str) -> None:
    expected = INSIDE | OUTSIDE[mode]
    points = np.zeros(32, np.float32)
    points[: len(expected)] = list(expected)
    rows = np.full((2, PITCH), np.nan, np.float32)
    rows[0, :3] = (10, 20, 40)
    rows[1, :3] = rows[0, :3] if mode in ("wrap", "mirror") else np.nan
    source = FILTERED.replace("SCALED", str(mode in ("wrap", "mirror")).lower())
    buffers = {"x": rows.ravel(), "points": points, "out": np.zeros(32, np.float32)}
    job = make_job(source, buffers)
    texture = Texture("x", 3, 2 if mode in ("wrap", "mirror") else 1, PITCH * 4, mode, "linear")
    outcome = CpuDevice(sanitize=True).run(replace(job, manifest=replace(job.manifest, textures=(texture,))))
    assert outcome.faults == ()
    assert outcome.buffers["out"][: len(expected)] == pytest.approx(list(expected.values()), rel=1e-6)


SAMPLES = r"""
extern "C" __global__ void k(cudaTextureObject_t x, const float* points, float* out, int count, int height, int width) {
  const float scale_x = SCALED ? 1.0f / width : 1.0f, scale_y = SCALED ? 1.0f / height : 1.0f;
  for (int i = threadIdx.x; i < count; i += 32)
    out[i] = tex2D<float>(x, (points[count + i] + 0.5f) * scale_x, (points[i] + 0.5f) * scale_y);
}
"""
BOUNDARIES = {"wrap": "wrap", "clamp": "clamp", "mirror": "symmetric", "border": "zero"}


def sampled(make_job, values: np.ndarray, points: np.ndarray, mode: str) -> np.ndarray:
    """The values of a matrix without padding at points, one a column."""
    height, width = values.shape
    source = SAMPLES.replace("SCALED", str(mode in ("wrap", "mirror")).lower())
    buffers = {"x": values.ravel(), "points": points.ravel(), "out": np.zeros(points.shape[1], np.float32)}
    job = make_job(source, buffers, params={"count": points.shape[1], "height": height, "width": width})
    texture = Texture("x", width, height, width * values.itemsize, mode, "linear")
    outcome = CpuDevice(sanitize=True).run(replace(job, manifest=replace(job.manifest, textures=(texture,))))
    assert outcome.faults == ()
    return outcome.buffers["out"]


def points_of(shape: tuple[int, int], count: int) -> np.ndarray:
    """Elements, and points at and near the middle of two weights and anywhere, from 2 extents before to 3 after."""
    generator = np.random.default_rng(5)
    points = []
    for extent in shape:
        steps = generator.integers(0, 512, count) / 512
        near = steps + generator.choice([-1, 1], count) * 2.0 ** -generator.integers(10, 26, count)
        fraction = np.choose(generator.integers(0, 4, count), [np.zeros(count), steps, near, generator.random(count)])
        points.append((generator.integers(-2 * extent, 3 * extent, count) + fraction).astype(np.float32))
    return np.array(points)


@pytest.mark.sampled(28)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", list(BOUNDARIES))
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (8, 64), (37, 131), (3, 12000), (3, 20000), (70000, 2), (2, 131072)])
def test_a_filtered_fetch_is_what_the_reference_says(make_job, shape: tuple[int, int], mode: str, dtype: str) -> None:
    values = np.random.default_rng(4).standard_normal(shape).astype(dtype)
    points = points_of(shape, 4000)
    coordinates = [Tracked(axis.astype(np.float64)) for axis in points]
    expected = filtered(Contents(DTYPES[dtype], values), coordinates, Boundary(BOUNDARIES[mode]))
    assert sampled(make_job, values, points, mode).tolist() == expected.value.astype(dtype).tolist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mode", list(BOUNDARIES))
def test_subnormal_elements_and_infinite_ones_of_weight_0_do_not_count(make_job, mode: str) -> None:
    values = np.array([[1e-40, 1e-40, 2, np.inf]], np.float32)
    points = np.array([np.zeros(4), [0, 0.5, 2, 2.5]], np.float32)
    assert sampled(make_job, values, points, mode).tolist() == [0, 0, 2, np.inf]
