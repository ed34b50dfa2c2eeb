"""Columns that no block holds, or that few blocks load one by one, take launches that fill the device."""

from __future__ import annotations

from math import prod
from unittest.mock import patch

import pytest

from cugen.families.rowwise import config
from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

SPEC = """cugen: 1
kernel: f
params: {{N: {n}, D: {d}}}
arrays:
  x: {{shape: [N, D], dtype: {dtype}}}
  y: {{shape: [N, D], dtype: {dtype}}}
compute: y[n, d] = {value}
"""
SOFTMAX = "softmax(x[n, d], n)"
VALUES = [SOFTMAX, "x[n, d] / norm(x[k, d], k)", "(x[n, d] - mean(x[k, d], k)) * rsqrt(var(x[k, d], k) + 1)"]


def kernel_of(n: int, d: int, value: str, dtype: str = "float32"):
    (spec,) = load_text(SPEC.format(n=n, d=d, value=value, dtype=dtype))
    return generate(spec, analysis=False)


@pytest.mark.parametrize("value", VALUES)
def test_columns_that_no_block_holds_take_several_launches(value):
    kernel = kernel_of(30000, 1000, value)
    *passes, last = kernel.plan.kernels
    assert {launch.family for launch in passes} == {"reduce"}
    assert last.family == "map"
    assert all(prod(launch.grid) >= 132 for launch in kernel.manifest.launches[::2])


@pytest.mark.parametrize(
    ("n", "d", "dtype", "is_one_launch"),
    [
        pytest.param(30000, 4000, "float32", False, id="no block holds them, whatever the grid"),
        pytest.param(30000, 24, "float32", False, id="few of them"),
        pytest.param(4096, 64, "float32", False, id="few blocks of long ones"),
        pytest.param(4096, 1000, "float32", True, id="more blocks"),
        pytest.param(3000, 64, "float32", True, id="short ones"),
        pytest.param(8192, 1000, "bfloat16", False, id="blocks of many narrow elements"),
        pytest.param(2048, 1000, "bfloat16", True, id="blocks of fewer"),
    ],
)
def test_columns_that_blocks_hold_stay_in_one_launch_where_that_is_faster(n, d, dtype, is_one_launch):
    kernels = kernel_of(n, d, SOFTMAX, dtype).plan.kernels
    assert (len(kernels) == 1) == is_one_launch
    assert is_one_launch == (kernels[0].family == "rowwise")


@pytest.mark.covering
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_results_are_right(value, dtype):
    with patch.object(config, "MIN_RELOADED_ELEMENTS", 1):
        kernel = kernel_of(20000, 9, value, dtype)
    assert len(kernel.plan.kernels) > 1
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed
