"""Windows that conditions keep inside of an array are those of a padded one."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.canonical.padded_windows import with_padded_windows
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

PRODUCT = "x[n, c, i + r - 1, j + s - 1] * w[f, c, r, s]"
INSIDE = "0 <= i + r - 1 < H and 0 <= j + s - 1 < W"
CONDITIONAL = f"sum({PRODUCT} if {INSIDE} else 0, c, r, s)"
WHERE = f"sum({PRODUCT}, c, r, s, where=i + r >= 1 and i + r <= H and j + s > 0 and s - 1 < W - j)"
FACTOR = f"sum(where({INSIDE}, x[n, c, i + r - 1, j + s - 1], 0) * w[f, c, r, s], c, r, s)"


def spec_of(value: str, sizes: str = "N: 16, C: 64, F: 128, H: 56, W: 56", dtype: str = "bfloat16") -> Spec:
    (spec,) = load_text(f"""
cugen: 1
kernel: convolution
target: sm_90a
params: {{{sizes}}}
arrays:
  x: {{shape: [N, C, H, W], dtype: {dtype}}}
  w: {{shape: [F, C, 3, 3], dtype: {dtype}}}
  y: {{shape: [N, F, H, W], dtype: float32}}
compute: y[n, f, i, j] = {value}
""")
    return spec


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", [CONDITIONAL, WHERE, FACTOR])
def test_a_padded_convolution_is_a_gemm_however_it_is_spelt(value: str) -> None:
    assert [launch.family for launch in generate(spec_of(value)).plan.kernels][-1] == "wgmma"


@pytest.mark.covering
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("value", [CONDITIONAL, WHERE, FACTOR])
def test_results_are_right(value: str, dtype: str) -> None:
    spec = spec_of(value, "N: 2, C: 5, F: 33, H: 9, W: 6", dtype)
    kernel = generate(spec)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_other_conditions_stay() -> None:
    padded = "sum(x[n, c, i, j] * w[f, c, r, s], c, r, s, where=r + s <= j)"
    (written,) = spec_of(padded).statements
    (statement,) = with_padded_windows(spec_of(f"sum({PRODUCT}, c, r, s, where={INSIDE} and r + s <= j)")).statements
    assert statement.value.where == written.value.where


def test_a_correlation_of_a_signal_with_itself_keeps_its_range() -> None:
    (spec,) = load_text("""
cugen: 1
kernel: correlation
params: {T: 5000, L: 200}
arrays: {x: {shape: [T], dtype: float32}, y: {shape: [L], dtype: float32}}
compute: y[l] = sum(x[t] * x[t + l], t, where=t + l < T)
""")
    assert with_padded_windows(spec) is spec
