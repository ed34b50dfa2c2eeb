"""Temporaries that are stored for the launches of others, and those that are not."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

PARTICLES = """
params: {H: 40, W: 50}
arrays:
  f: {shape: [9, H, W], dtype: float32, boundary: wrap}
  g: {shape: [9, H, W], dtype: float32}
  dx: {shape: [9], dtype: int32, values: [0, 1, 0, -1, 0, 1, -1, -1, 1]}
compute: |
  s[q, i, j] = f[q, i, j - dx[q]]
  rho[i, j] = sum(s[q, i, j], q)
  u[i, j] = sum(s[q, i, j] * cast(dx[q], float32), q) / rho[i, j]
  g[q, i, j] = s[q, i, j] + 0.1 * (rho[i, j] * (1 + cast(dx[q], float32) * u[i, j]) - s[q, i, j])
"""


def test_what_one_launch_reduces_and_maps_is_not_stored() -> None:
    (spec,) = load_text(f"cugen: 1\nkernel: particles{PARTICLES}")
    kernel = generate(spec, analysis=False)
    assert [planned.family for planned in kernel.plan.kernels] == ["rowwise"]
    assert not kernel.plan.workspace
    assert "long long" not in kernel.source  # the offsets of the table are known
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


OFFSETS = """
params: {N: 50}
arrays:
  x: {shape: [N], dtype: float32, boundary: %s}
  d: {shape: [3], dtype: %s, values: [0, 4, 60]}
  y: {shape: [3, N], dtype: float32}
compute: y[q, i] = x[i - d[q]]
"""


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("boundary", ["wrap", "clamp", "zero"])
def test_subscripts_of_a_table_of_any_type_are_right(boundary: str, dtype: str) -> None:
    (spec,) = load_text(f"cugen: 1\nkernel: offsets{OFFSETS % (boundary, dtype)}")
    kernel = generate(spec, analysis=False)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed
