"""Terms that are the same throughout are outside of sums of products."""

from __future__ import annotations

import pytest

from cugen.rewrite.sums.invariant_terms import with_invariant_terms
from cugen.spec.expressions import Op, Reduce, walk
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.spec.separate_terms import separate_terms


def spec_of(compute: str) -> Spec:
    (spec,) = load_text(f"""
cugen: 1
kernel: f
params: {{M: 20, N: 30, K: 40}}
arrays:
  a: {{shape: [M, K], dtype: float32}}
  b: {{shape: [K, N], dtype: float32}}
  c: {{shape: [N], dtype: float32}}
  v: {{shape: [K], dtype: float32}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = {compute} + c[n] * v[0] * a[m, 0] * b[0, n]
""")
    return spec


def summed(spec: Spec) -> list[int]:
    """The terms of each sum."""
    sums = [node for node in walk(spec.statements[0].value) if isinstance(node, Reduce)]
    return [len(separate_terms(node)) or 1 for node in sums]


@pytest.mark.parametrize(
    ("compute", "terms"),
    [
        ("sum(a[m, k] * b[k, n] + c[n], k)", 1),
        ("sum(2 - a[m, k] * b[k, n] - c[n] / K, k)", 1),
        ("relu(sum(a[m, k] * c[n] * b[k, n] - (c[n] - v[k]), k))", 2),
    ],
)
def test_invariant_terms_of_a_sum_of_products_are_moved_out(compute: str, terms: int) -> None:
    assert summed(with_invariant_terms(spec_of(compute))) == [terms]


@pytest.mark.parametrize(
    "compute",
    [
        "sum(a[m, k] * v[k] + c[n], k)",  # rows: no GEMM
        "sum((a[m, k] - c[n]) * (b[k, n] - c[n]), k)",
        "sum(abs(a[m, k] - c[n]), k)",
        "max(a[m, k] * b[k, n] + c[n], k)",
        "sum(a[m, k] * b[k, n] + c[n], k, where=k < m)",  # as many as the condition allows
        "sum(a[m, k] * b[k, n] + v[k], k)",
    ],
)
def test_other_terms_are_left(compute: str) -> None:
    spec = spec_of(compute)
    assert with_invariant_terms(spec) is spec


def test_the_first_term_is_not_negative() -> None:
    value = with_invariant_terms(spec_of("sum(c[n] - a[m, k] * b[k, n], k)")).statements[0].value
    assert not any(isinstance(node, Op) and node.name == "neg" for node in walk(value))
