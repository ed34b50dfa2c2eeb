"""Tensor maps as parameters of kernels on the CPU device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.manifest import TensorMapEntry
from cugen.runtime.cpu import CpuDevice

FIELDS = r"""
#include <cuda.h>

extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, unsigned long long* out, int rows) {
  if (threadIdx.x > 0) return;
  for (int i = 0; i < 3; ++i) {
    out[i] = map.sizes[i];
    out[3 + i] = map.strides[i];
    out[6 + i] = map.box[i];
  }
  out[9] = map.rank;
  out[10] = map.swizzle_bytes;
  out[11] = map.element_bytes;
  out[12] = map.rounds_to_tf32;
  out[13] = *reinterpret_cast<const unsigned*>(map.address + 4);
  out[14] = rows;
}
"""


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_kernel_gets_the_maps_before_its_arguments(make_job, sanitize: bool) -> None:
    arrays = {"x": np.arange(7, 107, dtype=np.uint32), "out": np.zeros(15, np.uint64)}
    job = make_job(FIELDS, arrays, params={"rows": 5}, launches=(("k", ("out", "rows")),))
    entry = TensorMapEntry("x_map", "x", "float32", (20, "rows"), ("rows * 16",), (8, 4), 32, tf32=True)
    (launch,) = job.manifest.launches
    launches = (replace(launch, tensor_maps=("x_map",)),)
    mapped = replace(job, manifest=replace(job.manifest, tensor_maps=(entry,), launches=launches))
    outcome = CpuDevice(sanitize=sanitize).run(mapped)
    assert outcome.faults == ()
    sizes, strides, box = (20, 5, 0), (4, 80, 0), (8, 4, 0)
    assert outcome.buffers["out"].tolist() == [*sizes, *strides, *box, 2, 32, 4, 1, 8, 5]


def test_a_launch_without_its_map_is_refused(make_job) -> None:
    arrays = {"x": np.zeros(8, np.uint32), "out": np.zeros(15, np.uint64)}
    job = make_job(FIELDS, arrays, params={"rows": 5}, launches=(("k", ("out", "rows")),))
    (fault,) = CpuDevice().run(job).faults
    assert fault.kind == "launch"
