"""Factors of temporaries are outside of the sums that read these."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.rewrite.sums.factored_operands import with_factored_operands
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

SCALE = "h[m, k] = x[m, k] * s[m]"
NORM = "h[m, k] = x[m, k] * rsqrt(mean(x[m, j] ** 2, j) + 1e-6)"
QUOTIENT = "h[m, k] = x[m, k] / sum(abs(x[m, j]), j)"
PRODUCT = "y[m, n] = sum(h[m, k] * w[n, k], k) + s[m]"


def spec_of(*statements: str, sizes: str = "M: 2048, N: 1024, K: 1024", more: str = "") -> Spec:
    lines = "".join(f"  {statement}\n" for statement in statements)
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: sm_90a
params: {{{sizes}}}
arrays:
  x: {{shape: [M, K], dtype: bfloat16}}
  w: {{shape: [N, K], dtype: bfloat16}}
  s: {{shape: [M], dtype: float32}}
  y: {{shape: [M, N], dtype: bfloat16}}
{more}compute: |
{lines}""")
    return spec


def families(kernel: Kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


@pytest.mark.parametrize(
    ("temporary", "chosen"), [(SCALE, ["wgmma"]), (NORM, ["reduce", "wgmma"]), (QUOTIENT, ["reduce", "wgmma"])]
)
def test_a_row_that_is_scaled_first_is_multiplied_in_its_own_type(temporary: str, chosen: list[str]) -> None:
    assert families(generate(spec_of(temporary, PRODUCT))) == chosen


def test_the_temporary_is_left_to_others_that_read_it() -> None:
    more = "  z: {shape: [M, K], dtype: float32}\n"
    spec = spec_of(NORM, PRODUCT, "z[m, k] = h[m, k] + 1", more=more)
    changed = with_factored_operands(spec)
    assert [statement.target for statement in changed.statements] == ["h_factor", "h", "y", "z"]
    kernel = generate(spec)
    assert families(kernel)[-1] != "gemm"
    assert "wgmma" in families(kernel)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(("h[m, k] = x[m, k] * s[m] + 1", PRODUCT), id="a sum"),
        pytest.param(("h[m, k] = x[m, k] * w[0, k]", PRODUCT), id="a factor of single terms"),
        pytest.param((SCALE, "y[m, n] = max(h[m, k] * w[n, k], k)"), id="another reduction"),
        pytest.param((SCALE, "y[m, n] = sum(h[m, k] * w[n, k], k, where=k <= n)"), id="a condition"),
        pytest.param((SCALE, "s[m] = 1", PRODUCT), id="a factor that is written again"),
    ],
)
def test_other_temporaries_stay(statements: tuple[str, ...]) -> None:
    spec = spec_of(*statements)
    assert with_factored_operands(spec) is spec


def test_a_temporary_that_the_spec_declares_is_rounded_to_its_type() -> None:
    more = "  h: {shape: [M, K], dtype: float16, memory: scratch}\n"
    spec = spec_of(SCALE, PRODUCT, more=more)
    assert with_factored_operands(spec) is spec


@pytest.mark.covering
@pytest.mark.parametrize("sizes", ["M: 37, N: 70, K: 33", "M: 128, N: 64, K: 64"])
@pytest.mark.parametrize("temporary", [SCALE, NORM, QUOTIENT])
def test_results_are_right(temporary: str, sizes: str) -> None:
    more = "  z: {shape: [M, N], dtype: float32}\n"
    spec = spec_of(temporary, PRODUCT, "z[m, n] = sum(w[n, k] * h[m, k] * 2, k) - 1", sizes=sizes, more=more)
    kernel = generate(spec)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
