"""Arrays of CuPy straight into a compiled kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cugen
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[2] / "examples"
SPEC = """\
cugen: 1
kernel: scale
params: {M: dynamic, N: 5}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32, layout: column}
compute: y[m, n] = 2 * x[m, n]
"""


@pytest.fixture
def cupy(device: GpuDevice) -> Any:
    return pytest.importorskip("cupy", reason="NOT TESTED: CuPy is not installed")


def test_layouts_of_cupy_are_checked_against_the_specs(cupy: Any) -> None:
    scale = cugen.generate(load_text(SPEC)[0]).compile()
    x = cupy.arange(35, dtype=cupy.float32).reshape(7, 5)
    y = cupy.empty((7, 5), cupy.float32, order="F")
    scale(x=x, y=y)
    assert (y == 2 * x).all()
    for wrong, code in (
        ({"y": cupy.empty((7, 5), cupy.float32)}, "CG5006"),
        ({"x": x.astype(cupy.float64)}, "CG5003"),
        ({"x": x[:, ::2]}, "CG5002"),
        ({"x": cupy.asnumpy(x)}, "CG5008"),
    ):
        with pytest.raises(cugen.RunError, match=code):
            scale(**{"x": x, "y": y} | wrong)


def test_the_example_runs(cupy: Any) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "cupy" / "blend.py")], check=True, capture_output=True, text=True
    )
    assert done.stdout.endswith("on the gpu\n")
