"""Frames that overlap, as of a decimating filter or the energy of a window: each has its lanes."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

FRAMES = """
params: {F: 61, S: %d, T: %d}
arrays:
  x: {shape: [%s], dtype: float32%s}
  w: {shape: [T], dtype: float32}
  y: {shape: [F], dtype: float32}
compute: y[f] = %s
"""


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: frames{text}")
    return generate(spec, analysis=False)


@pytest.mark.parametrize(
    ("step", "length", "shape", "boundary", "value"),
    [
        pytest.param(16, 40, "F * S + T", "", "sum((w[t] * x[f * S + t]) ** 2, t)", id="inside"),
        pytest.param(10, 101, "F * S + T", "", "max(x[f * S + t] * w[t], t)", id="of odd lengths"),
        pytest.param(8, 64, "F * S", ", boundary: zero", "sum(w[t] * x[f * S - t], t)", id="before the array"),
        pytest.param(9, 65, "F * S", ", boundary: reflect", "sum(w[t] * x[f * S + t - 5], t)", id="at both ends"),
    ],
)
def test_frames_are_reduced_by_lanes_of_their_own(step, length, shape, boundary, value):
    text = FRAMES % (step, length, shape, boundary, value)
    kernel = kernel_of(f"{text}schedule: {{family: reduce}}\n")
    assert [planned.family for planned in kernel.plan.kernels] == ["reduce"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_frames_of_which_few_share_an_element_are_reduced_unasked():
    text = FRAMES % (16, 40, "F * S + T", "", "sum(w[t] * x[f * S + t], t)")
    assert [planned.family for planned in kernel_of(text).plan.kernels] == ["reduce"]


@pytest.mark.parametrize("step", [1, 2, 4])
def test_frames_that_share_sectors_are_left_to_windows(step):
    text = FRAMES % (step, 8, "F * S + T", "", "sum(w[t] * x[f * S + t], t)")
    assert [planned.family for planned in kernel_of(text).plan.kernels] != ["reduce"]
