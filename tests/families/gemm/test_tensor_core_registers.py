"""Registers of kernels on tensor cores, as ptxas allocates them: unaligned operands are copied through registers."""

from __future__ import annotations

from random import Random

import pytest

from cugen.toolchain.cuda import compile_cubin

TEXT = """
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [{a}], dtype: {dtype}}}
  B: {{shape: [{b}], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = sum(A[{i}] * B[{j}], k)
"""
MAX_SPILL_BYTES = 32  # of a thread, of registers that no main loop uses


def drawn(seed: int) -> str:
    random = Random(seed)
    dtype = random.choice(("float16", "bfloat16"))
    sizes = [str(random.randint(200, 6000) | 1) for _ in range(3)]
    m, n, k = ("dynamic",) * 3 if random.random() < 0.3 else sizes
    a, b = random.choice(("m, k", "k, m")), random.choice(("n, k", "k, n"))
    return TEXT.format(m=m, n=n, k=k, a=a.upper(), b=b.upper(), i=a, j=b, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
@pytest.mark.parametrize("target", ["sm_90", pytest.param("sm_89", marks=pytest.mark.slow)])
def test_gemms_with_unaligned_rows_do_not_spill(made, seed, target):
    kernel = made(f"target: {target}\n{drawn(seed)}")
    compiled = compile_cubin(kernel.source, kernel.name, target)
    assert max(resources.spill_stores for resources in compiled.kernels.values()) <= MAX_SPILL_BYTES


CONVOLUTION = """
target: sm_90
params: {{N: 64, C: {channels}, F: {features}, D: 16, H: 32, W: 32, R: {taps}}}
arrays:
  x: {{shape: [N, C, D, H, W], dtype: bfloat16}}
  w: {{shape: [F, C, R, R, R], dtype: bfloat16}}
  y: {{shape: [N, F, D - R + 1, H - R + 1, W - R + 1], dtype: bfloat16}}
compute: y[n, f, i, j, k] = sum(x[n, c, i + r, j + s, k + t] * w[f, c, r, s, t], c, r, s, t)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "features", "taps"), [(3, 16, 3), (3, 64, 5), (1, 32, 7)])
def test_windows_of_few_channels_in_three_dimensions_do_not_spill(made, channels, features, taps):
    """A thread keeps what it computes of each element's subscripts in the prologue."""
    kernel = made(CONVOLUTION.format(channels=channels, features=features, taps=taps))
    assert "gemm" in [launch.family for launch in kernel.plan.kernels]
    compiled = compile_cubin(kernel.source, kernel.name, "sm_90a")
    assert max(resources.spill_stores for resources in compiled.kernels.values()) <= MAX_SPILL_BYTES
