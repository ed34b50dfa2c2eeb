"""Texture objects on the CPU device: fetches inside and outside, and of a type that the texture hasn't."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.manifest import Texture
from cugen.runtime.cpu import CpuDevice

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


@pytest.mark.parametrize("kind", ["int", "unsigned char", "short"])
def test_a_fetch_of_another_type_than_the_texture_has_is_undefined(make_job, kind: str) -> None:
    out = np.zeros(32, {"int": "i4", "unsigned char": "u1", "short": "i2"}[kind])
    (fault,) = fetched(make_job, kind, np.zeros(32, np.uint16), out).faults
    assert fault.kind == "undefined"
    assert fault.line == 3
    assert "channel format" in fault.message
