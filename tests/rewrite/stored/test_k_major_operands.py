"""Operands of tensor cores that are gathered element by element are copied first, contiguous along K."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.rewrite.stored import k_major_operands
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec


def spec_of(a: str, b: str, dtype: str = "int8", target: str = "sm_80", size: int = 2048, batch: int = 1) -> Spec:
    shapes = [", ".join(name.upper() for name in operand.split(", ")) for operand in (a, b)]
    (spec,) = load_text(f"""
cugen: 1
kernel: f
target: {target}
params: {{B: {batch}, M: {size}, N: {size}, K: {size}}}
arrays:
  x: {{shape: [{shapes[0]}], dtype: {dtype}}}
  w: {{shape: [{shapes[1]}], dtype: {dtype}}}
  y: {{shape: [B, M, N], dtype: {"int32" if dtype == "int8" else "float32"}}}
compute: y[b, m, n] = sum(x[{a}] * w[{b}], k)
""")
    return spec


def families(kernel: Kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("a", "b", "dtype", "copies"),
    [
        ("b, m, k", "b, n, k", "int8", 0),
        ("b, m, k", "b, k, n", "int8", 1),
        ("b, k, m", "k, n", "int8", 2),
        ("b, k, m", "b, k, n", "float16", 0),
        ("m, k, b", "b, k, n", "float16", 1),
        ("m, k, b", "k, n", "bfloat16", 1),
    ],
)
def test_what_is_gathered_is_copied_where_that_pays_off(a: str, b: str, dtype: str, copies: int) -> None:
    kernel = generate(spec_of(a, b, dtype, batch=4))
    *others, last = families(kernel)
    assert (len(others), last) == (copies, "gemm")
    assert any("tensor cores by" in reason for reason in kernel.plan.kernels[-1].reasons)


def test_both_factors_of_a_gram_matrix_are_one_copy() -> None:
    spec = spec_of("b, k, m", "b, k, n", batch=1)
    text = spec.text.replace("w[b, k, n]", "x[b, k, n]").replace("  w: {shape: [B, K, N], dtype: int8}\n", "")
    (spec,) = load_text(text.replace("M: 2048, N: 2048", "M: 2048, N: M"))
    assert families(generate(spec)) == ["transpose", "gemm"]


@pytest.mark.parametrize("size", [32, 256])
def test_products_of_few_terms_are_read_as_they_are(size: int) -> None:
    assert "transpose" not in families(generate(spec_of("b, k, m", "b, k, n", size=size)))


@pytest.mark.covering
@pytest.mark.parametrize(("a", "b", "dtype"), [("b, k, m", "k, n", "int8"), ("m, k, b", "b, k, n", "float16")])
@pytest.mark.parametrize("size", [128, 131])
def test_results_of_copies_are_right(monkeypatch, a: str, b: str, dtype: str, size: int) -> None:
    monkeypatch.setattr(k_major_operands, "_MIN_GAIN", 0)
    spec = spec_of(a, b, dtype, size=size, batch=3)
    kernel = generate(spec)
    assert len(families(kernel)) > 1, families(kernel)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("b", ["b, n, k", "b, k, n"])
def test_zeros_follow_an_odd_k_of_bytes(b: str) -> None:
    kernel = generate(spec_of("b, m, k", b, "int8", size=4095))
    *others, last = families(kernel)
    assert (len(others), last) == (2, "gemm")
    (shape, *_) = [array.shape for array in kernel.context.spec.arrays if array.name == "x_rows"]
    assert getattr(shape[-1], "value", None) == 4096


def test_zeros_follow_no_odd_k_of_16_bits() -> None:
    """Whose product spills registers then."""
    assert families(generate(spec_of("b, m, k", "b, n, k", "float16", size=4095))) == ["gemm"]


@pytest.mark.parametrize("b", ["b, n, k", "b, k, n"])
def test_results_of_copies_with_zeros_are_right(monkeypatch, b: str) -> None:
    monkeypatch.setattr(k_major_operands, "_MIN_GAIN", 0)
    (spec,) = load_text(spec_of("b, m, k", b, "int8", size=131).text.replace("sum(", "3 - sum("))
    kernel = generate(spec)
    assert len(families(kernel)) == 3
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.parametrize("terms", [1000, 1001, 1004])
def test_copies_of_aligned_rows_end_with_zeros(monkeypatch, terms: int) -> None:
    # Rows of K elements begin at multiples of 16 bytes, and the copies have the next multiple of 16 elements.
    monkeypatch.setattr(k_major_operands, "_MIN_GAIN", 0)
    text = spec_of("m, k", "k, n", target="sm_90", size=72).text.replace("K: 72", f"K: {terms}")
    text = text.replace("[M, K], dtype: int8", "[M, K], dtype: int8, pitch: {align: 16}").replace("[B, M, N]", "[M, N]")
    (spec,) = load_text(text.replace("y[b, m, n]", "y[m, n]").replace("B: 1, ", ""))
    kernel = generate(spec)
    assert kernel.source.count("x_rows") > 1
    device = CpuDevice(sanitize=True, workers=1)
    assert verify(spec, kernel.source, kernel.manifest, device).verification.passed
