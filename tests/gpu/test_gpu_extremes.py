"""The PTX instructions of maxima and minima: a NaN spreads, as in the branch that the CPU device runs."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_nan_operand_gives_nan(device: GpuDevice, name: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 1e-40]
    a, b = (part.ravel().astype(np.float32) for part in np.meshgrid(special, special))
    arrays = "\n".join(f"  {array}: {{shape: [64], dtype: float32}}" for array in "aby")
    (spec,) = load_text(f"cugen: 1\nkernel: k\narrays:\n{arrays}\ncompute: y[i] = {name}(a[i], b[i])\n")
    kernel = generate(spec)
    assert f"{name[:3]}.NaN.f32" in kernel.source
    job = make_job(kernel.source, kernel.manifest, Inputs({"a": a, "b": b}, {}), {})
    y = outputs_of(job, device.run(job))["y"]
    np.testing.assert_array_equal(y, getattr(np, name)(a, b))
