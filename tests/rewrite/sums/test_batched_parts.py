"""Sums over several indices are GEMMs in a batch, whose results are added, where copies of operands move more bytes."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.rewrite.sums import batched_parts
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text


def kernel_of(sizes: str, a: str, b: str, dtype: str, target: str = "sm_90a", result: str = "float32") -> Kernel:
    """Of arrays with dimensions such as `b, m, k`."""
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: {target}
params: {{{sizes}}}
arrays:
  x: {{shape: [{a.upper()}], dtype: {dtype}}}
  y: {{shape: [{b.upper()}], dtype: {dtype}}}
  s: {{shape: [N], dtype: {result}}}
  z: {{shape: [M, N], dtype: {result}}}
compute: z[m, n] = sum(x[{a}] * y[{b}], b, k) - s[n]
""")
    return generate(spec, analysis=False)


def families(kernel: Kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "a", "b", "dtype"),
    [
        ("B: 32, M: 512, N: 512, K: 4096", "b, m, k", "b, n, k", "float16"),
        ("B: 64, M: 256, N: 256, K: 3136", "b, m, k", "b, k, n", "bfloat16"),
        ("B: 8, M: 64, N: 64, K: 65536", "b, m, k", "b, n, k", "float32"),
    ],
)
def test_parts_of_a_batch_are_added(sizes: str, a: str, b: str, dtype: str) -> None:
    """As of the gradient by the weights of a convolution of 1 x 1 taps."""
    first, second = families(kernel_of(sizes, a, b, dtype))
    assert first in ("gemm", "wgmma")
    assert second in ("reduce", "rowwise")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "a", "b"),
    [
        ("B: 32, M: 4096, N: 4096, K: 128", "b, m, k", "b, n, k"),  # parts move more than operands
        ("B: 32, M: 512, N: 512, K: 4096", "m, b, k", "n, b, k"),  # the sum is over one fused index
    ],
)
def test_other_sums_are_one_gemm(sizes: str, a: str, b: str) -> None:
    assert families(kernel_of(sizes, a, b, "float16"))[-1] == "wgmma"


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("a", "b"), [("b, m, k", "b, n, k"), ("m, b, k", "k, b, n"), ("b, k, m", "n, b, k")])
@pytest.mark.parametrize(("dtype", "result"), [("float16", "float16"), ("float32", "float32"), ("int8", "int32")])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_parts_give_the_results_of_their_sum(monkeypatch, a: str, b: str, dtype: str, result: str, target: str) -> None:
    monkeypatch.setattr(batched_parts, "MIN_MULTIPLY_ADDS", 1)
    kernel = kernel_of("B: 3, M: 41, N: 24, K: 72", a, b, dtype, target, result)
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


def test_parts_are_not_those_of_an_index_by_which_all_of_their_terms_have_the_same_factor() -> None:
    """As of a tensor times a Khatri-Rao product, whose GEMM would multiply each term by it."""
    (spec,) = load_text("""
cugen: 1
kernel: f
target: sm_90a
params: {I: 300, J: 301, K: 303, R: 16}
arrays:
  x: {shape: [I, J, K], dtype: float32}
  b: {shape: [J, R], dtype: float32}
  c: {shape: [K, R], dtype: float32}
  y: {shape: [I, R], dtype: float32}
compute: y[i, r] = sum(x[i, j, k] * b[j, r] * c[k, r], j, k)
""")
    assert families(generate(spec, analysis=False)) == ["map", "gemm"]
