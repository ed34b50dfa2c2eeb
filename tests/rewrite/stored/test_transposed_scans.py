"""A scan whose input and results have different contiguous dimensions is a transposition and a scan."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from cugen.families.scan import recognition
from cugen.kernel import generate
from cugen.rewrite.stored import transposed_scans
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

TEXT = """
cugen: 1
kernel: f
params: {M: %d, N: %d}
arrays:
  x: {shape: [M, N], dtype: float32%s}
  y: {shape: %s, dtype: float32}
compute: y[%s] = %s
"""
CASES = [
    pytest.param(", layout: column", "[M, N]", "i, j", "cumsum(x[i, j], j)", id="column-major, along rows"),
    pytest.param(", layout: column", "[M, N]", "i, j", "cummax(2 * x[i, j], i)", id="column-major, along columns"),
    pytest.param("", "[N, M]", "j, i", "cumsum(x[i, j], j, exclusive=true) + 1", id="transposed"),
    pytest.param("", "[N, M]", "j, i", "cumprod(x[i, j], i, reverse=true)", id="transposed, reverse"),
]


@pytest.mark.parametrize(("layout", "shape", "target", "value"), CASES)
def test_it_is_transposed_first(layout, shape, target, value):
    (spec,) = load_text(TEXT % (2000, 3000, layout, shape, target, value))
    assert [launch.family for launch in generate(spec, analysis=False).plan.kernels] == ["transpose", "scan"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("layout", "shape", "target", "value"), CASES)
def test_its_results_are_right(layout, shape, target, value):
    (spec,) = load_text(TEXT % (70, 133, layout, shape, target, value))
    with patch.object(transposed_scans, "MIN_TERMS", 1), patch.object(recognition, "MIN_TERMS", 1):
        kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["transpose", "scan"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("layout", "shape", "target", "value"), CASES)
def test_a_small_one_is_scanned_as_it_is(layout, shape, target, value):
    (spec,) = load_text(TEXT % (70, 133, layout, shape, target, value))
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["scan"]
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


def test_fields_of_structures_are_transposed_too():
    text = TEXT % (2000, 3000, "", "[N, M, 2]", "j, i, 1", "cumsum(x[i, j], j)")
    (spec,) = load_text(text.replace("compute: ", "compute: |\n  y[j, i, 0] = 1\n  "))
    families = [launch.family for launch in generate(spec, analysis=False).plan.kernels]
    assert families[-1] == "scan"
    assert "direct" not in families
