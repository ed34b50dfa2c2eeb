"""Reductions and scans of one statement that families compute each by itself."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

LOOPS = """
params: {N: %d}
arrays:
  a: {shape: [N, N], dtype: float32}
  b: {shape: [N, N], dtype: float32}
  x: {shape: [N, N], dtype: float32, boundary: zero}
  w: {shape: [5, 5], dtype: float32}
  y: {shape: [N, N], dtype: float32}
compute: y[m, n] = %s
"""
PRODUCT = "sum(a[m, k] * b[k, n], k)"
WINDOW = "sum(x[m + r - 2, n + s - 2] * w[r, s], r, s)"
ROW = "cumsum(a[m, n], n)"
UNUSED = {"b": "  b: {shape: [N, N], dtype: float32}\n", "w": "  w: {shape: [5, 5], dtype: float32}\n"}
UNUSED |= {"x": "  x: {shape: [N, N], dtype: float32, boundary: zero}\n"}


def kernel_of(value: str, size: int) -> Kernel:
    text = LOOPS % (size, value)
    for name, line in UNUSED.items():
        text = text if f"{name}[" in value else text.replace(line, "")
    (spec,) = load_text(f"cugen: 1\nkernel: loops{text}")
    return generate(spec, analysis=False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "families"),
    [
        pytest.param(f"{PRODUCT} + {WINDOW}", ["stencil", "gemm"], id="a product and windows"),
        pytest.param(f"relu({WINDOW} - {PRODUCT})", ["stencil", "gemm"], id="in the other order"),
        pytest.param(f"{PRODUCT} + {ROW}", ["scan", "gemm"], id="a product and a scan"),
        pytest.param(f"{ROW} * {WINDOW}", ["scan", "stencil"], id="a scan and windows"),
        pytest.param(f"{ROW} + b[n, m]", ["scan", "transpose"], id="a scan and a transposed matrix"),
        pytest.param("b[m, n + 0] * softmax(a[m, n], n)", ["rowwise"], id="rows and their elements"),
    ],
)
def test_loops_of_a_statement_have_the_families_that_suit_each(value: str, families: list[str]) -> None:
    kernel = kernel_of(value, 2048)
    assert [planned.family for planned in kernel.plan.kernels] == families


@pytest.mark.parametrize("value", [f"{PRODUCT} + {WINDOW}", f"{ROW} * {WINDOW} + b[n, m]"])
def test_loops_that_take_less_than_a_launch_stay_together(value: str) -> None:
    assert len(kernel_of(value, 33).plan.kernels) == 1


@pytest.mark.slow
@pytest.mark.parametrize("value", [f"{PRODUCT} + {WINDOW}", f"{PRODUCT} + {ROW}", f"{ROW} * {WINDOW}"])
def test_results_of_separate_loops_are_those_of_the_statement(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cugen.schedule.splitting.separate_loops._MIN_TERMS", 1)
    kernel = kernel_of(value, 41)
    assert len(kernel.plan.kernels) == 2
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


TOTALS = """
cugen: 1
kernel: totals
params: {M: %d, N: 4097, K: 1003}
arrays:
  a: {shape: [M, N], dtype: bfloat16}
  b: {shape: [K], dtype: bfloat16}
  y: {shape: [M, N], dtype: bfloat16}
compute: |
  total = %s
  s = minimum(1, rsqrt(total + 1e-12))
  y[i, j] = a[i, j] * s
"""
OF_TWO = "sum(a[i, j] ** 2, i, j) + sum(b[k] ** 2, k)"


def test_totals_of_several_arrays_are_reduced_each_by_itself() -> None:
    """As the norm of several gradients by which each is clipped."""
    (spec,) = load_text(TOTALS % (4096, OF_TWO))
    kernel = generate(spec, analysis=False)
    assert [planned.family for planned in kernel.plan.kernels] == ["reduce", "reduce", "reduce", "map"]


@pytest.mark.parametrize("total", [OF_TWO, "sum(a[i, j] ** 2, i, j)", "max(abs(a[i, j]), i, j) * sum(b[k], k)"])
def test_a_number_that_another_one_is_computed_of_scales_an_array(total: str) -> None:
    """A number that is read has no subscripts."""
    text = TOTALS if "b[" in total else TOTALS.replace("  b: {shape: [K], dtype: bfloat16}\n", "")
    (spec,) = load_text(text % (37, total))
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
